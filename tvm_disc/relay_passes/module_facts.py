"""The facts about a module's dims, stored as an attribute of the module.

A pass in any pipeline can use the facts of earlier passes. TVM's passes keep module attributes. A
pass that creates a new module loses the facts. Later passes can then prove less, but remain
correct.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.shape import Solver
from tvm_disc.typing import TVMModule

ATTRIBUTE = "disc.solver"
# Attributes of the main function: see `ragged/transform.py`, `own_state.py`, `caches/donated.py`.
DONATED = "disc.donated"
RAGGED = "disc.ragged"
STATE = "disc.state"


def solver_of(mod: Any, given: Solver | None = None) -> Solver:
    """Return ``given``, else the module's solver, else an empty one."""
    if given is not None:
        return given
    found = (mod.attrs or {}).get(ATTRIBUTE)
    return found if isinstance(found, Solver) else Solver()


def with_solver(mod: TVMModule, solver: Solver) -> object:
    """Return the module with a solver attached."""
    known = (mod.attrs or {}).get(ATTRIBUTE) is solver
    return mod if known else mod.with_attr(ATTRIBUTE, solver)


def without_solver(mod: Any) -> object:
    """Return the module without its solver, which TVM cannot serialize as JSON."""
    return mod.without_attr(ATTRIBUTE) if ATTRIBUTE in (mod.attrs or {}) else mod


__all__ = [
    "ATTRIBUTE",
    "DONATED",
    "RAGGED",
    "STATE",
    "solver_of",
    "with_solver",
    "without_solver",
]
