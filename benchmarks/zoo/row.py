"""The class of a row of the zoo, and the table of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

Dims = Mapping[str, int]
Make = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
VOCABULARY = 96


@dataclass(frozen=True)
class Input:
    """One input: the text of its axes (``"b 3 32*h w"``), and the function that fills it."""

    axes: str
    fill: Make

    @property
    def dynamic(self) -> dict[int, str]:
        """The axes whose text is not a number."""
        return {k: a for k, a in enumerate(self.axes.split()) if not a.isdecimal()}

    def at(self, dims: Dims, rng: np.random.Generator) -> torch.Tensor:
        """Return a tensor for a combination of dims."""
        shape = tuple(int(eval(a, {}, dict(dims))) for a in self.axes.split())
        return torch.from_numpy(self.fill(rng, shape))


@dataclass(frozen=True)
class Row:
    """A model with random weights, its inputs, and the combinations of dims to run.

    Attributes:
        limits: dim -> its least and largest value.
        legacy: use the tracing exporter only. The standard exporter would, for example, unroll a
            recurrence to a fixed length.
        static: on the path ``compile``, axes of fixed size are marked static. Otherwise PyTorch
            keeps them symbolic, and its tracing of nested windows takes minutes.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Mapping[str, Input]
    combinations: tuple[Dims, ...]
    limits: Mapping[str, tuple[int, int | None]]
    legacy: bool = False
    static: bool = False

    @property
    def example(self) -> Dims:
        """A combination of dims without 0 and 1, which exporters treat as constants."""
        large = [c for c in self.combinations if all(v > 1 for v in c.values())]
        return max(large, key=lambda c: (len(set(c.values())), -sum(c.values())))

    def at(self, dims: Dims) -> tuple[torch.Tensor, ...]:
        """Return the inputs for a combination of dims, the same on every run."""
        rng = np.random.default_rng(sum(dims.values()))
        return tuple(i.at(dims, rng) for i in self.inputs.values())


ROWS: dict[str, Row] = {}


def row(
    name: str,
    make: Callable[[], nn.Module],
    inputs: Mapping[str, Input],
    dims: str,
    combinations: Sequence[tuple[int, ...]],
    legacy: bool = False,
    static: bool = False,
    **limits: tuple[int, int | None],
) -> None:
    """Add a row to the table; ``combinations`` has values for the names in ``dims``."""
    assert len(combinations) >= 6, f"{name}: at least six combinations"
    assert name not in ROWS, f"{name}: there twice"
    named = tuple(dict(zip(dims.split(), c, strict=True)) for c in combinations)
    ROWS[name] = Row(name, make, inputs, named, limits, legacy, static)


def floats(axes: str) -> Input:
    """Return an input of normally distributed numbers."""
    return Input(axes, lambda rng, shape: rng.standard_normal(shape).astype("float32"))


def ids(axes: str, high: int = VOCABULARY, low: int = 3) -> Input:
    """Return an input of integers: token ids or indices."""
    return Input(axes, lambda rng, shape: rng.integers(low, high, shape).astype("int64"))


def mask(axes: str = "b s", dtype: str = "int64") -> Input:
    """Return a mask of ones; the last of several sequences ends with zeros."""

    def fill(_: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        made = np.ones(shape, dtype)
        if shape[0] > 1 and shape[1] > 2:
            made[-1, 1 + shape[1] // 2 :] = 0
        return made

    return Input(axes, fill)


def spread(model: nn.Module) -> None:
    """Give convolutions and linear layers weights that keep the scale of their input.

    The weights that libraries draw (standard deviation 0.01) shrink the features of a deep model:
    results are then too small to compare. Or the scores of all queries of a detector differ only by
    rounding errors, so that PyTorch selects different queries in float32 and in float64.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)


def spread_out(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Return ``make`` with the weights of :func:`spread`."""

    def made() -> nn.Module:
        model = make()
        spread(model)
        return model

    return made


def first_tensors(made: Any) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a result, in order."""
    if isinstance(made, torch.Tensor):
        return (made,)
    if isinstance(made, Mapping):
        made = list(made.values())
    return tuple(t for m in made if m is not None for t in first_tensors(m))


__all__ = [
    "ROWS", "VOCABULARY", "Input", "Row", "first_tensors", "floats", "ids", "mask", "row", "spread",
    "spread_out",
]  # fmt: skip
