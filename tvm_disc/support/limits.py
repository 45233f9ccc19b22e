"""All limits on the size of a model and on the resources of a build, each with its reason.

A model is data and may be untrusted. Time and memory of a build are bounded by the size of the
model: its bytes, and its number of nodes after functions are inlined. A model that exceeds a limit
is refused before it is processed, with a message that names the limit and the value found.
``docs/limits.md`` explains the limits to users.
"""

from __future__ import annotations

import os

__all__ = [
    "ALL_FOLDED",
    "FOLDED_ELEMENTS",
    "HEADROOM_BYTES",
    "LLVM_BYTES_PER_BYTE",
    "LOOP_BODY",
    "MODEL_FILE_BYTES",
    "MOST_DEPTH",
    "MOST_FOLDED",
    "MOST_NODES",
    "NODES_PER_NODE",
    "UNREAD_FILE_BYTES",
    "FoldBudget",
    "may_fold",
    "memory_bytes",
    "most_nodes",
]

# -- files -----------------------------------------------------------------------------------------

# protobuf's own limit; checked before the file is read
MODEL_FILE_BYTES = 2**31 - 1

# To cache a program, all bytes of its files of external data are hashed. If a file has more bytes
# than this beyond its tensors, it may be a huge sparse file. The build is then not cached, and
# reads only the ranges of the tensors.
UNREAD_FILE_BYTES = 64 << 20


def memory_bytes() -> int | None:
    """Return the bytes of memory of this machine, which limit the constants of a program.

    None if the system does not report it.
    """
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


# -- nodes of a model ------------------------------------------------------------------------------

# Importing and compiling a node takes milliseconds. After inlining, a model of any size may have
# ``MOST_NODES`` nodes, and ``NODES_PER_NODE`` more for each node in its file. The time is therefore
# linear in the size of the file. Models that exporters write with functions have up to 20 nodes per
# node in the file.
MOST_NODES = 10_000
NODES_PER_NODE = 100

# The body of a loop is converted repeatedly until the types of its state no longer change. This
# takes two or three conversions; for nested loops the numbers multiply.
LOOP_BODY = 3

# Maximum nesting of branches, loops and function calls. Each level takes about ten of the 1,000
# frames of the Python stack. Exporters nest one call per module.
MOST_DEPTH = 64


def most_nodes(written: int) -> int:
    """Return the maximum number of nodes after inlining for a model of ``written`` nodes."""
    return MOST_NODES + NODES_PER_NODE * written


# -- constants that a build computes ---------------------------------------------------------------

# A result of constant operands is computed at build time if it has at most this many elements, or
# at most twice as many as its operands. Examples are tables of positions, masks, and weights that
# are padded or widened. A larger result would make the build and the program larger than the model.
# It is therefore computed at run time, in the workspace.
FOLDED_ELEMENTS = 1 << 22

# A constant of more elements is never computed at build time.
MOST_FOLDED = 1 << 26


# All computed constants together may have at most this many elements more than their operands: a
# graph of many small nodes must not result in a program of many large constants.
ALL_FOLDED = 1 << 27


def may_fold(elements: float, operands: int) -> bool:
    """Return whether a build may compute a constant of ``elements`` elements from operands of
    ``operands`` elements.
    """
    return elements <= min(MOST_FOLDED, max(FOLDED_ELEMENTS, 2 * operands))


class FoldBudget:
    """Number of elements by which the constants that a build computes may still exceed their
    operands.
    """

    def __init__(self) -> None:
        self.left = ALL_FOLDED

    def allows(self, elements: float, operands: int) -> bool:
        """Return whether a constant of ``elements`` elements may be computed from operands of
        ``operands``.
        """
        return may_fold(elements, operands) and elements - operands <= self.left

    def spend(self, elements: int, operands: int) -> None:
        """Count a constant that was computed."""
        self.left -= max(0, elements - operands)


# -- memory of machine code ------------------------------------------------------------------------

# LLVM ends the process if an allocation fails. A unit of code is compiled only if the limit on
# address space leaves this much, and the factor below for each byte of its TIR as JSON. Two threads
# that compile reserve 72 MiB each, for a stack and an arena of malloc; if the C library cannot
# allocate the thread-local data of a thread, it ends the process.
HEADROOM_BYTES = 256 << 20
LLVM_BYTES_PER_BYTE = 32
