"""Kernels whose code is there: found by what they are made of, before anything of them is emitted.

The object of a kernel has the digest of its TIR for a name (``codegen.units``). To know that name,
the TIR must be made, which takes longer than all else in the build of a small program. So the name
is kept, too, under a digest of whatever TIR is made from: the group as a graph, the choice among
its variants, what templates ask of the machine, and the source of this package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import tvm
import tvm_ffi

from tvm_disc.digests import digest_of_package
from tvm_disc.schedules.dispatch.choose import Choice
from tvm_disc.schedules.dispatch.signature import canonical_text
from tvm_disc.schedules.dispatch.tree import features, to_json
from tvm_disc.schedules.gemm.vendor import FAMILY
from tvm_disc.schedules.kernel import Kernel, Machine
from tvm_disc.tir.builder import index_var

# What the choice tells, what kernels share, and what keeps a kernel from being known at all.
_OTHERS = ("records", "trees", "micro", "templates", "device", "code")


@dataclass(frozen=True)
class Known:
    """The code of a kernel.

    Attributes:
        symbol: the name of its entry.
        unit: the key of its unit.
    """

    symbol: str
    unit: str

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return json.dumps([self.symbol, self.unit]).encode()

    @staticmethod
    def of(data: bytes | None) -> Known | None:
        """From :meth:`to_bytes`; None for anything else."""
        try:
            found = json.loads(data or b"")
        except ValueError:
            return None
        texts = isinstance(found, list) and all(isinstance(text, str) for text in found)
        return Known(*found) if texts and len(found) == 2 else None


def making_of(kernel: Kernel, machine: Machine) -> str | None:
    """A digest of what the TIR of a kernel is made from, but the target; None where that is not
    all told: templates of a user's own, libraries of this process, devices."""
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


def _renamed(function: Any, names: Mapping[Any, Any]) -> Any:
    """The group with these symbols. ``bind_symbolic_vars`` would infer types anew, and Relax's own
    inference refuses operands that kernels take, as places of 32 bits."""
    return tvm_ffi.structural_map(
        function, (tvm.ir.Var, lambda var: names.get(var, var)), order="post"
    )


def _choice(choice: Choice, names: Mapping[Any, Any]) -> Any:
    """The variants and the tree, whatever a program calls the symbols of the group."""
    asked = features(choice.tree)
    texts = {k: canonical_text(choice.features[k][0], names) for k in asked}
    variants = [v.to_json() for v in choice.variants]
    questions = [texts.get(k, "") for k in range(len(choice.features))]
    return [variants, to_json(choice.tree, questions, [*range(len(variants))])]


__all__ = ["Known", "making_of"]
