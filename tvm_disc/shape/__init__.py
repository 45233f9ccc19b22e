"""Symbolic dims: facts about them, proofs, the reasons, and guards for what cannot be proved."""

from __future__ import annotations

from .constraints import Likely, parse_constraint
from .facts import Fact, Guard
from .solver import Dim, Solver

__all__ = ["Dim", "Fact", "Guard", "Likely", "Solver", "parse_constraint"]
