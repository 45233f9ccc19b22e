"""Quantizations of float32: exact, with the limits of an activation before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tvm_disc import relay
from tvm_disc.frontends.calc import op

RNG = np.random.default_rng(0)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
ANY = relay.Any()
Array = np.ndarray[Any, Any]
ENDS = {"none": (-np.inf, np.inf), "relu": (0.0, np.inf), "relu6": (0.0, 6.0), "high": (50.0, 60.0)}


def quantized(x: Any, scale: float, zero: float, limits: tuple[float, float], dtype: str) -> Any:
    whole = op("round_even", x / relay.const(np.float32(scale)))
    whole = whole + relay.const(np.float32(zero))
    return relay.cast(relay.cast(relay.clip(whole, *limits), "int32"), dtype)


def values(scale: float, size: int) -> Array:
    """Random values, ties and their neighbours, and values beyond all limits."""
    step = np.float32(scale)
    ties = (np.arange(-600, 600).astype("float32") + np.float32(0.5)) * step
    around = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    far = np.array([np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 1e-40, -1e-40], "float32")
    some = RNG.standard_normal(20000).astype("float32") * step * np.float32(100)
    return np.concatenate([ties, *around, far, some])[:size]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("dtype", "scale", "zero", "limits", "ends"),
    [
        ("uint8", 6 / 255, 0, (0, 255), "relu6"),
        ("uint8", 0.04, 131, (0, 255), "none"),
        ("int8", 0.0371, -5, (-128, 127), "relu"),
        ("int8", 1.0, 0, (-127, 127), "none"),
        ("uint8", 3e-9, 255, (0, 255), "relu"),
        ("uint8", 1e12, 7, (3, 200), "none"),
        ("uint8", 0.1, 7, (0, 255), "high"),
        # divided: the scale is too small for a correction of the product with its inverse
        ("uint8", 1e-30, 7, (0, 255), "none"),
        # no lowest byte: the limits exceed the range of the type
        ("uint8", 0.5, 0, (0, 300), "high"),
    ],
)
def test_bytes(
    dtype: str, scale: float, zero: int, limits: tuple[int, int], ends: str, level: str
) -> None:
    x = relay.var("x", shape=(ANY,))
    limited = {
        "none": lambda: x,
        "relu": lambda: relay.nn.relu(x),
        "relu6": lambda: relay.clip(x, 0.0, 6.0),
        "high": lambda: relay.clip(x, 50.0, 60.0),
    }[ends]()
    y = quantized(limited, scale, zero, limits, dtype)
    exe = tvm_disc.build(relay.Function([x], y), target={"kind": "llvm", "mcpu": level})
    run_on(level)
    given = values(scale, 10**6)
    inside = np.clip(given, *(np.float32(end) for end in ENDS[ends]))
    with np.errstate(over="ignore"):
        exact = np.clip(np.rint(inside / np.float32(scale)) + np.float32(zero), *limits)
    exact = exact.astype("int32").astype(dtype)
    for size in (0, 1, 15, 17, len(given)):
        np.testing.assert_array_equal(exe(given[:size]), exact[:size])


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_limits_of_an_activation_and_of_the_bytes_are_one(level: str) -> None:
    """One maximum and one minimum, one correction, no division and no rounding instruction."""
    x = relay.var("x", shape=(ANY, 64))
    y = quantized(relay.clip(x, 0.0, 6.0), 0.03, 3, (0, 255), "uint8")
    exe = tvm_disc.build(relay.Function([x], y), target={"kind": "llvm", "mcpu": level})
    text = exe.source("asm")
    assert "vdivps" not in text
    assert "vroundps" not in text and "vrndscaleps" not in text
    assert text.count("vmaxps") == text.count("vminps") > 0
    assert text.count("vfm") + text.count("vfnm") == 2 * text.count("vmaxps")


@pytest.mark.parametrize(("zero", "dtype"), [(0, "uint8"), (131, "uint8"), (-7, "int8")])
def test_numbers_that_stay_float(zero: int, dtype: str) -> None:
    """A value that is dequantized in the same kernel: ends, ties, NaN."""
    kind, scale = np.iinfo(dtype), np.float32(0.05)
    x = relay.var("x", shape=(ANY,))
    limits = (float(kind.min), float(kind.max))
    q = quantized(relay.nn.relu(x), 0.05, zero, limits, dtype)
    wide = relay.cast(q, "int32") - relay.const(np.int32(zero))
    exe = tvm_disc.build(relay.Function([x], relay.cast(wide, "float32") * relay.const(scale)))
    given = values(0.05, 10**6)
    whole = np.rint(np.maximum(given, 0) / scale) + np.float32(zero)
    exact = (np.clip(whole, *limits) - np.float32(zero)) * scale
    for size in (0, 1, 15, 17, len(given)):
        np.testing.assert_array_equal(exe(given[:size]), exact[:size])
    assert np.isnan(exe(np.array([np.nan], "float32"))).all()
