"""CUDA graphs: the launches of a call, cached by dims, and launched at once.

begin(record, key)   finds the graph of these dims, or evicts another graph for a new one
node(record, ...)    replaces a launch
take, give           allocate and free the workspace of the call, which its graph owns
end(record)          launches the graph
leave(record)        removes the graph after an error
drop(state)          removes all graphs

A call executes the same host program as without graphs. Each launch is compared with the node at
its position in the graph. If arguments differ, because the caller's tensors have other addresses,
the node is updated. An update takes about as long as a launch, but few kernels access the caller's
tensors. Copies of these tensors to fixed buffers would take longer. Addresses of temporaries never
differ, because a graph owns its workspace.

Graphs are built node by node and not captured from a stream. Capture sets the stream to a special
state that other threads or a failure could disturb, does not return node handles, and does not work
on the default stream. If another call is using the graphs, a call launches its kernels one by one;
no call waits for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.ir import GlobalVar
from tvm.tirx import op as O

from tvm_disc.abi.state import (
    CONTEXT,
    GRAPH_MUTEX,
    GRAPH_UPDATES,
    GRAPH_USES,
    GRAPHS,
    GRAPHS_EVICTED,
    GRAPHS_MADE,
)
from tvm_disc.codegen.cuda.calls import cell_address, driver, raise_error
from tvm_disc.codegen.cuda.stream import refuse, stream
from tvm_disc.codegen.host.abi import as_pointer, i32
from tvm_disc.codegen.host.device import (
    CURSOR,
    FAILED,
    GIVE_FOR,
    GRAPH,
    GRAPH_BEGIN,
    GRAPH_END,
    LEAVE,
    STATE,
    TAKE_FOR,
)
from tvm_disc.codegen.host.memory import GIVE, TAKE, bits_of, release, words
from tvm_disc.codegen.host.results import words_at
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc

NODE, FORGET, BUILD, DROP_GRAPHS = (
    GlobalVar(f"tvm_disc_graph_{name}") for name in ("node", "forget", "build", "drop")
)
# Words of a graph: number of the last use, or 0 for an empty record; the driver's handles; the
# workspace and its size; an event after the last node; the array of nodes (the tape), its length
# and capacity in words; whether the nodes differ from the executable graph. The key follows.
USED, EXECUTABLE, HANDLE, WORKSPACE, BYTES, EVENT, TAPE, LENGTH, ROOM, CHANGED, KEY = range(11)
# Words of a node on the tape: handle, function, blocks, threads (with the bytes of shared memory in
# the high half), number of arguments. The arguments follow.
NODE_HANDLE, FUNCTION, BLOCKS, THREADS, COUNT, ARGUMENTS = range(6)
_WITHOUT_TIMES = 2  # flag of an event


@dataclass(frozen=True)
class Graphs:
    """Size of a program's graph cache: up to ``most`` graphs, with keys of ``key_words``
    numbers.
    """

    most: int
    key_words: int

    @property
    def words(self) -> int:
        """The number of words of the record of one graph."""
        return KEY + self.key_words


def graph_functions(graphs: Graphs, most_words: int) -> dict[GlobalVar, PrimFunc]:
    """Return the functions of a program that uses graphs.

    Args:
        most_words: maximum number of arguments of a device function.
    """
    return {
        GRAPH_BEGIN: _begin(graphs),
        NODE: _node(most_words),
        GRAPH_END: _end(),
        LEAVE: _leave(),
        FORGET: _forget(),
        BUILD: _build(most_words),
        DROP_GRAPHS: _drop(graphs),
        TAKE_FOR: _take(),
        GIVE_FOR: _give(),
    }


def _mutex(state: Buffer) -> Expr:
    return as_pointer(bits_of(state.data) + 8 * GRAPH_MUTEX)


def _locked(block: Block, state: Buffer) -> Expr:
    """Emit a try-lock of the graphs; return whether it succeeded."""
    taken = O.call_extern("int32", "pthread_mutex_trylock", _mutex(state))
    return tirx.EQ(block.bind("taken", taken), i32(0))


def _unlock(block: Block, state: Buffer) -> None:
    block.eval(O.call_extern("int32", "pthread_mutex_unlock", _mutex(state)))


def _count(block: Block, state: Buffer, word: int) -> None:
    block.store(state, word, state[i64(word)] + 1)


def _of_call(block: Block, address: Expr) -> tuple[Buffer, Buffer, Buffer]:
    """Return the record of a call, the program's state, and the call's graph."""
    record = words_at(block, address)
    return record, words_at(block, record[i64(STATE)]), words_at(block, record[i64(GRAPH)])


# -- finding --------------------------------------------------------------------------------------


def _begin(graphs: Graphs) -> PrimFunc:
    """Return ``begin(record, key)``, which selects the graph of the dims in ``key`` for the call.

    If there is no graph of these dims, a new one is begun, which may evict the least recently used
    graph. If another call is using the graphs, this call runs without a graph.
    """
    address, key_ptr = tirx.Var("record", "int64"), words("key")
    block = Block()
    record, key = words_at(block, address), block.declare("k", key_ptr, "int64")
    state = words_at(block, record[i64(STATE)])
    with block.when(tirx.Not(_locked(block, state))):
        block.ret(i32(0))
    with block.when(tirx.EQ(state[i64(GRAPHS)], i64(0))):
        count, size = (tirx.Cast("uint64", i64(n)) for n in (graphs.most * graphs.words, 8))
        made = O.call_extern("handle", "calloc", count, size)
        block.store(state, GRAPHS, bits_of(block.bind("made", made)))
    with block.when(tirx.EQ(state[i64(GRAPHS)], i64(0))):
        _unlock(block, state)
        block.ret(i32(0))
    _count(block, state, GRAPH_USES)
    found, oldest = (block.alloc(n, 1, "int64") for n in ("found", "oldest"))
    block.store(found, 0, i64(0))
    block.store(oldest, 0, state[i64(GRAPHS)])
    with block.loop("k", graphs.most) as k:
        at = block.bind("at", state[i64(GRAPHS)] + k * (8 * graphs.words))
        graph = words_at(block, at)
        same = block.alloc("same", 1, "int64")
        block.store(same, 0, graph[i64(USED)])
        with (
            block.loop("j", graphs.key_words) as j,
            block.when(tirx.NE(graph[j + KEY], key[j])),
        ):
            block.store(same, 0, i64(0))
        with block.when(tirx.NE(same[i64(0)], i64(0))):
            block.store(found, 0, at)
        eldest = words_at(block, oldest[i64(0)])
        with block.when(graph[i64(USED)] < eldest[i64(USED)]):
            block.store(oldest, 0, at)
    with block.when(tirx.EQ(found[i64(0)], i64(0))):
        block.store(found, 0, oldest[i64(0)])
        graph = words_at(block, oldest[i64(0)])
        with block.when(tirx.NE(graph[i64(USED)], i64(0))):
            _count(block, state, GRAPHS_EVICTED)
            block.eval(call(FORGET, state.data, oldest[i64(0)]))
        with block.loop("j", graphs.key_words) as j:
            block.store(graph, j + KEY, key[j])
    graph = words_at(block, found[i64(0)])
    block.store(graph, USED, state[i64(GRAPH_USES)])
    block.store(record, GRAPH, found[i64(0)])
    return prim_func([address, key_ptr], block.stmt())


# -- nodes ----------------------------------------------------------------------------------------


def _node(most_words: int) -> PrimFunc:
    """Return ``node(record, function, blocks, threads, arguments, count)``, which replaces a
    launch.
    """
    names = ("record", "function", "blocks", "threads", "count")
    address, function, blocks, threads, count = (tirx.Var(n, "int64") for n in names)
    given_ptr = words("given")
    block = Block()
    given = block.declare("g", given_ptr, "int64")
    record, state, graph = _of_call(block, address)
    at = block.bind("at", record[i64(CURSOR)])
    end = block.bind("end", at + count + ARGUMENTS)
    _make_room(block, record, graph, end)
    tape = words_at(block, graph[i64(TAPE)] + at * 8)
    block.store(record, CURSOR, end)
    known = tirx.And(tirx.EQ(graph[i64(CHANGED)], i64(0)), at < graph[i64(LENGTH)])
    with block.when(known):
        one = tirx.EQ(tape[i64(FUNCTION)], function)
        with block.when(tirx.Or(tirx.Not(one), tirx.NE(tape[i64(COUNT)], count))):
            block.store(graph, CHANGED, i64(1))
    with block.otherwise():
        block.store(graph, CHANGED, i64(1))
    differs = block.alloc("differs", 1, "int64")
    block.store(differs, 0, i64(0))
    header = ((FUNCTION, function), (BLOCKS, blocks), (THREADS, threads), (COUNT, count))
    for word, value in header:
        with block.when(tirx.NE(tape[i64(word)], value)):
            block.store(tape, word, value)
            block.store(differs, 0, i64(1))
    with block.loop("k", count) as k, block.when(tirx.NE(tape[k + ARGUMENTS], given[k])):
        block.store(tape, k + ARGUMENTS, given[k])
        block.store(differs, 0, i64(1))
    updated = tirx.And(tirx.NE(differs[i64(0)], i64(0)), tirx.EQ(graph[i64(CHANGED)], i64(0)))
    with block.when(updated):
        _count(block, state, GRAPH_UPDATES)
        node, params = tape[i64(NODE_HANDLE)], _parameters(block, tape, most_words)
        name = "cuGraphExecKernelNodeSetParams"
        status = driver(state, name, graph[i64(EXECUTABLE)], node, params)
        status = block.bind("status", status)
        refuse(block, (record, FAILED), status, "update a kernel of a CUDA graph")
    arguments = [address, function, blocks, threads, given_ptr, count]
    return prim_func(arguments, block.stmt())


def _make_room(block: Block, record: Buffer, graph: Buffer, end: Expr) -> None:
    """Emit the reallocation of the tape if it has fewer than ``end`` words."""
    with block.when(end > graph[i64(ROOM)]):
        room = block.bind("room", end * 2)
        old = as_pointer(graph[i64(TAPE)])
        found = O.call_extern("handle", "realloc", old, tirx.Cast("uint64", room * 8))
        made = block.bind("made", bits_of(block.bind("found", found)))
        with block.when(tirx.EQ(made, i64(0))):
            raise_error(block, "MemoryError", ["out of memory for a CUDA graph"])
            block.store(record, FAILED, i64(1))
            block.ret(i32(0))
        block.store(graph, TAPE, made)
        block.store(graph, ROOM, room)


def _parameters(block: Block, tape: Buffer, most_words: int) -> Expr:
    """Return the address of the driver's parameters for the kernel node at ``tape``."""
    places = words_at(block, bits_of(block.stack("places", 8 * most_words, 8).data))
    with block.loop("k", tape[i64(COUNT)]) as i:
        block.store(places, i, bits_of(tape.data) + (i + ARGUMENTS) * 8)
    # CUDA_KERNEL_NODE_PARAMS: a function; three sizes of the grid, three of a block, and the bytes
    # of shared memory, 32 bits each; the addresses of the arguments; no extra arguments.
    high = i64(1 << 32)
    grid, threads = tape[i64(BLOCKS)] | high, i64(1) | tape[i64(THREADS)] << i64(32)
    room_bytes = tirx.shift_right(tape[i64(THREADS)], i64(32))
    fields = (tape[i64(FUNCTION)], grid, threads, i64(1) | high, room_bytes, bits_of(places.data))
    params = words_at(block, bits_of(block.stack("params", 8 * (len(fields) + 1), 8).data))
    for k, field in enumerate((*fields, i64(0))):
        block.store(params, k, field)
    return bits_of(params.data)


# -- launching ------------------------------------------------------------------------------------


def _end() -> PrimFunc:
    """Return ``end(record)``, which launches the graph, and rebuilds it before if its nodes
    changed.
    """
    address = tirx.Var("record", "int64")
    block = Block()
    record, state, graph = _of_call(block, address)
    with block.when(record[i64(CURSOR)] > 0):
        other = tirx.NE(record[i64(CURSOR)], graph[i64(LENGTH)])
        with block.when(tirx.Or(other, tirx.NE(graph[i64(CHANGED)], i64(0)))):
            block.eval(call(BUILD, address))
            with block.when(tirx.NE(record[i64(FAILED)], i64(0))):
                block.ret(i32(0))
        status = driver(state, "cuGraphLaunch", graph[i64(EXECUTABLE)], stream(block))
        refuse(block, (record, FAILED), block.bind("status", status), "launch a CUDA graph")
    _unlock(block, state)
    return prim_func([address], block.stmt())


def _build(most_words: int) -> PrimFunc:
    """Return ``build(record)``, which makes an executable graph of the nodes on the tape, in
    sequence.
    """
    address = tirx.Var("record", "int64")
    block = Block()
    record, state, graph = _of_call(block, address)
    _destroy(block, state, graph)
    cell, before = block.alloc("cell", 1, "int64"), block.alloc("before", 1, "int64")

    def step(name: str, *args: Expr) -> None:
        status = block.bind("status", driver(state, name, *args))
        refuse(block, (record, FAILED), status, "make a CUDA graph")

    def made(name: str, word: int, *args: Expr) -> None:
        block.store(cell, 0, i64(0))
        step(name, cell_address(cell), *args)
        block.store(graph, word, cell[i64(0)])

    made("cuGraphCreate", HANDLE, i64(0))
    at = block.alloc("at", 1, "int64")
    block.store(before, 0, i64(0))
    block.store(at, 0, i64(0))
    with block.loop_while(at[i64(0)] < record[i64(CURSOR)]):
        tape = words_at(block, graph[i64(TAPE)] + at[i64(0)] * 8)
        follows = tirx.Cast("int64", tirx.NE(before[i64(0)], i64(0)))
        params = _parameters(block, tape, most_words)
        place = bits_of(tape.data) + 8 * NODE_HANDLE
        step("cuGraphAddKernelNode", place, graph[i64(HANDLE)], cell_address(before), follows,
             params)  # fmt: skip
        block.store(before, 0, tape[i64(NODE_HANDLE)])
        block.store(at, 0, at[i64(0)] + tape[i64(COUNT)] + ARGUMENTS)
    with block.when(tirx.EQ(graph[i64(EVENT)], i64(0))):
        made("cuEventCreate", EVENT, i64(_WITHOUT_TIMES))
    # The memory of the graph is freed only after this event, that is, after the graph's last launch
    # on any stream.
    step("cuGraphAddEventRecordNode", cell_address(cell), graph[i64(HANDLE)], cell_address(before),
         i64(1), graph[i64(EVENT)])  # fmt: skip
    made("cuGraphInstantiateWithFlags", EXECUTABLE, graph[i64(HANDLE)], i64(0))
    block.store(graph, LENGTH, record[i64(CURSOR)])
    block.store(graph, CHANGED, i64(0))
    _count(block, state, GRAPHS_MADE)
    return prim_func([address], block.stmt())


# -- destroying cached graphs ---------------------------------------------------------------------


def _destroy(block: Block, state: Buffer, graph: Buffer) -> None:
    """Emit the destruction of the driver's handles of a graph; running launches complete
    normally.
    """
    for word, name in ((EXECUTABLE, "cuGraphExecDestroy"), (HANDLE, "cuGraphDestroy")):
        with block.when(tirx.NE(graph[i64(word)], i64(0))):
            block.eval(driver(state, name, graph[i64(word)]))
            block.store(graph, word, i64(0))


def _forget() -> PrimFunc:
    """Return ``forget(state, graph)``, which removes a graph and frees all memory that it owns.
    Device memory is freed in stream order, after the graph's last launch on any stream.
    """
    state_ptr, address = words("state"), tirx.Var("graph", "int64")
    block = Block()
    state, graph = block.declare("s", state_ptr, "int64"), words_at(block, address)
    _destroy(block, state, graph)
    now = stream(block)
    with block.when(tirx.NE(graph[i64(EVENT)], i64(0))):
        block.eval(driver(state, "cuStreamWaitEvent", now, graph[i64(EVENT)], i64(0)))
        block.eval(driver(state, "cuEventDestroy_v2", graph[i64(EVENT)]))
    with block.when(tirx.NE(graph[i64(WORKSPACE)], i64(0))):
        block.eval(driver(state, "cuMemFreeAsync", graph[i64(WORKSPACE)], now))
    block.eval(release(graph[i64(TAPE)]))
    for word in range(KEY):
        block.store(graph, word, i64(0))
    return prim_func([state_ptr, address], block.stmt())


def _leave() -> PrimFunc:
    """Return ``leave(record)``, which removes the graph after an error; the next call of these dims
    builds a new one.
    """
    address = tirx.Var("record", "int64")
    block = Block()
    record, state, _ = _of_call(block, address)
    block.eval(call(FORGET, state.data, record[i64(GRAPH)]))
    block.store(record, GRAPH, i64(0))
    _unlock(block, state)
    return prim_func([address], block.stmt())


def _drop(graphs: Graphs) -> PrimFunc:
    """Return ``drop(state)``, which removes all graphs, unless a call is using them."""
    state_ptr = words("state")
    block = Block()
    state = block.declare("s", state_ptr, "int64")
    there = tirx.NE(state[i64(GRAPHS)], i64(0))
    with block.when(there), block.when(_locked(block, state)):
        block.eval(driver(state, "cuCtxSetCurrent", state[i64(CONTEXT)]))
        with block.loop("k", graphs.most) as k:
            at = block.bind("at", state[i64(GRAPHS)] + k * (8 * graphs.words))
            with block.when(tirx.NE(words_at(block, at)[i64(USED)], i64(0))):
                block.eval(call(FORGET, state.data, at))
        _unlock(block, state)
    return prim_func([state_ptr], block.stmt())


# -- workspace ------------------------------------------------------------------------------------


def _take() -> PrimFunc:
    """Return ``take(record, size, out)``; ``out`` receives the workspace of the call's graph, or
    memory from the pool if the call has no graph. It receives 0 if memory is exhausted or the
    graph's workspace is too small.
    """
    address, size, out_ptr = tirx.Var("record", "int64"), tirx.Var("size", "int64"), words("out")
    block = Block()
    out = block.declare("o", out_ptr, "int64")
    record = words_at(block, address)
    state = words_at(block, record[i64(STATE)])
    with block.when(tirx.EQ(record[i64(GRAPH)], i64(0))):
        block.eval(call(TAKE, state.data, size, out.data))
        block.ret(i32(0))
    graph = words_at(block, record[i64(GRAPH)])
    with block.when(tirx.EQ(graph[i64(WORKSPACE)], i64(0))):
        block.eval(call(TAKE, state.data, size, out.data))
        block.store(graph, WORKSPACE, out[i64(0)])
        block.store(graph, BYTES, size)
    # Calls of one graph have equal sizes. A larger size would be written out of bounds: refuse it.
    block.store(out, 0, tirx.Select(size > graph[i64(BYTES)], i64(0), graph[i64(WORKSPACE)]))
    return prim_func([address, size, out_ptr], block.stmt())


def _give() -> PrimFunc:
    """Return ``give(record, address)``, which frees a workspace, unless a graph owns it."""
    address, workspace = tirx.Var("record", "int64"), tirx.Var("workspace", "int64")
    block = Block()
    record = words_at(block, address)
    with block.when(tirx.EQ(record[i64(GRAPH)], i64(0))):
        state = words_at(block, record[i64(STATE)])
        block.eval(call(GIVE, state.data, workspace))
    return prim_func([address, workspace], block.stmt())


__all__ = [
    "DROP_GRAPHS",
    "NODE",
    "Graphs",
    "graph_functions",
]
