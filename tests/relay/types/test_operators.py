"""The types of operators' results, and of operands that have none, from the other operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import DiscError, ShapeConflict, TypeMismatch
from tvm_disc.relay.inference.infer import infer_type

var, op, nn = relay.var, relay.op, relay.nn
n, h = relay.size_var("n"), relay.size_var("h")


def t(*dims: Any, dtype: str = "float32") -> relay.Var:
    """A variable of a tensor type; None is an unknown dim."""
    return var("x", shape=[relay.Any() if d is None else d for d in dims], dtype=dtype)


RESULTS: list[tuple[Callable[[], Any], str]] = [
    # level 1: element-wise, products, softmax, joining
    (lambda: op.exp(t(2, 3)), "Tensor[(2, 3), float32]"),
    (lambda: op.add(t(2, 1), t(3)), "Tensor[(2, 3), float32]"),
    (lambda: op.add(t(None, 2), t(3, 2)), "Tensor[(3, 2), float32]"),
    (lambda: op.add(t(None, 2), t(1, 2)), "Tensor[(?, 2), float32]"),
    (lambda: op.add(t(None, 2), t(None, 2)), "Tensor[(?, 2), float32]"),
    (lambda: op.add(t(n, 4), t(h, 1, 1)), "Tensor[(h, n, 4), float32]"),
    (lambda: op.less(t(5), t(5)), "Tensor[(5), bool]"),
    (lambda: nn.softmax(t(n, 4)), "Tensor[(n, 4), float32]"),
    (lambda: nn.dense(t(n, 3, 2), t(4, 2)), "Tensor[(n, 3, 4), float32]"),
    (lambda: nn.batch_matmul(t(None, 3, 2), t(None, 4, 2)), "Tensor[(?, 3, 4), float32]"),
    (lambda: op.concatenate([t(n, 3), t(h, 3)], axis=0), "Tensor[((n + h), 3), float32]"),
    (lambda: op.concatenate([t(None, 3), t(2, 3)], axis=0), "Tensor[(?, 3), float32]"),
    (lambda: op.concatenate([t(1, 3), t(1, None)], axis=0), "Tensor[(2, 3), float32]"),
    (lambda: nn.dropout_raw(t(n, 3)), "(Tensor[(n, 3), float32], Tensor[(n, 3), float32])"),
    (
        lambda: nn.batch_norm(t(n, 3, 2), t(3), t(3), t(3), t(3)),
        "(Tensor[(n, 3, 2), float32], Tensor[(3), float32], Tensor[(3), float32])",
    ),
    # level 2: windows
    (lambda: nn.conv2d(t(n, 3, 8, 8), t(4, 3, 3, 3), strides=2), "Tensor[(n, 4, 3, 3), float32]"),
    (
        lambda: nn.conv2d(t(None, 3, None, 8), t(4, 3, 3, 3), padding=1),
        "Tensor[(?, 4, ?, 8), float32]",
    ),
    (lambda: nn.max_pool2d(t(n, 3, 8, 8), (2, 2), (2, 2)), "Tensor[(n, 3, 4, 4), float32]"),
    (lambda: nn.global_avg_pool2d(t(None, 3, None, 8)), "Tensor[(?, 3, 1, 1), float32]"),
    (lambda: nn.pad(t(n, 2), ((1, 2), (0, 3))), "Tensor[((n + 3), 5), float32]"),
    (lambda: nn.batch_flatten(t(n, 2, 3)), "Tensor[(n, 6), float32]"),
    # level 3: moving elements
    (lambda: op.reshape(t(n, 3, 4), (0, -1)), "Tensor[(n, 12), float32]"),
    (lambda: op.reshape(t(None, 3, 4), (-1, 2)), "Tensor[(?, 2), float32]"),
    (lambda: op.transpose(t(n, 3, 4), (1, 2, 0)), "Tensor[(3, 4, n), float32]"),
    (lambda: op.squeeze(t(1, n, 1)), "Tensor[(n), float32]"),
    (lambda: op.expand_dims(t(n), 0, 2), "Tensor[(1, 1, n), float32]"),
    (
        lambda: op.split(t(n, 5), (2, 3), axis=1),
        "(Tensor[(n, 2), float32], Tensor[(n, 1), float32], Tensor[(n, 2), float32])",
    ),
    (lambda: op.take(t(5, n), t(3, dtype="int32"), axis=0), "Tensor[(3, n), float32]"),
    (lambda: op.full(relay.const(1.0), (2, 3)), "Tensor[(2, 3), float32]"),
    (lambda: op.arange(relay.const(1), relay.const(7), relay.const(2)), "Tensor[(3), float32]"),
    (lambda: op.arange(relay.const(0), var("m", "int32")), "Tensor[(?), float32]"),
    (lambda: op.cast(t(n, 2), "int8"), "Tensor[(n, 2), int8]"),
    (lambda: op.unique(t(n, dtype="int32"))[0], "Tensor[(?), int32]"),
    # level 4: reductions, choices
    (lambda: op.sum(t(n, 3, 4), axis=1), "Tensor[(n, 4), float32]"),
    (lambda: op.argmax(t(n, 3, 4), axis=(0, 2), keepdims=True), "Tensor[(1, 3, 1), int32]"),
    (lambda: op.where(t(n, 1, dtype="bool"), t(n, 3), t(3)), "Tensor[(n, 3), float32]"),
    (lambda: op.strided_slice(t(4, 5), (1, 0), (4, 5), (2, 1)), "Tensor[(2, 5), float32]"),
    # levels 5 and 6: images, order
    (lambda: relay.image.resize2d(t(n, 3, 8, 8), (4, 6)), "Tensor[(n, 3, 4, 6), float32]"),
    (lambda: op.topk(t(n, 9), 3)[1], "Tensor[(n, 3), int32]"),
    (lambda: op.argsort(t(n, 9)), "Tensor[(n, 9), int32]"),
    # levels 10: shapes of others, dynamic forms
    (lambda: op.shape_of(t(n, 3)), "Tensor[(2), int32]"),
    (lambda: op.broadcast_to(t(1, 3), t(2, dtype="int64")), "Tensor[(?, 3), float32]"),
    (lambda: op.reshape(t(2, 6), t(3, dtype="int64")), "Tensor[(?, ?, ?), float32]"),
    (lambda: op.one_hot(t(n, dtype="int32"), relay.const(1.0), relay.const(0.0), 4, -1, "float32"),
     "Tensor[(n, 4), float32]"),
    (lambda: op.argwhere(t(n, 3)), "Tensor[(?, 2), int32]"),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(RESULTS)))
def test_result(k: int) -> None:
    make, expected = RESULTS[k]
    assert str(infer_type(make()).checked_type) == expected


w = relay.Var
WEIGHTS: list[tuple[Callable[[], Any], dict[str, str]]] = [
    (lambda: nn.dense(t(n, 3), w("w"), units=4), {"w": "Tensor[(4, 3), float32]"}),
    (lambda: nn.matmul(t(n, 3), w("w"), units=4), {"w": "Tensor[(3, 4), float32]"}),
    (
        lambda: nn.matmul(t(n, 3), w("w"), units=4, transpose_b=True),
        {"w": "Tensor[(4, 3), float32]"},
    ),
    (lambda: nn.bias_add(t(n, 3, 5), w("b")), {"b": "Tensor[(3), float32]"}),
    (lambda: nn.bias_add(t(n, 3, 5), w("b"), axis=-1), {"b": "Tensor[(5), float32]"}),
    (lambda: nn.prelu(t(n, 3, 5), w("a")), {"a": "Tensor[(3), float32]"}),
    (
        lambda: nn.batch_norm(t(n, 3, 5), w("g"), w("b"), w("m"), w("v"))[0],
        dict.fromkeys("gbmv", "Tensor[(3), float32]"),
    ),
    (lambda: nn.layer_norm(t(n, 3), w("g"), w("b")), dict.fromkeys("gb", "Tensor[(3), float32]")),
    (
        lambda: nn.group_norm(t(n, 4, 5), w("g"), w("b"), 2),
        dict.fromkeys("gb", "Tensor[(4), float32]"),
    ),
    (
        lambda: nn.conv2d(t(n, 4, 8, 8), w("w"), channels=6, kernel_size=(3, 5), groups=2),
        {"w": "Tensor[(6, 2, 3, 5), float32]"},
    ),
    (
        lambda: nn.conv2d(
            t(n, 8, 8, 4), w("w"), channels=6, kernel_size=(3, 5), data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        {"w": "Tensor[(3, 5, 4, 6), float32]"},
    ),
    (
        lambda: nn.conv1d(t(n, 4, 8), w("w"), channels=6, kernel_size=3),
        {"w": "Tensor[(6, 4, 3), float32]"},
    ),
    (
        lambda: nn.conv2d_transpose(t(n, 4, 8, 8), w("w"), channels=6, kernel_size=(3, 3)),
        {"w": "Tensor[(4, 6, 3, 3), float32]"},
    ),
    # a quantised program whose scales are known later has a type all the same
    (
        lambda: relay.qnn.requantize(
            t(n, 4, dtype="int32"), w("a"), w("b"), w("c"), w("d"), out_dtype="int8"
        ),
        dict(zip("abcd", ("float32", "int32") * 2, strict=True)),
    ),
    (
        lambda: relay.qnn.dense(
            t(n, 4, dtype="int8"), w("w"), w("a"), w("b"), w("c"), w("d"), units=3
        ),
        {"w": "Tensor[(3, 4), int8]", "a": "int32", "d": "float32"},
    ),
    # weights of several layers, found one after the other
    (
        lambda: nn.dense(nn.relu(nn.bias_add(nn.dense(t(n, 3), w("v"), units=4), w("b"))), w("w"),
                         units=2),
        {"v": "Tensor[(4, 3), float32]", "b": "Tensor[(4), float32]",
         "w": "Tensor[(2, 4), float32]"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(WEIGHTS)))
def test_weights_follow_from_the_data(k: int) -> None:
    make, expected = WEIGHTS[k]
    found = {v.name_hint: str(v.checked_type) for v in relay.free_vars(infer_type(make()))}
    assert {name: found[name] for name in expected} == expected


def test_the_data_of_an_element_wise_operator_follows_from_the_result() -> None:
    x = w("x")
    func = relay.Function([x], nn.softmax(op.exp(x)), relay.TensorType((2, 3)))
    assert str(infer_type(func).checked_type) == (
        "fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]"
    )


REFUSED: list[tuple[Callable[[], Any], type[DiscError], str]] = [
    (lambda: op.add(t(2, 3), t(3, 3)), ShapeConflict, r"2 must equal 3.*%x: Tensor\[\(2, 3\)"),
    (
        lambda: op.add(t(2), t(2, dtype="int32")),
        TypeMismatch,
        "the same dtype, found .*float32.*int32",
    ),
    (
        lambda: nn.dense(t(2, 3), t(4, 5)),
        ShapeConflict,
        "dims that are summed must be equal: 3 must equal 5",
    ),
    (lambda: op.add(t(2, 3), w("w")), TypeMismatch, r"rhs: _\): unable to infer .*annotate"),
    (lambda: nn.dense(t(2, 3), w("w")), TypeMismatch, r"weight: _\): unable to infer"),
    (lambda: nn.relu(w("x")), TypeMismatch, r"nn.relu\(data: _\): unable"),
    (lambda: op.transpose(t(2, 3), (0, 1, 2)), TypeMismatch, "transpose"),
    (lambda: op.concatenate([t(2, 3), t(2, 4)], axis=0), ShapeConflict, "3 must equal 4"),
    (lambda: op.sum(t(2, 3), axis=2), TypeMismatch, "axis 2 is out of range; expected -2 to 1"),
    (
        lambda: nn.conv2d(t(1, 3, 8, 8), t(4, 5, 3, 3)),
        ShapeConflict,
        "nn.conv2d.*Tensor",
    ),
    (lambda: op.get("nn.relu")(t(2), t(2)), TypeMismatch, r"expected 1 operand \(data\), found 2"),
    (lambda: nn.relu(relay.Tuple([t(2)])), TypeMismatch, "expected a tensor, found"),
    (lambda: nn.relu(relay.Function([], t(2))), TypeMismatch, r"found fn \(\)"),
]


@pytest.mark.parametrize("k", range(len(REFUSED)))
def test_refused(k: int) -> None:
    make, error, message = REFUSED[k]
    with pytest.raises(error, match=message):
        infer_type(make())
