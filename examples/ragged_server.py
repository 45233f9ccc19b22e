"""A server that runs all waiting requests as one batch, without padding.

    python examples/ragged_server.py                     # a small encoder, random requests
    python examples/ragged_server.py encoder.onnx --input ids --input mask

Clients call ``submit`` from any thread, which appends the request to a queue. One thread takes all
requests from the queue, up to a number of rows, and runs them in one call of a ragged program
(docs/ragged.md). It never waits for further requests to fill a batch.
"""

from __future__ import annotations

import argparse
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import relay

Request = Mapping[str, np.ndarray]  # the arrays of one item, by input


@dataclass
class _Waiting:
    """A request in the queue, with its future result."""

    request: Request
    rows: int
    result: Future[Any]
    since: float


@dataclass
class Log:
    """The calls and latencies of a server.

    Attributes:
        batches: (requests, rows, seconds of the call) of each call.
        latencies: seconds from the arrival of each request to its result.
    """

    batches: list[tuple[int, int, float]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Return the throughput and the latency so far."""
        if not self.batches:
            return "no requests"
        requests, rows, busy = (sum(column) for column in zip(*self.batches, strict=True))
        middle, late = (1e3 * float(np.percentile(self.latencies, p)) for p in (50, 95))
        return (
            f"{requests} requests in {len(self.batches)} calls, {requests / busy:.1f} requests/s, "
            f"{rows / busy:.0f} rows/s, latency {middle:.2f} ms (median), {late:.2f} ms (95 %)"
        )


class Server:
    """A queue of requests, and a thread that runs them in calls of a ragged program.

    Args:
        exe: a program that was built with ``ragged=``; each request has one item of each input.
        most_rows: the largest number of rows of a call. A longer request runs alone.
        most_items: the largest number of requests of a call.
        report: called with the log after each call.

    The result of a request is a copy: an array, or a tuple of arrays. It does not depend on the
    other requests of the call.
    """

    def __init__(
        self,
        exe: tvm_disc.Executable,
        most_rows: int = 4096,
        most_items: int = 64,
        report: Callable[[Log], None] = lambda log: None,
    ) -> None:
        self.exe, self.most_rows, self.most_items = exe, most_rows, most_items
        self.log, self.report = Log(), report
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._next: _Waiting | None = None  # a request that did not fit into the last call
        self._guard, self._closed = threading.Lock(), False
        self._thread = threading.Thread(target=self._work, name="ragged server", daemon=True)
        self._thread.start()

    def submit(self, **request: np.ndarray) -> Future[Any]:
        """Return the future result of one request; raises RuntimeError after :meth:`close`."""
        rows = max((len(x) for x in request.values()), default=0)
        waiting = _Waiting(request, rows, Future(), time.perf_counter())
        with self._guard:
            if self._closed:
                raise RuntimeError("the server is closed")
            self._waiting.put(waiting)
        return waiting.result

    def close(self) -> None:
        """Run the requests in the queue, then stop the thread."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while batch := self._take():
            self._run(batch)

    def _take(self) -> list[_Waiting]:
        """Wait for a request; return all in the queue, or an empty list after ``close``."""
        first = self._next or self._waiting.get()
        self._next = None
        batch: list[_Waiting] = []
        rows = 0
        while first is not None:
            rows += first.rows
            if batch and (rows > self.most_rows or len(batch) == self.most_items):
                self._next = first
                return batch
            if first.result.set_running_or_notify_cancel():
                batch.append(first)
            else:
                rows -= first.rows
            try:
                # The batch is empty if its requests were cancelled; then wait for the next one.
                first = self._waiting.get(block=not batch)
            except queue.Empty:
                return batch
        self._waiting.put(None)  # so that the next call of _take returns an empty list
        return batch

    def _run(self, batch: Sequence[_Waiting]) -> None:
        """Compute a batch. If the program refuses it, each request is tried alone."""
        start = time.perf_counter()
        try:
            results = self._call([w.request for w in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
            else:
                for waiting in batch:
                    self._run([waiting])
            return
        end = time.perf_counter()
        self.log.batches.append((len(batch), sum(w.rows for w in batch), end - start))
        self.log.latencies += [end - w.since for w in batch]
        for waiting, result in zip(batch, results, strict=True):
            waiting.result.set_result(result)
        self.report(self.log)

    def _call(self, requests: Sequence[Request]) -> list[Any]:
        """Return the result of each request, from one call."""
        names = dict.fromkeys(name for request in requests for name in request)
        out = self.exe(**{name: [request[name] for request in requests] for name in names})
        if isinstance(out, tuple):
            return [tuple(np.array(part[k]) for part in out) for k in range(len(requests))]
        return [np.array(out[k]) for k in range(len(requests))]


def encoder(words: int = 1000, width: int = 64, heads: int = 4) -> relay.Function:
    """Return an attention layer over ``ids[b, s]``, and the mean of its rows."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return relay.const((rng.standard_normal(shape) / shape[-1] ** 0.5).astype("float32"))

    def split(x: Any) -> Any:
        """Return ``x[b, s, width]`` as ``[b * heads, s, width / heads]``."""
        parts = relay.reshape(x, (0, 0, heads, width // heads))
        return relay.reshape(relay.transpose(parts, (0, 2, 1, 3)), (-3, 0, 0))

    ids = relay.var("ids", shape=(relay.Any("b"), relay.Any("s")), dtype="int64")
    limits = relay.const(np.int64(0)), relay.const(np.int64(words))
    known = relay.assert_inside(ids, *limits, what="the ids")
    rows = relay.take(weight(words, width), known, axis=0)
    q, k, v = (split(relay.nn.dense(rows, weight(width, width))) for _ in range(3))
    scale = relay.const(np.float32((width // heads) ** -0.5))
    weights = relay.nn.softmax(relay.nn.batch_matmul(q, k) * scale)
    mixed = relay.nn.batch_matmul(weights, relay.transpose(v, (0, 2, 1)))
    joined = relay.transpose(relay.reshape(mixed, (-4, -1, heads, 0, 0)), (0, 2, 1, 3))
    return relay.Function([ids], relay.mean(rows + relay.reshape(joined, (0, 0, width)), axis=1))


def main() -> None:
    """Serve random requests of several clients, and print the log."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", help="an ONNX model; a small encoder by default")
    parser.add_argument("--input", action="append", help="a ragged input of the model")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=50, help="of each client")
    args = parser.parse_args()
    inputs = args.input or ["ids"]
    exe = tvm_disc.build(args.model or encoder(), ragged=dict.fromkeys(inputs, 1))

    def client(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(args.requests):
            length = int(np.clip(rng.lognormal(3.7, 0.8), 1, 512))
            # The first input holds token ids, the others are masks of ones.
            given = {name: np.ones(length, np.int64) for name in inputs}
            given[inputs[0]] = rng.integers(0, 1000, length)
            server.submit(**given).result()

    def report(log: Log) -> None:
        if len(log.batches) % 50 == 0:
            print(log.line())

    with Server(exe, report=report) as server:
        clients = [threading.Thread(target=client, args=[k]) for k in range(args.clients)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
    print(server.log.line())


if __name__ == "__main__":
    main()
