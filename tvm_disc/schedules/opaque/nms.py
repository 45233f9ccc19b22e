"""Non-maximum suppression: select boxes in score order unless a selected box overlaps too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr

BOX_FIELDS = 6  # fields stored per selected box: four corners, area and class
PAIR_COST = 64  # operations per box; most boxes are compared with few selected ones


def plan_suppress(node: Node) -> Plan:
    """Return a plan with a task per list of boxes; each box is compared with selected ones."""
    boxes, _, order = node.inputs[:3]
    tasks = product(order.shape[:2])

    def emit(body: Body) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            _List(body, node, list(body.low.space.split(r, order.shape[:2]))).emit()

    return Plan(
        tasks,
        mul(product(order.shape), PAIR_COST),
        emit,
        scratch_elems=mul(order.shape[2], BOX_FIELDS),
        scratch_dtype=boxes.dtype,
    )


class _List:
    """The boxes of one batch entry and class.

    Inputs: boxes ``[b, n, 4]``, scores and order ``[b, c, n]``, the number of valid boxes ``[b,
    c]``, the number to pick and the overlap threshold (both scalars), and optionally classes ``[b,
    n]``. For every position of the order, the result is 1 if its box is picked, else 0.

    Rules, which depend on the original operator:
        relay: boxes without a positive score are picked, but are neither compared nor counted;
        onnx: only boxes with a score above -1 are picked, and only positive scores are suppressed;
        tflite: corners are not reordered, and only an overlap above the threshold suppresses;
        pixels: as tflite, with side lengths that include the last pixel.
    """

    def __init__(self, body: Body, node: Node, head: list[Expr]) -> None:
        assert body.scratch is not None
        self.body, self.low, self.block, self.node = body, body.low, body.block, node
        self.boxes, self.scores, self.order, self.valid, limit, threshold = node.inputs[:6]
        self.classes = node.inputs[6] if len(node.inputs) > 6 else None
        self.head, self.rule, self.scratch = head, node.attrs["rule"], body.scratch
        self.limit, self.threshold = self.low.at(limit, []), self.low.at(threshold, [])
        self.kept, self.taken = self._cell("kept"), self._cell("taken")

    def _cell(self, name: str) -> Buffer:
        cell = self.block.alloc(name, 1, "int64")
        self.block.store(cell, 0, i64(0))
        return cell

    @contextmanager
    def _when(self, cond: Expr) -> Iterator[None]:
        with self.block.when(cond), self.low.scope():
            yield

    def emit(self) -> None:
        """Emit the decision for every box; boxes after the first ``valid`` ones are not picked."""
        with self.low.loop("j", self.order.shape[2]) as j:
            self._pick(j, 0)
        with self.low.loop("j", self.low.at(self.valid, self.head)) as j:
            full: Expr
            if self.rule == "relay":
                full = tirx.EQ(self.taken[i64(0)], self.limit)
            else:
                full = self.taken[i64(0)] >= self.limit
            with self._when(tirx.Not(full)):
                self._consider(j)

    def _pick(self, j: Expr, value: int) -> None:
        at = self.low.space.join([*self.head, j], self.node.shape)
        self.low.store(self.body.outputs[0], at, const(value, self.node.dtype), self.node.dtype)

    def _consider(self, j: Expr) -> None:
        low, block = self.low, self.block
        place = low.settle("place", low.at(self.order, [*self.head, j]))
        score = low.settle("score", low.at(self.scores, [*self.head, place]))
        zero = const(0, self.scores.dtype)
        if self.rule == "relay":
            with self._when(score > zero):
                self._compare(j, place, const(True, "bool"))
            with block.otherwise():
                self._pick(j, 1)
        elif self.rule == "onnx":
            with self._when(score > const(-1, self.scores.dtype)):
                self._compare(j, place, score > zero)
        else:
            self._compare(j, place, const(True, "bool"))

    def _compare(self, j: Expr, place: Expr, suppressible: Expr) -> None:
        """Emit the comparison of a box with the picked ones, and its pick if none covers it."""
        block, low = self.block, self.low
        box = self._fields(place)
        open_, t = self._cell("open"), self._cell("t")
        block.store(open_, 0, tirx.Cast("int64", suppressible))
        with (
            block.loop_while(
                tirx.And(t[i64(0)] < self.kept[i64(0)], tirx.EQ(open_[i64(0)], i64(1)))
            ),
            low.scope(),
        ):
            at = block.bind("at", t[i64(0)] * BOX_FIELDS)
            block.store(t, 0, t[i64(0)] + 1)
            covered = self._covers([self.scratch[at + k] for k in range(BOX_FIELDS)], box)
            with block.when(covered):
                block.store(open_, 0, i64(-1))
        with self._when(open_[i64(0)] >= 0):
            self._pick(j, 1)
            block.store(self.taken, 0, self.taken[i64(0)] + 1)
            with block.when(self._suppresses(box)):
                at = block.bind("end", self.kept[i64(0)] * BOX_FIELDS)
                for k, value in enumerate(box):
                    block.store(self.scratch, at + k, value)
                block.store(self.kept, 0, self.kept[i64(0)] + 1)

    def _suppresses(self, box: Sequence[Expr]) -> Expr:
        """Return whether a picked box may suppress others; boxes with a negative class may not."""
        if self.classes is None:
            return const(True, "bool")
        return box[5] >= const(0, self.classes.dtype)

    def _fields(self, place: Expr) -> list[Expr]:
        low = self.low
        batch = self.head[0]
        a = [low.at(self.boxes, [batch, place, i64(k)]) for k in range(4)]
        if self.rule in ("relay", "onnx"):
            a = [f(a[k], a[k + 2]) for f in (tirx.min, tirx.max) for k in (0, 1)]
            a = [low.settle(n, v) for n, v in zip(("left", "top", "right", "low"), a, strict=True)]
        more = const(1 if self.rule == "pixels" else 0, self.boxes.dtype)
        area = low.settle("area", (a[2] - a[0] + more) * (a[3] - a[1] + more))
        kind = const(0, self.boxes.dtype)
        if self.classes is not None:
            kind = low.at(self.classes, [batch, place])
        return [*a, area, kind]

    def _covers(self, kept: Sequence[Expr], box: Sequence[Expr]) -> Expr:
        """Return whether two boxes of one class overlap by the threshold or more.

        The rules ``tflite`` and ``pixels`` require an overlap above the threshold.
        """
        block, dtype = self.block, self.boxes.dtype
        zero = const(0, dtype)
        kept = [block.bind("k", x) for x in kept]
        more = const(1 if self.rule == "pixels" else 0, dtype)
        sides = [
            block.bind("side", tirx.min(kept[k + 2], box[k + 2]) - tirx.max(kept[k], box[k]) + more)
            for k in (0, 1)
        ]
        wide, high = (tirx.max(s, zero) for s in sides)
        common = block.bind("common", high * wide)
        union = block.bind("union", kept[4] + box[4] - common)
        if self.rule == "pixels":
            return block.bind("ratio", common / union) > self.threshold
        if self.rule == "tflite":
            real = tirx.And(kept[4] > zero, box[4] > zero)
            ratio = block.bind("ratio", tirx.Select(real, common / union, zero))
            return ratio > self.threshold
        ratio = block.bind("ratio", tirx.Select(union <= zero, zero, common / union))
        over = ratio >= self.threshold
        if self.classes is None or self.node.attrs["any_class"]:
            return over
        return tirx.And(tirx.EQ(kept[5], box[5]), over)
