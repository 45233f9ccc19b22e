"""``FoldConstant``: evaluate expressions whose operands are all constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvm_disc.errors import DiscError
from tvm_disc.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tvm_disc.relay.types import TensorType, TupleType, Type
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes, fields_of
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import attrs_of, row_of
from tvm_disc.relay_api.transform.substitute import substituted
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.expr import HostArray


# Tensors of one value, which take less memory as a call than as a constant.
FILLED = frozenset("zeros_like ones_like full_like full dyn.full dyn.zeros dyn.ones".split())


def fold_constant(expr: Expr, fold_qnn: bool = False) -> Expr:
    """Return ``expr`` with every call of constant operands replaced by its value."""
    while True:
        expr, bound = _fold_once(expr, fold_qnn)
        if not bound:
            return expr
        expr = substituted(expr, bound)


def _fold_once(expr: Expr, fold_qnn: bool) -> tuple[Expr, dict[Var, Expr]]:
    """Return the expression after one walk, and the variables that are now bound to constants."""
    types = KnownTypes(expr)
    bound: dict[Var, Expr] = {}

    def leave(before: Expr, made: Expr) -> Expr:
        if isinstance(made, Let) and isinstance(made.value, Constant):
            bound[made.var] = made.value
        if isinstance(made, TupleGetItem) and isinstance(made.tuple_value, Tuple):
            return made.tuple_value.fields[made.index]
        if isinstance(made, If) and isinstance(made.cond, Constant):
            return made.true_branch if made.cond.data.item() else made.false_branch
        if isinstance(before, Call) and isinstance(made, Call):
            return _folded(before, made, types, fold_qnn) or made
        return made

    return rewrite_post_order(expr, leave), bound


def _folded(before: Call, made: Call, types: KnownTypes, fold_qnn: bool) -> Expr | None:
    row = row_of(made)
    # Calls without operands, such as ``zeros``, are smaller than their value.
    if row is None or not made.args or row.name in FILLED:
        return None
    if row.name.startswith("qnn.") and not fold_qnn:
        return None
    if row.name in ("shape_of", "ndarray_size"):
        known = types.value(before)
        return None if known is None else Constant(known)
    arrays = [_array(arg) for arg in made.args]
    if row.reference is None or any(a is None for a in arrays):
        return None
    wanted = types.of(before)
    if wanted is None:
        return None
    try:
        result = row.reference(*arrays, **attrs_of(made))
    except (DiscError, ValueError, TypeError, IndexError):
        return None
    return _constant(result, wanted)


def _array(expr: Expr) -> object:
    """Return the value of a constant or of a tuple of constants; None for others."""
    if isinstance(expr, Constant):
        return expr.data
    if not isinstance(expr, Tuple):
        return None
    parts = tuple(_array(f) for f in expr.fields)
    return None if any(p is None for p in parts) else parts


def _constant(value: HostArray | Array, wanted: Type) -> Expr | None:
    """Return arrays as an expression; None if ``wanted`` is not a tensor or tuple type."""
    if isinstance(wanted, TupleType):
        parts = [_constant(v, t) for v, t in zip(value, fields_of(wanted), strict=True)]
        known = tuple(p for p in parts if p is not None)
        return Tuple(known) if len(known) == len(parts) else None
    if not isinstance(wanted, TensorType):
        return None
    array = np.asarray(value)
    return Constant(np.ascontiguousarray(array.astype(wanted.dtype)).reshape(array.shape))


def fold_constant_function(func: Function, fold_qnn: bool) -> Function:
    """Return a function of a module after :func:`fold_constant`."""
    made = fold_constant(func, fold_qnn)
    assert isinstance(made, Function)
    return made


__all__ = ["fold_constant", "fold_constant_function"]
