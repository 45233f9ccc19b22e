"""Counters of a program's calls, in the forms that Prometheus reads."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from tvm_disc.abi.manifest import Manifest
from tvm_disc.abi.record import COUNT, ROOM
from tvm_disc.errors import BadInput, shown
from tvm_disc.runtime.inputs import MOST, integer, refuse_device
from tvm_disc.runtime.observed.entries import Main
from tvm_disc.runtime.observed.shape_log import Observed
from tvm_disc.runtime.profile import Event, new_record

# Upper bounds of the histogram, in seconds: three for each power of ten.
BUCKETS = (*(float(f"{m}e{e}") for e in range(-6, 1) for m in (1, 2, 5)), 10.0)


class MetricSample(NamedTuple):
    """One value; fields as in ``prometheus_client.samples.Sample``."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None = None
    exemplar: None = None
    native_histogram: None = None


@dataclass
class MetricFamily:
    """The values of one metric; fields as in ``prometheus_client.metrics_core.Metric``."""

    name: str
    documentation: str
    type: str
    samples: list[MetricSample] = field(default_factory=list)
    unit: str = ""


class Metrics:
    """Counts the calls of a program between ``with`` and the end of its block.

    Examples:
        >>> with exe.metrics("bert") as metrics:
        ...     prometheus_client.REGISTRY.register(metrics)  # or serve metrics.text()
        ...     serve(exe)
    """

    def __init__(
        self,
        observed: Observed,
        manifest: Manifest,
        name: str,
        sample: int,
        memory: Callable[[], Mapping[str, int]],
        read: Callable[[np.ndarray], tuple[list[Event], int]],
    ) -> None:
        refuse_device("metrics", manifest)
        if not isinstance(name, str) or not name:
            raise BadInput(f"metrics: name: expected a nonempty string, found {shown(name)}")
        self.name, self.sample = name, integer("sample", sample, 0, MOST)
        self._observed, self._memory, self._read = observed, memory, read
        self._inputs = len(manifest["inputs"])
        self._room = max(64, 4 * len(manifest["launches"]))  # capacity of a record, in events
        self._lock, self._stack = Lock(), ExitStack()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._seconds, self._calls = 0.0, 0
        self._variants: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Metrics:
        self._stack.enter_context(self._observed(self._counting))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def calls(self) -> int:
        """The number of calls so far; calls that raise are not counted."""
        return self._calls

    @property
    def seconds(self) -> float:
        """The sum of the times of the calls so far, without calls that raise."""
        return self._seconds

    @property
    def variants(self) -> dict[tuple[str, str], int]:
        """The number of launches by (kernel, variant) in the sampled calls of the program."""
        with self._lock:
            return dict(self._variants)

    def _counting(self, main: Main) -> Main:
        def call(*args: object) -> Any:
            record = None
            if self.sample and self._calls % self.sample == 0 and len(args) == self._inputs:
                record = new_record(self._room)
                args = (*args, record.ctypes.data)
            start = time.perf_counter()
            result = main(*args)
            seconds = time.perf_counter() - start
            chosen = () if record is None else self._chosen(record)
            with self._lock:
                self._counts[bisect_left(BUCKETS, seconds)] += 1
                self._seconds += seconds
                self._calls += 1
                self._variants.update(chosen)
            return result

        return call

    def _chosen(self, record: np.ndarray) -> Sequence[tuple[str, str]]:
        if record[COUNT] > record[ROOM]:  # a loop ran more kernels than the record holds
            self._room = 2 * int(record[COUNT])
            return ()
        return [(e.kernel, e.variant) for e in self._read(record)[0]]

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the metrics; ``prometheus_client`` calls this method of a registered collector."""
        own = {"program": self.name}
        with self._lock:
            counts, seconds = list(self._counts), self._seconds
            variants = sorted(self._variants.items())
        name = "tvm_disc_call_seconds"
        times = MetricFamily(name, "Time of a call inside the program.", "histogram")
        total = 0
        for bound, count in zip((*map(_number, BUCKETS), "+Inf"), counts, strict=True):
            total += count
            times.samples.append(MetricSample(f"{name}_bucket", {**own, "le": bound}, total))
        times.samples.append(MetricSample(f"{name}_count", own, total))
        times.samples.append(MetricSample(f"{name}_sum", own, seconds))
        yield times
        name = "tvm_disc_variant_calls"
        chosen = MetricFamily(name, "Kernel calls by variant, in sampled calls.", "counter")
        chosen.samples += [
            MetricSample(f"{name}_total", {**own, "kernel": kernel, "variant": variant}, count)
            for (kernel, variant), count in variants
        ]
        yield chosen
        memory = self._memory()
        for key, said, kind in (
            ("kept", "Bytes of idle workspaces.", "gauge"),
            ("results", "Bytes of freed results that are kept.", "gauge"),
            ("requests", "Workspaces requested.", "counter"),
            ("misses", "Workspaces that were allocated.", "counter"),
        ):
            name = f"tvm_disc_workspace_{key}" + ("_bytes" if kind == "gauge" else "")
            suffix = "_total" if kind == "counter" else ""
            yield MetricFamily(name, said, kind, [MetricSample(name + suffix, own, memory[key])])

    def text(self) -> str:
        """Return the metrics in Prometheus' text format, for an HTTP answer."""
        lines = []
        for family in self.collect():
            name = family.name + ("_total" if family.type == "counter" else "")
            lines += [f"# HELP {name} {family.documentation}", f"# TYPE {name} {family.type}"]
            for sample in family.samples:
                labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in sample.labels.items())
                lines.append(f"{sample.name}{{{labels}}} {_number(sample.value)}")
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


__all__ = ["BUCKETS", "MetricFamily", "MetricSample", "Metrics"]
