"""A short sample of ONNX's own backend tests, as given and with every dim of the inputs dynamic."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

NODES = "onnx.backend.test.case.node"
# By the file that they are in: what real models need, and what is hard.
CASES = {
    "slice": ["slice_neg_steps"],
    "reshape": ["reshape_zero_and_negative_dim"],
    "gathernd": ["gathernd_example_int32_batch_dim1"],
    "expand": ["expand_dim_changed"],
    "topk": ["top_k_smallest"],
    "unique": ["unique_sorted_with_axis_3d"],
    "reducesum": ["reduce_sum_negative_axes_keepdims_example"],
    "scan": ["scan9_sum"],
    "loop": ["loop11"],
    "rotaryembedding": ["rotary_embedding_3d_input"],
}
# The rank of a result is the length of an input: it must be known. The rows that a scan gathers
# have the dims of what it reads: a sum that may broadcast its state has others.
FIXED = ("reshape", "expand", "gathernd", "scan")


def cases(module: str) -> dict[str, Any]:
    """The cases of one file, which makes them when it is read."""
    found = importlib.import_module(NODES)
    importlib.import_module(f"{NODES}.{module}")
    return {c.name: c for c in found._NodeTestCases}


def dynamic(model: Any) -> Any:
    """The model with a dim of its own for every dim of its inputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value in made.graph.input:
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.Clear()
            dim.dim_param = f"{value.name}_{k}"
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if hasattr(value, "raw_data") else np.asarray(value)


@pytest.mark.parametrize("any_dims", [False, True])
@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in CASES.items() for n in names])
def test_backend(module: str, name: str, any_dims: bool) -> None:
    case = cases(module)[f"test_{name}"]
    model = dynamic(case.model) if any_dims and module not in FIXED else case.model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = tvm_disc.build(model)
    for inputs, wanted in case.data_sets:
        got = program(*map(array, inputs))
        items = got if isinstance(got, list | tuple) else [got]
        for x, want in zip(items, map(array, wanted), strict=True):
            assert np.asarray(x).shape == want.shape
            np.testing.assert_allclose(np.asarray(x), want, rtol=1e-3, atol=1e-5)


def test_rows_of_unknown_dims_are_not_gathered() -> None:
    model = dynamic(cases("scan")["test_scan9_sum"].model)
    with pytest.raises(Unsupported, match="Scan 'y': what a loop gathers must have dims that are"):
        tvm_disc.build(model)
