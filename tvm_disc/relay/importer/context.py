"""The interface of import rules: emit Relax, query the solver, broadcast, materialize shape
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.expr import Span
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import as_expr, is_number, value_of
from tvm_disc.relay.ops.algebra import Number
from tvm_disc.shape import Guard, Solver
from tvm_disc.shape.printing import show_shape
from tvm_disc.support.literals import Literals, as_literal
from tvm_disc.typing import UNSET, Binding, Expr, TVMType, Var

Dim: TypeAlias = Any


def i64(value: int) -> Expr:
    """Return an int64 literal."""
    return tirx.IntImm("int64", value)


MOST_ELEMENTS = 1 << 47  # limit of an element count: 48-bit addresses allow no more
MOST_NUMBER = 1 << 62
NAMED = 3  # a size that contains at least this many symbols read from data is named


def reshape_call(x: Expr, dims: Sequence[Dim]) -> Expr:
    """Return a reshape of ``x`` to ``dims``; TVM's own builder reads a dim of 0 as "copy"."""
    op = tvm.ir.Op.get("relax.reshape")
    return tvm.ir.Call(op, [x, relax.ShapeExpr(list(dims))])


@dataclass(frozen=True)
class Checks:
    """How conditions on tensor elements are compiled.

    Attributes:
        indices: whether indices and divisors are checked; None leaves the decision to the front
            end, which follows its source language.
        portable: the program is for TVM's own passes, which do not know ``disc.checked``.
    """

    indices: bool | None = None
    portable: bool = False


class Emitter:
    """Appends Relax bindings of known type to the innermost open sequence.

    The importer supplies the types. TVM's inference would drop a shape whenever two different
    symbols meet.
    """

    def __init__(self, solver: Solver, checks: Checks | None = None) -> None:
        self.solver = solver
        self.checks = checks or Checks()
        self.sequences: list[list[Any]] = [[]]
        # Number of open branches and functions. Their requirements must not become guards of the
        # program, since a call may not execute them.
        self.nested = 0
        self.span: Span | None = None
        self.operator = ""
        self.literals = Literals()
        self._read: set[Any] = set()  # symbols whose values are read from tensors at run time
        self._roomy: set[Any] = set()  # keys of tensor sizes that already have an overflow guard
        self._names: dict[Any, Var] = {}  # symbols that name sizes which depend on data, by key
        self._sizes: set[Any] = set()  # keys of dims that are known to be non-negative
        self._made: dict[int, tuple[Tensor, list[Any], Expr]] = {}
        # symbol of ``solver.definitions`` -> the sequence that contains its binding
        self._defined: dict[Any, list[Any]] = {}

    # -- queries -------------------------------------------------------------------------------

    def simplify(self, dim: Dim) -> Dim:
        """Return the canonical form of a dim."""
        return self.solver.simplify(dim)

    def number(self, dim: Dim) -> Any:
        """Return a literal dim as a Python int, any other dim unchanged."""
        return int(dim.value) if isinstance(dim, tirx.IntImm) else dim

    def settle(self, expr: Expr) -> Any:
        """Return the canonical form of an expression, or a Python number if it is constant."""
        if isinstance(expr, tirx.IntImm):
            return bool(expr.value) if str(expr.ty.dtype) == "bool" else int(expr.value)
        if str(expr.ty.dtype) == "bool":
            return self.decide(expr)
        return self.number(self.solver.simplify(expr))

    def decide(self, cond: Expr) -> Expr | bool:
        """Return True or False if the condition is proved or refuted, otherwise the condition."""
        known = self.solver.known(cond)
        return cond if known is None else known

    def dim(self, value: Any) -> Dim:
        """Return an element of a shape value as a canonical dim."""
        return i64(int(value)) if is_number(value) else self.solver.simplify(value)

    def same(self, a: Dim, b: Dim) -> bool:
        """Return whether two dims are proved equal."""
        return bool(self.solver.known_eq(a, b))

    def literal(self, dim: Dim) -> int | None:
        """Return the value of a dim that is proved constant, otherwise None."""
        if isinstance(dim, tirx.IntImm):
            return int(dim.value)
        return self.solver.const(dim)

    def where(self, what: str) -> str:
        """Return ``what`` with the operator and its source location, for messages."""
        place = self.span
        source = "" if place is None else f" at {place if place.implied else place.source}"
        return f"{self.operator}{source}: {what}"

    def require_eq(self, a: Dim, b: Dim, what: str) -> None:
        """Require that two dims are equal: proved, or guarded at run time."""
        for dim, cut in ((a, b), (b, a)):
            if (most := self.cut_at(dim, cut)) is not None:
                self.solver.require_le(dim, most, self.where(what))
                return
        self.solver.require_eq(a, b, self.where(what))

    def cut_at(self, dim: Dim, cut: Dim) -> Dim | None:
        """Return k if ``cut`` is ``min(dim, k)``, as for a slice of an axis of size k;
        otherwise None.
        """
        if isinstance(cut, tirx.Min) and not self.same(dim, cut):
            for one, other in ((cut.a, cut.b), (cut.b, cut.a)):
                if self.same(dim, one):
                    return other
        return None

    def static(self, dim: Dim, what: str) -> int:
        """Return the value of a dim that must be known at compile time.

        Raises:
            Unsupported: the dim is not constant.
        """
        value = self.literal(dim)
        if value is None:
            found = self.solver.name_of(dim)
            raise Unsupported(self.where(f"{what} must be known at compile time, found {found}"))
        return value

    def require_some(self, axes: Sequence[tuple[int, Dim]], wanted: Sequence[Dim]) -> None:
        """Require that the axes, which are read at literal positions, are not empty.

        An axis may be empty if a dim of the result, one of ``wanted``, is 0. Positions read from
        memory are guarded at the launch of the kernel (``codegen.plan.picks``).
        """
        if any(self.literal(d) == 0 for d in wanted):
            return
        for axis, dim in axes:
            nothing = [tirx.EQ(d, i64(0)) for d in wanted if not self.solver.known_le(i64(1), d)]
            where = self.where(f"axis {axis}")
            text = f"{where} is indexed but empty: {self.solver.name_of(dim)} is 0"
            self.solver.require(reduce(tirx.Or, nothing, dim >= 1), where, text)

    # -- emission ------------------------------------------------------------------------------

    @contextmanager
    def nested_in(self, outer: Sequence[list[Binding]]) -> Iterator[list[Binding]]:
        """Bind into a new sequence: the body of a branch or function.

        ``outer`` are the sequences whose variables the body can read: the open sequences for a
        branch, an empty list for a function.
        """
        saved, bindings, names = self.sequences, list[Any](), {**self._names}
        self.sequences = [*outer, bindings]
        self.nested += 1
        try:
            with self.solver.scope():
                yield bindings
        finally:
            self.nested -= 1
            self.sequences, self._names = saved, names

    def mark(self) -> Callable[[], None]:
        """Return a function that undoes all additions after this call: bindings of the open
        sequence, facts, guards, and the records of guarded sizes and bound symbols.
        """
        sequence = self.sequences[-1]
        length, forget = len(sequence), self.solver.mark()
        names = ("_read", "_names", "_roomy", "_sizes", "_made", "_defined")
        records = {name: copy(getattr(self, name)) for name in names}

        def undo() -> None:
            del sequence[length:]
            forget()
            vars(self).update(records)

        return undo

    def emit(self, call: Expr, dims: Sequence[Dim], dtype: str) -> Tensor:
        """Bind ``call`` to a fresh variable of a tensor type."""
        sizes = [self.simplify(d) for d in dims]
        self.require_sizes(sizes)
        ty = relax.TensorType([self._named(d) for d in sizes], dtype)
        self._define(ty.shape.values)
        self._require_room(ty.shape.values)
        return Tensor(tuple(ty.shape.values), dtype, self.bind(call, ty))

    def _named(self, dim: Dim) -> Dim:
        """Return ``dim``, or a symbol defined as ``dim`` if it has many symbols read from data.

        Formulas of later sizes then contain the symbol. Without it, a detection model that scales
        and pads its image would repeat the formulas of height and width for each feature map.
        """
        if not self._read or isinstance(dim, tirx.Var | tirx.IntImm):
            return dim
        if len(self._read.intersection(tirx.analysis.undefined_vars(dim))) < NAMED:
            return dim
        key = self.solver.key(dim)
        if key not in self._names:
            source = self.where("a size that depends on the data")
            self._names[key] = self.solver.define("size", dim, source)
            self._read.add(self._names[key])
        return self._names[key]

    def _define(self, dims: Sequence[Dim]) -> None:
        """Bind the defined symbols among ``dims`` that no visible sequence has bound."""
        for dim in dims if self.solver.definitions else ():
            for symbol in tirx.analysis.undefined_vars(dim):
                value = self.solver.definitions.get(symbol)
                if value is None or any(s is self._defined.get(symbol) for s in self.sequences):
                    continue
                self._define([value])
                self._defined[symbol] = self.sequences[-1]
                self.match(relax.ShapeExpr([value]), relax.ShapeType([symbol]))

    def require_sizes(self, dims: Sequence[Dim]) -> None:
        """Require that the dims of a result are non-negative: proved, or guarded at run time.

        Every result type is checked here. A symbol is the size of an array; other dims, such as
        ``n - 3``, come from shape arithmetic and may be negative. Inside a branch or a function
        this method adds no guard, because a call may not execute the body. There, the launch of the
        kernel has the guard (``codegen.plan.position``).

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
        """Add a guard that the size of a tensor does not overflow, if its dims are read from
        data.
        """
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
        text = self.where(f"a tensor of shape {show_shape(dims)} must have at most 2**47 elements")
        fits = tirx.all(*tests, total <= MOST_ELEMENTS)
        self.solver.guards.append(Guard(fits, text, tuple(names), text))

    def apply(self, name: str, *operands: Tensor | Number, dtype: str = "") -> Tensor:
        """Emit an element-wise operator on operands that broadcast; see :class:`Algebra`."""
        tensors = [x for x in operands if isinstance(x, Tensor)]
        kind = tensors[-1].dtype
        args = [x if isinstance(x, Tensor) else self.scalar(x, kind) for x in operands]
        exprs, dims = self.operands(args)
        return self.emit(getattr(R, name)(*exprs), dims, dtype or kind)

    def bind(self, call: Expr, ty: TVMType) -> Expr:
        """Bind ``call`` to a fresh variable of type ``ty``."""
        var = relax.Var(self._name(), ty, self._span())
        if call.ty.is_missing():
            relax.expr._update_type(call, ty)
        self.sequences[-1].append(relax.VarBinding(var, call))
        return var

    def match(self, expr: Expr, ty: TVMType) -> Any:
        """Emit ``match_cast``: bind the symbols of ``ty`` to the run-time shape of ``expr``."""
        var = relax.Var(self._name(), ty, self._span())
        self.sequences[-1].append(relax.MatchCast(var, expr, ty))
        return var

    def _name(self) -> str:
        return (self.operator or "v").replace(".", "_")

    def _span(self) -> Any:
        if self.span is None:
            return None
        source = tvm.ir.SourceName(self.span.source)
        line, column = self.span.line, self.span.column
        return tvm.ir.Span(source, line, line, column, column)

    def expr(self, tensor: Tensor) -> Expr:
        """Return the Relax expression of a tensor; a shape value is materialized in memory."""
        if tensor.expr is not None:
            return tensor.expr
        # A value materialized in one branch is not visible in the other.
        _, sequence, made = self._made.get(id(tensor), (None, None, UNSET))
        if not any(s is sequence for s in self.sequences):
            made = self._materialize(tensor)
            self._made[id(tensor)] = (tensor, self.sequences[-1], made)
        return made

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
            vector = self.emit(reshape_call(vector.stored, tensor.dims), tensor.dims, "int64")
        if tensor.dtype != "int64":
            cast = R.astype(vector.expr, tensor.dtype)
            vector = self.emit(cast, tensor.dims, tensor.dtype)
        return vector.stored

    def constant(self, array: np.ndarray) -> Tensor:
        """Return a literal tensor."""
        dtype = str(array.dtype)
        dims = tuple(i64(int(d)) for d in array.shape)
        return Tensor(dims, dtype, self.literals(array), constant=array)

    def elements(self, tensor: Tensor) -> np.ndarray | None:
        """Return the elements of a tensor that a rule needs at compile time, or None if unknown."""
        return tensor.constant

    def scalar(self, value: float, dtype: str) -> Tensor:
        """Return a literal of rank 0."""
        return self.constant(np.array(value, dtype=dtype))

    def require_integers(self, tensor: Tensor, what: str) -> None:
        """Check the type of an operand.

        Raises:
            TypeMismatch: the operand does not hold integers.
        """
        if "int" not in tensor.dtype:
            raise TypeMismatch(self.where(f"{what}: expected integers, found {tensor.dtype}"))

    # -- shapes --------------------------------------------------------------------------------

    def shape_arg(self, tensor: Tensor, what: str, limited: bool = True) -> list[Any]:
        """Return the elements of a 1-d shape tensor as dims; if they are not known at compile time,
        :meth:`read_numbers` returns them.
        """
        value = value_of(tensor)
        if value is not None:
            return list(value.reshape(-1))
        return self.read_numbers(tensor, what, limited)

    def read_numbers(self, tensor: Tensor, what: str, limited: bool = True) -> list[Expr]:
        """Return symbolic elements of an integer tensor; their values are read at run time.

        A symbol is never negative, so each element is the difference of two symbols, and one of the
        two is zero. With ``limited``, elements are guarded to be within 2**47, so that sums of
        sizes cannot overflow. Slice bounds, which are clipped, do not need the limit.

        Raises:
            TypeMismatch: the tensor does not hold integers.
        """
        count = self.static(product(tensor.dims), f"the number of elements of {what}")
        self.require_integers(tensor, what)
        if count == 0:
            return []
        numbers = self.reshape(tensor, [i64(count)]).expr
        if tensor.dtype != "int64":
            numbers = self.emit(R.astype(numbers, "int64"), [i64(count)], "int64").expr
        zero, least = (relax.const(np.int64(k), "int64") for k in (0, -MOST_NUMBER))
        # Clamp before the negation: the least int64 has no negation.
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
            text = self.where(f"{what} must be between -2**47 and 2**47")
            self.solver.guards.append(Guard(most, text, tuple(symbols), text))
        pairs = zip(symbols[:count], symbols[count:], strict=True)
        return [above - below for above, below in pairs]

    def size_arg(self, tensor: Tensor, what: str, least: int = 0) -> list[Any]:
        """Return the elements as ``shape_arg`` does, for sizes: a size read from data is
        guarded to be at least ``least``.
        """
        if value_of(tensor) is not None:
            return self.shape_arg(tensor, what)
        sizes = self.read_numbers(tensor, what)
        for size in sizes:
            message = self.where(f"{what} must be at least {least}")
            self.solver.require(size >= least, message, message)
        return [size.a for size in sizes]

    def reshape(self, x: Tensor, dims: Sequence[Dim]) -> Tensor:
        """Return ``x`` reshaped to ``dims`` with the same number of elements; a literal is
        folded.
        """
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
        """Require that a reshape to ``dims`` keeps the number of elements: proved, or guarded."""
        if self.solver.known_same_elements(list(x.dims), list(dims)):
            return
        self.require_eq(product(x.dims), product(dims), "a reshape must keep the element count")

    def broadcast_dims(self, shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
        """Return the common shape of operands under NumPy's rules, with guards where needed."""
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
        """Return ``x`` in a shape that Relax can broadcast to ``dims``.

        Literal ones and equal dims are unchanged. A dim that may be 1 at run time is broadcast
        explicitly. With ``full`` the result has exactly the shape ``dims``.
        """
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
        """Return Relax operands of an element-wise operator, and the shape of its result."""
        dims = self.broadcast_dims([a.dims for a in args])
        return [self.expr(self.broadcast(a, dims)) for a in args], dims

    def same_dtype(self, args: Sequence[Tensor]) -> str:
        """Return the common dtype of all operands.

        Raises:
            TypeMismatch: the dtypes differ.
        """
        dtypes = list(dict.fromkeys(a.dtype for a in args))
        if len(dtypes) > 1:
            found = " and ".join(dtypes)
            raise TypeMismatch(self.where(f"expected operands of the same dtype, found {found}"))
        return dtypes[0]

    def refuse_bools(self, args: Sequence[Tensor]) -> None:
        """Raise TypeMismatch for bool operands, whose differences and quotients are not defined."""
        if any(a.dtype == "bool" for a in args):
            raise TypeMismatch(self.where("expected numbers, found bool; cast it first"))

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return ``axis`` as a non-negative number; ``name`` is its name in a message.

        Raises:
            TypeMismatch: the axis is out of range.
        """
        if not -rank <= axis < rank:
            limits = f"expected {-rank} to {rank - 1}" if rank else "the operand has rank 0"
            raise TypeMismatch(self.where(f"{name} {axis} is out of range; {limits}"))
        return axis % rank


def _identical(a: Dim, b: Dim) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))


def product(dims: Sequence[Dim]) -> Dim:
    """Return the number of elements."""
    total: Dim = i64(1)
    for d in dims:
        total = total * d
    return total
