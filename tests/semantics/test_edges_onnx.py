"""Indices, integers and sizes at the edge of what ONNX's operators take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

import tvm_disc
from tvm_disc.errors import DivisionByZero, IndexOutside, TypeMismatch

node = helper.make_node
I64, F32 = TensorProto.INT64, TensorProto.FLOAT
TABLE = np.arange(12, dtype="float32").reshape(4, 3)
INDICES: Mapping[str, tuple[Any, Mapping[str, np.ndarray]]] = {
    "Gather": (node("Gather", ["x", "i"], ["y"]), {}),
    "Gather axis 1": (node("Gather", ["x", "i"], ["y"], axis=1), {}),
    "GatherElements": (node("GatherElements", ["x", "i"], ["y"]), {"i": np.zeros((2, 3))}),
    "GatherND": (node("GatherND", ["x", "i"], ["y"]), {"i": np.zeros((2, 1))}),
    "ScatterElements": (
        node("ScatterElements", ["x", "i", "u"], ["y"]),
        {"i": np.zeros((2, 3)), "u": np.ones((2, 3), "float32")},
    ),
    "ScatterND": (
        node("ScatterND", ["x", "i", "u"], ["y"]),
        {"i": np.zeros((2, 1)), "u": np.ones((2, 3), "float32")},
    ),
}


def model(made: Any, given: Mapping[str, np.ndarray], kind: int = F32) -> Any:
    """A model of one node whose first dims are open."""
    infos = [
        helper.make_tensor_value_info(
            k, helper.np_dtype_to_tensor_dtype(v.dtype), [f"{k}0", *v.shape[1:]]
        )
        for k, v in given.items()
    ]
    outs = [helper.make_tensor_value_info(name, kind, None) for name in made.output]
    graph = helper.make_graph([made], "g", infos, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def operands(name: str, index: int) -> dict[str, np.ndarray]:
    """Operands of a case, every index the same."""
    _, more = INDICES[name]
    places = np.full(np.shape(more.get("i", np.zeros(2))), index, "int64")
    rest = {"u": more["u"]} if "u" in more else {}
    return {"x": TABLE, "i": places, **rest}


@pytest.mark.parametrize("name", INDICES)
def test_negative_indices(name: str) -> None:
    for index in (-1, -3, 0, 2):
        given = operands(name, index)
        exe = tvm_disc.build(model(INDICES[name][0], given))
        same = operands(name, index % (3 if name.endswith("axis 1") else 4))
        np.testing.assert_array_equal(exe(*given.values()), exe(*same.values()))


@pytest.mark.parametrize("name", INDICES)
def test_indices_outside(name: str) -> None:
    """Undefined by ONNX's text: the result is made of elements of the operands, or refused."""
    given = operands(name, 0)
    exe = tvm_disc.build(model(INDICES[name][0], given))
    for index in (4, -5, 99999, 1 << 40, (1 << 63) - 1, -(1 << 63)):
        given = operands(name, index)
        got = np.asarray(exe(*given.values()))
        allowed = np.concatenate([TABLE.ravel(), np.ravel(given.get("u", []))])
        assert np.isin(got, allowed).all(), (name, index)


@pytest.mark.parametrize("name", [n for n in INDICES if not n.endswith("ND")])
def test_indices_outside_are_refused_on_request(name: str) -> None:
    """ONNX Runtime refuses them in every call."""
    size = 3 if name.endswith("axis 1") else 4
    given = operands(name, 0)
    made = INDICES[name][0]
    exe = tvm_disc.build(model(made, given), options=tvm_disc.Options(check_indices=True))
    free = tvm_disc.build(model(made, given))
    for index in (0, size - 1, -size):
        values = operands(name, index).values()
        np.testing.assert_array_equal(exe(*values), free(*values))
    for index in (size, -size - 1, 1 << 40):
        found = f"expected -{size} <= index < {size}, found {index}"
        with pytest.raises(IndexOutside, match=f"{made.op_type} 'y': the indices: {found}"):
            exe(*operands(name, index).values())


def test_a_constant_index_outside_is_refused_by_the_build() -> None:
    made = model(node("Gather", ["x", "i"], ["y"], axis=1), {"x": TABLE})
    made.graph.initializer.append(helper.make_tensor("i", I64, [2], [0, 3]))
    with pytest.raises(TypeMismatch, match="expected -3 <= index < 3, found an index between"):
        tvm_disc.build(made, options=tvm_disc.Options(check_indices=True))


@pytest.mark.parametrize("name", ["Div", "Mod"])
def test_integers_by_zero_are_refused_on_request(name: str) -> None:
    a, b = np.array([7, -7, 0]), np.array([2, 3, 5])
    made = model(node(name, ["a", "b"], ["y"]), {"a": a, "b": b}, I64)
    exe = tvm_disc.build(made, options=tvm_disc.Options(check_indices=True))
    np.testing.assert_array_equal(exe(a, b), [3, -2, 0] if name == "Div" else [1, 2, 0])
    with pytest.raises(DivisionByZero, match=f"{name} 'y': expected a divisor other than 0"):
        exe(a, np.array([2, 0, 5]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_by_zero(dtype: str) -> None:
    """Undefined by ONNX's text: 0 here, and the process goes on."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    least = np.iinfo(dtype).min
    a = np.array([7, 0, least, least, 9], dtype)
    b = np.array([0, 0, 0, 1, 2], dtype)
    for name in ("Div", "Mod"):
        given = {"a": a, "b": b}
        got = np.asarray(tvm_disc.build(model(node(name, ["a", "b"], ["y"]), given, kind))(a, b))
        assert (got[:3] == 0).all(), (name, got)
        assert got[3] == (least if name == "Div" else 0)
        assert got[4] == (4 if name == "Div" else 1)


def test_empty_axes() -> None:
    empty = np.zeros((0, 3), "float32")
    want = {
        "ReduceSum": 0.0,
        "ReduceProd": 1.0,
        "ReduceMax": -np.inf,
        "ReduceMin": np.inf,
        "ReduceL2": 0.0,
        "ReduceLogSumExp": -np.inf,
    }
    for name, number in want.items():
        graph = model(node(name, ["x", "axes"], ["y"], keepdims=0), {"x": empty})
        graph.graph.initializer.append(helper.make_tensor("axes", I64, [1], [0]))
        got = np.asarray(tvm_disc.build(graph)(empty))
        np.testing.assert_array_equal(got, np.full(3, number, "float32"), err_msg=name)
    joined = node("Concat", ["x", "z"], ["y"], axis=0)
    given = {"x": empty, "z": TABLE[:2]}
    got = np.asarray(tvm_disc.build(model(joined, given))(*given.values()))
    np.testing.assert_array_equal(got, TABLE[:2])


@pytest.mark.parametrize("last", [0, 1])
def test_ties(last: int) -> None:
    x = np.array([[1, 3, 3], [2, 2, 2], [0, -0.0, -1]], "float32")
    places = {"ArgMax": [[1, 0, 0], [2, 2, 1]], "ArgMin": [[0, 0, 2], [0, 2, 2]]}
    for name, want in places.items():
        made = node(name, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
        np.testing.assert_array_equal(tvm_disc.build(model(made, {"x": x}, I64))(x), want[last])
    graph = model(node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=1 - last), {"x": x})
    graph.graph.initializer.append(helper.make_tensor("k", I64, [1], [2]))
    graph.graph.output[1].type.tensor_type.elem_type = I64
    first = [[0, 1], [0, 1], [2, 0]] if last else [[1, 2], [0, 1], [0, 1]]
    np.testing.assert_array_equal(tvm_disc.build(graph)(x)[1], first)


def test_more_than_there_are_is_refused() -> None:
    top = node("TopK", ["x", "k"], ["v", "i"], axis=0)
    graph = model(top, {"x": TABLE[:, 0]})
    graph.graph.initializer.append(helper.make_tensor("k", I64, [1], [3]))
    graph.graph.output[1].type.tensor_type.elem_type = I64
    exe = tvm_disc.build(graph)
    assert np.asarray(exe(TABLE[:, 0])[0]).shape == (3,)
    with pytest.raises(tvm_disc.DiscError, match=r"at (most|least)|k"):
        exe(TABLE[:2, 0])
    split = helper.make_node("Split", ["x", "s"], ["a", "b"], axis=0)
    graph = model(split, {"x": TABLE[:, 0]})
    graph.graph.initializer.append(helper.make_tensor("s", I64, [2], [1, 2]))
    exe = tvm_disc.build(graph)
    assert [np.asarray(p).shape for p in exe(TABLE[:3, 0])] == [(1,), (2,)]
    with pytest.raises(tvm_disc.DiscError, match=r"\w+"):
        exe(TABLE[:, 0])


@pytest.mark.parametrize("other", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers(dtype: str, other: str) -> None:
    """A power is exact, or wraps; 1 / a**n is rounded towards zero."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a = np.array([3, 7, 5, -3, 2, 2, -1, 1, 2, -2, 0], dtype)
    b = np.array([39, 22, 27, 40, 62, 64, -3, -4, -1, -3, 0], other)
    given = {"a": a, "b": b}
    got = np.asarray(tvm_disc.build(model(node("Pow", ["a", "b"], ["y"]), given, kind))(a, b))
    want = np.array([*(a[:6].astype("int64") ** b[:6]), -1, 1, 0, 0, 1]).astype(dtype)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_powers_by_a_wider_type(dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b = np.array([3, 7, 1001], dtype), np.array([33.3, 18.1, 6.2])
    given = {"a": a, "b": b}
    got = np.asarray(tvm_disc.build(model(node("Pow", ["a", "b"], ["y"]), given, kind))(a, b))
    np.testing.assert_allclose(got, (a.astype("float64") ** b).astype(dtype), rtol=1e-7)
