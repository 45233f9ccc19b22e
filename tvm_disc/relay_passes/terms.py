"""Relax tensors with operators, for the rules that decompose composite operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax
from tvm.relax import op as R

from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay.ops.algebra import Algebra, Number
from tvm_disc.typing import Expr, Size


def scalar(value: object, dtype: str) -> Expr:
    """Return a scalar literal of a dtype."""
    if dtype == "bfloat16":
        return relax.const(value, dtype)
    return relax.const(np.array(value, dtype=dtype), dtype)


class Term(Algebra):
    """A Relax tensor: a variable, a literal, or a call that is emitted when it is first read."""

    def __init__(self, expr: Expr, dtype: str, *, pending: bool = False) -> None:
        self.expr, self.dtype, self.pending = expr, dtype, pending


class TermEmitter:
    """Emits operators on terms.

    The last operator of a rule remains pending, so that the caller can bind it to the variable of
    the composite operator.
    """

    def __init__(self, emit: Callable[[Expr], Expr]) -> None:
        self._emit = emit

    def of(self, expr: Expr) -> Term:
        """Return a variable or a literal as a term."""
        return Term(expr, str(expr.ty.dtype))

    def made(self, call: Expr, dtype: str) -> Term:
        """Return a call as a term, which is emitted when it is first read."""
        return Term(call, dtype, pending=True)

    def expr(self, x: Term) -> Expr:
        """Return the variable of a term; a pending call is emitted."""
        if x.pending:
            x.expr, x.pending = self._emit(x.expr), False
        return x.expr

    def bound(self, x: Term) -> Term:
        """Emit the call of a term at once, and return the term."""
        self.expr(x)
        return x

    def apply(self, name: str, *operands: Term | Number, dtype: str = "") -> Term:
        """Return an element-wise operator; see :class:`Builder`."""
        kind = [x.dtype for x in operands if isinstance(x, Term)][-1]
        exprs = [self.expr(x) if isinstance(x, Term) else scalar(x, kind) for x in operands]
        return self.made(getattr(R, name)(*exprs), dtype or kind)

    def reduce(self, name: str, x: Term, axes: int | Sequence[int] | None) -> Term:
        """Return a reduction whose dims are kept as 1."""
        return self.made(getattr(R, name)(self.expr(x), axes, keepdims=True), x.dtype)

    def cast(self, x: Term, dtype: str) -> Term:
        """Return a term cast to a dtype."""
        return x if x.dtype == dtype else self.made(R.astype(self.expr(x), dtype), dtype)

    def reshape(self, x: Term, dims: Sequence[Size]) -> Term:
        """Return a term reshaped."""
        return self.made(reshape_call(self.expr(x), dims), x.dtype)


__all__ = ["Term", "TermEmitter", "scalar"]
