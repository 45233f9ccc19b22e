"""The script for a machine with a GPU: its stages on the emulated one, and what it does when a
process dies.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from tests.cuda.first_hour import stages
from tests.cuda.first_hour.stages import Hour, Run

CHECKS = """
import sys
names = ["one", "two", "three", "four"]
if "--after" in sys.argv:
    names = names[names.index(sys.argv[-1]) + 1 :]
for name in names:
    print("begin ", name, flush=True)
    if name == "two":
        print("wrong  two: status 700", flush=True)
        sys.exit(3)
    if name == "three":
        import os
        os.kill(os.getpid(), 9)
    print("right ", name, flush=True)
"""


def hour(tmp_path: Path) -> Hour:
    options = argparse.Namespace(
        out=tmp_path, emulated=False, scale=1.0, jobs=1, match="", target="cuda"
    )
    return Hour(options)


def test_stages_run_in_the_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["first_hour", "--emulated", "--out", str(tmp_path), "--jobs", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--stages", "smoke,right", "--match", "nn.relu"])
    assert stages.main() == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["smoke"]["right"] >= 1 and summary["smoke"]["code"] == 0
    assert summary["right"]["begun"] == summary["right"]["right"] >= 1
    assert summary["right"]["wrong"] == []


def test_a_stage_goes_on_behind_a_check_that_broke_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = hour(tmp_path)

    def run(name: str, limit_s: float, *module: str) -> Run:
        return Run(name, [sys.executable, "-c", CHECKS], tmp_path, limit_s)

    monkeypatch.setattr(given, "run", run)
    given.right()
    found = json.loads((tmp_path / "summary.json").read_text())["right"]
    assert (found["begun"], found["right"]) == (4, 2)
    assert found["wrong"] == ["two: status 700", "two with 3", "three with -9"]


def test_a_process_ends_at_its_limit(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('begin  x', flush=True); import time; time.sleep(60)"]
    run = Run("slow", command, tmp_path, 1.0).start()
    found = run.wait()
    assert found["code"] == "time limit"
    assert run.text() == "begin  x\n"


def test_an_unknown_stage_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_hour", "--out", str(tmp_path), "--stages", "all"])
    with pytest.raises(SystemExit):
        stages.main()
    assert "stages are smoke, right, sanitizer" in capsys.readouterr().err
