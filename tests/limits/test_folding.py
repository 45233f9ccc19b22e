"""Constants whose result would be larger than a machine: a build takes no memory for them.

Each row is small as a file. The builds share a process with a limit on address space.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

pytest.importorskip("onnx")

from tests.frontends.onnx.helpers import F32, build, model, node
from tvm_disc.support.limits import ALL_FOLDED, FOLDED_ELEMENTS, MOST_FOLDED, FoldBudget, may_fold

BUILDS = """
import resource, warnings
import numpy as np
import tvm_disc
from tests.frontends.onnx.helpers import F32, build, model, node

tvm_disc.build
warnings.simplefilter("ignore")
f, i, big = np.float32, np.int64, 1 << 34
side = 1 << 17
square = np.array([side, side])
ROWS = {
    "Range": ([node("Range", ["a", "b", "c"], ["r"])], dict(a=f(0), b=f(big), c=f(1))),
    "HannWindow": ([node("HannWindow", ["b"], ["r"])], dict(b=i(big))),
    "BlackmanWindow": ([node("BlackmanWindow", ["b"], ["r"])], dict(b=i(big))),
    "OneHot": (
        [node("OneHot", ["i", "d", "v"], ["r"])],
        dict(i=np.arange(1 << 15), d=i(1 << 20), v=np.array([0, 1], f)),
    ),
    "EyeLike": (
        [node("ConstantOfShape", ["z"], ["e"]), node("EyeLike", ["e"], ["r"])],
        dict(z=np.array([1 << 20, 1 << 20])),
    ),
    "ConstantOfShape": ([node("ConstantOfShape", ["z"], ["r"])], dict(z=square)),
    "Expand": ([node("Expand", ["k", "z"], ["r"])], dict(k=np.ones((4, 1), f), z=[4, big])),
    "Tile": ([node("Tile", ["k", "z"], ["r"])], dict(k=np.ones((4, 4), f), z=square // 4)),
    "Pad": ([node("Pad", ["k", "z"], ["r"])], dict(k=np.ones((4, 4), f), z=[0, 0, side, side])),
    "Resize": (
        [node("Resize", ["k", "", "", "z"], ["r"], mode="nearest")],
        dict(k=np.ones((1, 1, 4, 4), f), z=[1, 1, side, side]),
    ),
    "Add": ([node("Add", ["k", "l"], ["r"])], dict(k=np.ones((side, 1), f), l=np.ones(side, f))),
    "Less": (
        [node("Less", ["k", "l"], ["q"]), node("Cast", ["q"], ["r"], to=1)],
        dict(k=np.ones((side, 1), f), l=np.ones(side, f)),
    ),
    "MatMul": (
        [node("MatMul", ["k", "l"], ["r"])],
        dict(k=np.ones((side, 1), f), l=np.ones((1, side), f)),
    ),
    "Gather": (
        [node("Gather", ["k", "i"], ["r"])],
        dict(k=np.ones((4, side), f), i=np.zeros(side, i)),
    ),
    "DFT": ([node("DFT", ["k", "b"], ["r"])], dict(k=np.ones((1, 4, 1), f), b=i(big))),
}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30),) * 2)
for name, (nodes, constants) in ROWS.items():
    more = [node("ReduceSum", ["r"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    try:
        made = model([*nodes, *more], {"x": (F32, ["n"])}, **constants)
        build(made, options=tvm_disc.Options(load=False))
        print(name, "built")
    except tvm_disc.DiscError as error:
        print(name, type(error).__name__, str(error).splitlines()[0])
status = open("/proc/self/status").read()  # getrusage would count the parent's memory at the fork
print("peak", int(status.split("VmHWM:")[1].split()[0]) >> 10)
"""


def test_no_constant_is_larger_than_its_model(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUILDS], capture_output=True, text=True, timeout=600, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, peak = done.stdout.splitlines()
    assert len(lines) == 15, done.stdout
    assert [line for line in lines if "built" not in line and "Error:" in line] == []
    assert sum("built" in line for line in lines) >= 13, done.stdout
    assert int(peak.split()[1]) < 1500, "megabytes"


@pytest.mark.parametrize(
    ("elements", "operands", "folded"),
    [
        (FOLDED_ELEMENTS, 1, True),
        (FOLDED_ELEMENTS + 1, 1, False),
        (2 * FOLDED_ELEMENTS, FOLDED_ELEMENTS, True),
        (MOST_FOLDED, MOST_FOLDED, True),
        (MOST_FOLDED + 1, MOST_FOLDED, False),
        (float("inf"), 3, False),
        (float("nan"), 3, False),
    ],
)
def test_what_is_computed_at_build(elements: float, operands: int, folded: bool) -> None:
    assert may_fold(elements, operands) is folded


def test_all_constants_together_are_limited() -> None:
    budget = FoldBudget()
    while budget.left >= FOLDED_ELEMENTS:
        assert budget.allows(FOLDED_ELEMENTS, 0)
        budget.spend(FOLDED_ELEMENTS, 0)
    assert not budget.allows(FOLDED_ELEMENTS, 0) and budget.left < ALL_FOLDED
    # A result that is no larger than its operands makes no program larger.
    assert budget.allows(FOLDED_ELEMENTS, FOLDED_ELEMENTS)


@pytest.mark.parametrize(("most", "folded"), [(100_000, True), (10_000, False), (0, False)])
def test_ranges_beyond_the_limit_are_computed_by_the_program(
    monkeypatch: pytest.MonkeyPatch, most: int, folded: bool
) -> None:
    monkeypatch.setattr("tvm_disc.support.limits.ALL_FOLDED", most)
    names = [f"r{k}" for k in range(5)]
    ranges = [node("Range", ["zero", "stop", "one"], [name]) for name in names]
    made = model(
        [*ranges, node("Sum", names, ["s"]), node("Add", ["x", "s"], ["y"])],
        {"x": (F32, ["n", 6000])},
        zero=np.float32(0), stop=np.float32(6000), one=np.float32(1),
    )  # fmt: skip
    seen = []

    @tvm.transform.module_pass(opt_level=0)
    def look(mod: Any, _ctx: Any) -> Any:
        seen.append(mod.script())
        return mod

    exe = build(made, passes={"before simplify": look})
    for rows in (1, 2, 3, 7, 0):
        x = np.ones((rows, 6000), "float32")
        np.testing.assert_array_equal(exe(x), x + 5 * np.arange(6000, dtype="float32"))
    computed = seen[0].count("R.arange(")
    assert (computed == 0) is folded, seen[0]
