"""Kernel templates for a GPU, and how a kernel of theirs is launched.

========== =====================================================================================
block      statements of device code: memory of a thread, of a block, barriers
kernel     from a group's variants to device functions and the host function that launches them
library    products by cuBLASLt, where it is found
handover   which products go there: by measured times, or by their size
cost       how long a plan takes, after waves of blocks and bytes moved
vector     neighbours by one access of 16 bytes, and the facts that this rests on
elements   element-wise, broadcast and injective work: a thread for each element, or neighbours
reduce     one contraction of any kind: a thread, several, or blocks for each element
epilogue   from the sums of an anchor to results, several at once
extremes   positions of extremes: a thread, or a block, for each
rows       reductions and element-wise work over a row: a thread, a block, or blocks for each row;
           several warps for 32 neighbouring columns
product    products and convolutions: which tiles, and how operands are copied
tile       a tile: slices in shared memory, sums in registers
views      what tiles multiply: products, and convolutions as implicit ones
window     pools and depthwise convolutions: a thread for a strip of pixels
transpose  permutations that move the last axis: tiles by way of shared memory
scan       running sums and products: a thread, a block, or blocks for each line
scatter    updates: a thread for each line of them, in order
positions  positions of what is kept: parts are counted, then written behind each other
sorting    sorted positions: a thread, or blocks, for each line
attention  scores, softmax and weighted values of a query: a block for each
serial     what the processor's templates do in order: a thread for each of their tasks
policy     which template takes a group
========== =====================================================================================
"""
