"""ONNX models that compute with shapes: dims among tensors, without names, from data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import GuardFailed  # noqa: E402

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def program(nodes: list[Any], inputs: dict[str, tuple[int, list[Any]]], **constants: Any) -> Any:
    """The program of a graph whose last node's outputs are its results."""
    ins = [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in inputs.items()]
    outs = [helper.make_tensor_value_info(n, F32, None) for n in nodes[-1].output]
    inits = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", ins, outs, inits)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checker wants types that shapes do not have
        return tvm_disc.build(made)


def floats(*dims: int) -> np.ndarray:
    return np.arange(np.prod(dims), dtype="float32").reshape(dims)


ROWS = [
    helper.make_node("Shape", ["x"], ["s"]),
    helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
]
DIMS = ((1, 4), (3, 4), (7, 2), (0, 3), (64, 5))


def test_dims_among_tensors() -> None:
    nodes = [
        *ROWS,
        helper.make_node("Add", ["i", "n"], ["far"]),
        helper.make_node("Less", ["far", "n"], ["near"]),
        helper.make_node("Where", ["near", "far", "n"], ["picked"]),
        helper.make_node("Cast", ["n"], ["count"], to=F32),
        helper.make_node("Cast", ["picked"], ["p"], to=F32),
        helper.make_node("Div", ["p", "count"], ["y"]),
    ]
    inputs = {"x": (F32, ["a", "b"]), "i": (I64, ["k"])}
    exe = program(nodes, inputs, zero=np.int64(0))
    for rows, k in ((1, 3), (3, 7), (16, 1), (5, 64), (2, 0)):
        i = np.arange(k) - 3
        want = np.where(i < 0, i + rows, rows).astype("float32") / np.float32(rows)
        np.testing.assert_allclose(exe(floats(rows, 2), i), want, rtol=1e-6)


@pytest.mark.parametrize("scalar", [False, True])
def test_a_shape_is_a_result(scalar: bool) -> None:
    exe = program(ROWS[: 1 + scalar], {"x": (F32, ["a", "b"])}, zero=np.int64(0))
    for dims in DIMS:
        np.testing.assert_array_equal(exe(floats(*dims)), dims[0] if scalar else dims)


@pytest.mark.parametrize(
    "dims", [[None, None], ["", "for"], ["2*h", "a b"], [None, "dim_0"], ["class", "class"]]
)
def test_dims_whose_names_are_no_identifiers(dims: list[Any]) -> None:
    exe = program([helper.make_node("Relu", ["x"], ["y"])], {"x": (F32, dims)})
    for a, b in DIMS:
        x = floats(a, a if dims == ["class", "class"] else b)
        np.testing.assert_array_equal(exe(x), x)


def test_expand_keeps_a_dim_where_one_is_asked_for() -> None:
    nodes = [
        *ROWS,
        helper.make_node("Min", ["n", "one"], ["least"]),
        helper.make_node("Concat", ["least", "one"], ["t"], axis=0),
        helper.make_node("Expand", ["x", "t"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1])}
    exe = program(nodes, {"x": (F32, ["a", "b"])}, **constants)
    for dims in ((1, 4), (3, 4), (7, 1), (64, 5), (2, 0)):
        np.testing.assert_array_equal(exe(floats(*dims)), floats(*dims))


def test_expand_to_a_shape_of_data() -> None:
    node = helper.make_node("Expand", ["x", "t"], ["y"])
    exe = program([node], {"x": (F32, ["a", 4]), "t": (I64, [3])})
    for rows, t in ((3, (1, 1, 1)), (3, (2, 3, 4)), (1, (2, 5, 1)), (7, (0, 7, 4)), (1, (1, 0, 4))):
        want = np.broadcast_to(floats(rows, 4), np.broadcast_shapes((rows, 4), t))
        np.testing.assert_array_equal(exe(floats(rows, 4), np.array(t)), want)
    with pytest.raises(GuardFailed, match="must equal"):
        exe(floats(3, 4), np.array([1, 2, 4]))
    with pytest.raises(GuardFailed, match="must be at least 0"):
        exe(floats(1, 4), np.array([1, -2, 4]))
