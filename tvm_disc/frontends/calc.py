"""Relay expressions from Python: calls with their place in the source, numbers as constants, and
dims that are numbers or expressions.

What a front end's rows are written with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.fold import folded
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.builder import call
from tvm_disc.relay.infer import Inference

Expr: TypeAlias = ast.Expr
Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Expr | int | float | bool"
Dim: TypeAlias = "int | Expr"  # an expression is an int64 of rank 0

_PLACE: ContextVar[ast.Span | None] = ContextVar("place", default=None)


@contextmanager
def placed(source: str) -> Iterator[None]:
    """Calls made inside come from here: messages about them say so."""
    token = _PLACE.set(ast.Span(source))
    try:
        yield
    finally:
        _PLACE.reset(token)


def op(name: str, *args: Any, **attrs: Any) -> Expr:
    """A call of a Relay operator; of a few constants, its value."""
    known = folded(name, args, attrs)
    if known is not None:
        return ast.Constant(known)
    made = call(name, args, **attrs)
    made.span = _PLACE.get()
    return made


def const(value: Any, dtype: str | None = None) -> ast.Constant:
    """A constant; numbers keep their type unless one is given."""
    return ast.Constant(np.asarray(value, dtype=dtype))


def parts(tuple_value: Expr, count: int) -> list[Expr]:
    """The fields of an expression that is a tuple."""
    return [ast.TupleGetItem(tuple_value, k) for k in range(count)]


def is_float(dtype: str) -> bool:
    """Whether a dtype is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def least_of(dtype: str) -> Number:
    """The least number of a dtype, which is the maximum of nothing."""
    return -np.inf if is_float(dtype) else False if dtype == "bool" else int(np.iinfo(dtype).min)


def greatest_of(dtype: str) -> Number:
    """The greatest number of a dtype, which is the minimum of nothing."""
    return np.inf if is_float(dtype) else True if dtype == "bool" else int(np.iinfo(dtype).max)


def _binary(name: str) -> Callable[[Calc, Operand, Operand], Expr]:
    def method(self: Calc, a: Operand, b: Operand) -> Expr:
        return op(name, *self.pair(a, b))

    return method


def _unary(name: str) -> Callable[[Calc, Expr], Expr]:
    def method(self: Calc, x: Expr) -> Expr:
        return op(name, x)

    return method


class Calc:
    """Calls on operands whose types are asked for where they matter.

    Attributes:
        infer: what is known of expressions.
    """

    def __init__(self, infer: Inference) -> None:
        self.infer = infer

    # -- what is known -------------------------------------------------------------------------

    def type(self, x: Expr) -> rt.TensorType:
        """The type of a tensor."""
        ty = self.infer.type_of(x)
        if not isinstance(ty, rt.TensorType):
            raise TypeMismatch(f"expected a tensor, found {ty}")
        return ty

    def dtype(self, x: Expr) -> str:
        """The element type."""
        return self.type(x).dtype

    def rank(self, x: Expr) -> int:
        """The number of dims."""
        return len(self.type(x).shape)

    def literals(self, x: Expr) -> list[int | None]:
        """The dims that are literal numbers, None for others."""
        return [d if isinstance(d, int) else None for d in self.type(x).shape]

    def known(self, x: Expr | None) -> np.ndarray | None:
        """The elements, if they are known at compile time."""
        return None if x is None else self.infer.value_of(x)

    def number(self, x: Expr, what: str) -> Any:
        """The one element of a tensor, which must be known at compile time."""
        value = self.known(x)
        if value is None or value.size != 1:
            raise Unsupported(f"{what} must be one number known at compile time")
        return value.reshape(-1)[0].item()

    def numbers(self, x: Expr, what: str) -> list[Any]:
        """The elements of a vector, which must be known at compile time."""
        value = self.known(x)
        if value is None:
            raise Unsupported(f"{what} must be known at compile time")
        return list(value.reshape(-1).tolist())

    def count(self, x: Expr, what: str) -> int:
        """The length of a vector, which must be known at compile time."""
        dims = self.literals(x)
        size = 1 if not dims else dims[0]
        if len(dims) > 1 or size is None:
            raise Unsupported(f"the number of elements of {what} must be known at compile time")
        return size

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis.

        Raises:
            TypeMismatch: there is no such axis.
        """
        if not -rank <= axis < rank:
            raise TypeMismatch(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    # -- numbers and arithmetic ----------------------------------------------------------------

    def like(self, value: Any, x: Expr) -> ast.Constant:
        """A constant of the element type of ``x``."""
        return const(value, self.dtype(x))

    def pair(self, a: Operand, b: Operand) -> tuple[Expr, Expr]:
        """Two operands, of which one may be a number."""
        if not isinstance(a, Expr):
            assert isinstance(b, Expr)
            return self.like(a, b), b
        return (a, b) if isinstance(b, Expr) else (a, self.like(b, a))

    add = _binary("add")
    sub = _binary("subtract")
    mul = _binary("multiply")
    div = _binary("divide")
    floor_div = _binary("floor_divide")
    floor_mod = _binary("floor_mod")
    power = _binary("power")
    maximum = _binary("maximum")
    minimum = _binary("minimum")
    equal = _binary("equal")
    not_equal = _binary("not_equal")
    less = _binary("less")
    less_equal = _binary("less_equal")
    greater = _binary("greater")
    greater_equal = _binary("greater_equal")
    logical_and = _binary("logical_and")
    logical_or = _binary("logical_or")
    exp = _unary("exp")
    log = _unary("log")
    sqrt = _unary("sqrt")
    rsqrt = _unary("rsqrt")
    tanh = _unary("tanh")
    sigmoid = _unary("sigmoid")
    erf = _unary("erf")
    abs = _unary("abs")
    floor = _unary("floor")
    ceil = _unary("ceil")
    negative = _unary("negative")
    logical_not = _unary("logical_not")

    def where(self, cond: Expr, a: Operand, b: Operand) -> Expr:
        """``a`` where the condition holds, else ``b``."""
        return op("where", cond, *self.pair(a, b))

    def cast(self, x: Expr, dtype: str) -> Expr:
        """``x`` as ``dtype``; a constant at once."""
        if self.dtype(x) == dtype:
            return x
        if isinstance(x, ast.Constant):
            with np.errstate(all="ignore"):
                return const(x.data.astype(dtype))
        return op("cast", x, dtype=dtype)

    def reduce(self, name: str, x: Expr, axes: Sequence[int], keep: bool = False) -> Expr:
        """A reduction over some axes; over none it is the operand."""
        if not axes:
            return x
        return op(name, x, axis=tuple(axes), keepdims=keep)

    def clip(self, x: Expr, low: Number, high: Number) -> Expr:
        """``x`` within limits."""
        return self.minimum(self.maximum(x, low), high)

    def round_even(self, x: Expr) -> Expr:
        """Rounded to the nearest whole number, halves to the even one."""
        low = self.floor(x)
        rest = self.sub(x, low)
        odd = self.not_equal(self.mul(self.floor(self.mul(low, 0.5)), 2.0), low)
        half = self.logical_and(self.equal(rest, 0.5), odd)
        up = self.logical_or(self.greater(rest, 0.5), half)
        return self.add(low, self.where(up, self.like(1, x), 0))

    # -- dims ----------------------------------------------------------------------------------

    def shape(self, x: Expr) -> Expr:
        """The dims as a vector of int64."""
        return op("shape_of", x, dtype="int64")

    def size(self, x: Expr, axis: int) -> Dim:
        """One dim: a number if it is known."""
        literal = self.literals(x)[axis]
        axis = axis % self.rank(x)
        return self.item(self.shape(x), axis) if literal is None else literal

    def sizes(self, x: Expr) -> list[Dim]:
        """Every dim."""
        return [self.size(x, k) for k in range(self.rank(x))]

    def total(self, x: Expr) -> Dim:
        """The number of elements."""
        return self.product(self.sizes(x))

    def product(self, dims: Sequence[Dim]) -> Dim:
        """The product of dims."""
        total: Dim = 1
        for d in dims:
            total = self.dim("multiply", total, d)
        return total

    def dim(self, name: str, a: Dim, b: Dim) -> Dim:
        """Arithmetic on dims by the name of a Relay operator."""
        if isinstance(a, int) and isinstance(b, int):
            return _DIMS[name](a, b)
        if name == "multiply" and 1 in [x for x in (a, b) if isinstance(x, int)]:
            return b if isinstance(a, int) else a
        if name == "add" and isinstance(b, int) and b == 0:
            return a
        return op(name, *(self.scalar(x) for x in (a, b)))

    def scalar(self, d: Dim, dtype: str = "int64") -> Expr:
        """A dim as a tensor of rank 0."""
        if not isinstance(d, Expr):
            return const(d, dtype)
        return self.cast(d, dtype)

    def item(self, vector: Expr, index: int) -> Expr:
        """One element of a vector."""
        return op("take", vector, const(index, "int64"), axis=0)

    def vector(self, dims: Sequence[Dim]) -> Expr:
        """Dims side by side, as int64."""
        if all(isinstance(d, int) for d in dims):
            return const(list(dims), "int64")
        if not dims:
            return const([], "int64")
        pieces = [
            op("reshape", d, newshape=(1,)) if isinstance(d, Expr) else const([d], "int64")
            for d in dims
        ]
        return (
            pieces[0] if len(pieces) == 1 else op("concatenate", ast.Tuple(tuple(pieces)), axis=0)
        )

    def elements(self, vector: Expr, what: str) -> list[Dim]:
        """The elements of a vector of integers, numbers where they are known."""
        found = self.infer.elements_of(vector)
        if found is None:
            raise Unsupported(f"the number of elements of {what} must be known at compile time")
        wide = self.cast(vector, "int64")
        return [self.item(wide, k) if v is None else v for k, v in enumerate(found)]

    def lengths(self, dims: Sequence[Dim]) -> list[Dim]:
        """Dims that are not negative as formulas: those that only the data knows are read once.

        They become the dims of a tensor that nobody else needs.
        """
        vector = self.vector(dims)
        if self.infer.is_formula(vector):
            return list(dims)
        blank = op("dyn.full", const(False), vector, shape=None, dtype="bool")
        return self.sizes(blank)

    def length(self, x: Expr) -> Dim:
        """One number that is not negative, as :meth:`lengths` has several."""
        known = self.known(x)
        if known is not None:
            return int(known.reshape(-1)[0])
        return self.lengths([self.reshape(self.cast(x, "int64"), [])])[0]

    def sizes_in(self, vector: Expr, what: str) -> list[Dim]:
        """The elements of a vector of sizes."""
        return self.lengths(self.elements(vector, what))

    # -- shapes --------------------------------------------------------------------------------

    def reshape(self, x: Expr, dims: Sequence[Dim]) -> Expr:
        """``x`` under another shape; a number of -1 is inferred."""
        if not all(isinstance(d, int) for d in dims):
            return op("dyn.reshape", x, self.vector(dims), newshape=(), allowzero=True)
        if isinstance(x, ast.Constant):
            return const(x.data.reshape([d for d in dims if isinstance(d, int)]))
        return op("reshape", x, newshape=tuple(dims), allowzero=True)

    def broadcast(self, x: Expr, dims: Sequence[Dim]) -> Expr:
        """``x`` stretched to a shape."""
        if all(isinstance(d, int) for d in dims):
            return op("broadcast_to", x, shape=tuple(dims))
        return op("dyn.broadcast_to", x, self.vector(dims), shape=None)

    def full(self, value: Operand, dims: Sequence[Dim], dtype: str) -> Expr:
        """A tensor of one value."""
        fill = value if isinstance(value, Expr) else const(value, dtype)
        if all(isinstance(d, int) for d in dims):
            return op("full", fill, shape=tuple(dims), dtype=dtype)
        return op("dyn.full", fill, self.vector(dims), shape=None, dtype=dtype)

    def arange(self, stop: Dim, dtype: str = "int64") -> Expr:
        """0, 1, ... below a dim."""
        made = op("arange", const(0, "int64"), self.scalar(stop), const(1, "int64"), dtype="int64")
        return self.cast(made, dtype)

    def transpose(self, x: Expr, order: Sequence[int]) -> Expr:
        """``x`` with its axes in another order."""
        if list(order) == list(range(len(order))):
            return x
        return op("transpose", x, axes=tuple(order))

    def expand(self, x: Expr, axis: int, count: int = 1) -> Expr:
        """New axes of length one."""
        if isinstance(x, ast.Constant):
            axis = axis % (x.data.ndim + 1)
            shape = x.data.shape
            return const(x.data.reshape((*shape[:axis], *(1,) * count, *shape[axis:])))
        return op("expand_dims", x, axis=axis, num_newaxis=count)

    def squeeze(self, x: Expr, axes: Sequence[int]) -> Expr:
        """Axes of length one taken away."""
        return op("squeeze", x, axis=tuple(axes)) if axes else x

    def slice(self, x: Expr, axis: int, begin: Dim, end: Dim | None, step: int = 1) -> Expr:
        """A slice along one axis; None for the end."""
        last: Dim = end if end is not None else (1 << 31) if step > 0 else -(1 << 31)
        if isinstance(begin, int) and isinstance(last, int):
            return op(
                "strided_slice", x, begin=(begin,), end=(last,), strides=(step,), axes=(axis,)
            )
        bounds = [self.vector([d]) for d in (begin, last, step)]
        return op("dyn.strided_slice", x, *bounds, begin=None, end=None, strides=None, axes=(axis,))

    def take(self, x: Expr, picks: Expr, axis: int) -> Expr:
        """Elements along an axis at positions within it."""
        return op("take", x, picks, axis=axis)

    def pick(self, x: Expr, axis: int, index: int) -> Expr:
        """One position of an axis, which goes away."""
        return self.squeeze(self.slice(x, axis, index, index + 1), [axis])

    def concat(self, items: Sequence[Expr], axis: int) -> Expr:
        """Tensors one after the other along an axis."""
        if len(items) == 1:
            return items[0]
        return op("concatenate", ast.Tuple(tuple(items)), axis=axis)

    def stack(self, items: Sequence[Expr], axis: int) -> Expr:
        """Tensors side by side along a new axis."""
        return op("stack", ast.Tuple(tuple(items)), axis=axis)

    def split(self, x: Expr, sizes: Sequence[Dim], axis: int) -> list[Expr]:
        """Pieces of given lengths."""
        if len(sizes) == 1:
            return [x]
        found, at = [], 0
        place: Dim = at
        for size in sizes:
            end = self.dim("add", place, size)
            found.append(self.slice(x, axis, place, end))
            place = end
        return found

    def pad(
        self, x: Expr, widths: Sequence[tuple[Dim, Dim]], fill: Operand, mode: str = "constant"
    ) -> Expr:
        """Borders of any width that is not negative."""
        if all(isinstance(w, int) and w == 0 for pair in widths for w in pair):
            return x
        value = fill if isinstance(fill, Expr) else self.like(fill, x)
        if all(isinstance(w, int) for pair in widths for w in pair):
            pairs = tuple(tuple(p) for p in widths)
            return op("nn.pad", x, value, pad_width=pairs, pad_mode=mode)
        flat = self.vector([w for pair in widths for w in pair])
        return op("dyn.nn.pad", x, flat, value, pad_width=(), pad_mode=mode)

    def matmul(self, a: Expr, b: Expr, out: str = "") -> Expr:
        """``a @ b`` of rank 2 or more, batch dims broadcast."""
        if self.rank(a) == self.rank(b) == 2:
            return op("nn.matmul", a, b, units=None, out_dtype=out)
        return op("nn.batch_matmul", a, b, out_dtype=out, transpose_a=False, transpose_b=False)

    def swapped(self, x: Expr) -> Expr:
        """The last two axes swapped."""
        rank = self.rank(x)
        return self.transpose(x, [*range(rank - 2), rank - 1, rank - 2])

    def softmax(self, x: Expr, axis: int = -1) -> Expr:
        """Softmax along an axis."""
        return op("nn.softmax", x, axis=axis)

    def along(self, vector: Expr, axis: int, rank: int) -> Expr:
        """A vector laid along one axis of a rank."""
        dims: list[Dim] = [-1 if a == axis else 1 for a in range(rank)]
        if self.literals(vector)[0] == 0 or (self.literals(vector)[0] is None and rank > 1):
            dims = [self.size(vector, 0) if a == axis else 1 for a in range(rank)]
        return vector if rank == 1 else self.reshape(vector, dims)


_DIMS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
}

__all__ = [
    "Calc",
    "Dim",
    "Expr",
    "Operand",
    "const",
    "greatest_of",
    "is_float",
    "least_of",
    "op",
    "parts",
    "placed",
]
