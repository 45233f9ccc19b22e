"""Laws of ragged dims, each checked by evaluation at all small values."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.relay_passes.propagation.context import substitute
from tvm_disc.relay_passes.ragged.forms import MERGED, RaggedDim, RaggedDims
from tvm_disc.relay_passes.ragged.inputs import rises_with
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64

LENGTHS = [lengths for n in range(4) for lengths in product(range(4), repeat=n)]


def _dims() -> tuple[RaggedDims, RaggedDim]:
    solver = Solver()
    b, s, t, least = (solver.symbol(n, f"input 'x' {n}") for n in ("b", "s", "t", "least"))
    offsets = Node("param", (), (b + 1,), "int64")
    dim = RaggedDim(b, s, t, least, ["x"], offsets)
    return RaggedDims([dim], solver), dim


DIMS, DIM = _dims()
B, S = DIM.items, DIM.size


def _sizes(shape: tuple[Any, ...], items: int, size: int) -> list[int]:
    """The shape for one item of ``size`` elements."""
    values = {"b": items, "s": size, "bs": items * size, "2bs": 2 * items * size}
    return [values.get(d, d) if isinstance(d, str) else d for d in shape]


def _exprs(shape: tuple[Any, ...]) -> list[Any]:
    exprs = {"b": B, "s": S, "bs": B * S, "2bs": B * S * 2}
    return [exprs[d] if isinstance(d, str) else i64(d) for d in shape]


SPLIT = sorted(
    {p for rest in ((), (1,), (2,), (2, 1), (2, 3)) for p in permutations(("b", "s", *rest))},
    key=str,
)
SHAPES = [*SPLIT, ("bs",), ("bs", 2), ("2bs",), ("2bs", 3), ("bs", 2, 3)]


def _packed(shape: tuple[Any, ...], values: list[np.ndarray]) -> np.ndarray:
    """The stored form: the rows of all items, one behind the other."""
    place = DIMS.place(_exprs(shape))
    assert place is not None
    rows = []
    for value in values:
        if place[1][1] == MERGED:
            rows.append(value)
        else:
            rows.append(np.moveaxis(value, place[1], (0, 1))[0])
    rest = [int(d.value) for d in DIMS.stored(_exprs(shape), *place)[1:]]
    return np.concatenate(rows) if rows else np.zeros((0, *rest))


def test_every_shape_has_its_place() -> None:
    for shape in SPLIT:
        assert DIMS.place(_exprs(shape)) == (DIM, (shape.index("b"), shape.index("s")))
    assert DIMS.place(_exprs(("bs", 2))) == (DIM, (0, MERGED))
    assert DIMS.place(_exprs(("2bs",))) == (DIM, (0, MERGED))
    for shape in ((2,), ("b", 2), ("s", 2), ("s", "s", "b"), (2, "bs")):
        assert DIMS.place(_exprs(shape)) is None, shape


def test_views_of_packed_values_are_views_of_each_item() -> None:
    """If ``same_place`` holds, the reshape of the stored form is the reshape of every item."""
    held = 0
    for before, after in product(SHAPES, SHAPES):
        if np.prod(_sizes(before, 1, 1)) != np.prod(_sizes(after, 1, 1)):
            continue
        one, other = DIMS.place(_exprs(before)), DIMS.place(_exprs(after))
        assert one is not None
        assert other is not None
        if not DIMS.same_place(_exprs(before), one[1], _exprs(after), other[1]):
            continue
        held += 1
        for lengths in LENGTHS:
            values = [
                np.random.default_rng(k).random(_sizes(before, 1, n)) for k, n in enumerate(lengths)
            ]
            found = _packed(before, values).reshape(-1)
            wanted = _packed(
                after,
                [v.reshape(_sizes(after, 1, v_n)) for v, v_n in zip(values, lengths, strict=True)],
            ).reshape(-1)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{before} as {after}")
    assert held > 100


def test_views_that_move_the_axes_are_not_claimed() -> None:
    for before, after in ((("b", "s", 2), ("b", 2, "s")), (("s", "b"), ("b", "s"))):
        places = [DIMS.place(_exprs(x)) for x in (before, after)]
        ats = [p[1] for p in places if p is not None]
        assert not DIMS.same_place(_exprs(before), ats[0], _exprs(after), ats[1])


CONDITIONS: list[tuple[Any, bool | None]] = [
    (S <= 3, False),
    (i64(3) < S, True),
    (S >= 1, True),
    (2 * S + 1 < 4, False),
    (S * 3 <= S + 4, False),
    (tirx.EQ(S, i64(2)), None),
    (tirx.floormod(S, i64(2)) <= 0, None),
    (S * S <= 4, None),
    (tirx.Or(S >= 2, tirx.EQ(B, i64(0))), True),
    (tirx.And(S <= 2, i64(3) > S), False),
    (tirx.Or(S <= 1, S >= 3), None),
    (tirx.EQ(tirx.Min(S, i64(2)), S), False),
    (tirx.Or(tirx.EQ(S, tirx.Min(i64(2), S)), tirx.EQ(tirx.Min(S, i64(2)), i64(1))), False),
    (tirx.Or(S <= 1, tirx.EQ(S, i64(2))), None),
    (tirx.EQ(tirx.Min(S, i64(2)), i64(1)), None),
]


@pytest.mark.parametrize(("cond", "wanted"), CONDITIONS, ids=[str(c) for c, _ in CONDITIONS])
def test_a_condition_on_every_length_is_checked_at_one_end(cond: Any, wanted: bool | None) -> None:
    """It holds for all lengths exactly if it holds for the least, or for the largest one."""
    rises = rises_with(cond, S, DIMS.solver)
    assert rises is wanted
    if rises is None:
        return

    def holds(value: int) -> bool:
        return bool(DIMS.solver.known(substitute(cond, {S: i64(value), B: i64(1)})))

    for lengths in LENGTHS[1:]:
        end = min(lengths) if rises else max(lengths)
        assert holds(end) == all(map(holds, lengths)), (lengths, cond)
