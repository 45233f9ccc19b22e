"""Coefficients of the analytical model, and what was measured of a machine's memory."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.target.processor import Processor

TURN_TILES = 32


@dataclass(frozen=True)
class CostModel:
    """Coefficients of one machine, of the dimension that their names say.

    They are fitted together to measured times, so that none need be what the machine takes for
    that alone: a cycle of the fit is no cycle of the clock.

    Attributes:
        op_ns, byte_ns: one plain operation of vector code, one byte that it moves.
        call_ns: entering a kernel.
        wake_ns: having the other threads begin, and waiting for the last.
        parallel, parallel_fma: speed of all threads together, over that of one times their number;
            threads may share the pipes of multiply-adds.
        cycle_ns: a cycle of the multiply-add pipes.
        fma_per_cycle, load_per_cycle: vector multiply-adds and operand loads in a cycle.
        fma_latency: cycles of a dependent step of a micro-kernel.
        micro_call_cycles: entering a micro-kernel and its epilogue.
        task_ns, row_ns: entering a task of a product, and of anything else.
        exp_ns: one score of an attention between its products.
        store_ns, pack_ns: storing a sum, and copying an element into another layout.
        near_bytes, far_byte_ns: what one operand may take of the second-level cache, and a byte
            from beyond it.
        vendor_call_ns, vendor_elem_ns, vendor_fma_ns: a call of a BLAS, an element of its operands
            and result, a multiply-add. Without measured times a call is never worth it.
    """

    op_ns: float = 0.04
    byte_ns: float = 0.05
    call_ns: float = 10.0
    wake_ns: float = 1500.0
    parallel: float = 1.0
    parallel_fma: float = 1.0
    cycle_ns: float = 0.35
    fma_per_cycle: float = 2.0
    load_per_cycle: float = 2.0
    fma_latency: float = 4.0
    micro_call_cycles: float = 30.0
    task_ns: float = 20.0
    row_ns: float = 10.0
    exp_ns: float = 0.6
    store_ns: float = 0.05
    pack_ns: float = 0.15
    near_bytes: float = 512 * 1024.0
    far_byte_ns: float = 0.03
    vendor_call_ns: float = 1e9
    vendor_elem_ns: float = 0.1
    vendor_fma_ns: float = 0.03


@dataclass(frozen=True)
class Memory:
    """How a machine's memory wants to be walked, where machines differ.

    Attributes:
        turn_tiles: a transpose goes in runs of so many tiles along the result's rows, where these
            are the longer ones; with 0, always along the operand's, and it asks for lines early.
        ask_bytes: it asks from so many bytes of results on.
        stream_bytes: results of transposes from so many bytes on go past the caches.
        far_bytes: so do those of rows and loops, from so many bytes of operands and results on.
        weights_bytes: weights of a task of a convolution that stay near the core beside a panel.
        scores_bytes: what an attention in stages leaves between them at most.
    """

    turn_tiles: int = 0
    ask_bytes: int = 1 << 20
    stream_bytes: int = 3 << 20
    far_bytes: int = 32 << 20
    weights_bytes: int = 256 << 10
    scores_bytes: int = 8 << 20

    @staticmethod
    def of(processor: Processor) -> Memory:
        """By caches and registers alone, where nothing was measured."""
        caches = processor.caches
        return Memory(
            # Without stores of whole lines to hide, a run along the longer side is enough.
            turn_tiles=0 if processor.isa.masks else TURN_TILES,
            ask_bytes=caches.l2_bytes,
            # An operand and a result: half of the last level, the rest is for others.
            stream_bytes=caches.last_bytes // 4,
            far_bytes=caches.last_bytes,
            weights_bytes=caches.l2_bytes // 4,
            scores_bytes=caches.last_bytes // 4,
        )
