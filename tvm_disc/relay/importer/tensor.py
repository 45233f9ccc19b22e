"""Values of the importer: tensors with dims, dtype and optional symbolic elements, closures,
boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.kinds import Kind
from tvm_disc.relay.ops.algebra import Algebra
from tvm_disc.typing import Expr

# Element types of the arrays that callers pass and receive.
DTYPES = frozenset(
    ["bool", "bfloat16", *(f"float{b}" for b in (16, 32, 64))]
    + [f"{sign}int{b}" for sign in ("", "u") for b in (8, 16, 32, 64)]
)

Dim: TypeAlias = Any  # int64 PrimExpr


@dataclass(frozen=True, eq=False)
class Progression:
    """An affine progression: elements equal ``start + sum(step * index)`` over a tensor's axes."""

    start: Dim
    steps: tuple[Dim, ...]


@dataclass(eq=False)
class Tensor(Algebra):
    """An imported tensor, with operators for import rules.

    Invariant: at least one of ``expr`` (a Relax expression) and ``value`` (an object array of
    Python numbers and int64 or boolean expressions) is set; the importer creates ``expr`` from
    ``value`` when a kernel needs the tensor in memory.
    """

    dims: tuple[Dim, ...]
    dtype: str
    expr: Expr | None = None
    value: np.ndarray | None = None
    constant: np.ndarray | None = None  # the elements, if the tensor is a literal
    low: Dim | None = None  # lower bound of integer or bool elements
    high: Dim | None = None  # upper bound; use `positions.bounds` to read both
    line: Progression | None = None  # set for integers that form a progression
    columns: tuple[Progression, ...] | None = None  # one per coordinate along the last axis
    permuted: tuple[Tensor, tuple[int, ...]] | None = None  # (source, axes) of a permutation

    @property
    def stored(self) -> Expr:
        """The Relax expression of the tensor, which must be set."""
        assert self.expr is not None
        return self.expr

    @property
    def rank(self) -> int:
        """Return the number of dims."""
        return len(self.dims)


@dataclass(eq=False)
class Closure:
    """A function value: its definition and its defining scope."""

    function: ast.Function
    scope: Any
    name: str = "fn"
    recursive: ast.Var | None = None

    @property
    def is_global(self) -> bool:
        """Return whether the function is global in the module."""
        return self.scope is None

    @property
    def identity(self) -> tuple[int, int]:
        """Return a key that is equal for the same definition in the same scope."""
        return id(self.function), id(self.scope)


@dataclass(eq=False)
class Boxed:
    """A value in a heap node: a data type, a closure or a reference."""

    kind: Kind
    expr: Expr


Value: TypeAlias = "Tensor | Closure | Boxed | tuple[Value, ...]"
