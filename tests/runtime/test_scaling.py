"""The predicted speed-up on several threads, as explain() prints it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import rows
from tvm_disc import relay
from tvm_disc.runtime.scaling import limit, scaling_lines

THREADS = [1, 2, 4, 8, 16, 32, 64]


@pytest.fixture(scope="module")
def exe() -> Any:
    """A product with constant weights, then softmax."""
    x = rows("b", 256)
    weights = relay.const(np.ones((512, 256), "float32"))
    y = relay.nn.softmax(relay.nn.dense(x, weights))
    return tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(threads=2))


def test_only_the_full_description_predicts(exe: Any) -> None:
    assert "predicted speed-up" in exe.explain(full=True)
    assert "predicted speed-up" not in exe.explain()


def test_the_table_has_all_kernels(exe: Any) -> None:
    lines = scaling_lines(exe._manifest)
    assert set(exe._manifest["scaling"]["kernels"]) == set(exe.launches)
    for name in exe.launches:
        (row,) = [line for line in lines if line.split()[0] == name]
        ratios = [float(number) for number in row.split()[1:5]]
        assert ratios == sorted(ratios) and ratios[0] >= 1


def test_sizes_are_likely_ones() -> None:
    x = rows("b", 256)
    y = relay.nn.softmax(x)
    build = lambda **given: tvm_disc.build(relay.Function([x], y), **given)  # noqa: E731
    (usual,) = build()._manifest["scaling"]["dims"].values()
    (likely,) = (
        build(constraints=["likely(b, [1, 300, 500])"])._manifest["scaling"]["dims"].values()
    )
    assert (usual, likely) == (64, 300)


def _kernel(ns: float, last: float, *tasks: int) -> dict[str, Any]:
    return {"calls": 1, "ns": [ns, *[last] * 6], "tasks": list(tasks), "longest": ns}


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (_kernel(1e6, 1e6, 1), "one task"),
        (_kernel(1e3, 1e3, 100), "serial"),
        (_kernel(1e6, 1e5, 100, 5), "5 tasks for 64 threads"),
        (_kernel(1e6, 2e3, 1000), "waking threads"),
        (_kernel(1e6, 1e5, 65), "uneven parts: the largest has 1.97 times"),
        (_kernel(1e6, 1e5, 640), ""),
    ],
)
def test_what_limits_a_kernel(kernel: dict[str, Any], text: str) -> None:
    found = limit(kernel, 64, 1500.0)
    assert found.startswith(text) if text else not found


def test_old_programs_have_no_prediction(exe: Any) -> None:
    manifest = {**exe._manifest}
    del manifest["scaling"]
    assert scaling_lines(manifest) == []
