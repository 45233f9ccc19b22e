"""``Executable.record``: files of calls, and what they hold."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, mlp, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.inputs import refuse_device
from tvm_disc.runtime.observed.recording import read_calls

SIZES = (0, 1, 7, 64, 331)


@pytest.fixture(scope="module")
def exe() -> Any:
    return tvm_disc.build(mlp())


def batches(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((n, 16)).astype("float32") for n in SIZES]


def test_inputs_and_results_of_every_shape(
    exe: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    given = batches(rng)
    with exe.record(tmp_path / "calls.npz"):
        made = [exe(x) for x in given]
    found = list(read_calls(tmp_path / "calls.npz"))
    assert len(found) == len(SIZES) and all(c.seconds > 0 for c in found)
    for call, x, y in zip(found, given, made, strict=True):
        np.testing.assert_array_equal(call.inputs["x"], x)
        assert call.results is not None
        np.testing.assert_array_equal(call.results[0], y)
    with np.load(tmp_path / "calls.npz") as arrays:  # also an ordinary file of NumPy
        np.testing.assert_array_equal(arrays["2/inputs/x"], given[2])


def test_each_way_to_call(exe: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 32)).astype("float32")
    with exe.record(tmp_path / "calls.npz"):
        expected = exe(x[:, ::2])  # not contiguous
        exe(x=x[:, ::2].tolist())
        exe(x[:, ::2].copy(), out=np.empty((6, 10), "float32"))
        exe.profile(x[:, ::2], repeat=2)  # one call for its warm-up
    found = list(read_calls(tmp_path / "calls.npz"))
    assert len(found) == 4
    for call in found:
        assert call.results is not None
        np.testing.assert_array_equal(call.results[0], expected)


def test_results_are_optional_and_calls_limited(
    exe: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    with exe.record(tmp_path / "calls.npz", results=False, limit=3):
        made = [exe(x) for x in batches(rng)]
    assert [len(y) for y in made] == list(SIZES)
    found = list(read_calls(tmp_path / "calls.npz"))
    assert [c.inputs["x"].shape[0] for c in found] == list(SIZES[:3])
    assert [c.results for c in found] == [None] * 3


def test_a_call_that_raises_is_not_recorded(exe: Any, tmp_path: Path) -> None:
    with exe.record(tmp_path / "calls.npz"), pytest.raises(BadInput):
        exe(np.zeros((3, 5), "float32"))
    assert list(read_calls(tmp_path / "calls.npz")) == []


def test_nested_results_and_types_that_numpy_does_not_store(tmp_path: Path) -> None:
    x = rows("n", 4, dtype="bfloat16")
    i = rows("n", name="i", dtype="int64")
    exe = tvm_disc.build(function(x, i, relay.Tuple([x + x, relay.Tuple([i, x])])))
    import ml_dtypes

    value = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    with exe.record(tmp_path / "calls.npz"):
        exe(value, np.arange(3))
    (call,) = read_calls(tmp_path / "calls.npz")
    assert call.inputs["x"].dtype == value.dtype and call.results is not None
    assert [str(r.dtype) for r in call.results] == ["bfloat16", "int64", "bfloat16"]
    np.testing.assert_array_equal(call.results[0], value + value)


def test_contexts_may_overlap(exe: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 16)).astype("float32")
    expected = exe(x)
    first, second = exe.record(tmp_path / "1.npz"), exe.record_shapes(tmp_path / "2.jsonl")
    first.__enter__()
    exe(x)
    second.__enter__()
    exe(x)
    first.__exit__(None, None, None)  # before the second, which began later
    exe(x)
    second.__exit__(None, None, None)
    np.testing.assert_array_equal(exe(x), expected)
    assert len(list(read_calls(tmp_path / "1.npz"))) == 2
    assert '"calls": 2' in (tmp_path / "2.jsonl").read_text()
    assert exe.observers == [] and type(exe.entries()[0]).__name__ != "_Observed"


def test_many_threads(exe: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    given = [x for _ in range(20) for x in batches(rng)]
    with exe.record(tmp_path / "calls.npz", limit=70), ThreadPoolExecutor(4) as pool:
        made = list(pool.map(exe, given))
    found = list(read_calls(tmp_path / "calls.npz"))
    assert len(found) == 70
    results = {x.tobytes(): y for x, y in zip(given, made, strict=True)}
    for call in found:
        assert call.results is not None
        np.testing.assert_array_equal(call.results[0], results[call.inputs["x"].tobytes()])


def test_a_recorded_program_is_freed(tmp_path: Path) -> None:
    x = rows("n", 4)
    exe = tvm_disc.build(function(x, relay.nn.relu(x)))
    with exe.record(tmp_path / "calls.npz"):
        exe(np.ones((3, 4), "float32"))
    gone = weakref.ref(exe)
    gc.disable()
    try:
        del exe
        assert gone() is None
    finally:
        gc.enable()


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "more", "message"),
    [
        (5, {}, "record: expected a path, found 5"),
        ("a\0b", {}, "record: expected a valid path"),
        ("/none/x.npz", {}, "record: /none/x.npz: No such file"),
        ("x.npz", {"limit": 0}, "limit: expected at least 1, found 0"),
        ("x.npz", {"limit": 1.5}, "limit: expected an integer, found float 1.5"),
        ("x.npz", {"results": 1}, "results: expected True or False, found int 1"),
    ],
)
def test_bad_arguments(
    exe: Any,
    path: Any,
    more: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=message):
        exe.record(path, **more).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(exe: Any) -> None:
    with (
        pytest.raises(BadInput, match="record: /dev/full: No space left"),
        exe.record("/dev/full"),
    ):
        exe(np.zeros((1000, 16), "float32"))


def test_a_program_for_a_gpu() -> None:
    with pytest.raises(Unsupported, match="record: expected a program for a CPU, found one for"):
        refuse_device("record", {"device": {"name": "cuda"}})


@pytest.mark.parametrize("damage", ["missing", "text", "other", "short"])
def test_files_that_hold_no_calls(damage: str, exe: Any, tmp_path: Path) -> None:
    path = tmp_path / "calls.npz"
    if damage == "text":
        path.write_text("calls")
    if damage == "other":
        np.savez(path, x=np.zeros(3))
    if damage == "short":
        with exe.record(path):
            exe(np.zeros((3, 16), "float32"))
        path.write_bytes(path.read_bytes()[:-100])
    message = "no such file" if damage == "missing" else "expected calls that Executable.record"
    with pytest.raises(BadInput, match=message):
        list(read_calls(path))


def test_a_call_that_is_damaged(exe: Any, tmp_path: Path) -> None:
    path = tmp_path / "calls.npz"
    with exe.record(path):
        exe(np.ones((3, 16), "float32"))
    data = bytearray(path.read_bytes())
    at = data.index(b"\x93NUMPY")
    data[at : at + 6] = b"xxxxxx"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="call 0 is damaged"):
        list(read_calls(path))
