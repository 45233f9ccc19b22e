"""``tvm-disc report``: the page, its first screen, and what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.html_page import Page
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.__main__ import main
from tvm_disc.bench import compare

QUICK = ["--rounds", "1", "--turn", "0.001", "--threads", "1"]

Capture = pytest.CaptureFixture[str]


def write(path: Path, *operands: Any) -> str:
    """Write a function as Relay text."""
    path.write_text(function(*operands).astext(), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A product of any number of rows, at most 512, as Relay text."""
    x = rows("n", 64)
    weight = relay.const(np.ones((64, 64), "float32"))
    out = relay.nn.relu(relay.nn.dense(x, weight))
    return write(tmp_path_factory.mktemp("model") / "layer.relay", x, out)


def made(argv: list[str], path: Path) -> tuple[Page, str]:
    """The page that a command writes, and its text with single spaces."""
    assert main([*argv, "-o", str(path)]) == 0
    page = Page(path.read_text(encoding="utf-8"))
    return page, " ".join(page.text.split())


def refusal(argv: list[str], capsys: Capture) -> str:
    """The message of a command that must be refused."""
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ")
    return err.removeprefix("error: ").rstrip("\n")


def test_the_whole_page(layer: str, tmp_path: Path, capsys: Capture) -> None:
    argv = ["report", layer, "--dims", "x.0=1,8,300", "--at", "n=300"]
    argv += ["--peer", "relax_vm", "--peer", "torch"]
    page, text = made([*argv, *QUICK], tmp_path / "page.html")
    assert {"why", "curves", "cliffs", "kernels", "points", "engines"} <= set(page.ids)
    assert all(link[1:] in page.ids for link in page.links)
    first, _, rest = text.partition("Time, limits and memory over each dim")
    assert "Relax VM" in first and "n=300" in first
    assert "on 1 thread; Relax VM " in first
    assert "instead of" in first or "No kernel is far from its limit" in first
    assert "of temporary memory at n=300" in first
    for title in ("Time over n", "What limits a call over n", "Memory over n"):
        assert f"{title}, " in rest
    assert page.tags.count("svg") == 3
    assert "tvm_disc, n 300: " in rest and "limit reached, n 1: " in rest
    assert "dot_" in rest and "GFLOP/s" in rest
    assert "reads .pt2, not .relay" in rest  # PyTorch, among the engines
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / 'page.html'}" in out


def test_no_peer(layer: str, tmp_path: Path, capsys: Capture) -> None:
    argv = ["report", layer, "--dims", "x.0=2", "--peer", "none", *QUICK]
    _, text = made(argv, tmp_path / "page.html")
    assert "No other engine ran this model. None was requested." in text
    assert "tvm_disc" in text and "Relax VM" not in text
    assert "No other engine ran this model" in capsys.readouterr().out


def test_peers_that_are_not_installed(layer: str, tmp_path: Path) -> None:
    """By default engines are asked that do not read this file: each says so on the first screen."""
    _, text = made(["report", layer, "--dims", "x.0=2", *QUICK], tmp_path / "page.html")
    first = text.partition("Time, limits and memory")[0]
    assert "No other engine ran this model. ONNX Runtime: reads .onnx and .pt2, not .relay" in first


def test_a_model_without_a_dynamic_dim(tmp_path: Path, capsys: Capture) -> None:
    x = relay.var("x", shape=(4, 8), dtype="float32")
    model = write(tmp_path / "static.relay", x, relay.exp(x))
    argv = ["report", model, "--peer", "none", *QUICK]
    page, text = made(argv, tmp_path / "page.html")
    assert "All dims of this model are known, so there is no curve." in text
    assert "No dim varies." in text and "At its one shape a call takes" in text
    assert "svg" not in page.tags
    capsys.readouterr()
    said = refusal([*argv, "--dims", "n=3"], capsys)
    assert said == "--dims: there is no dim 'n'; dynamic dims: none"


def test_two_dims_have_two_curves_and_a_base(tmp_path: Path) -> None:
    x = rows("b", "s")
    model = write(tmp_path / "two.relay", x, relay.nn.softmax(x))
    argv = ["report", model, "--dims", "x.0=1,2", "--dims", "x.1=3,5,7", "--at", "x.0=2"]
    page, text = made([*argv, "--peer", "none", *QUICK], tmp_path / "page.html")
    assert page.tags.count("svg") == 6
    assert "input x, axis 0 with s=5" in text and "input x, axis 1 with b=2" in text


def test_dims_that_follow_have_no_curve(model: str, tmp_path: Path, capsys: Capture) -> None:
    """``y`` has the rows of ``x``, by a condition of the special version."""
    argv = ["report", model, "--peer", "none", *QUICK]
    page, text = made([*argv, "--dims", "x_0=3,4"], tmp_path / "page.html")
    assert page.tags.count("svg") == 3 and "x_0=3, y_0=3" in text
    capsys.readouterr()
    said = refusal([*argv, "--dims", "y_0=3"], capsys)
    assert said == "--dims: y_0 follows from other dims; give values of x_0"


def test_names_are_text(layer: str, tmp_path: Path) -> None:
    folder = tmp_path / "<i>&"
    folder.mkdir()
    name = folder / "<b>&'.relay"
    shutil.copy(layer, name)
    argv = ["report", str(name), "--dims", "x.0=2", "--peer", "none", *QUICK]
    page, text = made(argv, tmp_path / "page.html")
    assert "b" not in page.tags and "<b>&'.relay, compiled for" in text


def test_sizes_that_the_program_refuses(tmp_path: Path) -> None:
    """``n`` must be a multiple of four: other sizes have a reason and no point on a curve."""
    x = rows("n", 4)
    model = write(tmp_path / "four.relay", x, relay.reshape(x, (-1, 16)))
    argv = ["report", model, "--dims", "x.0=4,6", "--peer", "none", *QUICK]
    _, text = made(argv, tmp_path / "page.html")
    assert "tvm_disc: GuardFailed: " in text and "tvm_disc, n 6" not in text
    assert "tvm_disc, n 4: " in text


def test_a_result_that_differs_is_exit_code_1(
    layer: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "difference", lambda found, wanted: 0.5)
    argv = ["report", layer, "--dims", "x.0=3", "--peer", "relax_vm", *QUICK]
    with pytest.raises(SystemExit, match="1"):
        main([*argv, "-o", str(tmp_path / "page.html")])
    assert "5.0e-01 DIFFERS" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "results differ at n=3; see the page" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--dims", "z=1"], "--dims: there is no dim 'z'; dynamic dims: n, x.0"),
        (["--at", "z=1"], "--at: there is no dim 'z'; dynamic dims: n, x.0"),
        (["--at", "n=1,2"], "--at: n: expected one size, found 2"),
        (["--dims", "n=8..600"], "--dims: n: expected at least 2 and at most 512, found 600"),
        (["--dims", "n=1"], "--dims: n: expected at least 2 and at most 512, found 1"),
        (["--at", "n=900"], "--at: n: expected at least 2 and at most 512, found 900"),
        (["--dims", "n=8..3"], "--dims: n: expected at least one value, found none"),
        (["--dims", "n=a"], "expected NAME=1,8 or NAME=1..512, found 'n=a'"),
        (["--peer", "tensorrt"], "--peer: expected one of onnxruntime, openvino, torch, "),
        (["--values", "x=9..3"], "--values: x: expected the smaller number first, found '9..3'"),
        (["--points", "0"], "--points: expected at least 1, found 0"),
        (["--turn", "0"], "--turn: expected more than 0, found 0.0"),
        (["-o", "none/page.html"], "--output: there is no folder none"),
    ],
)
def test_refusals(layer: str, argv: list[str], message: str, capsys: Capture) -> None:
    bounds = ["--constraint", "2 <= n <= 512"]
    assert refusal(["report", layer, *bounds, *QUICK, *argv], capsys).startswith(message)


def test_a_library_is_refused(tmp_path: Path, capsys: Capture) -> None:
    found = refusal(["report", str(tmp_path / "m.so")], capsys)
    assert "is a compiled program, which other engines cannot read; pass the model" in found
