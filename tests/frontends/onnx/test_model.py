"""ONNX models and files: what is read, what is refused, and how it is said; needs `onnx`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc import relay  # noqa: E402
from tvm_disc.errors import BadInput, ShapeConflict, TypeMismatch, Unsupported  # noqa: E402
from tvm_disc.frontends import from_onnx  # noqa: E402


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


def test_a_model_becomes_a_relay_module() -> None:
    mod = relay.frontend.from_onnx(positions())
    assert isinstance(mod, relay.IRModule)
    (param,) = mod["main"].params
    assert param.name_hint == "x" and param.type_annotation.shape == (
        relay.Any("b"),
        relay.Any("n"),
    )
    program = tvm_disc.build(mod)
    for n in (1, 2, 5, 0, 64):
        assert np.array_equal(np.asarray(program(np.ones((2, n), "float32"))), np.arange(n))


def test_relays_own_pipeline_takes_it() -> None:
    assert "arange" in str(relay.to_relax(from_onnx(positions())))


def test_every_unknown_node_is_named_at_once() -> None:
    nodes = [
        helper.make_node("Nothing", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Other", ["b", "x"], ["y"], domain="my.own"),
    ]
    made = model(nodes, ["n"])
    with pytest.warns(UserWarning, match="checker"), pytest.raises(Unsupported) as caught:
        from_onnx(made)
    text = str(caught.value)
    assert "2 nodes" in text
    assert "Nothing (domain ai.onnx, opset 18), node 'first', inputs: x" in text
    assert "Other (domain my.own, opset 1), node 'y', inputs: b, x" in text


def test_unknown_nodes_in_branches_and_functions_are_named() -> None:
    outs = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    branch = helper.make_graph([helper.make_node("Lost", ["x"], ["o"])], "b", [], outs)
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "m"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    with (
        pytest.warns(UserWarning),
        pytest.raises(Unsupported, match=r"Lost .* node 'o', inputs: x"),
    ):
        from_onnx(model(nodes, ["n"]))


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        (
            helper.make_node("Gelu", ["x"], ["y"], name="g", approximate="best"),
            Unsupported,
            "ONNX Gelu 'g': .*expected 'none' or 'tanh', found 'best'",
        ),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0]), TypeMismatch, "Transpose 'y'"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[1, 1]), TypeMismatch, "every axis once"),
        (helper.make_node("Concat", ["x", "x"], ["y"]), Unsupported, "'axis' is missing"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=7), TypeMismatch, "axis 7"),
        (helper.make_node("Relu", ["z"], ["y"], name="r"), Unsupported, "value 'z' is undefined"),
        (helper.make_node("MatMul", ["x", "x"], ["y"]), ShapeConflict, "MatMul 'y'"),
        (helper.make_node("Reshape", ["x"], ["y"]), Unsupported, "input 1 is missing"),
        (helper.make_node("Split", ["x"], ["y", "q"], axis="no"), Unsupported, "Split 'y'"),
    ],
)
def test_errors_name_the_node(node: Any, kind: Any, words: str) -> None:
    made = model([node], [3, 4], rank=2)
    made.opset_import[0].version = 20
    with warnings.catch_warnings(), pytest.raises(kind, match=words):
        warnings.simplefilter("ignore")
        tvm_disc.build(made)


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


def test_names_of_inputs_are_the_models_own() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], ["n", 2], rank=2)
    made.graph.input[0].name = made.graph.node[0].input[0] = "past_key_values.0.key"
    program = tvm_disc.build(made, constraints=["n <= 8"])
    x = np.array([[-1, 2]], "float32")
    for got in (program(x), program(**{"past_key_values.0.key": x})):
        assert np.array_equal(np.asarray(got), [[0, 2]])


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        (["b", "b"], (relay.Any("b"), relay.Any("b"))),
        (["h", "2*h"], (relay.Any("h"), relay.DimOp("Mul", 2, relay.Any("h")))),
        (["h", "(h + 1) // 2"], None),
        (["2*h", "w"], (relay.Any("dim_2_h"), relay.Any("w"))),
        (["a b", "class"], (relay.Any("a_b"), relay.Any("dim_class"))),
    ],
)
def test_dims_of_inputs(dims: list[Any], shape: Any) -> None:
    (param,) = from_onnx(model([helper.make_node("Relu", ["x"], ["y"])], dims, rank=2))[
        "main"
    ].params
    if shape is not None:
        assert param.type_annotation.shape == shape
    assert str(param.type_annotation.shape[0])


def test_a_dim_that_is_a_formula_is_checked() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], ["h", "2*h"], rank=2)
    program = tvm_disc.build(made)
    for h in (0, 1, 3, 16, 5):
        assert np.asarray(program(np.ones((h, 2 * h), "float32"))).shape == (h, 2 * h)
    with pytest.raises(Exception, match="axis 1"):
        program(np.ones((3, 5), "float32"))


def test_a_sparse_initializer_has_its_zeros() -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], ["n", 3], rank=2)
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [5.0, 7.0])
    places = helper.make_tensor("i", TensorProto.INT64, [2], [0, 2])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = tvm_disc.build(made)
    assert np.array_equal(np.asarray(program(np.zeros((1, 3), "float32"))), [[5, 0, 7]])


def test_functions_of_the_model_take_attributes() -> None:
    body = [helper.make_node("LeakyRelu", ["a"], ["b"])]
    body[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    func = helper.make_function(
        "my", "Leak", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["slope"]
    )
    made = model([helper.make_node("Leak", ["x"], ["y"], domain="my", slope=0.5)], ["n"])
    made.functions.append(func)
    made.opset_import.append(helper.make_opsetid("my", 1))
    got = tvm_disc.build(made)(np.array([-2, 2], "float32"))
    assert np.array_equal(np.asarray(got), [-1, 2])


@pytest.mark.parametrize("code", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_inputs_of_other_types_are_refused(code: int) -> None:
    made = model([helper.make_node("Identity", ["x"], ["y"])], ["n"], code)
    made.graph.input[0].type.tensor_type.elem_type = code
    with pytest.raises(Unsupported, match=r"input 'x': element type (STRING|COMPLEX64)"):
        from_onnx(made)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"\xff\xfenot a model")
    with pytest.raises(BadInput, match="cannot be read as an ONNX model"):
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
    program = tvm_disc.build(made)
    for n, h, w in ((1, 1, 1), (2, 5, 3), (1, 16, 7), (1, 3, 64), (0, 2, 2)):
        x = np.random.default_rng(w).standard_normal((n, 2, h, w)).astype("float32")
        columns = np.floor(np.arange(w + 1) * w / (w + 1) + 1e-5).astype(int)
        want = np.repeat(x, 2, axis=2)[:, :, :, columns]
        assert np.array_equal(np.asarray(program(x)), want)


@pytest.mark.parametrize(
    "old, new, place",
    [
        (b"Relu", b"Rel\xe5", r"model\.graph\.node\[0\]\.op_type"),
        (b"other", b"o\xffher", r"model\.graph\.node\[0\]\.name"),
        (b"batch", b"b\xfftch", r"model\.graph\.input\[0\]\.type\..*\.dim\[0\]\.dim_param"),
    ],
)
def test_names_that_are_no_text(old: bytes, new: bytes, place: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="other")
    data = model([node], ["batch"]).SerializeToString()
    damaged = onnx.load_from_string(data.replace(old, new))
    with pytest.raises(BadInput, match=f"the ONNX model is damaged: {place} is not text"):
        from_onnx(damaged)


@pytest.mark.parametrize("version", [2**40, -1])
def test_opsets_that_no_release_has(version: int) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], ["n"])
    made.opset_import[0].version = version
    with (
        pytest.warns(UserWarning, match="checker"),
        pytest.raises(BadInput, match=f"domain ai.onnx: expected the number .* {version}"),
    ):
        from_onnx(made)
