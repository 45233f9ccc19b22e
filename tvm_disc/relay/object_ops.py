"""Names of the operations on boxed values, for which Relax has no nodes.

A value that only the run time knows (a node of a data type, a closure, a reference) has Relax's
object type. The importer emits calls of these external names; the host program implements them:

    construct(tag, x...)      a new node; ``construct(0, x...)`` also boxes a tuple
    field(k, object)          field ``k`` of a node
    has_tag(tag, plain, o)    whether ``o`` has this tag; ``plain``: the constructor has no fields
    closure(function, x...)   a new closure: a function and the values that it captures
    apply(closure, x...)      the result of calling a closure
    ref(x), read(r), write(r, x)  create, read and write a reference
    fail(text)                stop with an error
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_disc.relay.expressions import expressions
from tvm_disc.typing import Expr, TVMFunction, TVMModule

PREFIX = "disc.object."
GENERAL = "disc.general"  # attribute of specializations, which may take and return boxed values


def object_call(name: str, *args: object) -> Expr:
    """Return ``name(args)`` as a Relax call."""
    return tvm.ir.Call(relax.ExternFunc(PREFIX + name), list(args))


def object_op(expr: Expr) -> str | None:
    """Return the name of the boxed-value operation of a Relax call; None for other expressions."""
    if not isinstance(expr, tvm.ir.Call) or not isinstance(expr.op, relax.ExternFunc):
        return None
    name = str(expr.op.global_symbol)
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else None


def is_object(ty: object) -> bool:
    """Return whether a Relax type is the type of boxed values."""
    return isinstance(ty, relax.ObjectType)


def uses_boxes(mod: TVMModule) -> bool:
    """Return whether a function of a Relax module needs boxes; see :func:`needs_boxes`."""
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return any(map(needs_boxes, functions))


def needs_boxes(func: TVMFunction) -> bool:
    """Return whether a Relax function has boxed values, or may take and return them."""
    if is_general(func) or any(is_object(p.ty) for p in func.params):
        return True
    return any(object_op(e) is not None for e in expressions(func.body))


def is_general(func: TVMFunction) -> bool:
    """Return whether a Relax function may take and return boxed values, unlike a loop."""
    return func.attrs is not None and GENERAL in func.attrs


def has_effect(expr: Expr) -> bool:
    """Return whether an expression may read or write a reference, so that its order matters."""
    return any(
        isinstance(e, tvm.ir.Call)
        and (isinstance(e.op, tvm.ir.GlobalVar) or object_op(e) in ("read", "write", "apply"))
        for e in expressions(expr)
    )
