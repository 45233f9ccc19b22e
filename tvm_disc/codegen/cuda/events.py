"""Timing of kernels by CUDA events, in profiled calls.

begin(state, events)
    creates two events and records the first in the stream
end(state, events, start, end)
    waits for the work between them; ``end`` becomes the current host time, and ``start`` that
    time minus the duration of the work

If no events can be created, ``start`` remains the host time at which the launch began.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.codegen.cuda.calls import cell_address, driver
from tvm_disc.codegen.cuda.stream import stream
from tvm_disc.codegen.host.device import EVENT_WORDS, EVENTS_BEGIN, EVENTS_END
from tvm_disc.codegen.host.memory import words
from tvm_disc.codegen.host.profile import NOW
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Buffer, Expr, GlobalVar, PrimFunc, Var

_NS_IN_MS = 1e6


def event_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions that record CUDA events before a timed kernel, and that read the time
    between the events after it.
    """
    return {EVENTS_BEGIN: _begin(), EVENTS_END: _end()}


def _parameters(block: Block, *names: str) -> tuple[list[Var], list[Buffer]]:
    params = [words(n) for n in names]
    return params, [block.declare(n[0], p, "int64") for n, p in zip(names, params, strict=True)]


def _begin() -> PrimFunc:
    block = Block()
    params, (state, events) = _parameters(block, "state", "events")
    for k in range(EVENT_WORDS):
        block.store(events, k, i64(0))
        block.eval(driver(state, "cuEventCreate", cell_address(events) + 8 * k, i64(0)))
    with block.when(tirx.NE(events[i64(1)], i64(0))):
        block.eval(driver(state, "cuEventRecord", events[i64(0)], stream(block)))
    return prim_func(params, block.stmt())


def _end() -> PrimFunc:
    block = Block()
    params, (state, events, start, end) = _parameters(block, "state", "events", "begin", "done")
    first, second = (events[i64(k)] for k in range(EVENT_WORDS))
    with block.when(tirx.NE(second, i64(0))):
        status, ns = _measured(block, state, (first, second))
        with block.when(tirx.NE(status, i64(0))):
            block.eval(driver(state, "cuStreamSynchronize", stream(block)))
        block.eval(call(NOW, end.data))
        with block.when(tirx.EQ(status, i64(0))):
            block.store(start, 0, end[i64(0)] - ns)
    with block.otherwise():
        block.eval(driver(state, "cuStreamSynchronize", stream(block)))
        block.eval(call(NOW, end.data))
    for event in (first, second):
        with block.when(tirx.NE(event, i64(0))):
            block.eval(driver(state, "cuEventDestroy_v2", event))
    return prim_func(params, block.stmt())


def _measured(block: Block, state: Buffer, events: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """Emit a wait for the second event; return the status, and the nanoseconds between the
    events.
    """
    first, second = events
    ms = block.alloc("ms", 1, "float32")
    block.store(ms, 0, tirx.const(0.0, "float32"))
    block.eval(driver(state, "cuEventRecord", second, stream(block)))
    block.eval(driver(state, "cuEventSynchronize", second))
    took = driver(state, "cuEventElapsedTime", cell_address(ms), first, second)
    status = block.bind("status", took)
    ns = tirx.Cast("float64", ms[i64(0)]) * tirx.const(_NS_IN_MS, "float64") + 0.5
    return status, block.bind("took", tirx.Cast("int64", ns))  # rounded to the nearest


__all__ = ["event_functions"]
