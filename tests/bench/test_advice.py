"""The sentences, charts and cliffs of a report, from made-up measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.html_page import Page
from tvm_disc.bench.compare import OURS, ComparisonRow, Engine
from tvm_disc.bench.page.advice import advice, duration, findings, least_us, verdict
from tvm_disc.bench.page.chart import ChartAxis, Series, chart, log_ticks
from tvm_disc.bench.page.cliffs import Cliff, cliffs_over
from tvm_disc.bench.page.curves import Curve, Measured, key_of
from tvm_disc.runtime.decisions import chosen
from tvm_disc.runtime.peaks import Peaks, Reads
from tvm_disc.runtime.profile import Event, Profile

PEAKS = Peaks("cpu", 2, 100.0, 200.0, [Reads(1 << 40, 10.0, 20.0)])
LEAF = {"run": {"family": "gemm", "knobs": {"m_r": 6}}}
OTHER = {"run": {"family": "gemm", "knobs": {"m_r": 8}}}
TREE = {"if": "n * 2", "below": 22, "then": LEAF, "else": OTHER}
MANIFEST: dict[str, Any] = {
    "model": "m.onnx",
    "inputs": [("x", ("n",), "float32")],
    "results": [],
    "workspace_bytes": "n * 1024",
    "kernels": [{"name": "dot_0", "ops": ["matmul", "add"], "choice": TREE}],
    "refused": ["add, and dot_0: dims differ"],
    "shapes": "symbols\n  n   [1, 100]   input 'x' axis 0\n",
}


def profile(us: float, flops: int = 0, size: int = 0, around_us: float = 0.0) -> Profile:
    """One call of one kernel on one thread."""
    ns = int(1000 * us)
    event = Event("dot_0", "dot", "gemm(m_r=6)", 0, ns, size, flops)
    whole = ns + int(1000 * around_us)
    return Profile([[event]], [ns], [whole], peaks=PEAKS)


def measured(found: Profile, peers: Mapping[str, float] | None = None) -> Measured:
    """A report of one size, at which we take a millisecond, and others ``peers`` seconds."""
    point = {"n": 10}
    row = ComparisonRow(point, {"x": (10,)}, {OURS: [1e-3]})
    engines = [Engine(OURS, "1")]
    for name, seconds in (peers or {}).items():
        engines.append(Engine(name, "2"))
        row.seconds[name] = [seconds]
    curves = [Curve("n", "input x, axis 0", [10], [point])]
    made = Measured(MANIFEST, {}, point, curves, engines, {key_of(point): row}, 1e-4, 1)
    made.profiles[key_of(point)] = found
    return made


def test_the_verdict_names_the_fastest_peer() -> None:
    some = profile(10)
    slower = measured(some, {"onnxruntime": 0.6e-3, "openvino": 0.8e-3})
    assert verdict(slower) == (
        "Another engine is faster at 1 of 1 measured size: at worst ONNX Runtime, which takes 0.60 "
        "of the time at n=10."
    )
    faster = measured(some, {"onnxruntime": 2e-3, "openvino": 1e-3})
    assert verdict(faster) == (
        "It is not slower: ONNX Runtime and OpenVINO are faster at none of 1 measured size."
    )
    assert verdict(measured(some)) == "No other engine ran this model. None was requested."


def test_findings_say_how_much_is_left() -> None:
    """10 us of arithmetic at half of 100 GFLOP/s, and 2 us of Python: 7 us are the least."""
    found = profile(10, flops=500_000, around_us=2)
    assert least_us(found) == pytest.approx(7.0)
    text = " ".join(findings(measured(found, {"torch": 2e-3})))
    assert "At n=10 a call takes 1 ms on 1 thread; PyTorch 2 ms." in text
    assert "83 % of the time is in kernels limited by arithmetic, at 50 % of that limit." in text
    assert "would take 7 us instead of 12 us: at most 1.71 times faster" in text
    assert "dot_0 (matmul + add; 10 us, at 50 % of arithmetic)" in text
    assert "A call needs 10.0 KiB of temporary memory at n=10." in text


def test_findings_without_a_profile() -> None:
    found = measured(profile(10))
    found.profiles.clear()
    found.refused[10,] = "n must be even"
    assert "No call was profiled: n must be even." in list(findings(found))
    assert list(advice(found)) == []


@pytest.mark.parametrize(
    ("found", "because", "do"),
    [
        (profile(10, flops=900_000), "arithmetic are near", 'weights="int8"'),
        (profile(10, flops=900_000), "arithmetic are near", "There are 2 cores: use more"),
        (profile(10, size=90_000), "reads and writes of memory are near", 'weights="int8"'),
        (profile(10, size=10_000), "1 fusion refused", "Relate dims by constraints"),
        (profile(10, flops=100_000), "lose 90 %", "tvm-disc tune m.onnx --records records.jsonl"),
        (profile(1, flops=1_000), "kernels with little work", "larger batches"),
        (profile(10, flops=900_000, around_us=10), "50 % of a call is around", "exe.bind"),
    ],
)
def test_advice_follows_the_profile(found: Profile, because: str, do: str) -> None:
    said = [(a.why, a.do) for a in advice(measured(found))]
    assert any(because in why and do in what for why, what in said), said


def test_no_advice_where_nothing_is_to_gain() -> None:
    found = measured(profile(10, flops=900_000))
    assert [a.why for a in advice(found)] == [
        "Kernels limited by arithmetic are near this machine's limit"
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.1234, "123 ms"), (1e-3, "1 ms"), (0.5e-6, "0.5 us")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# --- cliffs ----------------------------------------------------------------------------------


def one_dim(size: int) -> dict[str, int]:
    """All dims of the program, of which there is one."""
    return {"n": size}


def test_variants_follow_the_tree() -> None:
    assert chosen(TREE, {"n": 10}) == "gemm(m_r=6)"
    assert chosen(TREE, {"n": 11}) == "gemm(m_r=8)"
    assert chosen({"if": "k", "below": 1, "then": LEAF, "else": OTHER}, {"n": 1}) is None
    assert chosen(LEAF, {}) == "gemm(m_r=6)"


def test_a_cliff_where_a_variant_changes_and_behind_a_power_of_two() -> None:
    def time(point: Mapping[str, int]) -> Profile:
        n = point["n"]
        return profile(100 + n + 80 * (n > 10) + 90 * (n > 64))

    found = cliffs_over(MANIFEST, "n", (1, 100), one_dim, time)
    assert [(c.dim, c.size, list(c.kernels)) for c in found] == [
        ("n", 10, ["dot_0"]),
        ("n", 64, []),
    ]
    assert found[0].us == 110 and found[0].next_us == 191


def test_noise_and_growth_are_no_cliffs() -> None:
    times = iter(range(10_000))

    def noisy(point: Mapping[str, int]) -> Profile:
        return profile(100 + (60 if next(times) % 5 == 4 else 0))

    assert cliffs_over(MANIFEST, "n", (1, 100), one_dim, noisy) == []
    assert cliffs_over(MANIFEST, "n", (1, 100), one_dim, lambda p: profile(50 * p["n"])) == []
    assert cliffs_over(MANIFEST, "n", (1, 100), one_dim, lambda p: None) == []


def test_disturbed_profiles_show_no_cliff_and_are_counted() -> None:
    def time(point: Mapping[str, int]) -> Profile:
        made = profile(100 + 80 * (point["n"] > 10))
        made.disturbed = 1
        return made

    assert cliffs_over(MANIFEST, "n", (1, 100), one_dim, time) == []
    found = measured(time({"n": 1}))
    assert "Other processes disturbed 1 of 1 profile, whose" in list(advice(found))[-1].why


def test_a_larger_size_may_be_faster() -> None:
    assert Cliff("n", 100, 90.0, 60.0, []).jump == pytest.approx(1.5)
    assert Cliff("n", 1, 50.0, 100.0, []).jump == pytest.approx(1.0)


# --- charts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.07, 6.0, [0.03, 0.1, 0.3, 1, 3, 10]),
        (1.0, 1000.0, [1, 10, 100, 1000]),
        (1.1, 1.9, [1, 1.5, 2]),
        (5.0, 5.0, [5]),
    ],
)
def test_ticks_enclose_the_values(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


def test_a_chart_has_every_point_and_a_legend() -> None:
    lines = [Series("<a>", 0, [(1, 0.5), (8, 2.0)]), Series("b", 1, [(8, 4.0)]), Series("c", 2, [])]
    axis = ChartAxis("ms", lambda y: f"{y:g} ms", logarithmic=True)
    text = chart("T", "n", axis, lines)
    page = Page(text)
    assert page.tags.count("circle") == 3 and page.tags.count("polyline") == 2
    assert "<a>, n 8: 2 ms" in page.text and "b, n 8: 4 ms" in page.text
    assert text.count('class="key') == 2  # a line without a point has no key


def test_a_chart_of_one_size_and_of_none() -> None:
    axis = ChartAxis("bytes", str)
    assert Page(chart("T", "n", axis, [Series("a", 0, [(4, 0.0)])])).tags.count("circle") == 1
    assert "Not measured." in Page(chart("T", "n", axis, [Series("a", 0, [])])).text
