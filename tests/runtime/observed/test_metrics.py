"""``Executable.metrics``: counters of calls, and the forms in which Prometheus reads them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import mlp
from tvm_disc.errors import BadInput
from tvm_disc.runtime.observed.metrics import BUCKETS

SIZES = (0, 1, 7, 64, 331)


@pytest.fixture(scope="module")
def exe() -> Any:
    return tvm_disc.build(mlp())


def value(text: str, name: str, **labels: str) -> float:
    """The value of one line; labels in the order of the text."""
    wanted = ",".join(f'{k}="{v}"' for k, v in labels.items())
    (found,) = re.findall(rf"^{re.escape(name)}{{{re.escape(wanted)}}} (\S+)$", text, re.MULTILINE)
    return float(found)


def test_calls_are_counted_on_every_shape(exe: Any, rng: np.random.Generator) -> None:
    given = [rng.standard_normal((n, 16)).astype("float32") for n in SIZES]
    expected = [exe(x) for x in given]
    with exe.metrics("mlp", sample=2) as metrics:
        for x, y in zip(given, expected, strict=True):
            np.testing.assert_array_equal(exe(x), y)  # also in the calls that are timed
    exe(given[0])  # after the block
    assert metrics.calls == len(SIZES) and 0 < metrics.seconds < 60
    text = metrics.text()
    assert value(text, "tvm_disc_call_seconds_count", program="mlp") == len(SIZES)
    assert value(text, "tvm_disc_call_seconds_bucket", program="mlp", le="+Inf") == len(SIZES)
    assert value(text, "tvm_disc_call_seconds_sum", program="mlp") == pytest.approx(metrics.seconds)
    # Calls 0, 2 and 4 were timed; each launches every kernel once.
    assert sum(metrics.variants.values()) == 3 * len(exe.launches)
    assert {kernel for kernel, _ in metrics.variants} == set(exe.launches)


def test_buckets_are_cumulative(exe: Any) -> None:
    with exe.metrics() as metrics:
        for _ in range(50):
            exe(np.zeros((3, 16), "float32"))
    counts = [
        value(metrics.text(), "tvm_disc_call_seconds_bucket", program="program", le=f"{b:.12g}")
        for b in BUCKETS
    ]
    assert counts == sorted(counts) and counts[-1] == 50 and list(BUCKETS) == sorted(BUCKETS)


def test_no_call_is_sampled(exe: Any) -> None:
    with exe.metrics(sample=0) as metrics:
        exe(np.zeros((3, 16), "float32"))
    assert metrics.calls == 1 and metrics.variants == {}


def test_calls_that_raise_do_not_count(exe: Any) -> None:
    with exe.metrics() as metrics, pytest.raises(BadInput):
        exe(np.zeros((3, 5), "float32"))
    assert metrics.calls == 0


def test_memory_of_the_program(exe: Any) -> None:
    with exe.metrics("mlp") as metrics:
        exe(np.zeros((331, 16), "float32"))
    found = exe.memory_statistics()
    text = metrics.text()
    kept = value(text, "tvm_disc_workspace_kept_bytes", program="mlp")
    requests = value(text, "tvm_disc_workspace_requests_total", program="mlp")
    assert (kept, requests) == (found["kept"], found["requests"])


def test_labels_are_escaped(exe: Any) -> None:
    with exe.metrics('a"b\\c\nd') as metrics:
        pass
    assert 'program="a\\"b\\\\c\\nd"' in metrics.text()


def test_threads_lose_no_call(exe: Any) -> None:
    x = np.zeros((7, 16), "float32")
    with exe.metrics(sample=3) as metrics, ThreadPoolExecutor(4) as pool:
        list(pool.map(exe, [x] * 2000))
    assert metrics.calls == 2000


def test_the_client_of_prometheus_reads_it(exe: Any) -> None:
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    with exe.metrics("mlp", sample=1) as metrics:
        registry.register(metrics)
        exe(np.zeros((7, 16), "float32"))
    text = client.generate_latest(registry).decode()
    for name, labels in (
        ("tvm_disc_call_seconds_count", {}),
        ("tvm_disc_call_seconds_bucket", {"le": "+Inf"}),
    ):
        assert registry.get_sample_value(name, {"program": "mlp", **labels}) == 1
    assert "# TYPE tvm_disc_variant_calls_total counter" in text
    parser = pytest.importorskip("prometheus_client.parser")
    families = parser.text_string_to_metric_families(metrics.text())
    parsed = {f.name: f.type for f in families}
    assert parsed["tvm_disc_call_seconds"] == "histogram"
    assert parsed["tvm_disc_workspace_kept_bytes"] == "gauge"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "metrics: name: expected a nonempty string, found ''"),
        ({"name": 5}, "metrics: name: expected a nonempty string, found 5"),
        ({"sample": -1}, "sample: expected at least 0, found -1"),
        ({"sample": "x"}, "sample: expected an integer, found str 'x'"),
    ],
)
def test_bad_arguments(exe: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        exe.metrics(**arguments)
