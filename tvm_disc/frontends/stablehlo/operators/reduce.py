"""Converters of reductions and of reductions over windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.stablehlo.attributes import padding_pairs
from tvm_disc.frontends.stablehlo.formulas import arg_reduction
from tvm_disc.frontends.stablehlo.node import StableHLONode, owner, short_name
from tvm_disc.frontends.stablehlo.operators.reducers import (
    MONOIDS,
    is_neutral,
    monoid,
    neutral,
)
from tvm_disc.frontends.stablehlo.operators.shape import padded
from tvm_disc.frontends.stablehlo.operators.windows import Windows, folded
from tvm_disc.frontends.stablehlo.table import OperationRow

Combine: TypeAlias = Callable[[Expr, Expr], Expr]


def _reduce(n: StableHLONode) -> Expr | list[Expr]:
    count = len(n) // 2
    inputs, inits = n.inputs[:count], n.inputs[count:]
    axes = n.ints("dimensions")
    block = n.block()
    name = monoid(block)
    if name is not None and (name not in ("and", "or") or n.dtype(inputs[0]) == "bool"):
        return _folded(n, name, inputs[0], inits[0], axes)
    arg = arg_reduction(block, n.walk.function)
    if arg is not None and len(axes) == 1 and _is_iota(n, 1, axes[0]):
        plain = is_neutral(n, inits[0], "maximum" if arg == "argmax" else "minimum")
        if plain and n.is_zero(inits[1]):
            return _argument(n, arg, inputs, axes[0])
    return _stepped(n, inputs, inits, axes)


def _folded(n: StableHLONode, name: str, x: Expr, init: Expr, axes: Sequence[int]) -> Expr:
    combine, reduction = MONOIDS[name]
    if n.dtype(x) == "bool":
        combine, reduction = MONOIDS["or" if reduction in ("sum", "max", "any") else "and"]
    # Keep the axes and squeeze them: if the reader broadcasts the result, both reshapes cancel.
    made = n.squeeze(n.reduce(reduction, x, axes, keep=True), axes)
    return made if is_neutral(n, init, name) else op(combine, made, init)


def _is_iota(n: StableHLONode, k: int, axis: int) -> bool:
    """Return whether operand ``k`` is an iota along ``axis``."""
    found = owner(n.op.operands[k])
    if found is None or short_name(found) not in ("iota", "dynamic_iota"):
        return False
    return int(found.attributes["iota_dimension"].value) == axis


def _argument(n: StableHLONode, name: str, inputs: Sequence[Expr], axis: int) -> list[Expr]:
    """Return the maximum or minimum along an axis and its index, or a NaN and its index."""
    x = inputs[0]
    found = n.cast(op(name, x, axis=(axis,), keepdims=False), n.dtype(inputs[1]))
    return [n.reduce(name.removeprefix("arg"), x, [axis]), found]


def _stepped(
    n: StableHLONode, inputs: Sequence[Expr], inits: Sequence[Expr], axes: Sequence[int]
) -> list[Expr]:
    """Convert a reduction by any function to a loop; the reduced axes are merged to one."""
    rank = n.rank(inputs[0])
    kept = [a for a in range(rank) if a not in axes]
    order = [*axes, *kept]
    sizes = [n.size(inputs[0], a) for a in order]
    outer = sizes[len(axes) :]
    rows = [
        n.reshape(n.transpose(x, order), [n.product(sizes[: len(axes)]), *outer]) for x in inputs
    ]
    first = [n.broadcast(i, outer) if outer else i for i in inits]
    reads = n.outer(0)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        here = [n.take(x, t, 0) for x in fixed[: len(rows)]]
        given = dict(zip(reads, fixed[len(rows) :], strict=True))
        return n.run(0, [*now, *here], given), []

    times = n.size(rows[0], 0)
    found, _ = counted(n, times, [*rows, *reads.values()], first, step)
    return found


# -- windows ---------------------------------------------------------------------------------------


def _reduce_window(n: StableHLONode) -> Expr | list[Expr]:
    rank = n.rank(n[0])
    size = n.ints("window_dimensions")
    pads = padding_pairs(n.ints("padding", [0] * 2 * rank))
    strides, base, dilations = (
        n.ints(k, [1] * rank) for k in ("window_strides", "base_dilations", "window_dilations")
    )
    name = monoid(n.block())
    if len(n) > 2 or name is None:
        return folded(n, Windows(size, strides, dilations), base, pads)
    return windowed(n, name, size, strides, base, dilations, pads, lambda a, b: n.run(0, [a, b])[0])


def windowed(
    n: StableHLONode,
    name: str | None,
    size: Sequence[Dim],
    strides: Sequence[Dim],
    base: Sequence[Dim],
    dilations: Sequence[Dim],
    pads: Sequence[tuple[Dim, Dim]],
    combine: Combine,
) -> Expr:
    """Return a reduction over windows, whose size and strides may be dims.

    Args:
        n: the operation; its first operands are the tensor and the initial value.
        name: the operator of ``MONOIDS`` that combines elements, or None for any other function.
        size: the size of a window; other arguments are those of StableHLO's ``reduce_window``.
        combine: applies the function to two tensors.

    Raises:
        Unsupported: the reduction is not cumulative, and ``name`` is None or a size or stride is
            dynamic.
    """
    x, init = n[0], n[1]
    plain = name is None or is_neutral(n, init, name)
    axis = _running(n, x, size, strides, base, dilations, pads) if plain else None
    if axis is not None:
        return _cumulated(n, name, x, axis, pads, combine)
    if name is None:
        raise Unsupported(
            "expected a reduction of windows by one operator, such as add, found another function"
        )
    low, high = [a for a, _ in pads], [b for _, b in pads]
    # Pad with the neutral element, because XLA ignores padding. In StableHLO's specification,
    # padding has the initial value.
    x = padded(
        n,
        x,
        n.like(neutral(n.dtype(x), name), x),
        low,
        high,
        [n.dim("subtract", b, 1) for b in base],
    )
    made = _slid(n, name, x, *(_fixed(v) for v in (size, strides, dilations)))
    return made if plain else op(MONOIDS[name][0], made, init)


def _fixed(values: Sequence[Dim]) -> list[int]:
    """Return the values as integers.

    Raises:
        Unsupported: a value is not known at compile time.
    """
    found = [v for v in values if isinstance(v, int)]
    if len(found) < len(values):
        raise Unsupported(
            "expected sizes, strides and dilations of windows known at compile time, found values "
            "that are not"
        )
    return found


def _slid(
    n: StableHLONode, name: str, x: Expr, size: list[int], strides: list[int], dilations: list[int]
) -> Expr:
    """Return a reduction over windows of a padded tensor, as pooling or axis by axis."""
    pooled = _pooled(n, name, x, size, strides, dilations)
    if pooled is not None:
        return pooled
    combine = MONOIDS[name][0]
    for a, (k, s, d) in enumerate(zip(size, strides, dilations, strict=True)):
        if k == 1 and s == 1:
            continue
        reach = (k - 1) * d
        count = n.dim("floor_divide", n.dim("subtract", n.size(x, a), reach + 1), s)
        last = n.dim("add", n.dim("multiply", count, s), 1)
        taps = [n.slice(x, a, t * d, n.dim("add", last, t * d), s) for t in range(k)]
        x = taps[0]
        for t in taps[1:]:
            x = op(combine, x, t)
    return x


def _pooled(
    n: StableHLONode,
    name: str,
    x: Expr,
    size: list[int],
    strides: list[int],
    dilations: list[int],
) -> Expr | None:
    """Return float32 sums or maxima over 1 to 3 axes as one pooling operator, or None."""
    axes = [a for a, k in enumerate(size) if k != 1]
    others = [a for a in range(n.rank(x)) if a not in axes]
    if name not in ("add", "maximum") or n.dtype(x) != "float32":
        return None
    if not 1 <= len(axes) <= 3 or len(others) != 2 or any(strides[a] != 1 for a in others):
        return None
    order = [*others, *axes]
    letters = "DHW"[3 - len(axes) :]
    attrs = {
        "pool_size": tuple(size[a] for a in axes),
        "strides": tuple(strides[a] for a in axes),
        "dilation": tuple(dilations[a] for a in axes),
        "padding": (0,) * 2 * len(axes),
        "layout": "NC" + letters,
    }
    kind = f"nn.{'max' if name == 'maximum' else 'avg'}_pool{len(axes)}d"
    moved = n.transpose(x, order)
    if name == "add":
        made = op(kind, moved, count_include_pad=True, **attrs)
        made = made * float(math.prod(size))
    else:
        made = op(kind, moved, **attrs)
    return n.transpose(made, list(np.argsort(order)))


def _running(
    n: StableHLONode,
    x: Expr,
    size: Sequence[Dim],
    strides: Sequence[Dim],
    base: Sequence[Dim],
    dilations: Sequence[Dim],
    pads: Sequence[tuple[Dim, Dim]],
) -> int | None:
    """Return the axis of a cumulative reduction, or None if the reduction is not cumulative.

    The window of each element then has all elements up to it, or all from it on.
    """
    moved = [a for a, k in enumerate(size) if not (isinstance(k, int) and k == 1)]
    plain = all(v == 1 for v in (*strides, *base, *dilations) if isinstance(v, int))
    if len(moved) != 1 or not plain or n.dtype(x) == "bool":
        return None
    [axis] = moved
    length = n.size(x, axis)
    others = all(p == (0, 0) for a, p in enumerate(pads) if a != axis)
    if not others or not n.equal_dims(size[axis], length):
        return None
    wide = n.dim("subtract", length, 1)
    ends = pads[axis], pads[axis][::-1]
    if any(n.equal_dims(a, wide) and n.equal_dims(b, 0) for a, b in ends):
        return axis
    return None


def _cumulated(
    n: StableHLONode,
    name: str | None,
    x: Expr,
    axis: int,
    pads: Sequence[tuple[Dim, Dim]],
    combine: Combine,
) -> Expr:
    """Return the cumulative reduction along an axis, forwards or backwards."""
    backwards = n.equal_dims(pads[axis][0], 0)
    x = op("reverse", x, axis=axis) if backwards else x
    operator = {"add": "cumsum", "multiply": "cumprod"}.get(name or "")
    if operator is not None:
        made = op(operator, x, axis=axis, dtype=n.dtype(x), exclusive=False)
    else:
        made = _by_loop(n, x, axis, combine)
    return op("reverse", made, axis=axis) if backwards else made


def _by_loop(n: StableHLONode, x: Expr, axis: int, combine: Combine) -> Expr:
    lines = n.move(x, axis, 0)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        best = combine(now[0], n.take(fixed[0], t, 0))
        return [best], [best]

    first = n.full(n[1], n.sizes(lines)[1:], n.dtype(x))
    _, [rows] = counted(n, n.size(lines, 0), [lines], [first], step)
    return n.move(n.reshape(rows, n.sizes(lines)), 0, axis)


ROWS: tuple[OperationRow, ...] = (
    OperationRow("reduce", _reduce),
    OperationRow("reduce_window", _reduce_window),
)

__all__ = ["ROWS", "windowed"]
