"""Operations of a call on the device: launches, memory, copies, and result tensors.

The memory functions have the same names and parameters as those for CPUs
(``codegen/host/memory.py``), so that the same host code calls them. All operations use the caller's
stream, which TVM's runtime stores per thread, and are asynchronous except ``read``, ``wait``, the
download of a tensor, and the release of a program.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PrimType
from tvm.tirx import op as O

from tvm_disc.abi.entries import CLOSE, DOWNLOAD, UPLOAD
from tvm_disc.abi.state import (
    CONTEXT,
    DEVICE_CONSTANTS,
    FUNCTIONS,
    LIMIT,
    MISSES,
    OPENED,
    RELEASE,
    REQUESTS,
)
from tvm_disc.codegen.cuda.calls import (
    RELEASE_NAME,
    cell_address,
    driver,
    raise_error,
    raise_status,
)
from tvm_disc.codegen.cuda.events import event_functions
from tvm_disc.codegen.cuda.graphs import DROP_GRAPHS, NODE, Graphs, graph_functions
from tvm_disc.codegen.cuda.library import library_functions
from tvm_disc.codegen.cuda.stream import refuse, stream
from tvm_disc.codegen.host.abi import (
    ANY_PADDING,
    ANY_TYPE,
    ANY_VALUE,
    CUDA,
    TENSOR_OBJECT,
    as_pointer,
    i32,
    static_cell,
    void_pointer,
)
from tvm_disc.codegen.host.device import COPY, DEVICE_NUMBER, GRAPH, OPEN, READ, WAIT
from tvm_disc.codegen.host.memory import (
    DROP,
    GIVE,
    TAKE,
    TENSOR,
    TRIM,
    bits_of,
    release,
    state_of,
    words,
)
from tvm_disc.codegen.host.overlap import LEFT as LEFT_CODE
from tvm_disc.codegen.host.overlap import fail_function
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.host.results import MANAGED_WORDS, manage, words_at
from tvm_disc.schedules.cuda.kernel import LAUNCH
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc

LEFT = GlobalVar("tvm_disc_device_left")


def launch_functions(
    slot: GlobalVar, graphs: Graphs | None, most_words: int
) -> dict[GlobalVar, PrimFunc]:
    """Return the private functions of a call, and the packed functions.

    Args:
        most_words: maximum number of arguments of a device function.
    """
    kept = graph_functions(graphs, most_words) if graphs is not None else {}
    return {
        **kept,
        **library_functions(),
        **event_functions(),
        LAUNCH: _launch(graphs is not None, most_words),
        COPY: _copy(),
        READ: _read(),
        WAIT: _wait(),
        TAKE: _take(),
        GIVE: _give(),
        TRIM: _trim(graphs is not None),
        DROP: _drop(),
        TENSOR: _tensor(),
        GlobalVar(RELEASE_NAME): _release(),
        # Another name than in the entry unit, as a unit can refer to a name only once.
        LEFT: fail_function(LEFT, LEFT_CODE),
        GlobalVar(UPLOAD): _upload(slot),
        GlobalVar(DOWNLOAD): _download(slot),
        GlobalVar(CLOSE): _close(slot),
    }


def _state(block: Block, pointer: Expr) -> Buffer:
    return block.declare("s", pointer, "int64")


def _launch(graphs: bool, most_words: int) -> PrimFunc:
    """Return ``launch(record, number, blocks, threads, words, count)``, which launches a kernel.

    The high half of ``threads`` is the number of bytes of dynamic shared memory. In a call with a
    graph, the kernel becomes a node of the graph.
    """
    address = tirx.Var("record", "int64")
    names = ("number", "blocks", "threads", "count")
    number, blocks, threads, count = (tirx.Var(n, "int64") for n in names)
    given = words("given")
    block = Block()
    record = words_at(block, address)
    state = words_at(block, record[i64(0)])
    functions = words_at(block, state[i64(FUNCTIONS)])
    code = block.bind("function", functions[number])
    if graphs:
        with block.when(tirx.NE(record[i64(GRAPH)], i64(0))):
            block.eval(call(NODE, address, code, blocks, threads, given, count))
            block.ret(i32(0))
    place = block.stack("places", 8 * most_words, 8)
    places = words_at(block, bits_of(place.data))
    with block.loop("k", count) as k:
        block.store(places, k, bits_of(given) + k * 8)
    one = i64(1)
    status = driver(
        state,
        "cuLaunchKernel",
        code,
        blocks,
        one,
        one,
        tirx.bitwise_and(threads, i64(0xFFFFFFFF)),
        one,
        one,
        tirx.shift_right(threads, i64(32)),
        stream(block),
        bits_of(place.data),
        i64(0),
    )
    refuse(block, (record, 1), block.bind("status", status), "launch a kernel")
    return prim_func([address, number, blocks, threads, given, count], block.stmt())


def _copy() -> PrimFunc:
    """Return ``copy(state, to, from, size, out)``, which copies on the device; ``out`` is 1 on
    failure.
    """
    state_ptr, out_ptr = words("state"), words("out")
    to, source, size = (tirx.Var(n, "int64") for n in ("to", "source", "size"))
    block = Block()
    state, out = _state(block, state_ptr), block.declare("o", out_ptr, "int64")
    block.store(out, 0, i64(0))
    with block.when(size > 0):
        status = driver(state, "cuMemcpyDtoDAsync_v2", to, source, size, stream(block))
        refuse(block, (out, 0), block.bind("status", status), "copy a tensor on the device")
    return prim_func([state_ptr, to, source, size, out_ptr], block.stmt())


def _read() -> PrimFunc:
    """Return ``read(state, address, size, out)``, which copies a few bytes from the device and
    waits.

    The bytes are stored after the first word of ``out``, which is 1 on failure.
    """
    state_ptr, out = words("state"), words("out")
    address, size = (tirx.Var(n, "int64") for n in ("address", "size"))
    block = Block()
    state = _state(block, state_ptr)
    cell = block.declare("o", out, "int64")
    block.store(cell, 0, i64(0))
    block.store(cell, 1, i64(0))  # the copied bytes may not fill this word
    now = stream(block)
    status = driver(state, "cuMemcpyDtoHAsync_v2", bits_of(out) + 8, address, size, now)
    refuse(block, (cell, 0), block.bind("status", status), "read a size or a condition")
    status = block.bind("status", driver(state, "cuStreamSynchronize", now))
    refuse(block, (cell, 0), status, "finish the kernels before a size or condition")
    return prim_func([state_ptr, address, size, out], block.stmt())


def _wait() -> PrimFunc:
    """Return ``wait(state)``, which waits for all earlier work of the stream."""
    state_ptr = words("state")
    block = Block()
    state = _state(block, state_ptr)
    block.eval(driver(state, "cuStreamSynchronize", stream(block)))
    return prim_func([state_ptr], block.stmt())


def _take() -> PrimFunc:
    """Return ``take(state, size, out)``; ``out`` receives the address of stream-ordered device
    memory, or 0 if memory is exhausted.
    """
    state_ptr, size, out = words("state"), tirx.Var("size", "int64"), words("out")
    block = Block()
    state, cell = _state(block, state_ptr), block.declare("o", out, "int64")
    _allocate(block, state, size, cell)
    return prim_func([state_ptr, size, out], block.stmt())


def _allocate(block: Block, state: Buffer, size: Expr, out: Buffer) -> None:
    block.store(out, 0, i64(0))
    block.store(state, REQUESTS, state[i64(REQUESTS)] + 1)
    room = block.bind("room", tirx.max(size, i64(64)))
    found = block.alloc("found", 1, "int64")
    block.store(found, 0, i64(0))
    now = stream(block)
    asked = driver(state, "cuMemAllocAsync", cell_address(found), room, now)
    asked = block.bind("asked", asked)
    with block.when(tirx.NE(asked, i64(0))):
        # Memory that was freed in stream order may become available after synchronization.
        block.store(state, MISSES, state[i64(MISSES)] + 1)
        block.store(found, 0, i64(0))
        block.eval(driver(state, "cuStreamSynchronize", now))
        again = driver(state, "cuMemAllocAsync", cell_address(found), room, now)
        with block.when(tirx.NE(block.bind("again", again), i64(0))):
            block.store(found, 0, i64(0))
    block.store(out, 0, found[i64(0)])


def _give() -> PrimFunc:
    """Return ``give(state, address)``, which frees memory after all earlier kernels of the
    stream.
    """
    state_ptr, address = words("state"), tirx.Var("address", "int64")
    block = Block()
    state = _state(block, state_ptr)
    block.eval(driver(state, "cuMemFreeAsync", address, stream(block)))
    return prim_func([state_ptr, address], block.stmt())


def _trim(graphs: bool) -> PrimFunc:
    """Return ``trim(state)``, which removes all graphs and trims the driver's pool to the program's
    limit.
    """
    state_ptr = words("state")
    block = Block()
    state = _state(block, state_ptr)
    with block.when(tirx.NE(state[i64(OPENED)], i64(0))):
        if graphs:
            block.eval(call(DROP_GRAPHS, state.data))
        pool = block.alloc("pool", 1, "int64")
        where = cell_address(pool)
        asked = driver(state, "cuDeviceGetDefaultMemPool", where, i64(DEVICE_NUMBER))
        with block.when(tirx.EQ(block.bind("asked", asked), i64(0))):
            block.eval(driver(state, "cuMemPoolTrimTo", pool[i64(0)], state[i64(LIMIT)]))
    return prim_func([state_ptr], block.stmt())


def _close(slot: object) -> PrimFunc:
    """Return the function ``()``, which frees graphs, waits for all work, and frees the constants.

    No call may run concurrently. The code stays loaded, because it frees the results that still
    exist.
    """

    def emit(block: Block, args: Arguments) -> None:
        state = state_of(block, static_cell(block, slot))
        with block.when(tirx.NE(state[i64(OPENED)], i64(0))):
            block.eval(driver(state, "cuCtxSetCurrent", state[i64(CONTEXT)]))
            block.eval(call(TRIM, state.data))
            block.eval(driver(state, "cuCtxSynchronize", i64(0)))
            block.eval(driver(state, "cuMemFree_v2", state[i64(DEVICE_CONSTANTS)]))
            block.store(state, DEVICE_CONSTANTS, i64(0))
            block.store(state, OPENED, i64(0))

    return packed(CLOSE, emit)


def _drop() -> PrimFunc:
    """Return ``drop(state)``, which does nothing: results are not cached, as the driver's pool
    caches their memory.
    """
    state_ptr = words("state")
    return prim_func([state_ptr], Block().stmt())


def _tensor() -> PrimFunc:
    """Return ``new_tensor(state, kind, dims, ndim, size, out)``, as in
    ``codegen/host/results.py``.
    """
    state_ptr, dims_ptr, out_ptr = words("state"), words("dims"), words("out")
    kind, ndim, size = (tirx.Var(n, "int64") for n in ("kind", "ndim", "size"))
    block = Block()
    state, out = _state(block, state_ptr), block.declare("o", out_ptr, "int64")
    dims = block.declare("d", dims_ptr, "int64")
    data = block.alloc("data", 1, "int64")
    block.store(data, 0, i64(0))
    block.store(out, 0, i64(0))
    with block.when(tirx.And(size >= 0, size < i64(1 << 62))):
        _allocate(block, state, size, data)
    with block.when(tirx.NE(data[i64(0)], i64(0))):
        total = tirx.Cast("uint64", (ndim + MANAGED_WORDS) * 8)
        base = block.bind(
            "base", bits_of(block.bind("got", O.call_extern("handle", "malloc", total)))
        )
        owner, code = bits_of(state_ptr), state[i64(RELEASE)]
        memory = (owner, code, data[i64(0)], CUDA | DEVICE_NUMBER << 32)
        manage(block, base, memory, (kind, dims, ndim), out)
        with block.when(tirx.EQ(out[i64(0)], i64(0))):
            block.eval(driver(state, "cuMemFreeAsync", data[i64(0)], stream(block)))
            block.eval(release(base))
    return prim_func([state_ptr, kind, dims_ptr, ndim, size, out_ptr], block.stmt())


def _release() -> PrimFunc:
    """Return the function ``(managed tensor)``, the deleter of results, which the last owner of a
    result calls.
    """
    managed = tirx.Var("managed", void_pointer())
    block = Block()
    fields = words_at(block, bits_of(managed))
    state = words_at(block, fields[i64(1)])
    block.eval(driver(state, "cuCtxSetCurrent", state[i64(CONTEXT)]))
    block.eval(driver(state, "cuMemFreeAsync", fields[i64(4)], stream(block)))
    block.eval(release(bits_of(managed)))
    block.ret(i32(0))
    func = tirx.PrimFunc([managed], block.stmt(), PrimType("int32"))
    return func.with_attr("calling_conv", 1).with_attr("global_symbol", RELEASE_NAME)


def _upload(slot: GlobalVar) -> PrimFunc:
    """Return ``(kind, ndim, address of the dims, bytes, address of the data) -> tensor``, which
    copies a host array to a new device tensor.
    """
    handle, args = (tirx.Var(n, void_pointer()) for n in ("self_handle", "args"))
    count, result = tirx.Var("num_args", "int32"), tirx.Var("result", void_pointer())
    block = Block()
    given = Arguments(block, args)
    names = ("kind", "ndim", "dims", "size", "source")
    kind, ndim, dims, size, source = (block.bind(n, given.integer(k)) for k, n in enumerate(names))
    state = state_of(block, static_cell(block, slot))
    _open_or_fail(block, state, args)
    made = block.alloc("made", 2, "int64")
    block.eval(call(TENSOR, state.data, kind, words_at(block, dims).data, ndim, size, made.data))
    with block.when(tirx.EQ(made[i64(0)], i64(0))):
        raise_error(block, "MemoryError", ["out of memory on the GPU"])
        block.eval(_left(args))
    with block.when(size > 0):
        sent = driver(state, "cuMemcpyHtoDAsync_v2", made[i64(1)], source, size, stream(block))
        status = block.bind("status", sent)
        with block.when(tirx.NE(status, i64(0))):
            raise_status(block, "copy an input to the device", status)
            tensor = as_pointer(made[i64(0)])
            block.eval(O.call_extern("int32", "TVMFFIObjectDecRef", tensor))
            block.eval(_left(args))
    for field, value in (
        (ANY_TYPE, i32(TENSOR_OBJECT)),
        (ANY_PADDING, i32(0)),
        (ANY_VALUE, made[i64(0)]),
    ):
        block.eval(O.tvm_struct_set(result, i32(0), i32(field), value))
    block.ret(i32(0))
    func = tirx.PrimFunc([handle, args, count, result], block.stmt(), PrimType("int32"))
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", f"__tvm_ffi_{UPLOAD}")


def _left(args: object) -> Expr:
    """Return a call that fails: the caller returns with the error that was already raised."""
    return O.call_cpacked(str(LEFT.name_hint), args)


def _open_or_fail(block: Block, state: Buffer, args: object) -> None:
    """Emit the opening of the device, with an error exit."""
    out = block.alloc("opened", 1, "int64")
    block.eval(call(OPEN, state.data, out.data))
    with block.when(tirx.NE(out[i64(0)], i64(0))):
        block.eval(_left(args))


def _download(slot: object) -> PrimFunc:
    """Return ``(tensor, address, bytes)``, which copies a tensor's elements to the host address and
    waits for the copy.
    """

    def emit(block: Block, args: Arguments) -> None:
        source = bits_of(args.data(0, "int8"))
        to, size = (block.bind(n, args.integer(k)) for k, n in ((1, "to"), (2, "size")))
        state = state_of(block, static_cell(block, slot))
        _open_or_fail(block, state, args.handle)
        now = stream(block)
        with block.when(size > 0):
            block.eval(driver(state, "cuMemcpyDtoHAsync_v2", to, source, size, now))
        status = block.bind("status", driver(state, "cuStreamSynchronize", now))
        with block.when(tirx.NE(status, i64(0))):
            raise_status(block, "finish the kernels of a call", status)
            block.eval(_left(args.handle))

    return packed(DOWNLOAD, emit)


__all__ = ["launch_functions"]
