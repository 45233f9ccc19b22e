"""Region pooling and image correlation; a task is one element of the result."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import UNSET, Buffer, Expr

LEAST = -3.4028234663852886e38
ROI_COST = 64


def plan_roi(node: Node) -> Plan:
    """Return a plan that pools ``x[b, c, h, w]`` in the parts of regions ``[n, 5]``.

    Each region is divided into a grid of parts. The result of a part is the mean or the maximum of
    interpolated samples, or the maximum of its pixels.
    """

    def emit(body: Body) -> None:
        with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            part = _Part(body, node, list(body.low.space.split(t, node.shape)))
            value = part.pooled() if node.attrs["mode"] == "pool" else part.aligned()
            body.low.store(body.outputs[0], t, value, node.dtype)

    return Plan(product(node.shape), mul(product(node.shape), ROI_COST), emit)


class _Part:
    """Computes one element: region ``n``, channel ``c``, part ``(i, j)`` of the region's grid."""

    def __init__(self, body: Body, node: Node, index: list[Expr]) -> None:
        self.low, self.block, self.node = body.low, body.block, node
        self.x, self.rois = node.inputs
        self.index, self.dtype = index, self.x.dtype
        entry = cast(self._roi(0), "int64")
        last = i64(self.x.shape[0]) - 1
        self.batch = self.low.settle("batch", tirx.max(tirx.min(entry, last), i64(0)))

    def _f(self, value: float) -> Expr:
        return const(value, self.dtype)

    def _roi(self, k: int) -> Expr:
        return self.low.at(self.rois, [self.index[0], i64(k)])

    def _bind(self, name: str, value: Expr) -> Expr:
        self.low.resolve([value])
        return self.block.bind(name, value)

    def _cell(self, name: str, value: float) -> Buffer:
        cell = self.block.alloc(name, 1, self.dtype)
        self.block.store(cell, 0, self._f(value))
        return cell

    def _pixel(self, h: Expr, w: Expr) -> Expr:
        return self.low.at(self.x, [self.batch, self.index[1], h, w])

    # -- samples -------------------------------------------------------------------------------

    def aligned(self) -> Expr:
        """Return the mean or maximum of interpolated samples at regular positions in the part."""
        low, block, average = self.low, self.block, self.node.attrs["mode"] == "avg"
        axes = [self._samples(k) for k in range(2)]
        total = self._cell("total", 0.0 if average else LEAST)
        count = self._bind("count", cast(axes[0][2] * axes[1][2], self.dtype))
        with low.loop("rh", axes[0][2]) as rh, low.loop("rw", axes[1][2]) as rw:
            places = []
            for (start, step, _), r in zip(axes, (rh, rw), strict=True):
                places.append(self._bind("at", start + (cast(r, self.dtype) + self._f(0.5)) * step))
            value = self._bind("value", self._between(places))
            if average:
                block.store(total, 0, total[i64(0)] + value / count)
            else:
                block.store(total, 0, tirx.max(total[i64(0)], value))
        return total[i64(0)]

    def _samples(self, k: int) -> tuple[Expr, Expr, Expr]:
        """Return (start of the part, distance between samples, number of samples) along an axis."""
        attrs, scale = self.node.attrs, self._f(self.node.attrs["scale"])
        first = self._bind("first", self._roi(2 - k) * scale)
        last = self._bind("last", self._roi(4 - k) * scale)
        parts = self._f(float(attrs["pooled"][k]))
        length = self._bind("length", tirx.max(last - first, self._f(1)))
        size = self._bind("bin", length / parts)
        if attrs["ratio"] > 0:
            count: Expr = i64(attrs["ratio"])
        else:
            count = self._bind("samples", cast(tirx.ceil(size), "int64"))
        start = self._bind("start", first + cast(self.index[2 + k], self.dtype) * size)
        return start, self._bind("step", size / cast(count, self.dtype)), count

    def _between(self, places: Sequence[Expr]) -> Expr:
        """Return the bilinear interpolation of four pixels; 0 below -1 or above the image size."""
        zero, one = self._f(0), self._f(1)
        outside: Expr = UNSET
        near = []
        for k, place in enumerate(places):
            size = cast(i64(self.x.shape[2 + k]), self.dtype)
            size = self._bind("size", size)
            here = tirx.Or(place < self._f(-1), place > size)
            outside = here if outside is None else tirx.Or(outside, here)
            inside = self._bind("inside", tirx.max(tirx.min(place, size - one), zero))
            below = self._bind("below", tirx.floor(inside))
            low_ = self._bind("p", cast(below, "int64"))
            high = self._bind("q", tirx.min(low_ + 1, i64(self.x.shape[2 + k]) - 1))
            near.append((low_, high, self._bind("part", inside - below)))
        (h0, h1, y), (w0, w1, x) = near
        top = self._pixel(h0, w0) * (one - x) + self._pixel(h0, w1) * x
        bottom = self._pixel(h1, w0) * (one - x) + self._pixel(h1, w1) * x
        value = self._bind("mixed", top * (one - y) + bottom * y)
        return tirx.Select(outside, zero, value)

    # -- pixels --------------------------------------------------------------------------------

    def pooled(self) -> Expr:
        """Return the largest pixel of the part; 0 if the part is empty."""
        low, block = self.low, self.block
        (h0, h1), (w0, w1) = (self._pixels(k) for k in range(2))
        empty = tirx.Or(h0 >= h1, w0 >= w1)
        best = block.alloc("best", 1, self.dtype)
        block.store(best, 0, tirx.Select(empty, self._f(0), self._f(LEAST)))
        with low.loop("h", h1 - h0, begin=h0) as h, low.loop("w", w1 - w0, begin=w0) as w:
            value = low.settle("value", self._pixel(h, w))
            block.store(best, 0, tirx.max(best[i64(0)], value))
        return best[i64(0)]

    def _pixels(self, k: int) -> tuple[Expr, Expr]:
        attrs, scale = self.node.attrs, self._f(self.node.attrs["scale"])
        first, last = (
            self._bind(n, cast(_rounded(self._bind("e", self._roi(e - k) * scale)), "int64"))
            for n, e in (("first", 2), ("last", 4))
        )
        length = self._bind("length", tirx.max(last - first + 1, i64(1)))
        size = self._bind("bin", cast(length, self.dtype) / self._f(float(attrs["pooled"][k])))
        part = cast(self.index[2 + k], self.dtype)
        little = self._f(0.00001)
        begin = cast(tirx.floor(self._bind("b", part * size + little)), "int64")
        end = cast(tirx.ceil(self._bind("c", (part + self._f(1)) * size - little)), "int64")
        extent = i64(self.x.shape[2 + k])
        cut = [tirx.max(tirx.min(first + e, extent), i64(0)) for e in (begin, end)]
        return self._bind("from", cut[0]), self._bind("to", cut[1])


def _rounded(x: Expr) -> Expr:
    return tirx.nearbyint(x)


def plan_correlation(node: Node) -> Plan:
    """Return a plan that correlates patches of a padded image with displaced patches of another.

    A result is the mean, over a patch and all channels, of products or absolute differences.
    """
    one, other = node.inputs
    attrs = node.attrs
    size, most, stride, apart = (attrs[n] for n in ("size", "most", "stride", "apart"))
    radius = most // apart
    across = 2 * radius + 1

    def emit(body: Body) -> None:
        low, block = body.low, body.block
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            n, q, i, j = low.space.split(t, node.shape)
            low.resolve([n, q, i, j])
            total = block.alloc("total", 1, node.dtype)
            block.store(total, 0, const(0, node.dtype))
            moves = (tirx.floordiv(q, i64(across)), tirx.floormod(q, i64(across)))
            at = [block.bind("a", p * stride + most) for p in (i, j)]
            to = [block.bind("b", p + (m - radius) * apart) for p, m in zip(at, moves, strict=True)]
            with (
                low.loop("c", one.shape[1]) as c,
                low.loop("y", size) as y,
                low.loop("x", size) as x,
            ):
                a = low.at(one, [n, c, at[0] + y, at[1] + x])
                b = low.at(other, [n, c, to[0] + y, to[1] + x])
                value = a * b if attrs["product"] else tirx.abs(a - b)
                block.store(total, 0, total[i64(0)] + value)
            count = cast(i64(one.shape[1]) * (size * size), node.dtype)
            low.store(body.outputs[0], t, total[i64(0)] / count, node.dtype)

    work = mul(product(node.shape), mul(one.shape[1], size * size))
    return Plan(product(node.shape), work, emit)
