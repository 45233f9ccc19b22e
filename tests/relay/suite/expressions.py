"""Cases of one expression each, of which many are one program: a build is dear, a run is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_disc import relay
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.table import OPS

# Set where all cases are run and counted: ``python -m tests.relay.suite``.
COUNTED = "TESTS_RELAY_SUITE"


@dataclass(frozen=True)
class Case:
    """An expression of the inputs' variables, and what it gives for the arrays themselves.

    ``want`` is an array, several of them, or a function of the inputs that gives such.
    """

    build: Callable[..., Any]
    want: Any
    inputs: tuple[Any, ...]
    tolerance: float = 1e-5

    def wanted(self) -> list[np.ndarray]:
        """The expected results, a tuple's fields one after the other."""
        found = self.want(*self.inputs) if callable(self.want) else self.want
        several = isinstance(found, (tuple, list)) and any(
            isinstance(v, (np.ndarray, np.generic)) for v in found
        )
        return [np.asarray(v) for v in (found if several else [found])]


def case(build: Callable[..., Any], want: Any, *inputs: Any, tolerance: float = 1e-5) -> Case:
    """A case of arrays, whose dims and element types are those of its variables."""
    return Case(build, want, tuple(map(np.asarray, inputs)), tolerance)


class Program:
    """Cases as one program, built on first use; one that does not build alone fails alone."""

    def __init__(
        self, cases: Mapping[str, Case], kind: str = "graph", unknown: bool = False
    ) -> None:
        self.cases = dict(cases)
        self.kind = kind
        self.unknown = unknown
        self.fixed: frozenset[int] = frozenset()
        self._results: dict[str, list[np.ndarray]] | None = None

    def check(self, name: str) -> None:
        """The case's results have the dims, element types and values that it wants.

        Raises:
            AssertionError: they have others.
        """
        chosen = self.cases[name]
        for found, want in zip(self._found(name), chosen.wanted(), strict=True):
            assert (found.dtype, found.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(
                found, want, rtol=chosen.tolerance, atol=chosen.tolerance, equal_nan=True
            )

    def _found(self, name: str) -> list[np.ndarray]:
        if self._results is None:
            try:
                self._results = self._run(list(self.cases))
            except Exception:
                self._results = {}
        if name not in self._results:
            self._results |= self._run([name])
        return self._results[name]

    def _run(self, names: Sequence[str]) -> dict[str, list[np.ndarray]]:
        params, results, inputs = [], [], []
        for number, name in enumerate(names):
            chosen = self.cases[name]
            own = [
                relay.var(f"x{number}_{k}", shape=self._dims(v, k), dtype=str(v.dtype))
                for k, v in enumerate(chosen.inputs)
            ]
            made = chosen.build(*own)
            params += own
            inputs += chosen.inputs
            results.append(made.astuple() if isinstance(made, relay.TupleWrapper) else made)
        function = relay.Function(params, relay.Tuple(results))
        out = relay.create_executor(self.kind).evaluate(function)(*inputs)
        return {n: flat(v) for n, v in zip(names, out, strict=True)}

    def _dims(self, value: np.ndarray, position: int) -> tuple[Any, ...]:
        unknown = self.unknown and position not in self.fixed
        return tuple(relay.Any() if unknown else int(d) for d in value.shape)


def flat(value: Any) -> list[np.ndarray]:
    """The tensors of a result, a tuple's fields one after the other."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [leaf for field in value for leaf in flat(field)]


def meaning(name: str, *arrays: Any, **attrs: Any) -> Any:
    """What an operator's reference gives, attributes that are left out by default."""
    row = OPS[name]
    assert row.reference is not None
    return row.reference(*arrays, **complete_attrs(row, attrs))


def reals(*dims: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Numbers around 0."""
    return np.random.default_rng(seed).normal(size=dims).astype(dtype)


def positive(*dims: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Numbers above 0."""
    return np.random.default_rng(seed).uniform(0.1, 2, dims).astype(dtype)


def counts(*dims: int, below: int = 10, least: int = 0, dtype: str = "int32") -> np.ndarray:
    """Integers from ``least`` up to ``below``."""
    return np.random.default_rng(below).integers(least, below, dims).astype(dtype)


def parameters(programs: Mapping[str, Program]) -> list[tuple[str, str]]:
    """(program, case) of every case where they are counted, else of each fifth, to be quick."""
    if not os.environ.get(COUNTED):
        for program in programs.values():
            program.cases = dict(list(program.cases.items())[::5])
    return [(p, name) for p, program in programs.items() for name in program.cases]
