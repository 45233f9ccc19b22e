"""``docs/glossary.md`` defines the knobs that ``explain()`` prints."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tvm_disc.schedules
from tvm_disc.schedules.attention.template import _ALGORITHMS
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.gemm.algorithm import Algorithm


@pytest.fixture(scope="module")
def defined(root: Path) -> set[str]:
    """Return the names in the first column of the tables."""
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def subclasses(cls: type) -> set[type]:
    below = set(cls.__subclasses__())
    return below.union(*map(subclasses, below))


def test_every_knob_is_defined(defined: set[str]) -> None:
    for module in pkgutil.walk_packages(tvm_disc.schedules.__path__, "tvm_disc.schedules."):
        importlib.import_module(module.name)
    kinds = [k for k in subclasses(Knobs) if k.__module__.startswith("tvm_disc.")]
    knobs = {f.name for k in kinds if dataclasses.is_dataclass(k) for f in dataclasses.fields(k)}
    assert len(knobs) > 20
    assert sorted(knobs - defined) == []


def test_every_algorithm_is_defined(defined: set[str]) -> None:
    names = {a.text for a in Algorithm} | set(_ALGORITHMS.values())
    assert sorted(names - defined) == []
