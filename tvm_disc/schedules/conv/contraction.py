"""Contractions and windows as reductions: the terms that each output element sums up.

Every operator of class REDUCE, DOT and CONV is described by one :class:`Contraction`. The fallback
template runs any of them; specialized templates recognize those that they compute faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one, static_dim
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.loops.reducers import REDUCERS, Reducer, accumulator, finish
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.scalars import is_float
from tvm_disc.tir.builder import const, i64, same_lanes
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Expr

Index: TypeAlias = Sequence[Expr]


@dataclass(frozen=True)
class Contraction:
    """``out[index] = finish(reduce over extents of element(index, k))``.

    Attributes:
        extents: the reduced dims, outermost first.
        dtype: the accumulator's dtype.
        element: returns the value to reduce at an output index and a reduction index.
    """

    extents: tuple[Any, ...]
    dtype: str
    reducer: Reducer
    element: Callable[[Lowering, Index, Index], Expr]
    finish: Callable[[Lowering, Index, Expr], Expr]


def contraction(node: Node) -> Contraction:
    """Return the contraction that ``node`` computes; raises Unsupported for other operators."""
    if node.cls is OpClass.REDUCE:
        return _reduction(node)
    if node.cls is OpClass.DOT:
        return _matmul(node)
    if node.op in _WINDOWS:
        return _WINDOWS[node.op](node)
    raise Unsupported(f"{node.op} is not a reduction")


def _reduction(node: Node) -> Contraction:
    source, axes = node.inputs[0], reduced_axes(node)
    keep = bool(node.attrs["keepdims"])
    dtype = accumulator(source.dtype)

    def element(low: Lowering, index: Index, k: Index) -> Expr:
        inner = iter(k)
        outer = iter(i for a, i in enumerate(index) if not (keep and a in axes))
        at = [next(inner) if a in axes else next(outer) for a in range(len(source.shape))]
        return cast(low.at(source, at), dtype)

    return Contraction(
        tuple(source.shape[a] for a in axes),
        dtype,
        REDUCERS[node.op],
        element,
        lambda low, index, value: finish(node, value),
    )


def matmul_dims(node: Node) -> tuple[tuple[Expr, ...], Expr, Expr, Expr]:
    """Return (batch dims, m, n, k) of a matmul; a missing m or n of a 1-d operand is 1."""
    a, b = node.inputs
    m = a.shape[-2] if len(a.shape) > 1 else i64(1)
    n = b.shape[-1] if len(b.shape) > 1 else i64(1)
    kept = (len(a.shape) > 1) + (len(b.shape) > 1)
    batch = node.shape[: len(node.shape) - kept]
    return tuple(batch), m, n, a.shape[-1]


def operand_index(operand: Node, batch: Index, last: tuple[Expr, Expr]) -> list[Expr]:
    """Return the index into a matmul operand: broadcast batch dims, then the two matrix dims."""
    lead = len(operand.shape) - 2
    used = list(batch)[len(batch) - lead :] if lead > 0 else []
    head = [
        i64(0) if is_one(d) else i for d, i in zip(operand.shape[: max(lead, 0)], used, strict=True)
    ]
    return [*head, *last]


def _matmul(node: Node) -> Contraction:
    a, b = node.inputs
    batch, _, _, k_dim = matmul_dims(node)
    dtype = accumulator(node.dtype)

    def element(low: Lowering, index: Index, k: Index) -> Expr:
        rest = list(index)[len(batch) :]
        i = rest[0] if len(a.shape) > 1 else None
        j = rest[-1] if len(b.shape) > 1 else None
        lead = list(index)[: len(batch)]
        at_a = operand_index(a, lead, (i, k[0])) if i is not None else [k[0]]
        at_b = operand_index(b, lead, (k[0], j)) if j is not None else [k[0]]
        x, y = same_lanes(cast(low.at(a, at_a), dtype), cast(low.at(b, at_b), dtype))
        return x * y

    return Contraction(
        (k_dim,), dtype, REDUCERS["relax.sum"], element, lambda low, ix, v: cast(v, node.dtype)
    )


def channels_last(node: Node) -> bool:
    """Return whether a convolution or pooling operator has a channels-last layout."""
    layout = node.attrs.get("data_layout") or node.attrs["layout"]
    if layout not in _LAYOUTS:
        raise Unsupported(f"{node.op}: data layout {layout} is not supported")
    return _LAYOUTS[layout]


def layout_refusal(node: Node, last: bool) -> str | None:
    """Return why a template that requires channels ``last``, or before the image, is not used."""
    names = {True: "last, as in NHWC", False: "before the image, as in NCHW"}
    if channels_last(node) is last:
        return None
    return f"it requires channels {names[last]}; in this kernel, they are {names[not last]}"


_LAYOUTS = {
    **dict.fromkeys(("NCW", "NCHW", "NCDHW"), False),
    **dict.fromkeys(("NWC", "NHWC", "NDHWC"), True),
}


def spatial(node: Node, index: Sequence[Expr]) -> list[Any]:
    """Return the spatial part of an index or shape."""
    return list(index[1:-1] if channels_last(node) else index[2:])


def channel(node: Node, index: Sequence[Expr]) -> Expr:
    """Return the channel of an index, or the number of channels of a shape."""
    return index[-1] if channels_last(node) else index[1]


def place(node: Node, image: object, channel: object, where: Sequence[object]) -> list[Any]:
    """Return the index of a channel of an image at a position."""
    return [image, *where, channel] if channels_last(node) else [image, channel, *where]


@dataclass(frozen=True)
class WindowGeometry:
    """The strides, padding and dilation of a convolution or pooling operator."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def source(
        self, shape: Sequence[Any], at: Sequence[Expr], k: Sequence[Expr]
    ) -> tuple[list[Expr], Expr | None]:
        """Return the input position of tap ``k`` of output ``at``, and the condition that the
        position is inside the input; None if there is no padding, so that it always is.
        """
        rank = len(at)
        inside: Expr | None = None
        result: list[Expr] = []
        for d in range(rank):
            position = add(mul(at[d], self.strides[d]), mul(k[d], self.dilation[d]))
            tests = []
            if self.padding[d]:
                position = position - self.padding[d]
                tests.append(position >= 0)
            if self.padding[d + rank]:
                tests.append(position < i64(shape[d]))
            for test in tests:
                inside = test if inside is None else tirx.And(inside, test)
            result.append(position)
        return result, inside


def columns_read(
    windows: int, taps: int, stride: int, gap: int
) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return the input columns that adjacent windows of ``taps`` taps read, in ascending order.

    Each column has the (window, tap) pairs that read it.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for t in range(windows):
        for k in range(taps):
            found.setdefault(t * stride + k * gap, []).append((t, k))
    return sorted(found.items())


def geometry(node: Node, rank: int) -> WindowGeometry:
    """Return strides, padding (before..., after...) and dilation, expanded to ``rank`` dims."""

    def fill(value: Any) -> tuple[int, ...]:
        items = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
        return items * rank if len(items) == 1 else items

    padding = fill(node.attrs["padding"])
    padding = padding * 2 if len(padding) == rank else padding
    return WindowGeometry(fill(node.attrs["strides"]), padding, fill(node.attrs["dilation"]))


def _conv(node: Node) -> Contraction:
    data, weight = node.inputs
    rank = len(data.shape) - 2
    geo, groups = geometry(node, rank), node.attrs["groups"]
    dtype = accumulator(node.dtype)
    per_group = tirx.floordiv(i64(weight.shape[0]), i64(groups))
    zero = const(0, data.dtype)

    def element(low: Lowering, index: Index, k: Index) -> Expr:
        n, oc, at = index[0], channel(node, index), spatial(node, index)
        where, inside = geo.source(spatial(node, data.shape), at, k[1:])
        ic = k[0]
        if groups != 1:
            group = oc if static_dim(per_group) == 1 else tirx.floordiv(oc, per_group)
            ic = add(mul(group, weight.shape[1]), k[0])
        w = cast(low.at(weight, [oc, *k]), dtype)
        source = place(node, n, ic, where)
        x, w = same_lanes(cast(read_inside(low, data, source, inside, zero), dtype), w)
        return x * w

    extents = tuple(weight.shape[1:])
    return Contraction(
        extents, dtype, REDUCERS["relax.sum"], element, lambda low, ix, v: cast(v, node.dtype)
    )


def read_inside(
    low: Lowering, data: Node, at: list[Expr], inside: Expr | None, otherwise: Expr
) -> Expr:
    """Return the element of ``data`` if ``inside`` holds (None: always), else ``otherwise``."""
    if inside is None:
        return low.at(data, at)
    return tirx.if_then_else(inside, low.guarded_at(data, at, inside), otherwise)


def _max_pool(node: Node) -> Contraction:
    data = node.inputs[0]
    rank = len(data.shape) - 2
    geo = geometry(node, rank)
    reducer = REDUCERS["relax.max"]

    def element(low: Lowering, index: Index, k: Index) -> Expr:
        where, inside = _clipped(node, geo, data, index, k)
        at = place(node, index[0], channel(node, index), where)
        return read_inside(low, data, at, inside, reducer.identity(data.dtype))

    return Contraction(
        _window(node, rank), data.dtype, reducer, element, lambda low, index, value: value
    )


def _window(node: Node, rank: int) -> tuple[Any, ...]:
    size = node.attrs["pool_size"]
    size = (size,) * rank if isinstance(size, int) else size
    return tuple(i64(s) for s in size)


def _clipped(
    node: Node, geo: WindowGeometry, data: Node, index: Index, k: Index
) -> tuple[list[Expr], Expr | None]:
    """Return the input position of tap ``k``, and the condition that it is inside the input, or
    None if it always is.

    Unlike ``geo.source``, this supports ``ceil_mode``: the last window may then extend beyond the
    input even without padding.
    """
    extents = spatial(node, data.shape)
    where, inside = geo.source(extents, spatial(node, index), k)
    if node.attrs.get("ceil_mode"):
        for at, extent in zip(where, extents, strict=True):
            test = at < i64(extent)
            inside = test if inside is None else tirx.And(inside, test)
    return where, inside


def _avg_pool(node: Node) -> Contraction:
    data = node.inputs[0]
    rank = len(data.shape) - 2
    geo, window = geometry(node, rank), _window(node, rank)
    dtype, zero = accumulator(data.dtype), const(0, data.dtype)

    def element(low: Lowering, index: Index, k: Index) -> Expr:
        where, inside = _clipped(node, geo, data, index, k)
        at = place(node, index[0], channel(node, index), where)
        return cast(read_inside(low, data, at, inside, zero), dtype)

    def done(low: Lowering, index: Index, value: Expr) -> Expr:
        if node.attrs.get("count_include_pad"):
            count = product(window)
        else:
            at, extents = spatial(node, index), spatial(node, data.shape)
            count = product([_taps(geo, extents[d], at[d], window[d], d) for d in range(rank)])
        value, count = same_lanes(value, tirx.Cast(dtype, count))
        mean = value / count if is_float(dtype) else tirx.truncdiv(value, count)
        return cast(mean, node.dtype)

    return Contraction(window, dtype, REDUCERS["relax.sum"], element, done)


def _taps(geo: WindowGeometry, extent: Expr, at: Expr, window: Expr, d: int) -> Expr:
    """Return the number of taps of the window inside the input along dim ``d``, at least 1."""
    step = i64(geo.dilation[d])
    first = at * geo.strides[d] - geo.padding[d]
    skipped = tirx.floordiv(tirx.max(i64(0) - first, i64(0)) + step - 1, step)
    reach = tirx.min(i64(extent) - 1 - first, (window - 1) * step)
    return tirx.max(tirx.floordiv(reach, step) - skipped + 1, i64(1))


_WINDOWS: Mapping[str, Callable[[Node], Contraction]] = {
    "relax.nn.conv1d": _conv,
    "relax.nn.conv2d": _conv,
    "relax.nn.conv3d": _conv,
    "relax.nn.max_pool1d": _max_pool,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.max_pool3d": _max_pool,
    "relax.nn.avg_pool1d": _avg_pool,
    "relax.nn.avg_pool2d": _avg_pool,
    "relax.nn.avg_pool3d": _avg_pool,
}
