"""Loops expressed as recursive functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_disc.errors import BadNode, parts_of, shown
from tvm_disc.errors import counted as _counted
from tvm_disc.relay.expr import Expr, ExprLike, Function, If, Let, Tuple, Var


def while_loop(
    cond: Callable[..., ExprLike],
    loop_vars: Sequence[Var],
    loop_bodies: Callable[..., Sequence[ExprLike]],
) -> Expr:
    """Return a function of the loop variables that returns their final values as a tuple.

    ``cond(*vars)`` is the condition to continue; ``loop_bodies(*vars)`` returns the next values. A
    variable whose shape changes between iterations needs a type with ``Any`` in the changing dims.
    """
    for what, given in (("cond", cond), ("loop_bodies", loop_bodies)):
        if not callable(given):
            raise BadNode(f"while_loop: {what}: expected a function, found {shown(given)}")
    loop_vars = parts_of("while_loop: loop_vars", loop_vars)
    loop = Var("while_loop")
    values = list(loop_bodies(*loop_vars))
    if len(values) != len(loop_vars):
        raise BadNode(
            f"while_loop: loop_bodies: expected {_counted(len(loop_vars), 'result')}, one for each "
            f"loop variable, found {len(values)}"
        )
    body = If(
        cond(*loop_vars),  # type: ignore[arg-type]
        loop(*values),
        Tuple(tuple(loop_vars)),
    )
    return Let(loop, Function(loop_vars, body), loop)
