"""Vector accesses: a thread reads or writes adjacent elements, 16 bytes at a time.

A thread evaluates its elements one after another. If the offset of a read grows by one per lane,
and starts at a multiple of the number of lanes, one vector load fills a thread-local array, from
which the elements are read. Index arithmetic and element rules are the same as for single elements.

A vector access must be aligned to its size. Alignment of operands is checked at the launch
(:class:`Aligned`). Alignment of offsets is proved, or follows from facts about dims that are needs
of the plan (:meth:`Lanes.facts`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import PointerType, PrimType, TensorLoad

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.variant import Need
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import Block, i64, loaded, pointer, ramp, storage_dtype, view
from tvm_disc.tir.index import add, product, substitute
from tvm_disc.typing import Buffer, Expr

ACCESS_BYTES = 16
MOST_LANES = 8  # maximum elements per read of an operand of a contraction
MOST_FACTS = 4  # largest number of facts that a plan may require


@dataclass(frozen=True)
class Aligned(Need):
    """The need that operands and results are aligned to 16 bytes; tested at the launch."""


@dataclass(frozen=True)
class OnCapability(Need):
    """The need that the GPU has a compute capability, such as 90 for 9.0."""

    capability: int = 0


ALIGNED = Aligned(f"operands at multiples of {ACCESS_BYTES} bytes", tirx.const(True, "bool"), True)


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element in memory."""
    return max(1, int(tvm.DataType(storage_dtype(dtype)).bits) // 8)


def lanes_of_nodes(nodes: Sequence[Node], work: int) -> int:
    """Return the number of elements per thread.

    It is the number of elements of the narrowest type in 16 bytes. It is halved, but not below 4,
    while the elements of the widest type take more than 32 bytes, or a thread executes more than
    256 operations (``work`` per element).
    """
    sizes = [item_bytes(n.dtype) for n in nodes]
    lanes = ACCESS_BYTES // min(sizes)
    while lanes > 4 and (lanes * max(sizes) > 2 * ACCESS_BYTES or lanes * work > 256):
        lanes //= 2
    return max(lanes, 2)


def lanes_of_operand(group: Group, source: Node) -> int:
    """Return the elements per read: 16 bytes of the widest parameter that ``source`` reads."""
    reach, widest = [source], 1
    while reach:
        node = reach.pop()
        if node in group.params:
            widest = max(widest, item_bytes(node.dtype))
        else:
            reach += node.inputs
    return min(MOST_LANES, ACCESS_BYTES // widest)


def stand_in(node: Node) -> Buffer:
    """Return a buffer for code that is emitted only to analyze its accesses."""
    return view("x", pointer("x", node.dtype), node.dtype)


def access_lanes(dtype: str, lanes: int) -> int:
    """Return the number of elements of one access; 1 if CUDA has no vector type for them."""
    dtype = storage_dtype(dtype)
    width = min(lanes, ACCESS_BYTES // item_bytes(dtype))
    known = dtype.startswith(("float32", "float64", "int", "uint")) or width == 8
    return width if known and width > 1 else 1


def move(
    block: Block, dtype: str, to: Buffer, at: Expr, source: Buffer, begin: Expr, count: int
) -> None:
    """Emit a copy of ``count`` elements of ``dtype``; both offsets are multiples of ``count``."""
    width = access_lanes(dtype, count)
    for k in range(0, count, width):
        here, there = ((ramp(add(x, k), width) if width > 1 else add(x, k)) for x in (at, begin))
        block.store(to, here, source[there])


def address(buffer: Buffer, index: Expr) -> Expr:
    """Return the address of an element of a buffer."""
    kind = PointerType(PrimType(str(buffer.dtype)), buffer.scope())
    return tirx.call_intrin(kind, "tirx.address_of", buffer[index])


def multiple_need(expr: Expr, lanes: int) -> Need:
    """Return the need that a size is a multiple of ``lanes``."""
    return Need(
        f"{show(expr)} % {lanes} == 0", tirx.EQ(tirx.floormod(i64(expr), i64(lanes)), i64(0))
    )


class Lanes:
    """Evaluates ``count`` adjacent elements of one thread.

    Args:
        whole: expressions that are multiples of ``count`` whenever this code runs.
        begins: variables that are multiples of ``count``.
        symbols: dims over which facts may be required.
        flat: operands that are read by their row-major offset.
    """

    def __init__(
        self,
        low: Lowering,
        count: int,
        whole: Sequence[Expr] = (),
        begins: Sequence[Expr] = (),
        symbols: Sequence[Expr] = (),
        flat: Container[Node] = (),
    ) -> None:
        self.low, self.count, self.number = low, count, 0
        self.whole, self.begins, self.symbols, self.flat = whole, begins, symbols, flat
        self.vars = [tirx.Var(f"lane{k}", "int64") for k in range(count)]
        for k, var in enumerate(self.vars):
            low.block.define(var, i64(k))
        self.wanted: list[Expr] = []  # sizes that vector reads require to be multiples of ``count``
        self.together, self.single = 0, 0  # number of vector reads, and of scalar reads
        self._cells: list[tuple[Buffer, Expr, Buffer]] = []

    @contextmanager
    def reading(self, buffers: dict[Node, Buffer]) -> Iterator[None]:
        """Within the context, read operands through :meth:`load`."""
        for node, buffer in buffers.items():
            self.low.bind_reader(node, self._reader(node, buffer))
        try:
            yield
        finally:
            for node, buffer in buffers.items():
                self.low.bind_buffer(node, buffer)

    def _reader(self, node: Node, buffer: Buffer) -> Any:
        def read(index: Sequence[Expr]) -> Expr:
            by_place = node in self.flat
            offset = index[0] if by_place else self.low.space.join(index, node.shape)
            found = self.load(buffer, offset, product(node.shape))
            return loaded(buffer[offset] if found is None else found, node.dtype)

        return read

    @property
    def lane(self) -> Expr:
        """The current lane, a variable."""
        return self.vars[self.number]

    def each(self) -> Iterator[Expr]:
        """Yield the lanes in order; the yielded one is the current lane."""
        for number in range(self.count):
            self.number = number
            yield self.lane

    def load(self, buffer: Buffer, offset: Expr, size: Expr) -> Expr | None:
        """Return the current lane's element of a vector load; None if it needs a scalar load."""
        step = self.step(offset)
        if step == 0 or self.count == 1:
            return None
        first = offset if self.number == 0 else substitute(offset, {self.lane: self.vars[0]})
        for other, start, cell in self._cells:
            if other.same_as(buffer) and tvm_ffi.structural_equal(start, first):
                return cell[i64(self.number)]
        if self.number or step != 1 or not self._begins_whole(offset, size):
            self.single += self.number == 0
            return None
        self.together += 1
        cell = self._fill(buffer, substitute(offset, {self.lane: i64(0)}), size)
        self._cells.append((buffer, first, cell))
        return cell[i64(0)]

    def _begins_whole(self, offset: Expr, size: Expr) -> bool:
        facts = self.facts(substitute(offset, {self.lane: i64(0)}))
        if facts is not None and self.low.in_guard:
            # In a guard, all elements of a vector must be in bounds, or all out of bounds: the size
            # of the operand must be a multiple, too.
            more = None if _reads_memory(offset) else self.facts(i64(size))
            facts = None if more is None else [*facts, *more]
        if facts is None:
            return False
        self.wanted += facts
        return True

    def _fill(self, buffer: Buffer, begin: Expr, size: Expr) -> Buffer:
        low, block = self.low, self.low.block
        cell = block.alloc("cell", self.count, str(buffer.dtype))
        low.resolve([begin])
        begin = block.bind("begin", begin)
        if not low.in_guard:
            self.copy(cell, i64(0), buffer, begin)
            return cell
        with block.when(tirx.And(begin >= 0, begin < i64(size))):
            self.copy(cell, i64(0), buffer, begin)
        return cell

    def copy(self, to: Buffer, at: Expr, source: Buffer, begin: Expr) -> None:
        """Emit vector copies of ``count`` elements; both offsets are multiples of ``count``."""
        width = access_lanes(str(to.dtype), self.count)
        to_, from_ = (self._parts(x) for x in (at, begin))
        for k in range(0, self.count, width):
            if width == 1:
                self.low.block.store(to, to_ + k, source[from_ + k])
            else:
                self.low.block.store(to, ramp(to_ + k, width), source[ramp(from_ + k, width)])

    def put(self, to: Buffer, at: Expr, source: Buffer) -> None:
        """Emit vector stores of a thread-local array to memory; ``at`` is a multiple of ``count``.

        NVRTC often splits a copy from a thread-local array into stores of single elements, so 16
        bytes are stored by an instruction in inline assembly.
        """
        width = access_lanes(str(to.dtype), self.count)
        if width * item_bytes(str(to.dtype)) != ACCESS_BYTES:
            self.copy(to, at, source, i64(0))
            return
        for k in range(0, self.count, width):
            where = (address(to, at + k), address(source, i64(k)))
            self.low.block.eval(tirx.call_extern("void", "disc_store_16", *where))

    def _parts(self, begin: Expr) -> Expr:
        """Return a multiple of ``count`` in a form in which TVM recognizes it."""
        if isinstance(begin, tirx.IntImm):
            return begin
        shift = i64(self.count.bit_length() - 1)
        return self.low.block.bind("part", tirx.shift_right(begin, shift)) * self.count

    # -- properties of an offset -----------------------------------------------------------------

    def step(self, expr: Expr) -> int | None:
        """Return the increase of an expression from lane to lane; None if it is unknown."""
        if isinstance(expr, tirx.Var):
            if expr.same_as(self.lane):
                return 1
            return None if self.low.space.depends_on(expr, self.lane) else 0
        if isinstance(expr, tirx.IntImm):
            return 0
        if isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul):
            a, b = self.step(expr.a), self.step(expr.b)
            if a is None or b is None:
                return None
            if not isinstance(expr, tirx.Mul):
                return a + b if isinstance(expr, tirx.Add) else a - b
            sides = ((a, expr.b), (b, expr.a))
            if a == b == 0:
                return 0
            return next((s * int(o.value) for s, o in sides if isinstance(o, tirx.IntImm)), None)
        names = tirx.analysis.undefined_vars(expr)
        return 0 if all(self.step(v) == 0 for v in names) else None

    def facts(self, expr: Expr) -> list[Expr] | None:
        """Return the sizes that must be multiples of ``count`` so that ``expr`` is a multiple.

        None if multiples of sizes are not enough.
        """
        if isinstance(expr, tirx.IntImm):
            return [] if int(expr.value) % self.count == 0 else None
        if isinstance(expr, tirx.Add | tirx.Sub):
            a, b = self.facts(expr.a), self.facts(expr.b)
            return None if a is None or b is None else [*a, *b]
        if isinstance(expr, tirx.Mul):
            sides = [s for s in (self.facts(expr.a), self.facts(expr.b)) if s is not None]
            return min(sides, key=len, default=None)
        if isinstance(expr, tirx.Var) and self._is_multiple(expr):
            return []
        part = self.low.space.last_part(expr) if isinstance(expr, tirx.Var) else None
        if part is not None:
            origin, dim = self.facts(part[0]), self.facts(i64(part[1]))
            return None if origin is None or dim is None else [*origin, *dim]
        return self._fact(expr)

    def _is_multiple(self, var: Expr) -> bool:
        return any(var.same_as(b) for b in self.begins)

    def _fact(self, expr: Expr) -> list[Expr] | None:
        """Return [size] if the size must be a multiple of ``count``; [] if this is proved.

        None if it is not an expression over ``symbols``.
        """
        names = [expr] if isinstance(expr, tirx.Var) else tirx.analysis.undefined_vars(expr)
        if _reads_memory(expr) or not all(any(v.same_as(s) for s in self.symbols) for v in names):
            return None
        if any(tvm_ffi.structural_equal(expr, w) for w in self.whole):
            return []
        return [] if self.low.solver.known_divides(self.count, expr) else [expr]


def distinct(exprs: Sequence[Expr]) -> list[Expr]:
    """Return the expressions without duplicates."""
    found: list[Expr] = []
    for expr in exprs:
        if not any(tvm_ffi.structural_equal(expr, other) for other in found):
            found.append(expr)
    return found


def _reads_memory(expr: Expr) -> bool:
    found = False

    def look(node: Expr) -> None:
        nonlocal found
        found = True

    tvm_ffi.structural_walk(expr, (TensorLoad, look))
    return found


__all__ = [
    "ACCESS_BYTES",
    "ALIGNED",
    "Aligned",
    "Lanes",
    "OnCapability",
    "access_lanes",
    "address",
    "distinct",
    "item_bytes",
    "lanes_of_nodes",
    "lanes_of_operand",
    "move",
    "multiple_need",
    "stand_in",
]
