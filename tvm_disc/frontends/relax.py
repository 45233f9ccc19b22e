"""Check of Relax modules that are compiled directly."""

from __future__ import annotations

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
        raise TypeMismatch(f"expected a Relax function 'main', found {sorted(names)}")
    try:
        relax.analysis.well_formed(mod)
    except (tvm.error.InternalError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise TypeMismatch(
            f"this Relax module is not well formed: {reason}. "
            "A symbolic dim must occur alone in some input shape: rename a dim such as 2*n"
        ) from error
    return mod
