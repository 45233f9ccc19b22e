"""Detection of the framework that a model comes from, without importing any framework."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.relay.files import is_file_name
from tvm_disc.support.late import Late

exported = Late("tvm_disc.frontends.torch.export:exported")
from_keras = Late("tvm_disc.frontends.keras:from_keras")
from_gguf = Late("tvm_disc.frontends.gguf.decoder:from_gguf")
from_onnx = Late("tvm_disc.frontends.onnx.model:from_onnx")
from_pytorch = Late("tvm_disc.frontends.torch.program:from_pytorch")
from_relax = Late("tvm_disc.frontends.relax:from_relax")
from_saved_model = Late("tvm_disc.frontends.tensorflow:from_saved_model")
from_stablehlo = Late("tvm_disc.frontends.stablehlo.model:from_stablehlo")
_load_program = Late("tvm_disc.frontends.torch.export:load_program")


def read_model(source: object) -> object | None:
    """Return the Relay or Relax module of a model of a known framework, or None for other
    sources.
    """
    for recognises, read in READERS:
        if recognises(source):
            return read(source)
    return None


def is_class(source: object, package: str, name: str) -> bool:
    """Return whether an object's class, or a base class, is ``name`` of ``package``.

    Classes are compared by name, so the package need not be installed.
    """
    return any(
        c.__name__ == name and c.__module__.split(".")[0] == package for c in type(source).__mro__
    )


def is_file(source: object, suffix: str) -> bool:
    """Return whether a source is a path that ends with ``suffix``; the file need not exist."""
    if isinstance(source, str) and "\n" in source:
        return False
    return isinstance(source, str | os.PathLike) and Path(source).suffix == suffix


def is_onnx(source: object) -> bool:
    """Return whether a source is an ONNX model or the path of one."""
    return is_file(source, ".onnx") or is_class(source, "onnx", "ModelProto")


def is_pytorch(source: object) -> bool:
    """Return whether a source is a module or an exported program of PyTorch, or its file."""
    kinds = (("torch", "ExportedProgram"), ("tvm_disc", "Exported"), ("torch", "Module"))
    return is_file(source, ".pt2") or any(is_class(source, *kind) for kind in kinds)


SMALLEST_MODULE = 64  # bytes; every serialized module is longer


def _is_stablehlo(source: object) -> bool:
    """Return whether a source is an exported JAX function, or StableHLO as text, bytes or file."""
    if isinstance(source, str) and "\n" in source:
        return "stablehlo." in source or source.lstrip().startswith(("module", "#loc"))
    return (
        (isinstance(source, bytes | bytearray) and len(source) >= SMALLEST_MODULE)
        or _is_stablehlo_file(source)
        or is_class(source, "jax", "Exported")
    )


def _is_stablehlo_file(source: object) -> bool:
    return any(is_file(source, s) for s in (".mlir", ".mlirbc", ".stablehlo", ".jax"))


def _is_saved_model(source: object) -> bool:
    if not isinstance(source, str | os.PathLike) or "\n" in str(source):
        return False
    return os.path.isfile(os.path.join(source, "saved_model.pb"))


_WEIGHTS = "create the module, load the weights into it, and pass the module with `example_inputs`"
_TO_ONNX = "convert it to ONNX and pass the `.onnx` file"
_ORIGINAL = "pass the model from which it was made: of PyTorch, Keras or JAX, or as ONNX"
# Files that contain models or weights, but that `build` does not read: (contents, what to do).
OTHER_FILES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (".pt", ".pth", ".ckpt", ".bin"),
        (
            "weights or a pickled module of PyTorch",
            f"{_WEIGHTS}; read an exported program with `torch.export.load` and pass that",
        ),
    ),
    ".safetensors": ("weights without a model", _WEIGHTS),
    ".pb": (
        "a graph of TensorFlow",
        "pass the folder of a SavedModel, or convert a frozen graph with `tf2onnx`; "
        "pass an ONNX model of this name as `onnx.load(path)`",
    ),
    **dict.fromkeys(
        (".keras", ".h5", ".hdf5"),
        ("a model or weights of Keras", "pass the model that `keras.models.load_model` returns"),
    ),
    **dict.fromkeys((".tflite", ".litertlm"), ("a LiteRT (TensorFlow Lite) model", _ORIGINAL)),
    **dict.fromkeys((".mlmodel", ".mlpackage"), ("a Core ML model", _ORIGINAL)),
    **dict.fromkeys((".engine", ".plan"), ("an engine of TensorRT", _ORIGINAL)),
    ".ort": ("an ONNX Runtime model", "pass the `.onnx` file from which it was made"),
    ".pdmodel": ("a PaddlePaddle model", f"{_TO_ONNX} (`paddle2onnx`)"),
    **dict.fromkeys((".caffemodel", ".prototxt"), ("a Caffe model", _TO_ONNX)),
    **dict.fromkeys((".pkl", ".joblib"), ("a pickled object", "load it, and pass the model")),
    **dict.fromkeys((".so", ".dso"), ("a compiled program", "load it with `tvm_disc.load(path)`")),
}


def _is_other_file(source: object) -> bool:
    return any(is_file(source, suffix) for suffix in OTHER_FILES)


def _refuse_other_file(source: Any) -> None:
    path = Path(source)
    contents, advice = OTHER_FILES[path.suffix]
    raise Unsupported(f"{os.fspath(source)!r}: `{path.suffix}` is {contents}; {advice}")


def files_of(source: Any) -> list[Path] | None:
    """Return the file that a source names and the files that it refers to, or None for other
    sources.
    """
    try:
        if is_file(source, ".onnx"):
            from tvm_disc.frontends.onnx.external import files_beside

            return [Path(source), *files_beside(Path(source))]
    # The front end raises this error with a better message when it reads the model.
    except (OSError, ValueError, BadInput):
        return None
    named = (
        is_file(source, ".pt2")
        or is_file(source, ".gguf")
        or is_file_name(source)
        or _is_stablehlo_file(source)
    )
    return [Path(source)] if named else None


READERS: tuple[tuple[Callable[[object], bool], Callable[[object], object]], ...] = (
    (lambda source: isinstance(source, tvm.IRModule), from_relax),
    (is_onnx, from_onnx),
    (lambda source: is_file(source, ".gguf"), from_gguf),
    (_is_stablehlo, from_stablehlo),
    (_is_saved_model, from_saved_model),
    # Keras precedes PyTorch: with the PyTorch backend a Keras model is also a `torch.nn.Module`
    (lambda source: is_class(source, "keras", "Model"), from_keras),
    (lambda source: is_file(source, ".pt2"), lambda source: from_pytorch(_load_program(source))),
    (is_pytorch, from_pytorch),
    (_is_other_file, _refuse_other_file),
)
