"""``verify`` beside the framework that a model comes from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
jax = pytest.importorskip("jax")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
import tvm_disc.jax as disc_jax  # noqa: E402
from tvm_disc.errors import BadInput  # noqa: E402

SIZES = (0, 1, 7, 64, 331)


def references(found: Any) -> list[str]:
    return [c.reference for c in found.comparisons]


def onnx_layer(bias: float = 0.0) -> Any:
    """A layer with named nodes."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="/layer/MatMul"),
        helper.make_node("Add", ["h", "b"], ["a"], name="/layer/Add"),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1, name="/Softmax"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
        for name, width in (("x", 16), ("y", 8))
    )
    weights = [
        numpy_helper.from_array(weight, "w"),
        numpy_helper.from_array(np.float32([bias] + [0] * 7), "b"),
    ]
    graph = helper.make_graph(nodes, "layer", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_an_onnx_file(tmp_path: Path, rng: np.random.Generator) -> None:
    onnx.save(onnx_layer(), tmp_path / "layer.onnx")
    exe = tvm_disc.build(tmp_path / "layer.onnx")
    for n in SIZES:
        found = exe.verify(rng.standard_normal((n, 16)).astype("float32"))
        assert found and references(found) == ["one kernel per operator", "ONNX Runtime"]


def test_an_onnx_model_is_passed_again(rng: np.random.Generator) -> None:
    model = onnx_layer()
    exe = tvm_disc.build(model)
    x = rng.standard_normal((7, 16)).astype("float32")
    with pytest.raises(BadInput, match=r"its model no longer exists .* pass the model as source="):
        exe.verify(x)
    assert exe.verify(x, source=model)
    # Another model: both references differ, and no kernel is wrong.
    found = exe.verify(x, source=onnx_layer(bias=3.0))
    assert not found and not any(c.equal for c in found.comparisons)


def test_a_program_that_only_the_framework_contradicts(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note names the import as the cause."""
    model = onnx_layer()
    run = ort.InferenceSession.run
    monkeypatch.setattr(ort.InferenceSession, "run", lambda *args: [a + 1 for a in run(*args)])
    found = tvm_disc.build(model).verify(
        rng.standard_normal((7, 16)).astype("float32"), source=model
    )
    assert [c.equal for c in found.comparisons] == [True, False] and found.kernel is None
    assert "ONNX Runtime: DIFFERENT, largest difference" in str(found)
    assert "the difference comes from the import of the model" in found.notes[-1]


def test_inputs_that_the_framework_does_not_have(rng: np.random.Generator) -> None:
    exe = tvm_disc.build(model := onnx_layer())
    other = onnx_layer()
    other.graph.input[0].name = other.graph.node[0].input[0] = "z"
    found = exe.verify(rng.standard_normal((7, 16)).astype("float32"), source=other)
    assert found.comparisons[1].error is None
    why = "it raised: the model has inputs that the program lacks: z"
    assert f"ONNX Runtime: not compared, {why}" in str(found)
    del model


def module() -> Any:

    class Model(torch.nn.Module):
        """Nested inputs and results, and a buffer that a call updates."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, batch: Any, scale: Any = None) -> Any:
            self.calls += 1
            y = self.layer(batch["x"])
            return {"scores": torch.softmax(y if scale is None else y * scale, -1), "y": y}

    return Model()


def test_a_module_of_pytorch() -> None:
    model = module()
    exe = tvm_disc.build(model, example_inputs=({"x": torch.ones(4, 8)},))
    for n in SIZES[1:]:
        found = exe.verify({"x": torch.randn(n, 8)}, calls=torch.ones(()))
        assert found and references(found) == ["one kernel per operator", "PyTorch"], str(found)
    assert model.calls.item() == 0  # a copy was called


def test_an_exported_program_and_its_file(tmp_path: Path) -> None:
    n = torch.export.Dim("n")
    args = (torch.ones(4, 8),)
    program = torch.export.export(torch.nn.Linear(8, 4), args, dynamic_shapes=({0: n},))
    torch.export.save(program, tmp_path / "linear.pt2")
    for source in (program, tmp_path / "linear.pt2"):
        exe = tvm_disc.build(source)
        found = exe.verify(np.ones((7, 8), "float32"))
        assert found and references(found)[1] == "PyTorch"


def test_a_function_of_jax() -> None:
    rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4")[:2], "float32")
    made = disc_jax.compile(lambda x: {"y": jax.nn.softmax(x["x"])}, {"x": rows})
    for n in SIZES[1:]:
        found = made.executable.verify(np.ones((n, 4), "float32"))
        assert found and references(found) == ["one kernel per operator", "JAX"]


def test_a_framework_that_is_not_installed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    absent = {"onnxruntime"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else find(name)
    )
    model = onnx_layer()
    found = tvm_disc.build(model).verify(
        rng.standard_normal((7, 16)).astype("float32"), source=model
    )
    assert found and references(found) == ["one kernel per operator"]
