"""Shipped records: what was measured for each level of x86-64, so that no build needs tuning.

A file holds the constants of the analytical model, fitted to the times of whole kernels on a
processor, and how its memory wants to be walked, if not as by default. A build takes the file of
its target's processor, by LLVM's name, where there is one; else that of the level that the target's
features are of. Others take the constants of :class:`CostModel` and :class:`Memory` as they stand.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from tvm_disc.schedules.cost_model import CostModel, Memory
from tvm_disc.schedules.gemm_tile import Isa

FOLDER = Path(__file__).parent / "shipped"
LEVELS = {
    Isa(16, 32, True): "x86-64-v4",
    Isa(8, 16, True): "x86-64-v3",
    Isa(4, 16, False): "x86-64-v2",
}


def model_for(isa: Isa, processor: str = "") -> CostModel:
    """The analytical model of a processor, else of its level; the plain one where none is known."""
    constants = _shipped(isa, processor).get("model", {})
    return CostModel(
        **{f.name: float(constants[f.name]) for f in fields(CostModel) if f.name in constants}
    )


def memory_for(isa: Isa, processor: str = "") -> Memory:
    """How the memory of a processor, else of its level, wants to be walked."""
    return Memory(**_shipped(isa, processor).get("memory", {}))


@cache
def _shipped(isa: Isa, processor: str) -> dict[str, Any]:
    names = (processor, LEVELS.get(isa))
    paths = [path for name in names if name and (path := FOLDER / f"{name}.json").is_file()]
    return dict(json.loads(paths[0].read_text(encoding="utf-8"))) if paths else {}
