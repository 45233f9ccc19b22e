"""Column reductions in panels, against NumPy in float64; what does not fit them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tvm_disc.compile import build
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable

# Around a chunk of rows; 1, a vector, a block, a panel and a prime of columns; empty.
SHAPES = [(r, c) for r in (1, 15, 16, 17, 101) for c in (1, 7, 16, 17, 64, 65, 2048, 2053)]
SHAPES += [(4099, 3), (0, 5), (5, 0)]


@cache
def program(body: str, params: str = "%x: Tensor[(?, ?), float32]") -> Executable:
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {body}\n}}\n'
    return build(text, options=Options(threads=2))


def walk_of(run: Executable) -> list[str]:
    return [
        line.strip() for line in run.explain().splitlines() if line.strip().startswith("traversal:")
    ]


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max", "min"])
def test_over_the_first_axis(op: str, rng: np.random.Generator) -> None:
    run = program(f"{op}(%x, axis=[0])")
    assert walk_of(run) == ["traversal: panels of columns"]
    for shape in SHAPES:
        if shape[0] == 0 and op != "sum":
            continue
        x = rng.uniform(0.9, 1.1, shape).astype(np.float32)
        expected = getattr(np, op)(x.astype(np.float64), axis=0)
        np.testing.assert_allclose(run(x), expected, rtol=2e-5 if op == "prod" else 1e-6)


def test_work_before_and_after_several_reductions(rng: np.random.Generator) -> None:
    body = """%0 = exp(%x);
  %1 = sum(%0, axis=[1]);
  %2 = max(%x, axis=[1]);
  add(log(%1), multiply(%2, 2f))"""
    run = program(body, "%x: Tensor[(?, ?, ?), float32]")
    assert len(run.kernels) == 1
    for shape in [(1, 1, 1), (3, 17, 70), (2, 40, 2100), (2, 5, 0)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        wide = x.astype(np.float64)
        expected = np.log(np.exp(wide).sum(1)) + 2 * wide.max(1)
        np.testing.assert_allclose(run(x), expected, rtol=1e-5, atol=1e-5)


def test_sums_of_many_rows_are_exact_to_rounding() -> None:
    run = program("sum(%x, axis=[0])")
    x = np.full((200_003, 3), 0.1, np.float32)
    x[0], x[-1] = 1e8, -1e8
    expected = x.astype(np.float64).sum(0)
    np.testing.assert_allclose(run(x), expected, rtol=2e-3)


def test_nan_and_infinities_pass() -> None:
    x = np.ones((40, 20), np.float32)
    x[3, 0], x[30, 1], x[5, 2], x[6, 3], x[7, 3] = np.nan, np.nan, np.inf, np.inf, -np.inf
    for op in ("sum", "max"):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, op)(x, axis=0)
        np.testing.assert_array_equal(program(f"{op}(%x, axis=[0])")(x), expected)


@pytest.mark.parametrize(
    "body",
    ["argmax(%x, axis=[0])", "multiply(%x, sum(%x, axis=[0], keepdims=True))", "sum(%x, axis=[1])"],
)
def test_not_where_more_than_totals_is_needed(body: str) -> None:
    assert not any("panels" in line for line in walk_of(program(body)))
