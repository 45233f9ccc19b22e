"""What a run leaves out is reported with the command that runs it."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

from tests.not_run import MARK, NO_COMMAND, OPTIONAL, command_for, needs_optional, report


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("could not import 'torch': No module named 'torch'", "make test-frontends"),
        ("needs torch and transformers", "make test-frontends"),
        ("needs avx512f, which this processor lacks", "make test on a processor that has them"),
        ("NVRTC is not installed: tvm_disc[cuda]", "make test-cuda"),
        ("reads /proc", NO_COMMAND),
    ],
)
def test_a_reason_has_a_command(reason: str, command: str) -> None:
    assert command_for(reason) == command


def test_reasons_are_counted() -> None:
    lines = report(["Skipped: could not import 'torch'", "could not import 'torch'", "reads /proc"])
    assert [line.split(":")[0].split() for line in lines] == [
        ["2", "tests", "or", "modules"],
        ["1", "test", "or", "module"],
    ]


def test_a_module_is_marked_by_what_it_imports() -> None:
    fake, torch = types.ModuleType("test_x"), types.ModuleType("torch.nn")
    assert not needs_optional(fake)
    fake.nn = torch  # type: ignore[attr-defined]
    assert needs_optional(fake)


def test_the_command_installs_every_optional_package(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    extra = re.search(r"^frontends = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert extra is not None
    named = set(re.findall(r'"([\w-]+)', extra[1]))
    assert set(OPTIONAL) <= named
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    assert f"-m {MARK}" in makefile
