"""``relay.qnn.transform``: no lowering is needed, since quantized operators compile directly."""

from __future__ import annotations

from tvm_disc.relay_api.transform import InferType, Pass


def CanonicalizeOps() -> Pass:
    """Return ``InferType``: the compiler accepts quantized operators."""
    return InferType()


def Legalize() -> Pass:
    """Return ``InferType``: the compiler accepts quantized operators."""
    return InferType()


__all__ = ["CanonicalizeOps", "Legalize"]
