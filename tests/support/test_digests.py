"""Digests that identify cached programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tvm_disc
from tvm_disc.support import digests

PACKAGE = Path(tvm_disc.__file__).parent


def test_every_source_file_is_part_of_the_digest() -> None:
    """A compiler that differs anywhere must not reuse code that another one has cached."""
    found = digests.source_files()
    whole = [p for pattern in ("*.py", "*.json", "*.ll") for p in PACKAGE.rglob(pattern)]
    assert sorted(found) == sorted(str(p.relative_to(PACKAGE)) for p in whole)
    for name in (
        "compile.py",
        "schedules/gemm/plan.py",
        "schedules/dispatch/constants/znver4.json",
        "codegen/threads/cores.ll",
    ):
        assert name in found


@pytest.mark.parametrize("name", ["compile.py", "codegen/build.py", "a/new/file.py"])
def test_a_changed_file_changes_the_digest(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("compile.py", "codegen/build.py", "support/digests.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("one")
    monkeypatch.setattr(digests, "PACKAGE", tmp_path)
    before = digests.digest_of_package.__wrapped__()
    assert before == digests.digest_of_package.__wrapped__()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("two")
    assert digests.digest_of_package.__wrapped__() != before


def test_a_digest_of_some_files_ignores_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("tir/index.py", "tir.py", "codegen/build.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("one")
    monkeypatch.setattr(digests, "PACKAGE", tmp_path)
    of = digests.digest_of_package.__wrapped__
    before, whole = of("tir/"), of()
    (tmp_path / "tir.py").write_text("two")
    assert of("tir/") == before and of() != whole
    (tmp_path / "tir" / "index.py").write_text("two")
    assert of("tir/") != before
