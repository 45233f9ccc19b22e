"""The heap of one call: reference-counted blocks, and the registers of host functions.

The first chunk of workspace holds the registers (``Reg``) and the first blocks. More chunks are
allocated as needed, and all are freed together at the end of the call, also after an error, so that
nothing leaks from one call into the next. There is a free list for each size class of blocks. Host
code of a call runs on one thread, so reference counts are not atomic.

A block begins with four int64 words: reference count, tag, size class (with a mark in the upper
bits while results are written), number of children. The children follow: addresses of blocks, or
odd integers ``2 * tag + 1`` for constructors without fields. In a tensor, the block that owns its
elements follows (its only child), or 0 if it has no child; then the address of the elements, and
the dims. Elements in the tensor's own block start at the next multiple of 64.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType

from tvm_disc.codegen.host.memory import GIVE, TAKE
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc, TVMType

MAX_ARGS, MAX_RESULTS = 64, 48
SIZE_CLASSES = 160
LARGE_BYTES = 1 << 15  # each block of at least this size is a separate chunk
FIRST_CHUNK_BYTES, LAST_CHUNK_BYTES = 1 << 15, 1 << 20
STACK_BYTES = 4 << 20  # limit of the stack that recursion uses: half of a typical stack


class Reg:
    """Registers, as word offsets from the start of the heap."""

    ERROR, NEXT, LIVE, STACK, CURSOR, END, CHUNKS, GROW, CONSTANTS, QUEUE, STATE = range(11)
    PROFILE = 11
    FREE = 16
    ARGS = FREE + SIZE_CLASSES
    RESULTS = ARGS + MAX_ARGS
    COUNT = RESULTS + MAX_RESULTS


class Word:
    """Word offsets in a block."""

    COUNT, TAG, CLASS, CHILDREN, FIRST = range(5)
    OWNER, DATA, DIMS = FIRST, FIRST + 1, FIRST + 2


NO_ERROR, OUT_OF_MEMORY, TOO_DEEP = 0, 1, 2
BASE_ERRORS = (
    (OUT_OF_MEMORY, "MemoryError", "out of memory"),
    (
        TOO_DEEP,
        "RecursionError",
        f"recursion needs more than {STACK_BYTES >> 20} MiB of stack; a call in tail position "
        "needs none",
    ),
)
CLASS_MASK = 255
# marks the tag of a tensor; lower bits hold the rank and the bytes of an element
TENSOR_FLAG = 1 << 32

ALLOC, RELEASE, FREE = (GlobalVar(f"tvm_disc_heap_{n}") for n in ("alloc", "release", "free"))
START = GlobalVar("tvm_disc_heap_start")


def word_pointer() -> TVMType:
    """Return the type of a pointer to words."""
    return PointerType(PrimType("int64"), "global")


def words(block: Block, address: Expr) -> Buffer:
    """Return a buffer of the words at an integer address."""
    pointer = block.bind("at", tirx.reinterpret(word_pointer(), address))
    return block.declare("w", pointer, "int64")


def data_offset(rank: int) -> int:
    """Return the offset in bytes of a tensor's own elements in its block."""
    return -(-(Word.DIMS + rank) * 8 // 64) * 64


def heap_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions that allocate and free blocks, and that start and release the heap."""
    return {ALLOC: _alloc(), RELEASE: _release(), FREE: _free(), START: _start()}


def _request(block: Block, state: Expr, size_bytes: Expr) -> Expr:
    found = block.alloc("found", 1, "int64")
    block.eval(call(TAKE, state, size_bytes, found.data))
    return block.bind("chunk", found[i64(0)])


def _start() -> PrimFunc:
    """Return ``start(state, out)``; ``out`` receives the address of a new heap, or 0 if memory is
    exhausted.
    """
    state, out = tirx.Var("state", word_pointer()), tirx.Var("out", word_pointer())
    block = Block()
    target = block.declare("target", out, "int64")
    heap = _request(block, state, i64(FIRST_CHUNK_BYTES))
    block.store(target, 0, heap)
    with block.when(tirx.NE(heap, i64(0))):
        regs = words(block, heap)
        with block.loop("r", i64(Reg.COUNT)) as r:
            block.store(regs, r, i64(0))
        used = -(-Reg.COUNT * 8 // 64) * 64
        block.store(regs, Reg.CURSOR, heap + used)
        block.store(regs, Reg.END, heap + FIRST_CHUNK_BYTES)
        block.store(regs, Reg.GROW, i64(2 * FIRST_CHUNK_BYTES))
        block.store(regs, Reg.STATE, tirx.reinterpret("int64", state))
    return prim_func([state, out], block.stmt())


def _release() -> PrimFunc:
    """Return ``release(heap)``, which frees all chunks."""
    heap = tirx.Var("heap", word_pointer())
    block = Block()
    regs = block.declare("regs", heap, "int64")
    next_ = block.alloc("next", 1, "int64")
    block.store(next_, 0, regs[i64(Reg.CHUNKS)])
    state = block.bind("state", tirx.reinterpret(word_pointer(), regs[i64(Reg.STATE)]))
    with block.loop_while(tirx.NE(next_[i64(0)], i64(0))):
        chunk = block.bind("chunk", next_[i64(0)])
        block.store(next_, 0, words(block, chunk)[i64(0)])
        block.eval(call(GIVE, state, chunk))
    block.eval(call(GIVE, state, tirx.reinterpret("int64", heap)))
    return prim_func([heap], block.stmt())


def _alloc() -> PrimFunc:
    """Return ``alloc(heap, size_bytes, out)``; ``out`` receives the address of a block with one
    reference, or 0 if memory is exhausted, in which case ``Reg.ERROR`` is set.
    """
    heap, size = tirx.Var("heap", word_pointer()), tirx.Var("size_bytes", "int64")
    out = tirx.Var("out", word_pointer())
    block = Block()
    regs = block.declare("regs", heap, "int64")
    target = block.declare("target", out, "int64")
    kind, rounded = _size_class(block, size)
    head = block.bind("head", regs[Reg.FREE + kind])
    with block.when(tirx.NE(head, i64(0))):
        block.store(regs, Reg.FREE + kind, words(block, head)[i64(0)])
        block.store(target, 0, head)
    with block.otherwise():
        _carve(block, regs, target, rounded)
    made = block.bind("made", target[i64(0)])
    with block.when(tirx.NE(made, i64(0))):
        fresh = words(block, made)
        for word, value in ((Word.COUNT, 1), (Word.TAG, 0), (Word.CHILDREN, 0)):
            block.store(fresh, word, i64(value))
        block.store(fresh, Word.CLASS, kind)
        block.store(regs, Reg.LIVE, regs[i64(Reg.LIVE)] + 1)
    return prim_func([heap, size, out], block.stmt())


def _size_class(block: Block, size: Expr) -> tuple[Expr, Expr]:
    """Return (size class, bytes) for a size, rounded up: classes are multiples of 64 up to 1024,
    then four per doubling.
    """
    kind, rounded = block.alloc("kind", 1, "int64"), block.alloc("rounded", 1, "int64")
    steps = block.bind("steps", tirx.shift_right(size + 63, i64(6)))
    block.store(kind, 0, steps)
    block.store(rounded, 0, tirx.shift_left(steps, i64(6)))
    with block.when(tirx.GT(size, i64(1024))):
        step = block.alloc("step", 1, "int64")
        for cell, value in ((kind, 16), (rounded, 1024), (step, 256)):
            block.store(cell, 0, i64(value))
        with block.loop_while(tirx.LT(rounded[i64(0)], size)):
            block.store(rounded, 0, rounded[i64(0)] + step[i64(0)])
            block.store(kind, 0, kind[i64(0)] + 1)
            with block.when(tirx.EQ(tirx.bitwise_and(kind[i64(0)], i64(3)), i64(0))):
                block.store(step, 0, step[i64(0)] * 2)
    return block.bind("class", kind[i64(0)]), block.bind("bytes", rounded[i64(0)])


def _carve(block: Block, regs: Buffer, target: Buffer, size: Expr) -> None:
    """Emit the allocation of a block from the current chunk or a new chunk; a large block gets a
    separate chunk.
    """
    block.store(target, 0, i64(0))
    with block.when(tirx.GE(size, i64(LARGE_BYTES))):
        chunk = _chunk(block, regs, size + 64)
        with block.when(tirx.NE(chunk, i64(0))):
            block.store(target, 0, chunk + 64)
    with block.otherwise():
        with block.when(tirx.GT(regs[i64(Reg.CURSOR)] + size, regs[i64(Reg.END)])):
            length = block.bind("length", regs[i64(Reg.GROW)])
            block.store(regs, Reg.GROW, tirx.min(length * 2, i64(LAST_CHUNK_BYTES)))
            chunk = _chunk(block, regs, length)
            with block.when(tirx.NE(chunk, i64(0))):
                block.store(regs, Reg.CURSOR, chunk + 64)
                block.store(regs, Reg.END, chunk + length)
        with block.when(tirx.EQ(regs[i64(Reg.ERROR)], i64(0))):
            block.store(target, 0, regs[i64(Reg.CURSOR)])
            block.store(regs, Reg.CURSOR, regs[i64(Reg.CURSOR)] + size)


def _chunk(block: Block, regs: Buffer, size: Expr) -> Expr:
    state = block.bind("state", tirx.reinterpret(word_pointer(), regs[i64(Reg.STATE)]))
    chunk = _request(block, state, size)
    with block.when(tirx.EQ(chunk, i64(0))):
        block.store(regs, Reg.ERROR, i64(OUT_OF_MEMORY))
    with block.otherwise():
        block.store(words(block, chunk), 0, regs[i64(Reg.CHUNKS)])
        block.store(regs, Reg.CHUNKS, chunk)
    return chunk


def _free() -> PrimFunc:
    """Return ``free(heap, dead)``, which frees an unreferenced block and all blocks that only it
    references.

    Blocks that are still to be freed are linked through their reference count words, so that long
    lists need no recursion.
    """
    heap, dead = tirx.Var("heap", word_pointer()), tirx.Var("dead", "int64")
    block = Block()
    regs = block.declare("regs", heap, "int64")
    todo = block.alloc("todo", 1, "int64")
    block.store(todo, 0, dead)
    block.store(words(block, dead), Word.COUNT, i64(0))
    with block.loop_while(tirx.NE(todo[i64(0)], i64(0))):
        current = block.bind("current", todo[i64(0)])
        fields = words(block, current)
        block.store(todo, 0, fields[i64(Word.COUNT)])
        with block.loop("k", fields[i64(Word.CHILDREN)]) as k:
            child = block.bind("child", fields[Word.FIRST + k])
            with block.when(is_block(child)):
                inner = words(block, child)
                left = block.bind("left", inner[i64(Word.COUNT)] - 1)
                block.store(inner, Word.COUNT, left)
                with block.when(tirx.EQ(left, i64(0))):
                    block.store(inner, Word.COUNT, todo[i64(0)])
                    block.store(todo, 0, child)
        kind = block.bind("kind", tirx.bitwise_and(fields[i64(Word.CLASS)], i64(CLASS_MASK)))
        block.store(fields, Word.COUNT, regs[Reg.FREE + kind])
        block.store(regs, Reg.FREE + kind, current)
        block.store(regs, Reg.LIVE, regs[i64(Reg.LIVE)] - 1)
    return prim_func([heap, dead], block.stmt())


def is_block(address: Expr) -> Expr:
    """Return an expression for whether a child is the address of a block."""
    odd = tirx.bitwise_and(address, i64(1))
    return tirx.And(tirx.NE(address, i64(0)), tirx.EQ(odd, i64(0)))
