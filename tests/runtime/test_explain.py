"""The table and the picture of a program's kernel calls."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import TREES, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.calls import moved_bytes, readable, table
from tvm_disc.runtime.page.layers import repetitions
from tvm_disc.runtime.page.refusals import grouped, refusal_lines
from tvm_disc.runtime.picture import boxes

HAS_PLOT = importlib.util.find_spec("matplotlib") is not None


@pytest.fixture(scope="module")
def exe() -> Any:
    """Two kernels: softmax over rows, then a transpose that cannot follow it."""
    x = rows("b", "s")
    moved = relay.transpose(relay.nn.softmax(x), axes=(1, 0))
    return tvm_disc.build(relay.Function([x], relay.sum(moved, axis=1)))


def calls(exe: Any) -> list[dict[str, Any]]:
    return exe._manifest["calls"]  # type: ignore[no-any-return]


def test_calls_tell_where_operands_come_from(exe: Any) -> None:
    made = calls(exe)
    assert [c["kernel"] for c in made] == exe.launches
    assert made[0]["reads"] == ["x"]
    assert all(0 in c["reads"] for c in made[1:])


def test_bytes_are_a_formula_and_a_number(exe: Any) -> None:
    """Softmax reads and writes every element once."""
    call = calls(exe)[0]
    for b, s in ((1, 1), (3, 7), (64, 33)):
        assert moved_bytes(call, {"b": b, "s": s}) == 8 * b * s
    assert "b * s" in call["bytes"] or "s * b" in call["bytes"]
    assert moved_bytes(call, {}) is None
    text = exe.explain({"x": (64, 32)})
    assert "16.0 KiB = " in text and "calls in order" in text
    assert call["bytes"] in exe.explain()


def test_refusals_are_a_list() -> None:
    x, y = rows("n", 8), rows("m", 8, name="y")
    dense = relay.nn.dense(x, relay.const(np.ones((8, 8), "float32")))
    function = relay.Function([x, y], relay.add(dense, y))
    options = tvm_disc.Options(versions=False)
    (why,) = tvm_disc.build(function, options=options).refused
    assert "cannot be fused as an epilogue: it is not element-wise" in why
    assert tvm_disc.build(function, constraints=["n == m"], options=options).refused == []


def test_calls_inside_functions_on_data_types_are_listed_with_their_function() -> None:
    trees = tvm_disc.build(relay.parse(TREES))
    made = calls(trees)
    assert [c["kernel"] for c in made] == trees.launches
    owners = [(c["function"].rpartition("_")[0], c["ops"]) for c in made]
    assert owners[0] == ("", ["exp"])
    assert sorted(owners[1:]) == [("total", ["add"]), ("total", ["tanh"])]
    text = trees.explain()
    assert "The program has 3 kernel calls, of which 2 are in branches, loops or functions" in text
    assert text.count(f"in function {made[1]['function']}\n") == 1
    assert moved_bytes(made[1], {}) in (32, 48)


def test_a_gather_moves_the_rows_it_reads() -> None:
    ids = rows("n", dtype="int64")
    table_ = relay.const(np.zeros((1000, 16), "float32"))
    made = calls(tvm_disc.build(relay.Function([ids], relay.take(table_, ids, axis=0))))
    assert moved_bytes(made[0], {"n": 2}) == 2 * (8 + 64 + 64)
    assert moved_bytes(made[0], {"n": 5000}) == 5000 * (8 + 64) + 64000


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB")]
)
def test_readable(size: int, text: str) -> None:
    assert readable(size) == text and readable(None) == "?"


def test_a_size_that_only_the_program_knows() -> None:
    call = {"kernel": "k", "function": "", "kind": "loop", "ops": ["add"], "reads": []}
    call["bytes"] = "count * 4"
    assert any("? = count * 4" in line for line in table([call], {"n": 3}))


def call(kernel: str, *reads: int | str) -> dict[str, Any]:
    fixed = {"function": "", "kind": "dot", "ops": ["add"], "bytes": "n * 4", "inside": []}
    return {**fixed, "kernel": kernel, "reads": list(reads)}


def test_layers_are_listed_once() -> None:
    """Each layer reads the result of the one before, and the mask of call 1."""
    made = [call("first", "ids"), call("mask", "ids")]
    for k in range(2, 26, 2):
        made += [call("a", k - 1 if k > 2 else 0, 1, "constant"), call("b", k, k - 2)]
    made.append(call("last", 25))
    lines = table(made, {"n": 4})
    assert [line.split()[0] for line in lines[1:]] == ["0", "1", "2", "3", "4", "#5", "25", "26"]
    assert lines[-3].strip() == ("#5 to #24: 10 more repetitions of #3 to #4, with other constants")
    assert lines[1].endswith("16 B = n * 4")


def test_calls_that_read_other_results_are_not_repeated() -> None:
    made = [call("a", "x"), call("b", 0), call("a", 1), call("b", 0), call("a", 3), call("b", 0)]
    assert repetitions(made) == {}


def test_kernels_that_differ_only_in_literals_are_repeated() -> None:
    made = [call(f"k{n}", n - 1 if n else "x") for n in range(8)]
    assert not any("repetition" in line for line in table(made, None))
    lines = table(made, None, equal={f"k{n}": "k0" for n in range(8)})
    assert lines[-1].strip() == (
        "#2 to #7: 6 more repetitions of #1, with kernels that differ only in literals"
    )


def test_branches_loops_and_copies_are_shown() -> None:
    inside = [[], ["branch 1, if #0 is true"], ["branch 1, if #0 is false"], ["loop 1, each"], []]
    made = [{**call(f"k{k}", "x"), "inside": where} for k, where in enumerate(inside)]
    made[3]["inside"] = ["loop 1, each iteration", "branch 2, if #2 is true"]
    copies = [{**made[4], "copied": 4, "to": "result 0", "before": 5, "bytes": "8"}]
    assert [re.sub(r"\s+", " ", line).strip() for line in table(made, None, copies)] == [
        *("# kernel reads bytes moved", "0 k0 x n * 4", "branch 1, if #0 is true:"),
        *("1 k1 x n * 4", "branch 1, if #0 is false:", "2 k2 x n * 4"),
        *("loop 1, each iteration:", "branch 2, if #2 is true:", "3 k3 x n * 4"),
        *("4 k4 x n * 4", "copy to result 0 #4 8 B"),
    ]


def test_refusals_that_differ_in_places_are_one() -> None:
    refused = [
        "mean (Norm 'a') into matmul (Gemm 'b'): it is no (b, s) map: Norm (a.py:3:1) reads it",
        "where 'x' of shape (n, 4): 12 kernels read it",
        "mean (Norm 'c') into matmul (Gemm 'd'): it is no (b, s) map: Norm (a.py:7:1) reads it",
        "mean (Norm 'e') into matmul (Norm 'e'): it is no (b, s) map: Norm (a.py:9:1) reads it",
    ]
    first, second = grouped(refused)
    assert first.text == "mean into matmul: it is no (b, s) map: Norm reads it"
    assert first.places == ("Norm 'a' into Gemm 'b'", "Norm 'c' into Gemm 'd'", "Norm 'e'")
    assert second.text == refused[1] and not second.places
    assert list(refusal_lines(refused))[:2] == [
        f"  {first.text} (3 times)",
        "      Norm 'a' into Gemm 'b'; Norm 'c' into Gemm 'd'; and 1 more",
    ]
    assert "Norm 'e'" in "".join(refusal_lines(refused, full=True))


BRANCH_AND_LOOP = """
def @main(%p: bool, %x: Tensor[(?, 8), float32]) {
  let %y = if (%p) { exp(%x) } else { nn.softmax(%x) };
  tanh(%y)
}
"""


def test_a_kernel_in_a_branch_is_said_to_be_there() -> None:
    exe = tvm_disc.build(relay.parse('#[version = "0.0.5"]' + BRANCH_AND_LOOP))
    text = exe.explain(dims={"x_0": 3})
    assert "of which 2 are in branches, loops or functions" in re.sub(r"\s+", " ", text)
    assert "branch 1, if p is true:" in text and "branch 1, if p is false:" in text
    assert "1 call in branch 1)" in text
    last = next(line for line in text.splitlines() if re.match(r" +2 +\w*tanh", line))
    assert "branch 1" in last


def test_the_variant_that_runs_is_marked(exe: Any) -> None:
    """As a profile of the call names it."""
    for b, s in ((1, 3), (2048, 2048)):
        text = exe.explain(dims={"b": b, "s": s})
        marked = [line for line in text.splitlines() if line.endswith("  <-")]
        parts = [line.rpartition("  <-")[0].split("  ")[-1].strip() for line in marked]
        ran = [line.variant for line in exe.profile(np.ones((b, s), "float32"), repeat=1).lines()]
        assert marked and all(any(p in variant for variant in ran) for p in parts), (parts, ran)


def test_boxes_lie_below_what_they_read(exe: Any) -> None:
    found = boxes(calls(exe), {"b": 4, "s": 2})
    assert found[0].text == "x" and found[0].level == 0
    for box in found[1:]:
        assert box.level == 1 + max(found[r].level for r in box.reads)
    assert "[row]" in found[1].text and "= 64 B" in found[1].text


@pytest.mark.parametrize("name", ["groups.jpeg", "groups"])
def test_a_picture_of_another_format_is_refused(exe: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"file ending in \.svg, \.png, \.pdf, found .*groups"):
        exe.explain(picture=tmp_path / name)


def test_a_picture_without_the_extra_tells_how_to_get_it(
    exe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    with pytest.raises(Unsupported, match=r"pip install 'tvm_disc\[plot\]'"):
        exe.explain(picture=tmp_path / "groups.svg")
    assert not (tmp_path / "groups.svg").exists()


@pytest.mark.skipif(not HAS_PLOT, reason="needs the extra plot")
@pytest.mark.parametrize(("ending", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_pictures(exe: Any, tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"groups{ending}"
    exe.explain({"x": (3, 4)}, picture=path)
    assert path.read_bytes().startswith(magic)
    assert path.stat().st_size > 4000
