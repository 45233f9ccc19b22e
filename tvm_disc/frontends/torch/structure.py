"""The nesting of arguments and results of an exported program, as JSON for the runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tvm_disc.frontends.torch.paths import parameter_names
from tvm_disc.typing import ExportedProgram

_PLAIN = (bool, int, float, str, type(None))


def structure_of(
    program: ExportedProgram, literals: Sequence[object], states: Sequence[str]
) -> str:
    """Return the structure as JSON, or an empty string.

    The string is empty if arguments and results are flat tensors, or if a constant or a class of
    them cannot be written as JSON.

    Args:
        program: the exported program.
        literals: for each leaf of the arguments, None if it is an input, or a tuple with its
            constant value.
        states: the names of the inputs that follow those of the user.
    """
    from torch.utils import _pytree as pytree

    given, result = program.call_spec.in_spec, program.call_spec.out_spec
    params = [c for group in given.children() for c in group.children()]
    outputs = _outputs(program)
    plain_in = all(c.is_leaf() for c in params) and not any(literals)
    # The structure is required for a flat result too if it has constants, which the program does
    # not return, or numbers, which the runtime converts to Python integers.
    flat = result.is_leaf() or (
        result.type is tuple and all(c.is_leaf() for c in result.children())
    )
    plain_out = flat and all(kind == "tensor" for kind, _ in outputs)
    if plain_in and plain_out:
        return ""
    values = [x for x in (*literals, *(v for kind, v in outputs if kind == "known")) if x]
    if not all(isinstance(v[0] if isinstance(v, tuple) else v, _PLAIN) for v in values):
        return ""
    try:
        specs = [pytree.treespec_dumps(s) for s in (given, result)]
    except RuntimeError:  # PyTorch cannot serialize a class
        return ""
    written = len(program.graph_signature.output_specs) - len(outputs)
    return json.dumps(
        {
            "arguments": specs[0],
            "result": None if plain_out else specs[1],
            "parameters": parameter_names(program),
            "literals": list(literals),
            "states": list(states),
            "outputs": outputs,
            "written": written,
        }
    )


def _outputs(program: ExportedProgram) -> list[tuple[str, object]]:
    """Return ("tensor", None), ("number", None) or ("known", value) for each leaf of the result."""
    found: list[tuple[str, Any]] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            continue
        kind = type(spec.arg).__name__
        if kind == "ConstantArgument":
            found.append(("known", spec.arg.value))
        else:
            found.append(("tensor" if kind == "TensorArgument" else "number", None))
    return found


__all__ = ["structure_of"]
