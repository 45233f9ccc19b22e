"""Expression builder of the PyTorch front end, whose tensors store their dtype and dims.

PyTorch's graph has the dtype and dims of every node's result, so that a converter only has to know
the types of its intermediate tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calls import MOST, Calls, UnknownRows
from tvm_disc.frontends.torch.places import place_of
from tvm_disc.frontends.torch.symbols import Symbols
from tvm_disc.frontends.torch.values import Dim, Value, dims_of, meta_like, relay_dtype
from tvm_disc.relay.expr import Constant, Expr, TupleGetItem, Var
from tvm_disc.relay.types import TensorType
from tvm_disc.typing import SymExpr, TorchTensor

if TYPE_CHECKING:
    from tvm_disc.relay.ops.algebra import Algebra

# Converts a node of an operator: ``row(maker, *args, **kwargs)``.
Row: TypeAlias = "Callable[..., Any]"


class Maker(Calls[Value, Dim]):
    """Builds the Relay calls of one graph.

    Attributes:
        symbols: converts symbolic numbers.
        node: the node of PyTorch's graph that is being converted.
        translate: converts an inner graph for given operands.
        facts: conditions on sizes that every call must satisfy, as sympy expressions.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.node: Any = None
        self.translate: Any = None  # set by `GraphConversion`
        self.facts: list[Any] = []

    # -- the node ------------------------------------------------------------------------------

    @property
    def out(self) -> Any:
        """Return PyTorch's metadata of the node's result: a fake tensor or several."""
        return self.node.meta["val"]

    @property
    def out_dtype(self) -> str:
        """Return the dtype of the node's result, or of the first of several."""
        found = self.out[0] if isinstance(self.out, tuple | list) else self.out
        return relay_dtype(found.dtype)

    @property
    def out_dims(self) -> tuple[Dim, ...]:
        """Return the dims of the node's result, or of the first of several."""
        return dims_of(self.out[0] if isinstance(self.out, tuple | list) else self.out)

    def used(self, index: int) -> bool:
        """Return whether result ``index`` of the node is read."""
        import operator

        users = self.node.users
        return any(u.target is not operator.getitem or u.args[1] == index for u in users)

    def require_not_one(self, dim: Dim) -> None:
        """Add a guard that a size is not 1."""
        import sympy

        if dim is not None:
            self.facts.append(sympy.Ne(dim, 1))

    # -- types of tensors
    # ---------------------------------------------------------------------------

    def expr(self, x: Value) -> Expr:
        """Return the expression of a tensor."""
        found: Expr = x.expr
        return found

    def made(
        self,
        expr: Expr,
        dims: Callable[[], Sequence[Dim]],
        like: Value | None = None,
        dtype: str = "",
    ) -> Value:
        """Return an expression as a tensor with its element type and dims."""
        assert dtype or like is not None
        return Value(expr, dtype or like.dtype, tuple(dims()))  # type: ignore[union-attr]

    def is_tensor(self, value: Algebra | float) -> bool:
        """Return whether an operand is a tensor and not a number or a symbolic number."""
        return isinstance(value, Value)

    def dtype(self, x: Value) -> str:
        """Return the element type."""
        return x.dtype

    def rank(self, x: Value) -> int:
        """Return the number of dims."""
        return x.rank

    def sizes(self, x: Value) -> list[Dim]:
        """Return the sizes of all axes."""
        return list(x.dims)

    def dim(self, name: str, a: Dim, b: Dim) -> Dim:
        """Return the result of the Relay operator ``name`` for two dims, in PyTorch's symbols."""
        return None if a is None or b is None else _DIMS[name](a, b)

    def quotient(self, size: Dim, parts: Dim) -> Dim:
        """Return ``size // parts`` as PyTorch's symbolic floor division.

        sympy's ``//`` creates a ``floor`` of a fraction instead, which is not integer arithmetic.
        """
        if isinstance(size, int) and isinstance(parts, int):
            return size // parts
        import sympy
        from torch.utils._sympy.functions import FloorDiv

        return FloorDiv(sympy.sympify(size), sympy.sympify(parts))

    def scalar(self, d: Dim, dtype: str = "int64") -> Value:
        """Return a dim as a tensor of rank 0."""
        return self.tensor(d, dtype)

    def vector(self, dims: Sequence[Dim]) -> Expr:
        """Return dims as an int64 vector."""
        return self.symbols.vector(dims)

    def like(self, value: Any, x: Value) -> Value:
        """Return a number as a tensor of the element type of ``x``."""
        return self.tensor(value, x.dtype)

    # -- bodies of branches and loops ------------------------------------------------------------

    def variable(self, name: str, like: Value, ty: TensorType | None = None) -> Value:
        """Return a variable for use in a body, with the dtype and dims of ``like``."""
        return Value(Var(name, ty), like.dtype, like.dims)

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of a conditional or loop body; its symbols are removed at the end."""
        return self.symbols.scope()

    def literals(self, x: Value) -> list[int | None]:
        """Return the dims as integers, with None for each dim that is not a literal."""
        return [d if isinstance(d, int) else None for d in x.dims]

    def formulas(self, x: Value) -> Sequence[Dim]:
        """Return the dims as expressions of PyTorch's symbols."""
        return x.dims

    def same(self, a: Dim, b: Dim) -> bool:
        """Return whether two dims are known to be equal."""
        return a is not None and bool(a == b)

    def outside(self, formula: Dim) -> Dim:
        """Return the dim unchanged, if its symbols are known outside the body.

        Raises:
            UnknownRows: a symbol is known only inside the body.
        """
        if formula is None or not all(self.symbols.knows(s) for s in formula.free_symbols):
            raise UnknownRows(
                "the sizes of the values that a loop collects in each iteration must be known "
                f"before it, found {formula}"
            )
        return formula

    # -- values --------------------------------------------------------------------------------

    def operands(self, *values: Value | SymExpr | float) -> list[Value]:
        """Return tensors and numbers as tensors of the dtype of the node's result."""
        return [self.tensor(v, self.out_dtype) for v in values]

    def tensor(self, value: Value | SymExpr | float, dtype: str | None = None) -> Value:
        """Return a tensor, a number or a symbolic number as a tensor of ``dtype``."""
        if isinstance(value, Value):
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, bool | int | float):
            default = {bool: "bool", int: "int64"}.get(type(value), "float32")
            return self.literal(value, dtype or default)
        if isinstance(value, complex):
            raise Unsupported(f"complex numbers are not supported, found {value}")
        made = self.symbols.value(value)
        return made if dtype is None else self.cast(made, dtype)

    def cast(self, x: Value, dtype: str) -> Value:
        """Return ``x`` cast to an element type by PyTorch's rules."""
        return self.not_equal(x, 0) if dtype == "bool" != x.dtype else super().cast(x, dtype)

    def where(self, cond: Value, a: object, b: Value | float, dtype: str = "") -> Value:
        """Return ``a`` where ``cond`` holds, else ``b``; either may be a number."""
        kind = dtype or next(x.dtype for x in (a, b) if isinstance(x, Value))
        return self.apply("where", cond, self.tensor(a, kind), self.tensor(b, kind))

    def field(self, expr: Expr, index: int, dtype: str, dims: Sequence[Dim]) -> Value:
        """Return result ``index`` of a call that returns a tuple."""
        return Value(TupleGetItem(expr, index), dtype, tuple(dims))

    def common(self, *values: object) -> str:
        """Return the element type in which PyTorch computes, by its type promotion."""
        return self._promoted(values)[0]

    def promoted(self, *values: object) -> str:
        """Return the element type of a result, by PyTorch's type promotion."""
        return self._promoted(values)[1]

    def _promoted(self, values: Sequence[object]) -> tuple[str, str]:
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        args = [self._stand_in(v) for v in values]
        rule = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        computed, result = elementwise_dtypes(*args, type_promotion_kind=rule)
        return relay_dtype(computed), relay_dtype(result)

    def _stand_in(self, value: object) -> TorchTensor | int:
        if isinstance(value, Value):
            return meta_like(value.dtype, value.rank == 0)
        if isinstance(value, bool | int | float):
            return value
        return 1 if self.symbols.value(value).dtype == "int64" else 1.0

    # -- shapes --------------------------------------------------------------------------------

    def reshape(self, x: Value, dims: Sequence[Dim]) -> Value:
        """Return ``x`` reshaped."""
        return x if tuple(dims) == x.dims else super().reshape(x, dims)

    def broadcast(self, x: Value, dims: Sequence[Dim]) -> Value:
        """Return ``x`` broadcast to ``dims``."""
        return x if tuple(dims) == x.dims else super().broadcast(x, dims)

    def call_like(self, name: str, x: Value, *operands: Value, **attrs: object) -> Value:
        """Return a call whose result has the dtype and dims of ``x``, its first operand."""
        return Value(self.call(name, x, *operands, **attrs), x.dtype, x.dims)

    def limited(self, places: Value, size: Dim) -> Value:
        """Return indices along an axis, limited to [0, size)."""
        return self.minimum(self.maximum(places, 0), self.tensor(size, "int64") - 1)

    def line(self, x: Value) -> Value:
        """Return ``x``, or a vector of its element if the rank is 0."""
        return self.reshape(x, [1]) if x.rank == 0 else x

    def pinned(self, x: Value, dims: Sequence[Dim]) -> Value:
        """Return a result of a loop, whose dims are unknown, with guards that they are ``dims``.

        Each axis is guarded. A reshape would only require an equal number of elements.
        """
        dims = tuple(dims)
        like = self.full(0, dims, x.dtype)
        return Value(self.call("collapse_sum_like", x, like), x.dtype, dims)

    def wrapped(self, places: Value, size: Dim) -> Value:
        """Return indices along an axis, with ``size`` added to negative ones."""
        if isinstance(places.expr, Constant):
            known = places.expr.data
            if (known >= 0).all():
                return places
            if isinstance(size, int):
                return self.literal(np.where(known < 0, known + size, known), places.dtype)
        if places.dtype.startswith("uint"):
            return places
        from_end = places + self.tensor(size, places.dtype)
        return self.where(places < 0, from_end, places)

    def inside(self, places: Value, size: Dim, negative: bool = False, what: str = "") -> Value:
        """Return indices along an axis of ``size``, with a run-time check that they are in bounds.

        Args:
            places: the indices.
            size: the length of the axis.
            negative: whether the operator counts negative indices from the end of the axis.
            what: the name of the indices in messages, if they are not an input of the program.
        """
        if isinstance(places.expr, Constant) and isinstance(size, int):
            self._refuse_literal(places.expr.data, size, negative)
            return self.wrapped(places, size) if negative else places
        limit = self.tensor(size, "int64")
        low = -limit if negative else self.tensor(0, "int64")
        what = self._described(places, what)
        checked = self.call_like("assert_inside", places, low, limit, what=what)
        return self.wrapped(checked, size) if negative else checked

    def at_least_zero(self, x: Value) -> Value:
        """Return integers with a run-time check that none is negative."""
        low, high = self.tensor(0, "int64"), self.tensor(MOST, "int64")
        return self.call_like("assert_inside", x, low, high, what=self._described(x, ""))

    def counting(self, stop: Value) -> Value:
        """Return 0, 1, ..., ``stop`` - 1, for a scalar that is known only at run time."""
        ends = self.tensor(0, "int64"), stop, self.tensor(1, "int64")
        made = self.call("arange", *ends, start=None, stop=None, step=None, dtype="int64")
        return Value(made, "int64", (None,))

    def _refuse_literal(self, known: np.ndarray, size: int, negative: bool) -> None:
        low = -size if negative else 0
        wrong = known[(known < low) | (known >= size)]
        if wrong.size:
            raise TypeMismatch(
                f"expected {low} <= index < {size}, found {int(wrong.reshape(-1)[0])}"
            )

    def divisor(self, below: Value, above: Value) -> Value:
        """Return the divisor ``below``; if the division is integer, a check refuses zeros."""
        if below.is_float or above.is_float:
            return below
        if isinstance(below.expr, Constant) and (below.expr.data != 0).all():
            return below
        return self.call_like("assert_nonzero", below, above, what=self._described(below, ""))

    def require_size(self, dim: Dim) -> None:
        """Add a guard that a size is not negative, if it is computed from dims of inputs."""
        if isinstance(dim, int) or dim.is_Symbol:
            return
        import sympy
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        if not free_unbacked_symbols(dim):
            self.facts.append(sympy.Ge(dim, 0))

    def nonempty(
        self, x: Value, axes: Sequence[int], least: int = 1, unless: int | None = None
    ) -> Value:
        """Return ``x`` with a run-time check that each of ``axes`` has at least ``least`` elements.

        PyTorch refuses calls in which one has fewer, except if the axis ``unless`` is empty.
        A scalar has no axes.
        """
        if x.rank == 0:
            return x
        axes = [a % x.rank for a in axes]
        if all(isinstance(x.dims[a], int) and x.dims[a] >= least for a in axes):
            return x
        what = self._described(x, "")
        limits = {"axes": tuple(axes), "least": least, "unless": unless}
        return self.call_like("assert_nonempty", x, what=what, **limits)

    def reaching(self, x: Value, axis: int, index: int) -> Value:
        """Return ``x`` with a run-time check that ``axis`` has an element at ``index``."""
        return self.nonempty(x, [axis], index + 1 if index >= 0 else -index)

    def _described(self, x: Value, what: str) -> str:
        """Return a phrase for messages with operator, source location and name of an operand."""
        name = f": input '{x.expr.name_hint}'" if isinstance(x.expr, Var) else what and f": {what}"
        target = str(getattr(self.node.target, "_name", self.node.target)).removeprefix("aten::")
        return f"{target.partition('.')[0]} at {place_of(self.node)}{name}"

    def reduce_position(self, name: str, x: Value, axis: int, keep: bool) -> Value:
        """Return ``argmax`` or ``argmin`` along one axis, as int64."""
        axis = axis % x.rank
        dims = [1 if a == axis else d for a, d in enumerate(x.dims) if keep or a != axis]
        made = self.call(name, x, axis=(axis,), keepdims=keep)
        return self.cast(Value(made, "int32", tuple(dims)), "int64")

    def order(self, x: Value, axis: int, ascending: bool) -> Value:
        """Return the indices that sort an axis; the sort is stable."""
        if x.dtype == "bool":
            x = self.cast(x, "uint8")
        made = self.call("argsort", x, axis=axis % x.rank, is_ascend=ascending, dtype="int64")
        return Value(made, "int64", x.dims)

    def gather(self, x: Value, places: Value, axis: int) -> Value:
        """Return the elements of ``x`` at the indices ``places`` along ``axis``."""
        made = self.call("gather", x, places, axis=axis % x.rank)
        return Value(made, x.dtype, places.dims)


_DIMS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}

__all__ = ["Maker", "Row"]
