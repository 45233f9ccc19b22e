"""The first lines of ``explain``, sizes by the names of dims, and lines that were cut."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, mlp, rows
from tvm_disc import Options, relay
from tvm_disc.codegen.machine import context_of
from tvm_disc.codegen.target import resolve_target
from tvm_disc.errors import BadInput
from tvm_disc.runtime.summary import (
    KEPT,
    LONGEST,
    sections,
    shortened,
    summary_rows,
    usual_dims,
)
from tvm_disc.schedules.dispatch.records import Journal, Record


@pytest.fixture(scope="module")
def exe() -> Any:
    """A softmax over [b, s], where s is told to be at most 32, and a matrix product that asks."""
    x, y = rows("b", "s"), rows("k", 4, name="y")
    model = function(x, y, relay.nn.dense(relay.nn.softmax(x), relay.transpose(y)))
    return tvm_disc.build(model, constraints=["1 <= s <= 32"])


def first_lines(text: str) -> dict[str, str]:
    """The summary by its headings."""
    block = text.split("\n\n")[1].splitlines()
    return {line[:11].strip(): line[11:] for line in block if line[0] != " "}


def test_explain_begins_with_a_summary(exe: Any) -> None:
    found = first_lines(exe.explain())
    assert list(found) == [
        *("inputs", "results", "dims", "kernels", "copies", "guards", "workspace", "constants"),
        *("variants", "not fused"),
    ]
    assert found["inputs"] == "x: float32[b, s]"
    assert "           y: float32[k, 4]\n" in exe.explain()
    assert found["results"].startswith("float32[b, ")
    assert found["dims"].startswith("dynamic: b (any size), s (1 to 32). One program serves")
    assert found["copies"].startswith("A call copies no tensor outside of kernels.")
    assert found["constants"] == "none"
    assert found["kernels"].startswith("A call runs 2 kernels: 1 row (reductions")
    assert found["guards"] == "A call checks 2 conditions on its dims or values, listed below."


def test_the_workspace_is_a_number_for_given_dims(exe: Any) -> None:
    usual = first_lines(exe.explain())["workspace"]
    assert "b=64, s=32, k=32 (assumed; pass dims={...} for other" in usual
    told = first_lines(exe.explain(dims={"b": 3, "s": 5}))["workspace"]
    assert told.endswith(" for b=3, s=5, k=5")
    assert first_lines(exe.explain(dims={"x.0": 3, "y.0": 5}))["workspace"] == told
    size = exe.workspace_bytes({"x": (3, 5), "y": (5, 4)})
    assert first_lines(exe.explain({"x": (3, 5), "y": (5, 4)}))["workspace"] == told
    assert size < 1024 and told.startswith(f"{size} B of temporary memory for")


def test_a_program_of_known_dims_has_one_number() -> None:
    x = rows(3, 4)
    text = tvm_disc.build(function(x, relay.nn.softmax(x))).explain()
    assert " for " not in first_lines(text)["workspace"]
    assert (
        first_lines(text)["guards"]
        == "A call checks only ranks, dtypes and the dims that are constant."
    )


def test_equal_dims_are_checked() -> None:
    x, y = rows("n", 4), rows("n", 4, name="y")
    exe = tvm_disc.build(function(x, y, relay.add(x, y)))
    found = re.sub(r"\s+", " ", exe.explain())
    assert "checks only ranks, dtypes and the dims that are constant, and that dims of one" in found
    with pytest.raises(BadInput, match="axis 0"):
        exe(np.ones((2, 4), "float32"), np.ones((3, 4), "float32"))


def test_constants_are_counted() -> None:
    x, weights = rows("n", 16), relay.const(np.ones((32, 16), "float32"))
    exe = tvm_disc.build(function(x, relay.nn.dense(x, weights)))
    assert first_lines(exe.explain())["constants"].startswith("2.0 KiB, of which 2.0 KiB are")


def test_dims_of_a_result_read_as_python_does() -> None:
    x, y = rows("n", 4), rows("m", 4, name="y")
    exe = tvm_disc.build(function(x, y, relay.add(x, y)))
    assert "T." not in first_lines(exe.explain())["results"]
    assert "m if n == 1 else n" in repr(exe)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"q": 1}, "dims: there is no dim q; expected b, s, k"),
        ({"b": -1}, "dims: 'b': expected at least 0, found -1"),
        ({"b": "3"}, "dims: 'b': expected an integer"),
        ([3], "dims: expected a mapping from dims to sizes, found list"),
    ],
)
def test_bad_dims_are_refused(exe: Any, dims: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        exe.explain(dims=dims)


def test_shapes_or_dims(exe: Any) -> None:
    with pytest.raises(BadInput, match="expected either shapes or dims, found both"):
        exe.explain({"x": (1, 1), "y": (1, 4)}, dims={"b": 1})


def test_long_formulas_are_cut_unless_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = tvm_disc.build(mlp())
    monkeypatch.setitem(exe._manifest, "workspace_bytes", f"max({', '.join(['x_0'] * 1000)})")
    text = exe.explain()
    assert "x_0, x_0" not in text  # the formula is printed by full=True
    monkeypatch.setitem(exe._manifest, "refused", ["x: " + "y, " * 1000])
    text = exe.explain()
    assert max(map(len, text.splitlines())) <= LONGEST
    assert "more characters)" in text and text.endswith("prints them completely")
    whole = exe.explain(full=True)
    assert "x_0, x_0, x_0" in whole and "more characters" not in whole


def test_what_is_cut_says_how_much() -> None:
    assert shortened(["short", "x" * LONGEST]) == ["short", "x" * LONGEST]
    first, *_ = shortened(["x" * 1000])
    assert first == f"{'x' * KEPT} ... ({1000 - KEPT} more characters)"


def test_sections_of_a_description() -> None:
    text = "symbols\n  n   [1, 8]   input\nfacts\n  none\nguards\n  a\n      costs\n  b"
    found = sections(text)
    assert found["symbols"] == [["n   [1, 8]   input"]] and found["facts"] == []
    assert found["guards"] == [["a", "costs"], ["b"]]
    manifest = {"inputs": [("x", ["n", "m"], "f")], "shapes": text}
    assert usual_dims(manifest) == {"n": 8, "m": 64}


def dense() -> Any:
    x, y = rows("n", 16), rows("m", 16, name="y")
    return function(x, y, relay.nn.softmax(relay.nn.dense(x, y)))


@pytest.mark.parametrize(
    ("cpu", "files"),
    [
        ("cascadelake", "the constants of x86-64-v4.json and cascadelake.json"),
        ("x86-64-v3", "the constants of x86-64-v3.json"),
        ("nehalem", "default constants"),
    ],
)
def test_the_source_of_the_choice_is_named(cpu: str, files: str) -> None:
    exe = tvm_disc.build(dense(), target=f"llvm -mcpu={cpu}", options=Options(cache=False))
    row = re.sub(r"\s+", " ", exe.explain().partition("\nvariants")[2].partition("\nnot fused")[0])
    assert row.strip().endswith(f" a cost model with {files}; no tuned records were given.")


@pytest.mark.parametrize(
    ("measured", "others", "lines"),
    [
        (2, 0, ["Selected by tuned records for 2 of 2 kernels."]),
        (1, 0, ["Selected by tuned records for 1 of 2 kernels.", "The other kernels use a"]),
        (2, 1, ["Selected by tuned records for 2", "1 record of the file was measured on another"]),
        (2, 7, ["Selected by tuned records for 2", "7 records of the file were measured on other"]),
    ],
)
def test_tuned_records_that_apply_are_counted(
    exe: Any, measured: int, others: int, lines: list[str]
) -> None:
    chosen = {"constants": ["a.json"], "measured": measured, "times": 9, "others": others}
    found = dict(summary_rows({**exe._manifest, "selection": chosen}, None))["variants"]
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True))


def test_records_of_this_program_are_found(tmp_path: Path) -> None:
    path, target = tmp_path / "records.jsonl", resolve_target()
    groups = [k["group"] for k in tvm_disc.build(dense())._manifest["kernels"]]
    variant = json.dumps({"family": "none", "knobs": {}, "parts": 1})
    for context, group in [
        (context_of(target), groups[0]),
        (context_of(target), "another group"),
        (context_of(target, "another processor"), groups[1]),
    ]:
        with closing(Journal(path, context)) as journal:
            journal.write(Record(group, variant, (3, 5), 1e3))
    text = tvm_disc.build(dense(), options=Options(records=path, cache=False)).explain()
    found = re.sub(r"\s+", " ", text)
    assert "variants Selected by tuned records for 1 of 2 kernels. The other" in found
    assert "1 record of the file was measured on another processor" in found


def test_files_of_earlier_versions_have_no_such_row(exe: Any) -> None:
    manifest = {k: v for k, v in exe._manifest.items() if k != "selection"}
    assert "variants" not in [name for name, _ in summary_rows(manifest, None)]
