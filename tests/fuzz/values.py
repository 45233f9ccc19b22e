"""Dims, values and inputs of a random module: each is known by what it is in every world.

A world is one set of inputs. A dim is the tuple of its sizes in all worlds, so that dims which are
equal, multiples or sums of each other are known as such, whatever the module calls them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tests.fuzz.meaning import MISSING, RUNS, Missing, Undefined, evaluate, stable
from tvm_disc import relay

Dim: TypeAlias = tuple[int, ...]
WORLDS = 6
MOST_RANK = 6


def fixed(size: int) -> Dim:
    """A dim of one size in all worlds."""
    return (size,) * WORLDS


ONE = fixed(1)


def basic_dims(rng: random.Random) -> list[Dim]:
    """Three dims to begin with; of a tenth of all modules nothing is dynamic."""
    pick = rng.choice
    if rng.random() < 0.1:
        return [fixed(pick((0, 1, 2, 3, 4, 5, 8))) for _ in range(3)]
    worlds = [
        [pick((2, 3, 5, 7)), pick((3, 4, 5)), pick((2, 6, 7))],
        [1, pick((2, 4)), pick((1, 3))],
        [pick((1, 2)), 1, 1],
        rng.sample([pick((2, 3)), pick((7, 8, 9)), pick((15, 16, 17, 31, 33))], 3),
        rng.sample([0, pick((1, 3)), pick((2, 4))], 3),
        [pick((2, 4, 6))] * 3,
    ]
    dims = [tuple(w[k] for w in worlds) for k in range(3)]
    if rng.random() < 0.1:
        dims[2] = fixed(0)  # known to hold nothing
    return dims


@dataclass(eq=False)
class Value:
    """An expression and what it is: an array per world and run, None where it is undefined."""

    expr: Any
    runs: list[list[Any] | None]

    @property
    def first(self) -> Any:
        """What it is in the first world where it is anything."""
        return next(r[0] for r in self.runs if r is not None)

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self.first.dtype)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes per world, -1 where the value is undefined."""
        rank = self.first.ndim
        shapes = [(-1,) * rank if r is None else r[0].shape for r in self.runs]
        return tuple(zip(*shapes, strict=True)) if rank else ()

    def within(self, low: float, high: float) -> bool:
        """Whether every element is in ``[low, high)``."""
        arrays = [r[0] for r in self.runs if r is not None]
        return all(a.size == 0 or (a.min() >= low and a.max() < high) for a in arrays)


@dataclass
class Inputs:
    """The parameters of a module, and their contents."""

    rng: np.random.Generator
    basics: list[Dim]
    dynamic: float  # the chance of a dim that is the same everywhere to be unknown all the same
    params: list[Any] = field(default_factory=list)
    data: list[dict[str, np.ndarray]] = field(default_factory=lambda: [{} for _ in range(WORLDS)])

    def add(self, arrays: Sequence[np.ndarray], name: str = "x") -> Value:
        """An input with these contents, one array per world."""
        label = f"{name}{len(self.params)}"
        var = relay.var(label, type_of(arrays, self.rng, self.dynamic))
        self.params.append(var)
        for world, array in zip(self.data, arrays, strict=True):
            world[label] = array
        return Value(var, [[a] * RUNS for a in arrays])

    def numbers(self, dims: Sequence[Dim], dtype: str, low: float, high: float) -> list[Any]:
        """Contents of few bits, so that sums are exact."""
        return [self._one([max(d[w], 0) for d in dims], dtype, low, high) for w in range(WORLDS)]

    def _one(self, shape: Sequence[int], dtype: str, low: float, high: float) -> np.ndarray:
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind == "f":
            first, last = int(np.ceil(low * 4)), max(int(np.ceil(high * 4)), 1)
            if last - first < 3:  # a narrow range
                return np.asarray(self.rng.uniform(low, high, shape)).astype(dtype)
            return np.asarray(self.rng.integers(first, last, shape) / 4).astype(dtype)
        low = max(low, 0) if kind == "u" else low
        return np.asarray(self.rng.integers(int(low), max(int(high), int(low) + 1), shape), dtype)


def type_of(arrays: Sequence[np.ndarray], rng: np.random.Generator, dynamic: float) -> Any:
    """A type that all arrays have."""
    shape: list[Any] = []
    for sizes in zip(*(a.shape for a in arrays), strict=True):
        known = len(set(sizes)) == 1 and rng.random() >= dynamic
        shape.append(int(sizes[0]) if known else relay.Any())
    return relay.TensorType(tuple(shape), str(arrays[0].dtype))


class Knowledge:
    """What expressions are, by ``id``, in every world and run."""

    def __init__(self, functions: dict[str, Any], lasting: list[Any]) -> None:
        self.functions, self.lasting = functions, lasting
        self.envs: list[list[dict[int, Any]]] = [[{} for _ in range(RUNS)] for _ in range(WORLDS)]
        self._learned: list[Any] = []
        self._count = 0

    def learn(self, value: Value) -> None:
        """Remember a value."""
        self._learned.append(value.expr)
        for runs, envs in zip(value.runs, self.envs, strict=True):
            for k, env in enumerate(envs):
                env[id(value.expr)] = MISSING if runs is None else runs[k]

    def mark(self) -> int:
        """A place to forget from."""
        return len(self._learned)

    def forget(self, mark: int) -> None:
        """Values of the scope that began at ``mark``, but for inputs and constants.

        In another turn of a loop they are others.
        """
        for expr in self._learned[mark:]:
            if isinstance(expr, relay.Constant) or expr in self.lasting:
                continue
            for env in (e for envs in self.envs for e in envs):
                env.pop(id(expr), None)

    def value(self, expr: Any, undefined: int = 0) -> Value | None:
        """The value of an expression, if it is defined and stable but for ``undefined`` worlds."""
        self._count += 1
        found: list[list[Any] | None] = []
        for envs in self.envs:
            try:
                runs = [
                    evaluate(expr, env, self.functions, k, self._count)
                    for k, env in enumerate(envs)
                ]
            except Missing:
                found.append(None)
            except Undefined:
                found.append(None)
                undefined -= 1
            else:
                if not stable(runs):
                    return None
                found.append(runs)
            if undefined < 0:
                return None
        if all(runs is None for runs in found):
            return None
        return Value(expr, found)
