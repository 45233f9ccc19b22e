"""Rewrites of calls by rules: a table from operators to functions that replace their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.builder import const
from tvm_disc.relay.expr import (
    ENTRIES,
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    NamedAttrs,
    Op,
    TupleGetItem,
    TupleWrapper,
    get_op,
)
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order


class Site:
    """A call to rewrite: the original, and the call with rewritten operands."""

    def __init__(self, before: Call, call: Call, types: KnownTypes) -> None:
        self.before, self.call, self.types = before, call, types
        self.args = call.args

    @property
    def attrs(self) -> Attrs:
        """Return the attributes with their defaults."""
        return attrs_of(self.call)

    def shape(self, position: int) -> tuple[int, ...] | None:
        """Return the shape of an operand if all dims are numbers; None otherwise."""
        return self.types.shape(self.before.args[position])

    def rank(self, position: int) -> int | None:
        """Return the rank of an operand; None if it is unknown."""
        return self.types.rank(self.before.args[position])

    def dtype(self, position: int = 0) -> str | None:
        """Return the element type of an operand; None if it is unknown."""
        return self.types.dtype(self.before.args[position])


Rule = Callable[[Site], Expr | None]


def apply_rules(func: Function, rules: Mapping[str, Rule]) -> Function:
    """Return ``func`` with each call of an operator in the table replaced by its rule's result."""
    types = KnownTypes(func)

    def leave(before: Expr, made: Expr) -> Expr:
        name = op_name(made)
        if name not in rules or not isinstance(before, Call) or not isinstance(made, Call):
            return made
        found = rules[name](Site(before, made, types))
        return made if found is None else found

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


def legalize(func: Function, key: str) -> Function:
    """Return ``func`` with calls replaced by results of functions registered for operators.

    A script registers the function as the attribute ``key`` of an operator:
    ``function(attrs, inputs, types)`` returns an expression, or None to keep the call. ``types``
    has the types of the operands, then the type of the result.

    Raises:
        BadNode: a function returned neither an expression nor None.
    """
    types = KnownTypes(func)

    def leave(before: Expr, made: Expr) -> Expr:
        name = op_name(before)
        rule = ENTRIES[0](name).get_attr(key) if name else None
        if rule is None or not isinstance(before, Call) or not isinstance(made, Call):
            return made
        known = [types.of(e) for e in (*before.args, before)]
        found = rule(NamedAttrs(attrs_of(made)), list(made.args), known)
        if found is None:
            return made
        found = found.astuple() if isinstance(found, TupleWrapper) else found
        if not isinstance(found, Expr):
            raise BadNode(
                f"{name}: {key}: expected an expression or None from the registered function, "
                f"found {shown(found)}"
            )
        return found

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


def op_name(expr: Expr) -> str:
    """Return the name of the operator that an expression calls; empty for other expressions."""
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        return expr.op.name
    return ""


def row_of(expr: Expr) -> OpRow | None:
    """Return the table entry of the operator that an expression calls, or None."""
    return OPS.get(op_name(expr))


def attrs_of(call: Call) -> Attrs:
    """Return the attributes of a call with their defaults."""
    row = row_of(call)
    return dict(call.attrs) if row is None else complete_attrs(row, call.attrs)


def op_call(name: str, *args: Expr, **attrs: object) -> Call:
    """Return a call of an operator with complete attributes."""
    return Call(get_op(name), args, complete_attrs(OPS[name], attrs))


def scalar(value: object, dtype: str) -> Constant:
    """Return a constant of rank 0."""
    return const(value, dtype)


def item_of(expr: Expr) -> tuple[Expr, int] | None:
    """Return the (tuple, index) of a projection; None for other expressions."""
    return (expr.tuple_value, expr.index) if isinstance(expr, TupleGetItem) else None


__all__ = [
    "Rule",
    "Site",
    "apply_rules",
    "attrs_of",
    "item_of",
    "legalize",
    "op_call",
    "op_name",
    "row_of",
    "scalar",
]
