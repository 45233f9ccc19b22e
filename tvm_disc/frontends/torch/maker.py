"""What a row may do: make Relay calls on tensors of known type.

Types follow from PyTorch's own: every node says its element type and dims, so a row only tracks
what lies between its operands and its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.symbols import MOST, Symbols
from tvm_disc.frontends.torch.values import (
    Dim,
    Value,
    dim_of,
    dims_of,
    is_one,
    joined_dims,
    meta_like,
    relay_dtype,
)
from tvm_disc.relay import Constant, Expr, Span, Tuple, TupleGetItem
from tvm_disc.relay.builder import call


class Maker:
    """Makes the Relay calls of one graph.

    Attributes:
        node: the node of PyTorch's graph that a row is asked for.
        span: where it comes from, for messages.
        graphs: the graph's inner graphs by name, for control flow.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.node: Any = None
        self.span: Span | None = None
        self.graphs: Any = None
        self.translate: Any = None  # of an inner graph, set by the walk

    # -- the node ------------------------------------------------------------------------------

    @property
    def out(self) -> Any:
        """What PyTorch knows of the node's result."""
        return self.node.meta["val"]

    @property
    def out_dtype(self) -> str:
        """The element type of the node's result, or of the first one."""
        found = self.out[0] if isinstance(self.out, tuple | list) else self.out
        return relay_dtype(found.dtype)

    @property
    def out_dims(self) -> tuple[Dim, ...]:
        """The dims of the node's result, or of the first one."""
        return dims_of(self.out[0] if isinstance(self.out, tuple | list) else self.out)

    def used(self, index: int) -> bool:
        """Whether anything reads a result of a node with several."""
        import operator

        users = self.node.users
        return any(u.target is not operator.getitem or u.args[1] == index for u in users)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, name: str, *operands: Any, **attrs: Any) -> Expr:
        """A Relay call."""
        made = call(name, [o.expr if isinstance(o, Value) else o for o in operands], **attrs)
        made.span = self.span
        return made

    def apply(self, name: str, *operands: Value, dtype: str = "", **attrs: Any) -> Value:
        """An element-wise operator on operands that are broadcast against each other."""
        dims = joined_dims([o.dims for o in operands])
        return Value(self.call(name, *operands, **attrs), dtype or operands[-1].dtype, dims)

    def compare(self, name: str, a: Value, b: Any) -> Value:
        """A comparison with a tensor or a number."""
        return self.apply(name, a, self.like(b, a), dtype="bool")

    def calc(self, name: str, a: Value, b: Any) -> Value:
        """Arithmetic with a tensor or a number."""
        return self.apply(name, a, self.like(b, a))

    def where(self, cond: Value, a: Any, b: Any, dtype: str = "") -> Value:
        """``a`` where ``cond`` holds, ``b`` elsewhere; either may be a number."""
        kind = dtype or next(x.dtype for x in (a, b) if isinstance(x, Value))
        return self.apply("where", cond, self.tensor(a, kind), self.tensor(b, kind))

    # -- values --------------------------------------------------------------------------------

    def const(self, value: Any, dtype: str) -> Value:
        """A literal."""
        array = np.asarray(value)
        if dtype == "bfloat16":
            import ml_dtypes

            array = array.astype(ml_dtypes.bfloat16)
        else:
            with np.errstate(all="ignore"):
                array = array.astype(dtype)
        return Value(Constant(array), dtype, tuple(array.shape))

    def tensor(self, value: Any, dtype: str | None = None) -> Value:
        """A tensor, a number or a symbolic number as a tensor of ``dtype``."""
        if isinstance(value, Value):
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, bool | int | float):
            default = {bool: "bool", int: "int64"}.get(type(value), "float32")
            return self.const(value, dtype or default)
        if isinstance(value, complex):
            raise Unsupported("complex numbers")
        made = self.symbols.value(value)
        return made if dtype is None else self.cast(made, dtype)

    def like(self, value: Any, other: Value) -> Value:
        """A tensor, or a number of the element type of another tensor."""
        return value if isinstance(value, Value) else self.tensor(value, other.dtype)

    def cast(self, x: Value, dtype: str) -> Value:
        """``x`` as another element type, as PyTorch converts."""
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.compare("not_equal", x, 0)
        if isinstance(x.expr, Constant) and "bfloat16" not in (dtype, x.dtype):
            with np.errstate(all="ignore"):
                return Value(Constant(x.expr.data.astype(dtype)), dtype, x.dims)
        return Value(self.call("cast", x, dtype=dtype), dtype, x.dims)

    def field(self, expr: Expr, index: int, dtype: str, dims: Sequence[Dim]) -> Value:
        """One of several results."""
        return Value(TupleGetItem(expr, index), dtype, tuple(dims))

    def tensor_dtype(self, value: Any) -> str:
        """The element type of a number, or of a symbolic one, as a tensor."""
        kinds = {"SymInt": "int64", "SymBool": "bool", "SymFloat": "float64"}
        return kinds.get(type(value).__name__) or self.tensor(value).dtype

    def common(self, *values: Any, kind: str = "DEFAULT") -> str:
        """The element type that PyTorch computes in, after its rules of type promotion."""
        return self._promoted(values, kind)[0]

    def promoted(self, *values: Any, kind: str = "DEFAULT") -> str:
        """The element type of a result, after PyTorch's rules of type promotion."""
        return self._promoted(values, kind)[1]

    def _promoted(self, values: Sequence[Any], kind: str) -> tuple[str, str]:
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        args = [self._stand_in(v) for v in values]
        rule = getattr(ELEMENTWISE_TYPE_PROMOTION_KIND, kind)
        computed, result = elementwise_dtypes(*args, type_promotion_kind=rule)
        return relay_dtype(computed), relay_dtype(result)

    def _stand_in(self, value: Any) -> Any:
        if isinstance(value, Value):
            return meta_like(value.dtype, value.rank == 0)
        if isinstance(value, bool | int | float):
            return value
        return 1 if self.symbols.value(value).dtype == "int64" else 1.0

    # -- shapes --------------------------------------------------------------------------------

    def reshape(self, x: Value, dims: Sequence[Dim]) -> Value:
        """``x`` under another shape."""
        dims = tuple(dims)
        if dims == x.dims:
            return x
        if all(isinstance(d, int) for d in dims):
            made = self.call("reshape", x, newshape=dims, allowzero=True)
        else:
            made = self.call(
                "dyn.reshape", x, self.symbols.vector(dims), newshape=(), allowzero=True
            )
        return Value(made, x.dtype, dims)

    def pinned(self, x: Value, dims: Sequence[Dim]) -> Value:
        """``x``, of which each dim must be as said: for results of loops, whose dims are unknown.

        It is said axis by axis, of which more follows than of the number of elements.
        """
        dims = tuple(dims)
        like = self.full(dims, 0, x.dtype)
        return Value(self.call("collapse_sum_like", x, like), x.dtype, dims)

    def flat(self, x: Value) -> Value:
        """``x`` as one line."""
        return x if x.rank == 1 else self.reshape(x, [product(x.dims)])

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """``x`` with its axes in another order."""
        order = [int(a) % max(1, x.rank) for a in order]
        if order == list(range(x.rank)):
            return x
        made = self.call("transpose", x, axes=tuple(order))
        return Value(made, x.dtype, tuple(x.dims[a] for a in order))

    def swap(self, x: Value, a: int, b: int) -> Value:
        """``x`` with two axes exchanged."""
        order = list(range(x.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(x, order)

    def move(self, x: Value, axis: int, to: int) -> Value:
        """``x`` with one axis at another place."""
        order = [a for a in range(x.rank) if a != axis % x.rank]
        order.insert(to % x.rank, axis % x.rank)
        return self.permute(x, order)

    def unsqueeze(self, x: Value, axis: int, count: int = 1) -> Value:
        """``x`` with new axes of one before ``axis``."""
        axis = axis % (x.rank + 1)
        made = self.call("expand_dims", x, axis=axis, num_newaxis=count)
        return Value(made, x.dtype, (*x.dims[:axis], *[1] * count, *x.dims[axis:]))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without axes of one."""
        axes = sorted({a % x.rank for a in axes}) if x.rank else []
        if not axes:
            return x
        made = self.call("squeeze", x, axis=tuple(axes))
        return Value(made, x.dtype, tuple(d for a, d in enumerate(x.dims) if a not in axes))

    def along(self, x: Value, axis: int, rank: int) -> Value:
        """A line laid along one axis of a tensor of ``rank``."""
        after = rank - 1 - axis % rank
        return self.unsqueeze(x, x.rank, after) if after else x

    def broadcast(self, x: Value, dims: Sequence[Dim]) -> Value:
        """``x`` stretched to ``dims``."""
        dims = tuple(dims)
        if dims == x.dims:
            return x
        if all(isinstance(d, int) for d in dims):
            return Value(self.call("broadcast_to", x, shape=dims), x.dtype, dims)
        made = self.call("dyn.broadcast_to", x, self.symbols.vector(dims), shape=None)
        return Value(made, x.dtype, dims)

    def slice(self, x: Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> Value:
        """``x[begin:end:step]`` along an axis, as Python slices."""
        axis = axis % x.rank
        dim = sliced_dim(x.dims[axis], begin, end, step)
        dims = (*x.dims[:axis], dim, *x.dims[axis + 1 :])
        if isinstance(begin, int) and isinstance(end, int):
            where = {"begin": (begin,), "end": (min(end, MOST),), "strides": (step,)}
            return Value(self.call("strided_slice", x, axes=(axis,), **where), x.dtype, dims)
        bounds = [self.symbols.vector([b]) for b in (begin, end, step)]
        made = self.call(
            "dyn.strided_slice", x, *bounds, begin=None, end=None, strides=None, axes=(axis,)
        )
        return Value(made, x.dtype, dims)

    def pick(self, x: Value, axis: int, index: int) -> Value:
        """One position along an axis, which goes."""
        end = MOST if index == -1 else index + 1
        row = self.slice(x, axis, index, end)
        axis = axis % x.rank
        one = Value(row.expr, row.dtype, (*x.dims[:axis], 1, *x.dims[axis + 1 :]))
        return self.squeeze(one, [axis])

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        axis = axis % parts[0].rank
        dims = list(parts[0].dims)
        sizes = [p.dims[axis] for p in parts]
        dims[axis] = None if None in sizes else sum(sizes[1:], sizes[0])
        made = self.call("concatenate", Tuple(tuple(p.expr for p in parts)), axis=axis)
        return Value(made, parts[0].dtype, tuple(dims))

    def stack(self, parts: Sequence[Value], axis: int) -> Value:
        """Parts along a new axis."""
        return self.concat([self.unsqueeze(p, axis) for p in parts], axis)

    # -- picking and making --------------------------------------------------------------------

    def take(self, x: Value, places: Value, axis: int, mode: str = "clip") -> Value:
        """``x`` along an axis at given positions."""
        axis = axis % x.rank
        dims = (*x.dims[:axis], *places.dims, *x.dims[axis + 1 :])
        return Value(self.call("take", x, places, axis=axis, mode=mode), x.dtype, dims)

    def wrapped(self, places: Value, size: Dim) -> Value:
        """Positions, of which negative ones count from the end of an axis of ``size``."""
        if isinstance(places.expr, Constant):
            known = places.expr.data
            if (known >= 0).all():
                return places
            if isinstance(size, int):
                return self.const(np.where(known < 0, known + size, known), places.dtype)
        if places.dtype.startswith("uint"):
            return places
        from_end = self.calc("add", places, self.tensor(size, places.dtype))
        return self.where(self.compare("less", places, 0), from_end, places)

    def iota(self, size: Dim, dtype: str = "int64") -> Value:
        """0, 1, ... below a size."""
        ends = [self.tensor(v, "int64") for v in (0, size, 1)]
        made = self.call("arange", *ends, start=None, stop=None, step=None, dtype="int64")
        return self.cast(Value(made, "int64", (size,)), dtype)

    def full(self, dims: Sequence[Dim], value: Any, dtype: str) -> Value:
        """A tensor of one value."""
        fill = self.tensor(value, dtype)
        dims = tuple(dims)
        if fill.rank:
            fill = self.reshape(fill, ())
        if not dims:
            return fill
        if all(isinstance(d, int) for d in dims):
            return Value(self.call("full", fill, shape=dims, dtype=dtype), dtype, dims)
        made = self.call("dyn.full", fill, self.symbols.vector(dims), shape=None, dtype=dtype)
        return Value(made, dtype, dims)

    def reduce(self, name: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """A reduction over some axes, over none it is the operand."""
        axes = sorted({a % x.rank for a in axes}) if x.rank else []
        if not axes:
            return x
        dims = [1 if a in axes else d for a, d in enumerate(x.dims) if keep or a not in axes]
        made = self.call(name, x, axis=tuple(axes), keepdims=keep)
        return Value(made, x.dtype, tuple(dims))

    def reduce_position(self, name: str, x: Value, axis: int, keep: bool) -> Value:
        """``argmax`` or ``argmin`` along one axis, as int64."""
        axis = axis % x.rank
        dims = [1 if a == axis else d for a, d in enumerate(x.dims) if keep or a != axis]
        made = self.call(name, x, axis=(axis,), keepdims=keep)
        return self.cast(Value(made, "int32", tuple(dims)), "int64")

    def order(self, x: Value, axis: int, ascending: bool) -> Value:
        """The positions that sort an axis, equal elements in their old order."""
        if x.dtype == "bool":
            x = self.cast(x, "uint8")
        made = self.call("argsort", x, axis=axis % x.rank, is_ascend=ascending, dtype="int64")
        return Value(made, "int64", x.dims)

    def gather(self, x: Value, places: Value, axis: int) -> Value:
        """One element of ``x`` for each position, which counts along ``axis``."""
        made = self.call("gather", x, places, axis=axis % x.rank)
        return Value(made, x.dtype, places.dims)

    def number(self, value: Dim, dtype: str) -> Value:
        """A dim as a tensor of rank 0."""
        return self.tensor(value, dtype)


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = 1
    for d in dims:
        total = total * d
    return total


def sliced_dim(size: Dim, begin: Dim, end: Dim, step: int) -> Dim:
    """How many positions a slice has, if that can be said plainly."""
    if all(isinstance(v, int) for v in (size, begin, end)):
        return len(range(*slice(begin, end, step).indices(size)))
    if step == 1 and isinstance(begin, int) and begin >= 0 and not isinstance(end, int):
        return end - begin
    return size if isinstance(begin, int) and begin == 0 and end == MOST and step == 1 else None


def fields_of(out: Any) -> list[tuple[str, tuple[Dim, ...]]]:
    """Element type and dims of every result of a node with several."""
    return [(relay_dtype(t.dtype), dims_of(t)) for t in out if t is not None]


Kwargs = Mapping[str, Any]

__all__ = ["Maker", "dim_of", "fields_of", "is_one", "product", "sliced_dim"]
