"""Operators on tensors."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import BadNode
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.ops.algebra import Algebra, building, clip, where
from tvm_disc.shape import Solver


class Named(Algebra):
    """A tensor that is the text of its computation."""

    def __init__(self, text: str) -> None:
        self.text = text


class Texts:
    """A builder of texts."""

    def apply(self, name: str, *operands: Any, dtype: str = "") -> Named:
        parts = [x.text if isinstance(x, Named) else str(x) for x in operands]
        return Named(f"{name}({', '.join(parts)}){dtype and ':'}{dtype}")


X, Y = Named("x"), Named("y")


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        (lambda: (X * X + 4) * 0.5, "multiply(add(multiply(x, x), 4), 0.5)"),
        (lambda: 1 - X / Y, "subtract(1, divide(x, y))"),
        (lambda: 1 / X, "divide(1, x)"),
        (lambda: -X // 2 % Y, "floor_mod(floor_divide(negative(x), 2), y)"),
        (
            lambda: (X < 1) & ~(Y >= X),
            "logical_and(less(x, 1):bool, logical_not(greater_equal(y, x):bool))",
        ),
        (lambda: X.equal(Y) | X.not_equal(0), "logical_or(equal(x, y):bool, not_equal(x, 0):bool)"),
        (lambda: where(X > 0, X, 1), "where(greater(x, 0):bool, x, 1)"),
        (lambda: clip(X, 0, Y), "minimum(maximum(x, 0), y)"),
        (lambda: (1 << X) >> 2, "right_shift(left_shift(1, x), 2)"),
        (lambda: X**2, "power(x, 2)"),
    ],
)
def test_operators_name_relay_operators(compute: Any, text: str) -> None:
    with building(Texts()):
        assert compute().text == text


def test_equality_is_identity() -> None:
    assert X == X and X != Y and X in [Y, X]


def test_operators_need_a_builder() -> None:
    with building(Texts()):
        pass
    with pytest.raises(RuntimeError, match=r"no builder is current: .* `building\(\.\.\.\)`"):
        X + 1


def test_numbers_have_the_type_of_the_last_tensor() -> None:
    ctx = Emitter(Solver())
    x = ctx.emit(ctx.scalar(3, "int32").expr, [i64(4)], "int32")
    with building(ctx):
        found: list[Tensor] = [x + 1, 1 - x, where(x > 2, 5, x)]
        test = x < 1
    assert [t.dtype for t in found] == ["int32"] * 3
    assert (test.dtype, ctx.literal(test.dims[0])) == ("bool", 4)


def test_relay_expressions_accept_no_numbers() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    assert isinstance(x // y, relay.Call) and (x // y).op.name == "floor_divide"
    assert (~x).op.name == "logical_not" and x.equal(y).op.name == "equal"
    for compute in (lambda: x // 2, lambda: 2**x, lambda: x.equal(2)):
        with pytest.raises(BadNode, match='convert "2" with `const` first'):
            compute()
