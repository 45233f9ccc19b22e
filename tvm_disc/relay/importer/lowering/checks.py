"""Import rules of conditions on elements: a value is passed through if the condition holds.

A condition that is proved costs nothing, a refuted one fails the build, and one that depends on
dims only becomes a guard. Otherwise a kernel computes the least and the greatest element, and the
host program compares them before the value is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Dim, Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule
from tvm_disc.relay.importer.positions import Bounds, bounds
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import as_expr, objects, value_of
from tvm_disc.relay.kernel_ops import checked_call
from tvm_disc.typing import Expr

LEAST = -(1 << 63)
INDEX, DIVISOR = "IndexError", "ZeroDivisionError"


def _assert_inside(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the operand, whose elements must all be at least ``low`` and less than ``high``.

    Raises:
        TypeMismatch: the operand does not hold integers, or an element is proved to be outside.
    """
    data: Tensor = args[0]
    if "int" not in data.dtype:
        raise TypeMismatch(ctx.where(f"expected integers, found {data.dtype}"))
    if not _wanted(ctx, attrs):
        return data
    low, high = (_number(ctx, x) for x in args[1:])
    known = bounds(ctx, data)
    what = str(attrs["what"])
    state = _compared(ctx, known, low, high)
    known_both = not any(b is None for b in known)
    if state is None and known_both and not ctx.nested:
        _require_dims(ctx, data, known, (low, high), what)
        state = True
    if state is False and _has_elements(ctx, data):
        low, high, least, greatest = map(ctx.solver.name_of, (low, high, *known))
        text = f"expected {low} <= index < {high}, found an index between {least} and {greatest}"
        raise TypeMismatch(f"{what}: {text}")
    if state:
        return data
    line = _line(ctx, data)
    extent = (_reduced(ctx, R.min, line), _reduced(ctx, R.max, line))
    passed = _checked(ctx, data, extent, (low, high), what, INDEX)
    passed.low, passed.high = low, ctx.solver.simplify(high - 1)
    return passed


def _assert_nonzero(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the first operand, which must not contain 0 unless the second operand is empty."""
    data: Tensor = args[0]
    dividend: Tensor = args[1]
    if "int" not in data.dtype and data.dtype != "bool":
        raise TypeMismatch(ctx.where(f"expected integers, found {data.dtype}"))
    if not _wanted(ctx, attrs) or _never_zero(ctx, data):
        return data
    what = str(attrs["what"])
    text = f"{what}: expected a divisor other than 0"
    dims = [d for d in dividend.dims if not ctx.solver.known_le(i64(1), d)]
    empty: list[Expr] = [tirx.EQ(d, i64(0)) for d in dims]
    value = value_of(data)
    if value is not None and not ctx.nested:
        for item in value.reshape(-1):
            other: Expr = tirx.NE(as_expr(item), i64(0))
            ctx.solver.require(reduce(tirx.Or, empty, other), text, text)
        return data
    zero = ctx.scalar(0, data.dtype)
    hits = ctx.emit(R.equal(ctx.expr(data), ctx.expr(zero)), data.dims, "bool")
    most = _reduced(ctx, R.max, _line(ctx, hits))
    allowed = tirx.Select(reduce(tirx.Or, empty), i64(2), i64(1)) if empty else i64(1)
    return _checked(ctx, data, (most,), (i64(LEAST), allowed), what, DIVISOR)


def _assert_nonempty(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the operand, whose ``axes`` must each have at least ``least`` elements.

    If the axis ``unless`` is empty, the others may be empty. Inside a branch nothing is checked.
    """
    data: Tensor = args[0]
    least, unless = int(attrs["least"]), attrs["unless"]
    elements = "1 element" if least == 1 else f"{least} elements"
    for axis in attrs["axes"]:
        dim = data.dims[ctx.axis(axis, data.rank)]
        if not ctx.nested and not ctx.solver.known_le(i64(least), dim):
            what = str(attrs["what"])
            found = ctx.solver.name_of(dim)
            text = f"{what}: expected at least {elements} along axis {axis}, whose size is {found}"
            required = dim >= i64(least)
            if unless is not None:
                required = tirx.Or(required, tirx.EQ(data.dims[unless], i64(0)))
            ctx.solver.require(required, what, text)
    return data


def _wanted(ctx: Emitter, attrs: Attrs) -> bool:
    """Return whether the check is enabled, by the user or by the rules of the source language."""
    if attrs.get("always"):
        return True
    return bool(attrs["default"]) if ctx.checks.indices is None else ctx.checks.indices


def _number(ctx: Emitter, x: Tensor) -> Dim:
    """Return a limit, which must be known or an expression of dims."""
    value = value_of(x)
    if value is None or value.size != 1:
        raise TypeMismatch(ctx.where("a limit must be a constant or an expression of dims"))
    return ctx.dim(value.reshape(-1)[0])


def _compared(ctx: Emitter, known: Bounds, low: Dim, high: Dim) -> bool | None:
    """Return True if all elements are proved in [low, high), False if one is proved outside.

    Returns None if neither is proved.
    """
    least, greatest = known
    if least is None or greatest is None:
        return None
    solver = ctx.solver
    if solver.known_le(low, least) and solver.known_lt(greatest, high):
        return True
    if solver.known_lt(least, low) or solver.known_le(high, greatest):
        return False
    return None


def _has_elements(ctx: Emitter, data: Tensor) -> bool:
    """Return whether every call checks an element: not in a branch, and ``data`` is not empty."""
    return not ctx.nested and all(ctx.solver.known_le(i64(1), d) for d in data.dims)


def _require_dims(
    ctx: Emitter, data: Tensor, known: Bounds, limits: tuple[Dim, Dim], what: str
) -> None:
    """Add guards for bounds that are expressions of dims."""
    least, greatest = known
    low, high = limits
    name = ctx.solver.name_of
    empty = [tirx.EQ(d, i64(0)) for d in data.dims if not ctx.solver.known_le(i64(1), d)]
    for inside, text in (
        (least >= low, f"expected at least {name(low)}, found {name(least)}"),
        (greatest < high, f"expected less than {name(high)}, found {name(greatest)}"),
    ):
        if ctx.solver.known(inside) is not True:
            ctx.solver.require(reduce(tirx.Or, empty, inside), what, f"{what}: {text}")


def _never_zero(ctx: Emitter, data: Tensor) -> bool:
    if data.constant is not None:
        return bool((data.constant != 0).all())
    low, high = bounds(ctx, data)
    above = low is not None and ctx.solver.known_le(i64(1), low)
    return bool(above or (high is not None and ctx.solver.known_le(high, i64(-1))))


def _line(ctx: Emitter, data: Tensor) -> Tensor:
    """Return the elements as int64."""
    wide = data
    if data.dtype != "int64":
        wide = ctx.emit(R.astype(ctx.expr(data), "int64"), data.dims, "int64")
    return wide


def _reduced(ctx: Emitter, reduction: Any, line: Tensor) -> Tensor:
    """Return the reduction over all elements, of shape [1]."""
    if line.rank == 0:
        return ctx.reshape(line, [i64(1)])
    one = ctx.emit(reduction(ctx.expr(line), list(range(line.rank)), False), [], "int64")
    return ctx.reshape(one, [i64(1)])


def _checked(
    ctx: Emitter,
    data: Tensor,
    extent: tuple[Tensor, ...],
    limits: tuple[Dim, Dim],
    what: str,
    kind: str,
) -> Tensor:
    """Return ``data`` after a check of the host program that ``extent`` is within the limits."""
    numbers = [ctx.expr(x) for x in extent]
    if ctx.checks.portable:
        return _matched(ctx, data, numbers, limits)
    call = checked_call(ctx.expr(data), numbers, limits, what=what, kind=kind)
    return ctx.emit(call, data.dims, data.dtype)


def _matched(ctx: Emitter, data: Tensor, numbers: list[Expr], limits: tuple[Dim, Dim]) -> Tensor:
    """Emit the check for TVM's own virtual machine as a shape match.

    The number of violated limits is matched as a shape with ``[0]``, which fails unless it is 0.
    """
    low, high = (ctx.expr(Tensor((i64(1),), "int64", value=objects([x], (1,)))) for x in limits)
    outside = [
        *(R.astype(R.less(x, low), "int64") for x in numbers),
        *(R.astype(R.greater_equal(x, high), "int64") for x in numbers),
    ]
    bound = [ctx.emit(call, [i64(1)], "int64").expr for call in outside]
    total = reduce(lambda a, b: ctx.emit(R.add(a, b), [i64(1)], "int64").expr, bound)
    raw = ctx.bind(R.tensor_to_shape(total), relax.ShapeType(ndim=1))
    ctx.match(raw, relax.ShapeType([i64(0)]))
    return data


LOWER: Mapping[str, Rule] = {
    "assert_inside": _assert_inside,
    "assert_nonempty": _assert_nonempty,
    "assert_nonzero": _assert_nonzero,
}
