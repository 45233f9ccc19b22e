"""Times of the library beside those of our kernels: they say which products go there."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.cuda.helpers import noise, worth_a_call
from tests.cuda.tuning.products import LIBRARY, SIZES, dense, tuned
from tests.cuda.tuning.timed import Times
from tvm_disc import Options
from tvm_disc.errors import BadInput

FEWEST = 40  # rows from which on the library is faster than our kernels


def took(what: int) -> float:
    """Milliseconds of a kernel, or of the library for so many rows below 0."""
    return 0.005 if what > 0 else 0.002 if -what >= FEWEST else 0.009


@pytest.fixture
def clock(gpu: ctypes.CDLL) -> Iterator[None]:
    entry = Times(took)
    gpu.emulated_times(entry)
    yield
    gpu.emulated_times(None)


def built(**options: Any) -> Any:
    return tvm_disc.build(dense(), target="cuda", options=Options(cache=False, **options))


def theirs(blas: ctypes.CDLL, program: Any, sizes: list[int], digits: float = 1e-5) -> list[int]:
    """The sizes at which the library computes the product; all results are right."""
    found = []
    for n in sizes:
        calls, x = blas.fake_calls(), noise(n, 24)
        np.testing.assert_allclose(program(x), x @ noise(10, 24).T, rtol=digits, atol=digits)
        found += [n] * (blas.fake_calls() - calls)
    return found


def families(path: Path) -> set[str]:
    return {json.loads(line)["variant"]["family"] for line in path.read_text().splitlines()}


@pytest.mark.usefixtures("clock")
def test_times_say_which_products_go_there(
    tmp_path: Path, blas: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    done = tuned(path)
    assert done.left == 0 and LIBRARY in families(path)
    again = tuned(path)
    assert (again.measured, again.left) == (0, 0)

    worth_a_call(monkeypatch, 1000)
    program = built(records=path)
    large = [n for n in SIZES if n >= FEWEST]
    assert theirs(blas, program, SIZES) == large
    # Outside of what was measured the model says, by which a thousand rows are worth a call.
    assert theirs(blas, program, [0, 200, 500, 2000, 3000]) == [2000, 3000]
    choice = f"{LIBRARY}:\n        the product, if it is installed and this tree selects it"
    assert choice in program.explain()
    [events] = program.profile(noise(64, 24), repeat=1).calls
    assert [e.variant for e in events] == [f"{LIBRARY}(tf32=False), serial"]
    [events] = program.profile(noise(8, 24), repeat=1).calls
    assert LIBRARY not in events[0].variant

    # Trees that are written down say the same.
    trees = tmp_path / "trees.json"
    trees.write_text(json.dumps(program.dispatch))
    assert theirs(blas, built(dispatch=trees), [*SIZES, 500, 2000]) == [*large, 2000]
    # Times with operands in ten bits are others; our kernels round them, too.
    assert theirs(blas, built(records=path, tf32=True), SIZES, 4e-3) == []
    # Where there is no library, our kernels run.
    blas.fake_present(False)
    assert theirs(blas, built(records=path), SIZES) == []


@pytest.mark.usefixtures("clock")
def test_what_it_does_not_compute_has_no_time(tmp_path: Path, blas: ctypes.CDLL) -> None:
    blas.fake_unable(True)
    path = tmp_path / "r.jsonl"
    done = tuned(path)
    assert done.left == 0 and LIBRARY not in families(path)
    blas.fake_unable(False)
    # It was not there, and may be where the program runs: then the model says.
    assert theirs(blas, built(records=path), SIZES) == SIZES


def test_trees_that_fit_no_product(tmp_path: Path, blas: ctypes.CDLL) -> None:
    path = tmp_path / "trees.json"
    [(group, tree)] = built().dispatch.items()
    own = tree.pop("library")
    for wrong, said in (
        ({"if": "n"}, "expected .* found"),
        ({"if": "batch", "below": 8, "then": own, "else": own}, "unknown quantity 'batch'"),
        ({"run": {"family": "other"}}, "unknown variant"),
        ({"run": tree.get("run", tree.get("then", {}).get("run"))}, "library or all generated"),
    ):
        path.write_text(json.dumps({group: {**tree, "library": wrong}}))
        with pytest.raises(BadInput, match=said):
            built(dispatch=path)
