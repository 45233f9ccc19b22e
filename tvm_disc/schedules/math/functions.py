"""Transcendental functions as TIR expressions that LLVM vectorizes.

TVM lowers ``T.exp`` and similar operators to one libm call per element. The functions here return
plain arithmetic instead: additions, multiplications, ``fma``, selects, shifts and reinterpretations
under nested ``Let``, without branches or calls. A serial loop over them is auto-vectorized, and a
``vectorized`` loop (any number of lanes) works too. Nothing is registered globally.

    B[i] = functions.exp(A[i])          # or functions.MATH["exp"]

Types: ``float32`` and ``float32xN`` are computed by this package, except lgamma, which calls libm.
``float16`` and ``bfloat16`` are computed in float32. For ``float64``, exp, log, sigmoid, silu and
tanh are computed by this package, too, and sqrt and rsqrt use the square root instruction. Other
functions call libm per element, with the accuracy of libm. The limits that the functions state are
those of float32. Other types raise ``TypeMismatch``.

Accuracy: ``ULP_BOUND`` states the largest error of each float32 function in units in the last place
of the exact result, over all finite arguments, including denormal arguments and results. Special
values follow C's Annex F: NaN gives NaN, signed zeros and infinities as in ``<math.h>``.
``sigmoid``, ``silu``, ``gelu_erf`` follow their formulas, so ``silu(-inf)`` and ``gelu_erf(-inf)``,
which are ``-inf * 0``, are NaN. For float32, ``sin``, ``cos``, ``tan`` are defined for ``|x| <
2^29`` and give NaN for other arguments, because a branch-free reduction for all floats would slow
down common arguments.

Rounding is not specified to the last bit: a target with fma rounds differently from one without.
``nearbyint`` and ``floor`` are single instructions from x86-64-v2 (SSE4.1) and on AArch64; on plain
x86-64 they are libm calls, which are correct but slow.

An expression returned here contains ``Let`` variables: insert it once, and bind it to a variable if
it is needed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm import tirx

from tvm_disc.errors import TypeMismatch
from tvm_disc.schedules.math import exponential as _e
from tvm_disc.schedules.math import trigonometric as _t
from tvm_disc.schedules.math.device import native_on_device
from tvm_disc.schedules.math.language import ScalarBody, dtype_of, libm, narrow, widen
from tvm_disc.typing import Expr

__all__ = [
    "MATH",
    "ULP_BOUND",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp_nonpositive",
    "expm1",
    "gelu_erf",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

Unary = Callable[[Expr], Expr]
_NARROW = ("float16", "bfloat16")


def _apply(name: str, x: Expr, f32: Unary, f64: Unary) -> Expr:
    dtype = dtype_of(x)[0]
    if dtype == "float32":
        return f32(x)
    if dtype == "float64":
        return f64(x)
    if dtype in _NARROW:
        return narrow(f32(widen(x)), dtype)
    raise TypeMismatch(
        f"{name} expects a floating point operand (float16, bfloat16, float32 or float64), "
        f"found {x.ty.dtype}: cast it first"
    )


def exp(x: Expr) -> Expr:
    """Return e^x; inf for x > 88.7228, exp(-inf) = 0; denormal results are accurate."""
    return _apply("exp", x, _e.exp, _e.exp)


def exp_nonpositive(x: Expr) -> Expr:
    """Return e^x for x <= 0 or NaN, as after subtracting a maximum, with the bound of ``exp``.

    On machines with a fused multiply-add and no AVX-512, results below the smallest normal float
    are 0. The code then has 14 operations; ``exp`` has 18, in a longer dependency chain.
    """
    return _apply("exp", x, _e.exp_nonpositive, _e.exp)


def exp2(x: Expr) -> Expr:
    """Return 2^x; exact for integral ``x``, inf for x >= 128, 0 for x <= -150."""
    return _apply("exp2", x, _e.exp2, tirx.exp2)


def log(x: Expr) -> Expr:
    """Return log(x); log(+-0) = -inf, NaN for x < 0, denormal arguments are not rounded to 0."""
    return _apply("log", x, _e.log, _e.log)


def log2(x: Expr) -> Expr:
    """Return log2(x); exact for powers of two; special values as ``log``."""
    return _apply("log2", x, _e.log2, tirx.log2)


def log10(x: Expr) -> Expr:
    """Return log10(x); special values as ``log``."""
    return _apply("log10", x, _e.log10, tirx.log10)


def log1p(x: Expr) -> Expr:
    """Return log(1+x), relatively accurate near 0.

    log1p(-1) = -inf, log1p(+-0) = +-0, NaN for x < -1.
    """
    return _apply("log1p", x, _e.log1p, libm("log1p"))


def erf(x: Expr) -> Expr:
    """Return the error function; odd, erf(+-inf) = +-1, erf(+-0) = +-0."""
    return _apply("erf", x, _e.erf, libm("erf"))


def erfc(x: Expr) -> Expr:
    """Return 1 - erf(x), relatively accurate even for denormal results; 0 for x > 10.06."""
    return _apply("erfc", x, _e.erfc, libm("erfc"))


def expm1(x: Expr) -> Expr:
    """Return e^x - 1, relatively accurate near 0.

    The result is inf for x > 88.7228, -1 for x < -17.4, and expm1(+-0) = +-0.
    """
    return _apply("expm1", x, _e.expm1, libm("expm1"))


def lgamma(x: Expr) -> Expr:
    """Return the logarithm of the absolute value of gamma(x), by one libm call per element.

    float32 is computed in float64, because libm's ``lgammaf`` has an error of 4 ulp near its
    negative zeros.
    """

    def wide(v: Expr) -> Expr:
        b = ScalarBody(v)
        return b.done(b.cast(libm("lgamma")(b.cast(b.x, "float64")), "float32"))

    return _apply("lgamma", x, wide, libm("lgamma"))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent; odd, +-1 for |x| > 9.02."""
    return _apply("tanh", x, _e.tanh, _e.tanh)


def sigmoid(x: Expr) -> Expr:
    """Return 1/(1+e^-x), relatively accurate even for denormal results; 0 for x < -103.98."""
    return _apply("sigmoid", x, _e.sigmoid, _e.sigmoid)


def silu(x: Expr) -> Expr:
    """Return x*sigmoid(x), relatively accurate for large negative x; silu(-inf) = -inf*0 = NaN."""
    return _apply("silu", x, _e.silu, lambda v: _twice(v, lambda w: w * _e.sigmoid(w)))


def gelu_erf(x: Expr) -> Expr:
    """Return x/2*(1+erf(x/sqrt(2))) without cancellation for negative x; NaN for x = -inf.

    float64 evaluates the formula, with cancellation.
    """

    def formula(w: Expr) -> Expr:
        dtype = str(w.ty.dtype)
        one, half = tirx.const(1.0, dtype), tirx.const(0.5, dtype)
        return half * w * (one + libm("erf")(w * tirx.const(0.7071067811865476, dtype)))

    return _apply("gelu_erf", x, _e.gelu_erf, lambda v: _twice(v, formula))


def sqrt(x: Expr) -> Expr:
    """Return the square root, correctly rounded; sqrt(-0) = -0, NaN for x < 0."""
    return _apply("sqrt", x, tirx.sqrt, tirx.sqrt)


def rsqrt(x: Expr) -> Expr:
    """Return 1/sqrt(x), by a square root and a division; rsqrt(+-0) = +-inf, rsqrt(inf) = 0."""

    def body(v: Expr) -> Expr:
        return tirx.const(1.0, str(v.ty.dtype)) / tirx.sqrt(v)

    return _apply("rsqrt", x, body, body)


def sin(x: Expr) -> Expr:
    """Return the sine; in float32 NaN for |x| >= 2^29."""
    return _apply("sin", x, _t.sin, tirx.sin)


def cos(x: Expr) -> Expr:
    """Return the cosine; in float32 NaN for |x| >= 2^29."""
    return _apply("cos", x, _t.cos, tirx.cos)


def tan(x: Expr) -> Expr:
    """Return the tangent; in float32 NaN for |x| >= 2^29."""
    return _apply("tan", x, _t.tan, libm("tan"))


def asin(x: Expr) -> Expr:
    """Return the arc sine; NaN for x outside [-1, 1]."""
    return _apply("asin", x, _t.asin, libm("asin"))


def acos(x: Expr) -> Expr:
    """Return the arc cosine; NaN for x outside [-1, 1], acos(1) = +0."""
    return _apply("acos", x, _t.acos, libm("acos"))


def atan(x: Expr) -> Expr:
    """Return the arc tangent; atan(+-inf) = +-pi/2."""
    return _apply("atan", x, _t.atan, libm("atan"))


def sinh(x: Expr) -> Expr:
    """Return the hyperbolic sine; +-inf for |x| > 89.416."""
    return _apply("sinh", x, _e.sinh, libm("sinh"))


def cosh(x: Expr) -> Expr:
    """Return the hyperbolic cosine; inf for |x| > 89.416."""
    return _apply("cosh", x, _e.cosh, libm("cosh"))


def asinh(x: Expr) -> Expr:
    """Return the inverse hyperbolic sine; odd."""
    return _apply("asinh", x, _e.asinh, libm("asinh"))


def acosh(x: Expr) -> Expr:
    """Return the inverse hyperbolic cosine; NaN for x < 1."""
    return _apply("acosh", x, _e.acosh, libm("acosh"))


def atanh(x: Expr) -> Expr:
    """Return the inverse hyperbolic tangent; atanh(+-1) = +-inf, NaN for |x| > 1."""
    return _apply("atanh", x, _e.atanh, libm("atanh"))


def pow(x: Expr, y: Expr | float) -> Expr:
    """Return ``x^y`` with all special cases of C's ``pow``.

    A constant exponent (a Python number or ``FloatImm``) of 0, 1, 2, 3, -1, 1/2 or -1/2 becomes
    multiplications, a division or a square root.
    """
    if isinstance(y, int | float):
        y = tirx.const(float(y), str(x.ty.dtype))
    if str(x.ty.dtype) != str(y.ty.dtype):
        raise TypeMismatch(
            f"pow expects operands of one type, found {x.ty.dtype} and {y.ty.dtype}: cast one"
        )
    scalar = y.value if isinstance(y, tirx.Broadcast) else y
    constant = float(scalar.value) if isinstance(scalar, tirx.FloatImm) else None

    def with_default(general: Unary) -> Unary:
        def body(v: Expr) -> Expr:
            special = None if constant is None else _e.pow_const(v, constant)
            return general(v) if special is None else special

        return body

    f32 = with_default(lambda v: _e.pow_general(v, widen(y)))
    return _apply("pow", x, f32, with_default(lambda v: tirx.pow(v, y)))


def _twice(x: Expr, use: Unary) -> Expr:
    b = ScalarBody(x)
    return b.done(use(b.x))


_PORTABLE: Mapping[str, Callable[..., Expr]] = MappingProxyType(
    {
        "acos": acos,
        "acosh": acosh,
        "asin": asin,
        "asinh": asinh,
        "atan": atan,
        "atanh": atanh,
        "cos": cos,
        "cosh": cosh,
        "erf": erf,
        "erfc": erfc,
        "exp": exp,
        "exp2": exp2,
        "expm1": expm1,
        "gelu_erf": gelu_erf,
        "lgamma": lgamma,
        "log": log,
        "log1p": log1p,
        "log2": log2,
        "log10": log10,
        "power": pow,
        "rsqrt": rsqrt,
        "sigmoid": sigmoid,
        "silu": silu,
        "sin": sin,
        "sinh": sinh,
        "sqrt": sqrt,
        "tan": tan,
        "tanh": tanh,
    }
)
MATH: Mapping[str, Callable[..., Expr]] = MappingProxyType(
    {
        name: native_on_device({"power": "pow"}.get(name, name), function)
        for name, function in _PORTABLE.items()
    }
)

# Largest error in ulp of the exact float32 result, with or without fma; docs/vecmath.md has the
# measured values.
ULP_BOUND: Mapping[str, float] = MappingProxyType(
    {
        "acos": 1.5,
        "acosh": 2.5,
        "asin": 2.5,
        "asinh": 4.0,
        "atan": 2.0,
        "atanh": 2.5,
        "cos": 2.5,
        "cosh": 2.0,
        "erf": 2.5,
        "erfc": 4.0,
        "exp": 1.5,
        "exp2": 1.5,
        "expm1": 2.0,
        "gelu_erf": 3.5,
        "lgamma": 1.0,
        "log": 1.5,
        "log1p": 2.0,
        "log2": 2.0,
        "log10": 2.0,
        "power": 1.5,
        "rsqrt": 1.5,
        "sigmoid": 3.0,
        "silu": 3.5,
        "sin": 2.5,
        "sinh": 2.0,
        "sqrt": 0.5,
        "tan": 3.0,
        "tanh": 3.0,
    }
)
