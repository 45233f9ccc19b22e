"""Reshapes: every code, dims of 0, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, ShapeConflict, TypeMismatch

N = None  # a dim that only the run time knows


def call(x: Any, codes: tuple[int, ...], allow_zero: bool) -> Any:
    attrs = {"newshape": codes, "allowzero": allow_zero}
    return relay.Call(relay.op.get("reshape"), [x], attrs)


def variable(shape: tuple[int | None, ...], name: str) -> Any:
    return relay.var(name, shape=tuple(relay.Any() if d is None else d for d in shape))


# The operand's type, its run-time dims, codes, whether 0 is a dim, what the result's dims are.
LEGAL = [
    ((N, 0), (5, 0), (2, 3, 0), True, (2, 3, 0)),
    ((0, N), (0, 7), (0, 0, 0), True, (0, 0, 0)),
    ((N, N), (0, 4), (3, 0, 2), True, (3, 0, 2)),
    ((N, 0, 3), (4, 0, 3), (0, 0, 3, 1), False, (4, 0, 3, 1)),
    ((2, 0), (2, 0), (0, -1), False, (2, 0)),
    ((0, 3), (0, 3), (-1, 5), False, (0, 5)),
    ((N, N), (4, 3), (-4, 2, -1, 0), False, (2, 2, 3)),
    ((N, 6), (5, 6), (0, -4, -1, 3), False, (5, 2, 3)),
    ((N, N, N), (2, 3, 5), (-3, -2), False, (6, 5)),
    ((N, N), (2, 3), (-2, 1, 1), False, (2, 3, 1, 1)),
    ((N,), (1,), (), False, ()),
    ((), (), (-1,), False, (1,)),
]


def test_every_code_in_one_program() -> None:
    inputs = [variable(row[0], f"x{k}") for k, row in enumerate(LEGAL)]
    given = [np.arange(np.prod(row[1]), dtype="float32").reshape(row[1]) for row in LEGAL]
    out = [call(relay.exp(x), row[2], row[3]) for x, row in zip(inputs, LEGAL, strict=True)]
    exe = tvm_disc.build(relay.Function(inputs, relay.Tuple(out)))
    for found, x, row in zip(exe(*given), given, LEGAL, strict=True):
        np.testing.assert_allclose(found, np.exp(x).reshape(row[4]), 1e-6, err_msg=str(row))
        assert found.shape == row[4]


@pytest.mark.parametrize(
    ("shape", "codes", "error", "message"),
    [
        ((N, N), (3, -4), TypeMismatch, "two dims after -4, at most one of them -1, found nothing"),
        ((N, N), (-4, 2), TypeMismatch, "two dims after -4, at most one of them -1, found 2"),
        ((N, N), (-4, -1, -1, 0), TypeMismatch, "at most one of them -1, found -1, -1"),
        ((N, 6), (-4, -2, 2, 0), TypeMismatch, "at most one of them -1, found -2, 2"),
        ((N, 6), (-4, 0, 2, 0), TypeMismatch, "at most one of them -1, found 0, 2"),
        ((N, 6), (0, -4, -1, 4), TypeMismatch, "-4 cannot split a dim of 6 into parts of 4"),
        ((N, N), (-3, -3), TypeMismatch, "refers to at least 3 dims of an operand of rank 2"),
        ((), (0,), TypeMismatch, "refers to at least 1 dim of an operand of rank 0"),
        ((N, N), (-5,), TypeMismatch, "sizes or the codes 0 to -4, found -5"),
        ((N, 3), (2, 2), ShapeConflict, "a reshape must keep the element count"),
        ((2, 3), (-1, 4), ShapeConflict, "a reshape must keep the element count"),
    ],
)
def test_refusals(shape: Any, codes: Any, error: type[Exception], message: str) -> None:
    x = variable(shape, "x")
    with pytest.raises(error, match=message):
        tvm_disc.build(relay.Function([x], call(x, codes, False)))


def test_arithmetic_on_shapes_that_is_not_defined() -> None:
    """Computed at compile time as kernels compute it, or refused."""
    x = relay.var("x", shape=(relay.Any(), 4))
    shape = relay.shape_of(x, "int64")
    zeros = relay.const(np.array([0, 0]))
    four = relay.const(np.array([4, 4]))
    out = [
        relay.divide(four, zeros),
        relay.floor_divide(four, zeros),
        relay.floor_mod(four, zeros),
        relay.reshape(shape, (-1, 2)),
    ]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(out)))
    for n in (0, 1, 5):
        found = exe(np.zeros((n, 4), "float32"))
        for f, want in zip(found, ([0, 0], [0, 0], [0, 0], [[n, 4]]), strict=True):
            np.testing.assert_array_equal(f, want)
    for codes, error in (
        ((3,), ShapeConflict),
        ((0, 0, 0), TypeMismatch),
        ((-1, 3), ShapeConflict),
    ):
        with pytest.raises(error, match="reshape"):
            tvm_disc.build(relay.Function([x], relay.reshape(shape, codes)))


def test_sizes_are_divided_by_sizes_that_may_be_zero() -> None:
    """Rounded towards zero, where numbers may be negative; by zero it is zero."""
    x, y = (relay.var(n, shape=(relay.Any(),)) for n in "xy")
    five = relay.const(np.array([5]))
    a, b = (relay.subtract(relay.shape_of(v, "int64"), five) for v in (x, y))
    ops = (relay.divide, relay.trunc_divide, relay.trunc_mod, relay.floor_divide, relay.floor_mod)
    far = [relay.add(op(a, b), relay.const(np.array([20]))) for op in ops]
    out = [relay.reshape(relay.full(relay.const(1.0), s), (-1,)) for s in far]
    exe = tvm_disc.build(relay.Function([x, y], relay.Tuple(out)))
    for n, m in ((12, 8), (12, 2), (0, 8), (0, 2), (5, 8), (12, 5), (0, 5), (5, 5)):
        i, j = n - 5, m - 5
        whole = int(i / j) if j else 0
        down = (i // j, i % j) if j else (0, 0)
        wanted = [20 + v for v in (whole, whole, i - whole * j if j else 0, *down)]
        found = exe(np.zeros(n, "float32"), np.zeros(m, "float32"))
        assert [f.size for f in found] == wanted


def test_a_squeeze_without_axes_drops_what_is_known_to_be_one() -> None:
    exe = tvm_disc.build(relay.Function([x := variable((N, 1, 4), "x")], relay.squeeze(x)))
    assert exe(np.zeros((3, 1, 4), "float32")).shape == (3, 4)
    with pytest.raises(GuardFailed, match="x_0 != 1"):
        exe(np.zeros((1, 1, 4), "float32"))
