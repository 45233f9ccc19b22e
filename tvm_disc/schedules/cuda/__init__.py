"""Kernel templates for GPUs, and the launch of their kernels.

========== =====================================================================================
block      statements of device code: thread-local and shared memory, barriers
kernel     device functions of a group's variants, and the host function that launches them
library    matmuls by cuBLASLt, if it is installed
handover   choice between cuBLASLt and generated kernels, by measured times or by the cost model
cost       cost model of waves of blocks and bytes moved
vector     accesses of 16 bytes to adjacent elements, and the facts that they require
elements   element-wise, broadcast and injective work: one or several adjacent elements per thread
reduce     any contraction: a thread, several threads, or several blocks per element
epilogue   operators that follow an anchor, for several elements at once
extremes   argmax and argmin: a thread, a warp or a block per element
rows       reductions and element-wise work over rows: a thread, a warp, a block, or blocks per row;
           several warps for 32 adjacent columns
product    plans of matmuls and convolutions: tile sizes, and how operands are copied
tiling     plans of tiles: which copies are vectors, and the facts that they require
tile       code of a tile: slices in shared memory, sums in registers
task       a task of a tiled matmul: its place in the result, and the stores of its sums
tensor     tiles of matmuls on tensor cores
views      operands of tiles: matmuls, and convolutions as implicit GEMMs
window     pooling and depthwise convolutions: a strip of pixels per thread
transpose  permutations that move the last axis: tiles in shared memory
scan       cumulative sums and products: a thread, a block, or blocks per row
scatter    scatter updates: a thread per row of updates, in order
positions  indices of selected elements: count per part, then write each part
sorting    argsort and top-k: a thread, a block, or blocks per row
attention  scores, softmax and weighted values: tiles of queries, or a block per query
serial     CPU templates on a GPU: a thread per task
policy     assignment of templates to groups
========== =====================================================================================
"""
