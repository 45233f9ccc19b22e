"""What a row of the zoo is, and the table of all rows."""

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
    """One input: its axes in words (``"b 3 32*h w"``), and what fills it."""

    axes: str
    fill: Make

    @property
    def dynamic(self) -> dict[int, str]:
        """The axes that are not numbers."""
        return {k: a for k, a in enumerate(self.axes.split()) if not a.isdecimal()}

    def at(self, dims: Dims, rng: np.random.Generator) -> torch.Tensor:
        """A tensor for a combination of dims."""
        shape = tuple(int(eval(a, {}, dict(dims))) for a in self.axes.split())
        return torch.from_numpy(self.fill(rng, shape))


@dataclass(frozen=True)
class Row:
    """A model with random weights, its inputs, and the combinations of dims to run.

    Attributes:
        limits: of a dim, the least and the most.
        legacy: the standard exporter cannot know that (say) a recurrence has no fixed length:
            take the tracing one at once.
        static: on the path compile, axes of fixed size are marked static. Otherwise PyTorch keeps
            them symbolic, and its tracing of nested windows takes minutes.
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
        """A combination without 0 and 1, which exporters take for constants."""
        large = [c for c in self.combinations if all(v > 1 for v in c.values())]
        return max(large, key=lambda c: (len(set(c.values())), -sum(c.values())))

    def at(self, dims: Dims) -> tuple[torch.Tensor, ...]:
        """Its inputs for a combination of dims, the same on every run."""
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
    """Put a row into the table; ``combinations`` holds values for the names of ``dims``."""
    assert len(combinations) >= 6, f"{name}: at least six combinations"
    assert name not in ROWS, f"{name}: there twice"
    named = tuple(dict(zip(dims.split(), c, strict=True)) for c in combinations)
    ROWS[name] = Row(name, make, inputs, named, limits, legacy, static)


def floats(axes: str) -> Input:
    """Normally distributed numbers."""
    return Input(axes, lambda rng, shape: rng.standard_normal(shape).astype("float32"))


def ids(axes: str, high: int = VOCABULARY, low: int = 3) -> Input:
    """Whole numbers, token ids or indices."""
    return Input(axes, lambda rng, shape: rng.integers(low, high, shape).astype("int64"))


def mask(axes: str = "b s", dtype: str = "int64") -> Input:
    """Ones, and zeros at the end of the last of several."""

    def fill(_: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        made = np.ones(shape, dtype)
        if shape[0] > 1 and shape[1] > 2:
            made[-1, 1 + shape[1] // 2 :] = 0
        return made

    return Input(axes, fill)


def spread(model: nn.Module) -> None:
    """Give convolutions and linear layers weights that keep the scale of their input.

    The weights that libraries draw (standard deviation 0.01) shrink the features of a deep model:
    results are then too small to compare, or the scores of all queries of a detector are equal to
    rounding, and PyTorch in float32 and in float64 selects different ones.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)


def spread_out(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Return ``make`` with weights that :func:`spread` draws."""

    def made() -> nn.Module:
        model = make()
        spread(model)
        return model

    return made


def first_tensors(made: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of a result, in order."""
    if isinstance(made, torch.Tensor):
        return (made,)
    if isinstance(made, Mapping):
        made = list(made.values())
    return tuple(t for m in made if m is not None for t in first_tensors(m))


__all__ = [
    "ROWS", "VOCABULARY", "Input", "Row", "first_tensors", "floats", "ids", "mask", "row", "spread",
    "spread_out",
]  # fmt: skip
