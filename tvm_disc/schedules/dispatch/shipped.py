"""Shipped constants: what was measured, on top of what the description of a machine says.

Two kinds of files. That of a level of x86-64 holds what code for its registers takes, fitted to the
times of whole kernels: speeds, no sizes. That of a processor, by LLVM's name, holds what was
measured on it. A build takes sizes from the description of its target
(:mod:`tvm_disc.target`), speeds from its level, and what its processor's own file has before both.
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
    """The analytical model of a processor."""
    known = {
        "near_bytes": processor.caches.l2_bytes / 2,
        **shipped(LEVELS.get(processor.isa, "")).get("model", {}),
        **shipped(processor.name).get("model", {}),
    }
    return CostModel(**{name: float(known[name]) for name in _FIELDS if name in known})


def memory_for(processor: Processor) -> Memory:
    """How the memory of a processor wants to be walked."""
    return replace(Memory.of(processor), **shipped(processor.name).get("memory", {}))


@cache
def shipped(name: str) -> dict[str, Any]:
    """The file of a processor or a level; empty where there is none."""
    path = FOLDER / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if name and path.is_file() else {}
