"""Addresses of the words that the threads of a process share (``abi.threads``), and tickets."""

from __future__ import annotations

from tvm_disc.abi.threads import RECORD_WORDS, RECORDS, SLOT_WORDS, SLOTS
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


def word(base: Expr, number: int) -> Expr:
    """Return the address of the 64-bit word ``number`` of the array at ``base``."""
    return base + i64(8 * number)


def slot_address(pool: Expr, number: Expr) -> Expr:
    """Return the address of slot ``number`` of a thread pool."""
    return pool + number * (8 * SLOT_WORDS) + 8 * SLOTS


def record_address(pool: Expr, number: Expr) -> Expr:
    """Return the address of the record of worker ``number`` of a thread pool."""
    return pool + number * (8 * RECORD_WORDS) + 8 * RECORDS


def ticket(generation: Expr, parts: Expr) -> Expr:
    """Return the ticket of a new launch; the caller has claimed part 0."""
    return generation * (1 << 32) + (1 << 16) + parts
