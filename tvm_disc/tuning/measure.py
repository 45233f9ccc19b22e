"""Times variants in rounds, each of which times all variants, so that noise affects all equally."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvm_disc.abi.blas import expose
from tvm_disc.codegen.threads.module import home_of_process
from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.dispatch.variant import Layout, Variant
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.schedules.packing import Packing, pack_constant
from tvm_disc.tir.builder import i64, storage_dtype
from tvm_disc.tuning.core_contention import CROWDED, STOLEN, Host, Wait
from tvm_disc.tuning.entry import Bench, has_workers, require_machine, use_workers
from tvm_disc.typing import Device, Expr, RuntimeTensor, Var

LONG_NS = 5e6  # time in nanoseconds from which a call counts as long
LONG_ROUNDS = 12  # rounds of long calls; clearly slower variants are dropped earlier
POLISH = 4  # iterations until the medians of rounds and of variants converge
# standard error of a median: this factor times the interquartile range over sqrt(n)
ERROR_OF_MEDIAN = 0.93
# a variant is dropped after FIRST_CUT rounds if it is slower by the ratio CLEARLY and by SURE
# standard errors
FIRST_CUT, CLEARLY, SURE = 3, 1.15, 4.0
HOPELESS_AGAIN = 2  # extra rounds before a slow variant is dropped
# An excess of a threaded time over the serial time, in ns and as a share, that waking threads and
# sharing caches cannot cause.
LATE_NS, LATE_SHARE = 1e4, 0.1


@dataclass(frozen=True)
class Effort:
    """How much effort is spent on measuring times.

    Attributes:
        rounds: number of rounds; each round times each variant once.
        round_ns: duration of a round of one variant, approximately.
        disagreement: rounds are added while the time of a variant that may be the best has a larger
            relative error.
        most_rounds, patience_s: largest number of rounds, and of seconds, at one point.
        hopeless: a variant slower than the best by this factor is dropped before the first round.
        quantile: quantile over rounds that is reported. Other processes only add time, so the lower
            quartile is closer to the undisturbed time than the median.
        pause_s: seconds of sleep before each round, so that it starts with a new time slice.
        wait_s: total seconds at one point that rounds wait until each thread has a core and the
            hypervisor takes no time.
        odd: how often points that do not fit the others are measured again at the end.
    """

    rounds: int = 8
    round_ns: float = 2.5e5
    disagreement: float = 0.01
    most_rounds: int = 40
    patience_s: float = 1.0
    hopeless: float = 2.0
    quantile: float = 0.25
    pause_s: float = 0.0002
    wait_s: float = 1.0
    odd: int = 2


@dataclass(frozen=True)
class Timing:
    """The times at a point.

    Attributes:
        ns: time of each variant; infinite if it must not run.
        crowding: time of the same work on all threads at once, divided by that on one thread.
        stolen: share of the cores' time that the hypervisor took.
    """

    ns: list[float]
    crowding: float = 1.0
    stolen: float = 0.0


class Session:
    """Loads a group's variants on one machine and times them.

    ``device`` and ``module`` are objects of TVM, local or of an RPC session. ``vendor``: whether
    the process that runs the code has a BLAS. ``local``: whether the code runs in this process.
    """

    def __init__(
        self,
        bench: Bench,
        module: Any,
        device: Device,
        vendor: bool = False,
        seed: int = 0,
        local: bool = False,
    ) -> None:
        self.bench, self.module, self.device, self.vendor = bench, module, device, vendor
        self.local = local
        if has_workers(bench.machine):
            if local:
                home_of_process()  # workers are owned by the process, and outlive the module
            use_workers(module)
        self.long = False  # whether a round is one call at this point
        self.rng = np.random.default_rng(seed)
        on_threads = any(v.run.parts > 1 for v in bench.variants)
        self.gauge = bench.gauge(module, device) if on_threads else None

    def time(self, dims: Sequence[int], effort: Effort) -> Timing:
        """Return the variants' times at one point."""
        symbols = self.bench.group.symbols()
        points = {s: np.float64(d) for s, d in zip(symbols, dims, strict=True)}
        same = self._same(points)
        allowed = [
            k
            for k, v in enumerate(self.bench.variants)
            if same[k] == k and may_run(v, points) and (self.vendor or not calls_vendor(v.plan))
        ]
        times = [float("inf")] * len(self.bench.variants)
        if not allowed:
            return Timing(times)
        self.long = False
        args = self.arguments(points)
        samples: dict[int, list[float]] = {k: [] for k in allowed}
        numbers = {k: self._number(k, args(k), dims, effort) for k in allowed}
        best = min(per_call for _, per_call in numbers.values())
        fewest = min(effort.rounds, LONG_ROUNDS) if best > LONG_NS else effort.rounds
        rounds, end = 0, time.monotonic() + effort.patience_s
        wait = Wait(self.gauge, effort.wait_s, Host() if self.local else None)
        beaten: list[tuple[int, int, float]] = []  # variant, a faster one, ratio of their times
        live = []
        for k, (number, each) in numbers.items():
            for _ in range(HOPELESS_AGAIN):
                # another process may have disturbed the first measurement
                if each > effort.hopeless * best:
                    each = min(each, self._round(k, args(k), dims, number, effort))
            if each <= effort.hopeless * best:
                live.append(k)
            else:
                samples[k].append(each)
        while live and rounds < effort.most_rounds:
            wait.until_calm()
            for k in live:
                samples[k].append(self._round(k, args(k), dims, numbers[k][0], effort))
            rounds += 1
            live = still_open(samples, live, beaten, effort)
            if rounds < fewest:
                continue
            if time.monotonic() > end + wait.waited_s or not _disagree(samples, live, effort):
                break
        for k, found in samples.items():
            times[k] = float(np.quantile(found, effort.quantile))
        if rounds:
            paired, _ = compare([samples[k] for k in live], effort.quantile)
            for k, value in zip(live, paired, strict=True):
                times[k] = value
        for k, better, factor in reversed(beaten):
            times[k] = times[better] * factor
        return Timing([times[k] for k in same], wait.crowding(), wait.stolen())

    def _same(self, points: Mapping[Any, Any]) -> list[int]:
        """Return for each variant the number of the first one that runs identically at this point.

        With a single task, threaded variants run like the serial one.
        """
        first: dict[tuple[str, int], int] = {}
        result = []
        for k, variant in enumerate(self.bench.variants):
            parts = variant.run.parts
            if parts > 1 and float(evaluate(i64(variant.plan.tasks), points)) <= 1:
                parts = 1
            result.append(first.setdefault((variant.plan.key, parts), k))
        return result

    def _round(
        self,
        k: int,
        args: Sequence[RuntimeTensor],
        dims: Sequence[int],
        number: int,
        effort: Effort,
    ) -> float:
        time.sleep(effort.pause_s)
        if self.gauge is not None and self.bench.variants[k].run.parts > 1:
            self.gauge.wake()
        return self._once(k, args, dims, number)

    def _once(self, k: int, args: Sequence[object], dims: Sequence[int], number: int) -> float:
        name = self.bench.names[k]
        if number == 1 and self.long:
            # TVM's timer would run the function once more as a warm-up.
            function, dims = self.module[name], [int(d) for d in dims]
            start = time.perf_counter()
            function(*args, *dims)
            return (time.perf_counter() - start) * 1e9
        evaluator = self.module.time_evaluator(name, self.device, number=number, repeat=1)
        return float(evaluator(*args, *map(int, dims)).mean) * 1e9

    def _number(
        self, k: int, args: Sequence[RuntimeTensor], dims: Sequence[int], effort: Effort
    ) -> tuple[int, float]:
        """Return (calls in a round, first estimate in nanoseconds)."""
        number, each = 1, self._once(k, args, dims, 1)
        self.long = self.long or each > LONG_NS
        while each * number < effort.round_ns / 8 and number < 1 << 16:
            number *= 8
            each = self._once(k, args, dims, number)
        return max(1, min(1 << 16, round(effort.round_ns / max(each, 1.0)))), each

    # -- operands ------------------------------------------------------------------------------

    def arguments(self, points: Mapping[Any, Any]) -> Any:
        """Return a function that maps a variant's number to its arguments; tensors are shared."""
        group = self.bench.group
        inputs = [self._input(p, points) for p in group.params]
        outputs = [self._empty(_elems(o, points), o.dtype) for o in group.outputs]
        sizes = [int(evaluate(i64(k.scratch_bytes), points)) for k in self.bench.kernels]
        scratch = self._empty(max([64, *sizes]), "uint8")
        packed: dict[tuple[Layout, int], object] = {}

        def tensors(k: int) -> list[Any]:
            kernel, result = self.bench.kernels[k], list(inputs)
            for position, param in enumerate(group.params):
                pack = kernel.packed.get(param)
                if pack is not None:
                    key = (self.bench.variants[k].plan.layout, position)
                    if key not in packed:
                        packed[key] = self._packed(param, pack)
                    result[position] = packed[key]
            return [*result, *outputs, scratch]

        return tensors

    def _input(self, node: Node, points: Mapping[Var, Expr]) -> object:
        elems = _elems(node, points)
        kind = np.dtype(storage_dtype(node.dtype))
        if kind.kind == "f":
            array = self.rng.uniform(0.1, 1.0, elems).astype(kind)
            return tvm.runtime.tensor(array, self.device)
        # Integers may be indices into an array of one element, so zeros are used.
        return self._empty(elems, node.dtype)

    def _packed(self, node: Node, pack: Packing) -> RuntimeTensor:
        shape = [int(evaluate(i64(d), {})) for d in node.shape]
        weight = tvm.runtime.empty(shape, node.dtype).numpy()  # NumPy alone lacks some of the types
        weight[...] = self.rng.uniform(0.1, 1.0, shape).astype(weight.dtype)
        array = pack_constant(pack, weight)
        return tvm.runtime.tensor(array.reshape(-1), self.device)

    def _empty(self, elems: int, dtype: str) -> object:
        return tvm.runtime.tensor(np.zeros(max(elems, 1), storage_dtype(dtype)), self.device)


def _elems(node: Node, points: Mapping[Var, Any]) -> int:
    total = 1.0
    for d in node.shape:
        total *= float(evaluate(i64(d), points))
    return int(total)


def may_run(variant: Variant, points: Mapping[Any, Any]) -> bool:
    """Return whether the conditions of a variant hold at a point."""
    try:
        return all(bool(n.at(points)) for n in variant.plan.needs)
    except Unsupported:
        return False


def compare(rounds: Sequence[Sequence[float]], quantile: float) -> tuple[list[float], list[float]]:
    """Return (times, relative errors) of variants; ``rounds`` has a row for each variant.

    A disturbance that slows down a complete round affects all variants equally, and is removed. The
    time of a variant is the median over rounds of its time relative to the level of the round,
    times the ``quantile`` of the levels of all rounds.
    """
    logs = np.log(np.asarray(rounds, np.float64))
    levels = np.zeros(logs.shape[1])
    for _ in range(POLISH):
        own = np.median(logs - levels, axis=1)
        levels = np.median(logs - own[:, None], axis=0)
    left = logs - own[:, None] - levels
    low, high = np.percentile(left, (25, 75), axis=1)
    errors = ERROR_OF_MEDIAN * (high - low) / np.sqrt(logs.shape[1])
    times = np.exp(own + np.quantile(levels, quantile))
    return times.tolist(), errors.tolist()


def disturbance(variants: Sequence[Variant], timing: Timing) -> float:
    """Return how much a measurement was disturbed: the largest of the core contention, the share of
    stolen time, and :func:`late_ns` divided by the best time; 0 if all are below their limits.

    Another process on a worker's core, or two threads on one physical core, delays every call that
    waits for the worker, and does so for seconds. More rounds at the same point cannot distinguish
    this from a slow variant.
    """
    crowded = timing.crowding - 1 if timing.crowding > CROWDED else 0.0
    stolen = timing.stolen if timing.stolen > STOLEN else 0.0
    late = late_ns(variants, timing.ns)
    return max(crowded, stolen, late / min(timing.ns) if late else 0.0)


def late_ns(variants: Sequence[Variant], times: Sequence[float]) -> float:
    """Return the largest excess, in nanoseconds, of a threaded time over ``1 + LATE_SHARE`` times
    the serial time of its plan; 0 if it is at most ``LATE_NS``.
    """
    alone = {v.plan.key: t for v, t in zip(variants, times, strict=True) if v.run.parts == 1}
    most = 0.0
    for variant, ns in zip(variants, times, strict=True):
        serial = alone.get(variant.plan.key, np.inf)
        if np.isfinite(ns) and np.isfinite(serial):
            most = max(most, ns - serial * (1 + LATE_SHARE))
    return most if most > LATE_NS else 0.0


def still_open(
    samples: Mapping[int, list[float]],
    live: list[int],
    beaten: list[tuple[int, int, float]],
    effort: Effort,
) -> list[int]:
    """Return the variants that may still be the best; the others are appended to ``beaten``.

    Successive elimination (Even-Dar et al. 2006): rounds are spent on the variants that are not yet
    known to be slower.
    """
    if len(samples[live[0]]) < FIRST_CUT or len(live) == 1:
        return live
    times, errors = compare([samples[k] for k in live], effort.quantile)
    best = int(np.argmin(times))
    left = []
    for k, ns, error in zip(live, times, errors, strict=True):
        factor = ns / times[best]
        if factor > CLEARLY and factor > 1 + SURE * (error + errors[best]):
            beaten.append((k, live[best], factor))
        else:
            left.append(k)
    return left


def _disagree(samples: Mapping[int, list[float]], live: Sequence[int], effort: Effort) -> bool:
    """Return whether the times of the possibly best variants are still too uncertain."""
    times, errors = compare([samples[k] for k in live], effort.quantile)
    near = 1.1 * min(times)
    return any(e > effort.disagreement for t, e in zip(times, errors, strict=True) if t < near)


def local_session(bench: Bench) -> Session:
    """Return a session that measures in this process.

    Raises:
        WrongProcessor: this machine cannot run the code.
    """
    require_machine(bench.target, None)
    return Session(bench, bench.module, tvm.cpu(0), vendor=expose(), local=True)
