"""Symbolic dims: facts, proofs with their reasons, and guards for conditions that are not
proved.
"""

from __future__ import annotations

from .constraints import Likely, parse_constraint
from .declarations import declare_facts
from .facts import Fact, Guard, Wish
from .solver import Dim, Solver
from .versions import special_version

__all__ = [
    "Dim",
    "Fact",
    "Guard",
    "Likely",
    "Solver",
    "Wish",
    "declare_facts",
    "parse_constraint",
    "special_version",
]
