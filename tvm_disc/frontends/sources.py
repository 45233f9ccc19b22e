"""Reads all sources that ``build`` accepts into Relay or Relax modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import TypeMismatch
from tvm_disc.frontends.detect import read_model
from tvm_disc.relay import expr as ast
from tvm_disc.relay.files import as_module, is_file_name, load_file
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.text.parser import parse

Source: TypeAlias = Any


def read(source: Source) -> Any:
    """Return a source as a Relay module; a Relax module is returned unchanged.

    Raises:
        TypeMismatch: ``build`` does not accept sources of this type.
    """
    if isinstance(source, IRModule):
        return source
    if isinstance(source, ast.Expr):
        return IRModule.from_expr(source)
    model = read_model(source)
    if model is not None:
        return model
    if is_file_name(source):
        return load_file(source)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        from tvm_disc.relay.json.reader import load_json

        return as_module(load_json(source))
    if isinstance(source, str):
        return parse(source)
    raise TypeMismatch(
        "source: expected a Relay module, function, text, JSON or file, a Relax module, an ONNX "
        "model or file, a GGUF file, a torch.export.ExportedProgram or its file, a TensorFlow "
        "SavedModel, a Keras model, or a jax.export.Exported or StableHLO, found "
        f"{type(source).__name__}"
    )


def model_name(source: Source) -> str:
    """Return the name of a model's file, graph, function or class, or an empty string."""
    one_line = isinstance(source, str) and "\n" not in source
    if isinstance(source, os.PathLike) or (one_line and os.path.isfile(source)):
        return Path(source).stem
    for found in (getattr(source, "fun_name", None), getattr(source, "graph", None)):
        text = found if isinstance(found, str) else getattr(found, "name", None)
        if isinstance(text, str):
            return text
    return type(source).__name__ if callable(getattr(source, "named_parameters", None)) else ""


__all__ = ["Source", "model_name", "read"]
