"""Shipped constants: measured coefficients that extend the description of a machine.

There are two kinds of files. The file of an x86-64 level (such as x86-64-v3) contains speeds of
code for the registers of that level, fitted to times of complete kernels, but no cache sizes. The
file of a processor, named as in LLVM, contains constants that were measured on that processor. A
build reads sizes from the description of its target (:mod:`tvm_disc.target`) and speeds from the
file of its level. The file of its processor overrides both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, shown
from tvm_disc.schedules.dispatch.cost_model import CostModel, Memory
from tvm_disc.target.isa import Isa
from tvm_disc.target.processor import Processor

FOLDER = Path(__file__).parent / "constants"
LEVELS = {
    Isa(16, 32, True): "x86-64-v4",
    Isa(8, 16, True): "x86-64-v3",
    Isa(4, 16, False): "x86-64-v2",
}
_FIELDS = tuple(f.name for f in fields(CostModel))
_SECTIONS = {"model": _FIELDS, "memory": tuple(f.name for f in fields(Memory))}
_REPAIR = "measure again with `python benchmarks/dispatch.py constants`, or delete the file"


def model_for(processor: Processor) -> CostModel:
    """Return the analytical cost model of a processor."""
    known = {
        "near_bytes": processor.caches.l2_bytes / 2,
        **shipped(LEVELS.get(processor.isa, "")).get("model", {}),
        **shipped(processor.name).get("model", {}),
    }
    return CostModel(**{name: float(known[name]) for name in _FIELDS if name in known})


def memory_for(processor: Processor) -> Memory:
    """Return the memory access parameters of a processor."""
    return replace(Memory.of(processor), **shipped(processor.name).get("memory", {}))


def files_for(processor: Processor) -> tuple[str, ...]:
    """Return the names of the files that the constants of a processor are read from."""
    names = dict.fromkeys((LEVELS.get(processor.isa, ""), processor.name))
    return tuple(f"{name}.json" for name in names if shipped(name))


@cache
def shipped(name: str) -> dict[str, Any]:
    """Return the content of the file of a processor or level; empty if there is none.

    Raises:
        BadInput: the file is damaged.
    """
    path = FOLDER / f"{name}.json"
    return read_constants(path) if name and path.is_file() else {}


def read_constants(path: Path) -> dict[str, Any]:
    """Read and check a file of constants.

    Raises:
        BadInput: the file is not JSON, or has an unknown name or an invalid value. Values of
            ``model`` must be positive numbers, values of ``memory`` nonnegative integers.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: cannot be read as JSON: {error}; {_REPAIR}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path}: expected a JSON object, found {shown(found)}; {_REPAIR}")
    _check_names(f"{path}", found, ("processor", "level", "measured on", *_SECTIONS))
    named = found.get("processor", found.get("level"))
    if named != path.stem:
        raise BadInput(
            f"{path}: expected the name {path.stem!r} as 'processor' or 'level', "
            f"found {shown(named)}; rename the file, or correct the name"
        )
    for section, names in _SECTIONS.items():
        values = found.get(section, {})
        if not isinstance(values, dict):
            raise BadInput(f"{path}: {section}: expected an object, found {shown(values)}")
        _check_names(f"{path}: {section}", values, names)
        for name, value in values.items():
            _check_value(f"{path}: {section}.{name}", value, section == "memory")
    return found


def _check_names(place: str, found: Mapping[str, object], names: Sequence[str]) -> None:
    for name in found:
        if name not in names:
            near = get_close_matches(name, names, n=3) or names
            raise BadInput(f"{place}: expected {' or '.join(near)}, found {name!r}; rename it")


def _check_value(place: str, value: object, count: bool) -> None:
    number = isinstance(value, int if count else (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf or not (value or count):  # type: ignore[operator]
        kind = "an integer of at least 0" if count else "a number above 0"
        raise BadInput(f"{place}: expected {kind}, found {shown(value)}; {_REPAIR}")
