"""A few rows with attributes that nobody has; every row: ``python -m tests.fuzz.attributes``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz import attributes
from tests.fuzz.rows import ROWS


def row(name: str) -> Any:
    return next(r for r in ROWS if r.name == name)


@pytest.mark.parametrize("name", ["split", "expand_dims", "cast", "nn.lrn", "shape_of"])
def test_attributes_are_taken_or_refused(name: str) -> None:
    assert attributes.problems(row(name)) == {}


def test_what_an_importer_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*args: Any) -> None:
        raise RuntimeError("foreign")

    monkeypatch.setattr(attributes, "import_versions", raises)
    found = attributes.problems(row("expand_dims"))
    assert found and all("RuntimeError of test_attributes.raises" in k for k in found.values())
