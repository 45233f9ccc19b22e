"""Check of Relax modules that are compiled directly."""

from __future__ import annotations

import re

import tvm
from tvm import relax

from tvm_disc.errors import TypeMismatch


def from_relax(mod: object) -> object:
    """Return the module unchanged, or raise TypeMismatch.

    A valid module has a Relax function `main` and is well formed.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeMismatch(f"expected a Relax module, found {type(mod).__name__}")
    if not mod.functions:
        raise TypeMismatch(
            "this tvm.IRModule is empty: TVM silently drops Relay functions; "
            "use tvm_disc.relay.IRModule"
        )
    names = {str(gv.name_hint): func for gv, func in mod.functions_items()}
    if not isinstance(names.get("main"), relax.Function):
        kind = type(names["main"]).__name__ if "main" in names else sorted(names)
        raise TypeMismatch(f"expected a Relax function 'main', found {kind}")
    try:
        relax.analysis.well_formed(mod)
    except (tvm.error.InternalError, ValueError, TypeError) as error:
        reason = _reason(str(error), mod)
        raise TypeMismatch(f"this Relax module is not well formed: {reason}") from error
    return mod


def _reason(text: str, mod: tvm.IRModule) -> str:
    """Return TVM's reason without addresses and the text of its check, with advice if one helps."""
    reason = text.strip().splitlines()[-1].rpartition(") is false: ")[2].rstrip(". ")
    reason = re.sub(r"^Function 0x[0-9a-f]+", "A function", reason)
    functions = [func for func in mod.functions.values() if isinstance(func, relax.Function)]
    found = [v for func in functions for v in relax.analysis.all_vars(func)]
    variables = {str(v.name) for v in found if not isinstance(v.ty, tvm.ir.PrimType)}
    name = reason.removeprefix("Var ").removesuffix(" is not defined")
    if reason != f"Var {name} is not defined" or name in variables:  # not about a symbol of a dim
        return reason
    return (
        f"{reason}; expected {name} as a whole dim of some input: replace an input dim such as "
        f"2 * {name} by a new symbol"
    )
