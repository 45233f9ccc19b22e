"""An engine in its own process: what it answers, and every way in which it may fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tvm_disc.bench.served import EngineRefused, Served

ENGINES = Path(__file__).with_name("engines.py")


def served(name: str, **options: float) -> Served:
    return Served(f"{ENGINES}:{name}", Path("model"), 2, **options)  # type: ignore[arg-type]


def called(engine: Served, folder: Path, rows: int) -> list[np.ndarray]:
    """The results of one call with so many rows of 1, 2, ...."""
    inputs, results = folder / "in.npz", folder / "out.npz"
    np.savez(inputs, **{"0": np.arange(1.0, rows + 1)})
    engine.run(["x"], inputs, results)
    with np.load(results) as made:
        return [made[str(k)] for k in range(len(made.files))]


@pytest.fixture
def right() -> Iterator[Served]:
    with closing(served("right")) as engine:
        yield engine


def test_results_and_times(right: Served, tmp_path: Path) -> None:
    assert right.version == "1.2" and right.load_s >= 0
    for rows in (1, 2, 7, 64, 0):
        (found,) = called(right, tmp_path, rows)
        np.testing.assert_array_equal(found, 2 * np.arange(1.0, rows + 1))
        assert 0 < right.seconds(0.001) < 1


def test_nested_results_and_the_same_threads_for_all(tmp_path: Path) -> None:
    with closing(served("nested")) as engine:
        found = called(engine, tmp_path, 3)
        assert [x.tolist() for x in found] == [[2, 4, 6], 2, 2]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent", "^not installed: No module named 'no_such_package_at_all'$"),
        ("refuses", "^RuntimeError: operator Foo is not known$"),
    ],
)
def test_what_does_not_start_says_why(name: str, reason: str) -> None:
    with pytest.raises(EngineRefused, match=reason):
        served(name)


def test_what_refuses_a_call_takes_the_next(tmp_path: Path) -> None:
    with closing(served("refuses_one")) as engine:
        with pytest.raises(EngineRefused, match=r"^ValueError: one row is too few$"):
            called(engine, tmp_path, 1)
        assert called(engine, tmp_path, 2)[0].tolist() == [2, 4]


def test_what_dies_is_named_by_its_signal_and_its_last_words(tmp_path: Path) -> None:
    with closing(served("dies")) as engine:
        with pytest.raises(EngineRefused, match=r"^killed by signal 6: .*"):
            called(engine, tmp_path, 2)
        with pytest.raises(EngineRefused, match="killed by signal 6"):
            engine.seconds(0.1)


def test_what_never_answers_is_ended() -> None:
    with pytest.raises(EngineRefused, match=r"^no answer within 2 s$"):
        served("sleeps", limit_s=2)
