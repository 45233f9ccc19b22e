"""Memory of calls: counted requests, the caller's own outputs, running out, many threads."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import function, mlp, mlp_reference, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, GuardFailed
from tvm_disc.runtime.workers import statistics

RNG = np.random.default_rng(0)
SIZES = (0, 1, 7, 64, 65, 1000)


def matrix(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.fixture(scope="module")
def net() -> Any:
    return tvm_disc.build(mlp(hidden=512))


@pytest.fixture(scope="module")
def pair() -> Any:
    x, y = rows("b", 4), rows("b", 4, name="y")
    summed = relay.sum(x, axis=[0])
    body = relay.Tuple([relay.add(x, y), relay.Tuple([relay.multiply(y, y), summed])])
    return tvm_disc.build(function(x, y, body))


# -- requests ---------------------------------------------------------------------------------


def test_one_workspace_request_per_call(net: Any) -> None:
    net(matrix(1000, 16))
    for n in (1000, 64, 500, 1000):
        before = net.memory_statistics()
        net(matrix(n, 16))
        after = net.memory_statistics()
        assert after["requests"] - before["requests"] == 1
        assert after["misses"] == before["misses"], "memory of an earlier call fits"


def test_one_allocation_per_output(pair: Any) -> None:
    """Every request of a call is counted: the program's own functions are all that allocate."""
    source = pair.source("ll")
    main = source[source.index("@__tvm_ffi_main(") :]
    main = main[: main.index("\n}\n")]
    assert main.count("_tvm_disc_new_tensor(") == 3
    assert "TVMBackendAllocWorkspace" not in source
    assert "TVMTensorAllocWithScope" not in source


def test_kept_memory_is_bounded_and_given_back(net: Any) -> None:
    net(matrix(1000, 16))
    kept = net.memory_statistics()["kept"]
    assert kept >= 1000 * 16 * 4
    net.keep_memory(kept // 2)
    assert net.memory_statistics()["kept"] == 0
    net(matrix(1000, 16))
    assert net.memory_statistics()["kept"] == 0, "larger than what may be kept"
    net.keep_memory(1 << 30)
    net(matrix(1000, 16))
    assert net.memory_statistics()["kept"] == kept


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc/self/statm")
def test_trim_gives_idle_memory_back() -> None:
    net = tvm_disc.build(mlp(hidden=512))
    x = matrix(20_000, 16)
    for _ in range(2):
        held = net(x)
    statistics, before = net.memory_statistics(), _resident_bytes()
    idle = statistics["kept"]
    assert idle >= 8 << 20
    assert net.trim() >= idle
    assert net.memory_statistics()["kept"] == 0
    assert before - _resident_bytes() >= 0.9 * idle
    again = net(x)
    np.testing.assert_array_equal(again, held)
    assert net.memory_statistics()["kept"] == idle, "what may be kept is as before"
    assert net.trim() > 0
    assert net.trim() == 0


def test_trim_beside_calls() -> None:
    net = tvm_disc.build(mlp(hidden=512))
    inputs = [matrix(n, 16) for n in (1, 17, 300, 1000)]
    expected = [net(x) for x in inputs]
    stop = threading.Event()

    def trim() -> None:
        while not stop.is_set():
            net.trim()

    trimming = threading.Thread(target=trim)
    trimming.start()
    try:
        for _ in range(50):
            for x, y in zip(inputs, expected, strict=True):
                np.testing.assert_array_equal(net(x), y)
    finally:
        stop.set()
        trimming.join()


# -- the caller's own outputs -----------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_results_into_given_tensors(net: Any, n: int) -> None:
    x = matrix(n, 16)
    out = np.full((n, 10), np.nan, "float32")
    assert net(x, out=out) is out
    np.testing.assert_array_equal(out, net(x))
    other = tvm.runtime.empty((n, 10), "float32")
    assert net(tvm.runtime.tensor(x), out=other) is other
    np.testing.assert_array_equal(other.numpy(), out)


def test_nested_outputs(pair: Any) -> None:
    x, y = matrix(5, 4), matrix(5, 4)
    out = (np.empty((5, 4), "float32"), (np.empty((5, 4), "float32"), np.empty(4, "float32")))
    assert pair(x, y=y, out=out) is out
    np.testing.assert_array_equal(out[0], x + y)
    np.testing.assert_array_equal(out[1][0], y * y)
    np.testing.assert_allclose(out[1][1], x.sum(0), rtol=1e-5)


def test_an_output_may_not_take_the_place_of_what_a_branch_returned() -> None:
    """The value of the branch is the memory of ``x``, which is read after the first result."""
    x, y = (relay.var(name, shape=(relay.Any(), 4)) for name in "xy")
    cond = relay.var("cond", shape=(), dtype="bool")
    chosen, first = relay.var("chosen"), relay.var("first")
    both = relay.Tuple([first, relay.nn.softmax(first * chosen)])
    body = relay.Let(first, relay.nn.softmax(y), both)
    function = relay.Function([cond, x, y], relay.Let(chosen, relay.If(cond, x, y), body))
    exe = tvm_disc.build(function)
    a, b = (np.random.default_rng(k).random((3, 4), dtype="float32") for k in range(2))
    other = np.empty_like(a)
    with pytest.raises(BadInput, match="output 0: shares memory with input 'x'"):
        exe(np.array(True), a, b, out=(a, other))


def test_an_output_may_take_the_place_of_an_input_that_is_done(pair: Any) -> None:
    x, y = matrix(9, 4), matrix(9, 4)
    with pytest.raises(BadInput, match=r"output 0: shares memory with input 'x', .* still needed"):
        pair(x, y, out=(x, (np.empty_like(y), np.empty(4, "float32"))))
    shared = np.empty((9, 4), "float32")
    with pytest.raises(BadInput, match="output 1: shares memory with output 0"):
        pair(x, y, out=(shared, (shared, np.empty(4, "float32"))))


def frozen(*shape: int) -> np.ndarray:
    array = np.empty(shape, "float32")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((3, 9), "float32"), r"output 0 axis 1: expected 10; found .*float32\[3, 9\]"),
        (np.empty((4, 10), "float32"), "output 0 axis 0: expected x_0"),
        (np.empty((3, 10)), "output 0: expected dtype float32"),
        (np.empty(30, "float32"), "output 0: expected 2 dims"),
        (np.empty((10, 3), "float32").T, "output 0: expected a contiguous row-major tensor"),
        (frozen(3, 10), "output 0: expected a tensor to write into, found a read-only one"),
        ([np.empty((3, 10), "float32")] * 2, "out: expected 1 tensor, found 2"),
        ("text", "output 0: expected a tensor, found str"),
    ],
)
def test_refused_outputs(net: Any, out: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        net(matrix(3, 16), out=out)
    assert net(matrix(3, 16)).shape == (3, 10)


# -- faults -----------------------------------------------------------------------------------


def test_views_zero_sizes_and_nan(net: Any) -> None:
    x = matrix(8, 16)
    expected = net(x)
    bytes_ = np.zeros(x.nbytes + 3, "uint8")
    odd = bytes_[3:].view("float32").reshape(x.shape)
    odd[...] = x
    for same in (odd, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(net(same), expected)
    for _ in range(2):  # the second call takes the way for shapes seen before
        np.testing.assert_array_equal(net(odd), expected)
        assert net(np.empty((0, 16), "float32")).shape == (0, 10)
    x[3] = np.nan
    found = net(x)
    assert np.isnan(found[3]).all() and not np.isnan(np.delete(found, 3, axis=0)).any()


def test_other_byte_orders_and_subclasses(net: Any) -> None:
    class Mine(np.ndarray):
        pass

    x = matrix(8, 16)
    expected = net(x)
    np.testing.assert_array_equal(net(x.view(Mine)), expected)
    with pytest.raises(BadInput, match=r"'x': expected dtype float32, found >f4"):
        net(x.astype(">f4"))
    np.testing.assert_array_equal(net(x), expected)


def test_another_device_is_refused(net: Any) -> None:
    class Elsewhere:
        shape, dtype = (2, 16), "float32"

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("the tensor is on device 2")

    with pytest.raises(BadInput, match="device"):
        net(Elsewhere())
    assert net(matrix(2, 16)).shape == (2, 10)


def test_failed_calls_leak_nothing() -> None:
    x, y = rows("?", 256), rows("?", 256, name="y")
    exe = tvm_disc.build(function(x, y, relay.concatenate([relay.exp(x), y], axis=1)))
    good, bad = np.zeros((500, 256), "float32"), np.zeros((400, 256), "float32")
    exe(good, good)
    for _ in range(50):
        with pytest.raises(GuardFailed, match="must equal"):
            exe(good, bad)
    before = peak()
    for _ in range(500):
        with pytest.raises(GuardFailed, match="must equal"):
            exe(good, bad)
    assert peak() - before < 30 << 20
    assert exe(good, good).shape == (500, 512)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


LIMITED = """
import os
import resource
import numpy as np
import tvm_disc
from tests.models import mlp, mlp_reference

exe = tvm_disc.build(mlp(hidden=2048))
small = np.ones((5, 16), "float32")
exe(small)
inputs = np.ones((60_000, 16), "float32")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
for n in (60_000, 50_000):
    for _ in range(3):
        try:
            exe(inputs[:n])
        except MemoryError as error:
            assert f"x: float32[{n}, 16]" in str(error), error
        else:
            raise AssertionError("400 MB fit into 100 MB")
        np.testing.assert_allclose(exe(small), mlp_reference(small, 2048), atol=1e-5)
print("usable")
"""


def test_out_of_memory_raises_and_the_next_call_succeeds() -> None:
    run = [sys.executable, "-c", LIMITED]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("usable\n"), done.stderr[-2000:]


def test_more_than_two_to_the_31_elements() -> None:
    x = rows("n", "m", dtype="int8")
    exe = tvm_disc.build(function(x, relay.max(x, axis=[1])))
    size = (1 << 31) + 17
    flat = np.zeros((1, size), "int8")  # pages that are only read cost nothing
    flat[0, -1] = 7
    np.testing.assert_array_equal(exe(flat), [7])


# -- threads ----------------------------------------------------------------------------------


def test_eight_threads_share_one_program(net: Any) -> None:
    inputs = [matrix(n, 16) for n in range(0, 60, 2)]
    expected = [net(x) for x in inputs]
    np.testing.assert_allclose(expected[5], mlp_reference(inputs[5], 512), rtol=1e-4, atol=1e-5)
    wrong: list[int] = []

    def work(seed: int, calls: int) -> None:
        rng = np.random.default_rng(seed)
        out = [np.empty_like(e) for e in expected]
        for step in range(calls):
            k = int(rng.integers(len(inputs)))
            found = net(inputs[k], out=out[k]) if step % 3 == 0 else net(inputs[k])
            if not np.array_equal(found, expected[k]):
                wrong.append(k)

    def run(calls: int) -> None:
        threads = [threading.Thread(target=work, args=(s, calls)) for s in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    run(200)
    before = peak()
    run(2000)
    assert not wrong
    assert peak() - before < 20 << 20, "memory grows with the calls"
    assert net.memory_statistics()["kept"] <= 16 * net.workspace_bytes({"x": (1000, 16)})


@pytest.fixture(scope="module")
def split() -> Any:
    return tvm_disc.build(mlp(hidden=512), options=tvm_disc.Options(threads=4))


@pytest.mark.parametrize("n", [0, 1, 13, 64, 1000])
def test_results_do_not_depend_on_the_threads(split: Any, n: int) -> None:
    x = matrix(n, 16)
    split.threads = 1
    expected = split(x)
    np.testing.assert_allclose(expected, mlp_reference(x, 512), rtol=1e-4, atol=1e-5)
    for threads in (2, 3, 4, 100):
        split.threads = threads
        assert split.threads == threads
        np.testing.assert_array_equal(split(x), expected)
    with pytest.raises(BadInput, match="threads: expected at least 1, found 0"):
        split.threads = 0
    split.threads = 4


def test_calls_are_active_while_they_run(split: Any) -> None:
    x, stop, seen = matrix(20_000, 16), threading.Event(), set()
    assert statistics()["active"] == 0

    def work() -> None:
        while not stop.is_set():
            split(x)

    callers = [threading.Thread(target=work) for _ in range(2)]
    for caller in callers:
        caller.start()
    deadline = time.monotonic() + 60
    while not {1, 2} <= seen and time.monotonic() < deadline:
        seen.add(statistics()["active"])
    stop.set()
    for caller in callers:
        caller.join()
    assert {1, 2} <= seen <= {0, 1, 2}
    assert statistics()["active"] == 0


def test_a_refused_call_is_no_longer_active(split: Any) -> None:
    x = matrix(2000, 16)
    for out in (np.empty((2000, 9), "float32"), np.empty((10, 2000), "float32").T):
        with pytest.raises(BadInput):
            split(x, out=out)
    assert statistics()["active"] == 0
    split(x)
    assert statistics()["active"] == 0


def test_calls_release_the_interpreter(net: Any) -> None:
    """While one thread computes, another runs Python."""
    x = matrix(150_000, 16)
    out = np.empty((150_000, 10), "float32")
    net(x, out=out)
    done = threading.Event()
    counted = 0

    def compute() -> None:
        net(x, out=out)
        done.set()

    worker = threading.Thread(target=compute)
    # A thread that waits for the interpreter gets it every so often: never, if this long passes.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        worker.start()
        while not done.wait(1e-4):
            counted += 1
    finally:
        sys.setswitchinterval(interval)
    worker.join()
    assert counted >= 3
