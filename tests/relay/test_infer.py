"""Types and values of expressions while a program is still being made."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.infer import Inference


def declared(*dims: object, dtype: str = "float32") -> tuple[Inference, relay.Var]:
    infer = Inference()
    x = relay.var("x", shape=dims, dtype=dtype)
    infer.declare(x)
    return infer, x


def test_literal_dims_are_numbers_and_others_any() -> None:
    infer, x = declared(relay.Any("n"), 4)
    ty = infer.type_of(relay.nn.relu(relay.reshape(x, (-1, 2, 2))))
    assert ty.dtype == "float32" and ty.shape[1:] == (2, 2)
    assert isinstance(ty.shape[0], relay.Any)


def test_values_of_shapes_are_known_as_far_as_dims_are() -> None:
    infer, x = declared(relay.Any("n"), 4)
    shape = relay.shape_of(x, dtype="int64")
    assert infer.value_of(shape) is None and infer.elements_of(shape) == [None, 4]
    last = relay.take(shape, relay.const(1, "int64"), axis=0)
    assert infer.value_of(last) == 4 and infer.is_formula(shape)
    assert infer.is_natural(shape) and not infer.is_natural(relay.negative(last))


def test_elements_that_only_the_data_knows() -> None:
    infer, x = declared(3, dtype="int64")
    assert infer.elements_of(x) == [None] * 3 and not infer.is_formula(x)
    infer, x = declared(relay.Any(), dtype="int64")
    assert infer.elements_of(x) is None


def test_equal_dims_are_known_to_be_equal() -> None:
    infer, x = declared(relay.Any("n"), relay.Any("n"), relay.Any("m"))
    n, same, m = infer.dims_of(relay.nn.relu(x))
    assert infer.same(n, same) and not infer.same(n, m)


def test_a_body_is_forgotten_at_its_end() -> None:
    infer, x = declared(relay.Any("n"))
    inner = relay.var("inner", shape=(2,))
    with infer.scope():
        infer.declare(inner)
        assert infer.type_of(relay.nn.relu(inner)).shape == (2,)
    with pytest.raises(TypeMismatch, match="'%inner' is not bound"):
        infer.type_of(relay.nn.relu(inner))
    infer.stands_for(inner, x)
    assert isinstance(infer.type_of(relay.exp(inner)).shape[0], relay.Any)


def test_weights_are_not_copied() -> None:
    infer, x = declared(relay.Any("n"), 1000)
    weights = relay.expr.Constant(np.ones((1000, 1000), "float32"))
    assert infer.value_of(weights) is weights.data
    assert infer.type_of(relay.nn.dense(x, weights)).shape[1] == 1000


def test_operands_that_do_not_fit_are_refused() -> None:
    infer, x = declared(relay.Any("n"), 4)
    with pytest.raises(TypeMismatch, match="axis 7 is out of range; expected -2 to 1"):
        infer.type_of(relay.transpose(x, (7, 0)))
