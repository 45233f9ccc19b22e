"""The pages of examples, whose code tests run, use every public name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import tvm_disc
from tvm_disc import relay

CLASSES = (
    "tvm_disc.runtime.executable.Executable",
    "tvm_disc.runtime.profile.Profile",
    "tvm_disc.runtime.observed.metrics.Metrics",
    "tvm_disc.runtime.state.GrowingCaches",
    "tvm_disc.runtime.batches.ragged.Ragged",
)
# Parts of the package call these; `nested` needs PyTorch.
LEFT_OUT = {"ends", "entries", "function", "nested", "observed", "read_record", "run"}
LEFT_OUT |= {"set_entries", "verifies_by"}


def public(place: str) -> list[str]:
    """The public methods and properties of a class."""
    module, _, name = place.rpartition(".")
    members = vars(getattr(importlib.import_module(module), name))
    return sorted(
        n
        for n, value in members.items()
        if not n.startswith("_")
        and (callable(value) or isinstance(value, property | classmethod))
        and n not in LEFT_OUT
    )


def without_example(names: list[str], code: str) -> list[str]:
    """The names that no code reads as an attribute."""
    return [name for name in names if not re.search(rf"\.{name}\b", code)]


def code_of(root: Path, page: str) -> str:
    """All Python code of a page."""
    text = (root / "docs" / "reference" / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def code(root: Path) -> str:
    return code_of(root, "examples.md")


def test_every_public_name(code: str) -> None:
    assert without_example(tvm_disc.__all__, code.replace("import relay", ".relay")) == []


@pytest.mark.parametrize("place", CLASSES)
def test_every_public_method(place: str, code: str) -> None:
    assert public(place) and without_example(public(place), code) == []


def test_every_name_of_relay(root: Path) -> None:
    code = code_of(root, "examples-relay.md")
    assert without_example(relay.__all__, code) == []


@pytest.mark.parametrize("module", ["jax", "dynamo"])
def test_every_name_of_the_frameworks(module: str, root: Path) -> None:
    code = code_of(root, "examples-frameworks.md")
    names = importlib.import_module(f"tvm_disc.{module}").__all__
    assert without_example(names, code) == []


def test_a_missing_example_is_found() -> None:
    assert without_example(["build", "load"], "tvm_disc.build(model)\nreload = 1") == ["load"]
