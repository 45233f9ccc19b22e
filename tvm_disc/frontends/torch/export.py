"""Modules of PyTorch, exported for the user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.torch.recurrent import whole_layers


def exported(module: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Any:
    """What ``torch.export.export`` makes of a module, with recurrent layers of any length.

    Args:
        module: a ``torch.nn.Module``.
        example_inputs: what it is called with: a tuple of positional inputs, or a mapping of those
            by name.
        dynamic_shapes: as ``torch.export.export`` takes it; by default every dim of every tensor
            may change where the module allows it.

    Raises:
        TypeMismatch: it is no module.
        BadInput: ``example_inputs`` is neither.
        Unsupported: PyTorch cannot export the module; its message tells why.
    """
    require("torch", "torch", "build of a torch.nn.Module")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeMismatch(
            f"example_inputs are for a torch.nn.Module, found {type(module).__name__}"
        )
    if isinstance(example_inputs, Mapping):
        args, kwargs = (), dict(example_inputs)
    elif isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        args, kwargs = tuple(example_inputs), {}
    else:
        found = type(example_inputs).__name__
        raise BadInput(
            "example_inputs: expected a tuple of inputs or a mapping of them by name, "
            f"found {found}"
        )
    if dynamic_shapes is None:
        dynamic_shapes = _all_dynamic(torch, kwargs or args)
    failed: Exception | None = None
    for later in (False, True):
        # Conditions on sizes that PyTorch cannot prove of the given ranges are an error of the
        # export, or else part of the program, where they are proved or checked on entry.
        how = {"prefer_deferred_runtime_asserts_over_guards": True} if later else {}
        try:
            with torch.no_grad(), whole_layers():
                return torch.export.export(
                    module, args, kwargs or None, dynamic_shapes=dynamic_shapes, **how
                )
        except Exception as error:  # of any class: PyTorch runs the module
            failed = failed or error
    text = str(failed).strip()
    raise Unsupported(
        f"PyTorch cannot export this module: {type(failed).__name__}: {text[:2000]}"
    ) from failed


def load_program(path: str | os.PathLike[str]) -> Any:
    """The exported program of a file that ``torch.export.save`` wrote.

    Raises:
        BadInput: the file cannot be read, or is another.
        Unsupported: PyTorch is not installed.
    """
    require("torch", "torch", f"{path}")
    import torch

    if not Path(path).is_file():
        raise BadInput(f"{path}: No such file or directory")
    try:
        return torch.export.load(path)
    except Exception as error:  # of any class: PyTorch unpacks and checks it
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise BadInput(
            f"{path}: expected a program that torch.export.save wrote: {text}"
        ) from error


def _all_dynamic(torch: Any, inputs: Any) -> Any:
    """Every dim free to change, unless the module fixes it."""
    auto = torch.export.Dim.AUTO

    def spec(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return dict.fromkeys(range(x.dim()), auto)
        if isinstance(x, Mapping):
            return {k: spec(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return type(x)(spec(v) for v in x) if type(x) in (list, tuple) else None
        return None

    return spec(inputs)
