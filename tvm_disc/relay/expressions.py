"""Traversal of Relax expressions that skips the arithmetic inside of their shapes.

``relax.analysis.post_order_visit`` calls Python for every term of every dim, which takes most
of the time of a pass over a model whose sizes are long sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from tvm_disc.shape.symbols import free_symbols
from tvm_disc.typing import Expr, Var


def expressions(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and its subexpressions in program order; of a dim, only its variables.

    Types and called functions are not visited.
    """
    stack = [expr]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(_parts(found)))


def variables(expr: Expr) -> Iterator[Var]:
    """Yield the variables that an expression reads or binds."""
    return (e for e in expressions(expr) if isinstance(e, tvm.ir.Var))


def _parts(expr: Expr) -> list[Expr]:
    """Return the operands of an expression; of a dim, its variables."""
    if isinstance(expr, tvm.ir.Var | tvm.ir.GlobalVar | tvm.ir.GenericConst | tvm.ir.Op):
        return []
    if isinstance(expr, tvm.ir.Call):
        return [expr.op, *expr.args]
    if isinstance(expr, tvm.ir.Tuple):
        return [*expr.fields]
    if isinstance(expr, tvm.ir.TupleGetItem):
        return [expr.tuple_value]
    if isinstance(expr, relax.SeqExpr):
        bindings = [b for block in expr.blocks for b in block.bindings]
        return [part for b in bindings for part in (b.value, b.var)] + [expr.body]
    if isinstance(expr, relax.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    if isinstance(expr, relax.Function):
        return [*expr.params, expr.body]
    if isinstance(expr, relax.ShapeExpr):
        return free_symbols(expr.values)
    return free_symbols([expr]) if tvm.ir.is_prim_expr(expr) else []


__all__ = ["expressions", "variables"]
