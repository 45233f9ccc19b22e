"""Lowering of graph nodes to scalar expressions: the value of a node at an index.

A kernel is a loop nest that evaluates its outputs. Every producer inside the group is a function of
an index (an *index lambda*). Transposes, reshapes, slices, gathers and broadcasts are therefore
changes of index and never copies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.schedules.elements import ELEMENTS
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import (
    Block,
    const,
    element_dtype,
    i64,
    lanes_of,
    loaded,
    masked_load,
    same_lanes,
    stored,
    truth,
    value_dtype,
    with_lanes,
)
from tvm_disc.tir.index import IndexSpace
from tvm_disc.tir.llvm_ops import emitting_for
from tvm_disc.tir.non_temporal import PastCaches
from tvm_disc.typing import Buffer, Expr

Index: TypeAlias = Sequence[Expr]
Reader: TypeAlias = Callable[[Index], Expr]


def _is_truth_of_variable(value: Expr) -> bool:
    """Return whether ``value`` is :func:`truth` of a variable that holds floats."""
    test = value.a if isinstance(value, tirx.Not) else None
    return isinstance(test, tirx.EQ) and isinstance(test.a, tirx.Var)


class Lowering:
    """Evaluates nodes inside one function body.

    Invariant: a value is bound to a variable only in a scope where it is needed unconditionally.
    A load in a guarded arm may be out of bounds outside that arm. So it is evaluated either in an
    expression, in which nothing is bound or cached (:meth:`guarded`), or by statements under a
    condition.
    """

    def __init__(self, block: Block, space: IndexSpace, solver: Solver) -> None:
        self.block = block
        self.space = space
        self.solver = solver
        self._readers: dict[Node, Reader] = {}
        self._items: dict[Node, tuple[Expr, Expr]] = {}  # see ``bind_item``
        self._scopes: list[dict[tuple[object, ...], Expr]] = [{}]
        self._resolved: list[set[object]] = [set()]
        self._guards = 0
        self._mask: Expr | None = None
        self._equal_dims: Container[tuple[Node, int]] = ()
        # non-temporal stores of results, or None for plain stores
        self.past: PastCaches | None = None
        # all index placeholders that have a definition, in order of definition
        self.defined: list[Any] = []
        # receives the offset of each load; for templates that analyze a group before they emit code
        self.on_load: Callable[[Expr], None] = lambda offset: None

    def bind_buffer(self, node: Node, buffer: Buffer) -> None:
        """Make reads of ``node`` load from its compact row-major ``buffer``."""

        def read(index: Index) -> Expr:
            return self.load(buffer, self.space.join(index, node.shape), node.dtype)

        self._readers[node] = read

    def bind_reader(self, node: Node, reader: Reader) -> None:
        """Make reads of ``node`` call ``reader``."""
        self._readers[node] = reader

    def drop_reader(self, node: Node) -> None:
        """Remove the reader of ``node``, so that it is computed again."""
        self._readers.pop(node, None)

    def bind_item(self, offsets: Node, item: Expr, first: Expr) -> None:
        """Restrict reads of packed data with these offsets to one item.

        Args:
            first: the row of the packed data at which the item begins.
        """
        self._items[offsets] = (item, first)

    def item_of(self, offsets: Node) -> tuple[Expr, Expr] | None:
        """Return the (item, first row) that :meth:`bind_item` set, or None."""
        return self._items.get(offsets)

    def has_reader(self, node: Node) -> bool:
        """Return whether reads of ``node`` are loads or variables."""
        return node in self._readers

    def load(self, buffer: Buffer, offset: Expr, dtype: str) -> Expr:
        """Return a loaded element, converted to the dtype in which kernels compute."""
        self.on_load(i64(offset))
        if self._mask is None or lanes_of(i64(offset)) == 1:
            value = buffer[offset]
        elif is_contiguous(offset):
            value = masked_load(buffer, offset.base, self._mask)
        else:
            # Masked lanes read element 0, which is always in bounds.
            value = buffer[tirx.Select(self._mask, *same_lanes(offset, i64(0)))]
        return loaded(value, dtype)

    def at(self, node: Node, index: Index) -> Expr:
        """Return the value of ``node`` at ``index`` (one int64 expression per dim)."""
        reader = self._readers.get(node)
        if reader is not None:
            return self._shared(node, index, lambda: reader(index))
        if node.is_scalar_const:
            assert node.value is not None
            return const(node.value.reshape(()).item(), node.dtype)
        rule = ELEMENTS.get(node.op)
        if rule is None:
            raise Unsupported(f"operator {node.op} has no element rule")
        return self._shared(node, index, lambda: rule(self, node, index))

    def locate(
        self, make: Callable[[], Expr], follow: Mapping[Node, int] | None = None
    ) -> tuple[Node, Expr] | None:
        """Return (operand, row-major offset) if ``make()`` is a plain load of an operand.

        None otherwise. Only index arithmetic is emitted.

        Args:
            follow: nodes that the caller applies itself, each with the index of the operand to read
                in its place.
        """
        found: dict[Expr, tuple[Node, Expr]] = {}

        def operand_of(node: Node, number: int) -> Reader:
            x, rank = node.inputs[number], len(node.shape)
            return lambda index: self.at(x, self.broadcast(x, rank, index))

        saved = self._readers
        self._readers = {n: operand_of(n, k) for n, k in (follow or {}).items()} | {
            n: self.recorder(n, found) for n in saved
        }
        self._scopes.append({})
        try:
            return found.get(make())
        finally:
            self._scopes.pop()
            self._readers = saved

    def recorder(self, node: Node, found: dict[Expr, tuple[Node, Expr]]) -> Reader:
        """Return a reader that, instead of loading from ``node``, returns a new variable.

        It adds to ``found``, under that variable, the node and the row-major offset of the read.
        """

        def read(index: Index) -> Expr:
            token = tirx.Var("here", value_dtype(node.dtype))
            found[token] = (node, self.space.join(index, node.shape))
            return token

        return read

    def _shared(self, node: Node, index: Index, make: Callable[[], Expr]) -> Expr:
        key = (node, *index)
        for scope in reversed(self._scopes):
            if key in scope:
                found: Expr = scope[key]
                return found
        value = make()
        if self._guards:
            return value
        # Always bind: a rule may use its operand several times, and a ``Let`` may occur only once.
        value = self.settle(node.name, value)
        self._scopes[-1][key] = value
        return value

    def settle(self, name: str, value: Expr) -> Expr:
        """Bind ``value``, and the indices that it uses, to variables in the current scope."""
        self.resolve([value])
        if _is_truth_of_variable(value):
            return value  # the value is computed from a bound variable
        if lanes_of(value) > 1 and element_dtype(value) == "bool":
            # TVM has no variables for vectors of bool, so the value is bound as float32, which
            # TVM's analyzer does not simplify.
            one, zero = (const(k, with_lanes("float32", value)) for k in (1.0, 0.0))
            return truth(self.block.bind(name, tirx.Select(value, one, zero)))
        if element_dtype(value) != "bool":
            value = self.block.number(name, self.block.flatten(value))
        return self.block.bind(name, value)

    def resolve(self, exprs: Sequence[Expr]) -> None:
        """Bind the index placeholders that ``exprs`` use and that no open scope has bound."""
        pending = [v for v in self.space.unresolved(exprs) if not self._is_resolved(v)]
        for var in pending:
            if not self._is_resolved(var):
                self._resolved[-1].add(var)
                self.defined.append(var)
                self.space.define(self.block, var)

    def _is_resolved(self, var: Expr) -> bool:
        return any(var in scope for scope in self._resolved)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope; the values cached inside, and their variables, are dropped at its end."""
        self._scopes.append({})
        self._resolved.append(set())
        self.space.open_scope()
        try:
            yield
        finally:
            self.space.close_scope()
            self._scopes.pop()
            self._resolved.pop()

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Open a scope that emits into a different block."""
        outer, self.block = self.block, block
        try:
            with self.scope():
                yield
        finally:
            self.block = outer

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Open a conditional scope; nothing may be hoisted out of it."""
        self._guards += 1
        try:
            yield
        finally:
            self._guards -= 1

    @property
    def in_guard(self) -> bool:
        """Whether evaluation is conditional at this point."""
        return self._guards > 0

    def whole_vectors(self, length: Expr, lanes: int, several: int) -> int:
        """Return ``lanes * several``, or ``lanes``, if it is known to divide ``length``; else 0."""
        sizes = (lanes * several, lanes)
        return next((w for w in sizes if self.solver.known_divides(w, length)), 0)

    @contextmanager
    def masked(self, mask: Expr | None) -> Iterator[None]:
        """Restrict vector loads and stores to lanes where ``mask`` holds.

        Other lanes store nothing. They read 0 if the elements are adjacent, else element 0 of the
        buffer. If ``mask`` is None, all lanes are active.
        """
        outside, self._mask = self._mask, mask
        try:
            yield
        finally:
            self._mask = outside

    @contextmanager
    def without_broadcast(self, dims: Container[tuple[Node, int]]) -> Iterator[None]:
        """Assume within the context that some operand axes of ``broadcast_to`` are not broadcast.

        Args:
            dims: the axes, as pairs (node, axis).
        """
        outside, self._equal_dims = self._equal_dims, dims
        try:
            yield
        finally:
            self._equal_dims = outside

    def is_equal_dim(self, node: Node, axis: int) -> bool:
        """Return whether an axis is one of those given to :meth:`without_broadcast`."""
        return (node, axis) in self._equal_dims

    @property
    def mask(self) -> Expr | None:
        """The mask of the active lanes at this point; None if all are active."""
        return self._mask

    def guarded_at(self, node: Node, index: Index, inside: Expr) -> Expr:
        """Return :meth:`at`, for use in the arm of ``if_then_else`` in which ``inside`` holds.

        A chain of element-wise operators is evaluated by statements under the condition. In an
        expression each reader would repeat the chain, and TVM's analyzer, which substitutes the
        variables of a ``Let``, would need exponential time.
        """
        isa = emitting_for()
        if self._guards or lanes_of(inside) > 1 or (isa is not None and isa.device):
            return self._in_expression(node, index)
        if node.dtype == "bool" or not self._is_chain(node):
            return self._in_expression(node, index)
        self.resolve([inside])
        cell = self.block.alloc("guarded", 1, value_dtype(node.dtype))
        with self.block.when(inside), self.scope():
            value = self.at(node, index)
            self.resolve([value])
            self.block.store(cell, i64(0), value)
        return cell[i64(0)]

    def _in_expression(self, node: Node, index: Index) -> Expr:
        with self.guarded():
            return self.at(node, index)

    def _is_chain(self, node: Node) -> bool:
        """Return whether ``node`` depends on two or more element-wise operators in sequence."""
        pending, seen = [(node, False)], set()
        while pending:
            one, below = pending.pop()
            if (one, below) in seen or self.has_reader(one) or one.is_scalar_const:
                continue
            seen.add((one, below))
            computes = one.cls is OpClass.ELEMWISE
            if computes and below:
                return True
            pending += [(x, below or computes) for x in one.inputs]
        return False

    @contextmanager
    def loop(self, name: str, extent: Expr | int, **kwargs: Any) -> Iterator[Any]:
        """Open a loop with its own value scope."""
        with self.block.loop(name, extent, **kwargs) as var, self.scope():
            yield var

    def store(self, buffer: Buffer, offset: Expr, value: Expr, dtype: str) -> None:
        """Store one element or vector, after binding the indices that it uses."""
        offset, value = same_lanes(offset, stored(value, dtype))
        self.resolve([offset, value])
        lanes, along = lanes_of(offset), is_contiguous(offset)
        whole, past = self._mask is None and along, self.past
        if whole and past is not None and past.takes(buffer, lanes):
            past.store(buffer, offset.base, value)
        elif self._mask is None or lanes == 1:
            self.block.store(buffer, offset, value)
        elif along:
            self.block.masked_store(buffer, offset.base, value, self._mask)
        else:
            raise Unsupported("a masked store must be to consecutive elements")

    def broadcast(self, source: Node, out_rank: int, index: Index) -> list[Expr]:
        """Return the index into ``source`` for an element-wise operator's output ``index``."""
        trailing = list(index)[out_rank - len(source.shape) :]
        return [i64(0) if is_one(d) else i for d, i in zip(source.shape, trailing, strict=True)]


def is_contiguous(offset: Expr) -> bool:
    """Return whether an offset is a vector of adjacent elements."""
    if not isinstance(offset, tirx.Ramp):
        return False
    return isinstance(offset.stride, tirx.IntImm) and int(offset.stride.value) == 1
