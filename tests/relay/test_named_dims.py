"""Dims of one name in the parameters of a function are one dim: a call says so of its arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, ShapeConflict


def fitted(second: tuple[relay.Any | int, ...]) -> relay.IRModule:
    """The sum of rows of a tensor that must have the dims of another."""
    a = relay.Var("a", relay.TensorType((relay.Any(), 4)))
    b = relay.Var("b", relay.TensorType(second))
    dims = (relay.Any("n"), relay.Any("m"))
    params = [relay.Var(name, relay.TensorType(dims)) for name in "pq"]
    pair = relay.Call(relay.Function(params, relay.Tuple(params)), [a, b])
    rows = relay.sum(relay.TupleGetItem(pair, 1), axis=[1])
    return relay.IRModule.from_expr(relay.Function([a, b], rows))


def test_a_call_with_other_dims_is_refused() -> None:
    program = tvm_disc.build(fitted((relay.Any(), relay.Any())))
    for rows in (1, 7, 16, 64, 0):
        x = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
        np.testing.assert_array_equal(program(x, x), x.sum(1))
    x = np.zeros((4, 4), "float32")
    with pytest.raises(GuardFailed, match=r"input 'b' axis 1 .* must equal 4"):
        program(x, x[:, :3])
    with pytest.raises(GuardFailed, match="must equal"):
        program(x, x[:3])


def test_literal_dims_that_differ_are_refused_at_once() -> None:
    with pytest.raises(ShapeConflict, match="'%q' axis 1"):
        tvm_disc.build(fitted((relay.Any(), 3)))
