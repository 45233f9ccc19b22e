"""The table and the picture of a program's kernel calls."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import TREES, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.calls import moved_bytes, readable, table
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
    assert "A call runs 3 kernels: " in text
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
