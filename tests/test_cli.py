"""The command line on a tiny model: what it prints, what it saves, what it refuses."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_disc
from tests.models import TINY
from tests.processor import needs
from tvm_disc.__main__ import main
from tvm_disc.errors import BadInput
from tvm_disc.support.processor import PLAIN

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def library(model: str, tmp_path: Path) -> str:
    path = str(tmp_path / "tiny.so")
    assert main(["build", model, "-o", path]) == 0
    return path


@pytest.fixture
def case(tmp_path: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs, saved as one .npz with an output that is not an input, and as .npy each."""
    arrays = {name: rng.standard_normal((3, 4)).astype("float32") for name in "xy"}
    np.savez(tmp_path / "case.npz", expected=np.zeros(1), **arrays)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return arrays


def refusal(argv: list[str], capsys: Capture) -> str:
    """The message of a command that must be refused."""
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


def onnx_model(*operators: str, domain: str = "", weight: bool = False) -> Any:
    """A chain of operators, each on the result of the one before it."""
    nodes, value = [], "x"
    for k, name in enumerate(operators):
        inputs = [value, "w"] if weight else [value]
        value = f"t{k}"
        nodes.append(helper.make_node(name, inputs, [value], name=f"{name}_{k}", domain=domain))
    kind = onnx.TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(n, kind, ["n", 4]) for n in ("x", value))
    w = [onnx.numpy_helper.from_array(np.ones((1, 4), "float32"), "w")] if weight else []
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain or "my.ops", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], w)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


# --- what works ------------------------------------------------------------------------------


def test_prints_the_version(root: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    version = re.search(r'^version = "(.*)"$', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert capsys.readouterr().out == f"tvm-disc {version[1]}\n"


def test_build_saves_and_summarizes(model: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["build", model, "-o", str(tmp_path / "out.so")]) == 0
    assert (tmp_path / "out.so").stat().st_size > 0
    out = capsys.readouterr().out
    assert "out.so: (x: float32[" in out and "1 kernel," in out


def test_build_prints_timings_and_dumps(model: str, tmp_path: Path, capsys: Capture) -> None:
    dumps = tmp_path / "dumps"
    argv = ["build", model, "-o", str(tmp_path / "m.so"), "--timings", "--dump", str(dumps)]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "total" in out and " ms " in out and "100.0 %" in out
    names = sorted(p.name for p in dumps.glob("[0-9][0-9]_*"))
    assert names and names[0] == "00_propagate.relax.py"
    assert "R.function" in (dumps / names[0]).read_text()


def test_run_from_npz_saves_outputs(
    model: str, tmp_path: Path, case: dict[str, np.ndarray], capsys: Capture
) -> None:
    result = tmp_path / "result.npz"
    argv = ["run", model, "--inputs", str(tmp_path / "case.npz"), "--output", str(result)]
    assert main(argv) == 0
    expected = "input x: float32[3, 4]\ninput y: float32[3, 4]\noutput 0: float32[3, 4]\n"
    assert capsys.readouterr().out == expected
    np.testing.assert_allclose(
        np.load(result)["output_0"], np.maximum(case["x"] + case["y"], 0), rtol=1e-6
    )


@pytest.mark.usefixtures("case")
def test_run_takes_single_arrays(model: str, tmp_path: Path, capsys: Capture) -> None:
    argv = [
        "run",
        model,
        "--input",
        f"y={tmp_path / 'y.npy'}",
        "--input",
        f"x={tmp_path / 'x.npy'}",
    ]
    assert main(argv) == 0
    assert "output 0: float32[3, 4]" in capsys.readouterr().out


@pytest.mark.parametrize("n", [1, 7, 64, 0])
def test_run_a_saved_model_on_any_shape(library: str, n: int, capsys: Capture) -> None:
    assert main(["run", library, "--random", f"x={n}x4,y={n}x4:float32"]) == 0
    assert f"output 0: float32[{n}, 4]" in capsys.readouterr().out


def test_run_repeats(library: str, capsys: Capture) -> None:
    assert main(["run", library, "--random", "x=2x4,y=2x4", "--repeat", "3"]) == 0
    assert "3 calls" in capsys.readouterr().out.splitlines()[-1]


def test_explain(model: str, capsys: Capture) -> None:
    assert main(["explain", model]) == 0
    assert "relu" in capsys.readouterr().out


def test_explain_a_shape(model: str, capsys: Capture) -> None:
    assert main(["explain", model, "--shape", "x=3x4,y=3x4"]) == 0
    assert capsys.readouterr().out


def test_explain_for_given_dims_and_in_full(library: str, capsys: Capture) -> None:
    assert main(["explain", library, "--dims", "x_0=3,y_0=3", "--full"]) == 0
    assert " for x_0=3, y_0=3" in capsys.readouterr().out
    for dims, message in (
        ("q=1", "there is no dim q"),
        ("x_0", "NAME=SIZE"),
        ("x_0=b", "NAME=SIZE"),
    ):
        assert message in refusal(["explain", library, "--dims", dims], capsys)


def test_explain_writes_a_page(library: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    argv = ["explain", library, "--html", str(page), "--dims", "x_0=3,y_0=3", "--profile"]
    assert main(argv) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {page}: 1 kernel, 1 call"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "Microseconds of a call" in text


def test_profile_prints_a_table_and_writes_both_files(
    library: str, tmp_path: Path, capsys: Capture
) -> None:
    table, trace = tmp_path / "profile.json", tmp_path / "trace.json"
    argv = ["profile", library, "--random", "x=5x4,y=5x4", "--repeat", "2"]
    assert main([*argv, "--json", str(table), "--trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "GFLOP/s" in out and "us per call" in out
    assert json.loads(table.read_text())["calls"] == 2
    assert len(json.loads(trace.read_text())["traceEvents"]) == 4


def test_signature_of_a_saved_program(library: str, model: str, capsys: Capture) -> None:
    assert main(["signature", library]) == 0
    text = capsys.readouterr().out
    assert text.startswith("(x: float32[") and ") -> (float32[" in text
    assert "not a program saved by tvm_disc" in refusal(["signature", model], capsys)


@needs(*PLAIN["x86_64"]["x86-64-v2"])
@pytest.mark.parametrize(
    "targets",
    [["--target", "x86-64-v2,x86-64"], ["--target", "llvm -mcpu=x86-64", "--target", "x86-64-v2"]],
    ids=["a list", "one by one"],
)
def test_several_targets(model: str, targets: list[str], tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "levels.so")
    assert main(["build", model, "-o", path, *targets]) == 0
    capsys.readouterr()
    assert main(["signature", path]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == ["compiled for", "  x86-64", "  x86-64-v2: runs"]
    assert main(["run", path, "--random", "x=2x4,y=2x4", "--level", "x86-64"]) == 0
    assert "output 0: float32[2, 4]" in capsys.readouterr().out
    assert main(["explain", path, "--level", "x86-64"]) == 0
    assert "  x86-64: runs\n  x86-64-v2\n" in capsys.readouterr().out
    assert refusal(["run", path, "--level", "znver9"], capsys) == (
        "level: the program has no level 'znver9'; its levels: x86-64, x86-64-v2"
    )


def test_help_names_the_commands(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(command in out for command in ("build", "run", "explain"))


# --- what is refused -------------------------------------------------------------------------


def test_refuses_a_missing_model(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "none.relay")
    assert refusal(["explain", path], capsys) == f"{path}: No such file or directory"
    assert "none.so: No such file" in refusal(["run", str(tmp_path / "none.so")], capsys)


def test_refuses_bad_text_with_its_position(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.relay"
    path.write_text(TINY.replace("add(%x", "add(%q"))
    assert refusal(["explain", str(path)], capsys).startswith(f"{path}:3:")


def test_refuses_a_binary_model(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "binary.relay"
    path.write_bytes(b"\xff\xfe\x00\x01")
    assert "expected Relay text or JSON" in refusal(["explain", str(path)], capsys)


def test_refuses_a_broken_parameter_file(model: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "weights.params"
    path.write_bytes(b"no weights here, only words")
    message = refusal(["explain", model, "--params", str(path)], capsys)
    assert message.startswith(f"{path}: not a parameter file")


def test_refuses_an_impossible_constraint(model: str, capsys: Capture) -> None:
    assert refusal(["explain", model, "--constraint", "x.0 =< 4"], capsys)


def test_refuses_inputs_that_contradict_each_other(library: str, capsys: Capture) -> None:
    message = refusal(["run", library, "--random", "x=3x4,y=5x4"], capsys)
    assert "x" in message and "y" in message and "3" in message and "5" in message


@pytest.mark.parametrize(
    ("random", "named"),
    [("x=3x4", "y"), ("x=3x4,y=3x4,z=1", "z"), ("x=3x4:int64,y=3x4", "x"), ("x=3x4x1,y=3x4", "x")],
    ids=["missing", "unknown", "dtype", "rank"],
)
def test_refuses_wrong_inputs_by_name(
    library: str, random: str, named: str, capsys: Capture
) -> None:
    assert named in refusal(["run", library, "--random", random], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--random", "x"], "--random: expected NAME=2x7 or NAME=2x7:DTYPE, found 'x'"),
        (["--random", "x=2by4"], "--random: expected NAME=2x7 or NAME=2x7:DTYPE, found 'x=2by4'"),
        (["--random", "x=2x4:float33"], "expected a dtype such as float32 or int64"),
        (["--input", "x.npy"], "--input: expected NAME=FILE.npy, found 'x.npy'"),
        (["--target", "llvm"], "--target has no effect on"),
        (["--no-fuse"], "--no-fuse has no effect on"),
    ],
)
def test_refuses_bad_arguments(
    library: str, arguments: list[str], message: str, capsys: Capture
) -> None:
    capsys.readouterr()
    assert refusal(["run", library, *arguments], capsys).startswith(message)


@pytest.mark.usefixtures("case")
def test_refuses_files_that_hold_something_else(
    library: str, tmp_path: Path, capsys: Capture
) -> None:
    capsys.readouterr()
    text = tmp_path / "text.npy"
    text.write_text("no array")
    wrong = [
        (["--inputs", str(text)], "expected a mapping from names to NumPy arrays"),
        (["--inputs", str(tmp_path / "x.npy")], "found one array; see --input"),
        (["--input", f"x={text}"], "expected a NumPy array"),
        (["--input", f"x={tmp_path / 'case.npz'}"], "found several; see --inputs"),
        (["--input", f"x={tmp_path / 'none.npy'}"], "none.npy: No such file or directory"),
    ]
    for arguments, message in wrong:
        assert message in refusal(["run", library, *arguments], capsys)


def test_refuses_a_library_that_is_none(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "fake.so"
    path.write_bytes(b"not an ELF file")
    assert "fake.so" in refusal(["run", str(path)], capsys)


def test_refuses_bad_options(model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "threads: expected at least 1, found 0"
    assert refusal(["explain", model, "--threads", "0"], capsys) == expected
    monkeypatch.setenv("DISC_DEBUG", "much")
    expected = "DISC_DEBUG: expected an integer, found 'much'"
    assert refusal(["explain", model], capsys) == expected


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        ("127.0.0.1:1/gpu", "remote: expected 2 machines of key 'gpu' at tracker 127.0.0.1:1: "),
        ("127.0.0.1/gpu", "--remote: expected HOST:PORT/KEY, found '127.0.0.1/gpu'"),
        ("127.0.0.1:9190", "--remote: expected HOST:PORT/KEY, found '127.0.0.1:9190'"),
    ],
    ids=["nobody", "no port", "no key"],
)
def test_refuses_machines_that_are_none(
    model: str, remote: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    there = ["--records", str(tmp_path / "r.jsonl"), "--remote", remote, "--machines", "2"]
    assert refusal(["tune", model, *there], capsys).startswith(message)


@pytest.mark.parametrize("output", ["none/model.so", "."], ids=["no folder", "a folder"])
def test_a_place_that_cannot_be_written_is_refused_before_the_build(
    model: str, output: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tvm_disc, "build", lambda *_, **__: pytest.fail("built"))
    path = str(tmp_path / output)
    assert refusal(["build", model, "-o", path], capsys).startswith(f"{path}: ")


def test_refuses_files_that_are_no_onnx_model(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.onnx"
    assert refusal(["explain", str(path)], capsys) == f"no such ONNX file: '{path}'"
    whole = onnx_model("Relu").SerializeToString()
    damaged = (b"", b"only text\n", whole[: len(whole) // 2], bytes(100))
    for data in damaged:
        path.write_bytes(data)
        assert refusal(["explain", str(path)], capsys).startswith(
            f"'{path}' cannot be read as an ONNX model: "
        )


def test_unsupported_nodes_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "model.onnx")
    onnx.save(onnx_model("Foo", "Bar", domain="my.ops"), path)
    assert refusal(["explain", path], capsys) == (
        "2 nodes of this ONNX model cannot be imported: "
        "Foo (domain my.ops, opset 1), node 'Foo_0', inputs: x; "
        "Bar (domain my.ops, opset 1), node 'Bar_1', inputs: t0"
    )


def test_weights_beside_the_model_that_are_missing(tmp_path: Path, capsys: Capture) -> None:
    model, path = onnx_model("Add", weight=True), tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    assert main(["explain", str(path)]) == 1
    *_, line = capsys.readouterr().err.splitlines()  # after a warning of ONNX's checker
    assert line == (
        f"error: ONNX tensor 'w': its elements are in an external file, "
        f"'{tmp_path / 'w.bin'}', which does not exist; keep it beside the model"
    )


def test_a_warning_is_one_line(
    model: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object, **__: object) -> None:
        warnings.warn("a warning\n  of two lines", stacklevel=1)
        raise BadInput("refused")

    monkeypatch.setattr(tvm_disc, "build", build)
    assert main(["explain", model]) == 1
    assert capsys.readouterr().err == "warning: a warning; of two lines\nerror: refused\n"


def test_traceback_shows_where_an_error_came_from(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        main(["explain", str(tmp_path / "none.relay"), "--traceback"])


@pytest.mark.parametrize("argv", [[], ["compile"], ["build", "m.relay"]], ids=str)
def test_usage_errors_exit_with_two(argv: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "usage: tvm-disc" in capsys.readouterr().err


def test_the_cache_is_shown_and_cleared(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISC_CACHE", str(tmp_path / "kept"))
    assert main(["cache"]) == 0
    assert f"{tmp_path / 'kept'}: 0 entries, 0.0 MB, 0 removed" in capsys.readouterr().out
    assert main(["build", model, "-o", str(tmp_path / "model.so")]) == 0
    capsys.readouterr()
    assert main(["cache", "--limit", "100"]) == 0
    assert " 0 removed" in (told := capsys.readouterr().out) and "0 entries" not in told
    assert main(["cache", "--clear"]) == 0
    assert ": 0 entries, 0.0 MB" in capsys.readouterr().out


def test_a_cache_that_is_off_has_nothing_to_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISC_CACHE", "off")
    assert main(["cache"]) == 1
    assert "error: cache: disabled by DISC_CACHE=off" in capsys.readouterr().err


def test_peaks_are_measured_and_stored(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISC_CACHE", str(tmp_path / "store"))
    assert main(["peaks"]) == 0
    assert "GFLOP/s on one thread" in capsys.readouterr().out
    assert main(["cache"]) == 0
    assert ": 0 entries" not in capsys.readouterr().out
