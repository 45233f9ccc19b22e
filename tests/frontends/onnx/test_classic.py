"""Ensembles of decision trees, and scalers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

from tvm_disc.errors import DiscError  # noqa: E402

from .helpers import F32, I64, build, model, node, normal, same  # noqa: E402


def trees(**changes: Any) -> Any:
    """Two trees, one of them of a single leaf, with every kind of test."""
    attributes = {
        "n_targets": 2,
        "tree_roots": [0, 7],
        "nodes_modes": numpy_helper.from_array(np.array([0, 1, 2, 3, 4, 6, 5, 0], "uint8")),
        "nodes_featureids": [0, 1, 2, 1, 0, 2, 0, 0],
        "nodes_splits": numpy_helper.from_array(np.array([0, 1, -1, 0, 2, 0, 3, 0], "float32")),
        "nodes_missing_value_tracks_true": [1, 0, 0, 1, 0, 0, 0, 0],
        "nodes_truenodeids": [1, 3, 4, 0, 2, 4, 6, 7],
        "nodes_trueleafs": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_falsenodeids": [2, 6, 5, 1, 3, 5, 7, 7],
        "nodes_falseleafs": [0, 0, 0, 1, 1, 1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.arange(1, 9, dtype="float32")),
        "membership_values": numpy_helper.from_array(np.array([1, 2, np.nan], "float32")),
        **changes,
    }
    return node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attributes)


def of_trees(made: Any) -> Any:
    return model([made], {"x": (F32, ["n", "k"])}, domains={"ai.onnx.ml": 5})


@pytest.mark.parametrize("how", [0, 1, 2, 3])
def test_trees(how: int) -> None:
    rng = np.random.default_rng(how)
    cases = []
    for rows in (1, 2, 7, 16, 64):
        x = rng.integers(-3, 4, (rows, 3)).astype("float32")
        x[rng.random((rows, 3)) < 0.1] = np.nan
        cases.append([x])
    program = same(of_trees(trees(aggregate_function=how)), *cases)
    assert program(np.zeros((0, 3), "float32")).shape == (0, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [1, 0, 4, 0, 2, 4, 6, 0]}, "form a cycle"),
        (
            {"nodes_falsenodeids": [2, 6, 5, 1, 3, 5, 9, 0]},
            "nodes_falsenodeids: expected integers of at least 0, less than 8 for nodes",
        ),
        (
            {"tree_roots": [8]},
            r"tree_roots: expected one or more integers, .* less than 8, .*found \[8\]",
        ),
        ({"leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 2]}, "less than n_targets"),
        (
            {"nodes_featureids": [0]},
            "nodes_featureids: expected 8 entries, as in nodes_modes, found 1",
        ),
        ({"post_transform": 4}, r"expected 0 \(none\), 1 \(softmax\) or 2 \(logistic\), found 4"),
    ],
)
def test_trees_that_are_none_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DiscError, match=f"ONNX TreeEnsemble 'y': .*{words}"):
        build(of_trees(trees(**changes)))


def scaler(offset: list[float], scale: list[float], dtype: int = F32) -> Any:
    made = node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=offset, scale=scale)
    return model([made], {"x": (dtype, ["n", "k"])}, domains={"ai.onnx.ml": 1})


@pytest.mark.parametrize(
    ("offset", "scale"), [([1.0, -2.0, 0.5], [2.0, 0.25, -1.0]), ([0.5], [1.0, 2.0, 3.0])]
)
def test_a_scaler_shifts_and_scales_each_feature(offset: Any, scale: Any) -> None:
    cases = [[normal(n, 3)] for n in (0, 1, 7, 16, 33)]
    same(scaler(offset, scale), *cases, want=lambda x: (x - np.float32(offset)) * np.float32(scale))


def test_a_scaler_of_other_features_is_refused() -> None:
    with pytest.raises(DiscError, match="must equal 3"):
        build(scaler([1.0, 2.0], [1.0, 2.0, 3.0]))
    program = build(scaler([1.0, 2.0], [1.0, 2.0]))
    with pytest.raises(DiscError, match="must equal 2"):
        program(normal(4, 1))


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_scaler_returns_float32(dtype: str) -> None:
    code = I64 if dtype == "int64" else onnx.TensorProto.DOUBLE
    cases = [[np.arange(3 * n).reshape(n, 3).astype(dtype)] for n in (0, 1, 7, 16, 33)]
    want = lambda x: ((x - 0.5) * np.array([1, 2, 3])).astype("float32")  # noqa: E731
    same(scaler([0.5], [1.0, 2.0, 3.0], code), *cases, want=want)


def test_a_scaler_without_an_offset_is_refused() -> None:
    made = node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[1.0])
    with pytest.raises(DiscError, match="attribute 'offset' is missing"):
        build(model([made], {"x": (F32, ["n", "k"])}, domains={"ai.onnx.ml": 1}))
