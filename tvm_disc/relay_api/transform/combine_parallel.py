"""``CombineParallel*``: merge matmuls or convolutions of one input into a single one.

If all branches continue with the same element-wise operators, these are merged too. The merged
result is then split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_disc.relay.expr import Call, Expr, Function, Tuple, TupleGetItem
from tvm_disc.relay.ops.row import FusionClass
from tvm_disc.relay.visit import children, post_order, with_children
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.dataflow_pattern.matcher import UserGraph
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name, row_of


@dataclass(frozen=True)
class ParallelMerge:
    """How matmuls or convolutions are merged along an axis."""

    op: str
    weight_axis: int
    out_axis: int  # axis of the result, counted from the end; the last is 1
    total: str = ""  # attribute that holds the length of the output axis


def _conv2d(call: Call) -> ParallelMerge | None:
    attrs = attrs_of(call)
    if attrs["groups"] != 1 or attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW":
        return None
    return ParallelMerge("nn.conv2d", 0, 3, "channels")


def _dense(_call: Call) -> ParallelMerge | None:
    return ParallelMerge("nn.dense", 0, 1, "units")


def _batch_matmul(call: Call) -> ParallelMerge | None:
    attrs = attrs_of(call)
    plain = attrs["transpose_b"] and not attrs["transpose_a"]
    return ParallelMerge("nn.batch_matmul", 1, 1) if plain else None


_HOW = {"nn.conv2d": _conv2d, "nn.dense": _dense, "nn.batch_matmul": _batch_matmul}


class _Combiner:
    """State of one run over a function."""

    def __init__(self, func: Function, op: str, least: int, to_batch: bool) -> None:
        self.func, self.op, self.least, self.to_batch = func, op, least, to_batch
        self.types, self.graph = KnownTypes(func), UserGraph(func)

    def run(self) -> Expr:
        """Return the function with the matmuls or convolutions of one input merged."""
        replaced: dict[Expr, Expr] = {}
        for group in self._groups():
            # Calls cannot be merged if the weight of one depends on the result of another.
            if len(group) >= self.least and not _depend([c.args[1] for c in group], group):
                self._combine(group, replaced)
        done: dict[Expr, Expr] = {}
        # A replacement refers to expressions of the old program, which are rewritten as well.
        return _replaced(self.func, replaced, done) if replaced else self.func

    def _groups(self) -> list[list[Call]]:
        found: dict[object, list[Call]] = {}
        for node in self.graph.order:
            key = self._key(node)
            if key is not None and isinstance(node, Call):
                found.setdefault(key, []).append(node)
        return list(found.values())

    def _key(self, node: Expr) -> tuple[Expr, tuple[int, ...], str | None, str] | None:
        """Return a key that is equal for calls that can be merged; None for other nodes."""
        if op_name(node) != self.op or not isinstance(node, Call):
            return None
        how, shape = _HOW[self.op](node), self.types.shape(node.args[1])
        if how is None or shape is None or self.types.tensor(node) is None:
            return None
        attrs = {k: v for k, v in attrs_of(node).items() if k != how.total}
        rest = [d for axis, d in enumerate(shape) if self.to_batch or axis != how.weight_axis]
        return (node.args[0], tuple(rest), self.types.dtype(node.args[1]), repr(attrs))

    def _combine(self, group: list[Call], replaced: dict[Expr, Expr]) -> None:
        how = _HOW[self.op](group[0])
        assert how is not None
        make: _Along | _Stacked = _Stacked(self.types) if self.to_batch else _Along(self.types, how)
        combined: Expr = make.product(group)
        ends: list[Call] = list(group)
        while (after := self._next(ends, make)) is not None:
            combined = make.following(combined, ends, after)
            ends = after
        for end, part in zip(ends, make.parts(combined, ends), strict=True):
            replaced[end] = part

    def _next(self, ends: list[Call], make: _Along | _Stacked) -> list[Call] | None:
        """Return the next call of every branch, or None if they cannot be merged.

        Each must be the only user in its branch, and all must call the same operator.
        """
        after = []
        for end in ends:
            users = self.graph.users[end]
            row = row_of(users[0]) if len(users) == 1 else None
            if row is None or row.pattern > FusionClass.BROADCAST or not isinstance(users[0], Call):
                return None
            after.append(users[0])
        alike = {self._kind(end, call) for end, call in zip(ends, after, strict=True)}
        if len(alike) > 1 or not all(self.types.tensor(call) for call in after):
            return None
        if any(self.types.rank(a) != self.types.rank(e) for a, e in zip(after, ends, strict=True)):
            return None
        others = [a for e, c in zip(ends, after, strict=True) for a in c.args if a is not e]
        return after if make.can_follow(ends, after) and not _depend(others, ends) else None

    def _kind(self, end: Call, call: Call) -> tuple[str, str, tuple[int, ...], int]:
        place = [i for i, arg in enumerate(call.args) if arg is end]
        return (op_name(call), repr(sorted(attrs_of(call).items())), tuple(place), len(call.args))


class _Along:
    """Matmuls or convolutions that are merged along the output axis of their weights."""

    def __init__(self, types: KnownTypes, how: ParallelMerge) -> None:
        self.types, self.how = types, how

    def _length(self, call: Call) -> int:
        shape = self.types.shape(call.args[1])
        assert shape is not None
        return shape[self.how.weight_axis]

    def product(self, group: Sequence[Call]) -> Expr:
        """Return one matmul or convolution with the concatenated weights."""
        weights = Tuple(tuple(call.args[1] for call in group))
        weight = op_call("concatenate", weights, axis=self.how.weight_axis)
        attrs = attrs_of(group[0])
        self.lengths = [self._length(call) for call in group]
        if self.how.total:
            attrs[self.how.total] = sum(self.lengths)
        return op_call(self.how.op, group[0].args[0], weight, **attrs)

    def can_follow(self, ends: Sequence[Call], after: Sequence[Call]) -> bool:
        """Return whether the other operands of ``after`` can be concatenated along the merged axis.

        Each must have the full length of its branch along that axis: a dim of 1 does not suffice.
        """
        for position in range(len(after[0].args)):
            if after[0].args[position] is ends[0]:
                continue
            shapes = [self.types.shape(call.args[position]) for call in after]
            for shape, length in zip(shapes, self.lengths, strict=True):
                if shape is None or len(shape) < self.how.out_axis:
                    return False
                if shape[-self.how.out_axis] != length:
                    return False
            if len({self._rest(s) for s in shapes}) > 1:
                return False
        return True

    def _rest(self, shape: tuple[int, ...] | None) -> object:
        return shape and (
            *shape[: -self.how.out_axis],
            0,
            *shape[len(shape) - self.how.out_axis + 1 :],
        )

    def following(self, combined: Expr, ends: Sequence[Call], after: Sequence[Call]) -> Expr:
        """Return one call that replaces the calls ``after``, one per branch.

        ``combined`` replaces their operands ``ends``; the other operands are concatenated.
        """
        args = []
        for position, arg in enumerate(after[0].args):
            others = tuple(call.args[position] for call in after)
            shape = self.types.shape(arg) or ()
            axis = len(shape) - self.how.out_axis
            joined = (
                op_call("concatenate", Tuple(others), axis=axis) if arg is not ends[0] else None
            )
            args.append(combined if joined is None else joined)
        return Call(after[0].op, args, after[0].attrs)

    def parts(self, combined: Expr, ends: Sequence[Call]) -> list[Expr]:
        """Return the result of each branch as a slice."""
        rank = self.types.rank(ends[0])
        assert rank is not None
        made: list[Expr] = []
        axis, start = rank - self.how.out_axis, 0
        for length in self.lengths:
            begin, size = [0] * (axis + 1), [-1] * (axis + 1)
            begin[axis], size[axis] = start, length
            told = {"strides": (1,) * (axis + 1), "slice_mode": "size", "axes": None}
            made.append(
                op_call("strided_slice", combined, begin=tuple(begin), end=tuple(size), **told)
            )
            start += length
        return made


class _Stacked:
    """Matmuls that are merged into one batched matmul."""

    def __init__(self, types: KnownTypes) -> None:
        self.types = types

    def product(self, group: Sequence[Call]) -> Expr:
        """Return one batched matmul of the stacked weights."""
        data, weights = (Tuple(tuple(call.args[i] for call in group)) for i in (0, 1))
        told = {"out_dtype": attrs_of(group[0])["out_dtype"], "transpose_b": True}
        stacks = (op_call("stack", parts, axis=0) for parts in (data, weights))
        return op_call("nn.batch_matmul", *stacks, **told)

    def can_follow(self, ends: Sequence[Call], after: Sequence[Call]) -> bool:
        """Return whether the other operands have the same shape in all branches."""
        for position in range(len(after[0].args)):
            if after[0].args[position] is ends[0]:
                continue
            shapes = {self.types.shape(call.args[position]) for call in after}
            if len(shapes) > 1 or shapes == {None} or shapes == {()}:
                return False
        return True

    def following(self, combined: Expr, ends: Sequence[Call], after: Sequence[Call]) -> Expr:
        """Return one call that replaces the calls ``after``, one per branch.

        ``combined`` replaces their operands ``ends``; the other operands are stacked.
        """
        args = []
        rank = self.types.rank(ends[0]) or 0
        for position, arg in enumerate(after[0].args):
            if arg is ends[0]:
                args.append(combined)
                continue
            missing = rank - (self.types.rank(arg) or 0)
            others = [call.args[position] for call in after]
            if missing:
                others = [op_call("expand_dims", o, axis=0, num_newaxis=missing) for o in others]
            args.append(op_call("stack", Tuple(tuple(others)), axis=0))
        return Call(after[0].op, args, after[0].attrs)

    def parts(self, combined: Expr, ends: Sequence[Call]) -> list[Expr]:
        """Return the result of each branch as an item of a split."""
        split = op_call("split", combined, indices_or_sections=len(ends), axis=0)
        items = [TupleGetItem(split, i) for i in range(len(ends))]
        return [op_call("squeeze", item, axis=(0,)) for item in items]


def _depend(exprs: Sequence[Expr], calls: Sequence[Call]) -> bool:
    """Return whether the expressions depend on one of the calls."""
    return not set(calls).isdisjoint(post_order(*exprs))


def _replaced(root: Expr, values: dict[Expr, Expr], done: dict[Expr, Expr]) -> Expr:
    """Return ``root`` with expressions replaced, also inside the replacements."""

    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        other = values.get(node)
        parts = children(node) if other is None else (other,)
        if ready or not parts:
            new = tuple(done[p] for p in parts)
            done[node] = with_children(node, new) if other is None else new[0]
        else:
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(parts))
    return done[root]


def combine_parallel(func: Function, op: str, least: int, to_batch: bool = False) -> Expr:
    """Return ``func`` with matmuls of one input merged if there are at least ``least`` of them."""
    return _Combiner(func, op, least, to_batch).run()


__all__ = ["combine_parallel"]
