"""ONNX models through TVM's importer and its repairs; needs the package `onnx`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402
from tvm.relax.frontend.onnx import onnx_frontend  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import BadInput, TypeMismatch, Unsupported  # noqa: E402
from tvm_disc.frontends import from_onnx  # noqa: E402
from tvm_disc.frontends.onnx import REPAIRS, plain_dims  # noqa: E402


def model(nodes: list[Any], shape: list[Any], out: int = TensorProto.FLOAT, rank: int = 1) -> Any:
    """A graph over `x`; its result is `y`."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", out, [f"y{k}" for k in range(rank)])
    graph = helper.make_graph(nodes, "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 9
    return made


def constant(name: str, *values: int, scalar: bool = False) -> Any:
    dims = [] if scalar else [len(values)]
    tensor = helper.make_tensor(name, TensorProto.INT64, dims, values)
    return helper.make_node("Constant", [], [name], value=tensor)


def positions() -> Any:
    """y = 0, 1, ... along the second axis: what every transformer does."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        constant("one", 1, scalar=True),
        constant("zero", 0, scalar=True),
        helper.make_node("Gather", ["s", "one"], ["n"], axis=0),
        helper.make_node("Range", ["zero", "n", "one"], ["y"]),
    ]
    return model(nodes, ["b", "n"], TensorProto.INT64)


def test_range_over_a_dim_has_that_length() -> None:
    mod = from_onnx(positions())
    assert str(mod["main"].body.body.ty.shape.values[0]) == "n"
    assert np.array_equal(
        np.asarray(tvm_disc.build(positions())(np.ones((2, 5), "float32"))), np.arange(5)
    )


def test_the_repairs_last_for_one_import_only() -> None:
    before = [vars(getattr(onnx_frontend, c))[m] for c, m, _ in REPAIRS]
    from_onnx(positions())
    bad = model([helper.make_node("Nothing", ["x"], ["y"], domain="")], ["n"])
    with pytest.raises(Unsupported, match="Nothing"):
        from_onnx(bad)
    assert [vars(getattr(onnx_frontend, c))[m] for c, m, _ in REPAIRS] == before


def test_a_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], ["n"]), str(path))
    for source in (path, str(path)):
        got = np.asarray(tvm_disc.build(source)(np.array([-1, 2], "float32")))
        assert np.array_equal(got, [0, 2])


def scaled() -> Any:
    """y = x * w for weights w."""
    made = model([helper.make_node("Mul", ["x", "w"], ["y"])], ["n", 300], rank=2)
    weights = np.arange(300, dtype="float32")
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return made


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "scaled.onnx"
    onnx.save(scaled(), path, save_as_external_data=True, location="weights", size_threshold=16)
    assert (tmp_path / "weights").stat().st_size >= 1200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = np.asarray(tvm_disc.build(path)(np.ones((2, 300), "float32")))
    assert np.array_equal(got, np.tile(np.arange(300), (2, 1)))


@pytest.mark.parametrize("size", [None, 100])
def test_weights_that_are_not_there_are_named(tmp_path: Path, size: int | None) -> None:
    """The file is gone, or too short: nothing is computed with what it may hold."""
    path = tmp_path / "scaled.onnx"
    onnx.save(scaled(), path, save_as_external_data=True, location="weights", size_threshold=16)
    weights = tmp_path / "weights"
    kept = weights.read_bytes()[:size] if size else b""
    weights.unlink()
    if size:
        weights.write_bytes(kept)
    with warnings.catch_warnings(), pytest.raises(BadInput, match="ONNX tensor 'w'"):
        warnings.simplefilter("ignore")
        tvm_disc.build(path)


def test_what_the_checker_finds_is_a_warning() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], ["n"])
    made.graph.name = ""
    with pytest.warns(UserWarning, match="ONNX's checker"):
        program = tvm_disc.build(made)
    assert np.array_equal(np.asarray(program(np.array([-1, 2], "float32"))), [0, 2])


def test_dims_named_by_an_expression_get_plain_names() -> None:
    relu = model([helper.make_node("Relu", ["x"], ["y"])], ["2*h", "w"], rank=2)
    dims = plain_dims(relu).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in dims] == ["dim_0", "w"]
    got = np.asarray(tvm_disc.build(relu)(np.ones((3, 2), "float32")))
    assert got.shape == (3, 2)
    assert relu.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "2*h"


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"\xff\xfenot a model")
    with pytest.raises(BadInput, match="holds no ONNX model"):
        tvm_disc.build(path)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="expected an ONNX model or a path"):
        from_onnx(3)


def upsampled(**attributes: Any) -> Any:
    """y = x at twice its height and at its width plus one, computed by shape arithmetic."""
    nodes = [
        helper.make_node("Shape", ["x"], ["nc"], start=0, end=2),
        helper.make_node("Shape", ["x"], ["h"], start=2, end=3),
        helper.make_node("Shape", ["x"], ["w"], start=3, end=4),
        helper.make_node("Squeeze", ["h"], ["height"]),
        helper.make_node("Squeeze", ["w"], ["width"]),
        constant("one", 1, scalar=True),
        constant("two", 2, scalar=True),
        constant("line", -1),
        helper.make_node("Mul", ["height", "two"], ["high"]),
        helper.make_node("Add", ["width", "one"], ["wide"]),
        helper.make_node("Reshape", ["high", "line"], ["rows"]),
        helper.make_node("Reshape", ["wide", "line"], ["columns"]),
        helper.make_node("Concat", ["nc", "rows", "columns"], ["size"], axis=0),
        helper.make_node("Resize", ["x", "", "", "size"], ["y"], **attributes),
    ]
    return model(nodes, ["n", 2, "h", "w"], rank=4)


def test_resize_to_a_computed_size() -> None:
    made = upsampled(
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    dims = from_onnx(made)["main"].body.body.ty.shape.values
    assert str(dims[2]).replace("T.int64(2)", "2") == "h * 2"
    program = tvm_disc.build(made)
    for n, h, w in ((1, 1, 1), (2, 5, 3), (1, 16, 7)):
        x = np.random.default_rng(w).standard_normal((n, 2, h, w)).astype("float32")
        columns = np.floor(np.arange(w + 1) * w / (w + 1) + 1e-5).astype(int)
        want = np.repeat(x, 2, axis=2)[:, :, :, columns]
        assert np.array_equal(np.asarray(program(x)), want)


def test_resize_of_a_region_is_refused() -> None:
    with pytest.raises(Unsupported, match="tf_crop_and_resize to a size computed"):
        from_onnx(upsampled(coordinate_transformation_mode="tf_crop_and_resize"))
