"""``tvm_disc.quantize``: weights alone, and values by the ranges of calibration inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]
K, N = 64, 48
WEIGHTS = (RNG.standard_normal((N, K)) / 8).astype("float32")
WEIGHTS[3] = 0
BIAS = RNG.standard_normal(N).astype("float32")
ROWS = (0, 1, 2, 7, 15, 16, 17, 31, 97, 200)


def as_bytes(x: Array, low: float, high: float) -> Array:
    """Return the values after their quantization to the range."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / 255)
    zero = np.rint(-low / scale)
    number = np.clip(np.rint((x / scale).astype("float32")) + zero, 0, 255)
    return (number - zero) * scale.astype("float64")


def as_int8(w: Array, axes: tuple[int, ...]) -> Array:
    """Return weights rounded to int8 numbers, with scales that float16 represents."""
    largest = np.abs(w).max(axes, keepdims=True)
    exact = np.where(largest > 0, largest / np.float32(127), np.float32(1))
    scale = np.where(exact >= np.finfo("float16").tiny, exact.astype("float16"), exact)
    return np.clip(np.rint(w / scale), -128, 127) * scale.astype("float64")


def close(got: Array, exact: Array) -> None:
    assert got.shape == exact.shape
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max(initial=1))


def dense(m: Any = "m") -> Any:
    x = rows(m, K)
    made = relay.nn.bias_add(relay.nn.dense(x, relay.const(WEIGHTS)), relay.const(BIAS))
    return function(x, made)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 3.0), (-0.5, 2.5), (0.25, 1.0), (-3.0, -1.0)])
def test_products_of_bytes(ends: tuple[float, float]) -> None:
    """Exact sums of the quantized values; values outside of the range are clipped."""
    sample = RNG.uniform(*ends, (20, K)).astype("float32")
    sample[0, 0], sample[1, 1] = ends
    exe = tvm_disc.quantize(dense(), calibration=[(sample[:4],), (sample[4:],)])
    assert len(exe.kernels) <= 2
    assert f"weights {K} x {N}: int8" in exe.explain()
    assert f"operand in {ends[0]:.4g} .. {ends[1]:.4g}" in exe.explain()
    low, high = float(sample.min()), float(sample.max())
    for m in ROWS:
        x = (RNG.uniform(*ends, (m, K)) * 1.2).astype("float32")
        close(exe(x), as_bytes(x, low, high) @ as_int8(WEIGHTS, (1,)).T + BIAS)


def test_errors_of_results() -> None:
    """explain() gives the error of each product over all calls, for its float operand. A call with
    a NaN does not count.
    """
    x = rows("m", K)
    second = (RNG.standard_normal((24, N)) / 7).astype("float32")
    first = relay.nn.dense(x, relay.const(WEIGHTS))
    made = relay.nn.dense(relay.nn.relu(first), relay.const(second))
    samples = [RNG.standard_normal((m, K)).astype("float32") for m in (3, 1, 0, 40)]
    nan = np.full((2, K), np.nan, "float32")
    text = tvm_disc.quantize(
        function(x, made), calibration=[(s,) for s in (*samples, nan)]
    ).explain()
    found = [float(v) for v in re.findall(r"relative error of the result (\S+)", text)]
    operand, errors = np.concatenate(samples), []
    for w in (WEIGHTS, second):
        exact = operand.astype("float64") @ w.T
        got = as_bytes(operand, float(operand.min()), float(operand.max())) @ as_int8(w, (1,)).T
        errors.append(np.sqrt(np.square(got - exact).mean() / np.square(exact).mean()))
        operand = np.maximum(operand @ w.T, 0)
    np.testing.assert_allclose(found, errors, rtol=0.06)  # two digits are printed
    assert min(errors) > 1e-3


@pytest.mark.parametrize("m", [1, 5, 64])
def test_known_rows(m: int) -> None:
    sample = RNG.standard_normal((m, K)).astype("float32")
    exe = tvm_disc.quantize(dense(m), calibration=[{"x": sample}])
    low, high = float(sample.min()), float(sample.max())
    close(exe(sample), as_bytes(sample, low, high) @ as_int8(WEIGHTS, (1,)).T + BIAS)


def network() -> Any:
    """Convolutions, strided, depthwise and with a residual sum, and a classifier."""
    rng = np.random.default_rng(1)
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), relay.Any()))

    def conv(x: Any, outs: int, ins: int, k: int = 3, s: int = 1, groups: int = 1) -> Any:
        w = rng.standard_normal((outs, ins // groups, k, k)) / np.sqrt(ins * k * k / groups)
        made = relay.nn.conv2d(
            x, relay.const(w.astype("float32")), strides=(s, s), padding=(k // 2, k // 2),
            channels=outs, kernel_size=(k, k), groups=groups,
        )  # fmt: skip
        bias = relay.const(rng.standard_normal(outs).astype("float32") / 10)
        return relay.nn.relu(relay.nn.bias_add(made, bias))

    y = conv(x, 32, 3, 3, 2)
    y = conv(y, 32, 32, groups=32)
    z = conv(conv(y, 32, 32, 1), 32, 32) + y
    z = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(conv(z, 64, 32, 3, 2)))
    w = (rng.standard_normal((40, 64)) / 8).astype("float32")
    return relay.Function([x], relay.nn.dense(z, relay.const(w)))


IMAGES = [(1, 1, 1), (0, 8, 8), (1, 7, 9), (2, 16, 16), (1, 33, 31), (3, 64, 48)]


def test_a_network() -> None:
    """Near to the float network, and equal without fusion but for rare ties."""
    func = network()
    images = [RNG.standard_normal((2, 3, 40, 40)).astype("float32") for _ in range(3)]
    calls = [(image,) for image in images]
    real = tvm_disc.build(func)
    exe = tvm_disc.quantize(func, calibration=calls)
    plain = tvm_disc.quantize(func, calibration=calls, options=tvm_disc.Options(fuse=False))
    assert exe.explain().count("relative error of the result") == 5
    for n, h, w in IMAGES:
        x = RNG.standard_normal((n, 3, h, w)).astype("float32")
        found, want = exe(x), real(x)
        top = np.abs(want).max(initial=1e-6)
        assert found.shape == want.shape
        assert np.abs(found - want).max(initial=0) <= 0.06 * top
        assert np.abs(found - plain(x)).max(initial=0) <= 0.01 * top


def test_an_operand_of_two_products_is_quantized_once() -> None:
    x = rows("m", K)
    other = RNG.standard_normal((80, K)).astype("float32")
    outs = [relay.nn.dense(x, relay.const(w)) for w in (WEIGHTS, other)]
    sample = RNG.standard_normal((9, K)).astype("float32")
    exe = tvm_disc.quantize(function(x, relay.Tuple(outs)), calibration=[(sample,)])
    low, high = float(sample.min()), float(sample.max())
    for got, w in zip(exe(sample), (WEIGHTS, other), strict=True):
        close(got, as_bytes(sample, low, high) @ as_int8(w, (1,)).T)


def test_what_stays_float() -> None:
    """Products in branches, of small weights, of two computed values, and of unknown ranges."""
    x = rows("m", K)
    small = relay.const(RNG.standard_normal((4, K)).astype("float32"))
    both = relay.nn.dense(x, x)
    branch = relay.If(
        relay.max(x) > relay.const(0.0), relay.nn.dense(x, relay.const(WEIGHTS)),
        relay.nn.dense(x, relay.const(-WEIGHTS)),
    )  # fmt: skip
    func = function(x, relay.Tuple([relay.nn.dense(x, small), both, branch]))
    sample = RNG.standard_normal((5, K)).astype("float32")
    exe, real = tvm_disc.quantize(func, calibration=[(sample,)]), tvm_disc.build(func)
    for got, want in zip(exe(sample), real(sample), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "value", [np.full((3, K), np.nan), np.full((3, K), np.inf), np.zeros((0, K))]
)
def test_ranges_that_are_not_known(value: Array) -> None:
    exe = tvm_disc.quantize(dense(), calibration=[(value.astype("float32"),)])
    reason = "its operand was infinite in a calibration input, or empty or NaN in all of them"
    assert reason in exe.explain(full=True)
    x = RNG.standard_normal((7, K)).astype("float32")
    np.testing.assert_allclose(exe(x), x @ WEIGHTS.T + BIAS, rtol=1e-5, atol=1e-5)


def test_a_range_of_zeros() -> None:
    exe = tvm_disc.quantize(dense(), calibration=[(np.zeros((3, K), "float32"),)])
    np.testing.assert_array_equal(exe(np.zeros((2, K), "float32")), np.stack([BIAS, BIAS]))


def test_another_target_is_calibrated_here() -> None:
    sample = RNG.standard_normal((5, K)).astype("float32")
    target = {"kind": "llvm", "mcpu": "cascadelake"}
    options = tvm_disc.Options(load=False)
    exe = tvm_disc.quantize(dense(), calibration=[(sample,)], target=target, options=options)
    assert "vpdpbusd" in exe.source("asm")


@pytest.mark.parametrize(("weights", "group"), [("int8", 32), ("int4", 16), ("int8", 0)])
def test_weights_alone(weights: str, group: int) -> None:
    x = rows("m", 512)
    w = RNG.standard_normal((256, 512)).astype("float32")
    func = function(x, relay.nn.dense(x, relay.const(w)))
    exe = tvm_disc.quantize(func, weights=weights, group=group)
    options = tvm_disc.Options(weights=weights, weight_group=group)
    same = tvm_disc.build(func, options=options)
    assert f"{weights}, a scale per {f'{group} rows' if group else 'column'}" in exe.explain()
    value = RNG.standard_normal((5, 512)).astype("float32")
    np.testing.assert_array_equal(exe(value), same(value))


def test_the_passes_of_the_user_run_first() -> None:
    seen: list[int] = []

    def mine(mod: Any) -> Any:
        seen.append(1)
        return mod

    sample = RNG.standard_normal((5, K)).astype("float32")
    passes = {"before integer-products": mine, "after fuse": [mine]}
    tvm_disc.quantize(dense(), calibration=[(sample,)], passes=passes)
    assert len(seen) == 6


SAMPLE = np.zeros((2, K), "float32")


# Type checkers know that two of these calls are wrong; they are made to see the error.
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tvm_disc.quantize(dense(), weights="int4", calibration=[(SAMPLE,)]),
            "weights: expected 'int8' with calibration inputs, found 'int4'",
        ),
        (
            lambda: tvm_disc.quantize(dense(), calibration=[]),
            "calibration: expected the inputs of at least one call, found none",
        ),
        (
            lambda: tvm_disc.quantize(dense(), calibration=SAMPLE),  # type: ignore[arg-type]
            "calibration: expected a list of the inputs of calls, found ndarray",
        ),
        (
            lambda: tvm_disc.quantize(dense(), calibration=[SAMPLE]),  # type: ignore[list-item]
            "calibration: expected a tuple or a mapping of inputs for each call, found ndarray",
        ),
        (
            lambda: tvm_disc.quantize(dense(), calibration=[(SAMPLE[:, :3],)]),
            "input 'x' axis 1: expected 64; found x: float32[2, 3]",
        ),
        (
            lambda: tvm_disc.quantize(dense(), calibration=[{"y": SAMPLE}]),
            "unknown input y; expected x",
        ),
        (
            lambda: tvm_disc.quantize(
                dense(), calibration=[(SAMPLE,)], options=tvm_disc.Options(state=["x"])
            ),
            "state: not supported together with calibration; leave it out",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput) as failed:
        make()
    assert message in str(failed.value)
