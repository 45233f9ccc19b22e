"""The entry point of a program with many sizes that depend on data is linear in their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed
from tvm_disc.shape import Solver
from tvm_disc.shape.solver import FEW_TERMS
from tvm_disc.tir.builder import i64


def dynamic(rank: int) -> Any:
    return relay.var("x", shape=(relay.Any(),) * rank, dtype="float32")


def selections(count: int) -> Any:
    """The positions of the elements above each of ``count`` thresholds, all in one tensor."""
    x = dynamic(2)
    found = [relay.argwhere(relay.greater(x, relay.const(np.float32(k)))) for k in range(count)]
    return relay.Function([x], relay.concatenate(found, 0))


def entry_lines(count: int) -> int:
    text = tvm_disc.build(selections(count)).source("ll")
    entry = text[text.index("@__tvm_ffi_main(") :]
    return entry[: entry.index("\n}")].count("\n")


def test_code_is_linear_in_the_number_of_sizes() -> None:
    few, more, most = (entry_lines(count) for count in (8, 16, 32))
    assert most - more < 2.3 * (more - few)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 7), (64, 33)])
def test_results(shape: tuple[int, int], rng: np.random.Generator) -> None:
    exe = tvm_disc.build(selections(6))
    x = rng.uniform(-2, 8, shape).astype("float32")
    want = np.concatenate([np.argwhere(x > k) for k in range(6)])
    np.testing.assert_array_equal(exe(x), want)


def test_errors_after_many_allocations_release_them(rng: np.random.Generator) -> None:
    """A guard on the last size fails; calls after it use the blocks of the calls before."""
    x = dynamic(1)
    found = [relay.argwhere(relay.greater(x, relay.const(np.float32(k)))) for k in range(8)]
    exe = tvm_disc.build(relay.Function([x], relay.concatenate([f + f for f in found], 1)))
    same = np.full(1000, 9, "float32")
    assert exe(same).shape == (1000, 8)
    before = exe.memory_statistics()
    for _ in range(20):
        with pytest.raises(GuardFailed, match="must equal argwhere"):
            exe(rng.uniform(0, 9, 1000).astype("float32"))
        assert exe(same).shape == (1000, 8)
    after = exe.memory_statistics()
    assert after["misses"] - before["misses"] <= 8


def test_bounds_of_many_terms_are_not_recorded() -> None:
    solver = Solver()
    found = solver.symbol("found")
    dims = [solver.symbol(f"d{k}") for k in range(FEW_TERMS + 1)]
    total = i64(0)
    for k, dim in enumerate(dims):
        total = total + dim * dim * (k + 1)
    short = dims[0] * dims[1]
    for bound, kept in ((total, None), (short, True)):
        solver.assume_at_most(found, bound, "a test")
        assert solver.known(found <= bound) is kept
