"""Expression builder that the operator converters of all front ends use.

It builds Relay calls with their source location, constants from numbers, and dims that are numbers
or expressions. Each front end defines its tensor type: PyTorch's tensors store their types, those
of ONNX, StableHLO and GGUF are plain Relay expressions, whose types are inferred.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeAlias, TypeVar

import ml_dtypes
import numpy as np

from tvm_disc.errors import DiscError, TypeMismatch, Unsupported
from tvm_disc.frontends.fold import folded, may_be_weights
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.builder import call
from tvm_disc.relay.ops.algebra import Algebra, Number
from tvm_disc.support.literals import aligned

Expr: TypeAlias = ast.Expr
T = TypeVar("T", bound=Algebra)  # a tensor of the front end
D = TypeVar("D")  # the front end's type of a dim, which includes int

MOST = (1 << 63) - 1  # greater than any dim

_PLACE: ContextVar[ast.Span | None] = ContextVar("place", default=None)


@contextmanager
def placed(source: str) -> Iterator[None]:
    """Set the source location, which messages show, of all calls created in this context."""
    token = _PLACE.set(ast.Span.at(source))
    try:
        yield
    finally:
        _PLACE.reset(token)


@contextmanager
def converting(where: str, prefix: str, marks: Sequence[str]) -> Iterator[None]:
    """Convert one operator in this context; errors inside are raised with the operator's location.

    Args:
        where: the operator and its location in the model.
        prefix: text of an error message before ``where``.
        marks: an error whose message begins with one of these strings is raised unchanged,
            because an inner conversion has already added a location.

    Raises:
        DiscError: the conversion failed.
    """
    with placed(where):
        try:
            yield
        except DiscError as error:
            if str(error).startswith(tuple(marks)):
                raise
            text = f"{prefix}{where}: " + str(error).replace(f" at {where}", "").removeprefix(": ")
            try:
                made = type(error)(text)
            except TypeError:
                made = Unsupported(text)
            raise made from error
        except RecursionError:
            raise
        except Exception as error:  # a malformed model may raise any exception
            what = f"{type(error).__name__}: {str(error)[:400]}"
            raise Unsupported(f"{prefix}{where}: cannot convert the operator: {what}") from error


def op(name: str, *args: Any, **attrs: Any) -> Expr:
    """Return a call of a Relay operator, or its value if all operands are small constants."""
    known = folded(name, args, attrs)
    if known is not None:
        return ast.Constant(known)
    made = call(name, args, **attrs)
    made.span = _PLACE.get()
    return made


def const(value: object, dtype: str | None = None) -> ast.Constant:
    """Return a constant; numbers keep their type unless one is given."""
    if dtype is None:
        return ast.Constant(np.asarray(value))
    with np.errstate(all="ignore"):
        return ast.Constant(np.asarray(value).astype(_kind(dtype), copy=False))


def _kind(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype


def refusal(cond: Expr) -> Expr:
    """Return a tensor whose size is -1 if ``cond`` is false: a program refuses such a call."""
    size = op("where", cond, const(0, "int64"), const(-1, "int64"))
    line = op("reshape", size, newshape=(1,))
    return op("dyn.full", const(False), line, shape=None, dtype="bool")


def is_float(dtype: str) -> bool:
    """Return whether a dtype is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def least_of(dtype: str) -> Number:
    """Return the least number of a dtype, the neutral element of ``max``."""
    return -np.inf if is_float(dtype) else False if dtype == "bool" else int(np.iinfo(dtype).min)


def greatest_of(dtype: str) -> Number:
    """Return the greatest number of a dtype, the neutral element of ``min``."""
    return np.inf if is_float(dtype) else True if dtype == "bool" else int(np.iinfo(dtype).max)


# -- dims of results; None for a dim that has no simple formula
# --------------------------------------


def is_one(dim: object) -> bool:
    """Return whether a dim is known to be 1."""
    return isinstance(dim, int) and dim == 1


def joined_dim(a: object, b: object) -> object:
    """Return the dim to which two dims broadcast; type inference checks that they can."""
    if is_one(a):
        return b
    return a if isinstance(a, int) or is_one(b) or not isinstance(b, int) else b


def joined_dims(shapes: Sequence[Sequence[object]]) -> tuple[Any, ...]:
    """Return the shape to which operands of these shapes are broadcast."""
    rank = max((len(s) for s in shapes), default=0)
    dims: list[Any] = [1] * rank
    for shape in shapes:
        for k, d in enumerate(shape):
            at = rank - len(shape) + k
            dims[at] = joined_dim(dims[at], d)
    return tuple(dims)


def summed(dims: Sequence[Any]) -> object:
    """Return the sum of dims, or None if one is unknown."""
    return None if None in dims else sum(dims[1:], dims[0])


def sliced_dim(size: Any, begin: Any, end: Any, step: int) -> object:
    """Return the length of a slice, or None if it has no simple formula."""
    if all(isinstance(v, int) for v in (size, begin, end)):
        return len(range(*slice(begin, end, step).indices(size)))
    if step == 1 and isinstance(begin, int) and begin >= 0 and not isinstance(end, int):
        return end - begin
    return size if isinstance(begin, int) and begin == 0 and end == MOST and step == 1 else None


def _all_literal(dims: Sequence[object]) -> bool:
    return all(isinstance(d, int) for d in dims)


# -- calls -----------------------------------------------------------------------------------------


def _binary(name: str, dtype: str = "") -> Callable[[Calls[T, D], T | Number, T | Number], T]:
    def method(self: Calls[T, D], a: T | Number, b: T | Number) -> T:
        return self.apply(name, a, b, dtype=dtype)

    return method


def _unary(name: str, dtype: str = "") -> Callable[[Calls[T, D], T], T]:
    def method(self: Calls[T, D], x: T) -> T:
        return self.apply(name, x, dtype=dtype)

    return method


class UnknownRows(Unsupported):
    """Raised if the dims of the rows that a loop collects are unknown before the loop."""


class Calls(ABC, Generic[T, D]):
    """Builds the Relay calls of a front end."""

    # -- interface of the front end --------------------------------------------------------------

    @abstractmethod
    def expr(self, x: T) -> Expr:
        """Return the expression of a tensor."""

    @abstractmethod
    def made(
        self, expr: Expr, dims: Callable[[], Sequence[D]], like: T | None = None, dtype: str = ""
    ) -> T:
        """Return an expression as a tensor of the front end, with given dims.

        Its element type is ``dtype``, or that of ``like`` if ``dtype`` is empty.
        """

    @abstractmethod
    def dtype(self, x: T) -> str:
        """Return the element type."""

    @abstractmethod
    def sizes(self, x: T) -> list[D]:
        """Return the sizes of all axes."""

    @abstractmethod
    def rank(self, x: T) -> int:
        """Return the number of dims."""

    @abstractmethod
    def dim(self, name: str, a: D, b: D) -> D:
        """Return the result of the Relay operator ``name`` for two dims."""

    @abstractmethod
    def scalar(self, d: D, dtype: str = "int64") -> T:
        """Return a dim as a tensor of rank 0."""

    @abstractmethod
    def vector(self, dims: Sequence[D]) -> Expr:
        """Return dims as an int64 vector."""

    @abstractmethod
    def like(self, value: Any, x: T) -> T:
        """Return a number as a tensor of the element type of ``x``."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Return whether an operand is a tensor and not a number."""

    # -- bodies of branches and loops ----------------------------------------------------------

    @abstractmethod
    def variable(self, name: str, like: T, ty: rt.TensorType | None = None) -> T:
        """Return a variable for use in a body: it has the type and the known properties of the
        outer tensor ``like``, or only the type ``ty`` if that is given.
        """

    @abstractmethod
    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of a conditional or loop body; its facts are not valid outside."""

    @abstractmethod
    def literals(self, x: T) -> list[int | None]:
        """Return the dims as integers, with None for each dim that is not a literal."""

    @abstractmethod
    def formulas(self, x: T) -> Sequence[object]:
        """Return the dims as formulas over symbols; :meth:`same` compares two of them."""

    @abstractmethod
    def same(self, a: object, b: object) -> bool:
        """Return whether two dims are proved equal."""

    @abstractmethod
    def outside(self, formula: object) -> D:
        """Return the dim of a tensor in a body, as an expression of values outside the body.

        Raises:
            UnknownRows: values outside the body do not determine the dim.
        """

    # -- axes ----------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int, of: str = "") -> int:
        """Return an axis as a nonnegative number; ``of`` is the tensor's name for the message.

        Raises:
            TypeMismatch: the axis is out of range.
        """
        if not -rank <= axis < rank:
            raise TypeMismatch(f"axis {axis} is out of range for {of and of + ' of '}rank {rank}")
        return axis % rank

    # -- numbers and arithmetic ----------------------------------------------------------------

    def call(self, name: str, *operands: Any, **attrs: Any) -> Expr:
        """Return a call of a Relay operator on tensors or expressions."""
        return op(name, *(self.expr(o) if self.is_tensor(o) else o for o in operands), **attrs)

    def apply(self, name: str, *operands: T | Number, dtype: str = "", **attrs: object) -> T:
        """Return an element-wise call on operands that are broadcast; see :class:`Builder`."""
        tensors = self._tensors(operands)
        return self.made(
            self.call(name, *tensors, **attrs),
            lambda: joined_dims([self.sizes(x) for x in tensors]),
            tensors[-1],
            dtype,
        )

    def _tensors(self, operands: Sequence[Any]) -> list[T]:
        """Return operands as tensors; numbers get the element type of the last tensor."""
        tensors: list[T] = [x for x in operands if self.is_tensor(x)]
        return [x if self.is_tensor(x) else self.like(x, tensors[-1]) for x in operands]

    def literal(self, value: object, dtype: str) -> T:
        """Return a constant."""
        found = const(value, dtype)
        return self.made(found, lambda: found.data.shape, dtype=dtype)

    maximum = _binary("maximum")
    minimum = _binary("minimum")
    equal = _binary("equal", "bool")
    not_equal = _binary("not_equal", "bool")
    exp = _unary("exp")
    log = _unary("log")
    sqrt = _unary("sqrt")
    rsqrt = _unary("rsqrt")
    tanh = _unary("tanh")
    sigmoid = _unary("sigmoid")
    erf = _unary("erf")
    erfc = _unary("erfc")
    expm1 = _unary("expm1")
    log1p = _unary("log1p")
    round_even = _unary("round_even")
    abs = _unary("abs")
    floor = _unary("floor")
    ceil = _unary("ceil")
    isnan = _unary("isnan", "bool")
    isinf = _unary("isinf", "bool")

    def where(self, cond: T, a: T | Number, b: T | Number) -> T:
        """Return ``a`` where the condition holds, else ``b``."""
        return self.apply("where", cond, a, b)

    def cast(self, x: T, dtype: str) -> T:
        """Return ``x`` cast to ``dtype``.

        A constant is cast immediately, unless it may be a quantized weight: kernels read these in
        their narrow type.
        """
        if self.dtype(x) == dtype:
            return x
        expr = self.expr(x)
        known = expr.data if isinstance(expr, ast.Constant) else None
        if known is not None and may_be_weights(known):
            known = None
        made = op("cast", expr, dtype=dtype) if known is None else const(known, dtype)
        return self.made(made, lambda: self.sizes(x), dtype=dtype)

    def reduce(self, name: str, x: T, axes: Sequence[int], keep: bool = False) -> T:
        """Return a reduction over ``axes``, or ``x`` itself if there are none."""
        named = self._axes(x, axes)
        if not named:
            return x
        made = self.call(name, x, axis=tuple(named), keepdims=keep)
        return self.made(made, lambda: self._without(x, named, keep), x)

    def _axes(self, x: T, axes: Sequence[int]) -> list[int]:
        """Return the axes as sorted nonnegative numbers without duplicates."""
        rank = self.rank(x) if axes else 0
        return sorted({self.axis(a, rank) for a in axes}) if rank else []

    def _without(self, x: T, axes: Sequence[int], keep: bool = False) -> list[Any]:
        """Return the dims except those of ``axes``; if ``keep``, these are 1 and not removed."""
        dims = self.sizes(x)
        return [1 if a in axes else d for a, d in enumerate(dims) if keep or a not in axes]

    def clip(self, x: T, low: Number, high: Number) -> T:
        """Return ``x`` clipped to limits."""
        return self.minimum(self.maximum(x, low), high)

    # -- dims ----------------------------------------------------------------------------------

    def size(self, x: T, axis: int) -> D:
        """Return the size of one axis."""
        return self.sizes(x)[axis]

    def total(self, x: T) -> D:
        """Return the number of elements."""
        return self.product(self.sizes(x))

    def product(self, dims: Sequence[D]) -> D:
        """Return the product of dims."""
        total: Any = 1
        for d in dims:
            total = self.dim("multiply", total, d)
        return total  # type: ignore[no-any-return]

    # -- shapes --------------------------------------------------------------------------------

    def reshape(self, x: T, dims: Sequence[D]) -> T:
        """Return ``x`` reshaped; a dim of -1 is inferred."""
        expr = self.expr(x)
        if not _all_literal(dims):
            made = op("dyn.reshape", expr, self.vector(dims), newshape=(), allowzero=True)
        elif isinstance(expr, ast.Constant):
            made = ast.Constant(expr.data.reshape(dims))
        else:
            made = op("reshape", expr, newshape=tuple(dims), allowzero=True)
        return self.made(made, lambda: dims, x)

    def flat(self, x: T) -> T:
        """Return ``x`` flattened."""
        return x if self.rank(x) == 1 else self.reshape(x, [self.total(x)])

    def broadcast(self, x: T, dims: Sequence[D]) -> T:
        """Return ``x`` broadcast to a shape."""
        if _all_literal(dims):
            made = self.call("broadcast_to", x, shape=tuple(dims))
        else:
            made = self.call("dyn.broadcast_to", x, self.vector(dims), shape=None)
        return self.made(made, lambda: dims, x)

    def full(self, value: T | Number, dims: Sequence[D], dtype: str) -> T:
        """Return a tensor filled with one value."""
        number: Any = value
        fill = self.cast(number, dtype) if self.is_tensor(value) else self.scalar(number, dtype)
        fill = self.reshape(fill, []) if self.rank(fill) else fill
        if not dims:
            return fill
        if _all_literal(dims):
            made = self.call("full", fill, shape=tuple(dims), dtype=dtype)
        else:
            made = self.call("dyn.full", fill, self.vector(dims), shape=None, dtype=dtype)
        return self.made(made, lambda: dims, dtype=dtype)

    def arange(self, stop: D, dtype: str = "int64") -> T:
        """Return 0, 1, ..., stop - 1."""
        ends = const(0, "int64"), self.expr(self.scalar(stop)), const(1, "int64")
        made = op("arange", *ends, dtype="int64")
        return self.cast(self.made(made, lambda: [stop], dtype="int64"), dtype)

    def transpose(self, x: T, order: Sequence[int]) -> T:
        """Return ``x`` with its axes permuted.

        Raises:
            TypeMismatch: an axis of the order is out of range or occurs twice.
        """
        rank, given = len(order), list(order)
        order = [a % rank for a in given if -rank <= a < rank]
        if len(set(order)) < rank:
            raise TypeMismatch(f"expected every axis once, found the order {given}")
        if order == list(range(len(order))):
            return x
        expr = self.expr(x)
        if isinstance(expr, ast.Constant) and expr.data.ndim == len(order):
            data = aligned(expr.data.transpose(order))
            return self.made(ast.Constant(data), lambda: data.shape, x)
        made = self.call("transpose", x, axes=tuple(order))
        return self.made(made, lambda: [self.sizes(x)[a] for a in order], x)

    def swap(self, x: T, a: int, b: int) -> T:
        """Return ``x`` with two axes exchanged."""
        order = list(range(self.rank(x)))
        order[a], order[b] = order[b], order[a]
        return self.transpose(x, order)

    def swapped(self, x: T) -> T:
        """Return ``x`` with the last two axes exchanged."""
        return self.swap(x, -2, -1)

    def move(self, x: T, axis: int, to: int) -> T:
        """Return ``x`` with one axis moved to a different position."""
        rank = self.rank(x)
        order = [a for a in range(rank) if a != axis % rank]
        order.insert(to % rank, axis % rank)
        return self.transpose(x, order)

    def expand(self, x: T, axis: int, count: int = 1) -> T:
        """Return ``x`` with new axes of length 1 before ``axis``."""
        axis, expr = self.axis(axis, self.rank(x) + 1), self.expr(x)
        if isinstance(expr, ast.Constant):
            shape = expr.data.shape
            data = expr.data.reshape((*shape[:axis], *(1,) * count, *shape[axis:]))
            return self.made(ast.Constant(data), lambda: data.shape, x)
        made = op("expand_dims", expr, axis=axis, num_newaxis=count)
        return self.made(made, lambda: self._wider(x, axis, [1] * count), x)

    def _wider(self, x: T, axis: int, new: Sequence[object], replaced: int = 0) -> list[Any]:
        """Return the dims of ``x`` with ``new`` in place of ``replaced`` dims at ``axis``."""
        dims = self.sizes(x)
        return [*dims[:axis], *new, *dims[axis + replaced :]]

    def squeeze(self, x: T, axes: Sequence[int]) -> T:
        """Return ``x`` without ``axes``, which have length 1."""
        named = self._axes(x, axes)
        if not named:
            return x
        made = self.call("squeeze", x, axis=tuple(named))
        return self.made(made, lambda: self._without(x, named), x)

    def slice(self, x: T, axis: int, begin: D, end: D | None, step: int = 1) -> T:
        """Return a slice along one axis by Python's rules; an end of None means no limit."""
        axis = self.axis(axis, self.rank(x))
        last: Any = end if end is not None else MOST if step > 0 else -MOST
        if isinstance(begin, int) and isinstance(last, int):
            where = {"begin": (begin,), "end": (min(last, MOST),), "strides": (step,)}
            made = self.call("strided_slice", x, axes=(axis,), **where)
        else:
            ends: list[Any] = [begin, last, step]
            bounds = [self.vector([d]) for d in ends]
            made = self.call(
                "dyn.strided_slice", x, *bounds, begin=None, end=None, strides=None, axes=(axis,)
            )

        def dims() -> list[Any]:
            return self._wider(x, axis, [sliced_dim(self.size(x, axis), begin, last, step)], 1)

        return self.made(made, dims, x)

    def take(self, x: T, picks: T, axis: int) -> T:
        """Return the elements of ``x`` at the indices ``picks`` of an axis, all in bounds."""
        axis = self.axis(axis, self.rank(x))
        made = self.call("take", x, picks, axis=axis)
        return self.made(made, lambda: self._wider(x, axis, self.sizes(picks), 1), x)

    def pick(self, x: T, axis: int, index: int) -> T:
        """Return the slice of ``x`` at one index of an axis, without this axis."""
        end: Any = None if index == -1 else index + 1
        begin: Any = index
        return self.squeeze(self.slice(x, axis, begin, end), [axis])

    def concat(self, items: Sequence[T], axis: int) -> T:
        """Return tensors concatenated along an axis."""
        if len(items) == 1:
            return items[0]
        first = items[0]
        made = op("concatenate", ast.Tuple(tuple(self.expr(x) for x in items)), axis=axis)

        def dims() -> list[Any]:
            total = summed([self.size(x, axis) for x in items])
            return self._wider(first, axis % self.rank(first), [total], 1)

        return self.made(made, dims, first)

    def stack(self, items: Sequence[T], axis: int) -> T:
        """Return tensors stacked along a new axis."""
        first = items[0]
        made = op("stack", ast.Tuple(tuple(self.expr(x) for x in items)), axis=axis)
        place = axis % (self.rank(first) + 1)
        return self.made(made, lambda: self._wider(first, place, [len(items)]), first)

    def split(self, x: T, sizes: Sequence[D], axis: int) -> list[T]:
        """Return consecutive slices of ``x`` along an axis, of the given lengths."""
        if len(sizes) == 1:
            return [x]
        found: list[T] = []
        place: Any = 0
        for size in sizes:
            end = self.dim("add", place, size)
            found.append(self.slice(x, axis, place, end))
            place = end
        return found

    def pad(
        self, x: T, widths: Sequence[tuple[D, D]], fill: T | Number, mode: str = "constant"
    ) -> T:
        """Return ``x`` padded by ``widths``: for each axis (before, after), both nonnegative."""
        flat = [w for pair in widths for w in pair]
        if all(isinstance(w, int) and w == 0 for w in flat):
            return x
        value = fill if self.is_tensor(fill) else self.like(fill, x)
        if _all_literal(flat):
            pairs = tuple(tuple(p) for p in widths)
            made = self.call("nn.pad", x, value, pad_width=pairs, pad_mode=mode)
        else:
            wide = self.vector(flat)
            made = self.call("dyn.nn.pad", x, wide, value, pad_width=(), pad_mode=mode)

        def dims() -> list[Any]:
            return [summed([d, *w]) for d, w in zip(self.sizes(x), widths, strict=True)]

        return self.made(made, dims, x)

    def along(self, vector: T, axis: int, rank: int) -> T:
        """Return a vector reshaped to broadcast along one axis of a tensor of given rank."""
        after = rank - 1 - axis % rank
        return self.expand(vector, 1, after) if after else vector


__all__ = [
    "MOST",
    "Calls",
    "Expr",
    "Number",
    "const",
    "converting",
    "greatest_of",
    "is_float",
    "is_one",
    "joined_dim",
    "joined_dims",
    "least_of",
    "op",
    "placed",
    "refusal",
]
