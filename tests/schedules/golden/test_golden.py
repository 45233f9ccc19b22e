"""Emitted TIR against the kept texts, and what must hold of the texts themselves."""

from __future__ import annotations

import re

import pytest

from tests.schedules.golden.cases import CASES, FOLDER, Case, path, text, the_kernel
from tests.schedules.golden.readable import readable
from tvm_disc.schedules.gemm.vendor import FAMILY as VENDOR
from tvm_disc.schedules.select import POLICY

WRITE = "`python -m tests.schedules.golden --write`, and read the difference"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_is_as_it_was(case: Case) -> None:
    assert path(case).is_file(), f"{case.name} has no text: {WRITE}"
    assert text(case) == path(case).read_text(encoding="utf-8"), WRITE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_taken_by_its_template(case: Case) -> None:
    assert the_kernel(case).notes["template"] == case.template


def test_every_template_has_a_case() -> None:
    names = {name for templates in POLICY.values() for name, _ in templates}
    # Which library a process has is this machine's affair.
    assert {case.template for case in CASES} == names - {VENDOR}


def test_every_text_has_a_case() -> None:
    assert {p.stem for p in FOLDER.glob("*.tir")} == {case.name for case in CASES}


def kept(name: str) -> str:
    """The text of a case."""
    return (FOLDER / f"{name}.tir").read_text(encoding="utf-8")


def test_a_proof_takes_the_tail_away() -> None:
    """Rows of 64 are whole vectors, of whatever number."""
    assert "masked" in kept("relu")
    assert "masked" not in kept("whole_vectors")


def test_every_template_before_says_why_not() -> None:
    """Of templates that compete, one that accepts the group may have lost on cost."""
    for case in CASES:
        policy = next(p for p in POLICY.values() if case.template in dict(p))
        before = [name for name, _ in policy[: [n for n, _ in policy].index(case.template)]]
        lost = {"pixel gemm"} if case.name == "winograd" else set()
        for name in set(before) - lost:
            assert re.search(rf"^# {name} not used: \w", kept(case.name), re.M), (case.name, name)


def test_an_epilogue_is_applied_to_the_tile() -> None:
    """Bias and activation stand between the micro-kernel's call and the one store of a result."""
    body = kept("dense").split("dot_matmul_0(")[0]
    tile, add, store = (body.index(t) for t in ("gemm_tile_float32_0(", " + p2_1", "y0["))
    assert tile < add < store
    assert body.count("\n                y0[") == 1


def test_no_division_for_each_element() -> None:
    """Quotients of dims are taken before the loops over elements."""
    for name in ("relu", "whole_vectors", "joined"):
        inner = [line for line in kept(name).splitlines() if line.startswith(" " * 8)]
        assert not any("//" in line or "%" in line for line in inner), name


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("x: T.let[T.int64] = lo * T.int64(4)", "x = lo * 4"),
        (
            'at = T.alloc_buffer((T.int64(1),), "int64", layout=None)\n'
            "at[T.int64(0)] = lo + T.int64(1)\n"
            "at_1: T.let[T.int64] = at[T.int64(0)]",
            "at_1 := lo + 1",
        ),
        ("acc = T.alloc_buffer((T.int64(8),))", "acc = memory(8, float32)"),
        ("y[T.Ramp(i, T.int64(1), 8)] = T.Broadcast(T.float32(-0.5), 8)", "y[i : 8] = -0.5"),
        ('y[T.Ramp(i, m, 8)] = T.Cast("int32x8", v)', "y[i : 8 : m] = int32x8(v)"),
        ("y[i + T.int64(2):i + T.int64(2) + T.int64(8)] = v", "y[i + 2 : 8] = v"),
        ("y[i:i + T.int64(64):T.int64(8)] = v", "y[i : 8 : 8] = v"),
        (
            'T.call_llvm_intrin("void", "llvm.prefetch", T.address_of(x[T.min(a, b)]), 0, 3)',
            "prefetch(&x[min(a, b)], 0, 3)",
        ),
        ('T.func_attr({"tirx.noalias": True})\nreturn 0', ""),
    ],
)
def test_scripts_are_made_readable(script: str, wanted: str) -> None:
    indented = "\n".join(f"    {line}" for line in script.splitlines())
    assert readable(f"def main():\n{indented}") == wanted


def test_an_outline_keeps_loops_and_stores() -> None:
    script = "def main():\n    for i in range(n):\n        a = 1\n        b: T.let[T.int64] = a\n"
    assert readable(script + "        y0[i] = b", outline=True).splitlines() == [
        "for i in range(n):",
        "    ...",
        "    y0[i] = b",
    ]


def test_an_open_parenthesis_is_told() -> None:
    with pytest.raises(ValueError, match="no end of the arguments"):
        readable("def main():\n    x = T.min(a, b")
