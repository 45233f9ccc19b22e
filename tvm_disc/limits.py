"""Every limit on the size of a model and on what a build may use, each with its reason.

A model is data and may come from a stranger. Time and memory of a build are bounded by the size of
the model: its bytes, and the nodes that it has after functions are inlined. What would exceed a
limit is refused before work on it begins, with a message that names the limit and what was found.
``docs/limits.md`` explains the limits to users.
"""

from __future__ import annotations

__all__ = [
    "HEADROOM_BYTES",
    "LLVM_BYTES_PER_BYTE",
]

# -- memory of machine code ------------------------------------------------------------------------

# LLVM ends the process if it gets no memory. A unit of code is compiled only if the limit on
# address space leaves this much, and the factor below for each byte of its TIR as JSON.
HEADROOM_BYTES = 64 << 20
LLVM_BYTES_PER_BYTE = 32
