"""Converters of batch normalization, of windows combined by any function, and of gradients of
pooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.operators.reducers import monoid
from tvm_disc.frontends.stablehlo.operators.shape import padded
from tvm_disc.frontends.stablehlo.table import OperationRow

MOST_TAPS = 128  # maximum number of elements of a window; one slice is emitted for each


class Windows:
    """Windows of constant size over padded tensors; ``places`` are the positions in a window."""

    def __init__(
        self, size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> None:
        self.size, self.strides, self.dilations = size, strides, dilations
        count = prod(size)
        if count > MOST_TAPS:
            raise Unsupported(f"expected a window of at most {MOST_TAPS} elements, found {count}")
        self.places = list(product(*(range(k) for k in size)))

    def counts(self, n: StableHLONode, x: Expr) -> list[Dim]:
        """Return the number of windows along each axis."""
        found = []
        for a, (k, s, d) in enumerate(zip(self.size, self.strides, self.dilations, strict=True)):
            free = n.dim("subtract", n.size(x, a), (k - 1) * d + 1)
            found.append(n.dim("add", n.dim("floor_divide", free, s), 1))
        return found

    def tap(self, n: StableHLONode, x: Expr, place: Sequence[int]) -> Expr:
        """Return the elements at position ``place`` of all windows, one for each window."""
        counts = self.counts(n, x)
        for a, (t, s, d) in enumerate(zip(place, self.strides, self.dilations, strict=True)):
            if self.size[a] == 1 and s == 1:
                continue
            last = n.dim("multiply", n.dim("subtract", counts[a], 1), s)
            x = n.slice(x, a, t * d, n.dim("add", last, t * d + 1), s)
        return x


def folded(
    n: StableHLONode,
    windows: Windows,
    base: Sequence[int],
    pads: Sequence[tuple[Dim, Dim]],
) -> list[Expr]:
    """Return a reduction over windows by any function; like XLA, it ignores padding and gaps."""
    count = len(n) // 2
    inits = n.inputs[count:]
    low, high, gaps = [a for a, _ in pads], [b for _, b in pads], [b - 1 for b in base]
    wide = [padded(n, x, i, low, high, gaps) for x, i in zip(n.inputs, inits, strict=False)]
    valid = _valid(n, n[0], low, high, gaps)
    found = list(inits)
    for place in windows.places:
        new = n.run(0, [*found, *(windows.tap(n, x, place) for x in wide)], n.outer(0))
        if valid is not None:
            here = windows.tap(n, valid, place)
            new = [n.where(here, a, b) for a, b in zip(new, found, strict=True)]
        found = new
    return found


def _valid(
    n: StableHLONode, x: Expr, low: Sequence[Dim], high: Sequence[Dim], gaps: Sequence[int]
) -> Expr | None:
    """Return a mask of the padded tensor that is false for padding and gaps; None if there are
    none.
    """
    if not any(isinstance(k, Expr) or k != 0 for k in (*low, *high, *gaps)):
        return None
    inside = n.full(1, n.sizes(x), "bool")
    return padded(n, inside, n.like(0, inside), low, high, gaps)


def _select_and_scatter(n: StableHLONode) -> Expr:
    """Convert select_and_scatter, the gradient of pooling.

    Each source element is added to the element of ``x`` that its window selects; padding is not
    selected. The result is a sum with one term for each position in the window.
    """
    x, source, init = n.inputs
    rank = n.rank(x)
    ones = [1] * rank
    size, strides = n.ints("window_dimensions", ones), n.ints("window_strides", ones)
    flat = n.ints("padding", [0] * 2 * rank)
    low, high = flat[::2], flat[1::2]
    if monoid(n.block(1)) != "add":
        raise Unsupported("expected a scatter function that adds, found another function")
    windows = Windows(size, strides, ones)
    wide = padded(n, x, n.like(0, x), low, high, [0] * rank)
    chosen = _chosen(n, windows, wide, _valid(n, x, low, high, [0] * rank))
    total: Expr | None = None
    for t, place in enumerate(windows.places):
        mine = n.where(n.equal(chosen, t), source, 0) if len(windows.places) > 1 else source
        rest = []
        for a, k in enumerate(n.sizes(source)):
            reach = n.dim("multiply", n.dim("subtract", k, 1), strides[a])
            rest.append(n.dim("subtract", n.size(wide, a), n.dim("add", reach, place[a] + 1)))
        term = padded(n, mine, n.like(0, source), list(place), rest, [s - 1 for s in strides])
        total = term if total is None else total + term
    assert total is not None
    for a in range(rank):
        if low[a] or high[a]:
            total = n.slice(total, a, low[a], n.dim("add", n.size(x, a), low[a]))
    return total if n.is_zero(init) else total + init


def _chosen(n: StableHLONode, windows: Windows, x: Expr, valid: Expr | None) -> Expr:
    """Return the position that each window selects, as an index into ``windows.places``."""
    best, at = windows.tap(n, x, windows.places[0]), n.literal(0, "int32")
    reads = n.outer(0)
    known = None if valid is None else windows.tap(n, valid, windows.places[0])
    for t, place in enumerate(windows.places[1:], 1):
        new = windows.tap(n, x, place)
        [keep] = n.run(0, [best, new], reads)
        if known is not None and valid is not None:
            here = windows.tap(n, valid, place)
            keep = op("logical_and", known, op("logical_or", op("logical_not", here), keep))
            known = op("logical_or", known, here)
        best, at = n.where(keep, best, new), n.where(keep, at, n.literal(t, "int32"))
    return at


# -- batch normalization ---------------------------------------------------------------------------


def _spread(n: StableHLONode, x: Expr) -> tuple[int, list[int]]:
    """Return the axis of the features, and a list of the other axes."""
    axis = int(n.attr("feature_index"))
    return axis, [a for a in range(n.rank(x)) if a != axis]


def _normalized(n: StableHLONode, x: Expr, mean: Expr, variance: Expr) -> Expr:
    axis, _ = _spread(n, x)
    rank = n.rank(x)
    scale = n.rsqrt(variance + float(n.attr("epsilon")))
    return (x - n.along(mean, axis, rank)) * n.along(scale, axis, rank)


def _inference(n: StableHLONode) -> Expr:
    x, scale, offset, mean, variance = n.inputs
    axis, rank = _spread(n, x)[0], n.rank(x)
    made = _normalized(n, x, mean, variance) * n.along(scale, axis, rank)
    return made + n.along(offset, axis, rank)


def _training(n: StableHLONode) -> list[Expr]:
    x, scale, offset = n.inputs
    axis, others = _spread(n, x)
    rank = n.rank(x)
    mean = n.reduce("mean", x, others)
    centred = x - n.along(mean, axis, rank)
    variance = n.reduce("mean", centred * centred, others)
    made = _normalized(n, x, mean, variance) * n.along(scale, axis, rank)
    return [made + n.along(offset, axis, rank), mean, variance]


def _gradient(n: StableHLONode) -> list[Expr]:
    """Return the gradients of operand, scale and offset (Ioffe and Szegedy, 2015, section 3)."""
    x, scale, mean, variance, up = n.inputs
    axis, others = _spread(n, x)
    rank = n.rank(x)
    plain = _normalized(n, x, mean, variance)
    by_scale = n.reduce("sum", up * plain, others)
    by_offset = n.reduce("sum", up, others)
    over_all = plain * n.along(n.reduce("mean", up * plain, others), axis, rank)
    inner = up - n.along(n.reduce("mean", up, others), axis, rank) - over_all
    factor = scale * n.rsqrt(variance + float(n.attr("epsilon")))
    return [inner * n.along(factor, axis, rank), by_scale, by_offset]


ROWS: tuple[OperationRow, ...] = (
    OperationRow("select_and_scatter", _select_and_scatter),
    OperationRow("batch_norm_inference", _inference),
    OperationRow("batch_norm_training", _training),
    OperationRow("batch_norm_grad", _gradient),
)

__all__ = ["ROWS", "Windows", "folded"]
