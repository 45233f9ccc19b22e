"""``recast``: compute some operators of a program in a different element type."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Call, Expr, Function, Tuple
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import is_dtype
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.manager import replaced
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name, row_of

RECAST = ("nn.conv2d",)


def recast(
    expr: Expr | IRModule,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] = (),
) -> Expr | IRModule:
    """Return ``expr`` with some operators computed in ``dtype``; no result changes its type.

    Operands of these operators are cast to ``dtype``, and results back to their original type.

    Args:
        expr: an expression, a function or a module.
        dtype: the type that the operators compute in.
        out_dtype: value of the attribute ``out_dtype`` of operators that have it.
        ops: names of the operators, ``nn.conv2d`` by default.
        skip_layers: numbers of calls to leave unchanged, in order of evaluation; negative numbers
            count from the last.

    Raises:
        BadNode: ``dtype`` is not an element type, ``expr`` is not a program, or the type of a
            result is unknown.
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
    types = KnownTypes(expr)

    def leave(before: Expr, made: Expr) -> Expr:
        if before not in chosen or not isinstance(made, Call):
            return made
        if op_name(made) == "concatenate" and not isinstance(made.args[0], Tuple):
            return made  # fields of a tuple that is not a Tuple node cannot be cast
        args = [_cast(arg, dtype) for arg in made.args]
        attrs = attrs_of(made)
        row = row_of(made)
        result = str(attrs.get("out_dtype") or types.dtype(before) or "")
        if not is_dtype(result):
            raise BadNode(
                f"recast: expected a {op_name(made)} whose result is a tensor of known type; run "
                "relay.transform.InferType() over the module first"
            )
        if row is not None and "out_dtype" in row.attrs:
            attrs["out_dtype"] = out_dtype
        return op_call("cast", Call(made.op, args, attrs, (), made.span), dtype=result)

    return rewrite_post_order(expr, leave)


def _cast(arg: Expr, dtype: str) -> Expr:
    if isinstance(arg, Tuple):
        return Tuple(tuple(_cast(f, dtype) for f in arg.fields))
    return op_call("cast", arg, dtype=dtype)


__all__ = ["recast"]
