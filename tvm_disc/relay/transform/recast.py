"""``recast``: some operators of a program in another element type."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.errors import BadNode, shown

from ..expr import Call, Expr, Function, Tuple
from ..expr_functor import rewrite_post_order
from ..module import IRModule
from ..types import is_dtype
from ..visit import post_order
from .manager import replaced
from .rules import attrs_of, op_call, op_name, row_of

RECAST = ("nn.conv2d",)


def recast(
    expr: Expr | IRModule,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] = (),
) -> Expr | IRModule:
    """``expr`` with the operands of some operators cast to ``dtype``, their results back.

    Args:
        expr: an expression, a function or a module.
        dtype: what the operators compute in.
        out_dtype: what their results are.
        ops: their names, ``nn.conv2d`` by default.
        skip_layers: which of their calls stay as they are, counted in order of evaluation;
            negative numbers count from the last.

    Raises:
        BadNode: a dtype that is none, or what is no program.
    """
    for name in (dtype, out_dtype):
        if not is_dtype(name):
            raise BadNode(f"recast: expected an element type such as int8, found {shown(name)}")
    names = frozenset(RECAST if ops is None else ops)
    if isinstance(expr, IRModule):
        main = _recast(expr["main"], dtype, out_dtype, names, skip_layers)
        assert isinstance(main, Function)
        return replaced(
            expr, {g: main if g.name_hint == "main" else f for g, f in expr.functions.items()}
        )
    if not isinstance(expr, Expr):
        raise BadNode(f"recast: expected a Relay expression or module, found {shown(expr)}")
    return _recast(expr, dtype, out_dtype, names, skip_layers)


def _recast(
    expr: Expr, dtype: str, out_dtype: str, names: frozenset[str], skip: Sequence[int]
) -> Expr:
    calls = [node for node in post_order(expr) if op_name(node) in names]
    skipped = {calls[i] for i in skip if -len(calls) <= i < len(calls)}
    chosen = set(calls) - skipped

    def leave(before: Expr, made: Expr) -> Expr:
        if before not in chosen or not isinstance(made, Call):
            return made
        args = [_cast(arg, dtype) for arg in made.args]
        attrs = attrs_of(made)
        row = row_of(made)
        if row is not None and "out_dtype" in row.attrs:
            attrs["out_dtype"] = out_dtype
            return Call(made.op, args, attrs, (), made.span)
        return op_call("cast", Call(made.op, args, attrs, (), made.span), dtype=out_dtype)

    return rewrite_post_order(expr, leave)


def _cast(arg: Expr, dtype: str) -> Expr:
    if isinstance(arg, Tuple):
        return Tuple(tuple(_cast(f, dtype) for f in arg.fields))
    return op_call("cast", arg, dtype=dtype)


__all__ = ["recast"]
