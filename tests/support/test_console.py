"""Errors and warnings of a command as lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvm_disc.errors import BadInput
from tvm_disc.support.console import described, one_line, outcome


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a", "a"),
        ("two of these:\n  one\n  two\n", "two of these: one; two"),
        ("first\nsecond", "first; second"),
        ("column 3: no dim 'b'\n  a < b\n      ^", "column 3: no dim 'b'"),
        ("", ""),
    ],
)
def test_one_line(message: str, line: str) -> None:
    assert one_line(message) == line


def test_errors_in_the_users_terms() -> None:
    assert described(BadInput("x: expected\n  y")) == "x: expected; y"
    assert described(FileNotFoundError(2, "No such file", "m.so")) == "m.so: No such file"
    assert described(OSError("no place left")) == "no place left"
    assert described(MemoryError()) == "out of memory"
    assert described(KeyboardInterrupt()) == "interrupted"
    defect = described(KeyError("n"))
    assert defect.startswith("internal error of tvm_disc, KeyError: 'n'; please report it")


@pytest.mark.parametrize(
    ("error", "code"), [(BadInput("no"), 1), (KeyError("n"), 1), (KeyboardInterrupt(), 130)]
)
def test_an_error_is_one_line_or_a_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    assert outcome(command, traceback=False) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    with pytest.raises(type(error)):
        outcome(command, traceback=True)


def test_a_process_may_have_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``tvm-disc explain model.onnx >&-``."""
    monkeypatch.setattr(sys, "stdout", None)
    assert outcome(lambda: print("line"), False) == 0


def test_a_reader_that_has_enough_is_no_error(root: Path) -> None:
    """As ``tvm-disc explain model.onnx | head -1``."""
    program = (
        "import sys; from tvm_disc.support.console import outcome\n"
        "sys.exit(outcome(lambda: [print('line') for _ in range(100_000)], False))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "line\n"
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait() == 1
