"""Converters of gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.operators.reducers import combiners
from tvm_disc.frontends.stablehlo.table import OperationRow

_MODES = {"update": "update", "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


@dataclass(frozen=True)
class Picks:
    """The dimension numbers of a gather or scatter: how indices select slices of an operand.

    Attributes:
        window: axes of the result, or of the updates, that are axes of a slice.
        collapsed: axes of the operand that are removed from slices.
        mapped: the operand's axis of each component of an index.
        depth_axis: the axis of the indices along which the components of an index are stored.
        batch: batch axes of the operand.
        along: the batch axes of the indices, in the order of ``batch``.
    """

    window: tuple[int, ...]
    collapsed: tuple[int, ...]
    mapped: tuple[int, ...]
    depth_axis: int
    batch: tuple[int, ...]
    along: tuple[int, ...]


def _coordinates(n: StableHLONode, picks: Picks, indices: Expr) -> list[Expr]:
    """Return the components of the indices, each as an int64 tensor of the batch shape."""
    indices = n.cast(indices, "int64")
    if picks.depth_axis == n.rank(indices):
        return [indices]
    return [n.pick(indices, picks.depth_axis, k) for k in range(len(picks.mapped))]


def _clipped(n: StableHLONode, start: Expr, x: Expr, axis: int, size: Dim) -> Expr:
    """Return the starts of slices of an axis, limited so that the slices are in bounds."""
    last = n.scalar(n.dim("subtract", n.size(x, axis), size))
    return n.maximum(n.minimum(start, last), n.like(0, start))


def _spread(n: StableHLONode, x: Expr, places: Sequence[int], rank: int) -> Expr:
    """Return ``x`` reshaped to ``rank``: axis i becomes axis ``places[i]``, others are 1."""
    own = dict(zip(places, n.sizes(x), strict=True))
    return n.reshape(x, [own.get(k, 1) for k in range(rank)])


@dataclass(frozen=True)
class Positions:
    """The index in the operand of every element of the result, or of the updates.

    Attributes:
        starts: for each axis of the operand, the start of the slice; None means 0.
        offsets: for each axis of the operand, the offset in the slice; None means 0.
    """

    starts: list[Expr | None]
    offsets: list[Expr | None]

    def of(self, axis: int) -> Expr | None:
        """Return the index along an axis; None means 0."""
        a, b = self.starts[axis], self.offsets[axis]
        if a is None or b is None:
            return a if b is None else b
        return op("add", a, b)


def _positions(
    n: StableHLONode,
    x: Expr,
    indices: Expr,
    picks: Picks,
    rank: int,
    sizes: Sequence[Dim],
    clip: bool,
) -> Positions:
    """Return the positions in ``x`` of the elements of a result, or of updates, of rank ``rank``.

    ``sizes`` are those of the slices; ``clip`` limits each start so that the slice is in bounds.
    """
    batch_axes = [k for k in range(rank) if k not in picks.window]
    starts: list[Expr | None] = [None] * n.rank(x)
    for axis, start in zip(picks.mapped, _coordinates(n, picks, indices), strict=True):
        if clip:
            start = _clipped(n, start, x, axis, sizes[axis])
        starts[axis] = _spread(n, start, batch_axes, rank)
    kept = [k for k in range(n.rank(indices)) if k != picks.depth_axis]
    for axis, along in zip(picks.batch, picks.along, strict=True):
        place = batch_axes[kept.index(along)]
        starts[axis] = n.along(n.arange(n.size(indices, along)), place, rank)
    offsets: list[Expr | None] = [None] * n.rank(x)
    gone = {*picks.collapsed, *picks.batch}
    own = [a for a in range(n.rank(x)) if a not in gone]
    for axis, place in zip(own, picks.window, strict=True):
        if not (isinstance(sizes[axis], int) and sizes[axis] == 1):
            offsets[axis] = n.along(n.arange(sizes[axis]), place, rank)
    return Positions(starts, offsets)


# -- gather ----------------------------------------------------------------------------------------


def _gathered(n: StableHLONode, sizes: Sequence[Dim]) -> Expr:
    from jaxlib.mlir.dialects import stablehlo

    d = stablehlo.GatherDimensionNumbers(n.op.attributes["dimension_numbers"])
    picks = Picks(
        tuple(d.offset_dims),
        tuple(d.collapsed_slice_dims),
        tuple(d.start_index_map),
        d.index_vector_dim,
        tuple(d.operand_batching_dims),
        tuple(d.start_indices_batching_dims),
    )
    x, indices = n[0], n[1]
    cut = {a for a, s in enumerate(sizes) if not n.equal_dims(s, n.size(x, a))}
    sizes = [s if a in cut else n.size(x, a) for a, s in enumerate(sizes)]
    if len(picks.mapped) == 1 and not picks.batch and cut <= set(picks.mapped):
        return _taken(n, x, indices, picks, sizes)
    return _any_gather(n, x, indices, picks, sizes)


def _taken(n: StableHLONode, x: Expr, indices: Expr, picks: Picks, sizes: Sequence[Dim]) -> Expr:
    """Return the result of a gather that selects along one axis, as a take along this axis."""
    [axis] = picks.mapped
    [start] = _coordinates(n, picks, indices)
    count, batch = sizes[axis], n.rank(start)
    start = _clipped(n, start, x, axis, count)
    if axis not in picks.collapsed:
        start = n.expand(start, batch)
        if not (isinstance(count, int) and count == 1):
            start = start + n.arange(count)
    made = n.take(x, start, axis)
    # `made` has the axes before `axis`, the batch axes, the slice's axis, and those after `axis`.
    rank = n.rank(made)
    own = iter([*range(axis), *range(axis + batch, rank)])
    others = iter(range(axis, axis + batch))
    return n.transpose(made, [next(own if k in picks.window else others) for k in range(rank)])


def _any_gather(
    n: StableHLONode, x: Expr, indices: Expr, picks: Picks, sizes: Sequence[Dim]
) -> Expr:
    """Return the result of any gather, by the position of each element in the operand."""
    rank = len(n.out_dims())
    found = _positions(n, x, indices, picks, rank, sizes, clip=True)
    places = [p for p in (found.of(a) for a in range(n.rank(x))) if p is not None]
    kept = [a for a in range(n.rank(x)) if found.of(a) is not None]
    for a in reversed([a for a in range(n.rank(x)) if found.of(a) is None]):
        x = n.pick(x, a, 0)
    dims = _result_dims(n, indices, picks, sizes, rank)
    if not kept:
        return n.broadcast(x, dims) if dims else x
    if rank == 0:
        at = n.stack(places, 0)
        return op("gather_nd", x, at)
    wide = [n.broadcast(p, dims) for p in places]
    return op("gather_nd", x, n.stack(wide, 0))


def _result_dims(
    n: StableHLONode, indices: Expr, picks: Picks, sizes: Sequence[Dim], rank: int
) -> list[Dim]:
    gone = {*picks.collapsed, *picks.batch}
    own = iter([s for a, s in enumerate(sizes) if a not in gone])
    batch = iter([n.size(indices, k) for k in range(n.rank(indices)) if k != picks.depth_axis])
    return [next(own) if k in picks.window else next(batch) for k in range(rank)]


# -- scatter ---------------------------------------------------------------------------------------


def _scatter(n: StableHLONode) -> list[Expr]:
    """Convert a scatter; updates whose window is not inside the operand are dropped.

    The operand is flattened and extended by one element, to which dropped updates are written.
    """
    from jaxlib.mlir.dialects import stablehlo

    d = stablehlo.ScatterDimensionNumbers(n.op.attributes["scatter_dimension_numbers"])
    picks = Picks(
        tuple(d.update_window_dims),
        tuple(d.inserted_window_dims),
        tuple(d.scattered_dims_to_operand_dims),
        d.index_vector_dim,
        tuple(d.input_batching_dims),
        tuple(d.scatter_indices_batching_dims),
    )
    modes = [_MODES.get(name or "") for name in combiners(n.block())]
    if None in modes:
        raise Unsupported(
            "expected updates combined by add, multiply, minimum or maximum, or that replace the "
            "elements, found another function"
        )
    count = len(modes)
    operands, updates = n.inputs[:count], n.inputs[count + 1 :]
    return [
        _combined(n, x, n[count], u, picks, mode or "")
        for x, u, mode in zip(operands, updates, modes, strict=True)
    ]


def _combined(
    n: StableHLONode, x: Expr, indices: Expr, updates: Expr, picks: Picks, mode: str
) -> Expr:
    if n.dtype(x) == "bool":
        mode = {"add": "max", "mul": "min"}.get(mode, mode)
        made = _scattered(n, n.cast(x, "int8"), indices, n.cast(updates, "int8"), picks, mode)
        return n.not_equal(made, n.like(0, made))
    return _scattered(n, x, indices, updates, picks, mode)


def _window_sizes(n: StableHLONode, x: Expr, updates: Expr, picks: Picks) -> list[Dim]:
    gone = {*picks.collapsed, *picks.batch}
    own = iter([n.size(updates, k) for k in picks.window])
    return [1 if a in gone else next(own) for a in range(n.rank(x))]


def _scattered(
    n: StableHLONode, x: Expr, indices: Expr, updates: Expr, picks: Picks, mode: str
) -> Expr:
    sizes = _window_sizes(n, x, updates, picks)
    dims = n.sizes(x)
    whole = [a for a in range(n.rank(x)) if n.equal_dims(sizes[a], dims[a])]
    indexed = [*picks.mapped, *picks.batch]
    rows = [a for a in range(n.rank(x)) if a not in indexed]
    if len(indexed) == 1 and all(a in whole for a in rows) and indexed[0] in picks.collapsed:
        return _scattered_rows(n, x, indices, updates, picks, mode)
    rank = n.rank(updates)
    found = _positions(n, x, indices, picks, rank, sizes, clip=False)
    inside: Expr | None = None
    for a in indexed:
        start = found.starts[a]
        assert start is not None
        last = n.scalar(n.dim("subtract", dims[a], sizes[a]))
        fits = (start >= 0) & op("less_equal", start, last)
        inside = fits if inside is None else inside & fits
    flat = _flat_index(n, [found.of(a) for a in range(n.rank(x))], dims)
    total = n.total(x)
    if inside is not None:
        flat = n.where(inside, flat, n.scalar(total))
    flat = n.broadcast(flat, n.sizes(updates)) if n.sizes(updates) else flat
    line = n.concat([n.flat(x) if n.rank(x) else n.reshape(x, [1]), n.full(0, [1], n.dtype(x))], 0)
    at, values = n.reshape(flat, [1, -1]), n.reshape(updates, [-1])
    made = op("scatter_nd", line, at, values, mode=mode)
    return n.reshape(n.slice(made, 0, 0, total), dims)


def _flat_index(n: StableHLONode, places: Sequence[Expr | None], dims: Sequence[Dim]) -> Expr:
    """Return the row-major index of a position; None in ``places`` means 0."""
    found: Expr | None = None
    stride: Dim = 1
    for place, size in zip(reversed(places), reversed(dims), strict=True):
        if place is not None:
            term = place if isinstance(stride, int) and stride == 1 else place * n.scalar(stride)
            found = term if found is None else found + term
        stride = n.dim("multiply", stride, size)
    return n.scalar(0) if found is None else found


def _scattered_rows(
    n: StableHLONode, x: Expr, indices: Expr, updates: Expr, picks: Picks, mode: str
) -> Expr:
    """Return a scatter of whole slices along one axis.

    The operand is extended by one slice, to which dropped updates are written.
    """
    [axis] = picks.mapped
    [at] = _coordinates(n, picks, indices)
    size = n.size(x, axis)
    inside = (at >= 0) & op("less", at, n.scalar(size))
    at = n.where(inside, at, n.scalar(size))
    others = [k for k in range(n.rank(updates)) if k not in picks.window]
    updates = n.transpose(updates, [*others, *picks.window])
    moved = n.move(x, axis, 0)
    row = n.full(0, [1, *n.sizes(moved)[1:]], n.dtype(x))
    line = n.concat([moved, row], 0)
    made = op("scatter_nd", line, n.expand(at, 0), updates, mode=mode)
    return n.move(n.slice(made, 0, 0, size), 0, axis)


ROWS: tuple[OperationRow, ...] = (
    OperationRow("gather", lambda n: _gathered(n, n.ints("slice_sizes"))),
    OperationRow("dynamic_gather", lambda n: _gathered(n, n.entries(2, "the sizes of slices"))),
    OperationRow("scatter", _scatter),
)
