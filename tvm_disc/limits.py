"""Every limit on the size of a model and on what a build may use, each with its reason.

A model is data and may come from a stranger. Time and memory of a build are bounded by the size of
the model: its bytes, and the nodes that it has after functions are inlined. What would exceed a
limit is refused before work on it begins, with a message that names the limit and what was found.
``docs/limits.md`` explains the limits to users.
"""

from __future__ import annotations

import os

__all__ = [
    "HEADROOM_BYTES",
    "LLVM_BYTES_PER_BYTE",
    "MODEL_FILE_BYTES",
    "UNREAD_FILE_BYTES",
    "memory_bytes",
]

# -- files -----------------------------------------------------------------------------------------

# Protobuf reads no longer message. A file is not read to find out.
MODEL_FILE_BYTES = 2**31 - 1

# A file of external data is compared as a whole by the cache of programs. One with more bytes than
# this beyond what its tensors need may have no end, as a sparse file has none: such a build is not
# cached, and reads the ranges of its tensors only.
UNREAD_FILE_BYTES = 64 << 20


def memory_bytes() -> int | None:
    """Return the bytes of memory of this machine, the bound of all constants of a program.

    None if the system does not say.
    """
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


# -- memory of machine code ------------------------------------------------------------------------

# LLVM ends the process if it gets no memory. A unit of code is compiled only if the limit on
# address space leaves this much, and the factor below for each byte of its TIR as JSON.
HEADROOM_BYTES = 64 << 20
LLVM_BYTES_PER_BYTE = 32
