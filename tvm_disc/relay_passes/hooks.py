"""Run a user's passes before and after stages of the compiler."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import relax

from tvm_disc.errors import BadInput, TypeMismatch
from tvm_disc.relay.module import IRModule, carried_by
from tvm_disc.relay_passes.module_facts import solver_of, with_solver

Pass: TypeAlias = Callable[[Any], Any]
Hooks: TypeAlias = Mapping[str, Sequence[Pass]]

PLACES = ("before", "after")


def read_hooks(passes: object, stages: Sequence[str]) -> Hooks:
    """Return a user's passes by their position: ``before simplify``, ``after simplify``, ...

    Raises:
        BadInput: an unknown position, or a value that is not a pass.
    """
    if not isinstance(passes, Mapping):
        found = type(passes).__name__
        raise BadInput(
            'passes: expected a mapping from places to passes, such as {"after simplify": mine}, '
            f"found {found}"
        )
    places = [f"{where} {stage}" for stage in stages for where in PLACES]
    return {_place(key, places, stages): _several(key, value) for key, value in passes.items()}


def _place(key: object, places: Sequence[str], stages: Sequence[str]) -> str:
    if isinstance(key, str) and key in places:
        return key
    close = difflib.get_close_matches(str(key), places, 1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise BadInput(
        f"passes: expected 'before' or 'after' and one of the stages {', '.join(stages)}, "
        f"found {key!r}{hint}"
    )


def _several(key: object, value: object) -> tuple[Pass, ...]:
    given = tuple(value) if isinstance(value, list | tuple) else (value,)
    for one in given:
        if not callable(one) or isinstance(one, type):
            raise BadInput(
                f"passes: '{key}': expected a pass, which takes and returns a module, or a list "
                f"of them, found {one!r}"
            )
    return given


def run_hook(place: str, run: Pass, mod: object) -> object:
    """Return the checked result of a user's pass, with the facts about dims of the module.

    Raises:
        TypeMismatch: the pass returns no module, or one that is not well formed.
    """
    made = run(mod)
    if isinstance(made, tvm.IRModule) and (relay := carried_by(made)) is not None:
        made = relay
    if isinstance(mod, IRModule) and isinstance(made, IRModule):
        return made
    if not isinstance(made, tvm.IRModule) or "main" not in made:
        found = "one without 'main'" if isinstance(made, tvm.IRModule) else type(made).__name__
        raise TypeMismatch(f"the pass '{place}': expected it to return a module, found {found}")
    try:
        relax.analysis.well_formed(made, check_ty=False)
    except (tvm.error.InternalError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise TypeMismatch(
            f"the pass '{place}': the module that it returns is not well formed: {reason}"
        ) from error
    return made if isinstance(mod, IRModule) else with_solver(made, solver_of(mod))


__all__ = ["PLACES", "Hooks", "read_hooks", "run_hook"]
