"""Gradients of 2-D pooling; a task is one image and channel, since windows may overlap."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import const, i64, is_nan
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr


def plan_pool_grad(node: Node) -> Plan:
    """Return a plan that adds each window's gradient ``[n, c, oh, ow]`` to ``[n, c, h, w]``.

    With ``average``, it is divided among the window's elements; otherwise, the largest element gets
    it.
    """
    outer = node.shape[:2]
    taps = node.attrs["pool_size"][0] * node.attrs["pool_size"][1]

    def emit(body: Body) -> None:
        with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            _Plane(body, node, list(body.low.space.split(t, outer))).emit()

    return Plan(product(outer), mul(product(node.inputs[0].shape), taps), emit)


class _Plane:
    def __init__(self, body: Body, node: Node, head: list[Expr]) -> None:
        self.body, self.low, self.block, self.node = body, body.low, body.block, node
        self.gradient, self.x = node.inputs
        self.head, self.dtype = head, node.dtype

    def emit(self) -> None:
        """Emit zeros for all pixels, then the additions of each window's gradient."""
        low = self.low
        with low.loop("e", product(self.x.shape[2:])) as e:
            index = [*self.head, *low.space.split(e, self.x.shape[2:])]
            at = low.space.join(index, self.x.shape)
            low.store(self.body.outputs[0], at, const(0, self.dtype), self.dtype)
        with (
            low.loop("oh", self.gradient.shape[2]) as i,
            low.loop("ow", self.gradient.shape[3]) as j,
        ):
            given = low.settle("given", low.at(self.gradient, [*self.head, i, j]))
            spans = [self._span(k, at) for k, at in enumerate((i, j))]
            if self.node.attrs["average"]:
                self._spread(given, spans)
            else:
                self._to_largest(given, spans)

    def _span(self, k: int, at: Expr) -> tuple[Expr, Expr, Expr]:
        """Return (first, end) of a window's part inside the image, and the window's full length."""
        block, attrs = self.block, self.node.attrs
        size = i64(self.x.shape[2 + k])
        start = block.bind("start", at * attrs["strides"][k] - attrs["padding"][k])
        end = block.bind("end", start + attrs["pool_size"][k])
        first = block.bind("first", tirx.max(start, i64(0)))
        last = block.bind("last", tirx.max(tirx.min(end, size), first))
        return first, last, i64(attrs["pool_size"][k])

    def _add(self, place: Expr, value: Expr) -> None:
        low, out = self.low, self.body.outputs[0]
        at = low.settle("at", place)
        low.store(out, at, low.load(out, at, self.dtype) + value, self.dtype)

    def _spread(self, given: Expr, spans: list[tuple[Expr, Expr, Expr]]) -> None:
        (h0, h1, high), (w0, w1, wide) = spans
        count = high * wide if self.node.attrs["count_pads"] else (h1 - h0) * (w1 - w0)
        share = cast(tirx.max(count, i64(1)), self.dtype)
        part = self.block.bind("part", given / self.block.bind("count", share))
        with self.low.loop("h", h1 - h0, begin=h0) as h, self.low.loop("w", w1 - w0, begin=w0) as w:
            self._add(self.low.space.join([*self.head, h, w], self.x.shape), part)

    def _to_largest(self, given: Expr, spans: list[tuple[Expr, Expr, Expr]]) -> None:
        (h0, h1, _), (w0, w1, _) = spans
        block, low = self.block, self.low
        best, where = block.alloc("best", 1, self.dtype), block.alloc("where", 1, "int64")
        block.store(where, 0, i64(-1))
        with low.loop("h", h1 - h0, begin=h0) as h, low.loop("w", w1 - w0, begin=w0) as w:
            value = low.settle("value", low.at(self.x, [*self.head, h, w]))
            at = low.settle("at", low.space.join([*self.head, h, w], self.x.shape))
            old = best[i64(0)]
            larger = value > old
            if is_float(self.dtype):  # the first NaN is the largest element
                larger = tirx.And(tirx.Or(larger, is_nan(value)), tirx.EQ(old, old))
            with block.when(tirx.Or(where[i64(0)] < 0, larger)):
                block.store(best, 0, value)
                block.store(where, 0, at)
        with block.when(where[i64(0)] >= 0), low.scope():
            self._add(where[i64(0)], given)
