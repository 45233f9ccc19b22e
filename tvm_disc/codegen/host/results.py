"""Allocation of result tensors, with reuse of earlier results that are no longer referenced.

A program keeps a reference to its last large results. If that reference is the only one, a later
call reuses the tensor for a result of nearly equal size. Fresh memory would cost a page fault per 4
KiB. A tensor has no callback into the program, so a result may outlive the program. A tensor with
other references is never modified; after the program drops its reference, the last owner frees it.
"""

from __future__ import annotations

import sys
from typing import Any

from tvm import tirx
from tvm.ir import PointerType, PrimType
from tvm.tirx import op as O

from tvm_disc.abi.state import (
    FREE,
    KEPT_RESULTS,
    NEXT_RESULT,
    RESULT_ENTRIES,
    RESULT_LIMIT,
    RESULTS,
)
from tvm_disc.codegen.host.abi import as_pointer, i32
from tvm_disc.codegen.host.memory import (
    DROP,
    TENSOR,
    TRIM,
    aligned,
    allocate,
    bits_of,
    lock,
    release,
    words,
)
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Buffer, Expr, GlobalVar, PrimFunc, Size

# The malloc block of a result contains a DLPack managed tensor, its shape, then its data.
MANAGED_WORDS = 10
# Words of a tensor object: strong (low half) and weak reference counts; a DLTensor from DATA on.
REFERENCES, DATA, KIND, SHAPE, STRIDES = 0, 3, 5, 6, 7
ONE_REFERENCE = 1 << 32 | 1

# Smaller blocks come from malloc's free lists without page faults.
KEPT_BYTES = 128 << 10
# A tensor may be reused for a result that is smaller by up to 1 / SLACK of the result's size.
SLACK = 4
# A cached tensor has 1 / HEADROOM more memory than its result: a KV cache that grows by a
# row per decoder step fits into the memory of an earlier step. Pages that are never written are not
# resident.
HEADROOM = 16
# From this size on, page faults of a new tensor take longer than most kernels that fill it.
HUGE_BYTES = 4 << 20
PAGE_BYTES, MADV_HUGEPAGE = 4096, 14


def result_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the private functions of results, which every program contains."""
    return {TENSOR: _new_tensor(), DROP: _drop()}


def _new_tensor() -> PrimFunc:
    """Return ``new_tensor(state, kind, dims, ndim, size_bytes, out)``; ``out`` receives the
    addresses of the tensor and of its data. The first is 0 if memory is exhausted.

    The DLPack managed tensor, its shape and its data are one malloc block, which ``free`` releases.
    ``kind`` is (dtype << 32) + ndim, the layout of these fields in a DLTensor.
    """
    state_ptr, dims_ptr, out_ptr = words("state"), words("dims"), words("out")
    kind, ndim, size = (tirx.Var(n, "int64") for n in ("kind", "ndim", "size"))
    block = Block()
    state, out = block.declare("s", state_ptr, "int64"), block.declare("o", out_ptr, "int64")
    dims = block.declare("d", dims_ptr, "int64")
    block.store(out, 0, i64(0))
    kept = block.bind("kept", tirx.And(size >= KEPT_BYTES, size <= state[i64(RESULT_LIMIT)]))
    with block.when(kept):
        _reuse(block, state, (kind, size), out)
        with block.when(tirx.NE(out[i64(0)], i64(0))):
            _reshape(block, out[i64(0)], dims, ndim)
    with block.when(tirx.EQ(out[i64(0)], i64(0))):
        more = tirx.Select(kept, tirx.truncdiv(size, i64(HEADROOM)), i64(0))
        room = block.bind("room", tirx.min(size + more, tirx.max(size, state[i64(RESULT_LIMIT)])))
        with block.when(kept):
            _make_room(block, state, room)
        _make(block, state, (kind, dims, ndim, room), out)
        with block.when(tirx.And(kept, tirx.NE(out[i64(0)], i64(0)))):
            _keep(block, state, out[i64(0)], room)
    return prim_func([state_ptr, kind, dims_ptr, ndim, size, out_ptr], block.stmt())


def _make(block: Block, state: Buffer, wanted: tuple[Any, ...], out: Buffer) -> None:
    """Emit a new tensor; if malloc fails, free all cached memory and try again."""
    kind, dims, ndim, size = wanted
    raw = block.alloc("raw", 1, "int64")
    block.store(raw, 0, i64(0))
    with block.when(tirx.And(size >= 0, size < i64(1 << 62))):
        total = ndim * 8 + size + (8 * MANAGED_WORDS + 64)
        block.store(raw, 0, bits_of(block.bind("got", allocate(total))))
        with block.when(tirx.EQ(raw[i64(0)], i64(0))):
            block.eval(call(TRIM, state.data))
            block.store(raw, 0, bits_of(block.bind("again", allocate(total))))
    with block.when(tirx.NE(raw[i64(0)], i64(0))):
        base = block.bind("base", raw[i64(0)])
        data = block.bind("data", aligned(base + ndim * 8 + 8 * MANAGED_WORDS))
        if sys.platform == "linux":
            with block.when(size >= HUGE_BYTES):
                block.eval(_prefer_huge_pages(base, total))
        manage(block, base, (0, state[i64(FREE)], data, 1), (kind, dims, ndim), out)
        with block.when(tirx.EQ(out[i64(0)], i64(0))):
            block.eval(release(base))


def manage(
    block: Block,
    base: Expr,
    memory: tuple[Size, ...],
    kind: tuple[Expr, Buffer, Expr],
    out: Buffer,
) -> None:
    """Emit a managed tensor at ``base``, with space for its shape, and make a tensor object of it.

    Args:
        memory: (owner, deleter of the owner, data, device), one word each.
        kind: (dtype and rank in one word as in a DLTensor, address of the dims, rank).
        out: receives (tensor or 0, data).
    """
    owner, freed_by, data, device = memory
    dtype, dims, ndim = kind
    managed, shape = words_at(block, base), block.bind("shape", base + 8 * MANAGED_WORDS)
    fields = (1, owner, freed_by, 0, data, device, dtype, shape, 0, 0)
    for k, value in enumerate(fields):
        block.store(managed, k, i64(value))
    with block.loop("axis", ndim) as axis:
        block.store(managed, i64(MANAGED_WORDS) + axis, dims[axis])
    block.store(out, 1, data)
    status = O.call_extern(
        "int32", "TVMFFITensorFromDLPackVersioned", as_pointer(base), i32(0), i32(0), out.data
    )
    with block.when(tirx.NE(block.bind("status", status), i32(0))):
        block.store(out, 0, i64(0))


def _prefer_huge_pages(address: Expr, size_bytes: Expr) -> Expr:
    """Return a madvise call for a large fresh block: one page fault per 2 MiB instead of 4 KiB."""
    begin = tirx.floordiv(address + (PAGE_BYTES - 1), i64(PAGE_BYTES)) * PAGE_BYTES
    count = tirx.Cast("uint64", address + size_bytes - begin)
    return O.call_extern("int32", "madvise", as_pointer(begin), count, i32(MADV_HUGEPAGE))


def words_at(block: Block, address: Expr) -> Buffer:
    """Return the words at an address as a buffer."""
    kind = PointerType(PrimType("int64"), "global")
    return block.declare("words", block.bind("words", tirx.reinterpret(kind, address)), "int64")


def _entry(k: Expr) -> Expr:
    return i64(RESULT_ENTRIES) + k * 2


def _idle(block: Block, tensor: Expr) -> Expr:
    """Return whether only the program references a tensor.

    If it does, no other thread can add a reference. The count is read without a barrier: writes to
    the tensor are control-dependent on the count, and processors do not write speculatively.
    """
    return tirx.EQ(words_at(block, tensor)[i64(REFERENCES)], i64(ONE_REFERENCE))


def _reuse(block: Block, state: Buffer, wanted: tuple[Expr, Expr], out: Buffer) -> None:
    """Emit a search for the smallest unreferenced tensor that fits, and add a reference to it."""
    kind, size = wanted
    room = block.alloc("room", 1, "int64")
    block.store(room, 0, size + tirx.truncdiv(size, i64(SLACK)) + 1)
    lock(block, state.data, "lock")
    with block.loop("k", KEPT_RESULTS) as k:
        tensor = block.bind("tensor", state[_entry(k)])
        found = block.bind("found", state[_entry(k) + 1])
        # The size of an empty entry is 0.
        with block.when(tirx.And(found >= size, found < room[i64(0)])):
            same = tirx.EQ(words_at(block, tensor)[i64(KIND)], kind)
            with block.when(tirx.And(same, _idle(block, tensor))):
                block.store(room, 0, found)
                block.store(out, 0, tensor)
    with block.when(tirx.NE(out[i64(0)], i64(0))):
        block.eval(reference(out[i64(0)], "IncRef"))
        block.store(out, 1, words_at(block, out[i64(0)])[i64(DATA)])
    lock(block, state.data, "unlock")


def reference(tensor: Expr, verb: str) -> Expr:
    """Return a call that adds or drops a reference to a tensor; ``verb``: IncRef or DecRef."""
    return O.call_extern("int32", f"TVMFFIObject{verb}", as_pointer(tensor))


def _reshape(block: Block, tensor: Expr, dims: Buffer, ndim: Expr) -> None:
    fields = words_at(block, tensor)
    shape, strides = words_at(block, fields[i64(SHAPE)]), words_at(block, fields[i64(STRIDES)])
    step = block.alloc("step", 1, "int64")
    block.store(step, 0, i64(1))
    with block.loop("k", ndim) as k:
        axis = block.bind("axis", ndim - 1 - k)
        block.store(shape, axis, dims[axis])
        block.store(strides, axis, step[i64(0)])
        block.store(step, 0, step[i64(0)] * dims[axis])


def _make_room(block: Block, state: Buffer, size: Expr) -> None:
    """Emit code that drops cached results until ``size`` more bytes are within the cache's limit.

    Results that only the program references are dropped first.
    """
    gone = _none_gone(block)
    lock(block, state.data, "lock")
    for any_result in (False, True):
        with block.loop("j", KEPT_RESULTS) as j:
            k = block.bind("k", tirx.truncmod(state[i64(NEXT_RESULT)] + j, i64(KEPT_RESULTS)))
            full = state[i64(RESULTS)] + size > state[i64(RESULT_LIMIT)]
            with block.when(tirx.And(tirx.NE(state[_entry(k)], i64(0)), full)):
                idle = tirx.const(True, "bool") if any_result else _idle(block, state[_entry(k)])
                with block.when(idle):
                    _let_go(block, state, k, gone)
    lock(block, state.data, "unlock")
    _release_all(block, gone)


def _keep(block: Block, state: Buffer, tensor: Expr, size: Expr) -> None:
    """Emit code that caches a new tensor, if the cache's limit permits it, in a free entry or in
    place of the oldest tensor.
    """
    gone, place = _none_gone(block), block.alloc("place", 1, "int64")
    lock(block, state.data, "lock")
    with block.when(state[i64(RESULTS)] + size <= state[i64(RESULT_LIMIT)]):
        block.store(place, 0, state[i64(NEXT_RESULT)])
        with block.loop("k", KEPT_RESULTS) as j, block.when(tirx.EQ(state[_entry(j)], i64(0))):
            block.store(place, 0, j)
        k = block.bind("k", place[i64(0)])
        _let_go(block, state, k, gone)
        block.eval(reference(tensor, "IncRef"))
        block.store(state, _entry(k), tensor)
        block.store(state, _entry(k) + 1, size)
        block.store(state, RESULTS, state[i64(RESULTS)] + size)
        block.store(state, NEXT_RESULT, tirx.truncmod(k + 1, i64(KEPT_RESULTS)))
    lock(block, state.data, "unlock")
    _release_all(block, gone)


def _none_gone(block: Block) -> Buffer:
    gone = block.alloc("gone", KEPT_RESULTS, "int64")
    with block.loop("k", KEPT_RESULTS) as k:
        block.store(gone, k, i64(0))
    return gone


def _let_go(block: Block, state: Buffer, k: Expr, gone: Buffer) -> None:
    """Emit the removal of entry ``k`` from the cache into ``gone``. The caller drops the reference
    after unlocking, as this may unmap pages.
    """
    block.store(gone, k, state[_entry(k)])
    block.store(state, RESULTS, state[i64(RESULTS)] - state[_entry(k) + 1])
    block.store(state, _entry(k), i64(0))
    block.store(state, _entry(k) + 1, i64(0))


def _release_all(block: Block, gone: Buffer) -> None:
    with block.loop("k", KEPT_RESULTS) as k, block.when(tirx.NE(gone[k], i64(0))):
        block.eval(reference(gone[k], "DecRef"))


def _drop() -> PrimFunc:
    """Return ``drop(state)``, which releases all cached results."""
    state_ptr = words("state")
    block = Block()
    state = block.declare("s", state_ptr, "int64")
    gone = _none_gone(block)
    lock(block, state_ptr, "lock")
    with block.loop("k", KEPT_RESULTS) as k:
        _let_go(block, state, k, gone)
    lock(block, state_ptr, "unlock")
    _release_all(block, gone)
    return prim_func([state_ptr], block.stmt())
