"""Functions whose run time measures a machine: multiply-adds, and memory reads, on several
threads.
"""

from __future__ import annotations

from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.schedules.gemm.micro_kernel import ramp, splat, vload, vstore
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import Block, byte_offset, const, i64
from tvm_disc.typing import Expr, PrimFunc

NAME, READ = "gauge", "read"
SPARE = 8  # vector registers left for other values than accumulators
READS = 8  # independent vector sums of a reading thread
FLOAT_BYTES = 4


def sums(isa: Isa) -> int:
    """Return the number of independent accumulators, which is enough to keep all pipelines of a
    core busy.
    """
    return isa.registers - SPARE


def multiply_adds(block: Block, isa: Isa, data: Expr, turns: Expr) -> None:
    """Emit ``turns`` iterations of one multiply-add on each of ``sums(isa)`` vector accumulators.

    All accumulators start as the first vector at ``data``, and are stored in sequence at ``data``.
    """
    lanes = isa.lanes_f32
    memory = block.declare("data_", data, "float32")
    vectors = [block.alloc(f"s{k}", lanes, "float32") for k in range(sums(isa))]
    step = block.alloc("step", lanes, "float32")
    vstore(block, step, 0, lanes, splat(const(0.5, "float32") * memory[0], lanes))
    for vector in vectors:
        vstore(block, vector, 0, lanes, vload(memory, 0, lanes))
    with block.loop("turn", turns):
        for vector in vectors:
            x = vload(step, 0, lanes)
            vstore(block, vector, 0, lanes, x * vload(vector, 0, lanes) + x)
    for k, vector in enumerate(vectors):
        block.store(memory, ramp(k * lanes, lanes), vload(vector, 0, lanes))


def gauge_function(isa: Isa) -> PrimFunc:
    """Return ``gauge(memory, parts, turns)``, which runs :func:`multiply_adds` on ``parts``
    threads, each with separate memory.
    """

    def emit(block: Block, arguments: Arguments) -> None:
        memory = arguments.data(0, "float32")
        parts = block.bind("parts", arguments.integer(1))
        turns = block.bind("turns", arguments.integer(2))
        with block.loop("part", parts, kind="parallel") as part:
            elems = sums(isa) * isa.lanes_f32
            own = byte_offset(memory, part * elems * FLOAT_BYTES, "float32")
            multiply_adds(block, isa, block.bind("own", own), turns)

    return packed(NAME, emit)


def read_function(isa: Isa) -> PrimFunc:
    """Return a function ``read(memory, results, first, parts, elems, passes)``.

    Part ``i`` of ``parts`` sums ``elems`` floats of ``memory``, beginning at
    ``first + i * elems``, ``passes`` times. It stores a vector of sums in ``results``.
    """

    def emit(block: Block, arguments: Arguments) -> None:
        memory, results = arguments.data(0, "float32"), arguments.data(1, "float32")
        first, parts, elems, passes = (
            block.bind(f"n{k}", arguments.integer(k)) for k in range(2, 6)
        )
        with block.loop("part", parts, kind="parallel") as part:
            own = byte_offset(memory, (first + part * elems) * FLOAT_BYTES, "float32")
            where = byte_offset(results, part * isa.vector_bytes, "float32")
            _reads(block, isa, block.bind("own", own), block.bind("where", where), elems, passes)

    return packed(READ, emit)


def _reads(block: Block, isa: Isa, data: Expr, where: Expr, elems: Expr, passes: Expr) -> None:
    """Emit ``passes`` sums over ``elems`` floats, in independent accumulators."""
    lanes = isa.lanes_f32
    memory = block.declare("data_", data, "float32")
    result = block.declare("where_", where, "float32")
    vectors = [block.alloc(f"s{k}", lanes, "float32") for k in range(READS)]
    for vector in vectors:
        vstore(block, vector, 0, lanes, splat(const(0.0, "float32"), lanes))
    with block.loop("pass", passes), block.loop("step", elems // (READS * lanes)) as step:
        for k, vector in enumerate(vectors):
            value = vload(memory, (step * READS + k) * lanes, lanes)
            vstore(block, vector, 0, lanes, vload(vector, 0, lanes) + value)
    total = vload(vectors[0], 0, lanes)
    for vector in vectors[1:]:
        total = total + vload(vector, 0, lanes)
    block.store(result, ramp(i64(0), lanes), total)


__all__ = ["NAME", "READ", "READS", "gauge_function", "multiply_adds", "read_function", "sums"]
