"""Programs of one kernel; the dispatch benchmark measures all their variants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc import Options, relay
from tvm_disc.abi.blas import expose
from tvm_disc.codegen.machine import context_of
from tvm_disc.compile import prepare
from tvm_disc.schedules.dispatch.sampling import spread
from tvm_disc.schedules.dispatch.signature import template_hash
from tvm_disc.support.debug import Trace
from tvm_disc.tuning.tune import Task, tasks_of

LENGTHS = (5, 24, 43, 62, 81, 100, 119, 128)


def _input(*dims: Any) -> Any:
    return relay.var("x", shape=dims, dtype="float32")


def _dense(n: int, k: int) -> Any:
    x = _input(relay.Any(), k)
    weight = np.random.default_rng(0).uniform(-1, 1, (n, k)).astype("float32")
    return relay.Function([x], relay.nn.dense(x, relay.const(weight)))


def _batch_matmul(transposed: bool) -> Any:
    t = relay.Any("t")
    x = relay.var("x", shape=(192, t, 64 if transposed else t), dtype="float32")
    y = relay.var("y", shape=(192, t, 64), dtype="float32")
    return relay.Function([x, y], relay.nn.batch_matmul(x, y, transpose_b=transposed))


def _softmax() -> Any:
    x = _input(relay.Any(), relay.Any())
    return relay.Function([x], relay.nn.softmax(x))


def _short_rows(reduced: str) -> Any:
    x = _input(relay.Any(), relay.Any())
    if reduced == "sum":
        return relay.Function([x], relay.sum(x, axis=-1))
    mean = relay.mean(relay.multiply(x, x), axis=-1, keepdims=True)
    return relay.Function([x], relay.multiply(x, relay.rsqrt(mean)))


def _layer_norm() -> Any:
    x = _input(relay.Any(), 768)
    scale, shift = (relay.const(np.ones(768, "float32")) for _ in range(2))
    return relay.Function([x], relay.nn.layer_norm(x, scale, shift))


def _attention() -> Any:
    q, k, v = (
        relay.var(name, shape=(relay.Any("b"), relay.Any("s"), 64), dtype="float32")
        for name in "qkv"
    )
    scores = relay.multiply(
        relay.nn.batch_matmul(q, k, transpose_b=True), relay.const(np.float32(0.125))
    )
    return relay.Function(
        [q, k, v], relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    )


def _matmul(transposed: bool = False) -> Any:
    x, y = (
        relay.var(name, shape=(relay.Any(), relay.Any()), dtype="float32") for name in ("x", "y")
    )
    return relay.Function([x, y], relay.nn.matmul(x, y, transpose_b=transposed))


def _transpose() -> Any:
    x = _input(relay.Any(), relay.Any(), 64)
    return relay.Function([x], relay.transpose(x, (2, 0, 1)))


def _conv(ins: int, outs: int, kernel: int, stride: int) -> Any:
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("h"), relay.Any("w"), ins), dtype="float32")
    weight = np.random.default_rng(0).uniform(-1, 1, (outs, ins, kernel, kernel))
    y = relay.nn.conv2d(
        x, relay.const(weight.astype("float32")), strides=(stride,) * 2, padding=(kernel // 2,) * 2,
        channels=outs, kernel_size=(kernel,) * 2, data_layout="NHWC", kernel_layout="OIHW",
    )  # fmt: skip
    return relay.Function([x], y)


@dataclass(frozen=True)
class Case:
    """A program of one kernel, and the range of its dims."""

    name: str
    make: Callable[[], Any]
    high: tuple[int, ...]
    listed: tuple[tuple[int, ...], ...] = ()

    def regular_points(self, count: int) -> list[tuple[int, ...]]:
        """Return dims of a Halton sequence over the whole range, log-uniform."""
        high = np.array(self.high, np.float64)
        drawn = spread(np.ones_like(high), high, 4 * count).astype(int)
        return list(dict.fromkeys(tuple(row) for row in drawn.tolist()))[:count]

    def random_points(self, count: int, seed: int) -> list[tuple[int, ...]]:
        """Return random dims over the whole range, log-uniform."""
        rng = np.random.default_rng(seed)
        draws = np.exp(rng.uniform(0, np.log(np.array(self.high) + 1), (4 * count, len(self.high))))
        unique = dict.fromkeys(tuple(int(v) for v in row) for row in draws)
        return list(unique)[:count]


_ROWS = tuple((16 * t,) for t in LENGTHS)
_SQUARE = tuple((t,) for t in LENGTHS)
CASES = (
    Case("dense 768x2304", lambda: _dense(2304, 768), (2048,), _ROWS),
    Case("dense 768x768", lambda: _dense(768, 768), (2048,), _ROWS),
    Case("dense 3072x768", lambda: _dense(768, 3072), (2048,), _ROWS),
    Case("dense 768x3072", lambda: _dense(3072, 768), (2048,), _ROWS),
    Case("batch matmul TxT", lambda: _batch_matmul(True), (160,), _SQUARE),
    Case("batch matmul Tx64", lambda: _batch_matmul(False), (160,), _SQUARE),
    Case("matmul", _matmul, (768, 768, 768)),
    Case("matmul of B transposed", lambda: _matmul(True), (768, 768, 768)),
    Case("attention", _attention, (96, 512)),
    Case("softmax", _softmax, (2048, 2048)),
    Case("sum of short rows", lambda: _short_rows("sum"), (4096, 64)),
    Case("rms norm of short rows", lambda: _short_rows("norm"), (4096, 64)),
    Case("layer norm 768", _layer_norm, (4096,)),
    Case("transpose", _transpose, (256, 256)),
    Case("conv 3x3, 64 to 64", lambda: _conv(64, 64, 3, 1), (4, 64, 64)),
    Case("conv 3x3 by 2, 128 to 128", lambda: _conv(128, 128, 3, 2), (4, 64, 64)),
    Case("conv 7x7 by 2, 3 to 64", lambda: _conv(3, 64, 7, 2), (4, 128, 128)),
)


@dataclass
class Prepared:
    """A case's kernel: its group, its variants, and the two sets of shapes."""

    case: Case
    front: Any
    task: Task
    held: list[tuple[int, ...]]

    def library(self, folder: Path) -> Path:
        """Return the path of the compiled variants, which contains a hash of all that they
        depend on.
        """
        of = (self.case.name, template_hash(), asdict(context_of(self.front.target)))
        variants = [v.key for v in self.task.variants]
        digest = hashlib.sha256(repr((of, variants)).encode()).hexdigest()[:12]
        return folder / "lib" / f"{self.case.name.replace(' ', '_')}-{digest}.so"

    @staticmethod
    def of(case: Case, tune_points: int, held_points: int) -> Prepared | None:
        """Run the compiler on a case up to the planning of its kernel.

        Returns None if the kernel has a single variant, which may depend on the number of threads.
        """
        front = prepare(case.make(), None, None, (), Options(), Trace(0, None))
        tasks = tasks_of(front, (), expose())
        if not tasks:
            return None
        [task] = tasks
        tune_points *= 2 ** (len(case.high) - 1)  # more dims are a larger space
        listed = list(case.listed)
        drawn = case.random_points(tune_points + held_points, 1)
        held = [*listed, *[p for p in drawn[tune_points:] if p not in listed]]
        regular = [p for p in case.regular_points(tune_points) if p not in held]
        task.points = list(dict.fromkeys([case.high, *regular]))
        return Prepared(case, front, task, held)
