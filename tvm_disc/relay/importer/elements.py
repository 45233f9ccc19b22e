"""Folding of calls by facts about elements, and derivation of facts about results.

Importers of other frameworks wrap every index: ``where(i < 0, i + n, i)``. For literal positions,
such as a position table cut to a length, and for positions that count from zero, this module
decides the test and removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.errors import DiscError, Unsupported
from tvm_disc.relay.importer.context import Dim, Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import filled
from tvm_disc.relay.importer.lowering.transform import broadcast_dims_to
from tvm_disc.relay.importer.operands import check_attrs, lowered
from tvm_disc.relay.importer.positions import bounds, counted, same_everywhere
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import MAX_VALUE_ELEMENTS, is_number, objects, value_of
from tvm_disc.relay.ops.literals import LITERALS, literal
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.typing import Expr

# Operators whose result contains only elements of their first operand.
_MOVES = frozenset(
    "reshape dyn.reshape expand_dims squeeze transpose strided_slice dyn.strided_slice copy cast "
    "broadcast_to dyn.broadcast_to take gather gather_nd adv_index concatenate stack".split()
)
# Operators whose result holds positions along their axis.
_PLACES = frozenset(["argsort", "argmax", "argmin"])
# Comparisons: (operands are swapped, the comparison is false for equal operands).
_TESTS: Mapping[str, tuple[bool, bool]] = {
    "less": (False, True),
    "less_equal": (False, False),
    "greater": (True, True),
    "greater_equal": (True, False),
}
# Identity element of each operator: with it, the result is the other operand.
_NEUTRAL_TRUTH = {"logical_and": 1, "bitwise_and": 1, "logical_or": 0, "bitwise_or": 0}
_NEUTRAL_NUMBER = {"add": 0, "multiply": 1}


def applied(ctx: Emitter, row: OpRow, args: Sequence[Any], attrs: Mapping[str, Any]) -> object:
    """Return the result of an operator call: a shape value, a folded result, or its rule's result.

    Raises:
        Unsupported: the operator has no rule.
        TypeMismatch: the rule does not accept these operands or attributes.
    """
    check_attrs(ctx, row, attrs)
    value = shape_value(ctx, row, args, attrs)
    if value is not None:
        return value
    if row.lower is None:
        raise Unsupported(ctx.where("this operator has no import rule yet"))
    result = computed(ctx, row.name, args, lambda: lowered(ctx, row, args, attrs))
    if row.name in _PLACES and isinstance(result, Tensor):
        _know_places(ctx, args[0], attrs["axis"], result)
    elif row.name == "floor_mod" and isinstance(result, Tensor) and "int" in result.dtype:
        _know_rest(ctx, args[1], result)
    return result


def _know_places(ctx: Emitter, x: Tensor, axis: object, result: Tensor) -> None:
    """Record that positions along an axis are within the axis."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1 and isinstance(axes[0], int):
        result.low = i64(0)
        result.high = ctx.solver.simplify(x.dims[axes[0] % x.rank] - 1)


def _know_rest(ctx: Emitter, divisor: Tensor, result: Tensor) -> None:
    """Record that the remainder of a division by a positive number is less than the divisor."""
    least, greatest = bounds(ctx, divisor)
    if least is not None and greatest is not None and ctx.solver.known_le(i64(1), least):
        result.low, result.high = i64(0), ctx.solver.simplify(greatest - 1)


def shape_value(
    ctx: Emitter, row: OpRow, args: Sequence[tuple[Tensor, ...] | Tensor], attrs: Mapping[str, Any]
) -> Tensor | None:
    """Return the result of a call on shape values if its elements are known at compile time."""
    value = _of_numbers(row, args, attrs)
    if value is None:
        value = _of_dims(ctx, row, args, attrs)
    if value is None or value.size > MAX_VALUE_ELEMENTS:
        return None
    dims = tuple(i64(int(d)) for d in value.shape)
    return Tensor(dims, _dtype_of_value(row, args, attrs), value=value)


def _of_dims(
    ctx: Emitter, row: OpRow, args: Sequence[object], attrs: Mapping[str, object]
) -> np.ndarray | None:
    """Return the elements that the operator's shape-value rule computes, or None.

    NumPy's errors for unsuitable attributes name no source location. They are ignored here, and the
    rule for tensors reports the error.
    """
    if row.value is None:
        return None
    try:
        found: np.ndarray | None = row.value(ctx, args, attrs)
    except DiscError:
        raise
    except (ValueError, IndexError):
        return None
    return found


def _of_numbers(
    row: OpRow, args: Sequence[object], attrs: Mapping[str, object]
) -> np.ndarray | None:
    """Return the elements of a result, computed as kernels do; None if an operand is not a number,
    or if the operator cannot be folded.
    """
    if row.name not in LITERALS:
        return None
    arrays: list[Any] = []
    for a in args:
        parts = [_numbers(x) for x in (a if isinstance(a, tuple) else (a,))]
        if any(x is None for x in parts):
            return None
        arrays.append(parts if isinstance(a, tuple) else parts[0])
    found = literal(row.name, arrays, attrs, MAX_VALUE_ELEMENTS)
    if found is None or found.dtype.kind not in "iub":
        return None
    return objects(found.reshape(-1).tolist(), found.shape)


def _numbers(x: Expr) -> np.ndarray | None:
    value = value_of(x) if isinstance(x, Tensor) else None
    if value is None or not all(is_number(v) for v in value.reshape(-1)):
        return None
    try:
        return np.array(value.tolist(), dtype=x.dtype).reshape(value.shape)
    except OverflowError:  # A shape value does not wrap around.
        return None


def _dtype_of_value(
    row: OpRow,
    args: Sequence[tuple[Tensor, ...] | Tensor],
    attrs: Mapping[str, tuple[int, ...] | int | str | None],
) -> str:
    if row.compares:
        return "bool"
    if attrs.get("dtype"):
        return str(attrs["dtype"])
    if row.name in ("shape_of", "vm.shape_of", "ndarray_size"):
        return "int32"
    first = args[1] if row.name == "where" else args[0]
    first = first[0] if isinstance(first, tuple) else first
    return str(first.dtype)


def computed(
    ctx: Emitter, name: str, args: Sequence[tuple[Tensor, ...] | Tensor], emit: Callable[[], object]
) -> Any:
    """Return the folded result of a call, or the result of ``emit`` with derived facts."""
    known = _decided(ctx, name, args)
    if known is not None:
        return known
    result = emit()
    if not isinstance(result, Tensor) or result.value is not None or result in args:
        return result
    result = _bounded(ctx, name, args, result)
    counted(ctx, name, args, result)
    return result


def _decided(ctx: Emitter, name: str, args: Sequence[Any]) -> Tensor | None:
    """Return the result of an operator if facts about its operands' elements determine it."""
    if name == "where" and (cond := same_everywhere(ctx, args[0])) is not None:
        chosen = args[1] if cond else args[2]
        found = broadcast_dims_to(ctx, chosen, ctx.broadcast_dims([a.dims for a in args]))
        found.low, found.high = bounds(ctx, chosen)
        return found
    if name in _TESTS:
        answer = _compared(ctx, name, *args)
        if answer is None:
            return None
        dims = ctx.broadcast_dims([x.dims for x in args])
        return _repeated(ctx, dims, int(answer), "bool")
    if name in _NEUTRAL_TRUTH or name in _NEUTRAL_NUMBER:
        return _neutral(ctx, name, args)
    return None


def _compared(ctx: Emitter, name: str, a: Tensor, b: Tensor) -> bool | None:
    """Return the result of a comparison if it is proved to be the same for all elements."""
    swapped, strict = _TESTS[name]
    one, other = (bounds(ctx, x) for x in ((b, a) if swapped else (a, b)))
    if _below(ctx, one[1], other[0], strict):
        return True
    return False if _below(ctx, other[1], one[0], not strict) else None


def _below(ctx: Emitter, a: Dim | None, b: Dim | None, strict: bool) -> bool:
    if a is None or b is None:
        return False
    return bool(ctx.solver.known_lt(a, b) if strict else ctx.solver.known_le(a, b))


def _neutral(ctx: Emitter, name: str, args: Sequence[Tensor]) -> Tensor | None:
    """Return x for and(True, x), or(False, x), and integer x + 0 and x * 1; otherwise None."""
    for x, other in ((args[0], args[1]), (args[1], args[0])):
        if x.dtype != other.dtype:
            return None
        if x.dtype == "bool" and name in _NEUTRAL_TRUTH:
            if same_everywhere(ctx, x) == _NEUTRAL_TRUTH[name]:
                dims = ctx.broadcast_dims([a.dims for a in args])
                return broadcast_dims_to(ctx, other, dims)
        elif x.dtype.startswith("int") and name in _NEUTRAL_NUMBER and x.rank <= other.rank:
            value = value_of(x)
            item = None if value is None or value.size != 1 else value.reshape(-1)[0]
            if is_number(item) and item == _NEUTRAL_NUMBER[name]:
                return other
    return None


def _bounded(ctx: Emitter, name: str, args: Sequence[object], result: Tensor) -> Tensor:
    """Return ``result`` with its bounds set; if all elements are equal, return a filled tensor."""
    whole = "int" in result.dtype or (result.dtype == "bool" and name != "cast")
    if name not in _MOVES or not whole:
        return result
    sources = args[0] if isinstance(args[0], tuple) else args[:1]
    found = [bounds(ctx, x) for x in (sources[:1] if name == "adv_index" else sources)]
    low = _extreme(ctx, min, [f[0] for f in found])
    high = _extreme(ctx, max, [f[1] for f in found])
    same = None if low is None or high is None else ctx.literal(low)
    if same is not None and same == ctx.literal(high) and result.constant is None:
        return _repeated(ctx, result.dims, same, result.dtype)
    result.low, result.high = low, high
    return result


def _extreme(ctx: Emitter, pick: Callable[..., int], found: Sequence[Dim | None]) -> Dim | None:
    if len(found) == 1:
        return found[0]
    numbers = [n for x in found if x is not None and (n := ctx.literal(x)) is not None]
    return i64(pick(numbers)) if found and len(numbers) == len(found) else None


def _repeated(ctx: Emitter, dims: Sequence[Dim], number: int, dtype: str) -> Tensor:
    result = filled(ctx, dims, ctx.scalar(number, dtype), dtype)
    result.low = result.high = i64(number)
    return result


__all__ = ["applied", "computed", "shape_value"]
