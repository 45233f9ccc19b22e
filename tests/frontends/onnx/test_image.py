"""Images resized, sampled and searched, against ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import Unsupported

from .helpers import F32, I64, build, model, node, normal, same

SHAPES = ((1, 1, 1, 1), (2, 3, 4, 5), (1, 2, 7, 3), (1, 1, 16, 9), (0, 2, 3, 3))
WAYS: list[dict[str, Any]] = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic"},
    {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
]


@pytest.mark.parametrize("attrs", WAYS)
@pytest.mark.parametrize("scales", [(2.0, 3.0), (0.6, 1.5)])
def test_resize_by_scales(attrs: dict[str, Any], scales: tuple[float, float]) -> None:
    factors = np.array([1, 1, *scales], "float32")
    made = model(
        [node("Resize", ["x", "", "s"], ["y"], **attrs)],
        {"x": (F32, ["n", "c", "h", "w"])},
        s=factors,
    )
    shapes = SHAPES if min(scales) > 1 else SHAPES[1:4]
    same(made, *[[normal(*s)] for s in shapes if s[0]], rtol=1e-4, atol=1e-4)


def test_resize_by_sizes_and_axes_that_only_the_data_knows() -> None:
    made = model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="linear", axes=[3, 2])],
        {"x": (F32, ["n", 2, "h", "w"]), "s": (I64, [2])},
    )
    cases = []
    for shape, sizes in (((1, 2, 3, 4), (8, 6)), ((2, 2, 5, 5), (3, 2)), ((1, 2, 1, 1), (2, 3))):
        cases.append([normal(*shape), np.array(sizes)])
    same(made, *cases, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("place", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("known", [True, False])
def test_resize_by_one_factor_for_all_axes(mode: str, place: str, policy: str, known: bool) -> None:
    """Lengths are rounded, and the factor stays what it is."""
    sizes = np.array([3, 4])
    inputs: dict[str, Any] = {"x": (F32, [1, "c", "h", "w"])}
    given: dict[str, Any] = {"s": sizes} if known else {}
    if not known:
        inputs["s"] = (I64, [2])
    made = model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=[2, 3],
              coordinate_transformation_mode=place, keep_aspect_ratio_policy=policy)],
        inputs, **given,
    )  # fmt: skip
    cases = [[normal(1, 2, h, w)] for h, w in ((5, 6), (2, 6), (1, 1), (7, 3))]
    same(made, *[case if known else [*case, sizes] for case in cases], rtol=1e-4, atol=1e-4)


def test_resize_by_factors_that_only_the_data_knows() -> None:
    made = model(
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        {"x": (F32, [1, "c", "h", "w"]), "s": (F32, [4])},
    )
    cases = []
    for factors in ((0.6, 0.7), (1.3, 2.0), (2.0, 3.0)):
        scales = np.array([1, 1, *factors], "float32")
        cases += [[normal(1, 2, h, w), scales] for h, w in ((5, 6), (2, 3), (7, 4))]
    same(made, *cases, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_volumes_with_an_unknown_depth(mode: str) -> None:
    made = model(
        [node("Resize", ["x", "", "s"], ["y"], mode=mode)],
        {"x": (F32, [1, 2, "d", 4, 3])},
        s=np.array([1, 1, 1, 2, 2], "float32"),
    )
    same(made, [normal(1, 2, 1, 4, 3)], [normal(1, 2, 5, 4, 3)])


def test_resize_of_a_region() -> None:
    roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.7, 1.3], "float32")
    made = model(
        [node("Resize", ["x", "r", "", "s"], ["y"], mode="linear", extrapolation_value=10.0,
              coordinate_transformation_mode="tf_crop_and_resize")],
        {"x": (F32, ["n", 1, "h", "w"])}, r=roi, s=np.array([1, 1, 3, 4]),
    )  # fmt: skip
    same(made, *[[normal(1, 1, h, w)] for h, w in ((2, 2), (4, 5), (7, 3))], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    made = model(
        [node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding)],
        {"x": (F32, ["n", "c", "h", "w"]), "g": (F32, ["n", "p", "q", 2])},
    )
    cases = []
    for n, h, w in ((1, 2, 3), (2, 5, 4), (1, 9, 7)):
        cases.append([normal(n, 2, h, w), np.clip(normal(n, 3, 4, 2), -1.3, 1.3)])
    same(made, *cases, rtol=1e-3, atol=1e-4)


def test_boxes_that_overlap_are_suppressed() -> None:
    made = model(
        [node("NonMaxSuppression", ["b", "s", "m", "o", "t"], ["y"])],
        {"b": (F32, ["n", "k", 4]), "s": (F32, ["n", "c", "k"]), "m": (I64, [1])},
        o=np.array([0.5], "float32"), t=np.array([0.1], "float32"),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    cases = []
    for n, c, k, most in ((1, 1, 1, 3), (2, 3, 7, 2), (1, 2, 16, 30), (1, 1, 5, 0)):
        low = rng.uniform(0, 1, (n, k, 2))
        boxes = np.concatenate([low, low + rng.uniform(0.1, 0.5, (n, k, 2))], 2).astype("float32")
        scores = rng.uniform(0, 1, (n, c, k)).astype("float32")
        cases.append([boxes, scores, np.array([most])])
    same(made, *cases)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            node("Resize", ["x", "", "s"], ["y"], mode="best"),
            "mode: expected nearest, linear or cubic",
        ),
        (
            node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="best"),
            "coordinate_transformation_mode: expected .* found 'best'",
        ),
        (
            node("Resize", ["x", "", "s"], ["y"], nearest_mode="best"),
            "nearest_mode: expected .* found 'best'",
        ),
    ],
)
def test_ways_that_do_not_exist_are_refused(made: Any, words: str) -> None:
    scales = np.array([1, 1, 1.5, 1.5], "float32")
    with pytest.raises(Unsupported, match=f"ONNX Resize 'y': {words}"):
        build(model([made], {"x": (F32, ["n", "c", "h", "w"])}, s=scales))
