"""Runs a model in its original framework, to compare the results of a program with it."""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tvm_disc.frontends.detect import is_class, is_onnx, is_pytorch
from tvm_disc.frontends.sources import Source
from tvm_disc.typing import Argument, Arguments, Array

#: Runs a model on (positional arguments, named arguments, arrays by the program's input names);
#: each framework uses the form that it accepts.
Run: TypeAlias = Callable[[Arguments, Mapping[str, Argument], Mapping[str, Array]], list[Array]]


def original(source: Source) -> tuple[str, Run] | None:
    """Return the name of a model's framework, and a function that runs the model in it.

    Returns None if the model has no framework that runs it (Relay, Relax, StableHLO text), or if
    the framework is not installed.
    """
    for recognises, package, name, made in FRAMEWORKS:
        if recognises(source) and importlib.util.find_spec(package) is not None:
            return name, made(source)
    return None


def _onnx(source: Source) -> Run:
    def run(
        args: Arguments, kwargs: Mapping[str, Argument], flat: Mapping[str, Array]
    ) -> list[Array]:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        is_path = isinstance(source, str | os.PathLike)
        given = os.fspath(source) if is_path else source.SerializeToString()
        session = ort.InferenceSession(given, options, ["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        if missing := [n for n in names if n not in flat]:
            raise ValueError(f"the model has inputs that the program lacks: {', '.join(missing)}")
        return [np.asarray(x) for x in session.run(None, {n: flat[n] for n in names})]

    return run


def _torch(source: Source) -> Run:
    def run(
        args: Arguments, kwargs: Mapping[str, Argument], flat: Mapping[str, Array]
    ) -> list[Array]:
        import torch
        from torch.utils import _pytree as pytree

        if isinstance(source, str | os.PathLike):
            program = torch.export.load(source)
        else:
            program = getattr(source, "program", source)
        if isinstance(program, torch.nn.Module):
            module = copy.deepcopy(program)  # a call may change the buffers of the module
        else:
            module = program.module()
        nested, named = pytree.tree_map(_own_tensor, (args, dict(kwargs)))
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                # a buffer that the model updates is an input of the program
                if (given := named.pop(name.replace(".", "_"), None)) is not None:
                    buffer.copy_(given)
            found = module(*nested, **named)
        return [
            np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)
            for x in pytree.tree_leaves(found)
            if x is not None
        ]

    return run


def _own_tensor(value: object) -> object:
    import torch

    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return value.clone() if isinstance(value, torch.Tensor) else value


def _jax(source: Source) -> Run:
    def run(
        args: Arguments, kwargs: Mapping[str, Argument], flat: Mapping[str, Array]
    ) -> list[Array]:
        import jax

        nested, named = jax.tree.unflatten(source.in_tree, list(flat.values()))
        return _arrays(jax.tree.leaves(source.call(*nested, **named)))

    return run


def _keras(source: Source) -> Run:
    def run(
        args: Arguments, kwargs: Mapping[str, Argument], flat: Mapping[str, Array]
    ) -> list[Array]:
        import keras

        inputs = list(flat.values())
        return _arrays(keras.tree.flatten(source(inputs[0] if len(inputs) == 1 else inputs)))

    return run


def _arrays(values: Sequence[object]) -> list[Array]:
    return [np.asarray(x) for x in values]


FRAMEWORKS: tuple[tuple[Callable[[Source], bool], str, str, Callable[[Source], Run]], ...] = (
    (is_onnx, "onnxruntime", "ONNX Runtime", _onnx),
    (lambda s: is_class(s, "jax", "Exported"), "jax", "JAX", _jax),
    # Keras precedes PyTorch: with the PyTorch backend a Keras model is also a `torch.nn.Module`
    (lambda s: is_class(s, "keras", "Model"), "keras", "Keras", _keras),
    (is_pytorch, "torch", "PyTorch", _torch),
)

__all__ = ["Run", "original"]
