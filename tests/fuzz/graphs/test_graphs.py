"""A few random ONNX graphs and JAX functions; ``python -m tests.fuzz.graphs`` runs more."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

import tvm_disc  # noqa: E402
from tests.frontends.onnx.helpers import listed  # noqa: E402
from tests.fuzz.graphs import shrink  # noqa: E402
from tests.fuzz.graphs.__main__ import judged  # noqa: E402
from tests.fuzz.graphs.control import STEPS  # noqa: E402
from tests.fuzz.graphs.judge import differences  # noqa: E402
from tests.fuzz.graphs.maker import Maker  # noqa: E402
from tests.fuzz.graphs.steps import from_data, reduction  # noqa: E402
from tests.quick_code import quick_target  # noqa: E402

SEEDS = range(4)
FUNCTIONS = 2


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISC_TARGET", quick_target())


@pytest.mark.parametrize("seed", SEEDS)
def test_graphs_agree_with_onnx(seed: int) -> None:
    assert judged(Maker(seed).make(STEPS)) is None


@pytest.mark.skipif(find_spec("jax") is None, reason="could not import 'jax'")
def test_functions_agree_with_jax(root: Path) -> None:
    # XLA starts threads, which a forked child lacks: this process must not import JAX.
    command = [sys.executable, "-m", "tests.fuzz.graphs.traced", "--functions", str(FUNCTIONS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_graph_is_made_again_from_its_seed() -> None:
    one, again = (Maker(3).make(STEPS) for _ in range(2))
    assert one.model == again.model != Maker(4).make(STEPS).model
    assert all(
        np.array_equal(a[n], b[n]) for a, b in zip(one.calls, again.calls, strict=True) for n in a
    )


class Wrong:
    """A program whose first result is another in every call."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def __call__(self, **inputs: np.ndarray) -> list[np.ndarray]:
        found = self.program(**inputs)
        arrays = [np.array(np.from_dlpack(x)) for x in listed(found)]
        return [arrays[0] + np.ones((), arrays[0].dtype), *arrays[1:]]


def test_a_wrong_result_is_seen_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Maker(0).make([reduction, from_data], 3)
    assert judged(case) is None
    build = tvm_disc.build
    monkeypatch.setattr(tvm_disc, "build", lambda model: Wrong(build(model)))
    found = judged(case)
    assert found is not None and found[0].startswith("wrong result")
    least = shrink.smallest(case, lambda c: (judged(c) or [""])[0] == found[0], attempts=6)
    assert len(least.model.graph.node) == len(least.calls) == 1


def test_results_of_other_types_shapes_and_values_differ() -> None:
    x = np.array([1.0, np.nan], "float32")
    assert differences([x], [x.copy()]) is None
    for other in (x.astype("float64"), x[:1], x + 1, np.array([1, np.inf], "float32")):
        assert differences([other], [x]) is not None
