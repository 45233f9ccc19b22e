"""Coefficients of the analytical cost model, and measured properties of a machine's memory."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.target.processor import Processor

ACROSS_TILES = 32


@dataclass(frozen=True)
class CostModel:
    """Cost coefficients of a machine, in the units that their names state.

    They are fitted jointly to measured times, so a single coefficient need not equal the physical
    quantity: a cycle of the fit is not exactly a clock cycle.

    Attributes:
        op_ns, byte_ns: one plain vector operation on an element; one byte that it moves.
        call_ns: entry of a kernel.
        wake_ns: starting the other threads and waiting for the last.
        parallel, parallel_fma: speed of all threads together divided by (number of threads x speed
            of
            one); hardware threads may share multiply-add pipelines.
        cycle_ns: a cycle of the multiply-add pipelines.
        fma_per_cycle, load_per_cycle: vector multiply-adds and operand loads in a cycle.
        fma_latency: cycles of a dependent step of a micro-kernel.
        micro_call_cycles: entry of a micro-kernel and its epilogue.
        task_ns, row_ns: entry of a task of a matmul, and of any other kernel.
        pass_ns: a loop along a row.
        strided_ns: an access of one lane of a vector whose elements are not adjacent.
        exp_ns: one attention score between the two matmuls.
        store_ns, pack_ns: storing one sum; copying one element into a different layout.
        round_ns: rounding one element of a row to int8.
        byte_speed: products of rounded rows, as a multiple of the speed of float32 products.
        copied_ns: what reading an element of a long row of A from a copy saves, for each panel of
            B; it is small if a set of the first-level cache holds all rows of a tile.
        unpacked_ns: reading an element of B in place instead of packed, for one more row of A.
        partition_ns: dividing the work of a call into groups.
        transpose_cycles: packing a vector of a B whose columns are contiguous.
        dot_step_cycles, line_step_cycles: a vector of an inner product in a tile; alone.
        dot_cycles, line_cycles: the final additions of an inner product in a tile; alone.
        fold_step_cycles, fold_row_cycles: of columns that share vectors with steps of K: a vector
            of a row; the final additions of a row.
        fold_cycles, fold_group_cycles: arranging a step of B for them, and a vector of steps.
        sums_in_flight: multiply-adds of direct sums that must be independent of each other, so that
            none waits for the one before it.
        piece_cycles, piece_vector_cycles, partial_piece_cycles: copying a contiguous piece of a
            window into a row of A; each of its vectors; what a piece takes in addition that is
            partly outside the image.
        transform_cycles: reading, transforming and storing a vector in minimal filtering.
        shared_line_ns: a row whose result ends inside a cache line that two threads write.
        near_bytes, far_byte_ns: the share of one operand in the second-level cache; a byte beyond
            it.
        vendor_call_ns, vendor_elem_ns, vendor_fma_ns: a BLAS call; an element of its operands and
            result; a multiply-add. Without measurements a call is never chosen.
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
    pass_ns: float = 2.5
    strided_ns: float = 0.15
    exp_ns: float = 0.6
    store_ns: float = 0.05
    pack_ns: float = 0.15
    round_ns: float = 0.3
    byte_speed: float = 2.0
    copied_ns: float = 0.001
    unpacked_ns: float = 0.002
    partition_ns: float = 60.0
    transpose_cycles: float = 10.0
    dot_step_cycles: float = 0.5
    dot_cycles: float = 4.375
    line_step_cycles: float = 0.5
    line_cycles: float = 9.375
    fold_step_cycles: float = 0.5
    fold_cycles: float = 1.0
    fold_group_cycles: float = 4.0
    fold_row_cycles: float = 10.0
    sums_in_flight: float = 10.0
    piece_cycles: float = 2.0
    piece_vector_cycles: float = 1.5
    partial_piece_cycles: float = 20.0
    transform_cycles: float = 3.5
    shared_line_ns: float = 40.0
    near_bytes: float = 512 * 1024.0
    far_byte_ns: float = 0.03
    vendor_call_ns: float = 1e9
    vendor_elem_ns: float = 0.1
    vendor_fma_ns: float = 0.03


@dataclass(frozen=True)
class Memory:
    """Access patterns that suit a machine's memory.

    Attributes:
        run_tiles: a transpose iterates over runs of this many tiles along the result's rows, if
            these
            are longer than the operand's; with 0, always along the operand's rows, with
            prefetching.
        prefetch_bytes: transposes prefetch from this result size on.
        stream_bytes: transposes use non-temporal stores from this result size on.
        far_bytes: rows and loops use non-temporal stores from this total of operands and results
            on.
        weights_bytes: convolution weights of a task that stay in the near cache beside a panel.
        scores_bytes: largest intermediate result of an attention in stages.
    """

    run_tiles: int = 0
    prefetch_bytes: int = 1 << 20
    stream_bytes: int = 3 << 20
    far_bytes: int = 32 << 20
    weights_bytes: int = 256 << 10
    scores_bytes: int = 8 << 20

    @staticmethod
    def of(processor: Processor) -> Memory:
        """Return the values that follow from caches and registers, without measurements."""
        caches = processor.caches
        return Memory(
            # Without full-line stores to hide latency, a run along the longer side suffices.
            run_tiles=0 if processor.isa.masks else ACROSS_TILES,
            prefetch_bytes=caches.l2_bytes,
            # An operand and a result in half of the last level; the rest is left to others.
            stream_bytes=caches.last_bytes // 4,
            far_bytes=caches.last_bytes,
            weights_bytes=caches.l2_bytes // 4,
            scores_bytes=caches.last_bytes // 4,
        )
