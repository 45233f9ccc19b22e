"""Opening of the device in a program's first call: load the driver, the code and the constants.

open(state, out)     ``out`` is 0; 1 if it failed and raised an error
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.abi.state import (
    CALLS,
    CAPABILITY,
    CONSTANTS,
    CONTEXT,
    DEVICE_CONSTANTS,
    DRIVER_CALLS,
    FUNCTIONS,
    GRAPH_CALLS,
    LIMIT,
    MODULE,
    OPENED,
    RELEASE,
)
from tvm_disc.codegen.cuda.calls import (
    ERROR,
    RELEASE_TEXT,
    cell_address,
    digits,
    driver,
    raise_error,
    raise_status,
    text_address,
)
from tvm_disc.codegen.cuda.image import Placed
from tvm_disc.codegen.host.abi import i32
from tvm_disc.codegen.host.device import DEVICE_NUMBER, OPEN
from tvm_disc.codegen.host.memory import bits_of, lock, words
from tvm_disc.target.device import GROUPS
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.tir.imports import provide
from tvm_disc.typing import Buffer, Expr, PrimFunc, Var

OPEN_LOCKED, FIND, FIND_LIBRARY = (
    GlobalVar(f"tvm_disc_{n}") for n in ("open_locked", "find", "find_library")
)
LIBRARY = "libcuda.so.1"
_NOW, _GLOBAL = 2, 0x100
_MAJOR, _MINOR = 75, 76  # device attributes: compute capability
_ROOM = 8  # attribute of a function: bytes of dynamic shared memory that a launch may request
_THRESHOLD = 4  # attribute of a memory pool: bytes that it keeps
NAME_BYTES = 128

provide(RELEASE_TEXT)


def open_functions(placed: Placed, graphs: bool) -> dict[GlobalVar, PrimFunc]:
    """Return the functions that open the device for one program's code.

    Args:
        graphs: whether the program uses CUDA graphs, which require a newer driver.
    """
    return {OPEN: _open(), OPEN_LOCKED: _open_locked(placed), FIND: _find(graphs)}


def leave(block: Block, out: Buffer) -> None:
    """Emit a return after an error was raised; ``out`` becomes 1 to report the failure."""
    block.store(out, 0, i64(1))
    block.ret(i32(0))


def _begin() -> tuple[Block, tuple[Var, Var], Buffer, Buffer]:
    """Begin a function ``(state, out)``, which sets ``out`` to 0; return its block, parameters and
    buffers.
    """
    params = words("state"), words("out")
    block = Block()
    state, out = (block.declare(n, p, "int64") for n, p in zip("so", params, strict=True))
    block.store(out, 0, i64(0))
    return block, params, state, out


def _open() -> PrimFunc:
    """Return ``open(state, out)``, which opens the device if necessary and makes its context
    current.
    """
    block, params, state, out = _begin()
    with block.when(tirx.EQ(state[i64(OPENED)], i64(0))):
        lock(block, params[0], "lock")
        block.eval(call(OPEN_LOCKED, *params))
        lock(block, params[0], "unlock")
        with block.when(tirx.NE(out[i64(0)], i64(0))):
            block.ret(i32(0))
    used = block.bind("used", driver(state, "cuCtxSetCurrent", state[i64(CONTEXT)]))
    _failed(block, out, used, "cuCtxSetCurrent")
    return prim_func(list(params), block.stmt())


def _failed(block: Block, out: Buffer, status: Expr, name: str) -> None:
    """Emit an error exit if a driver call failed."""
    with block.when(tirx.NE(status, i64(0))):
        raise_status(block, f"open the device with {name}", status)
        leave(block, out)


def _find(graphs: bool) -> PrimFunc:
    """Return ``find(state, out)``, which stores the addresses of the driver's functions in the
    state, or raises an error if the driver or one of the functions is missing.

    Args:
        graphs: whether the functions of CUDA graphs, which require CUDA 11.4, are also looked up.
    """
    block, params, state, out = _begin()
    library = O.call_extern("handle", "dlopen", StringImm(LIBRARY), i32(_NOW | _GLOBAL))
    handle = block.bind("library", library)
    with block.when(tirx.EQ(bits_of(handle), i64(0))):
        raise_error(
            block,
            ERROR,
            [
                f"no driver: {LIBRARY} was not found; a program for cuda runs on a machine with "
                "an NVIDIA GPU and its driver"
            ],
        )
        leave(block, out)
    named = (*DRIVER_CALLS, *(GRAPH_CALLS if graphs else ()))
    for k, name in enumerate(named):
        found = O.call_extern("handle", "dlsym", handle, StringImm(name))
        code = block.bind("code", bits_of(block.bind("found", found)))
        newer = "11.2" if k < len(DRIVER_CALLS) else "11.4"
        with block.when(tirx.EQ(code, i64(0))):
            raise_error(
                block,
                ERROR,
                [f"the GPU's driver is too old: it has no {name}; CUDA {newer} or newer has"],
            )
            leave(block, out)
        block.store(state, CALLS + k, code)
    return prim_func(list(params), block.stmt())


def _open_locked(placed: Placed) -> PrimFunc:
    """Return ``open_locked(state, out)``, which is called with the program's mutex locked."""
    block, params, state, out = _begin()
    with block.when(tirx.NE(state[i64(OPENED)], i64(0))):
        block.ret(i32(0))
    block.eval(call(FIND, *params))
    with block.when(tirx.NE(out[i64(0)], i64(0))):
        block.ret(i32(0))
    step = _Steps(block, state, out)
    step("cuInit", i64(0))
    count = block.alloc("count", 1, "int64")
    block.store(count, 0, i64(0))
    counted = driver(state, "cuDeviceGetCount", cell_address(count))
    counted = block.bind("counted", counted)
    none = tirx.EQ(tirx.bitwise_and(count[i64(0)], i64(0xFFFFFFFF)), i64(0))
    with block.when(tirx.Or(tirx.NE(counted, i64(0)), none)):
        raise_error(block, ERROR, ["no GPU: the driver finds no device"])
        leave(block, out)
    cell = block.alloc("cell", 1, "int64")
    step("cuDevicePrimaryCtxRetain", cell_address(cell), i64(DEVICE_NUMBER))
    block.store(state, CONTEXT, cell[i64(0)])
    step("cuCtxSetCurrent", state[i64(CONTEXT)])
    # Skip parts that an earlier, failed attempt completed.
    with block.when(tirx.EQ(state[i64(FUNCTIONS)], i64(0))):
        _load(step, placed, cell)
    _constants(step, placed, cell)
    _pool(step, cell)
    block.eval(call(FIND_LIBRARY, params[0]))
    block.store(state, RELEASE, O.call_extern("int64", "disc.release_code"))
    block.store(state, OPENED, i64(1))
    return prim_func(list(params), block.stmt())


class _Steps:
    """Emits driver calls in sequence; each exits on failure."""

    def __init__(self, block: Block, state: Buffer, out: Buffer) -> None:
        self.block, self.state, self.out = block, state, out

    def __call__(self, name: str, *args: Expr) -> None:
        """Emit one driver call."""
        status = self.block.bind("status", driver(self.state, name, *args))
        _failed(self.block, self.out, status, name.partition("_")[0])


def _attribute(step: _Steps, number: int) -> Expr:
    block = step.block
    cell = block.alloc("attribute", 1, "int64")
    block.store(cell, 0, i64(0))
    step("cuDeviceGetAttribute", cell_address(cell), i64(number), i64(DEVICE_NUMBER))
    return block.bind("value", tirx.bitwise_and(cell[i64(0)], i64(0xFFFFFFFF)))


def _load(step: _Steps, placed: Placed, cell: Buffer) -> None:
    """Emit the loading of the best image: machine code for the device's generation, or PTX if there
    is none.
    """
    block, state = step.block, step.state
    major, minor = _attribute(step, _MAJOR), _attribute(step, _MINOR)
    device = block.bind("device", major * 10 + minor)
    block.store(state, CAPABILITY, device)
    chosen = block.alloc("chosen", 1, "int64")
    block.store(chosen, 0, i64(-1))
    for number, portable, offset in sorted(placed.images, key=lambda image: (not image[1], image)):
        fits = device >= number
        if not portable:
            fits = tirx.And(fits, tirx.EQ(major, i64(number // 10)))
        with block.when(fits):
            block.store(chosen, 0, i64(offset))
    with block.when(chosen[i64(0)] < 0):
        name = block.stack("name", NAME_BYTES, 8)
        step(
            "cuDeviceGetName",
            cell_address(name),
            i64(NAME_BYTES),
            i64(DEVICE_NUMBER),
        )
        has = ", ".join(f"sm_{a}" for a, portable, _ in placed.images if not portable)
        digits_of = digits(block, device)
        raise_error(
            block,
            ERROR,
            [
                "no code for ",
                cell_address(name),
                " (sm_",
                digits_of,
                f'): the program was compiled for {has}; build it with target="cuda -arch=sm_',
                digits_of,
                '"',
            ],
        )
        leave(block, step.out)
    where = state[i64(CONSTANTS)] + chosen[i64(0)]
    step("cuModuleLoadData", cell_address(cell), where)
    block.store(state, MODULE, cell[i64(0)])
    _functions(step, placed, cell)


def _functions(step: _Steps, placed: Placed, cell: Buffer) -> None:
    """Emit code that fills a table with the handles of the program's device functions."""
    block, state = step.block, step.state
    size = tirx.Cast("uint64", i64(8 * max(1, len(placed.names))))
    table = block.bind("table", O.call_extern("handle", "malloc", size))
    functions = block.declare("functions", _as_words(block, bits_of(table)), "int64")
    for k, (name, room_bytes) in enumerate(zip(placed.names, placed.dynamic_bytes, strict=True)):
        step(
            "cuModuleGetFunction",
            cell_address(cell),
            state[i64(MODULE)],
            text_address(name),
        )
        block.store(functions, k, cell[i64(0)])
        if room_bytes:
            with block.when(tirx.EQ(state[i64(CAPABILITY)], i64(GROUPS))):
                step("cuFuncSetAttribute", functions[i64(k)], i64(_ROOM), i64(room_bytes))
    block.store(state, FUNCTIONS, bits_of(table))


def _as_words(block: Block, address: Expr) -> Expr:
    kind = PointerType(PrimType("int64"), "global")
    return block.bind("words", tirx.reinterpret(kind, address))


def _constants(step: _Steps, placed: Placed, cell: Buffer) -> None:
    block, state = step.block, step.state
    size = max(64, placed.constants_bytes)
    with block.when(tirx.EQ(state[i64(DEVICE_CONSTANTS)], i64(0))):
        step("cuMemAlloc_v2", cell_address(cell), i64(size))
        block.store(state, DEVICE_CONSTANTS, cell[i64(0)])
    if placed.constants_bytes:
        step(
            "cuMemcpyHtoD_v2",
            state[i64(DEVICE_CONSTANTS)],
            state[i64(CONSTANTS)],
            i64(placed.constants_bytes),
        )


def _pool(step: _Steps, cell: Buffer) -> None:
    """Emit the configuration of the driver's memory pool, which may keep free memory up to the
    program's limit.
    """
    block, state = step.block, step.state
    step("cuDeviceGetDefaultMemPool", cell_address(cell), i64(DEVICE_NUMBER))
    limit = block.alloc("limit", 1, "int64")
    block.store(limit, 0, state[i64(LIMIT)])
    step("cuMemPoolSetAttribute", cell[i64(0)], i64(_THRESHOLD), cell_address(limit))


__all__ = ["FIND_LIBRARY", "LIBRARY", "open_functions"]
