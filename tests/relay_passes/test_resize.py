"""Resizing of images whose size and target size are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

import tvm_disc
from tests.relay_passes.propagate_helpers import module, operators
from tvm_disc.errors import Unsupported
from tvm_disc.relay_passes.decompose import DecomposeComposite

SHAPES = ((1, 1, 1), (1, 7, 5), (2, 8, 8), (1, 3, 17), (3, 16, 9))
"""n, h, w; the result has 2*h + 1 rows and w // 2 + 1 columns: one axis grows, one shrinks."""

MODES = (
    ("linear", "half_pixel", "round"),
    ("linear", "align_corners", "round"),
    ("cubic", "half_pixel", "round"),
    ("cubic", "pytorch_half_pixel", "round"),
    ("nearest_neighbor", "asymmetric", "floor"),
    ("nearest_neighbor", "half_pixel", "round_prefer_floor"),
    ("nearest_neighbor", "half_pixel", "round_prefer_ceil"),
    ("nearest_neighbor", "tf_half_pixel_for_nn", "floor"),
)


def resized(x: Any, size: Any, mode: tuple[str, str, str], layout: str = "NCHW") -> Any:
    method, coordinates, rounding = mode
    return R.image.resize2d(
        x, relax.ShapeExpr(size), None, layout, method, coordinates, rounding, -0.75
    )


def place(i: int, n: int, t: int, mode: str) -> float:
    if mode == "align_corners":
        return i * (n - 1) / max(t - 1, 1)
    if mode == "asymmetric":
        return i * n / t
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) * n / t
    if mode == "pytorch_half_pixel" and t == 1:
        return 0.0
    return (i + 0.5) * n / t - 0.5


def keys(d: float, a: float = -0.75) -> float:
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(n: int, t: int, mode: tuple[str, str, str]) -> np.ndarray:
    """What each of the t results takes of each of the n rows; the border's row outside."""
    method, coordinates, rounding = mode
    out = np.zeros((t, n))
    for i in range(t):
        p = place(i, n, t, coordinates)
        if method == "nearest_neighbor":
            k = {
                "floor": np.floor(p + 1e-5),
                "round_prefer_floor": np.ceil(p - 0.5),
                "round_prefer_ceil": np.floor(p + 0.5),
            }[rounding]
            weights = {int(k): 1.0}
        elif method == "linear":
            f = int(np.floor(p))
            weights = {f: 1 - (p - f), f + 1: p - f}
        else:
            f = int(np.floor(p))
            weights = {k: keys(p - k) for k in range(f - 1, f + 3)}
        for k, weight in weights.items():
            out[i, min(max(k, 0), n - 1)] += weight
    return out


@pytest.mark.parametrize("mode", MODES, ids="-".join)
def test_one_program_resizes_every_image(mode: tuple[str, str, str]) -> None:
    mod = module(
        [("n", 2, "h", "w")],
        lambda _, s, x: resized(x, [2 * s["h"] + 1, s["w"] // 2 + 1], mode),
    )
    program = tvm_disc.build(mod)
    for n, h, w in SHAPES:
        x = np.random.default_rng(h).standard_normal((n, 2, h, w)).astype("float32")
        rows, columns = matrix(h, 2 * h + 1, mode), matrix(w, w // 2 + 1, mode)
        want = np.einsum("ih,nchw,jw->ncij", rows, x, columns)
        np.testing.assert_allclose(np.asarray(program(x)), want, rtol=1e-5, atol=2e-5)
    assert np.asarray(program(np.ones((0, 2, 4, 4), "float32"))).shape == (0, 2, 9, 3)


def test_an_axis_that_keeps_its_length_is_not_read_again() -> None:
    mod = module(
        [("n", "h", "w", 4)],
        lambda _, s, x: resized(x, [s["h"], 2 * s["w"]], MODES[0], "NHWC"),
    )
    assert operators(DecomposeComposite()(mod)).count("take") == 2


def test_the_same_size_is_the_same_image() -> None:
    mod = module([("n", 2, "h", "w")], lambda _, s, x: resized(x, [s["h"], s["w"]], MODES[2]))
    assert operators(DecomposeComposite()(mod)) == []


@pytest.mark.parametrize(
    "mode",
    [("linear", "tf_crop_and_resize", "round"), ("nearest_neighbor", "half_pixel", "up")],
    ids="-".join,
)
def test_modes_that_are_not_computed_are_refused(mode: tuple[str, str, str]) -> None:
    mod = module([("n", 2, "h", "w")], lambda _, s, x: resized(x, [s["h"], 5], mode))
    with pytest.raises(Unsupported, match="resize2d"):
        tvm_disc.build(mod)


def test_interpolated_integers_are_refused() -> None:
    mod = module([("n", 2, "h", "w")], lambda _, s, x: resized(x, [s["h"], 5], MODES[0]), ["int32"])
    with pytest.raises(Unsupported, match="resize2d"):
        tvm_disc.build(mod)
