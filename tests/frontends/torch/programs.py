"""Modules of PyTorch built once and run on many shapes, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import tvm_disc


def module_of(function: Callable[..., Any]) -> Any:
    """A function as a module."""
    import torch

    class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *args: Any) -> Any:
            return function(*args)

    return Function()


def dims(*names: str) -> Any:
    """For each tensor, which axes have a name: ``"b s _"``; ``_`` is fixed, ``?`` free."""
    import torch

    def spec(text: str) -> Any:
        found = {}
        for axis, name in enumerate(text.split()):
            if name == "?":
                found[axis] = torch.export.Dim.AUTO
            elif name != "_":
                found[axis] = torch.export.Dim(name)
        return found

    return tuple(spec(text) for text in names)


def exported(function: Any, examples: Sequence[Any], *names: str) -> Any:
    """A program whose dims are named as :func:`dims` says."""
    import torch

    module = function if isinstance(function, torch.nn.Module) else module_of(function)
    spec = dims(*names)
    spec = spec if isinstance(function, torch.nn.Module) else (spec,)
    with torch.no_grad():
        return torch.export.export(module.eval(), tuple(examples), dynamic_shapes=spec)


def tensors(*shapes: Sequence[int], dtype: str = "float32", seed: int = 0) -> tuple[Any, ...]:
    """Random tensors."""
    import torch

    rng = np.random.default_rng(seed)
    made = [torch.from_numpy(np.asarray(rng.standard_normal(s) * 2)) for s in shapes]
    return tuple(t.to(getattr(torch, dtype)) for t in made)


def check(
    function: Any,
    cases: Iterable[Sequence[Any]],
    *names: str,
    tolerance: float = 2e-5,
    example: Sequence[Any] | None = None,
) -> Any:
    """Build with the first case, or ``example``, and compare every case with PyTorch."""
    import torch

    cases = list(cases)
    program = exported(function, cases[0] if example is None else example, *names)
    exe = tvm_disc.build(program)
    for case in cases:
        with torch.no_grad():
            wanted = function(*case)
        wanted = wanted if isinstance(wanted, tuple | list) else [wanted]
        found = exe(*case)
        found = found if isinstance(found, tuple | list) else [found]
        shapes = [tuple(t.shape) for t in case]
        for k, (f, w) in enumerate(zip(found, wanted, strict=True)):
            assert f.dtype == w.dtype and f.shape == w.shape, (shapes, k, f.dtype, f.shape)
            torch.testing.assert_close(
                f, w, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False,
                msg=lambda text, at=(shapes, k): f"{at}: {text}",
            )  # fmt: skip
    return exe
