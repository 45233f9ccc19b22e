"""What the importer knows of a value: dims, dtype, where it is in Relax, and, for tensors that
carry shapes, its elements as symbolic expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.kinds import Kind

# What a caller can give and take: element types that arrays have.
DTYPES = frozenset(
    ["bool", "bfloat16", *(f"float{b}" for b in (16, 32, 64))]
    + [f"{sign}int{b}" for sign in ("", "u") for b in (8, 16, 32, 64)]
)

Expr: TypeAlias = Any
Dim: TypeAlias = Any  # int64 PrimExpr


@dataclass(frozen=True, eq=False)
class Line:
    """Elements that are ``start + sum(step * index)`` over the axes of a tensor."""

    start: Dim
    steps: tuple[Dim, ...]


@dataclass(eq=False)
class Tensor:
    """An imported tensor.

    Invariant: at least one of ``expr`` (a Relax expression) and ``value`` (an object array of
    Python numbers and int64 or boolean expressions) is there; the importer makes the first from
    the second when a kernel needs the tensor in memory.
    """

    dims: tuple[Dim, ...]
    dtype: str
    expr: Expr = None
    value: np.ndarray | None = None
    constant: np.ndarray | None = None  # the literal, if it is one
    low: Dim | None = None  # no element of integers (or truth values) is less,
    high: Dim | None = None  # and none is greater; ask `positions.bounds`
    line: Line | None = None  # of integers that count along axes
    columns: tuple[Line, ...] | None = None  # of coordinates, listed along the last axis

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims)


@dataclass(eq=False)
class Closure:
    """A function value: its definition and the scope it was defined in."""

    function: ast.Function
    scope: Any
    name: str = "fn"
    recursive: ast.Var | None = None

    @property
    def is_global(self) -> bool:
        """Whether it is a function of the module."""
        return self.scope is None

    @property
    def identity(self) -> tuple[int, int]:
        """Equal for the same definition in the same surroundings."""
        return id(self.function), id(self.scope)


@dataclass(eq=False)
class Boxed:
    """A value in a block of its own: a node of a data type, a closure, a reference."""

    kind: Kind
    expr: Expr


Value: TypeAlias = "Tensor | Closure | Boxed | tuple[Value, ...]"
