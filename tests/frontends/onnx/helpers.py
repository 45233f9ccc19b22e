"""Small ONNX models, and what ONNX's own evaluator makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import tvm_disc  # noqa: E402

F32, F16, I64, I32 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32
U8, I8, BOOL = TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL

node = helper.make_node


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Sequence[Any] | None]],
    opset: int = 21,
    domains: Mapping[str, int] | None = None,
    results: Sequence[str] | None = None,
    functions: Sequence[Any] = (),
    **constants: Any,
) -> Any:
    """A model whose last node's outputs are its results."""
    ins = [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in inputs.items()]
    names = results if results is not None else [o for o in nodes[-1].output if o]
    outs = [helper.make_tensor_value_info(n, F32, None) for n in names]
    inits = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(list(nodes), "g", ins, outs, inits)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    made.ir_version = 9
    return made


def build(made: Any, **options: Any) -> Any:
    """The program of a model; the checker wants types that our results do not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvm_disc.build(made, **options)


def listed(results: Any) -> list[np.ndarray]:
    """Results as arrays."""
    items = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(x) for x in items]


def same(
    made: Any,
    *cases: Sequence[np.ndarray],
    want: Any = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> Any:
    """One program gives for every case what the evaluator gives, or ``want(*case)``."""
    program = build(made)
    names = [v.name for v in made.graph.input]
    given = {t.name for t in made.graph.initializer}
    names = [n for n in names if n not in given]
    evaluator = None if want is not None else ReferenceEvaluator(made)
    for case in cases:
        if evaluator is None:
            expected = listed(want(*case))
        else:
            expected = listed(evaluator.run(None, dict(zip(names, case, strict=True))))
        for got, wanted in zip(listed(program(*case)), expected, strict=True):
            assert got.shape == wanted.shape
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(got, wanted)
    return program


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")
