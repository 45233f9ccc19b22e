"""Sizes that divide by what may be 0 for dims that no valid call has."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.abi.formula import evaluate, evaluate_all
from tvm_disc.codegen.plan.formula import Formulas, workspace_formula
from tvm_disc.codegen.plan.memory import plan_region
from tvm_disc.codegen.plan.program import Copy, Home, Region, Storage
from tvm_disc.errors import BadInput

STEPS = ["_t0 = (48 // n)", "_t1 = (_t0 + 1)", "_t2 = (_t1 * _t1)"]


@pytest.mark.parametrize(("text", "value"), [("n", 0), ("(_t2 if n > 0 else 7)", 7)])
def test_a_step_without_a_value_is_no_error_where_nothing_reads_it(text: str, value: int) -> None:
    assert evaluate_all(STEPS, [text], {"n": 0}) == [value]
    assert evaluate_all(STEPS, ["_t2"], {"n": 16}) == [16]


@pytest.mark.parametrize("text", ["_t0", "_t1", "_t2", "max(_t2, 1)", "(1 if n > 0 else _t1)"])
def test_a_formula_that_reads_such_a_step_has_no_value_either(text: str) -> None:
    with pytest.raises(ZeroDivisionError):
        evaluate("; ".join([*STEPS, text]), {"n": 0})


def windows(h: Any, w: Any) -> Any:
    """Windows of 7 by 7 patches of an image, as a transformer over windows counts them."""
    return ((h + 24) // 28) * ((w + 24) // 28)


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_storages_are_ordered_by_the_samples_that_have_all_sizes(layers: int) -> None:
    b, h, w = (tirx.Var(name, "int64") for name in ("b", "h", "w"))
    size = b * 4 * h * w
    storages = [Storage(Home.INPUT, size, "x")]
    for k in range(layers):
        # Undefined for h = 3, which is a sample.
        size = size // windows(h, w) * windows(h, w + k) // windows(h + k, w) * 4 + b
        storages.append(Storage(Home.WORKSPACE, size, f"s{k}"))
    copies = [Copy(a, c, c.size_bytes) for a, c in pairwise(storages)]
    region = Region(copies)
    plan_region(region)
    assert sorted(s.slot for s in storages[1:]) == list(range(layers))
    assert evaluate(workspace_formula(region), {"b": 1, "h": 64, "w": 64}) > 0


def test_storages_keep_their_order_if_no_sample_has_all_sizes() -> None:
    n = tirx.Var("n", "int64")
    sizes = [n * 64 // ((n - n) * 4 + n // 100000), n * 4, n * 8]
    storages = [Storage(Home.WORKSPACE, size, f"s{k}") for k, size in enumerate(sizes)]
    source = Storage(Home.INPUT, n, "x")
    region = Region([Copy(source, s, s.size_bytes) for s in storages])
    plan_region(region)
    assert [s.slot for s in storages] == [0, 1, 2]


def test_names_are_those_of_the_formula_in_every_process() -> None:
    def texts() -> list[str]:
        h, w = tirx.Var("h", "int64"), tirx.Var("w", "int64")
        shared = Formulas()
        shared.text(windows(h, w) * 4 + windows(w, h) * windows(h + 1, w + 1))
        return shared.steps

    assert texts() == texts()


def test_a_workspace_of_sizes_without_a_value_is_refused() -> None:
    x = relay.var("x", shape=(relay.Any(), 4))
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(x)))
    name = exe._manifest["inputs"][0][1][0]
    exe._manifest["workspace_bytes"] = f"_t0 = 64 // {name}; _t0"
    assert exe.workspace_bytes({"x": (4, 4)}) == 16
    with pytest.raises(BadInput, match=r"workspace_bytes: .* divides by zero .*x: \[0, 4\]"):
        exe.workspace_bytes({"x": (0, 4)})
    assert exe(np.ones((0, 4), "float32")).shape == (0, 4)
