"""What is known of a module's dims travels with the module, as an attribute.

A pass in anyone's pipeline then finds the facts of the passes before it. TVM's passes keep
attributes of modules; a pass that makes a new module loses them, and with them facts, never
soundness: less is proved.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.shape import Solver

ATTRIBUTE = "disc.solver"


def solver_of(mod: Any, given: Solver | None = None) -> Solver:
    """The solver that is ``given``, or else the module's own, or else one that knows nothing."""
    if given is not None:
        return given
    found = (mod.attrs or {}).get(ATTRIBUTE)
    return found if isinstance(found, Solver) else Solver()


def with_solver(mod: Any, solver: Solver) -> Any:
    """The module with what is known of its dims."""
    known = (mod.attrs or {}).get(ATTRIBUTE) is solver
    return mod if known else mod.with_attr(ATTRIBUTE, solver)


def without_solver(mod: Any) -> Any:
    """The module without its solver, which TVM cannot write as JSON."""
    return mod.without_attr(ATTRIBUTE) if ATTRIBUTE in (mod.attrs or {}) else mod


__all__ = ["ATTRIBUTE", "solver_of", "with_solver", "without_solver"]
