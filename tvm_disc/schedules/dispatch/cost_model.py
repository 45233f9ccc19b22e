"""Coefficients of the analytical cost model, and measured properties of a machine's memory."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.target.processor import Processor

ACROSS_TILES = 32
# Fields that a fit to measured times does not change: choices of code at compile time, whose
# alternative has no measured time, and margins for effects that the model does not contain.
NOT_FITTED = (
    "stride_cycles",
    "keep_ops",
    "staged_doubt",
    "parts_doubt",
    "tile_doubt",
    "layout_doubt",
)


@dataclass(frozen=True)
class CostModel:
    """Cost coefficients of a machine, in the units that their names state.

    They are fitted jointly to measured times, so a single coefficient need not equal the physical
    quantity: a fitted cycle is not exactly a clock cycle.

    Attributes:
        op_ns, byte_ns: cost of one plain vector operation per element; of one byte read or written.
        call_ns: cost of calling a kernel.
        wake_ns: cost of starting the other threads and waiting for the last one.
        parallel, parallel_fma: speed of n threads divided by n times the speed of one; in general,
            and for multiply-adds, since hardware threads may share multiply-add pipelines.
        cycle_ns: duration of a cycle of the multiply-add pipelines.
        fma_per_cycle, load_per_cycle: vector multiply-adds, and vector loads, per cycle.
        fma_latency: cycles from a multiply-add to one that depends on it.
        stride_cycles: cycles that one row of a matmul loses per vector of packed weights, if the
            stride of its loads is a power of two.
        micro_call_cycles: cycles of calling a micro-kernel, including its epilogue.
        task_ns, row_ns: cost of starting a task of a matmul; a task of any other kernel.
        pass_ns: cost of starting a loop along a row.
        strided_ns: cost per lane of a vector access to elements that are not adjacent.
        far_ns, masked_ns, tile_ns: cost of moving a 32-bit word in a transpose: with a large
            stride; in a masked tile; in a tile of whole registers, without its shuffles.
        shuffle_ns: cost of the shuffles of one register in a tile of whole registers.
        exp_ns: cost per attention score of the computation between the two matmuls.
        store_ns, pack_ns: cost of storing one sum; of copying one element into a different layout.
        round_ns: cost of rounding one element of a row to int8.
        byte_speed: speed of products of rows rounded to int8, relative to float32 products.
        copied_ns: time saved per element of a long row of A, and per panel of B, if the row is read
            from a copy; small if one set of the first-level cache holds all rows of a tile.
        unpacked_ns: extra time per element of B and row of A for reading B in place, not packed.
        partition_ns: cost of dividing the work of a call into groups.
        transpose_cycles: cycles to pack one vector of a B whose columns are contiguous.
        dot_step_cycles, line_step_cycles: cycles per vector of an inner product: in a tile of
            several; of a single one.
        dot_cycles, line_cycles: cycles of the final additions: in a tile of several; of a single
            one.
        fold_step_cycles, fold_row_cycles: cycles if a vector holds several steps of K for few
            columns: per vector of a row; of the final additions of a row.
        fold_cycles, fold_group_cycles: cycles to arrange B for such vectors: per step of K; per
            vector of steps.
        sums_in_flight: number of independent multiply-adds that hide the latency of a direct sum.
        piece_cycles, piece_vector_cycles, partial_piece_cycles: cycles to copy a contiguous piece
            of a window into a row of A: per piece; per vector; extra if it is partly outside the
            image.
        transform_cycles: cycles to read, transform and store one vector in a Winograd convolution.
        shared_line_ns: cost per row of the result that ends in a cache line written by two threads.
        keep_ops: number of plain operations per element above which a row kernel stores a value for
            its later loops instead of recomputing it.
        staged_doubt, parts_doubt: factors on the predicted times of plans whose prediction is less
            accurate: plans in stages; sums over parts of K.
        tile_doubt, layout_doubt: the same for register tiles other than the default, which was
            chosen by measuring whole matmuls; for tiles of another width, if it is the layout of
            constant weights.
        near_bytes, far_byte_ns: share of the second-level cache for one operand; cost per byte
            beyond.
        vendor_call_ns, vendor_elem_ns, vendor_fma_ns: cost of a BLAS call; per element of its
            operands and result; per multiply-add. The default cost of a call is so high that the
            model never chooses one.
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
    stride_cycles: float = 0.001
    micro_call_cycles: float = 30.0
    task_ns: float = 20.0
    row_ns: float = 10.0
    pass_ns: float = 2.5
    strided_ns: float = 0.15
    far_ns: float = 0.96
    masked_ns: float = 0.6
    tile_ns: float = 0.24
    shuffle_ns: float = 1.28
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
    keep_ops: float = 4.0
    staged_doubt: float = 1.15
    parts_doubt: float = 1.05
    tile_doubt: float = 1.02
    layout_doubt: float = 1.4
    near_bytes: float = 512 * 1024.0
    far_byte_ns: float = 0.03
    vendor_call_ns: float = 1e9
    vendor_elem_ns: float = 0.1
    vendor_fma_ns: float = 0.03

    def factor(self, doubt: str) -> float:
        """Return the factor on a predicted time by its name (``tile_doubt``); 1 if it is empty."""
        return float(getattr(self, doubt)) if doubt else 1.0


@dataclass(frozen=True)
class Memory:
    """Memory access parameters of a machine.

    Attributes:
        run_tiles: a transpose iterates over runs of this many tiles along the result's rows, if
            these are longer than the operand's; with 0, always along the operand's rows, with
            prefetching.
        prefetch_bytes: smallest result of a transpose that prefetches.
        stream_bytes: smallest result of a transpose that uses non-temporal stores.
        far_bytes: smallest total of operands and results with which row and loop kernels use
            non-temporal stores.
        stream_ops: largest number of plain operations per element with which loop kernels use
            non-temporal stores.
        weights_bytes: largest convolution weights of a task that stay in the second-level cache
            together with a panel.
        scores_bytes: largest intermediate result of an attention in stages.
    """

    run_tiles: int = 0
    prefetch_bytes: int = 1 << 20
    stream_bytes: int = 3 << 20
    far_bytes: int = 32 << 20
    stream_ops: int = 4
    weights_bytes: int = 256 << 10
    scores_bytes: int = 8 << 20

    @staticmethod
    def of(processor: Processor) -> Memory:
        """Return values derived from the sizes of caches and registers, without measurements."""
        caches = processor.caches
        return Memory(
            # With masks (AVX-512), a store fills a cache line, and prefetching along the operand's
            # rows (0) is fastest. Otherwise runs along the longer side are used.
            run_tiles=0 if processor.isa.masks else ACROSS_TILES,
            prefetch_bytes=caches.l2_bytes,
            # An operand and a result then fill half of the last-level cache; the rest is for other
            # data.
            stream_bytes=caches.last_bytes // 4,
            far_bytes=caches.last_bytes,
            weights_bytes=caches.l2_bytes // 4,
            scores_bytes=caches.last_bytes // 4,
        )
