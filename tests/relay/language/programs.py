"""Texts that several tests of the language read."""

from __future__ import annotations

HEADER = '#[version = "0.0.5"]\n'
LIST = "type L[A] { C(A, L[A]), N, }\n"
SHAPES = "type T { Z, }\ntype U[A] { V(fn (A) -> T), W((A, T), ref(A)), }\nextern type E\n"


def module(text: str) -> str:
    """With the version before it."""
    return HEADER + text
