"""Rules that compute operators on channels-last images.

A value ``[n, c1, ..., ck, s1, ..., sm]`` with ``k`` channel axes is stored channels last as
``[n, s1, ..., sm, c1, ..., ck]``. ``k`` is 1 for an image; a reshape that splits channels into
groups makes it 2. Given the layouts of an operator's operands, a rule returns the layouts that the
operator reads and produces, and the call. It returns None if the operator requires the model's
layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.graph.axes import permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import BYTES, CENTRED, Node, is_one, static_dim
from tvm_disc.relay.call_attrs import with_fields
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay_passes.rewrite import with_operands
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr, Size

Order: TypeAlias = Sequence[int]
Dims: TypeAlias = Sequence[Any]

PLAIN = 0
"""Number of channel axes that denotes the layout of the model."""

IMAGES = ("float32",)
"""Element types for which channels-last convolution kernels exist."""


@dataclass(frozen=True)
class Step:
    """An operator on channels-last operands.

    Attributes:
        reads: for each operand its number of channel axes, or ``PLAIN`` for the model's layout.
        gives: the number of channel axes of the result, or ``PLAIN``.
        call: maps the operands to the call; None means that the result is the first operand.
        plain: an equally cheap call that produces the result in the model's layout, if there is
            one.
    """

    reads: tuple[int, ...]
    gives: int
    call: Callable[[Sequence[Expr]], Expr] | None
    plain: Callable[[Sequence[Expr]], Expr] | None = None


Rule: TypeAlias = Callable[[Node, Sequence[int], Solver], "Step | None"]


def channels_last_order(rank: int, channels: int) -> tuple[int, ...]:
    """Return the order of axes that transposes a value of the model to channels last.

    For ``PLAIN`` it is the identity.
    """
    if channels == PLAIN:
        return tuple(range(rank))
    return (0, *range(channels + 1, rank), *range(1, channels + 1))


def in_order(items: Sequence[Size], order: Order) -> list[Any]:
    """Return ``items``, one per axis, permuted by ``order``."""
    return [items[a] for a in order]


def moves(shape: Sequence[object], order: Order) -> bool:
    """Return whether a permutation moves elements in memory: it moves more than dims of 1."""
    wide = [a for a in order if not is_one(shape[a])]
    return wide != sorted(wide)


def is_image_convolution(node: Node) -> bool:
    """Return whether a node is an image convolution that profits from channels-last layout."""
    return (
        node.op == "relax.nn.conv2d"
        and node.attrs["data_layout"] == "NCHW"
        and node.attrs["kernel_layout"] == "OIHW"
        and (all(x.dtype in IMAGES for x in (node, *node.inputs)) or sums_integers(node))
    )


def sums_integers(node: Node) -> bool:
    """Return whether a node is an integer convolution of bytes, minus an optional zero point.

    The convolution has constant weights, and one group or one channel per group.
    """
    if node.op != "relax.nn.conv2d":
        return False
    data, weight = node.inputs
    whole = node.dtype == "int32" and weight.dtype == "int8" and is_dense_or_depthwise(node)
    return whole and weight.op == "const" and data.dtype in (*BYTES, CENTRED)


def is_dense_or_depthwise(node: Node) -> bool:
    """Return whether a convolution has one group, or one input and output channel per group."""
    groups, (outs, members, *_) = int(node.attrs["groups"]), node.inputs[1].shape
    return groups == 1 or (static_dim(outs) == groups and is_one(members))


def step_of(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return the channels-last form of ``node``, or None.

    ``given`` has for each operand its number of channel axes.
    """
    if node.row is None:
        return None
    rule = BY_OPERATOR.get(node.op) or BY_CLASS.get(node.row.cls)
    if rule is None or not (any(given) or rule in SOURCES):
        return None
    return rule(node, given, solver)


def _image(node: Node, given: Sequence[int]) -> int:
    """Return the number of channel axes of the first channels-last operand with the result's
    rank, or ``PLAIN``.
    """
    rank = len(node.shape)
    found = (k for x, k in zip(node.inputs, given, strict=True) if k and len(x.shape) == rank)
    return next(found, PLAIN)


# -- rules by class ------------------------------------------------------------------------------


def _elementwise(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step with all operands in one layout; None if no operand is channels last.

    The layout of an operand of one element does not matter.
    """
    k = _image(node, given)
    if k == PLAIN:
        return None
    reads = tuple(PLAIN if all(map(is_one, x.shape)) else k for x in node.inputs)
    return Step(reads, k, lambda xs: with_operands(node, xs))


def _window(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step for a convolution, or for pooling of a channels-last image; None for others."""
    if len(node.shape) != 4:
        return None
    if is_image_convolution(node):
        attrs = with_fields(node.expr.attrs, data_layout="NHWC", out_layout="NHWC")
        return Step((1, PLAIN), 1, lambda xs: with_operands(node, xs, attrs))
    kinds = (*IMAGES, *BYTES) if "max" in node.op else IMAGES
    if given[0] != 1 or node.attrs.get("layout") != "NCHW" or node.dtype not in kinds:
        return None
    attrs = with_fields(node.expr.attrs, layout="NHWC", out_layout="NHWC")
    return Step((1,), 1, lambda xs: with_operands(node, xs, attrs))


def _reduction(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    source, k = node.inputs[0], given[0]
    axes, order = reduced_axes(node), channels_last_order(len(source.shape), k)
    axis = node.attrs["axis"]
    if axis is None and node.dtype != source.dtype:
        return None  # the index that argmax returns depends on the layout
    given_axes = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    moved = [order.index(a % len(order)) for a in given_axes]
    gives = k
    if not node.attrs["keepdims"]:
        gives = sum(a not in axes for a in range(1, k + 1))
        plain = [a for a in range(len(order)) if a not in axes]
        kept = [a for a in order if a not in axes]
        if kept == plain:
            gives = PLAIN
        elif 0 in axes:
            return None
    attrs = node.expr.attrs
    if axis is not None:
        attrs = with_fields(attrs, axis=moved if isinstance(axis, tuple) else moved[0])
    return Step((k,), gives, lambda xs: with_operands(node, xs, attrs))


def _view(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step for a view, or None if the view mixes channels and space."""
    source, k = node.inputs[0], given[0]
    gives = _split(source.shape, k, node.shape, solver)
    if gives is None:
        return None
    shape = in_order(node.shape, channels_last_order(len(node.shape), gives))
    if gives >= len(node.shape) - 1:
        gives = PLAIN
    return Step((k,), gives, lambda xs: reshape_call(xs[0], shape))


def _split(before: Dims, k: int, after: Dims, solver: Solver) -> int | None:
    """Return the number of channel axes of ``after``, a view of ``before`` with ``k`` of them.

    Both have the batch as first axis. Their channel axes have equally many elements, and therefore
    their spatial axes, too. Returns None if no such number is proved.
    """
    if not after or not solver.known_eq(before[0], after[0]):
        return None
    for gives in range(1, max(len(after), 2)):
        if solver.known_same_elements(before[1 : k + 1], after[1 : gives + 1]):
            return gives
    return None


# -- rules of single operators -------------------------------------------------------------------


def _permute(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step for a permutation, which is free if it equals the channels-last order."""
    source, k = node.inputs[0], given[0]
    kept = channels_last_order(len(source.shape), k)
    stored = in_order(source.shape, kept)
    to_plain = [kept.index(a) for a in permutation(node)]
    last = in_order(to_plain, channels_last_order(len(to_plain), max(k, 1)))

    def moved(order: Order) -> Callable[[Sequence[Expr]], Expr]:
        if moves(stored, order):
            return lambda xs: R.permute_dims(xs[0], list(order))
        shape = in_order(stored, order)
        return lambda xs: reshape_call(xs[0], shape)

    def step(gives: int, order: Order) -> Step:
        same = list(order) == sorted(order)
        return Step((k,), gives, None if same else moved(order), moved(to_plain))

    if len(to_plain) < 3:
        return None
    if k == PLAIN:
        return None if moves(stored, last) else step(1, last)
    if not moves(stored, to_plain):
        return step(PLAIN, to_plain)
    axes = permutation(node)
    channels = range(1, k + 1)
    if axes[0] == 0 and set(axes[1 : k + 1]) == set(channels):
        return step(k, last)
    if axes[0] == 0 and axes[1] in channels:  # channels become space, as in pixel shuffle
        return step(1, in_order(to_plain, channels_last_order(len(to_plain), 1)))
    return step(PLAIN, to_plain)


def _moved_axis(node: Node, k: int) -> object:
    """Return the attributes with their axis mapped to channels-last order."""
    order = channels_last_order(len(node.shape), k)
    return with_fields(node.expr.attrs, axis=order.index(node.attrs["axis"] % len(order)))


def _along_axis(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step for concatenation, flip or repetition along one axis.

    Returns None if no operand is channels last.
    """
    k = _image(node, given)
    if k == PLAIN or node.attrs["axis"] is None:
        return None
    attrs = _moved_axis(node, k)
    return Step((k,) * len(node.inputs), k, lambda xs: with_operands(node, xs, attrs))


def _take(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    """Return a step for a take by a vector of indices along an axis of a channels-last operand.

    Returns None for other takes.
    """
    if given[0] == PLAIN or node.attrs["axis"] is None or len(node.inputs[1].shape) != 1:
        return None
    attrs = _moved_axis(node, given[0])
    return Step((given[0], PLAIN), given[0], lambda xs: with_operands(node, xs, attrs))


def _slice(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    call, k = node.expr, given[0]
    if len(node.inputs) != 1:
        return None
    order = channels_last_order(len(node.shape), k)
    axes = [order.index(int(a.value) % len(order)) for a in call.args[1].fields]
    moved = relax.Tuple([tirx.IntImm("int64", a) for a in axes])

    def sliced(xs: Sequence[Expr]) -> Expr:
        return tvm.ir.Call(call.op, [xs[0], moved, *call.args[2:]], call.attrs, call.ty_args)

    return Step((k,), k, sliced)


def _pad(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    k, widths = given[0], node.attrs["pad_width"]
    order = channels_last_order(len(node.shape), k)
    moved = [int(w) for a in order for w in widths[2 * a : 2 * a + 2]]
    attrs = with_fields(node.expr.attrs, pad_width=moved)
    return Step((k,), k, lambda xs: with_operands(node, xs, attrs))


def _broadcast(node: Node, given: Sequence[int], solver: Solver) -> Step | None:
    k = _image(node, given)
    if k == PLAIN:
        return None
    shape = relax.ShapeExpr(in_order(node.shape, channels_last_order(len(node.shape), k)))
    return Step((k,), k, lambda xs: R.broadcast_to(xs[0], shape))


BY_CLASS: Mapping[OpClass, Rule] = {
    OpClass.ELEMWISE: _elementwise,
    OpClass.REDUCE: _reduction,
    OpClass.VIEW: _view,
    OpClass.CONV: _window,
}

BY_OPERATOR: Mapping[str, Rule] = {
    "relax.permute_dims": _permute,
    "relax.concat": _along_axis,
    "relax.flip": _along_axis,
    "relax.repeat": _along_axis,
    "relax.take": _take,
    "relax.strided_slice": _slice,
    "relax.nn.pad": _pad,
    "relax.broadcast_to": _broadcast,
}

FILLED = frozenset(("relax.full", "relax.zeros", "relax.ones"))
"""Operators that fill a tensor with one value, which is free in any layout."""

SOURCES = frozenset((_window, _permute))
"""Rules that may produce channels-last images from operands in the model's layout."""

__all__ = [
    "FILLED",
    "PLAIN",
    "Step",
    "channels_last_order",
    "in_order",
    "is_image_convolution",
    "moves",
    "step_of",
]
