"""CUDA graphs: one for each set of dims, right for tensors anywhere, and bounded."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import tvm_disc
from tests.models import function, load, mlp, mlp_reference, rows
from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.errors import BadOption, DeviceError

MOST = 3
SIZES = (1, 3, 16, 0, 65, 3, 200, 1, 16)


def built(source: Any, most: int = MOST) -> Any:
    """A program that keeps graphs."""
    options = tvm_disc.Options(cuda_graphs=most)
    return tvm_disc.build(source, target="cuda", options=options)


def pairs() -> Any:
    """``softmax(x + y), x * y`` over rows: two results, which read the same inputs."""
    x, y = rows("n", 8), rows("n", 8, name="y")
    both = relay.Tuple([relay.nn.softmax(relay.add(x, y)), relay.multiply(x, y)])
    return function(x, y, both)


@cache
def small() -> Any:
    """A program that several tests share."""
    return built(mlp())


@pytest.fixture
def program(gpu: ctypes.CDLL) -> Iterator[Any]:
    """It, without graphs before and after."""
    small()(X)
    small().trim()
    yield small()
    small().trim()


def wave(n: int) -> np.ndarray:
    """An input of ``n`` rows."""
    return np.linspace(-1, 1, n * 16, dtype="float32").reshape(n, 16)


X = wave(3)


def counted(program: Any) -> Any:
    """What has become of graphs so far."""
    found = program.memory_statistics()
    return [found[k] for k in ("graph_calls", "graphs_made", "graphs_evicted", "graph_updates")]


def changed(program: Any, before: Any) -> list[int]:
    """The same, since then."""
    return [b - a for a, b in zip(before, counted(program), strict=True)]


def right(program: Any, x: np.ndarray) -> None:
    """One call."""
    np.testing.assert_allclose(program(x), mlp_reference(x), rtol=1e-5, atol=1e-7)


def test_every_shape(program: Any) -> None:
    for n in SIZES:
        right(program, wave(n))


def test_a_call_of_known_dims_launches_once(gpu: ctypes.CDLL, program: Any) -> None:
    there = program._main.sent(X)
    kept = [program(there)]  # so that the next result lies elsewhere
    before, launches, waits = counted(program), gpu.emulated_launches(), gpu.emulated_waits()
    calls = gpu.emulated_calls()
    result = program(there)
    # A result of its own, the kernel that writes it, and the graph.
    assert changed(program, before) == [1, 0, 0, 1]
    assert gpu.emulated_calls() - calls == 3
    assert gpu.emulated_launches() - launches == 3
    assert gpu.emulated_waits() == waits
    np.testing.assert_array_equal(*(program._main.fetched(t).numpy() for t in (result, *kept)))


def test_tensors_elsewhere(gpu: ctypes.CDLL) -> None:
    program = built(pairs())
    fetched, sent = program._main.fetched, program._main.sent
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((5, 8)).astype("float32") for _ in range(3)]
    a, b, c = (sent(array) for array in arrays)
    held = []
    # The same tensor twice, then two; results of earlier calls stay what they were.
    for x, y in ((a, a), (a, b), (b, a), (c, b), (c, c), (a, b)):
        held.append((x, y, program(x, y)))
    for x, y, (soft, product) in held:
        x, y = fetched(x).numpy(), fetched(y).numpy()
        e = np.exp(x + y)
        np.testing.assert_allclose(fetched(soft).numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(fetched(product).numpy(), x * y, rtol=1e-6)
    assert counted(program)[:3] == [6, 1, 0]


def test_results_into_tensors_of_the_caller(program: Any) -> None:
    for n in (3, 3, 1, 3):
        out = np.zeros((n, 10), "float32")
        program(wave(n), out=out)
        np.testing.assert_allclose(out, mlp_reference(wave(n)), rtol=1e-5)


def test_the_one_used_last_the_longest_ago_makes_room(gpu: ctypes.CDLL, program: Any) -> None:
    before, live = counted(program), gpu.emulated_live()
    for n in (1, 2, 3, 1, 4):  # 4 in place of 2
        right(program, wave(n))
    assert changed(program, before)[:3] == [5, 4, 1] and gpu.emulated_handles() == 3 * MOST
    right(program, wave(1))
    right(program, wave(3))
    assert changed(program, before)[1:3] == [4, 1]
    right(program, wave(2))
    assert changed(program, before)[1:3] == [5, 2]
    for n in range(1, 20):
        right(program, wave(n))
    assert gpu.emulated_handles() == 3 * MOST
    # Idle memory is theirs alone, and goes as other idle memory does.
    assert gpu.emulated_live() > live
    program.trim()
    assert gpu.emulated_live() == live and gpu.emulated_handles() == 0
    right(program, X)


def test_streams(gpu: ctypes.CDLL, program: Any) -> None:
    """A graph is launched, and gives way, on other streams than it was made on."""
    there = {n: program._main.sent(wave(n)) for n in (1, 2, 3, 4, 5)}
    program._main.fetched(there[5])  # waits: other streams may have them
    device = tvm_ffi.device("cuda:0")
    for n, stream in ((1, 0), (1, 7), (2, 7), (3, 9), (4, 9), (1, 0), (5, 7), (1, 9), (2, 0)):
        with tvm_ffi.use_raw_stream(device, stream):
            found = program._main.fetched(program(there[n])).numpy()
        np.testing.assert_allclose(found, mlp_reference(wave(n)), rtol=1e-5)
    with tvm_ffi.use_raw_stream(device, 11):
        program.trim()


def test_threads(gpu: ctypes.CDLL, program: Any) -> None:
    """Whoever finds another call at the graphs launches kernels one by one."""

    def work(n: int) -> None:
        for k in range(8):
            right(program, wave(1 + (n + k) % 5))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert gpu.emulated_handles() <= 3 * MOST


def test_a_profile_times_kernels_one_by_one(gpu: ctypes.CDLL, program: Any) -> None:
    there = program._main.sent(X)
    before = counted(program)
    assert len(program.profile(there).calls[0]) == 3
    assert changed(program, before)[:2] == [1, 1]  # of the call before that it times


def test_results_that_are_inputs_are_copied_after_the_graph() -> None:
    x = rows("n", 4)
    y = relay.nn.relu(x)
    program = built(function(x, relay.Tuple([y, x, y])))
    for n in (2, 2, 5, 0):
        value = np.linspace(-1, 1, n * 4, dtype="float32").reshape(n, 4)
        found = program(value)
        for one, want in zip(
            found, (np.maximum(value, 0), value, np.maximum(value, 0)), strict=True
        ):
            np.testing.assert_array_equal(one, want)
    assert counted(program)[1] == 2


def test_without_dims() -> None:
    x = rows(2, 4)
    program = built(function(x, relay.exp(relay.sum(x, axis=1))))
    for value in (0.0, 0.5):
        given = np.full((2, 4), value, "float32")
        np.testing.assert_allclose(program(given), np.exp(given.sum(1)), rtol=1e-6)
    assert counted(program)[:3] == [2, 1, 0]


def test_two_versions_of_a_program() -> None:
    """Dims that agree are served by a program of their own, and by a graph of its own."""
    x, y = rows("n", 4), rows("m", 4, name="y")
    program = built(function(x, y, relay.nn.relu(relay.add(relay.exp(x), y))))
    for n, m in ((3, 3), (3, 1), (1, 3), (3, 3)):
        a, b = (np.full((k, 4), k / 8, "float32") for k in (n, m))
        np.testing.assert_allclose(program(a, b), np.exp(a) + b, rtol=1e-6)
    assert counted(program)[:3] == [4, 3, 0]


def test_a_saved_library(tmp_path: Path) -> None:
    built(mlp()).save(tmp_path / "graphs.so")
    loaded = tvm_disc.load(tmp_path / "graphs.so")
    for n in (3, 1, 3):
        right(loaded, wave(n))
    assert counted(loaded)[:2] == [3, 2]
    assert "CUDA graphs: up to 3, one per combination of input dims" in loaded.explain()


BUILDING = ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphAddEventRecordNode", "cuEventCreate",
            "cuGraphInstantiateWithFlags", "cuGraphLaunch")  # fmt: skip


@pytest.mark.parametrize("call", BUILDING)
def test_a_failure_while_a_graph_is_made(gpu: ctypes.CDLL, program: Any, call: str) -> None:
    there = program._main.sent(X)
    live = gpu.emulated_live()
    gpu.emulated_fail(call.encode(), 719)
    what = "launch" if call == "cuGraphLaunch" else "make"
    with pytest.raises(DeviceError, match=f"could not {what} a CUDA graph: status 719"):
        program(there)
    assert gpu.emulated_live() == live and gpu.emulated_handles() == 0
    gpu.emulated_fail(b"", 0)
    right(program, X)


def test_a_failure_while_a_graph_is_updated(gpu: ctypes.CDLL, program: Any) -> None:
    there = program._main.sent(X)
    kept = program(there)
    gpu.emulated_fail(b"cuGraphExecKernelNodeSetParams", 700)
    with pytest.raises(DeviceError, match="could not update a kernel of a CUDA graph: status 700"):
        program(there)
    gpu.emulated_fail(b"", 0)
    before = counted(program)
    right(program, X)
    assert changed(program, before)[1] == 1 and kept is not None


def test_out_of_memory_while_a_graph_is_made(gpu: ctypes.CDLL, program: Any) -> None:
    there = program._main.sent(X)
    live, failed = gpu.emulated_live(), 0
    for room in (8, 70, 300, 600):
        gpu.emulated_limit(live + room)
        try:
            program(there)
        except MemoryError:
            failed += 1
            assert gpu.emulated_live() == live and gpu.emulated_handles() == 0
        program.trim()
    assert failed >= 2
    gpu.emulated_limit(2**64 - 1)
    right(program, X)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lstm_while_dyn", "a loop depends on data: its condition is read back from the device"),
        ("argwhere_gather", "depends on data: read back from the device"),
        ("if_tuple", "a branch depends on data: its condition is read back from the device"),
    ],
)
def test_calls_that_read_data_have_none(name: str, reason: str) -> None:
    program = built(load(DATA / "printed" / f"{name}.relay"))
    said = program.explain()
    assert "CUDA graphs: " in said and reason in said and "up to" not in said
    assert "graph_calls" not in program.memory_statistics()


def test_options() -> None:
    with pytest.raises(BadOption, match=r"cuda_graphs: expected 0 \.\. 1024, found -1"):
        tvm_disc.Options(cuda_graphs=-1)
    with pytest.raises(BadOption, match="cuda_graphs: expected an integer, found True"):
        tvm_disc.Options(cuda_graphs=True)
    with pytest.raises(BadOption, match='cuda_graphs: expected target="cuda"'):
        tvm_disc.build(mlp(), options=tvm_disc.Options(cuda_graphs=2))
