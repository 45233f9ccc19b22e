"""Element-wise operators of PyTorch, with its type promotion."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import check, tensors  # noqa: E402

F = torch.nn.functional
SIZES = (5, 2, 3, 17, 1025)


def test_functions_of_real_numbers() -> None:
    def many(x: Any) -> Any:
        # Not too near 1, where asin makes a thousand units in the last place of one.
        small = torch.tanh(x)
        return (
            torch.exp(small), torch.expm1(small * 1e-3), torch.log1p(small.abs() * 1e-4),
            torch.sin(x), torch.cos(x), torch.tan(small), torch.asin(small * 0.9), torch.atan(x),
            torch.sinh(small), torch.cosh(small), torch.asinh(x), torch.erf(x), torch.sqrt(x.abs()),
            torch.rsqrt(x.abs() + 0.1), torch.log(x.abs() + 0.1), torch.log2(x.abs() + 0.1),
            torch.reciprocal(x + 9), torch.sigmoid(x), torch.exp2(small), torch.square(x),
        )  # fmt: skip

    check(many, [tensors((n, 3)) for n in SIZES], "n _", tolerance=1e-5)


def test_rounding() -> None:
    def many(x: Any) -> Any:
        return (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), x.sign(), x.abs(), -x,
                torch.round(x, decimals=1), x.to(torch.int32), x.to(torch.bool))  # fmt: skip

    halves = torch.tensor([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.49, -0.7, 7.0])
    check(many, [(halves.repeat(k),) for k in (2, 1, 3, 11, 64)], "n")


def test_activations() -> None:
    def many(x: Any) -> Any:
        return (
            F.relu(x), F.relu6(x * 4), F.leaky_relu(x, 0.2), F.elu(x, 1.5), F.selu(x), F.celu(x),
            F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x),
            F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x, -0.5, 0.7), F.logsigmoid(x),
            F.softsign(x), F.tanhshrink(x), F.softshrink(x), F.hardshrink(x),
            F.threshold(x, 0.1, 2.0),
            F.glu(x, -1), F.prelu(x, torch.tensor([0.3])),
        )  # fmt: skip

    check(many, [tensors((n, 4)) for n in SIZES], "n _")


def test_not_a_number_goes_through() -> None:
    def many(x: Any) -> Any:
        return (x.clamp(-1, 1), torch.isnan(x), torch.isinf(x), torch.isfinite(x),
                torch.nan_to_num(x), torch.relu(x), torch.maximum(x, -x),
                torch.fmax(x, -x))  # fmt: skip

    row = torch.tensor([1.5, math.nan, math.inf, -math.inf, -0.5])
    check(many, [(row.repeat(k),) for k in (2, 1, 5, 13, 100)], "n")


def test_arithmetic_between_types() -> None:
    def many(x: Any, i: Any, b: Any) -> Any:
        return (
            x + i, x * b, i + b, i / 2, i / i.abs().clamp(min=1), i // 2, i % 3, x % 0.7,
            torch.fmod(x, 0.7), torch.remainder(i, -3), i * 2.5, i + 1, b + b, b * b, x + True,
            torch.div(i, 3, rounding_mode="floor"), torch.div(i, 3, rounding_mode="trunc"),
            torch.div(x, 0.3, rounding_mode="trunc"), 2 - i, 1 / (x.abs() + 1),
            torch.add(x, i, alpha=3), i.to(torch.float64) + x, i.to(torch.int8) + 1,
            b.square(), i.square(),
        )  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, y = tensors((n, 3), (n, 3))
        return x, (y * 4).to(torch.int64), y > 0

    check(many, [given(n) for n in SIZES], "n _", "n _", "n _")


def test_comparisons_and_logic() -> None:
    def many(x: Any, i: Any) -> Any:
        a, b = x > 0, i <= 1
        return (
            x == i, x != 0.5, x < i, i >= 2, x.eq(x), a & b, a | b, a ^ b, ~a,
            torch.logical_and(x, i),
            torch.logical_not(i), i & 3, i | 8, i ^ 5, ~i, i << 2, i >> 1, torch.where(a, x, i),
            torch.where(b, 1.0, x), x.masked_fill(a, -1.0), a == b, a < b,
        )  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, y = tensors((n, 3), (n, 3))
        return x, (y * 4).to(torch.int64)

    check(many, [given(n) for n in SIZES], "n _", "n _")


def test_powers() -> None:
    def many(x: Any, i: Any) -> Any:
        a = x.abs() + 0.1
        return (x**2, x**3, a**0.5, a**-0.5, a**-1, a**-2, a**1.7, 2.0**x, a**x, i**2, i**3,
                torch.float_power(a, 2), torch.pow(i, torch.tensor(2)), x**0, x**1,
                2**i, (-2) ** i, torch.pow(i, -1 - i % 2), torch.pow(0, i))  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, y = tensors((n, 3), (n, 3))
        return x, (y * 4).to(torch.int64)

    check(many, [given(n) for n in SIZES], "n _", "n _")


def test_functions_of_two() -> None:
    def many(x: Any, y: Any) -> Any:
        return (
            torch.atan2(x, y), torch.hypot(x, y), torch.copysign(x, y), torch.lerp(x, y, 0.3),
            torch.lerp(x, y, torch.sigmoid(y)), torch.addcmul(x, y, y, value=0.5),
            torch.addcdiv(x, y, y.abs() + 1), torch.logaddexp(x, y), torch.logaddexp2(x, y),
            torch.minimum(x, y), torch.maximum(x, y), x.clamp(min=y),
            torch.clamp(x, -y.abs(), y.abs()),
        )  # fmt: skip

    check(many, [tensors((n, 3), (1, 3)) for n in SIZES], "n _", "_ _")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_floats(dtype: str) -> None:
    def many(x: Any) -> Any:
        return x * 2 + 1, torch.exp(torch.tanh(x)), F.gelu(x), x.sum(-1), F.softmax(x, -1)

    tolerance = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    cases = [tensors((n, 16), dtype=dtype) for n in (5, 2, 3, 17, 129)]
    check(many, cases, "n _", tolerance=tolerance)
