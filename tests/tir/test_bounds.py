"""Bounds hold for all values of small variables, and settled conditions are equivalent."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tvm import tirx

from tvm_disc.tir.bounds import UNKNOWN, KnownBounds
from tvm_disc.tir.builder import Block, dtype_of, i64, index_var

RANGES = {"a": (0, 3), "b": (-2, 2), "c": (1, 4)}
ARITHMETIC = {
    tirx.Add: lambda x, y: x + y,
    tirx.Sub: lambda x, y: x - y,
    tirx.Mul: lambda x, y: x * y,
    tirx.Min: min,
    tirx.Max: max,
    tirx.Div: lambda x, y: int(x / y),
    tirx.FloorDiv: lambda x, y: x // y,
    tirx.Mod: lambda x, y: x - int(x / y) * y,
    tirx.FloorMod: lambda x, y: x % y,
}
COMPARED = {
    tirx.LT: lambda x, y: x < y,
    tirx.LE: lambda x, y: x <= y,
    tirx.GT: lambda x, y: x > y,
    tirx.GE: lambda x, y: x >= y,
    tirx.EQ: lambda x, y: x == y,
    tirx.NE: lambda x, y: x != y,
    tirx.And: lambda x, y: x and y,
    tirx.Or: lambda x, y: x or y,
}


def number(rng: random.Random, names: dict[str, Any], depth: int) -> Any:
    """Draw an integer expression."""
    if not depth or rng.random() < 0.2:
        return rng.choice([*names.values(), i64(rng.randint(-1, 4))])
    if rng.random() < 0.15:
        parts = [number(rng, names, depth - 1) for _ in range(2)]
        return tirx.Select(condition(rng, names, 0), *parts)
    kind = rng.choice(list(ARITHMETIC))
    return kind(number(rng, names, depth - 1), number(rng, names, depth - 1))


def condition(rng: random.Random, names: dict[str, Any], depth: int) -> Any:
    """Draw a condition."""
    if depth and rng.random() < 0.6:
        if rng.random() < 0.3:
            return tirx.Not(condition(rng, names, depth - 1))
        kind = rng.choice([tirx.And, tirx.Or])
        return kind(condition(rng, names, depth - 1), condition(rng, names, depth - 1))
    kind = rng.choice(list(COMPARED)[:6])
    return kind(rng.choice(list(names.values())), number(rng, names, 1))


def value(expr: Any, at: dict[str, int]) -> Any:
    """Evaluate an expression in Python; raises ZeroDivisionError."""
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Var):
        return at[expr.name]
    if isinstance(expr, tirx.Not):
        return not value(expr.a, at)
    if isinstance(expr, tirx.Select):
        return value(expr.true_value if value(expr.condition, at) else expr.false_value, at)
    return (ARITHMETIC | COMPARED)[type(expr)](value(expr.a, at), value(expr.b, at))


def points() -> Iterator[dict[str, int]]:
    """All values of the variables."""
    spans = [range(least, most + 1) for least, most in RANGES.values()]
    for chosen in itertools.product(*spans):
        yield dict(zip(RANGES, chosen, strict=True))


def drawn() -> tuple[dict[str, Any], KnownBounds]:
    """Variables of known bounds."""
    names = {n: index_var(n) for n in RANGES}
    known = KnownBounds()
    for name, var in names.items():
        known.limit(var, RANGES[name])
    return names, known


def test_bounds_hold_for_all_values() -> None:
    names, known = drawn()
    rng, exact = random.Random(1), 0
    for _ in range(600):
        expr = number(rng, names, 3)
        least, most = known.of(expr)
        try:
            found = [value(expr, at) for at in points()]
        except ZeroDivisionError:
            continue
        assert least <= min(found) and max(found) <= most, expr
        exact += (least, most) == (min(found), max(found))
    assert exact > 150  # bounds say something


def test_settled_conditions_are_equivalent_where_they_are_used() -> None:
    names, known = drawn()
    rng, literals, narrower = random.Random(2), 0, 0
    for _ in range(1000):
        outer, inner = condition(rng, names, 1), condition(rng, names, 1)
        holds = rng.random() < 0.5
        expr = number(rng, names, 2)
        alone = known.settled(inner)
        with known.assuming(outer, holds):
            settled = known.settled(inner)
            bounds = known.of(expr)
        literals += isinstance(settled, tirx.IntImm) and not isinstance(alone, tirx.IntImm)
        narrower += bounds != known.of(expr)
        for at in points():
            try:
                if bool(value(outer, at)) == holds:
                    assert bool(value(settled, at)) == bool(value(inner, at)), (outer, holds, inner)
                    assert bounds[0] <= value(expr, at) <= bounds[1], (outer, holds, expr)
                assert bool(value(alone, at)) == bool(value(inner, at)), inner
            except ZeroDivisionError:
                pass
    assert literals > 20 and narrower > 20
    assert all(known.of(var) == RANGES[n] for n, var in names.items())  # assumptions are undone


def test_a_minimum_narrows_its_operands() -> None:
    a, b, least = (index_var(n) for n in ("a", "b", "least"))
    known = KnownBounds()
    known.define(least, tirx.Min(a, b))
    with known.assuming(tirx.GE(least, i64(8))):
        assert known.of(a) == known.of(b) == (8, UNKNOWN[1])
        assert known.settled(tirx.GE(tirx.Min(a, b), i64(8))).value
    assert known.of(a) == UNKNOWN


def test_a_chain_of_minima_takes_few_steps() -> None:
    """Each minimum uses the two before it, so that a walk without a limit takes 2^n steps."""
    known = KnownBounds()
    one, other = index_var("one"), index_var("other")
    for _ in range(200):
        least = index_var("least")
        known.define(least, tirx.Min(one, other))
        one, other = least, one
    with known.assuming(tirx.GE(one, i64(8))):
        assert known.of(other) == (8, UNKNOWN[1])


@pytest.mark.parametrize("kind", [tirx.And, tirx.Or])
def test_conditions_that_share_operands_take_few_steps(kind: type) -> None:
    """Each level uses the one below twice, so that a walk over all paths takes 2^40 steps."""
    known, x, y = KnownBounds(), index_var("x"), index_var("y")
    known.limit(y, (0, 3))
    cond = kind(kind(x < i64(8), y < i64(2)), y < i64(4) if kind is tirx.And else y < i64(0))
    for _ in range(40):
        cond = kind(cond, cond)
    holds = kind is tirx.And
    with known.assuming(cond, holds):
        assert known.of(x) == ((UNKNOWN[0], 7) if holds else (8, UNKNOWN[1]))
        assert known.of(y) == ((0, 1) if holds else (2, 3))
        assert bool(known.settled(cond).value) == holds
    settled = known.settled(cond)  # without the operand that bounds determine
    for _ in range(40):
        assert settled.a.same_as(settled.b)
        settled = settled.a
    assert type(settled.a) is type(settled.b) is tirx.LT and known.of(x) == UNKNOWN


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32"])
def test_other_types_are_unknown(dtype: str) -> None:
    x = tirx.Var("x", dtype)
    assert KnownBounds().of(x - x) == UNKNOWN


def test_literals_keep_their_type() -> None:
    block, three = Block(), tirx.IntImm("int32", 3)
    value = block.bind("three", tirx.Select(index_var("n") < 8, three, three))
    assert dtype_of(value) == "int32"


def test_a_loop_of_one_iteration_is_its_body() -> None:
    block, out = Block(), Block().alloc("out", 4, "int64")
    with block.loop("once", 1, begin=2) as once:
        block.store(out, once, once)
    with block.loop("i", 4) as i:
        with block.when(i < 4):
            block.store(out, i, i64(1))
        with block.otherwise():
            block.store(out, i, i64(2))
        with block.when(tirx.GE(i, i64(4))):
            block.store(out, i, i64(3))
    text = str(block.stmt())
    assert "once" not in text and "if " not in text
    assert text.count("out[") == 2


def test_the_other_branch_knows_that_the_condition_fails() -> None:
    block, out, n = Block(), Block().alloc("out", 4, "int64"), index_var("n")
    with block.when(n < 8), block.when(n < 9):
        block.store(out, 0, i64(1))
    with block.otherwise():
        with block.when(n >= 8):
            block.store(out, 0, i64(2))
        with block.when(n >= 9):
            block.store(out, 0, i64(3))
    text = str(block.stmt())
    assert text.count("if ") == 2 and "< 9" not in text and "9" in text
