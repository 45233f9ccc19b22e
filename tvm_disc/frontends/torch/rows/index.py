"""Converters of operators that read elements by index, sort, or search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import MOST, joined_dims
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Dim, Value
from tvm_disc.relay.expr import Tuple, TupleGetItem


class Picked:
    """An operand with indices for some of its axes; the *moved operand* has these axes first.

    A bool mask is converted to the indices of its true elements. Other indices are checked to be in
    bounds if ``checked``; negative ones count from the end of the axis if ``negative``.

    Attributes:
        order: the operand's axes in the moved operand: indexed axes, then the others.
        dims: the dims of the moved operand.
        places: the int64 indices along each indexed axis.
        grid: the shape to which the indices broadcast.
        rest: the dims of the axes that are not indexed.
        before: the position of the axes of ``grid`` in the result.
        only: the indexed axis, or None if there are several.
    """

    def __init__(
        self,
        m: Maker,
        x: Value,
        indices: Sequence[Value | None],
        negative: bool = True,
        checked: bool = True,
    ) -> None:
        self.m, self.x = m, x
        known, masks = _expanded(m, indices)
        axes = [k for k, index in enumerate(known) if index is not None]
        self.order = [*axes, *(k for k in range(x.rank) if k not in axes)]
        self.dims = [x.dims[k] for k in self.order]
        self.places = []
        for k in axes:
            place = _some(known[k])
            if not checked:
                place = m.wrapped(place, x.dims[k])
            elif k not in masks:
                place = m.inside(place, x.dims[k], negative)
            self.places.append(m.cast(place, "int64"))
        self.grid = joined_dims([p.dims for p in self.places])
        self.rest = self.dims[len(axes) :]
        together = axes == list(range(axes[0], axes[-1] + 1))
        # In PyTorch, the axes of the indices replace the indexed axes if these are adjacent, and
        # else are the first axes of the result.
        self.before = axes[0] if together else 0
        self.only = axes[0] if len(axes) == 1 else None

    def moved(self) -> Value:
        """Return the moved operand."""
        return self.m.transpose(self.x, self.order)

    def _lead(self) -> list[int]:
        """Return for each axis of PyTorch's result the axis of ``[*grid, *rest]``."""
        count, rest = len(self.grid), len(self.rest)
        lead = [count + k for k in range(self.before)]
        return [*lead, *range(count), *range(count + self.before, count + rest)]

    def read(self) -> Value:
        """Return the elements at the indices, with the axes in PyTorch's order."""
        m = self.m
        if self.only is not None:
            return m.take(self.x, self.places[0], self.only)
        operands = Tuple(tuple(t.expr for t in (self.moved(), *self.places)))
        made = m.call("adv_index", operands)
        found = Value(made, self.x.dtype, (*self.grid, *self.rest))
        return m.transpose(found, self._lead()) if self.before else found

    def coordinates(self) -> Value:
        """Return the indices stacked to ``[indexed axes, *grid]``."""
        lines = [self.m.broadcast(p, self.grid) for p in self.places]
        return self.m.stack(lines, 0)

    def updates(self, values: Value) -> Value:
        """Return ``values``, which broadcast to PyTorch's result, as ``[*grid, *rest]``."""
        m, lead = self.m, self._lead()
        shape = [*self.grid, *self.rest]
        target = [shape[k] for k in lead]
        missing = len(target) - values.rank
        if missing < 0:
            values = m.reshape(values, values.dims[-missing:])
        elif missing:
            values = m.expand(values, 0, missing)
        back = [lead.index(k) for k in range(len(lead))]
        return m.broadcast(m.transpose(values, back), shape)

    def back(self, x: Value) -> Value:
        """Return ``x``, a moved operand, with the axes in the operand's order."""
        return self.m.transpose(x, [self.order.index(k) for k in range(len(self.order))])

    def written(self, values: Value, mode: str) -> Value:
        """Return the operand with the elements at the indices combined with ``values``."""
        made = self.m.call(
            "scatter_nd", self.moved(), self.coordinates(), self.updates(values), mode=mode
        )
        return self.back(Value(made, self.x.dtype, tuple(self.dims)))


def _some(index: Value | None) -> Value:
    assert index is not None
    return index


def _expanded(
    m: Maker, indices: Sequence[Value | None]
) -> tuple[list[Value | None], frozenset[int]]:
    """Return the index of each axis or None, and the axes whose indices are from masks."""
    found: list[Value | None] = []
    masks: set[int] = set()
    for index in indices:
        if index is None or index.dtype not in ("bool", "uint8"):
            found.append(index)
            continue
        places, rank = nonzero(m, index), index.rank
        masks.update(range(len(found), len(found) + rank))
        found += [m.pick(places, 1, k) for k in range(rank)]
    return found, frozenset(masks)


def nonzero(m: Maker, x: Value) -> Value:
    """Return the indices of the nonzero elements, ``[count, rank]``."""
    x = m.cast(x, "bool")
    if x.rank == 0:
        line = m.call("argwhere", m.reshape(x, [1]))
        return m.slice(Value(line, "int32", (None, 1)), 1, 0, 0)
    return m.cast(Value(m.call("argwhere", x), "int32", (None, x.rank)), "int64")


def _masked_select(m: Maker, x: Value, mask: Value) -> Value:
    dims = joined_dims([x.dims, mask.dims])
    wide = [m.flat(m.broadcast(t, dims)) for t in (x, mask)]
    return Picked(m, wide[0], wide[1:]).read()


def _single_mask(x: Value, indices: Sequence[Value | None]) -> Value | None:
    """Return the mask if it is the only index, else None."""
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype in ("bool", "uint8"):
        return indices[0]
    return None


def _index_put(
    m: Maker, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    mask = _single_mask(x, indices)
    values = m.cast(values, x.dtype)
    if mask is not None and m.product(values.dims) == 1 and not accumulate:
        wide = m.expand(m.cast(mask, "bool"), mask.rank, x.rank - mask.rank)
        return m.where(wide, m.reshape(values, ()), x)
    return Picked(m, x, indices).written(values, "add" if accumulate else "update")


def _written_along(
    m: Maker, x: Value, dim: int, index: Value, values: Value, mode: str, negative: bool = False
) -> Value:
    """Return ``x`` with its slices at the indices of an axis replaced, or added to, by ``mode``."""
    if x.rank == 0:
        return m.reshape(_written_along(m, m.line(x), 0, index, values, mode, negative), ())
    axis = dim % x.rank
    picked = Picked(m, x, [*[None] * axis, m.line(index)], negative)
    if values.rank == x.rank - 1:  # one slice
        values = m.expand(values, axis)
    return picked.written(m.cast(values, x.dtype), mode)


def _index_add(
    m: Maker, x: Value, dim: int, index: Value, source: Value, *, alpha: float = 1
) -> Value:
    source = m.cast(source, x.dtype)
    return _written_along(m, x, dim, index, source if alpha == 1 else source * alpha, "add")


def _index_fill(m: Maker, x: Value, dim: int, index: Value, value: Value | float) -> Value:
    values = m.tensor(value, x.dtype)
    return _written_along(m, x, dim, index, m.reshape(values, ()), "update", negative=True)


def _index_select(m: Maker, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return m.reshape(x, m.out_dims)
    return m.take(x, m.inside(m.line(index), x.dims[dim % x.rank]), dim)


def _take(m: Maker, x: Value, index: Value) -> Value:
    line = m.flat(x)
    return m.take(line, m.inside(index, line.dims[0], negative=True), 0)


def _gather(m: Maker, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if x.rank == 0 or index.rank == 0:
        source = m.line(x)
        places = m.inside(m.line(index), source.dims[0])
        return m.reshape(m.gather(source, places, 0), m.out_dims)
    return m.gather(x, m.inside(index, x.dims[dim % x.rank]), dim)


def _sort(
    m: Maker, x: Value, dim: int = -1, descending: bool = False, *, stable: object = None
) -> tuple[Value, Value]:
    """Return the sorted elements and their indices; every sort is stable."""
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    places = m.order(x, dim, not descending)
    return m.gather(x, places, dim), places


def _topk(
    m: Maker, x: Value, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    dims = m.out_dims
    if isinstance(k, int) and k == 0:
        return m.full(0, dims, x.dtype), m.full(0, dims, "int64")
    key = m.cast(x, "uint8") if x.dtype == "bool" else x
    axis = dim % x.rank
    if not isinstance(k, int):  # k may be 0, but Relay's topk returns all elements for k = 0
        places = m.slice(m.order(key, axis, not largest), axis, 0, k)
        return m.gather(x, places, axis), places
    key = m.nonempty(key, [axis], k)
    attrs = {"axis": axis, "ret_type": "both", "is_ascend": not largest, "dtype": "int64"}
    both = m.call("topk", key, k=k, **attrs)
    values = m.cast(m.field(both, 0, key.dtype, dims), x.dtype)
    return values, m.field(both, 1, "int64", dims)


def _searchsorted(
    m: Maker,
    row: Value,
    values: Value | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    dtype = m.common(row, values)
    if sorter is not None:
        row = m.gather(row, sorter, -1)
    values = m.tensor(values, dtype)
    scalar = values.rank == 0
    values = m.line(values)
    made = m.call(
        "searchsorted",
        m.cast(row, dtype),
        values,
        right=bool(right) or side == "right",
        dtype=m.out_dtype,
    )
    found = Value(made, m.out_dtype, values.dims)
    return m.reshape(found, ()) if scalar else found


def _repeated_places(m: Maker, counts: Value, *, output_size: Dim = None) -> Value:
    """Return each index i repeated ``counts[i]`` times, by a search in the cumulative counts."""
    counts = m.cast(counts, "int64")
    ends = m.call("cumsum", counts, axis=0, dtype="int64", exclusive=False)
    total = m.reduce("sum", counts, [0]) if output_size is None else m.tensor(output_size, "int64")
    places = m.counting(total)
    found = m.call("searchsorted", ends, places, right=True, dtype="int64")
    return m.cast(Value(found, "int64", m.out_dims), m.out_dtype)


def _unique(
    m: Maker,
    x: Value,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Value, ...]:
    """Return the unique values, the index of each element's value, and the number of each value.

    The second and third result are empty if they are not requested.
    """
    none = m.full(0, [0], "int64")
    line = m.flat(x)
    key = m.cast(line, "uint8") if x.dtype == "bool" else line
    found = m.call("unique", key, sorted=True, return_counts=True)
    values = m.cast(m.field(found, 0, key.dtype, (None,)), x.dtype)
    inverse = m.cast(m.field(found, 2, "int32", line.dims), "int64")
    counts = Value(TupleGetItem(found, 4), "int32", (None,))
    return (
        values,
        m.reshape(inverse, x.dims) if return_inverse else none,
        m.cast(counts, "int64") if return_counts else none,
    )


def _unique_consecutive(
    m: Maker,
    x: Value,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> tuple[Value, ...]:
    """Return the first element of each run of equal elements; see :func:`_unique`.

    A NaN differs from every element.
    """
    if dim is not None and x.rank != 1:
        raise Unsupported("unique_consecutive along an axis is not supported")
    none = m.full(0, [0], "int64")
    line = m.flat(x)
    places = m.arange(line.dims[0])
    previous = m.take(line, m.maximum(places - 1, 0), 0)
    begins = m.equal(places, 0) | m.not_equal(line, previous)
    starts = m.pick(nonzero(m, begins), 1, 0)
    run = m.call_like("cumsum", m.cast(begins, "int64"), axis=0, dtype="int64", exclusive=False) - 1
    ends = m.concat([m.slice(starts, 0, 1, MOST), m.reshape(m.scalar(line.dims[0]), [1])], 0)
    # If there are no elements, the end has no start.
    lengths = m.slice(ends, 0, 0, line.dims[0]) - starts if return_counts else none
    return (
        m.take(line, starts, 0),
        m.reshape(run, x.dims) if return_inverse else none,
        lengths,
    )


def _unique_dim(m: Maker, *args: object, **kwargs: object) -> Value:
    raise Unsupported("unique along an axis is not supported; only unique of all elements is")


def _isin(
    m: Maker,
    elements: Value | float,
    tests: Value | float,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """Return whether each element occurs in ``tests``. A NaN differs from every element.

    PyTorch's decomposition reads element 0 of sorted tests of which there may be none.
    """
    dtype = m.common(elements, tests)
    x, line = m.tensor(elements, dtype), m.flat(m.tensor(tests, dtype))
    count = line.dims[0]
    if isinstance(count, int) and count <= MOST_COMPARED:
        found = m.reduce("any", m.equal(m.expand(x, x.rank), line), [x.rank])
    else:
        ordered, flat = _sort(m, line)[0], m.flat(x)
        place = Value(
            m.call("searchsorted", ordered, flat, right=False, dtype="int64"), "int64", flat.dims
        )
        # A greater element than all tests is compared with the appended one.
        longer = m.concat([ordered, m.full(0, [1], dtype)], 0)
        hit = m.equal(m.take(longer, place, 0), flat) & (place < m.tensor(count, "int64"))
        found = m.reshape(hit, x.dims)
    return ~found if invert else found


MOST_COMPARED = 16  # maximum number of values with which `isin` compares every element
_SCALARS = ("Tensor", "Scalar")

ROWS: Mapping[str, Row] = {
    "index.Tensor": lambda m, x, indices: Picked(m, x, indices).read(),
    # PyTorch's decompositions only create indices in bounds.
    "_unsafe_index.Tensor": lambda m, x, indices: Picked(m, x, indices, checked=False).read(),
    "index_put.default": _index_put,
    "_unsafe_index_put.default": _index_put,
    "index_add.default": _index_add,
    "index_copy.default": partial(_written_along, mode="update"),
    "index_fill.int_Scalar": _index_fill,
    "index_fill.int_Tensor": _index_fill,
    "index_select.default": _index_select,
    "embedding.default": lambda m, x, index, *_, **__: m.take(x, m.inside(index, x.dims[0]), 0),
    "take.default": _take,
    "gather.default": _gather,
    "masked_select.default": _masked_select,
    "nonzero.default": nonzero,
    "sort.default": _sort,
    "sort.stable": _sort,
    **{f"argsort.{o}": lambda *args, **kw: _sort(*args, **kw)[1] for o in ("default", "stable")},
    "topk.default": _topk,
    "repeat_interleave.Tensor": _repeated_places,
    **{f"searchsorted.{o}": _searchsorted for o in _SCALARS},
    **{f"bucketize.{o}": lambda m, x, row, **kw: _searchsorted(m, row, x, **kw) for o in _SCALARS},
    **{f"isin.{o}": _isin for o in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")},
    "_unique2.default": _unique,
    "unique_consecutive.default": _unique_consecutive,
    "unique_dim.default": _unique_dim,
}
