"""``tvm-disc bench``: what it prints and writes, and what it refuses before it compiles."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tvm_disc.__main__ import main

QUICK = ["--rounds", "2", "--turn", "0.001", "--threads", "1"]

Capture = pytest.CaptureFixture[str]


def refusal(argv: list[str], capsys: Capture) -> str:
    """The message of a command that must be refused."""
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ")
    return err.removeprefix("error: ").rstrip("\n")


def test_beside_the_relax_vm(model: str, tmp_path: Path, capsys: Capture) -> None:
    data, table = tmp_path / "run.json", tmp_path / "run.md"
    argv = ["bench", model, "--dims", "x_0=1,3", *QUICK]
    argv += ["--peer", "relax_vm", "--peer", "onnxruntime", "--peer", "torch"]
    assert main([*argv, "--json", str(data), "--markdown", str(table)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("tiny.relay: threads 1, rounds 2, ")
    assert "ONNX Runtime" in out and "reads .onnx and .pt2, not .relay" in out
    assert "PyTorch" in out and "reads .pt2, not .relay" in out
    assert "over Relax VM: geometric mean" in out
    found = json.loads(data.read_text())
    assert [p["point"] for p in found["points"]] == [{"x_0": 1, "y_0": 1}, {"x_0": 3, "y_0": 3}]
    assert all(p["differences"]["tvm_disc"] < 1e-6 for p in found["points"])
    assert all(len(t) == 2 for p in found["points"] for t in p["seconds"].values())
    head = "| x_0 | y_0 | tvm_disc ms | Relax VM ms | over the best | difference |"
    assert head in table.read_text()


def test_ours_alone_and_a_shape_that_is_refused(model: str, capsys: Capture) -> None:
    argv = ["bench", model, "--dims", "x_0=3,8", "--constraint", "x_0 <= 4", "--peer", "none"]
    assert main([*argv, *QUICK]) == 0
    out = capsys.readouterr().out
    assert "x_0  y_0  tvm_disc ms  difference" in out
    assert "tvm_disc at x_0=8 y_0=8: GuardFailed: x_0 <= 4 must hold" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--dims", "z=1"], "--dims: there is no dim 'z'; dynamic dims: x_0, y_0, x.0, y.0"),
        (["--dims", "x_0"], "expected NAME=1,8 or NAME=1..512, found 'x_0'"),
        (["--peer", "tensorrt"], "--peer: expected one of onnxruntime, openvino, torch, "),
        (["--peer", "torch=no/python"], "--peer: torch: there is no executable file no/python"),
        (["--values", "x=3"], "--values: expected INPUT=0..999, found 'x=3'"),
        (["--values", "x=9..3"], "--values: x: expected the smaller number first, found '9..3'"),
        (["--rounds", "0"], "--rounds: expected at least 1, found 0"),
        (["--points", "0"], "--points: expected at least 1, found 0"),
        (["--threads", "0"], "--threads: expected at least 1, found 0"),
        (["--turn", "0"], "--turn: expected more than 0, found 0.0"),
        (["--tolerance", "-1"], "--tolerance: expected more than 0, found -1.0"),
        (["--plot", "a.gif"], "--plot: expected a file ending in .svg, .png, .pdf, found a.gif"),
    ],
)
def test_refusals(model: str, argv: list[str], message: str, capsys: Capture) -> None:
    assert refusal(["bench", model, *argv], capsys).startswith(message)


def test_a_library_is_refused(tmp_path: Path, capsys: Capture) -> None:
    found = refusal(["bench", str(tmp_path / "m.so")], capsys)
    assert "is a compiled program, which other engines cannot read; pass the model" in found


def test_a_missing_file_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "none.relay" in refusal(["bench", str(tmp_path / "none.relay")], capsys)


def test_a_result_that_differs_is_exit_code_1(
    model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_disc.bench import compare

    monkeypatch.setattr(compare, "difference", lambda found, wanted: 0.5)
    with pytest.raises(SystemExit, match="1"):
        main(["bench", model, "--dims", "x_0=3", "--peer", "relax_vm", *QUICK])
    assert "5.0e-01 DIFFERS" in capsys.readouterr().out


def test_a_plot(model: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "run.svg"
    argv = ["bench", model, "--dims", "x_0=1,3", "--peer", "none", *QUICK, "--plot", str(path)]
    if importlib.util.find_spec("matplotlib") is None:
        message = "--plot needs the package 'matplotlib', which is not installed; pip install"
        assert refusal(argv, capsys).startswith(message)
    else:
        assert main(argv) == 0
        assert "tvm_disc" in path.read_text() and "ms per call" in path.read_text()
