"""Arithmetic that is rounded as written: compilers do not contract it to FMAs."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.tir.builder import dtype_of, element_dtype, with_lanes
from tvm_disc.tir.llvm_ops import emitting_for
from tvm_disc.typing import Expr

_ON_DEVICE = {"float32": "__fsub_rn", "float64": "__dsub_rn"}


def difference(x: Expr, y: Expr) -> Expr:
    """Return ``x - y`` of floats, with ``x`` rounded before the subtraction.

    If ``x = a * b`` and ``y`` is the maximum of ``x``, a fused multiply-subtract would return the
    rounding error of the product, up to half a unit in the last place, instead of 0. For a product
    of 2^40, the error is up to 2^15, and its exponential is infinite.
    """
    dtype = dtype_of(x)
    if element_dtype(x) not in _ON_DEVICE:
        exact = with_lanes("float32", x)
        return tirx.Cast(dtype, difference(tirx.Cast(exact, x), tirx.Cast(exact, y)))
    isa = emitting_for()
    if isa is not None and isa.device:
        return tirx.call_pure_extern(dtype, _ON_DEVICE[dtype], x, y)
    return tirx.call_llvm_pure_intrin(dtype, "llvm.arithmetic.fence", x) - y


__all__ = ["difference"]
