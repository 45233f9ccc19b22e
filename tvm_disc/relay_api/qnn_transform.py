"""``relay.qnn.transform``: quantized operators compile directly, so no lowering is needed."""

from __future__ import annotations

from tvm_disc.relay_api.transform import FunctionPass, Sequential
from tvm_disc.relay_api.transform import Legalize as _Legalize


def CanonicalizeOps() -> FunctionPass:
    """Return a pass that applies the functions registered as ``FTVMQnnCanonicalize``."""
    return _Legalize("FTVMQnnCanonicalize")


def Legalize() -> Sequential:
    """Return a pass that applies the functions registered as ``FTVMQnnLegalize``, then
    ``FTVMQnnCanonicalize``.
    """
    return Sequential([_Legalize("FTVMQnnLegalize"), CanonicalizeOps()])


__all__ = ["CanonicalizeOps", "Legalize"]
