"""Sources of other frameworks: recognised without importing them, refused with what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

import tvm_disc
from tvm_disc.errors import BadInput, TypeMismatch, Unsupported
from tvm_disc.frontends import extras, from_onnx, from_pytorch, from_relax, read_model


def relu() -> Any:
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 4], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(R.nn.relu(x))
        bb.emit_func_output(out)
    return bb.get()


def test_a_relax_module_compiles() -> None:
    program = tvm_disc.build(relu())
    for n in (0, 1, 5):
        x = np.linspace(-1, 1, 4 * n, dtype="float32").reshape(n, 4)
        assert np.array_equal(np.asarray(program(x)), np.maximum(x, 0))


def test_constraints_apply_to_a_relax_module() -> None:
    program = tvm_disc.build(relu(), constraints=["n <= 8"])
    with pytest.raises(Exception, match="n <= 8"):
        program(np.ones((9, 4), "float32"))


@pytest.mark.parametrize("source", ["def @main() { 1 }", 3, None, [1], "{}"])
def test_other_sources_are_left_to_others(source: object) -> None:
    assert read_model(source) is None


def test_classes_are_recognised_by_name() -> None:
    missing = [n for n in ("onnx", "torch") if importlib.util.find_spec(n) is None]
    for package, name in (("onnx", "ModelProto"), ("torch", "ExportedProgram")):
        if package not in missing:
            continue
        model = type(name, (), {"__module__": f"{package}.inner"})()
        with pytest.raises(Unsupported, match=rf"tvm_disc\[{package}\]"):
            tvm_disc.build(model)


@pytest.mark.parametrize(("read", "package"), [(from_onnx, "onnx"), (from_pytorch, "torch")])
def test_a_missing_package_is_named_with_its_extra(
    read: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=rf"'{package}'.*pip install 'tvm_disc\[{package}\]'"):
        read(object())


def test_an_empty_module_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="empty"):
        tvm_disc.build(tvm.IRModule())


def test_a_module_without_main_is_refused() -> None:
    mod = tvm.IRModule({relax.GlobalVar("f"): relu()["main"]})
    with pytest.raises(TypeMismatch, match=r"'main'.*found \['f'\]"):
        from_relax(mod)


def test_a_module_whose_symbol_nothing_gives_is_refused() -> None:
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n * 2], "float32"))
    y = relax.Var("y", relax.TensorType([n * 2], "float32"))
    call = R.nn.relu(x)
    relax.expr._update_type(call, y.ty)
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y)
    relax.expr._update_type(body, y.ty)
    mod = tvm.IRModule({relax.GlobalVar("main"): relax.Function([x], body, y.ty, True)})
    with pytest.raises(
        TypeMismatch, match=r"Var n is not defined; expected n as a whole dim of some input"
    ):
        from_relax(mod)


@pytest.mark.parametrize("source", [3, "text", None])
def test_what_is_no_module_is_refused(source: object) -> None:
    with pytest.raises(TypeMismatch, match="expected a Relax module"):
        from_relax(source)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(BadInput, match=r"no such ONNX file.*none\.onnx"):
        tvm_disc.build(str(tmp_path / "none.onnx"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.pb", "`.pb` is a graph of TensorFlow; pass the folder of a SavedModel"),
        (
            "model.pth",
            "weights or a pickled module of PyTorch; create the module, load the weights",
        ),
        ("model.safetensors", "weights without a model; create the module"),
        ("model.h5", "`keras.models.load_model`"),
        ("model.keras", "`keras.models.load_model`"),
        ("model.tflite", "a LiteRT (TensorFlow Lite) model; pass the model from which"),
        ("model.mlmodel", "a Core ML model"),
        ("model.ort", "an ONNX Runtime model; pass the `.onnx` file"),
        ("model.so", "a compiled program; load it with `tvm_disc.load(path)`"),
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_files_of_other_formats_are_named(name: str, words: str, kind: Any) -> None:
    with pytest.raises(Unsupported) as error:
        tvm_disc.build(kind(name))
    assert f"'{name}': " in str(error.value) and words in str(error.value)
