"""Native math functions of a device, which replace the arithmetic that the CPU code emits.

Their accuracy is that of the vendor's library. Without fast math, CUDA states errors of at most
2 ulp for the float32 functions used here, except ``asinhf``, ``atanhf`` and ``sinhf`` (3 ulp),
``acoshf``, ``erfcf``, ``powf`` and ``tanf`` (4), and ``lgammaf`` (6; more from -10.001 to -2.264).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.tir.builder import dtype_of
from tvm_disc.tir.llvm_ops import emitting_for
from tvm_disc.typing import Expr

Function: TypeAlias = Callable[..., Expr]

_HALF = "float16"


def _library(name: str) -> Function:
    """Return a function that emits a call of a C math function; float16 is computed in float32."""

    def call(*operands: Expr) -> Expr:
        dtype = dtype_of(operands[0])
        given = [tirx.Cast("float32", x) for x in operands] if dtype == _HALF else operands
        wide = "float32" if dtype == _HALF else dtype
        suffix = "f" if wide == "float32" else ""
        result = tirx.call_pure_extern(wide, f"{name}{suffix}", *given)
        return tirx.Cast(_HALF, result) if dtype == _HALF else result

    return call


def _own(name: str) -> Function:
    """Return a function that emits a call of a function that each device module defines.

    The call is in float32 or float64; float16 is computed in float32.
    """

    def call(x: Expr) -> Expr:
        dtype = dtype_of(x)
        given = tirx.Cast("float32", x) if dtype == _HALF else x
        result = tirx.call_pure_extern(dtype_of(given), f"disc_{name}", given)
        return tirx.Cast(_HALF, result) if dtype == _HALF else result

    return call


_LIBRARY = """acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1
lgamma log log1p log2 log10 rsqrt sin sinh sqrt tan tanh pow fmod""".split()
_OWN = ("sigmoid", "silu", "gelu_erf")
NATIVE: dict[str, Function] = {
    **{name: _library(name) for name in _LIBRARY},
    **{name: _own(name) for name in _OWN},
}


def native_on_device(name: str, otherwise: Function) -> Function:
    """Return a function that emits a native call of ``name`` on a device, else ``otherwise``."""
    native = NATIVE[name]

    @wraps(otherwise)
    def chosen(*operands: Any) -> Expr:
        isa = emitting_for()
        if isa is None or not isa.device:
            return otherwise(*operands)
        first = dtype_of(operands[0])
        return native(*(tirx.const(x, first) if isinstance(x, int | float) else x
                        for x in operands))  # fmt: skip

    return chosen


__all__ = ["NATIVE", "native_on_device"]
