"""``tvm-disc replay``: recorded calls, run again, compared and timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.__main__ import main

SIZES = (0, 1, 7, 64, 331)
Capture = pytest.CaptureFixture[str]


def program(factor: float, name: str = "x") -> Any:
    x = rows("n", 4, name=name)
    return tvm_disc.build(function(x, relay.nn.relu(x) * relay.const(np.float32(factor))))


@pytest.fixture
def place(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A saved program, and calls of it."""
    exe = program(2.0)
    exe.save(tmp_path / "model.so")
    with exe.record(tmp_path / "calls.npz"):
        for n in SIZES:
            exe(np.abs(rng.standard_normal((n, 4))).astype("float32"))
    return tmp_path


def replay(place: Path, *more: str, model: str = "model.so") -> int:
    return main(["replay", str(place / model), str(place / "calls.npz"), *more])


def test_equal_results(place: Path, capsys: Capture) -> None:
    assert replay(place, "--repeat", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SIZES) + 1
    for n, line in zip(SIZES, lines, strict=False):
        assert f"x {n}x4: equal, largest difference 0.0e+00 in all results; " in line
        assert " us, recorded " in line
    assert lines[-1].startswith("5 calls, 0 with other results; ")


def test_other_results_end_with_1(place: Path, capsys: Capture) -> None:
    program(2.2).save(place / "other.so")
    with pytest.raises(SystemExit) as end:
        replay(place, model="other.so")
    assert end.value.code == 1
    out = capsys.readouterr().out
    assert "DIFFERENT, largest difference 1.0e-01 in result 0: float32[7, 4]" in out
    assert "call 0: x 0x4: equal" in out and "5 calls, 4 with other results" in out
    assert replay(place, "--tolerance", "0.2", model="other.so") == 0


def test_without_results_it_only_times(place: Path, capsys: Capture) -> None:
    exe = program(2.0)
    with exe.record(place / "calls.npz", results=False):
        exe(np.ones((3, 4), "float32"))
    assert replay(place) == 0
    assert "call 0: x 3x4: results not recorded; " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--repeat", "0"), "--repeat: expected at least 1, found 0"),
        (("--tolerance", "-1"), "tolerance: expected a number, at least 0, found -1.0"),
        (("--threads", "2"), "--threads has no effect on "),
    ],
)
def test_bad_options(place: Path, more: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert replay(place, *more) == 1
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_calls_of_another_program(place: Path, capsys: Capture) -> None:
    program(2.0, name="y").save(place / "other.so")
    assert replay(place, model="other.so") == 1
    assert (
        "expected calls with the inputs y, found x; they were recorded from another program"
        in capsys.readouterr().err
    )


def test_files_that_are_missing(place: Path, capsys: Capture) -> None:
    assert replay(place, model="none.so") == 1
    assert "No such file" in capsys.readouterr().err
    (place / "calls.npz").unlink()
    assert replay(place) == 1
    assert "calls.npz: no such file" in capsys.readouterr().err
