"""The entry for NumPy arrays loops over long runs of inputs of one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import ir

import tvm_disc
from tvm_disc import compile, relay
from tvm_disc.codegen.host.numpy_entry import LOOPED, direct_entry
from tvm_disc.errors import BadInput
from tvm_disc.options import Options
from tvm_disc.support.debug import Trace

MIXED = ["float32"] * (LOOPED + 1) + ["int64"] * 3 + ["float32"] * LOOPED + ["int32"]


def total(dtypes: list[str]) -> Any:
    """The sum of all inputs, as float32."""
    xs = [relay.var(f"x{k}", shape=(relay.Any(), 4), dtype=dtype) for k, dtype in enumerate(dtypes)]
    ys = [relay.cast(x, "float32") if "int" in d else x for x, d in zip(xs, dtypes, strict=True)]
    out = ys[0]
    for y in ys[1:]:
        out = relay.add(out, y)
    return relay.Function(xs, out)


CONSTRAINTS = [f"x0.0 == x{k}.0" for k in range(1, len(MIXED))]


@pytest.fixture(scope="module")
def summed() -> Any:
    return tvm_disc.build(total(MIXED), constraints=CONSTRAINTS)


def arrays(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.integers(0, 9, (rows, 4)).astype(dtype) for dtype in MIXED]


@pytest.mark.parametrize("rows", [0, 1, 5, 64])
def test_runs_of_inputs_are_read(summed: Any, rows: int) -> None:
    given = arrays(rows)
    np.testing.assert_array_equal(np.asarray(summed(*given)), sum(x.astype("f4") for x in given))


@pytest.mark.parametrize("at", [0, LOOPED, LOOPED + 1, LOOPED + 3, LOOPED + 4, len(MIXED) - 1])
def test_an_array_that_does_not_fit_is_refused_by_name(summed: Any, at: int) -> None:
    given = arrays(3)
    given[at] = given[at].astype("float64")
    with pytest.raises(BadInput, match=f"input 'x{at}': expected dtype {MIXED[at]}"):
        summed(*given)


@pytest.mark.parametrize("at", [0, LOOPED, LOOPED + 4, len(MIXED) - 1])
def test_an_array_with_gaps_is_copied(summed: Any, at: int) -> None:
    given = arrays(3)
    wide = np.zeros((3, 8), given[at].dtype)
    wide[:, ::2] = given[at]
    plain = [*given]
    given[at] = wide[:, ::2]
    np.testing.assert_array_equal(np.asarray(summed(*given)), np.asarray(summed(*plain)))


def test_the_entry_does_not_grow_with_the_inputs() -> None:
    def size(count: int) -> int:
        function = total(["float32"] * count)
        constraints = [f"x0.0 == x{k}.0" for k in range(1, count)]
        trace = Trace(0, None)
        made = compile.prepare(function, None, None, constraints, Options(), trace)
        return len(str(direct_entry(made.programs[-1], ir.GlobalVar("main"))).splitlines())

    assert size(2 * LOOPED) == size(4 * LOOPED)
