"""Cache of kernels that is searched before their TIR is generated.

The cache key of a kernel's object contains the digest of its TIR (``codegen.units``). For a small
program, the generation of this TIR takes longer than all other parts of the build. The key is
therefore also cached under a digest of all inputs of the TIR: the group's graph, the choice among
its variants, the machine properties that templates read, and this package's source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

import tvm
import tvm_ffi

from tvm_disc.schedules.dispatch.signature import canonical_text
from tvm_disc.schedules.dispatch.tree import features, to_json
from tvm_disc.schedules.dispatch.variant import Choice
from tvm_disc.schedules.gemm.vendor import FAMILY
from tvm_disc.schedules.kernel import Kernel, Machine
from tvm_disc.support.digests import digest_of_package
from tvm_disc.tir.builder import index_var
from tvm_disc.typing import TVMFunction, Var

# Machine fields that are not part of the key: the choice covers them, they are shared state, or
# kernels that use them are not cached.
_OTHERS = ("records", "trees", "micro", "templates", "device", "code")


@dataclass(frozen=True)
class Known:
    """The cached code of a kernel.

    Attributes:
        symbol: the name of its entry.
        unit: the key of its unit.
    """

    symbol: str
    unit: str

    def to_bytes(self) -> bytes:
        """Return the serialized form."""
        return json.dumps([self.symbol, self.unit]).encode()

    @staticmethod
    def of(data: bytes | None) -> Known | None:
        """Parse the form of :meth:`to_bytes`; None for anything else."""
        try:
            found = json.loads(data or b"")
        except ValueError:
            return None
        texts = isinstance(found, list) and all(isinstance(text, str) for text in found)
        return Known(*found) if texts and len(found) == 2 else None


def making_of(kernel: Kernel, machine: Machine) -> str | None:
    """Return a digest of a kernel's inputs except the target; None if they cannot be hashed
    completely.

    They cannot be hashed for user templates, vendor libraries loaded in this process, and GPUs.
    """
    if kernel.function is None or kernel.choice is None or machine.device is not None:
        return None
    if machine.templates or any(v.plan.family == FAMILY for v in kernel.choice.variants):
        return None
    asked = [(f.name, getattr(machine, f.name)) for f in fields(machine) if f.name not in _OTHERS]
    function, symbols = kernel.function
    names = {symbol: index_var(f"d{k}") for k, symbol in enumerate(symbols)}
    parts = (
        digest_of_package(),
        str(tvm.ir.save_json(_renamed(function, names))),
        json.dumps(_choice(kernel.choice, names)),
        repr(asked),
    )
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=20).hexdigest()


def _renamed(function: TVMFunction, names: Mapping[Var, Var]) -> object:
    """Return the group with symbols replaced by ``names``.

    ``bind_symbolic_vars`` is not used: it infers types again, and Relax's inference rejects some
    operands that kernels accept, such as int32 indices.
    """
    return tvm_ffi.structural_map(
        function, (tvm.ir.Var, lambda var: names.get(var, var)), order="post"
    )


def _choice(choice: Choice, names: Mapping[Var, Var]) -> object:
    """Return variants and decision tree, with the group's symbols replaced by canonical names."""
    asked = features(choice.tree)
    texts = {k: canonical_text(choice.features[k][0], names) for k in asked}
    variants = [v.to_json() for v in choice.variants]
    questions = [texts.get(k, "") for k in range(len(choice.features))]
    return [variants, to_json(choice.tree, questions, [*range(len(variants))])]


__all__ = ["Known", "making_of"]
