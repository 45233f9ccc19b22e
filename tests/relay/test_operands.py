"""Calls that no rule takes: refused by operator, operand and attribute."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_disc
from tests.models import rows
from tvm_disc import relay
from tvm_disc.errors import TypeMismatch

X, K, F = rows("n", 4), rows("m", name="k", dtype="int32"), rows("m", name="f")
CUBE = rows("n", 2, 4, name="cube")


def call(name: str, *args: Any, **attrs: Any) -> Any:
    """A call as text and JSON can have it, which the builder's functions refuse."""
    row = relay.OPS[name]
    given = {k: v for k, v in row.attrs.items() if not repr(v).startswith("REQUIRED")}
    return relay.Call(relay.op.get(name), args, {**given, **attrs})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (call("nn.dense", X), r"nn\.dense: expected 2 operands \(data, weight\), found 1"),
        (call("add", X, X, X), r"add: expected 2 operands \(lhs, rhs\), found 3"),
        (call("exp"), r"exp: expected 1 operand \(data\), found 0"),
        (call("concatenate", X, axis=0), "operand 'data': expected a tuple, found a tensor"),
        (call("exp", relay.Tuple([X, X])), "operand 'data': expected a tensor, found a tuple"),
        (call("take", X, F, axis=0), "take: operand 'indices': expected integers, found float32"),
        (call("gather", X, X, axis=0), "gather: operand 'indices': expected integers"),
        (call("gather_nd", X, F), "gather_nd: operand 'indices': expected integers"),
        (call("scatter_nd", X, F, X, mode="add"), "scatter_nd: operand 'indices': expected int"),
        (call("transpose", relay.const([1.0, 2.0]), axes=(0, 0)), "transpose: "),
        (call("reshape", X, newshape="ab"), r"reshape: .*newshape=ab"),
        (call("collapse_sum_like", X, CUBE), "rank 2 cannot be summed to rank 3"),
        (call("nn.softmax", X, axis="last"), r"nn\.softmax: .*axis=last"),
    ],
)
def test_refused(body: Any, message: str) -> None:
    params = list(relay.free_vars(body))
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.Function(params, body))
