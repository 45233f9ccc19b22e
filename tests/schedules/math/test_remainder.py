"""Remainders and whole quotients of floats: those of NumPy, which are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

import tvm_disc
from tests.processor import run_on
from tvm_disc import relay
from tvm_disc.frontends.calc import op
from tvm_disc.schedules.math import remainder
from tvm_disc.schedules.math.language import is_literal
from tvm_disc.tir.builder import const

OPERATORS = {"mod": np.fmod, "floor_mod": np.mod, "floor_divide": np.floor_divide}
SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3e38, 1e-45)
LEVELS = (None, "llvm -mcpu=x86-64-v2", "llvm -mcpu=x86-64-v3")


def program(name: str, dtype: str, target: str | None = None) -> Any:
    x, y = (relay.var(n, shape=(relay.Any(),), dtype=dtype) for n in "xy")
    return tvm_disc.build(relay.Function([x, y], getattr(relay, name)(x, y)), target=target)


def far(size: int, dtype: str, seed: int, decades: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    powers = 10.0 ** rng.integers(-decades, decades + 1, size)
    return (rng.standard_normal(size) * powers).astype(dtype)


def check(name: str, found: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        wanted = OPERATORS[name](x, y)
    if name == "floor_divide":  # NumPy rounds quotients of many digits more than once
        np.testing.assert_allclose(found, wanted, rtol=3 * np.finfo(x.dtype).eps)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", OPERATORS)
def test_any_two_numbers(name: str, dtype: str, target: str | None) -> None:
    if target is not None:
        run_on(target.rpartition("=")[2])
    exe, decades = program(name, dtype, target), 2 if dtype == "float16" else 36
    for size in (0, 1, 7, 16, 33, 2000):
        x, y = far(size, dtype, size, decades), far(size, dtype, size + 1, decades)
        check(name, exe(x, y), x, y)
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    x, y = np.repeat(special, len(SPECIAL)), np.tile(special, len(SPECIAL))
    check(name, exe(x, y), x, y)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_quotient_just_below_a_whole_number(name: str) -> None:
    """The float 0.1 is above a tenth: 1 has nine of it, and nearly a tenth is left."""
    exe = program(name, "float32")
    x, y = np.arange(100, dtype="float32") / np.float32(2), np.full(100, 0.1, "float32")
    check(name, exe(x, y), x, y)
    assert exe(np.ones(1, "float32"), y[:1])[0] == OPERATORS[name](np.float32(1), y[0])


def test_by_a_constant() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    for divisor in (0.0, -0.0, 0.1, -3.0, np.inf):
        y = relay.const(np.float32(divisor))
        exe = tvm_disc.build(
            relay.Function([x], relay.Tuple([relay.mod(x, y), relay.divide(x, y)]))
        )
        a = np.array([0.5, -7.25, 0.0, np.inf], "float32")
        with np.errstate(all="ignore"):
            wanted = np.fmod(a, np.float32(divisor)), a / np.float32(divisor)
        for one, other in zip(exe(a), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("rule", [remainder.trunc_mod, remainder.floor_mod, remainder.floor_divide])
def test_a_literal_divisor_is_not_bound(rule: Any, dtype: str) -> None:
    """TVM's analyzer fails if it meets a variable that is first unknown, then a literal."""
    values: list[Any] = []
    found = rule(tirx.Var("x", dtype), const(0.7, dtype))
    tvm_ffi.structural_walk(found, (tirx.Let, lambda let: values.append(let.value)))
    assert values and not any(is_literal(v) for v in values)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("divisor", [0.05, 0.0078431377, 3.0, 1.1e-7, 2.0**-59, 7e17, 1e-19])
def test_rounded_quotients_of_a_literal(divisor: float, level: str) -> None:
    """They are those of a division, also next to ties and for special values."""
    x = relay.var("x", shape=(relay.Any(),))
    scale = np.float32(divisor)
    quotient = relay.divide(x, relay.const(scale))
    func = relay.Function([x], op("round_even", quotient))
    exe = tvm_disc.build(func, target={"kind": "llvm", "mcpu": level})
    divides = divisor == 1e-19 or (level == "x86-64-v2" and divisor != 2.0**-59)
    assert ("divps" in exe.source("asm")) == divides
    run_on(level)
    ties = (np.arange(-3000, 3000) + 0.5) * np.float64(scale)
    near = np.concatenate([np.nextafter(ties.astype("float32"), d) for d in (-np.inf, 0, np.inf)])
    given = np.concatenate([near, ties.astype("float32"), far(5000, "float32", 1, 3) * scale])
    special = np.array([*SPECIAL[:5], 1e30, -1e30, 1e-45, -1e-45], "float32")
    for values in (given, special):
        with np.errstate(all="ignore"):
            found, wanted = exe(values), np.rint(values / scale)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
