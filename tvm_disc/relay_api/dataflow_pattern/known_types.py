"""Types of the expressions of one program, if they can be inferred."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import DiscError
from tvm_disc.relay.expr import Call, Constant, Expr, Function, Let, Op, TupleGetItem, Var
from tvm_disc.relay.expr import Tuple as TupleExpr
from tvm_disc.relay.types import FuncType, TensorType, TupleType, Type
from tvm_disc.relay.visit import binders, post_order

_DATAFLOW = (Call, Constant, TupleExpr, TupleGetItem, Var)


class KnownTypes:
    """Types of expressions below some roots.

    The type is None if it cannot be inferred from the expression without its module.
    """

    def __init__(self, *roots: Expr) -> None:
        self._inference: Any = None
        self._known: dict[Expr, Type | None] = {}
        self._values: dict[Var, Expr] = {}
        self._declared: set[Var] = set()
        # variables being declared: the variable of a recursive function occurs in its value
        self._pending: set[Var] = set()
        self._bound: set[Var] = set()
        self.enter(*roots)

    def enter(self, *roots: Expr) -> None:
        """Add programs; their let bindings define variables of queried expressions."""
        for node in post_order(*roots):
            if isinstance(node, Let):
                self._values[node.var] = node.value
            self._bound.update(binders(node))

    def of(self, expr: Expr) -> Type | None:
        """Return the type of ``expr``, or None if unknown."""
        if expr not in self._known:
            # Inference without the module does not type calls of its functions and constructors.
            # An earlier inference over the module may have stored their types.
            self._known[expr] = self._find(expr) or getattr(expr, "_checked_type", None)
        return self._known[expr]

    def tensor(self, expr: Expr) -> TensorType | None:
        """Return the type of ``expr`` if it is a tensor; None otherwise."""
        found = self.of(expr)
        return found if isinstance(found, TensorType) else None

    def shape(self, expr: Expr) -> tuple[int, ...] | None:
        """Return the shape of a tensor if all dims are numbers; None otherwise."""
        found = self.tensor(expr)
        if found is None or not all(isinstance(d, int) for d in found.shape):
            return None
        return tuple(d for d in found.shape if isinstance(d, int))

    def dtype(self, expr: Expr) -> str | None:
        """Return the element type of a tensor; None for other expressions."""
        found = self.tensor(expr)
        return None if found is None else found.dtype

    def rank(self, expr: Expr) -> int | None:
        """Return the rank of a tensor; None for other expressions."""
        found = self.tensor(expr)
        return None if found is None else len(found.shape)

    def value(self, expr: Expr) -> Any:
        """Return the elements of a tensor if all of them are known at compile time; None
        otherwise.
        """
        if isinstance(expr, Constant):
            return expr.data
        if not self._declare(expr):
            return None
        try:
            return self._inference.value_of(expr)
        except DiscError:
            return None

    def same_dims(self, a: Expr, b: Expr) -> bool:
        """Return whether two tensors are proved to have the same dims."""
        if self.tensor(a) is None or self.tensor(b) is None:
            return False
        if not (self._declare(a) and self._declare(b)):
            return False
        left, right = self._inference.dims_of(a), self._inference.dims_of(b)
        return len(left) == len(right) and all(map(self._inference.same, left, right))

    def _find(self, expr: Expr) -> Type | None:
        if isinstance(expr, Function):
            return self._function(expr)
        if isinstance(expr, Constant):
            return TensorType(expr.data.shape, str(expr.data.dtype))
        if isinstance(expr, Var) and expr.type_annotation is not None:
            return expr.type_annotation
        if not self._declare(expr):
            return None
        try:
            found: Type = self._inference.type_of(expr)
        except DiscError:
            return None
        return found

    def _function(self, func: Function) -> Type | None:
        result = func.ret_type or self.of(func.body)
        params = [self.of(p) for p in func.params]
        if result is None or None in params:
            return None
        return FuncType(tuple(p for p in params if p is not None), result, func.type_params)

    def _declare(self, expr: Expr) -> bool:
        """Declare every variable below ``expr`` to inference; return False if one cannot be
        declared.
        """
        if self._inference is None:
            from tvm_disc.relay.infer import Inference  # imports the whole importer

            self._inference = Inference()
        for node in post_order(expr):
            if isinstance(node, Var):
                if not self._declare_var(node):
                    return False
            elif not isinstance(node, (*_DATAFLOW, Op)):
                return False
        return True

    def _declare_var(self, var: Var) -> bool:
        if var in self._declared:
            return True
        if var in self._pending:
            return False
        self._pending.add(var)
        try:
            if var in self._values:
                if not self._declare(self._values[var]):
                    return False
                self._inference.stands_for(var, self._values[var])
            elif isinstance(var.type_annotation, TensorType):
                self._inference.declare(var)
            else:
                return False
        except DiscError:
            return False
        finally:
            self._pending.discard(var)
        self._declared.add(var)
        return True


def fields_of(found: Type | None) -> tuple[Type, ...]:
    """Return the field types of a tuple type; for any other type, the type alone."""
    if isinstance(found, TupleType):
        return found.fields
    return () if found is None else (found,)


__all__ = ["KnownTypes", "fields_of"]
