"""Types of operator results, computed by the operators' import rules.

The import rule is the only definition of an operator's result type. It is called with an emitter
whose program is discarded. Each call uses new symbols, so two ``?`` are never known to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import tirx

from tvm_disc.errors import ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.elements import applied
from tvm_disc.relay.importer.inputs import Inputs
from tvm_disc.relay.importer.operands import check_operands
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.infer import Sketch
from tvm_disc.relay.inference.unify import shown
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr, Var

MOST_LITERAL = 64  # constants with more elements are not read as the shape of a result

_DIM_OPS = frozenset(["Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Max", "Min"])


class OperatorTypes:
    """Types of operator calls; equal calls are typed once."""

    def __init__(self) -> None:
        self._known: dict[object, rt.Type] = {}

    def result(self, row: OpRow, types: Sequence[rt.Type], call: ast.Call) -> rt.Type:
        """Return the type of a call whose operands have ``types``.

        Raises:
            TypeMismatch, ShapeConflict, Unsupported: with the call, its operands and its source
                location.
        """
        if row.relation is not None:  # not cached: a user function may return a different result
            return _result(row, types, call)
        key = (
            row.name,
            tuple(map(repr, types)),
            repr(sorted(call.attrs.items())),
            tuple(_literal_key(a) for a in call.args),
        )
        if key not in self._known:
            self._known[key] = _result(row, types, call)
        return self._known[key]


def _literal_key(arg: ast.Expr) -> object:
    if isinstance(arg, ast.Tuple):
        return tuple(map(_literal_key, arg.fields))
    if isinstance(arg, ast.Constant) and arg.data.size <= MOST_LITERAL:
        return arg.data.tobytes()
    return None


def _result(row: OpRow, types: Sequence[rt.Type], call: ast.Call) -> rt.Type:
    ctx = Sketch(Solver())
    ctx.span, ctx.operator = call.span, row.name
    symbols: dict[Any, Any] = {}
    inputs = Inputs(ctx, symbols)
    if row.relation is not None:
        made = row.relation(types, call.attrs)
        if not isinstance(made, rt.Type):
            raise TypeMismatch(f"{row.name}: its relation returned {made!r}, expected a type")
        return made
    try:
        args = [_operand(ctx, inputs, t, a) for t, a in zip(types, call.args, strict=True)]
        check_operands(ctx, row, args)
        made = applied(ctx, row, args, call.attrs)
    except (TypeMismatch, ShapeConflict, Unsupported) as error:
        operands = ", ".join(
            f"{_named(a)}{shown(t)}" for a, t in zip(call.args, types, strict=True)
        )
        place = "" if call.span is None else f" at {call.span}"
        where = place if place not in str(error) else ""
        raise type(error)(f"{error}; in {row.name}({operands}){where}") from error
    return _type(ctx, made, _names(types, symbols))


def _named(arg: ast.Expr) -> str:
    return f"%{arg.name_hint}: " if isinstance(arg, ast.Var) else ""


def _operand(ctx: Emitter, inputs: Inputs, ty: rt.Type, arg: ast.Expr) -> object:
    """Return a placeholder value of a type; for a constant, its value."""
    if isinstance(ty, rt.TupleType):
        fields = arg.fields if isinstance(arg, ast.Tuple) else [arg] * len(ty.fields)
        return tuple(_operand(ctx, inputs, t, f) for t, f in zip(ty.fields, fields, strict=True))
    if not isinstance(ty, rt.TensorType):
        raise TypeMismatch(ctx.where(f"expected a tensor, found {shown(ty)}"))
    if isinstance(arg, ast.Constant):
        return ctx.constant(np.asarray(arg.data))
    return inputs.input(ast.Var("operand", ty))


def _names(types: Sequence[rt.Type], symbols: Mapping[object, Var]) -> dict[Var, rt.DimExpr]:
    """Return the Relay dim of each symbol whose dim in ``types`` has a name."""
    named: dict[str, rt.DimExpr] = {}
    stack: list[rt.Dim] = [d for t in types for d in rt.dims_of(t)]
    while stack:
        dim = stack.pop()
        if isinstance(dim, rt.DimOp):
            stack += (dim.a, dim.b)
        elif isinstance(dim, rt.DimVar | rt.Any) and dim.name is not None:
            named[dim.name] = dim
    return {symbols[name]: dim for name, dim in named.items() if name in symbols}


def _type(ctx: Emitter, value: object, names: Mapping[Var, rt.DimExpr]) -> rt.Type:
    if isinstance(value, tuple):
        return rt.TupleType(tuple(_type(ctx, v, names) for v in value))
    assert isinstance(value, Tensor)
    return rt.TensorType(tuple(_dim(ctx, d, names) for d in value.dims), value.dtype)


def _dim(ctx: Emitter, dim: Expr, names: Mapping[Any, rt.DimExpr]) -> rt.Dim:
    literal = ctx.literal(dim)
    if literal is not None:
        return literal
    made = _formula(dim, names) if names else None
    return rt.Any() if made is None else made


def _formula(dim: Expr, names: Mapping[Var, rt.DimExpr]) -> rt.Dim | None:
    """Return a dim as arithmetic on named dims, or None if it contains an unnamed symbol."""
    if isinstance(dim, tirx.IntImm):
        return int(dim.value)
    if isinstance(dim, tirx.Var):
        return names.get(dim)
    op = type(dim).__name__
    if op not in _DIM_OPS:
        return None
    a, b = _formula(dim.a, names), _formula(dim.b, names)
    plain = not any(isinstance(x, rt.Any) for x in (a, b))  # an `Any` cannot be used in arithmetic
    return rt.DimOp(op, a, b) if a is not None and b is not None and plain else None


__all__ = ["OperatorTypes"]
