"""Box proposals of a region proposal network; a task is one anchor at one pixel."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.schedules.scalars import UNARY
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr

BOX_COST = 128


def plan_proposals(node: Node) -> Plan:
    """Return a plan that computes the edges and the score of boxes, ``[b, h * w * anchors, 5]``.

    The edges are left, top, right and bottom.

    The inputs are scores ``[b, 2 * anchors, h, w]``, box deltas ``[b, 4 * anchors, h, w]``, image
    sizes ``[b, 3]`` and anchors ``[anchors, 4]``.
    """
    scores, anchors = node.inputs[0], node.inputs[3]
    batch, _, high, wide = scores.shape
    outer = (batch, high, wide, anchors.shape[0])

    def emit(body: Body) -> None:
        with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            index = body.low.space.split(t, outer)
            body.low.resolve(list(index))
            _Box(body, node, list(index)).emit(t)

    return Plan(product(outer), mul(product(outer), BOX_COST), emit)


class _Box:
    def __init__(self, body: Body, node: Node, index: list[Expr]) -> None:
        self.body, self.low, self.block, self.node = body, body.low, body.block, node
        self.b, self.h, self.w, self.k = index

    def _f(self, value: float) -> Expr:
        return const(value, self.node.dtype)

    def _bind(self, name: str, value: Expr) -> Expr:
        self.low.resolve([value])
        return self.block.bind(name, value)

    def emit(self, t: Expr) -> None:
        """Emit a box and its score.

        Boxes below the least size are enlarged and score -1; boxes of pixels outside of the image
        score -1.
        """
        low, block, attrs = self.low, self.block, self.node.attrs
        scores, _, info, _ = self.node.inputs
        count = i64(self.node.inputs[3].shape[0])
        least = low.at(info, [self.b, i64(2)]) * self._f(attrs["least"])
        least = self._bind("least", least)
        pairs, small, beyond = [], const(False, "bool"), const(False, "bool")
        for axis, place in enumerate((self.w, self.h)):
            limit = low.at(info, [self.b, i64(1 - axis)])
            pair = self._ends(axis, place, limit)
            small = tirx.Or(small, pair[1] - pair[0] + self._f(1) < least)
            real = cast(limit / self._f(attrs["stride"]), "int64")
            beyond = tirx.Or(beyond, place >= real)
            pairs.append(pair)
        score = low.at(scores, [self.b, count + self.k, self.h, self.w])
        with block.when(small):
            half = block.bind("half", least / self._f(2))
            for axis, (first, last) in enumerate(pairs):
                self._store(t, axis, first - half)
                self._store(t, axis + 2, last + half)
            self._store(t, 4, self._f(-1))
        with block.otherwise():
            for axis, (first, last) in enumerate(pairs):
                self._store(t, axis, first)
                self._store(t, axis + 2, last)
            self._store(t, 4, tirx.Select(beyond, self._f(-1), score))

    def _store(self, t: Expr, k: int, value: Expr) -> None:
        self.block.store(self.body.outputs[0], t * 5 + k, value)

    def _ends(self, axis: int, place: Expr, limit: Expr) -> tuple[Expr, Expr]:
        """Return the ends of the shifted and moved anchor along an axis, clamped to the image."""
        low, attrs = self.low, self.node.attrs
        _, moves, _, anchors = self.node.inputs
        shift = self._bind("shift", cast(place, self.node.dtype) * self._f(attrs["stride"]))
        ends, delta = [], []
        for k in (axis, axis + 2):
            ends.append(self._bind("end", low.at(anchors, [self.k, i64(k)]) + shift))
            delta.append(low.at(moves, [self.b, self.k * 4 + k, self.h, self.w]))
        if attrs["plain"]:
            ends = [self._bind("end", e + d) for e, d in zip(ends, delta, strict=True)]
        else:
            one, half = self._f(1), self._f(0.5)
            length = self._bind("length", ends[1] - ends[0] + one)
            centre = self._bind("centre", delta[0] * length + (ends[0] + (length - one) * half))
            size = self._bind("size", UNARY["exp"](delta[1]) * length)
            reach = self._bind("reach", (size - one) * half)
            ends = [centre - reach, centre + reach]
        last = self._bind("last", limit - self._f(1))
        first, end = (self._bind("e", tirx.max(tirx.min(e, last), self._f(0))) for e in ends)
        return first, end
