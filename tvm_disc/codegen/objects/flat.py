"""Serialization of boxed values, for inputs and results.

Two tensors hold a value: ``codes`` (int64) and ``blob`` (bytes). ``codes`` holds the root, the
number of records, then one record for each block:

    tag, n, child...                     a node
    -element_bytes, rank, offset, dim... a tensor whose elements start at ``offset`` in ``blob``

A child, or the root, is a record number, or ``-1 - tag`` for a constructor without fields. Shared
blocks are written once.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar

from tvm_disc.codegen.objects.heap import (
    ALLOC,
    CLASS_MASK,
    FREE,
    TENSOR_FLAG,
    Reg,
    Word,
    is_block,
    word_pointer,
    words,
)
from tvm_disc.tir.builder import Block, call, i64, pointer, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc, Var

DECODE, MEASURE, ENCODE = (GlobalVar(f"tvm_disc_{n}") for n in ("decode", "measure", "encode"))
MARK_SHIFT = 8


def io_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions that read inputs and write results."""
    return {DECODE: _decode(), MEASURE: _measure(), ENCODE: _encode()}


def _heap() -> Var:
    return tirx.Var("heap", word_pointer())


class _Counter:
    """A mutable integer on the stack."""

    def __init__(self, block: Block, name: str, start: Expr | int = 0) -> None:
        self.block, self.cell = block, block.alloc(name, 1, "int64")
        self.set(i64(start))

    def get(self) -> Expr:
        return self.block.bind("now", self.cell[i64(0)])

    def set(self, value: Expr) -> None:
        self.block.store(self.cell, 0, value)

    def add(self, step: Expr | int) -> None:
        self.set(self.cell[i64(0)] + i64(step))


def _allocated(block: Block, heap: Expr, size_bytes: Expr) -> Expr:
    out = block.alloc("out", 1, "int64")
    block.eval(call(ALLOC, heap, size_bytes, out.data))
    made = block.bind("made", out[i64(0)])
    with block.when(tirx.EQ(made, i64(0))):
        block.ret(tirx.IntImm("int32", 0))
    return made


def _decode() -> PrimFunc:
    heap, codes_at, blob = _heap(), pointer("codes", "int64"), tirx.Var("blob", "int64")
    out = tirx.Var("out", word_pointer())
    block = Block()
    codes = block.declare("codes", codes_at, "int64")
    target = block.declare("target", out, "int64")
    block.store(target, 0, i64(0))
    count = block.bind("count", codes[i64(1)])
    table_block = _allocated(block, heap, count * 8 + 64)
    table = words(block, table_block + 64)
    at = _Counter(block, "at", 2)
    with block.loop("r", count) as r:
        _read_record(block, heap, codes, at, blob, table, r)
    with block.loop("r", count) as r:
        made = words(block, table[r])
        with block.loop("k", made[i64(Word.CHILDREN)]) as k:
            block.store(made, Word.FIRST + k, _linked(block, table, made[Word.FIRST + k]))
    block.store(target, 0, _linked(block, table, codes[i64(0)]))
    block.eval(call(FREE, heap, table_block))
    return prim_func([heap, codes_at, blob, out], block.stmt())


def _read_record(
    block: Block, heap: Expr, codes: Buffer, at: _Counter, blob: Expr, table: Buffer, r: Expr
) -> None:
    start = at.get()
    kind, size = block.bind("kind", codes[start]), block.bind("size", codes[start + 1])
    with block.when(tirx.GE(kind, i64(0))):
        node = _allocated(block, heap, (size + Word.FIRST) * 8)
        block.store(table, r, node)
        made = words(block, node)
        block.store(made, Word.TAG, kind)
        block.store(made, Word.CHILDREN, size)
        with block.loop("k", size) as k:
            block.store(made, Word.FIRST + k, codes[start + 2 + k])
        block.store(made, Word.COUNT, i64(0))
        at.add(size + 2)
    with block.otherwise():
        tensor = _allocated(block, heap, (size + Word.DIMS) * 8)
        block.store(table, r, tensor)
        made = words(block, tensor)
        block.store(made, Word.TAG, i64(TENSOR_FLAG) + size - kind * 256)
        block.store(made, Word.OWNER, i64(0))
        block.store(made, Word.DATA, blob + codes[start + 2])
        with block.loop("a", size) as a:
            block.store(made, Word.DIMS + a, codes[start + 3 + a])
        block.store(made, Word.COUNT, i64(0))
        at.add(size + 3)


def _linked(block: Block, table: Buffer, ref: Expr) -> Expr:
    """Return the address of a child and increment its reference count."""
    cell = block.alloc("linked", 1, "int64")
    ref = block.bind("ref", ref)
    block.store(cell, 0, ref * -2 - 1)
    with block.when(tirx.GE(ref, i64(0))):
        child = block.bind("child", table[ref])
        inner = words(block, child)
        block.store(inner, Word.COUNT, inner[i64(Word.COUNT)] + 1)
        block.store(cell, 0, child)
    return block.bind("address", cell[i64(0)])


def _is_tensor(fields: Buffer) -> Expr:
    return tirx.GE(fields[i64(Word.TAG)], i64(TENSOR_FLAG))


def _tensor_bytes(block: Block, fields: Buffer) -> tuple[Expr, Expr, Expr]:
    """Return (rank, bytes of an element, bytes) of a tensor."""
    tag = fields[i64(Word.TAG)]
    rank = block.bind("rank", tirx.bitwise_and(tag, i64(255)))
    each = block.bind("each", tirx.bitwise_and(tirx.shift_right(tag, i64(8)), i64(255)))
    total = _Counter(block, "total", each)
    with block.loop("a", rank) as a:
        total.set(total.get() * fields[Word.DIMS + a])
    return rank, each, total.get()


def _measure() -> PrimFunc:
    heap, root = _heap(), tirx.Var("root", "int64")
    out = tirx.Var("out", word_pointer())
    block = Block()
    regs = block.declare("regs", heap, "int64")
    sizes = block.declare("sizes", out, "int64")
    queue_block = _allocated(block, heap, regs[i64(Reg.LIVE)] * 8 + 72)
    block.store(regs, Reg.QUEUE, queue_block)
    queue = words(block, queue_block + 64)
    count, done = _Counter(block, "count"), _Counter(block, "done")
    length, blob = _Counter(block, "length", 2), _Counter(block, "blob_bytes")
    _visit(block, queue, count, root)
    with block.loop_while(tirx.LT(done.cell[i64(0)], count.cell[i64(0)])):
        fields = words(block, queue[done.get()])
        with block.when(_is_tensor(fields)):
            rank, _, size = _tensor_bytes(block, fields)
            length.add(rank + 3)
            blob.set(_aligned(blob.get()) + size)
        with block.otherwise():
            length.add(fields[i64(Word.CHILDREN)] + 2)
            with block.loop("k", fields[i64(Word.CHILDREN)]) as k:
                _visit(block, queue, count, fields[Word.FIRST + k])
        done.add(1)
    block.store(words(block, queue_block), Word.TAG, count.get())
    block.store(sizes, 0, length.get())
    block.store(sizes, 1, blob.get())
    return prim_func([heap, root, out], block.stmt())


def _aligned(offset: Expr) -> Expr:
    return tirx.shift_left(tirx.shift_right(offset + 63, i64(6)), i64(6))


def _visit(block: Block, queue: Buffer, count: _Counter, address: Expr) -> None:
    """Append a block to the queue unless it is marked."""
    address = block.bind("address", address)
    with block.when(is_block(address)):
        fields = words(block, address)
        kind = block.bind("kind", fields[i64(Word.CLASS)])
        with block.when(tirx.LE(kind, i64(CLASS_MASK))):
            block.store(queue, count.get(), address)
            count.add(1)
            mark = tirx.shift_left(count.get(), i64(MARK_SHIFT))
            block.store(fields, Word.CLASS, kind + mark)


def _encode() -> PrimFunc:
    heap, root = _heap(), tirx.Var("root", "int64")
    codes_at, blob_at = pointer("codes", "int64"), pointer("blob", "int8")
    block = Block()
    regs = block.declare("regs", heap, "int64")
    codes = block.declare("codes", codes_at, "int64")
    blob = block.declare("blob", blob_at, "int8")
    queue_block = block.bind("queue_block", regs[i64(Reg.QUEUE)])
    queue = words(block, queue_block + 64)
    count = block.bind("count", words(block, queue_block)[i64(Word.TAG)])
    block.store(codes, 0, _reference(block, root))
    block.store(codes, 1, count)
    at, offset = _Counter(block, "at", 2), _Counter(block, "offset")
    with block.loop("r", count) as r:
        fields = words(block, queue[r])
        start = at.get()
        with block.when(_is_tensor(fields)):
            rank, each, size = _tensor_bytes(block, fields)
            place = block.bind("place", _aligned(offset.get()))
            for k, value in enumerate((-each, rank, place)):
                block.store(codes, start + k, value)
            with block.loop("a", rank) as a:
                block.store(codes, start + 3 + a, fields[Word.DIMS + a])
            at.add(rank + 3)
            _copy_bytes(block, fields[i64(Word.DATA)], blob, place, size)
            offset.set(place + size)
        with block.otherwise():
            n = block.bind("n", fields[i64(Word.CHILDREN)])
            block.store(codes, start, fields[i64(Word.TAG)])
            block.store(codes, start + 1, n)
            with block.loop("k", n) as i:
                block.store(codes, start + 2 + i, _reference(block, fields[Word.FIRST + i]))
            at.add(n + 2)
    with block.loop("r", count) as r:
        fields = words(block, queue[r])
        kind = tirx.bitwise_and(fields[i64(Word.CLASS)], i64(CLASS_MASK))
        block.store(fields, Word.CLASS, kind)
    block.eval(call(FREE, heap, queue_block))
    return prim_func([heap, root, codes_at, blob_at], block.stmt())


def _copy_bytes(block: Block, source: Expr, blob: Buffer, place: Expr, size: Expr) -> None:
    kind = blob.data.ty
    data = block.bind("data", tirx.reinterpret(kind, source))
    elements = block.declare("elements", data, "int8")
    with block.loop("b", size) as b:
        block.store(blob, place + b, elements[b])


def _reference(block: Block, address: Expr) -> Expr:
    """Return a child in the encoding of ``codes``."""
    cell = block.alloc("reference", 1, "int64")
    address = block.bind("address", address)
    block.store(cell, 0, -tirx.shift_right(address, i64(1)) - 1)
    with block.when(is_block(address)):
        mark = words(block, address)[i64(Word.CLASS)]
        block.store(cell, 0, tirx.shift_right(mark, i64(MARK_SHIFT)) - 1)
    return block.bind("named", cell[i64(0)])
