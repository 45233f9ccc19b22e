"""Shipped constants: measured coefficients that extend the description of a machine.

There are two kinds of files. The file of an x86-64 level has coefficients of code for its
registers, fitted to times of complete kernels: speeds, not sizes. The file of a processor, by
LLVM's name, has what was measured on it. A build takes sizes from the description of its target
(:mod:`tvm_disc.target`), speeds from its level, and overrides both by its processor's file.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

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


def model_for(processor: Processor) -> CostModel:
    """Return the analytical model of a processor."""
    known = {
        "near_bytes": processor.caches.l2_bytes / 2,
        **shipped(LEVELS.get(processor.isa, "")).get("model", {}),
        **shipped(processor.name).get("model", {}),
    }
    return CostModel(**{name: float(known[name]) for name in _FIELDS if name in known})


def memory_for(processor: Processor) -> Memory:
    """Return the memory access parameters of a processor."""
    return replace(Memory.of(processor), **shipped(processor.name).get("memory", {}))


@cache
def shipped(name: str) -> dict[str, Any]:
    """Return the file of a processor or a level; empty if there is none."""
    path = FOLDER / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if name and path.is_file() else {}
