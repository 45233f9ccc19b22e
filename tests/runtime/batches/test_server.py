"""The example ``examples/ragged_server.py``: results, batches, errors and the log."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, GuardFailed

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "ragged_server.py"
LENGTHS = (1, 40, 3, 1, 97, 2, 13, 300)


@cache
def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("ragged_server", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ragged_server"] = module
    spec.loader.exec_module(module)
    return module


@cache
def programs() -> tuple[Any, Any]:
    """The encoder as a ragged and as a padded program."""
    model = example().encoder()
    return tvm_disc.build(model, ragged={"ids": 1}), tvm_disc.build(model)


class Held:
    """A program whose first call waits until ``go``, so that requests gather meanwhile."""

    def __init__(self, exe: Any) -> None:
        self.exe, self.go, self.begun, self.sizes = exe, threading.Event(), threading.Event(), []
        self.sizes: list[int] = []

    def __call__(self, **given: Any) -> Any:
        self.sizes.append(len(next(iter(given.values()))))
        self.begun.set()
        assert self.go.wait(60)
        return self.exe(**given)


@pytest.fixture
def held() -> Iterator[Held]:
    """The encoder, which waits in its first call."""
    program = Held(programs()[0])
    yield program
    program.go.set()


def requests(seed: int = 0) -> list[np.ndarray]:
    """Token ids of each length."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, n) for n in LENGTHS]


def check(ids: list[np.ndarray], results: list[Future[Any]]) -> None:
    """Compare with calls one by one."""
    for item, result in zip(ids, results, strict=True):
        wanted = programs()[1](item[None])[0]
        np.testing.assert_allclose(result.result(60), wanted, 1e-5, 1e-5)


def test_requests_that_wait_are_one_call(held: Held) -> None:
    ids = requests()
    with example().Server(held) as server:
        first = server.submit(ids=ids[0])
        assert held.begun.wait(60)
        others = [server.submit(ids=x) for x in ids[1:]]
        held.go.set()
        check(ids, [first, *others])
    assert held.sizes == [1, len(ids) - 1]
    assert [batch[:2] for batch in server.log.batches] == [(1, 1), (7, sum(LENGTHS[1:]))]
    assert len(server.log.latencies) == len(ids)
    assert server.log.line().startswith("8 requests in 2 calls, ")


def test_a_call_has_a_limited_number_of_rows_and_requests(held: Held) -> None:
    ids = requests(1)
    with example().Server(held, most_rows=100, most_items=3) as server:
        first = server.submit(ids=ids[0])
        assert held.begun.wait(60)
        others = [server.submit(ids=x) for x in ids[1:]]
        held.go.set()
        check(ids, [first, *others])
    # 40 + 3 + 1; 97 + 2; 13; 300, which is longer than the limit
    assert held.sizes == [1, 3, 2, 1, 1]


def test_a_bad_request_does_not_fail_those_beside_it(held: Held) -> None:
    ids = requests(2)
    with example().Server(held) as server:
        first = server.submit(ids=ids[0])
        assert held.begun.wait(60)
        bad = server.submit(ids=np.asarray([1, 1000]))
        odd = server.submit(ids=np.zeros((2, 2, 2), np.int64))
        unknown = server.submit(words=ids[0])
        others = [server.submit(ids=x) for x in ids[1:]]
        held.go.set()
        check(ids, [first, *others])
    with pytest.raises(GuardFailed, match="the ids: expected 0 <= index < 1000, found 1000"):
        bad.result(60)
    for result, message in ((odd, "input 'ids'"), (unknown, "words")):
        with pytest.raises(BadInput, match=message):
            result.result(60)


def test_cancelled_requests_are_not_computed(held: Held) -> None:
    ids = requests(3)
    with example().Server(held) as server:
        first = server.submit(ids=ids[0])
        assert held.begun.wait(60)
        cancelled, kept = server.submit(ids=ids[1]), server.submit(ids=ids[2])
        assert cancelled.cancel()
        held.go.set()
        check([ids[0], ids[2]], [first, kept])
    assert held.sizes == [1, 1]


def test_many_clients() -> None:
    def client(seed: int) -> None:
        for item in requests(seed):
            wanted = programs()[1](item[None])[0]
            found = server.submit(ids=item).result(60)
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
        done.append(seed)

    done: list[int] = []
    with example().Server(programs()[0]) as server:
        threads = [threading.Thread(target=client, args=[k]) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == list(range(6))
    assert sum(batch[0] for batch in server.log.batches) == 6 * len(LENGTHS)


def test_several_results_of_a_request() -> None:
    x = rows("b", "s", 4)
    out = relay.Tuple([relay.exp(x), relay.sum(x, axis=1)])
    exe = tvm_disc.build(function(x, out), ragged={"x": 1})
    item = np.arange(12, dtype="float32").reshape(3, 4)
    with example().Server(exe) as server:
        powers, total = server.submit(x=item).result(60)
    np.testing.assert_allclose(powers, np.exp(item), 1e-5)
    np.testing.assert_allclose(total, item.sum(0))


def test_a_closed_server_refuses_requests() -> None:
    server = example().Server(programs()[0])
    last = server.submit(ids=np.asarray([5]))
    server.close()
    assert last.result(0).shape == (64,)
    with pytest.raises(RuntimeError, match="the server is closed"):
        server.submit(ids=np.asarray([5]))
    server.close()
    assert example().Log().line() == "no requests"


def test_the_example_runs() -> None:
    command = [sys.executable, str(EXAMPLE), "--clients", "3", "--requests", "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("120 requests in ")
