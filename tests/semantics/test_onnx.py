"""ONNX's element-wise operators, reductions and orders on special values, beside ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tvm_disc  # noqa: E402
from tests.semantics import special  # noqa: E402

NAN, INF = math.nan, math.inf
node = helper.make_node
Attributes = Mapping[str, Any]

UNARY: Mapping[str, tuple[str, Attributes]] = {
    **{
        name: (name, {})
        for name in """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cosh Erf Exp Floor IsNaN IsInf Log
        Neg Reciprocal Round Sign Sinh Sqrt Tanh Relu Sigmoid LeakyRelu Elu Celu Selu
        ThresholdedRelu HardSigmoid HardSwish Softplus Softsign Mish Gelu Identity Shrink""".split()
    },
    "Elu(2)": ("Elu", {"alpha": 2.0}),
    "Shrink(1)": ("Shrink", {"bias": 1.0, "lambd": 1.0}),
    "IsInf(positive)": ("IsInf", {"detect_negative": 0}),
    "Gelu(tanh)": ("Gelu", {"approximate": "tanh"}),
    "Cast(bool)": ("Cast", {"to": TensorProto.BOOL}),
    "Cast(float16)": ("Cast", {"to": TensorProto.FLOAT16}),
    "Cast(double)": ("Cast", {"to": TensorProto.DOUBLE}),
}
BINARY: Mapping[str, tuple[str, Attributes]] = {
    **{
        name: (name, {})
        for name in """Add Sub Mul Div Pow Max Min Equal Greater GreaterOrEqual Less LessOrEqual
        PRelu Mean Sum""".split()
    },
    "Mod(fmod)": ("Mod", {"fmod": 1}),
}
REDUCTIONS = """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare""".split()


# ONNX Runtime's own errors, in absolute numbers: it computes tails as the plain formula.
ATOL = {
    "Sigmoid": 2e-8, "Tanh": 4e-44, "Gelu": 1e-7, "Gelu(tanh)": 5e-7, "Mish": 2e-41,
    **dict.fromkeys(("Elu", "Elu(2)", "Celu", "Selu"), 5e-8),
}  # fmt: skip
# It compares with NaN, so that the result depends on the order; ours is that of ONNX's evaluator.
ORDERED = ("ReduceMax", "ReduceMin", "Hardmax", "ArgMax", "ArgMin")


def found(
    nodes: Sequence[Any], results: Mapping[str, int], opset: int = 20, **given: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What one program gives for a graph, and what ONNX Runtime gives."""
    inputs, fixed = {}, []
    for name, value in given.items():
        if name.startswith("c_"):
            fixed.append(numpy_helper.from_array(value, name))
        else:
            inputs[name] = value
    kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in inputs.items()}
    infos = [
        helper.make_tensor_value_info(k, kinds[k], ["n", *v.shape[1:]]) for k, v in inputs.items()
    ]
    outs = [helper.make_tensor_value_info(k, t, None) for k, t in results.items()]
    graph = helper.make_graph(list(nodes), "g", infos, outs, fixed)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    got = tvm_disc.build(model, options=tvm_disc.Options(threads=1))(*inputs.values())
    got = got if isinstance(got, list | tuple) else [got]
    return [np.asarray(x) for x in got], session.run(None, inputs)


def told(
    names: Sequence[str], both: Any, operands: Any, loose: Sequence[str] = (), **how: Any
) -> str:
    """What differs, a line for each operator."""
    lines = []
    for name, got, want in zip(names, *both, strict=True):
        given = {"rtol": 3e-6, "signs": name not in loose, "atol": ATOL.get(name, 0.0), **how}
        lines += special.check(name, got, want, operands, **given)
    return "\n".join(lines)


def elementwise(table: Mapping[str, tuple[str, Attributes]], x: str = "x") -> Any:
    """Nodes of a table, and the types of their results."""
    nodes, results = [], {}
    for k, (name, attrs) in enumerate(table.values()):
        nodes.append(node(name, x.split(), [f"y{k}"], **attrs))
        bools = name in ("IsNaN", "IsInf", "Equal") or name.startswith(("Greater", "Less"))
        results[f"y{k}"] = attrs.get("to", TensorProto.BOOL if bools else TensorProto.FLOAT)
    return nodes, results


def test_unary() -> None:
    x = special.floats("float32")
    nodes, results = elementwise(UNARY)
    both = found(nodes, results, x=x)
    assert not (
        why := told(list(UNARY), both, (x,), loose=("Sign", "Elu", "Elu(2)", "Celu", "Selu"))
    ), why


def test_binary() -> None:
    a, b = special.pairs("float32")
    nodes, results = elementwise(BINARY, "a b")
    assert not (why := told(list(BINARY), found(nodes, results, a=a, b=b), (a, b))), why


def reductions(x: np.ndarray, names: Sequence[str]) -> Any:
    """Reductions over the last axis; axes are attributes but for ReduceSum."""
    nodes = []
    for name in names:
        axes: Attributes = {"axes": [1]} if name.startswith("Reduce") else {"axis": 1}
        given = ["x", "c_axes"] if name == "ReduceSum" else ["x"]
        keep = {"keepdims": 0} if name.startswith(("Reduce", "Arg")) else {}
        nodes.append(node(name, given, [name], **({} if name == "ReduceSum" else axes), **keep))
    kinds = {n: TensorProto.INT64 if n.startswith("Arg") else TensorProto.FLOAT for n in names}
    return found(nodes, kinds, 17, x=x, c_axes=np.array([1]))


def test_reductions() -> None:
    x = special.rows("float32")
    names = [n for n in REDUCTIONS if n not in ORDERED] + ["Softmax", "LogSoftmax"]
    why = told(names, reductions(x, names), (x,), loose=names, atol=1e-6)
    assert not why, why


def test_the_largest_and_the_least_of_rows_with_nan() -> None:
    """Rows without NaN as ONNX Runtime; with NaN as NumPy, which ONNX's evaluator asks."""
    x = special.rows("float32")
    nan = np.isnan(x).any(1)
    got, want = reductions(x, ORDERED)
    plain = [g[~nan] for g in got], [w[~nan] for w in want]
    assert not (why := told(ORDERED, plain, (x[~nan],), loose=ORDERED)), why
    most, least, hard, first, last = (g[nan] for g in got)
    assert np.isnan(most).all() and np.isnan(least).all()
    places = np.argmax(np.isnan(x[nan]), 1)
    assert (first == places).all() and (last == places).all()
    assert (hard.argmax(1) == places).all() and (hard.sum(1) == 1).all()


@pytest.mark.parametrize("largest", [0, 1])
def test_order(largest: int) -> None:
    """NaN is above every number."""
    x = special.rows("float32")
    nodes = [node("TopK", ["x", "c_k"], ["values", "places"], axis=1, largest=largest)]
    kinds = {"values": TensorProto.FLOAT, "places": TensorProto.INT64}
    both = found(nodes, kinds, x=x, c_k=np.array([4]))
    assert not (why := told(list(kinds), both, (x,), loose=["values"])), why


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    values = special.integers(dtype)
    a, b = (v.ravel().copy() for v in np.meshgrid(values, values))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    # ONNX Runtime has no arithmetic of bytes.
    numbers = ["Max", "Min", *(["Add", "Sub", "Mul"] if dtype in ("int32", "int64") else [])]
    compared = ["Equal", "Greater", "Less"]
    nodes = [node(n, ["a", "b"], [n]) for n in (*numbers, *compared)]
    nodes += [node(n, ["a"], [n]) for n in ("Abs", "Sign")]
    kinds = {
        **dict.fromkeys(numbers, kind),
        **dict.fromkeys(compared, TensorProto.BOOL),
        **dict.fromkeys(("Abs", "Sign"), kind),
    }
    assert not (why := told(list(kinds), found(nodes, kinds, a=a, b=b), (a, b))), why


def test_erfc_of_converters() -> None:
    """``Erfc`` is no operator of ONNX, but some converters write it: it keeps its tail."""
    x = special.floats("float32")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Erfc", ["x"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, ["n"])],
        [info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    got = np.asarray(tvm_disc.build(model)(x))
    want = np.array([math.erfc(float(v)) for v in x]).astype(np.float32)
    assert not (why := special.check("Erfc", got, want, (x,), rtol=6e-7)), why
