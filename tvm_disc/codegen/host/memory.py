"""Pool of workspaces that all calls of a program share.

A program has one state, which is created when the program is loaded. The state contains the address
of the constants, a few free blocks, and the last large results (``host/results.py``). A call takes
the smallest block that fits. If no block fits, the call frees the largest block and allocates a new
one. All of this is compiled code over the C library, so that running out of memory is a reported
error.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.abi.state import (
    BLOCKS,
    CONSTANTS,
    DEVICE_STATE_WORDS,
    FREE,
    GRAPH_MUTEX,
    HOME,
    KEPT,
    KEPT_BLOCKS,
    LIMIT,
    MISSES,
    MUTEX,
    REQUESTS,
    RESULT_LIMIT,
    THREADS,
)
from tvm_disc.codegen.host.abi import as_pointer, static_cell, void_pointer
from tvm_disc.codegen.threads.glue import count_call
from tvm_disc.tir.builder import Block, call, i64, index_var, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc, Var

DEFAULT_LIMIT_BYTES = 1 << 30
DEFAULT_RESULT_BYTES = 256 << 20
# Header of every block: its size, and the address that malloc returned.
HEADER_BYTES = 64
TAKE, GIVE, LEAVE_CALL, TRIM, DROP, TENSOR = (
    GlobalVar(f"tvm_disc_{name}")
    for name in ("take", "give", "leave_call", "trim_blocks", "drop_results", "new_tensor")
)
# Words of a cell, which refers to a block of memory: the block's address, whether the cell owns the
# block, and the address of the previously opened cell, or 0.
OWNED, BEFORE, CELL_WORDS = 1, 2, 3


def memory_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the private functions of the pool, which every program contains."""
    return {
        TAKE: _take(),
        GIVE: _give(),
        LEAVE_CALL: _leave_call(),
        TRIM: _trim(),
    }


def words(name: str) -> Var:
    """Return a parameter that points to 64-bit words."""
    return tirx.Var(name, PointerType(PrimType("int64"), "global"))


def _address(data: Expr, word: int) -> Expr:
    return O.call_intrin(void_pointer(), "tirx.handle_add_byte_offset", data, i64(8 * word))


def bits_of(pointer: Expr) -> Expr:
    """Return an address as an integer."""
    return tirx.reinterpret("int64", pointer)


def allocate(size_bytes: Expr) -> Expr:
    """Return a call of malloc, which returns null if memory is exhausted."""
    return O.call_extern("handle", "malloc", tirx.Cast("uint64", i64(size_bytes)))


def release(address: Expr) -> Expr:
    """Return a call of free; address 0 is ignored."""
    return O.call_extern("int32", "free", as_pointer(address))


def aligned(address: Expr) -> Expr:
    """Return an address rounded up to a multiple of 64."""
    return tirx.bitwise_and(address + 63, i64(-64))


def lock(block: Block, state: Expr | Var, verb: str) -> None:
    """Emit ``lock`` or ``unlock`` of the program's mutex."""
    block.eval(O.call_extern("int32", f"pthread_mutex_{verb}", _address(state, MUTEX)))


def new_state(block: Block, slot: object, constants: Expr, home: Expr, threads: int) -> Buffer:
    """Emit the creation of the program's state, unless it exists, and return the state.

    The addresses ``constants`` and ``home`` (the thread pool, or 0) are stored in it in any case.
    """
    cell = static_cell(block, slot)
    with block.when(tirx.EQ(cell[i64(0)], i64(0))):
        words = tirx.Cast("uint64", i64(DEVICE_STATE_WORDS))
        made = O.call_extern("handle", "calloc", words, tirx.Cast("uint64", i64(8)))
        block.store(cell, 0, bits_of(block.bind("made", made)))
        state = state_of(block, cell)
        for word in (MUTEX, GRAPH_MUTEX):
            mutex = _address(state.data, word)
            block.eval(O.call_extern("int32", "pthread_mutex_init", mutex, as_pointer(i64(0))))
        block.store(state, LIMIT, i64(DEFAULT_LIMIT_BYTES))
        block.store(state, RESULT_LIMIT, i64(DEFAULT_RESULT_BYTES))
        block.store(state, THREADS, i64(threads))
        free = O.call_extern("handle", "dlsym", as_pointer(i64(0)), StringImm("free"))
        block.store(state, FREE, bits_of(block.bind("free", free)))
    state = state_of(block, cell)
    block.store(state, CONSTANTS, constants)
    block.store(state, HOME, home)
    return state


def state_of(block: Block, cell: Buffer) -> Buffer:
    """Return the state that the program's static variable points to."""
    kind = PointerType(PrimType("int64"), "global")
    return block.declare(
        "state", block.bind("state", tirx.reinterpret(kind, cell[i64(0)])), "int64"
    )


# -- the pool -------------------------------------------------------------------------------------


def _take() -> PrimFunc:
    """Return ``take(state, size_bytes, out)``; ``out`` receives the address of a block of at least
    ``size_bytes``, or 0 if memory is exhausted.
    """
    state_ptr, size, out_ptr = words("state"), tirx.Var("size", "int64"), words("out")
    block = Block()
    state, out = block.declare("s", state_ptr, "int64"), block.declare("o", out_ptr, "int64")
    best, largest = block.alloc("best", 1, "int64"), block.alloc("largest", 1, "int64")
    victim = block.alloc("victim", 1, "int64")
    for cell, value in ((best, -1), (largest, 0), (victim, 0), (out, 0)):
        block.store(cell, 0, i64(value))
    lock(block, state_ptr, "lock")
    block.store(state, REQUESTS, state[i64(REQUESTS)] + 1)
    with block.loop("k", KEPT_BLOCKS) as k:
        _consider(block, state, k, size, best, largest)
    with block.when(best[i64(0)] >= 0):
        block.store(out, 0, _removed(block, state, best[i64(0)]))
    with block.otherwise():
        block.store(state, MISSES, state[i64(MISSES)] + 1)
        block.store(victim, 0, _removed(block, state, largest[i64(0)]))
    lock(block, state_ptr, "unlock")
    with block.when(best[i64(0)] < 0):
        _give_back(block, victim[i64(0)])
        _request(block, state_ptr, size, out)
    return prim_func([state_ptr, size, out_ptr], block.stmt())


def _consider(
    block: Block, state: Buffer, k: Expr, size: Expr, best: Buffer, largest: Buffer
) -> None:
    """Emit the comparison of block ``k`` with the best block so far, which is the smallest that
    fits, and with the largest block so far.
    """
    room = block.bind("room", _room(state, k))
    with block.when(room > _room(state, largest[i64(0)])):
        block.store(largest, 0, k)
    with block.when(room >= tirx.max(size, i64(1))):
        first = best[i64(0)] < 0
        chosen = tirx.max(best[i64(0)], i64(0))
        with block.when(tirx.Or(first, room < _room(state, chosen))):
            block.store(best, 0, k)


def _room(state: Buffer, k: Expr) -> Expr:
    return state[i64(BLOCKS + 1) + k * 2]


def _removed(block: Block, state: Buffer, k: Expr) -> Expr:
    """Emit the removal of block ``k`` from the pool; return its address, 0 if the slot is empty."""
    k = block.bind("k", k)
    found = block.bind("found", state[i64(BLOCKS) + k * 2])
    block.store(state, KEPT, state[i64(KEPT)] - _room(state, k))
    block.store(state, i64(BLOCKS) + k * 2, i64(0))
    block.store(state, i64(BLOCKS + 1) + k * 2, i64(0))
    return found


def _header(block: Block, address: Expr) -> Buffer:
    kind = PointerType(PrimType("int64"), "global")
    at = block.bind("header", tirx.reinterpret(kind, address - HEADER_BYTES))
    return block.declare("h", at, "int64")


def _give_back(block: Block, address: Expr) -> None:
    with block.when(tirx.NE(address, i64(0))):
        block.eval(release(_header(block, address)[i64(1)]))


def _request(block: Block, state: Expr, size: Expr, out: Buffer) -> None:
    """Emit an allocation; if it fails, free all cached blocks and try again."""
    raw = block.alloc("raw", 1, "int64")
    total = size + (HEADER_BYTES + 64)
    block.store(raw, 0, bits_of(block.bind("got", allocate(total))))
    with block.when(tirx.EQ(raw[i64(0)], i64(0))):
        block.eval(call(TRIM, state))
        block.store(raw, 0, bits_of(block.bind("again", allocate(total))))
    with block.when(tirx.NE(raw[i64(0)], i64(0))):
        address = block.bind("address", aligned(raw[i64(0)]) + HEADER_BYTES)
        header = _header(block, address)
        block.store(header, 0, size)
        block.store(header, 1, raw[i64(0)])
        block.store(out, 0, address)


def _give() -> PrimFunc:
    """Return ``give(state, address)``, which puts a block into the pool, or frees the block if the
    pool is full.
    """
    state_ptr, address = words("state"), tirx.Var("address", "int64")
    block = Block()
    state = block.declare("s", state_ptr, "int64")
    size = block.bind("size", _header(block, address)[i64(0)])
    place = block.alloc("place", 1, "int64")
    block.store(place, 0, i64(-1))
    lock(block, state_ptr, "lock")
    with block.loop("k", KEPT_BLOCKS) as j, block.when(tirx.EQ(state[i64(BLOCKS) + j * 2], i64(0))):
        block.store(place, 0, j)
    with block.when(state[i64(KEPT)] + size > state[i64(LIMIT)]):
        block.store(place, 0, i64(-1))
    with block.when(place[i64(0)] >= 0):
        k = block.bind("k", place[i64(0)])
        block.store(state, i64(BLOCKS) + k * 2, address)
        block.store(state, i64(BLOCKS + 1) + k * 2, size)
        block.store(state, KEPT, state[i64(KEPT)] + size)
    lock(block, state_ptr, "unlock")
    with block.when(place[i64(0)] < 0):
        _give_back(block, address)
    return prim_func([state_ptr, address], block.stmt())


def _leave_call() -> PrimFunc:
    """Return ``leave_call(state, cell, home)``, which frees the memory of a call before an error
    exit.

    ``home`` is the address of the thread pool, or 0 if the call is not counted as active.
    """
    state, cell, home = words("state"), index_var("cell"), index_var("home")
    block = Block()
    free_cells(block, cell, lambda address: block.eval(call(GIVE, state, address)))
    count_call(block, home, -1)
    return prim_func([state, cell, home], block.stmt())


def text_address(text: str) -> Expr:
    """Return the address of a C string."""
    return tirx.reinterpret("int64", tirx.reinterpret(void_pointer(), StringImm(text)))


def free_cells(block: Block, newest: Expr, free: Callable[[Expr], None]) -> None:
    """Emit the release of every block that a cell owns; ``newest`` is the first cell of the
    list.
    """
    cell = block.alloc("cell", 1, "int64")
    block.store(cell, 0, newest)
    with block.loop_while(tirx.NE(cell[i64(0)], i64(0))):
        kind = PointerType(PrimType("int64"), "global")
        at = block.bind("at", tirx.reinterpret(kind, cell[i64(0)]))
        fields = block.declare("fields", at, "int64")
        with block.when(tirx.NE(fields[i64(OWNED)], i64(0))):
            free(fields[i64(0)])
        block.store(cell, 0, fields[i64(BEFORE)])


def _trim() -> PrimFunc:
    """Return ``trim(state)``, which frees every cached block and releases every cached result."""
    state_ptr = words("state")
    block = Block()
    state = block.declare("s", state_ptr, "int64")
    lock(block, state_ptr, "lock")
    with block.loop("k", KEPT_BLOCKS) as k:
        _give_back(block, _removed(block, state, k))
    lock(block, state_ptr, "unlock")
    block.eval(call(DROP, state_ptr))
    return prim_func([state_ptr], block.stmt())
