"""Types and known values of expressions while a program is still being built.

A front end queries the type of an operand, and whether its elements are known, as it builds the
program. Every expression is evaluated once, so a whole model costs one walk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tvm import relax

from tvm_disc.errors import Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.module import _Importer
from tvm_disc.relay.importer.positions import bounds
from tvm_disc.relay.importer.scopes import Bottom
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import as_expr, is_number, value_of
from tvm_disc.relay.module import IRModule
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr


class Sketch(Emitter):
    """An emitter for type inference, whose program is discarded.

    Weights are not copied. A value that affects only the elements of a result, and not its type,
    may be unknown.
    """

    def constant(self, array: np.ndarray) -> Tensor:
        """Return a literal tensor; if it has over 64 elements, a variable replaces the constant."""
        if array.size <= 64:
            return super().constant(array)
        dims = tuple(i64(int(d)) for d in array.shape)
        dtype = str(array.dtype)
        var = relax.Var("weights", relax.TensorType(list(dims), dtype))
        return Tensor(dims, dtype, var, constant=array)

    def require_sizes(self, dims: Sequence[object]) -> None:
        """Do nothing: a program that does not use the expression needs no guard for its dims."""

    def refuse_bools(self, args: Sequence[Tensor]) -> None:
        """Do nothing: as in Relay, bool operands are refused in programs, not in type inference."""

    def elements(self, tensor: Tensor) -> np.ndarray | None:
        """Return the elements, or ones if they are unknown; an unknown dim gets size 1."""
        if tensor.constant is not None:
            return tensor.constant
        return np.ones([self.literal(d) or 1 for d in tensor.dims], tensor.dtype)


class Inference:
    """Incremental inference of types and values of expressions.

    Variables must be declared before they are used. Results computed inside :meth:`scope`, which
    is opened for the body of a loop or a branch, are dropped at its end: outside of the body, the
    same expression may have another value.

    Raises:
        TypeMismatch, ShapeConflict, Unsupported: an expression is not legal; the message names the
            operator and its position in the source.
    """

    def __init__(self) -> None:
        self._importer = _Importer(IRModule(), Solver(), {}, {}, Sketch)
        self._scope = self._importer._scope(None)
        self._kept: list[ast.Expr] = []  # keeps expressions alive: results are cached by identity
        self._types: dict[int, tuple[object, rt.Type]] = {}

    def declare(self, var: ast.Var) -> None:
        """Declare a variable that has a type annotation and an unknown value."""
        self._scope.variables[var] = self._importer.input(var)

    def stands_for(self, var: ast.Var, expr: ast.Expr) -> None:
        """Declare a variable that will be bound to the value of ``expr``."""
        self._scope.variables[var] = self._evaluate(expr)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open the scope of a loop or branch body; facts proved inside it are dropped at its
        end.
        """
        importer, outer, kept = self._importer, self._scope, len(self._kept)
        self._scope = importer._scope(outer)
        importer.ctx.nested += 1
        try:
            with importer.solver.trial():
                yield
        finally:
            importer.ctx.nested -= 1
            self._scope = outer
            del self._kept[kept:]

    @property
    def in_body(self) -> bool:
        """Return whether a :meth:`scope` is open."""
        return self._importer.ctx.nested > 0

    def type_of(self, expr: ast.Expr) -> rt.Type:
        """Return the type; a dim that is not a literal is ``Any``."""
        value = self._evaluate(expr)
        known = self._types.get(id(value))
        if known is None:
            known = self._types[id(value)] = (value, self._type(value))
        return known[1]

    def value_of(self, expr: ast.Expr) -> np.ndarray | None:
        """Return the elements if all of them are known; None otherwise."""
        if isinstance(expr, ast.Constant):
            return expr.data
        value = self._evaluate(expr)
        if not isinstance(value, Tensor):
            return None
        if value.constant is not None:
            return value.constant
        items = value_of(value)
        if items is None or not all(is_number(x) for x in items.reshape(-1)):
            return None
        return np.array(items.tolist(), dtype=value.dtype).reshape(items.shape)

    def elements_of(self, expr: ast.Expr) -> list[int | None] | None:
        """Return the elements of an integer vector, None for unknown ones; None if the length
        is unknown.
        """
        value = self._evaluate(expr)
        if not isinstance(value, Tensor) or value.rank != 1:
            return None
        items = value_of(value)
        if items is not None:
            return [int(x) if is_number(x) else None for x in items]
        count = self._importer.ctx.literal(value.dims[0])
        return None if count is None else [None] * count

    def is_formula(self, expr: ast.Expr) -> bool:
        """Return whether every element is a number or a formula of dims, none read from data."""
        value = self._evaluate(expr)
        return isinstance(value, Tensor) and value_of(value) is not None

    def is_natural(self, expr: ast.Expr) -> bool:
        """Return whether every element is proved non-negative."""
        value = self._evaluate(expr)
        if not isinstance(value, Tensor) or value.dtype.startswith(("uint", "bool")):
            return isinstance(value, Tensor)
        ctx, known = self._importer.ctx, self.value_of(expr)
        if known is not None:
            return not bool((known < 0).any())
        items = value_of(value)
        if items is not None:
            return all(bool(ctx.solver.known_le(i64(0), as_expr(x))) for x in items.reshape(-1))
        low, _ = bounds(ctx, value)
        return low is not None and bool(ctx.solver.known_le(i64(0), low))

    def dims_of(self, expr: ast.Expr) -> tuple[Expr, ...]:
        """Return the dims of a tensor as formulas, for :meth:`same`."""
        dims: tuple[Any, ...] = self._evaluate(expr).dims
        return dims

    def formula_of(self, expr: ast.Expr) -> object | None:
        """Return the element of a scalar as a formula of dims; None if it is read from data."""
        value = self._evaluate(expr)
        items = value_of(value) if isinstance(value, Tensor) else None
        return None if items is None or items.size != 1 else as_expr(items.reshape(-1)[0])

    def same(self, a: object, b: object) -> bool:
        """Return whether two dims are proved equal."""
        return bool(self._importer.ctx.same(a, b))

    def _evaluate(self, expr: ast.Expr) -> Any:
        self._kept.append(expr)
        return self._importer.evaluate(expr, self._scope)

    def _type(self, value: object) -> rt.Type:
        if isinstance(value, tuple):
            return rt.TupleType(tuple(self._type(v) for v in value))
        if isinstance(value, Tensor):
            literals = [self._importer.ctx.literal(d) for d in value.dims]
            dims = tuple(rt.Any() if d is None else d for d in literals)
            return rt.TensorType(dims, value.dtype)
        if isinstance(value, Bottom):
            raise Unsupported("type inference: the expression never returns a value")
        raise Unsupported("type inference: expected a tensor or a tuple of tensors")


__all__ = ["Inference", "Sketch"]
