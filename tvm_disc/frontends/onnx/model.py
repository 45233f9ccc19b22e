"""Import of an ONNX model, in memory or in a file, as a Relay module."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, TypeMismatch
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.onnx.external import check_external, check_model_file
from tvm_disc.frontends.onnx.functions import opsets_of
from tvm_disc.frontends.onnx.graph import Model, OnnxGraph, refuse_unknown, results_of
from tvm_disc.frontends.onnx.inputs import variables
from tvm_disc.frontends.onnx.size import function_key, node_limit
from tvm_disc.frontends.onnx.texts import check_texts
from tvm_disc.relay import expr as ast
from tvm_disc.relay.infer import Inference
from tvm_disc.relay.module import IRModule
from tvm_disc.typing import ModelProto


def from_onnx(model: ModelProto, folder: str = "") -> IRModule:
    """Return the Relay module of an ONNX model, or of the file at a path.

    Inputs keep the model's names. Weights become constants. Unknown dims become ``Any``, and dims
    of the same name are equal.

    Args:
        model: the model, or the path of its file.
        folder: the folder of external weight files, for a model in memory.

    Raises:
        Unsupported: the package `onnx` is not installed; nodes cannot be imported (the message
            lists all of them); or the model is too large after inlining.
        BadInput: the file does not exist or is not a model; or a file of weights is not accepted.
        TypeMismatch, ShapeConflict: the types or shapes of a node's inputs are invalid.
    """
    read, beside = read_file(model)
    own = {function_key(f): f for f in getattr(read, "functions", ())}
    limit = node_limit(read.graph, own)
    check_texts(read)
    path = None if read is model else Path(model)
    check_external(read, beside or folder, path)
    _check(model)
    return _module(read, Model(Inference(), beside or folder, own, limit))


def read_file(model: ModelProto) -> tuple[ModelProto, str]:
    """Return (model, folder of its file) for a model or a path; external weights are not read.

    The folder of a model in memory is an empty string.
    """
    require("onnx", "onnx", "from_onnx")
    import onnx

    read, folder = model, ""
    if isinstance(model, str | os.PathLike):
        read, folder = _load(onnx, model), str(Path(model).parent)
    if not isinstance(read, onnx.ModelProto):
        raise TypeMismatch(f"expected an ONNX model or a path, found {type(model).__name__}")
    return read, folder


def _module(model: ModelProto, shared: Model) -> IRModule:
    opsets, infer = opsets_of(model.opset_import), shared.infer
    refuse_unknown(model, opsets, shared.functions)
    graph = OnnxGraph(shared, opsets)
    given = {t.name for t in model.graph.initializer}
    given |= {s.values.name for s in model.graph.sparse_initializer}
    params = variables(model.graph, given)
    for p in params:
        infer.declare(p)
        graph.values[p.name_hint] = p
    results = graph.run(model.graph)
    body = results_of(results, [v.name for v in model.graph.output])
    return IRModule({"main": ast.Function(params, body)})


def _load(onnx: Any, path: str | os.PathLike[str]) -> object:
    """Load a model from a file; its external weights are read later, on first use."""
    check_model_file(Path(path))
    try:
        read = onnx.load(os.fspath(path), load_external_data=False)
    except Exception as error:  # protobuf's error class is in different modules in its releases
        raise BadInput(f"{os.fspath(path)!r} cannot be read as an ONNX model: {error}") from error
    if not read.graph.output:  # protobuf parses an empty file as a message without fields
        size = Path(path).stat().st_size
        raise BadInput(
            f"{os.fspath(path)!r} cannot be read as an ONNX model: found {size} bytes without a "
            "graph that has outputs; save or copy it again"
        )
    return read


def _check(model: ModelProto) -> None:
    """Run ONNX's checker; its errors become warnings, because it refuses models that compile."""
    import onnx

    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else os.fspath(model))
    except Exception as error:  # the checker's error class, or that of protobuf
        warnings.warn(f"ONNX's checker: {error}", stacklevel=3)


__all__ = ["from_onnx"]
