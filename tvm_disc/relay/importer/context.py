"""What an import rule may do: emit Relax, ask the solver, broadcast, materialise shape values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.literals import Literals, as_literal
from tvm_disc.relay.expr import Span
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import as_expr, is_number, value_of
from tvm_disc.shape import Guard, Solver

Expr: TypeAlias = Any
Dim: TypeAlias = Any


def i64(value: int) -> Expr:
    """An int64 literal."""
    return tirx.IntImm("int64", value)


MOST_ELEMENTS = 1 << 47  # what a processor can address
MOST_NUMBER = 1 << 62


def reshape_call(x: Expr, dims: Sequence[Dim]) -> Expr:
    """``x`` under the shape ``dims``. TVM's own function takes a dim of 0 for a code."""
    op = tvm.ir.Op.get("relax.reshape")
    return tvm.ir.Call(op, [x, relax.ShapeExpr(list(dims))])


@dataclass(frozen=True)
class Checks:
    """How conditions on the elements of tensors are compiled.

    Attributes:
        indices: whether indices and divisors are checked; None leaves that to the front end, each
            of which follows the language that it reads.
        portable: the program is for TVM's own passes, which do not know ``disc.checked``.
    """

    indices: bool | None = None
    portable: bool = False


class Emitter:
    """Appends Relax bindings of known type to the innermost open sequence.

    Types are given, not inferred: TVM's inference drops a shape whenever two different symbols
    meet, and the importer knows better.
    """

    def __init__(self, solver: Solver, checks: Checks | None = None) -> None:
        self.solver = solver
        self.checks = checks or Checks()
        self.sequences: list[list[Any]] = [[]]
        # Open branches and functions: what they need may not be asked of a call that is none.
        self.nested = 0
        self.span: Span | None = None
        self.operator = ""
        self.literals = Literals()
        self._read: set[Any] = set()  # symbols of numbers read from data
        self._roomy: set[Any] = set()  # sizes made of them that were asked for
        self._sizes: set[Any] = set()  # dims that are known not to be negative
        self._made: dict[int, tuple[Tensor, list[Any], Expr]] = {}

    # -- questions -----------------------------------------------------------------------------

    def simplify(self, dim: Dim) -> Dim:
        """The canonical form of a dim."""
        return self.solver.simplify(dim)

    def number(self, dim: Dim) -> Any:
        """A literal dim as a Python int, anything else unchanged."""
        return int(dim.value) if isinstance(dim, tirx.IntImm) else dim

    def settle(self, expr: Expr) -> Any:
        """The canonical form of an expression, a Python number if it is constant."""
        if isinstance(expr, tirx.IntImm):
            return bool(expr.value) if str(expr.ty.dtype) == "bool" else int(expr.value)
        if str(expr.ty.dtype) == "bool":
            return self.decide(expr)
        return self.number(self.solver.simplify(expr))

    def decide(self, cond: Expr) -> Any:
        """True or False if proved, else the condition."""
        known = self.solver.known(cond)
        return cond if known is None else known

    def dim(self, value: Any) -> Dim:
        """An element of a shape value as a canonical dim."""
        return i64(int(value)) if is_number(value) else self.solver.simplify(value)

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether two dims are proved equal."""
        return bool(self.solver.known_eq(a, b))

    def literal(self, dim: Dim) -> int | None:
        """The value of a dim proved constant."""
        if isinstance(dim, tirx.IntImm):
            return int(dim.value)
        return self.solver.const(dim)

    def where(self, what: str) -> str:
        """``what`` with the operator and its source name, for messages."""
        place = self.span
        source = "" if place is None else f" at {place if place.implied else place.source}"
        return f"{self.operator}{source}: {what}"

    def require_eq(self, a: Dim, b: Dim, what: str) -> None:
        """Two dims must be equal: proved, or checked at run time."""
        for dim, cut in ((a, b), (b, a)):
            if (most := self.cut_at(dim, cut)) is not None:
                self.solver.require_le(dim, most, self.where(what))
                return
        self.solver.require_eq(a, b, self.where(what))

    def cut_at(self, dim: Dim, cut: Dim) -> Dim | None:
        """The k of a ``cut`` that is min(dim, k), as a slice of something k long; else None."""
        if isinstance(cut, tirx.Min) and not self.same(dim, cut):
            for one, other in ((cut.a, cut.b), (cut.b, cut.a)):
                if self.same(dim, one):
                    return other
        return None

    def static(self, dim: Dim, what: str) -> int:
        """A dim that must be known at compile time."""
        value = self.literal(dim)
        if value is None:
            raise Unsupported(self.where(f"{what} must be known at compile time, found {dim}"))
        return value

    def require_some(self, axes: Sequence[tuple[int, Dim]], wanted: Sequence[Dim]) -> None:
        """Axes that slices at literal positions read have elements, if any is wanted.

        Of positions in memory the launch of the kernel asks (``codegen.picks``).
        """
        if any(self.literal(d) == 0 for d in wanted):
            return
        for axis, dim in axes:
            nothing = [tirx.EQ(d, i64(0)) for d in wanted if not self.solver.known_le(i64(1), d)]
            where = self.where(f"positions along axis {axis}")
            text = f"{where}: there is nothing to pick, {self.solver.name_of(dim)} is 0"
            self.solver.require(reduce(tirx.Or, nothing, dim >= 1), where, text)

    # -- emission ------------------------------------------------------------------------------

    @contextmanager
    def nested_in(self, outer: Sequence[list[Any]]) -> Iterator[list[Any]]:
        """Bind into a sequence of its own, given to the caller: the body of a branch or function.

        ``outer`` are the sequences whose variables it sees: those that are open for a branch, none
        for a function.
        """
        saved, bindings = self.sequences, list[Any]()
        self.sequences = [*outer, bindings]
        self.nested += 1
        try:
            yield bindings
        finally:
            self.nested -= 1
            self.sequences = saved

    def emit(self, call: Expr, dims: Sequence[Dim], dtype: str) -> Tensor:
        """Bind ``call`` to a fresh variable of a tensor type."""
        ty = relax.TensorType([self.simplify(d) for d in dims], dtype)
        self.require_sizes(ty.shape.values)
        self._require_room(ty.shape.values)
        return Tensor(tuple(ty.shape.values), dtype, self.bind(call, ty))

    def require_sizes(self, dims: Sequence[Dim]) -> None:
        """Require that the dims of a result are not negative: proved, or guarded at run time.

        Every result type passes here. Symbols are sizes of arrays; other dims, such as ``n - 3``,
        come from shape arithmetic and may be negative. In a branch or a function nothing is
        required, because a call may not reach it: the launch of the kernel has the guard
        (``codegen.plan.position``).

        Raises:
            TypeMismatch: a dim is a negative literal.
            ShapeConflict: a dim is negative for every input.
        """
        for axis, dim in enumerate(dims):
            if isinstance(dim, tirx.IntImm) and dim.value < 0:
                message = f"axis {axis} of the result would have size {dim.value}"
                raise TypeMismatch(self.where(message))
            if self.nested or isinstance(dim, tirx.Var | tirx.IntImm):
                continue
            if (key := self.solver.key(dim)) in self._sizes:
                continue
            self._sizes.add(key)
            size = self.solver.name_of(dim)
            text = f"{size} must not be negative: it is the size of axis {axis} of a result"
            self.solver.require(dim >= 0, self.where(f"axis {axis} of the result"), text)

    def _require_room(self, dims: Sequence[Dim]) -> None:
        """A tensor whose size is made of numbers that were read: they do not overflow together."""
        if not self._read or not dims:
            return
        names = {v: None for d in dims for v in tirx.analysis.undefined_vars(d)}
        if self._read.isdisjoint(names) or (key := self.solver.key(product(dims))) in self._roomy:
            return
        self._roomy.add(key)
        total, tests = tirx.max(dims[0], i64(1)), []
        for dim in dims[1:]:
            dim = tirx.max(dim, i64(1))
            tests.append(total <= tirx.floordiv(i64(MOST_ELEMENTS), dim))
            total = total * dim
        text = self.where(f"a tensor of shape ({', '.join(map(str, dims))}) is too large")
        fits = tirx.all(*tests, total <= MOST_ELEMENTS)
        self.solver.guards.append(Guard(fits, text, tuple(names), text))

    def bind(self, call: Expr, ty: Any) -> Any:
        """Bind ``call`` to a fresh variable of type ``ty``."""
        var = relax.Var(self._name(), ty, self._span())
        if call.ty.is_missing():
            relax.expr._update_type(call, ty)
        self.sequences[-1].append(relax.VarBinding(var, call))
        return var

    def match(self, expr: Expr, ty: Any) -> Any:
        """``match_cast``: bind the symbols of ``ty`` to the run-time shape of ``expr``."""
        var = relax.Var(self._name(), ty, self._span())
        self.sequences[-1].append(relax.MatchCast(var, expr, ty))
        return var

    def _name(self) -> str:
        return (self.operator or "v").replace(".", "_")

    def _span(self) -> Any:
        if self.span is None or self.span.implied:
            return None
        source = tvm.ir.SourceName(self.span.source)
        line, column = self.span.line, self.span.column
        return tvm.ir.Span(source, line, line, column, column)

    def expr(self, tensor: Tensor) -> Expr:
        """The Relax expression of a tensor; a shape value is put into memory now."""
        if tensor.expr is not None:
            return tensor.expr
        # What a branch has put into memory is not there for the other one.
        _, sequence, made = self._made.get(id(tensor), (None, None, None))
        if not any(s is sequence for s in self.sequences):
            made = self._materialize(tensor)
            self._made[id(tensor)] = (tensor, self.sequences[-1], made)
        return made

    def forget(self) -> None:
        """Bindings were taken back: what they put into memory is no longer there."""
        self._made.clear()

    def _materialize(self, tensor: Tensor) -> Expr:
        value = value_of(tensor)
        assert value is not None
        flat = list(value.reshape(-1))
        if all(is_number(x) for x in flat):
            array = np.array(flat, dtype=tensor.dtype).reshape(value.shape)
            return as_literal(array, tensor.dtype)
        items = [as_expr(x) for x in flat]
        items = [tirx.Cast("int64", x) if str(x.ty.dtype) == "bool" else x for x in items]
        dims = [self.solver.simplify(x) for x in items]
        vector = self.emit(R.shape_to_tensor(relax.ShapeExpr(dims)), [i64(len(dims))], "int64")
        if len(tensor.dims) != 1:
            vector = self.emit(reshape_call(vector.expr, tensor.dims), tensor.dims, "int64")
        if tensor.dtype != "int64":
            cast = R.astype(vector.expr, tensor.dtype)
            vector = self.emit(cast, tensor.dims, tensor.dtype)
        return vector.expr

    def constant(self, array: np.ndarray) -> Tensor:
        """A literal tensor."""
        dtype = str(array.dtype)
        dims = tuple(i64(int(d)) for d in array.shape)
        return Tensor(dims, dtype, self.literals(array), constant=array)

    def elements(self, tensor: Tensor) -> np.ndarray | None:
        """The elements of a tensor that must be known for its rule to say what is computed."""
        return tensor.constant

    def scalar(self, value: float, dtype: str) -> Tensor:
        """A literal of rank 0."""
        return self.constant(np.array(value, dtype=dtype))

    # -- shapes --------------------------------------------------------------------------------

    def shape_arg(self, tensor: Tensor, what: str, limited: bool = True) -> list[Any]:
        """The elements of a 1-d shape tensor, as :meth:`read_numbers` has those of data."""
        value = value_of(tensor)
        if value is not None:
            return list(value.reshape(-1))
        return self.read_numbers(tensor, what, limited)

    def read_numbers(self, tensor: Tensor, what: str, limited: bool = True) -> list[Any]:
        """The elements of an integer tensor that only the data knows, read when they are there.

        A symbol is never negative, so each element is the difference of two, one of them zero.
        Sizes are ``limited``, so that sums of them cannot overflow; what is cut off need not be.
        """
        count = self.static(product(tensor.dims), f"the number of elements of {what}")
        if "int" not in tensor.dtype:
            raise TypeMismatch(self.where(f"{what}: expected integers, found {tensor.dtype}"))
        if count == 0:
            return []
        numbers = self.reshape(tensor, [i64(count)]).expr
        if tensor.dtype != "int64":
            numbers = self.emit(R.astype(numbers, "int64"), [i64(count)], "int64").expr
        zero, least = (relax.const(np.int64(k), "int64") for k in (0, -MOST_NUMBER))
        # The least number has no opposite.
        numbers = self.emit(R.maximum(numbers, least), [i64(count)], "int64").expr
        parts = [
            self.emit(R.maximum(x, zero), [i64(count)], "int64").expr
            for x in (numbers, self.emit(R.negative(numbers), [i64(count)], "int64").expr)
        ]
        both = self.emit(R.concat(parts, 0), [i64(2 * count)], "int64").expr
        raw = self.bind(R.tensor_to_shape(both), relax.ShapeType(ndim=2 * count))
        source = self.where(f"{what}, read from data")
        symbols = [self.solver.symbol("number", source) for _ in range(2 * count)]
        self.match(raw, relax.ShapeType(symbols))
        self._read.update(symbols)
        if limited:
            most = tirx.all(*(s <= MOST_ELEMENTS for s in symbols))
            text = self.where(f"{what} must lie within 2**47")
            self.solver.guards.append(Guard(most, text, tuple(symbols), text))
        pairs = zip(symbols[:count], symbols[count:], strict=True)
        return [above - below for above, below in pairs]

    def size_arg(self, tensor: Tensor, what: str, least: int = 0) -> list[Any]:
        """As ``shape_arg``, for sizes: one that is read from data is at least ``least``."""
        if value_of(tensor) is not None:
            return self.shape_arg(tensor, what)
        sizes = self.read_numbers(tensor, what)
        for size in sizes:
            message = self.where(f"{what} must be at least {least}")
            self.solver.require(size >= least, message, message)
        return [size.a for size in sizes]

    def reshape(self, x: Tensor, dims: Sequence[Dim]) -> Tensor:
        """``x`` under another shape of as many elements; a literal is reshaped now."""
        dims = [self.solver.simplify(d) for d in dims]
        if len(dims) == x.rank and all(map(_identical, dims, x.dims)):
            return x
        self.require_same_elements(x, dims)
        known = [self.literal(d) for d in dims]
        if x.constant is not None and None not in known:
            return self.constant(x.constant.reshape(known))
        call = reshape_call(self.expr(x), dims)
        return self.emit(call, dims, x.dtype)

    def require_same_elements(self, x: Tensor, dims: Sequence[Dim]) -> None:
        """A reshape to ``dims`` keeps every element: proved, or checked at run time."""
        if self.solver.known_same_elements(list(x.dims), list(dims)):
            return
        self.require_eq(product(x.dims), product(dims), "a reshape must keep the element count")

    def broadcast_dims(self, shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
        """The common shape of operands under NumPy's rules, with guards where needed."""
        rank = max(len(s) for s in shapes)
        result: list[Dim] = []
        for axis in range(rank):
            first, *others = (s[axis - rank] for s in shapes if len(s) >= rank - axis)
            dim: Dim = first
            for other in others:
                if not other.same_as(dim):
                    dim = self.solver.broadcast_dim(dim, other, self.where(f"axis {axis}"))
            result.append(self.solver.simplify(dim))
        return result

    def broadcast(self, x: Tensor, dims: Sequence[Dim], full: bool = False) -> Tensor:
        """``x`` such that Relax broadcasts it to ``dims``: literal ones and equal dims stay as
        they are, a dim that may be 1 at run time is broadcast explicitly."""
        offset = len(dims) - x.rank
        target: list[Dim] = []
        explicit = full and offset > 0
        for axis, d in enumerate(x.dims):
            want = dims[offset + axis]
            one = self.literal(d) == 1
            if one and not full:
                target.append(i64(1))
                continue
            target.append(want)
            explicit = explicit or not _identical(d, want)
        if not explicit:
            return x
        target = [*(dims[:offset] if full else ()), *target]
        call = R.broadcast_to(self.expr(x), relax.ShapeExpr(target))
        return self.emit(call, target, x.dtype)

    def operands(self, args: Sequence[Tensor]) -> tuple[list[Expr], list[Dim]]:
        """Relax operands of an element-wise operator, and the shape of its result."""
        dims = self.broadcast_dims([a.dims for a in args])
        return [self.expr(self.broadcast(a, dims)) for a in args], dims

    def same_dtype(self, args: Sequence[Tensor]) -> str:
        """The one dtype of all operands."""
        dtypes = list(dict.fromkeys(a.dtype for a in args))
        if len(dtypes) > 1:
            raise TypeMismatch(self.where(f"expected operands of one dtype, found {dtypes}"))
        return dtypes[0]

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis."""
        if not -rank <= axis < rank:
            raise TypeMismatch(self.where(f"axis {axis} is out of range for rank {rank}"))
        return axis % rank


def _identical(a: Dim, b: Dim) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = i64(1)
    for d in dims:
        total = total * d
    return total
