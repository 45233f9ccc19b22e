"""Image sampling at fractional positions: taps are computed once per position for all channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.schedules.scalars import UNARY
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr, Size

TAPS = {"floor": 1, "nearest": 1, "linear": 2, "cubic": 4}
CUBIC = -0.75


def plan_sample(node: Node) -> Plan:
    """Return a plan that samples ``x[b, c, ...]`` at ``places[n, rank, m]``: ``[n, c, m]``.

    A task is one sampled position. An optional third operand holds the batch index of each entry.
    Outside the image, the border mode selects the value 0 (``zeros``), the nearest pixel
    (``edge``), or a ``reflection`` about the centers of border pixels (``corners``) or about their
    outer edges.
    """
    places = node.inputs[1]
    outer = (places.shape[0], places.shape[2])

    def emit(body: Body) -> None:
        with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            _Place(body, node, *body.low.space.split(t, outer)).emit()

    rank = len(node.inputs[0].shape) - 2
    return Plan(
        product(outer), mul(product(node.shape), TAPS[node.attrs["method"]] ** rank * 4), emit
    )


class _Place:
    def __init__(self, body: Body, node: Node, entry: Expr, m: Expr) -> None:
        self.body, self.low, self.block, self.node = body, body.low, body.block, node
        self.x, self.places = node.inputs[:2]
        self.entry, self.m = entry, m
        self.method, self.count = node.attrs["method"], TAPS[node.attrs["method"]]
        self.dtype = self.x.dtype

    def _float(self, value: float) -> Expr:
        return const(value, self.dtype)

    def emit(self) -> None:
        """Emit the taps of each axis, then the sum of the taps for each channel."""
        low, block = self.low, self.block
        batch: Expr = self.entry
        if len(self.node.inputs) > 2:
            picked = cast(low.at(self.node.inputs[2], [self.entry]), "int64")
            last = i64(self.x.shape[0]) - 1
            batch = low.settle("batch", tirx.max(tirx.min(picked, last), i64(0)))
        rank = len(self.x.shape) - 2
        axes = [self._taps(k, self.x.shape[2 + k]) for k in range(rank)]
        with low.loop("c", self.x.shape[1]) as c:
            total = block.alloc("total", 1, self.dtype)
            block.store(total, 0, self._float(0))
            with low.loop("k", self.count**rank) as k:
                at, weight, rest = [], self._float(1), k
                for where, part in reversed(axes):
                    tap = tirx.floormod(rest, i64(self.count)) if self.count > 1 else i64(0)
                    tap = block.bind("tap", tap)
                    rest = tirx.floordiv(rest, i64(self.count))
                    at.append(block.bind("at", where[tap]))
                    weight = weight * part[tap]
                value = low.at(self.x, [batch, c, *reversed(at)])
                weight = block.bind("weight", weight)
                # If the weight is 0, the product must be 0 even if the pixel is NaN.
                shown = tirx.Select(tirx.EQ(weight, self._float(0)), self._float(0), value * weight)
                block.store(total, 0, total[i64(0)] + shown)
            place = low.space.join([self.entry, c, self.m], self.node.shape)
            low.store(self.body.outputs[0], place, total[i64(0)], self.node.dtype)

    def _taps(self, axis: int, extent: Size) -> tuple[Buffer, Buffer]:
        """Return (integer positions inside the image, weights) of the taps along an axis."""
        low, block = self.low, self.block
        where, part = (
            block.alloc(n, self.count, t) for n, t in (("p", "int64"), ("w", self.dtype))
        )
        size = block.bind("size", cast(i64(extent), self.dtype))
        place = low.settle("place", low.at(self.places, [self.entry, i64(axis), self.m]))
        if self.method == "cubic":
            below = block.bind("below", tirx.floor(place))
            weights = _cubic(block.bind("rest", place - below), self._float)
            found = [self._border(below + self._float(k - 1), size) for k in range(4)]
        else:
            place = self._border(place, size)
            if self.method == "nearest":
                found, weights = [UNARY["round"](place)], [self._float(1)]
            elif self.method == "floor":
                found, weights = [tirx.floor(place)], [self._float(1)]
            else:
                below = block.bind("below", tirx.floor(place))
                rest = block.bind("rest", place - below)
                found = [below, below + self._float(1)]
                weights = [self._float(1) - rest, rest]
        for k, (position, weight) in enumerate(zip(found, weights, strict=True)):
            self._store_tap(where, part, k, (position, weight), size)
        return where, part

    def _store_tap(
        self, where: Buffer, part: Buffer, k: int, tap: Sequence[Expr], size: Expr
    ) -> None:
        block = self.block
        position, weight = (block.bind(n, v) for n, v in zip(("tap", "part"), tap, strict=True))
        last = block.bind("last", size - self._float(1))
        inside = block.bind("inside", tirx.max(tirx.min(position, last), self._float(0)))
        block.store(where, k, cast(inside, "int64"))
        if self.node.attrs["border"] == "zeros":
            weight = tirx.Select(tirx.EQ(inside, position), weight, self._float(0))
        block.store(part, k, weight)

    def _border(self, place: Expr, size: Expr) -> Expr:
        """Return the position that is read instead of ``place``, as the border mode defines."""
        block, f = self.block, self._float
        border, corners = self.node.attrs["border"], self.node.attrs["corners"]
        if border == "zeros":
            return place
        place = block.bind("place", place)
        last = block.bind("last", size - f(1))
        if border == "reflection":
            span, start = (last, f(0)) if corners else (size, f(-0.5))
            apart = block.bind("apart", tirx.Select(place < start, start - place, place - start))
            whole = block.bind("whole", tirx.max(span, f(1)))
            times = block.bind("times", tirx.floor(tirx.floor(apart) / whole))
            extra = block.bind("extra", apart - times * span)
            odd = block.bind("odd", times - tirx.floor(times / f(2)) * f(2))
            back = block.bind("back", span - extra + start)
            there = block.bind("there", tirx.Select(odd > f(0.5), back, extra + start))
            outside = tirx.Or(place < start, place > span + start)
            place = block.bind("moved", tirx.Select(outside, there, place))
        return block.bind("shown", tirx.max(tirx.min(place, last), f(0)))


def _cubic(x: Expr, f: Callable[[float], Expr]) -> list[Expr]:
    def near(t: Expr) -> Expr:
        return ((f(CUBIC + 2) * t - f(CUBIC + 3)) * t) * t + f(1)

    def far(t: Expr) -> Expr:
        return ((f(CUBIC) * t - f(5 * CUBIC)) * t + f(8 * CUBIC)) * t - f(4 * CUBIC)

    return [far(x + f(1)), near(x), near(f(1) - x), far(f(2) - x)]
