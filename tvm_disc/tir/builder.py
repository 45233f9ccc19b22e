"""Builder of TIR statements: the only module in which templates touch statement constructors.

A :class:`Block` collects statements in program order and opens nested scopes with ``with``::

    b = Block()
    with b.loop("i", n) as i:
        b.store(y, i, x[i] * 2.0)
    func = prim_func([x_ptr, y_ptr, n], b.stmt())

All buffers are flat (one index, in elements) and declared as aligned to one element only. A
caller's tensor may start at any address, and for other declarations TVM emits 64-byte aligned loads
without a check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import PointerType, PrimType
from tvm.tirx import stmt as S

from tvm_disc.tir.bounds import KnownBounds
from tvm_disc.typing import Buffer, Expr, PrimFunc, Size, Stmt, Var

INDEX = "int64"
BFLOAT16 = "bfloat16"
UNBOUNDED = 1 << 60  # declared extent of a flat view, whose size is unknown
LINE_BYTES = 64  # bytes of a cache line
STACK_LIMIT_BYTES = 1008  # TVM promotes smaller constant allocations to the stack


def i64(value: int | Expr) -> Expr:
    """Return ``value`` as an int64 expression; an int64 expression is returned unchanged.

    Sizes are Python ints if a dim is known and expressions otherwise. TVM converts Python ints to
    int32 if both operands are ints. A select between an int32 and an int64 is then rejected late,
    by LLVM.

    Raises:
        TypeError: ``value`` is an expression of a different type.
    """
    if isinstance(value, int):
        return _index(int(value))
    if element_dtype(value) != INDEX:
        raise TypeError(f"a size or an index must be {INDEX}, found {dtype_of(value)}: {value}")
    return value


@lru_cache(maxsize=4096)
def _index(value: int) -> Expr:
    """Return a literal, one object for equal values: a third of all TIR nodes are literals."""
    return tirx.IntImm(INDEX, value)


def const(value: float | int | bool, dtype: str) -> Expr:
    """Return a literal of ``dtype``; for a vector dtype such as ``float32x16``, in every lane."""
    element, _, lanes = dtype.partition("x")
    if element == BFLOAT16:
        value, element = _as_bfloat16(value), value_dtype(element)
    literal = tirx.const(value, element)
    return tirx.Broadcast(literal, int(lanes)) if lanes else literal


def dtype_of(expr: Expr) -> str:
    """Return the type of a primitive expression, such as ``float32`` or ``float32x16``."""
    return str(expr.ty.dtype)


def lanes_of(expr: Expr) -> int:
    """Return the number of lanes of an expression; 1 for scalars."""
    return int(dtype_of(expr).partition("x")[2] or 1)


def element_dtype(expr: Expr) -> str:
    """Return the type of one lane of an expression."""
    return dtype_of(expr).partition("x")[0]


def same_lanes(*exprs: Expr) -> tuple[Expr, ...]:
    """Return the expressions with scalars broadcast to the widest vector among them."""
    widest = max(lanes_of(e) for e in exprs)
    return tuple(wide(e, widest) for e in exprs)


def wide(expr: Expr, lanes: int) -> Expr:
    """Broadcast a scalar to ``lanes`` lanes; a vector is returned unchanged."""
    return tirx.Broadcast(expr, lanes) if lanes > 1 and lanes_of(expr) == 1 else expr


def with_lanes(dtype: str, like: Expr) -> str:
    """Return ``dtype`` with the lanes of ``like``."""
    lanes = lanes_of(like)
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def is_nan(x: Expr) -> Expr:
    """Return whether a float is NaN.

    ``x != x`` does not work: TVM lowers NE to "ordered and unequal", which is false for NaN.
    """
    return tirx.Not(tirx.EQ(x, x))


def ramp(base: Expr, lanes: int) -> Expr:
    """Return the ``lanes`` consecutive indices that start at ``base``."""
    return tirx.Ramp(i64(base), i64(1), lanes)


def lane_index(width: int) -> Expr:
    """Return the indices 0, 1, ... ``width - 1`` as a vector; the scalar 0 if ``width`` is 1."""
    return ramp(i64(0), width) if width > 1 else i64(0)


def first_lanes(count: Expr, lanes: int) -> Expr:
    """Return a mask that enables the first ``count`` of ``lanes`` lanes."""
    steps = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), lanes)
    limit = tirx.Cast("int32", tirx.min(count, i64(lanes)))
    return tirx.LT(steps, tirx.Broadcast(limit, lanes))


def truth(value: Expr) -> Expr:
    """Return whether numbers differ from 0, lane by lane; NaN counts as different.

    Integer vectors are compared as floats, which LLVM converts back to integers: TVM's analyzer
    treats an integer comparison as a fact about scalars and fails on vectors. The value is read by
    one comparison only: with two, the instruction count of a chain of these tests would grow
    exponentially.
    """
    if lanes_of(value) > 1 and "float" not in element_dtype(value):
        value = tirx.Cast(with_lanes("float32", value), value)
    zero = const(0, dtype_of(value))
    if "float" in element_dtype(value):
        return tirx.Not(tirx.EQ(value, zero))  # TVM's NE is "ordered and unequal"
    return tirx.NE(value, zero)


def element_pointer(buffer: Buffer, index: Size) -> Expr:
    """Return the address of one element."""
    kind = PointerType(PrimType(str(buffer.dtype)), "global")
    return tirx.call_intrin(kind, "tirx.address_of", buffer[i64(index)])


def base_address(buffer: Buffer) -> Expr:
    """Return the start address of a buffer as an integer."""
    return tirx.reinterpret(INDEX, element_pointer(buffer, i64(0)))


def either(condition: Expr, here: Expr, there: Expr) -> Expr:
    """Return ``here`` if ``condition`` holds, else ``there``; both are addresses."""
    pick = tvm.ir.Op.get("prim.if_then_else")
    return tvm.ir.Call(pick, [condition, here, there], ret_ty=here.ty)


def prefetch(buffer: Buffer, index: Expr, to_write: bool, near: bool = True) -> Expr:
    """Return a prefetch of the cache line of an element, for reading or writing.

    The element may be out of bounds. ``near`` prefetches into the first-level cache too, otherwise
    only into the second-level and later caches.
    """
    kind, level, data = (tirx.IntImm("int32", k) for k in (int(to_write), 3 if near else 2, 1))
    where = element_pointer(buffer, index)
    return tirx.call_llvm_intrin("void", "llvm.prefetch", where, kind, level, data)


def masked_load(buffer: Buffer, index: Size, mask: Expr) -> Expr:
    """Return a load of consecutive elements from ``index``; lanes disabled by ``mask`` are zero.

    Disabled lanes do not access memory, so the vector may extend past the end of the buffer.
    """
    lanes = lanes_of(mask)
    dtype = f"{buffer.dtype}x{lanes}"
    zero = const(0, dtype)
    return tirx.call_llvm_intrin(
        dtype, "llvm.masked.load", element_pointer(buffer, index), mask, zero
    )


def pointer(name: str, dtype: str) -> Var:
    """Return a pointer parameter to elements of ``dtype``."""
    return tirx.Var(name, PointerType(PrimType(storage_dtype(dtype)), "global"))


def storage_dtype(dtype: str) -> str:
    """Return the type that holds a dtype in memory: int8 for bool, uint16 for bfloat16."""
    return {"bool": "int8", BFLOAT16: "uint16"}.get(dtype, dtype)


def value_dtype(dtype: str) -> str:
    """Return the type in which a kernel computes values of ``dtype``: float32 for bfloat16."""
    return "float32" if dtype == BFLOAT16 else dtype


def loaded(element: Expr, dtype: str) -> Expr:
    """Convert ``element``, as read from memory, to a value of ``dtype``."""
    if dtype == "bool":
        return truth(element)
    if dtype != BFLOAT16:
        return element
    bits: Expr = tirx.Cast(with_lanes("uint32", element), element)
    bits = tirx.shift_left(bits, const(16, dtype_of(bits)))
    return tirx.reinterpret(with_lanes("float32", element), bits)


def stored(value: Expr, dtype: str) -> Expr:
    """Convert a value of ``dtype`` to its form in memory; the inverse of :func:`loaded`."""
    if dtype == "bool":
        return tirx.Cast(with_lanes("int8", value), value)
    if dtype != BFLOAT16:
        return value
    bits = tirx.reinterpret(with_lanes("uint32", value), value)
    return tirx.Cast(with_lanes("uint16", value), tirx.shift_right(bits, const(16, dtype_of(bits))))


def rounded_bfloat16(value: Expr) -> Expr:
    """Round a float32 to the nearest bfloat16, ties to even; NaN stays NaN."""
    whole = with_lanes("uint32", value)
    wide, bits = tirx.Var("wide", value.ty), tirx.Var("bits", whole)
    odd = tirx.bitwise_and(tirx.shift_right(bits, const(16, whole)), const(1, whole))
    up = tirx.bitwise_and(bits + odd + const(0x7FFF, whole), const(0xFFFF0000, whole))
    # NaN is not rounded: a carry from its payload into the exponent could produce a number.
    number = wide <= const(float("inf"), dtype_of(value))
    kept = tirx.reinterpret(dtype_of(value), tirx.Select(number, up, const(0x7FC00000, whole)))
    return tirx.Let(wide, value, tirx.Let(bits, tirx.reinterpret(whole, wide), kept))


def _as_bfloat16(value: float) -> float:
    """Round a Python float as :func:`rounded_bfloat16` does."""
    bits = int(np.float32(value).view(np.uint32))
    if not np.isnan(value):
        bits = (bits + (bits >> 16 & 1) + 0x7FFF) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def index_var(name: str) -> Var:
    """Return an int64 variable."""
    return tirx.Var(name, INDEX)


def scalar_var(name: str, dtype: str) -> Var:
    """Return a scalar variable of ``dtype``."""
    return tirx.Var(name, dtype)


def _flat(elems: int, dtype: str, name: str, **more: object) -> Buffer:
    """Return a buffer of ``elems`` contiguous elements, without TVM's layout description."""
    return tirx.decl_buffer((i64(elems),), dtype, name=name, layout=None, **more)


def view(name: str, data: Expr, dtype: str) -> Buffer:
    """Return a flat, element-aligned buffer over ``data``; the caller declares it in a block."""
    dtype = storage_dtype(dtype)
    align = max(1, tvm.DataType(dtype).bits // 8)
    return _flat(UNBOUNDED, dtype, name, data=data, data_alignment=align)


def contains_let(expr: Expr) -> bool:
    """Return whether an expression contains a ``Let``."""
    found = False

    def look(node: Expr) -> None:
        nonlocal found
        found = True

    tvm_ffi.structural_walk(expr, (tirx.Let, look))
    return found


def reads(expr: Expr, name: Expr) -> int:
    """Return how many times an expression reads a variable."""
    found = 0

    def look(var: Expr) -> None:
        nonlocal found
        found += bool(var.same_as(name))

    tvm_ffi.structural_walk(expr, (tvm.ir.Var, look))
    return found


def byte_offset(data: Expr, offset_bytes: Expr | int, dtype: str) -> Expr:
    """Return ``data`` plus an offset in bytes, as a pointer to elements of ``dtype``."""
    kind = PointerType(PrimType(storage_dtype(dtype)), "global")
    return tirx.call_intrin(kind, "tirx.handle_add_byte_offset", data, i64(offset_bytes))


def _is_float(value: Expr) -> bool:
    return str(getattr(value.ty, "dtype", "")).startswith("float")


_LEAVES = (tirx.IntImm, tirx.FloatImm, tirx.Var, tvm.ir.TensorLoad)


class Block:
    """Statements in program order, with nested scopes.

    Invariant: ``_frames[-1]`` is the innermost open scope; a closed scope has become one statement
    of its parent.
    """

    def __init__(self) -> None:
        self._frames: list[list[Stmt]] = [[]]
        self._bounds = KnownBounds()

    def add(self, stmt: Stmt) -> None:
        """Append a finished statement."""
        self._frames[-1].append(stmt)

    def eval(self, expr: Expr) -> None:
        """Append an expression that is evaluated for its side effect."""
        self.add(S.Evaluate(expr))

    def bind(self, name: str, value: Size) -> Expr:
        """Emit ``let name = value`` and return the variable; literals and variables are returned
        unchanged.
        """
        if isinstance(value, int):
            return i64(value)
        if isinstance(value, tirx.IntImm | tirx.FloatImm | tirx.Var):
            return value
        whole = isinstance(value, tirx.Let)
        value = self._shortened(self.flatten(value))
        if isinstance(value, tirx.IntImm | tirx.Var):
            return value
        if str(getattr(value.ty, "dtype", "")).startswith("boolx"):
            # TVM's analyzer cannot bind a vector of bools, so it is stored as int8.
            return tirx.NE(
                self._by_memory(name, tirx.Cast(with_lanes("int8", value), value)),
                const(0, with_lanes("int8", value)),
            )
        if whole or _is_float(value) or contains_let(value):
            return self.number(name, value)
        return self._bound(name, value, value)

    def _bound(self, name: str, value: Expr, emitted: Expr) -> Expr:
        """Emit ``let name = emitted``, whose bounds are those of ``value``."""
        var = tirx.Var(name, value.ty)
        self.add(S.Bind(var, emitted))
        self._bounds.define(var, value)
        return var

    def _shortened(self, value: Expr) -> Expr:
        """Return a literal if the bounds of ``value`` determine it, else ``value``."""
        least, most = self._bounds.of(value)
        if least == most and dtype_of(value) == INDEX:
            return i64(int(least))
        return self._bounds.settled(value)

    def number(self, name: str, value: Expr) -> Expr:
        """Store ``value`` in a stack cell and return a variable that is loaded from the cell.

        TVM's analyzer substitutes a variable by its definition each time it visits a statement: a
        chain in which each value is used twice takes 2^n steps, and nested quotients, minima and
        products take minutes. The analyzer does not substitute loads from memory. LLVM's mem2reg
        removes the cell.
        """
        value = self._shortened(value)
        if isinstance(value, tirx.IntImm | tirx.FloatImm | tirx.Var):
            return value
        kept = not isinstance(value, _LEAVES)
        return self._bound(name, value, self._by_memory(name, value) if kept else value)

    def _by_memory(self, name: str, value: Expr) -> Expr:
        cell = self.alloc(name, lanes_of(value), element_dtype(value))
        at = lane_index(lanes_of(value))
        self.store(cell, at, value)
        return cell[at]

    def flatten(self, value: Expr) -> Expr:
        """Emit the ``Let`` expressions at the root of ``value`` as statements; return the
        remaining body.
        """
        while isinstance(value, tirx.Let):
            inner = self.flatten(value.value)
            kept = _is_float(inner) and not isinstance(inner, _LEAVES)
            self.add(S.Bind(value.var, self._by_memory("let", inner) if kept else inner))
            value = value.body
        return value

    def define(self, var: Var, value: Expr) -> None:
        """Emit ``let var = value`` for a variable that exists already."""
        self.add(S.Bind(var, value))

    def declare(self, name: str, data: Expr, dtype: str) -> Buffer:
        """Declare a flat view of ``data``."""
        buf = view(name, data, dtype)
        self.add(S.DeclBuffer(buf, data=data))
        return buf

    def alloc(self, name: str, elems: int, dtype: str) -> Buffer:
        """Allocate a small array on the stack, of at most ``STACK_LIMIT_BYTES`` bytes."""
        size_bytes = elems * max(1, tvm.DataType(dtype).bits // 8)
        if size_bytes > STACK_LIMIT_BYTES:
            raise ValueError(f"{name}: {size_bytes} bytes do not fit the stack budget")
        buf = _flat(elems, dtype, name)
        self.add(S.AllocBuffer(buf))
        return buf

    def stack(self, name: str, size_bytes: int, align: int) -> Buffer:
        """Allocate bytes on the stack, even if TVM would allocate so many bytes on the heap."""
        kept = {"disable_lower_builtin": tirx.IntImm("bool", 1)}
        buf = _flat(size_bytes, "int8", name, data_alignment=align)
        self.add(S.AllocBuffer(buf, kept))
        return buf

    def store(self, buf: Buffer, index: Expr | int, value: Size) -> None:
        """Emit ``buf[index] = value``."""
        self.add(S.BufferStore(buf, value, [i64(index)]))

    def masked_store(self, buf: Buffer, index: Expr | int, value: Expr, mask: Expr) -> None:
        """Store the lanes of ``value`` for which ``mask`` holds at consecutive elements."""
        where = element_pointer(buf, i64(index))
        self.eval(tirx.call_llvm_intrin("void", "llvm.masked.store", value, where, mask))

    def fetch(
        self, buf: Buffer, index: Expr, elems: int, to_write: bool, near: bool = True
    ) -> None:
        """Prefetch the cache lines of ``elems`` elements from ``index`` on."""
        step = LINE_BYTES // max(1, tvm.DataType(buf.dtype).bits // 8)
        for k in range(0, elems, step):
            self.eval(prefetch(buf, index + k, to_write, near))

    def ret(self, value: Expr) -> None:
        """Return ``value`` from the function."""
        self.add(S.Return(value))

    @contextmanager
    def loop(
        self,
        name: str,
        extent: Expr | int,
        begin: Expr | int = 0,
        kind: str = "serial",
        annotations: dict[str, Any] | None = None,
    ) -> Iterator[Expr]:
        """Emit ``for name in range(begin, begin + extent)``; ``kind`` names a ForKind of TVM.

        A serial loop of one iteration is its body, with ``begin`` in place of the variable.
        """
        if kind == "serial" and not annotations and _is_one(extent):
            yield self.bind(name, begin)
            return
        var = index_var(name)
        first, times = self._bounds.of(i64(begin)), self._bounds.of(i64(extent))
        self._bounds.limit(var, (first[0], first[1] + times[1] - 1))
        with self._scope() as body:
            yield var
        kinds = S.ForKind
        self.add(
            S.For(
                var,
                i64(begin),
                i64(extent),
                getattr(kinds, kind.upper()),
                _seq(body),
                annotations=annotations,
            )
        )

    @contextmanager
    def loop_while(self, cond: Expr) -> Iterator[None]:
        """Emit ``while cond``; the context is the loop's body."""
        with self._scope() as body:
            yield
        self.add(S.While(cond, _seq(body)))

    @contextmanager
    def when(self, cond: Size) -> Iterator[None]:
        """Emit ``if cond``; the context is the then branch."""
        known = const(cond, "bool") if isinstance(cond, int) else self._bounds.settled(cond)
        with self._scope() as body, self._bounds.assuming(known):
            yield
        self.add(S.IfThenElse(known, _seq(body), None))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Open the else branch of the latest :meth:`when` in this scope."""
        last = self._frames[-1].pop()
        with self._scope() as body, self._bounds.assuming(last.condition, holds=False):
            yield
        self.add(S.IfThenElse(last.condition, last.then_case, _seq(body)))

    @contextmanager
    def _scope(self) -> Iterator[list[Stmt]]:
        frame: list[Stmt] = []
        self._frames.append(frame)
        try:
            yield frame
        finally:
            self._frames.pop()

    def stmt(self) -> Stmt:
        """Return everything collected so far as one statement."""
        return _seq(self._frames[0])


def _is_one(extent: Size) -> bool:
    value = extent.value if isinstance(extent, tirx.IntImm) else extent
    return isinstance(value, int) and value == 1


def _seq(stmts: Sequence[Stmt]) -> Stmt:
    stmts = [taken for stmt in stmts for taken in _reached(stmt)]
    if not stmts:
        return S.Evaluate(tirx.IntImm("int32", 0))
    return stmts[0] if len(stmts) == 1 else S.SeqStmt(list(stmts))


def _reached(stmt: Stmt) -> list[Stmt]:
    """Return the statements that replace ``stmt`` after dead branches and empty loops are removed.

    Conditions may be constant because of facts: a kernel that is only called for at least eight
    columns needs no branch for fewer columns.
    """
    if isinstance(stmt, S.For) and isinstance(stmt.extent, tirx.IntImm) and stmt.extent.value < 1:
        return []
    if not isinstance(stmt, S.IfThenElse):
        return [stmt]
    if not isinstance(stmt.condition, tirx.IntImm):
        return [stmt]
    side = stmt.then_case if stmt.condition.value else stmt.else_case
    if side is None:
        return []
    return list(side.seq) if isinstance(side, S.SeqStmt) else [side]


def call(func: Any, *args: Any) -> Expr:
    """Return a call of a private function of the same module; its value is an int32 status."""
    return tvm.ir.Call(func, list(args), ret_ty=PrimType("int32"))


def prim_func(
    params: Sequence[Var], body: Stmt, attrs: dict[str, object] | None = None
) -> PrimFunc:
    """Return a private TIR function over raw pointers and scalars that returns an int32 status."""
    body = S.SeqStmt([body, S.Return(tirx.IntImm("int32", 0))])
    func = tirx.PrimFunc(list(params), body, PrimType("int32"))
    func = func.with_attr("tirx.noalias", True)
    for key, value in (attrs or {}).items():
        func = func.with_attr(key, value)
    return func


class KernelFunction:
    """A function of a module under construction: ``(pointers..., sizes...)``.

    ``types`` are the element types of the pointers by name, ``sizes`` the names of the other
    parameters.
    """

    def __init__(self, types: Mapping[str, str], sizes: Sequence[str]) -> None:
        self.block, self._types = Block(), types
        self.pointers = {n: pointer(n, kind) for n, kind in types.items()}
        self._sizes = [index_var(n) for n in sizes]
        self.sizes: dict[str, Expr] = dict(zip(sizes, self._sizes, strict=True))

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """Return the pointers as buffers, which are declared where this is first read."""
        types = self._types
        return {n: self.block.declare(f"{n}_", p, types[n]) for n, p in self.pointers.items()}

    def finish(self) -> PrimFunc:
        """Return the TIR function, whose pointers may alias."""
        params = [*self.pointers.values(), *self._sizes]
        return prim_func(params, self.block.stmt()).with_attr("tirx.noalias", False)
