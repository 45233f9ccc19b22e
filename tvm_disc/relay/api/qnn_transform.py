"""``relay.qnn.transform``: quantised operators compile as they are."""

from __future__ import annotations

from tvm_disc.relay.transform import InferType, Pass


def CanonicalizeOps() -> Pass:
    """The module with its types: the compiler itself takes quantised operators."""
    return InferType()


def Legalize() -> Pass:
    """The module with its types: the compiler itself takes quantised operators."""
    return InferType()


__all__ = ["CanonicalizeOps", "Legalize"]
