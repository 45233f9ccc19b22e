"""Images, boxes, regions and grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.suite.expressions import (
    Case,
    Program,
    case,
    counts,
    meaning,
    parameters,
    positive,
    reals,
)
from tests.relay.suite.layouts import turned
from tvm_disc import relay

IMAGE = reals(1, 2, 4, 5)


def resized() -> dict[str, Case]:
    made: dict[str, Case] = {}
    methods: list[tuple[str, str, str]] = [
        ("linear", "half_pixel", ""),
        ("linear", "align_corners", ""),
        ("linear", "asymmetric", ""),
        ("linear", "pytorch_half_pixel", ""),
        ("nearest_neighbor", "asymmetric", ""),
        ("nearest_neighbor", "half_pixel", "round"),
        ("nearest_neighbor", "align_corners", "ceil"),
        ("nearest_neighbor", "asymmetric", "floor"),
        ("cubic", "half_pixel", ""),
        ("cubic", "align_corners", ""),
        ("cubic", "asymmetric", ""),
        ("nearest_neighbor", "half_pixel", "round_prefer_floor"),
        ("nearest_neighbor", "half_pixel", "round_prefer_ceil"),
        ("nearest_neighbor", "tf_half_pixel_for_nn", "floor"),
    ]
    for k, (method, mode, rounding) in enumerate(methods):
        attrs = {
            "method": method,
            "coordinate_transformation_mode": mode,
            "rounding_method": rounding,
        }
        layout = ("NCHW", "NHWC")[k % 2]
        want = meaning("image.resize2d", IMAGE, size=(7, 3), **attrs)
        made[f"resize2d {method} {mode} {rounding}"] = case(
            lambda v, a=attrs, ly=layout: relay.image.resize2d(v, (7, 3), layout=ly, **a),
            turned(want, "NCHW", layout),
            turned(IMAGE, "NCHW", layout),
            tolerance=1e-4,
        )
    line, cube = reals(2, 3, 5), reals(1, 2, 2, 3, 4)
    for method, mode in [
        ("linear", "half_pixel"),
        ("nearest_neighbor", "asymmetric"),
        ("cubic", "align_corners"),
    ]:
        attrs = {"method": method, "coordinate_transformation_mode": mode, "rounding_method": ""}
        made[f"resize1d {method}"] = case(
            lambda v, a=attrs: relay.image.resize1d(v, (8,), **a),
            lambda v, a=attrs: meaning("image.resize1d", v, size=(8,), **a),
            line,
            tolerance=1e-4,
        )
        made[f"resize3d {method}"] = case(
            lambda v, a=attrs: relay.image.resize3d(v, (3, 2, 6), **a),
            lambda v, a=attrs: meaning("image.resize3d", v, size=(3, 2, 6), **a),
            cube,
            tolerance=1e-4,
        )
    made["resize1d NWC"] = case(
        lambda v: relay.image.resize1d(v, 10, layout="NWC"),
        turned(meaning("image.resize1d", line, size=(10,)), "NCW", "NWC"),
        turned(line, "NCW", "NWC"),
        tolerance=1e-4,
    )
    made["resize3d NDHWC"] = case(
        lambda v: relay.image.resize3d(
            v, (4, 4, 4), None, "NDHWC", "nearest_neighbor", "asymmetric"
        ),
        turned(
            meaning(
                "image.resize3d",
                cube,
                size=(4, 4, 4),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method="",
            ),
            "NCDHW",
            "NDHWC",
        ),
        turned(cube, "NCDHW", "NDHWC"),
    )
    whole = counts(1, 1, 3, 3, below=200, dtype="uint8")
    made["resize2d uint8"] = case(
        lambda v: relay.image.resize2d(
            v, (6, 6), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
        lambda v: v.repeat(2, 2).repeat(2, 3),
        whole,
    )
    made["resize2d uint8 linear"] = case(
        lambda v: relay.image.resize2d(v, (5, 4), out_dtype="float32"),
        lambda v: meaning("image.resize2d", v.astype("float32"), size=(5, 4)),
        whole,
        tolerance=1e-4,
    )
    made["resize2d exclude"] = case(
        lambda v: relay.image.resize2d(
            v, (7, 9), method="cubic", cubic_alpha=-0.75, cubic_exclude=1
        ),
        lambda v: meaning(
            "image.resize2d", v, size=(7, 9), method="cubic", cubic_alpha=-0.75, cubic_exclude=1
        ),
        IMAGE,
        tolerance=1e-4,
    )
    boxes = np.array([[0.1, 0.2, 0.9, 0.8], [0, 0, 1, 1], [0.7, 0.9, 0.2, 0.1]], "float32")
    for method in ("bilinear", "nearest_neighbor"):
        for layout in ("NHWC", "NCHW"):
            attrs = {"crop_size": (3, 4), "layout": layout, "method": method}
            data = turned(reals(2, 2, 4, 5), "NCHW", layout)
            made[f"crop_and_resize {method} {layout}"] = case(
                lambda *v, a=attrs: relay.image.crop_and_resize(*v, **a),
                lambda *v, a=attrs: meaning("image.crop_and_resize", *v, **a),
                data,
                boxes,
                np.array([0, 1, 1], "int32"),
                tolerance=1e-4,
            )
    attrs = {"crop_size": (2, 2), "layout": "NHWC", "extrapolation_value": 3.0}
    made["crop_and_resize outside"] = case(
        lambda *v: relay.image.crop_and_resize(*v, **attrs),
        lambda *v: meaning("image.crop_and_resize", *v, **attrs),
        turned(IMAGE, "NCHW", "NHWC"),
        np.array([[-0.5, 0, 1.5, 1]], "float32"),
        np.array([0], "int32"),
        tolerance=1e-4,
    )
    return made


def moved() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(1, 8, 2, 4)
    for layout in ("NCHW", "NHWC"):
        for mode in ("DCR", "CDR"):
            attrs = {"block_size": 2, "layout": layout, "mode": mode}
            made[f"depth_to_space {layout} {mode}"] = case(
                lambda v, a=attrs: relay.nn.depth_to_space(v, **a),
                lambda v, a=attrs: meaning("nn.depth_to_space", v, **a),
                turned(x, "NCHW", layout),
            )
        made[f"space_to_depth {layout}"] = case(
            lambda v, ly=layout: relay.nn.space_to_depth(v, 2, ly),
            lambda v, ly=layout: meaning("nn.space_to_depth", v, block_size=2, layout=ly),
            turned(x, "NCHW", layout),
        )
    for block, pads in [((2, 2), ((0, 0), (0, 0))), ((2, 3), ((0, 0), (2, 0))), ((2,), ((1, 1),))]:
        made[f"space_to_batch_nd {block} {pads}"] = case(
            lambda v, b=block, p=pads: relay.nn.space_to_batch_nd(v, b, p),
            lambda v, b=block, p=pads: meaning(
                "nn.space_to_batch_nd", v, block_shape=b, paddings=p
            ),
            reals(2, 4, 4, 1),
        )
    made["space_to_batch_nd value"] = case(
        lambda v: relay.nn.space_to_batch_nd(v, (2,), ((1, 0),), pad_value=5.0),
        lambda v: meaning(
            "nn.space_to_batch_nd", v, block_shape=(2,), paddings=((1, 0),), pad_value=5.0
        ),
        reals(2, 3, 2),
    )
    for block, crops in [((2, 2), ((0, 0), (0, 0))), ((2, 2), ((0, 0), (2, 0))), ((4,), ((1, 2),))]:
        made[f"batch_to_space_nd {block} {crops}"] = case(
            lambda v, b=block, c=crops: relay.nn.batch_to_space_nd(v, b, c),
            lambda v, b=block, c=crops: meaning("nn.batch_to_space_nd", v, block_shape=b, crops=c),
            reals(4, 2, 3, 2),
        )
    made["yolo_reorg"] = case(
        lambda v: relay.vision.yolo_reorg(v, stride=2),
        lambda v: meaning("vision.yolo_reorg", v, stride=2),
        reals(1, 4, 4, 6),
    )
    for layout, kernel in (("NCHW", "IHW"), ("NHWC", "HWI")):
        for strides, pads, dilations in [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 1, 0, 1), (1, 2))]:
            attrs = {
                "strides": strides,
                "padding": pads,
                "dilations": dilations,
                "data_layout": layout,
                "kernel_layout": kernel,
            }
            made[f"dilation2d {layout} {strides}"] = case(
                lambda v, w, a=attrs: relay.image.dilation2d(v, w, **a),
                lambda v, w, a=attrs: meaning("image.dilation2d", v, w, **a),
                turned(reals(1, 3, 5, 6), "NCHW", layout),
                turned(reals(3, 2, 3, seed=2), "IHW", kernel),
            )
    theta = reals(2, 2, 3)
    made["affine_grid"] = case(
        lambda t: relay.image.affine_grid(t, target_shape=(3, 4)),
        lambda t: meaning("image.affine_grid", t, target_shape=(3, 4)),
        theta,
    )
    grid = np.random.default_rng(3).uniform(-1.4, 1.4, (1, 2, 3, 4)).astype("float32")
    for k, method in enumerate(("bilinear", "nearest", "bicubic")):
        for pad in ("zeros", "border", "reflection"):
            for corners in (True, False) if k == 0 else (True,):
                attrs = {"method": method, "padding_mode": pad, "align_corners": corners}
                made[f"grid_sample {method} {pad} {corners}"] = case(
                    lambda v, g, a=attrs: relay.image.grid_sample(v, g, layout="NCHW", **a),
                    lambda v, g, a=attrs: meaning("image.grid_sample", v, g, **a),
                    IMAGE,
                    grid,
                    tolerance=1e-3,
                )
    cube = np.random.default_rng(3).uniform(-1.4, 1.4, (1, 3, 2, 2, 3)).astype("float32")
    made["grid_sample NCDHW"] = case(
        lambda v, g: relay.image.grid_sample(v, g, "bilinear", "NCDHW", "zeros", True),
        lambda v, g: meaning("image.grid_sample", v, g, layout="NCDHW"),
        reals(1, 2, 3, 3, 4),
        cube,
        tolerance=1e-3,
    )
    return made


def boxes() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(1, 3, 4, 6)
    for k, attrs in enumerate(
        [
            {},
            {"sizes": (0.5, 0.2), "ratios": (1.0, 2.0)},
            {"sizes": (0.3,), "steps": (0.1, 0.2), "offsets": (0.25, 0.5), "clip": True},
        ]
    ):
        made[f"multibox_prior {k}"] = case(
            lambda v, a=attrs: relay.vision.multibox_prior(v, **a),
            lambda v, a=attrs: meaning("vision.multibox_prior", v, **a),
            x,
        )
    found = np.random.default_rng(5).uniform(0, 1, (2, 5, 6)).astype("float32")
    found[..., 0] = np.floor(found[..., 0] * 3)
    for threshold, index, score in [(0.0, 0, 1), (0.5, 0, 1), (0.3, -1, 1)]:
        made[f"get_valid_counts {threshold} {index}"] = case(
            lambda v, a=(threshold, index, score): relay.vision.get_valid_counts(v, *a),
            lambda v, a=(threshold, index, score): meaning(
                "vision.get_valid_counts",
                v,
                np.float32(a[0]),
                score_threshold=None,
                id_index=a[1],
                score_index=a[2],
            ),
            found,
        )
    made["get_valid_counts of an input"] = case(
        relay.vision.get_valid_counts,
        lambda v, t: meaning("vision.get_valid_counts", v, t, score_threshold=None),
        found,
        np.float32(0.4),
    )
    sized = found.copy()
    sized[..., 4:] = sized[..., 2:4] + 0.4
    count, places = np.array([4, 3], "int32"), np.tile(np.arange(5, dtype="int32"), (2, 1))
    for k, attrs in enumerate(
        [
            {"return_indices": False},
            {"return_indices": False, "force_suppress": True, "top_k": 2},
            {"return_indices": False, "iou_threshold": 0.3, "invalid_to_bottom": True},
            {"return_indices": True, "max_output_size": 2},
            {"return_indices": True},
            {"return_indices": False, "id_index": -1, "coord_start": 2, "score_index": 1},
        ]
    ):
        made[f"non_max_suppression {k}"] = case(
            lambda v, c, i, a=attrs: relay.vision.non_max_suppression(v, c, i, **a),
            lambda v, c, i, a=attrs: suppressed(v, c, i, **a),
            sized,
            count,
            places,
        )
    corners = np.sort(np.random.default_rng(7).uniform(0, 1, (1, 6, 2, 2)), 2)
    four = corners.reshape(1, 6, 4).astype("float32")
    marks = positive(1, 3, 6)
    for kind in ("onnx", "tensorflow"):
        made[f"all_class_non_max_suppression {kind}"] = case(
            lambda b, s, k=kind: relay.vision.all_class_non_max_suppression(
                b, s, 2, 0.4, 0.3, output_format=k
            ),
            lambda b, s, k=kind: meaning(
                "vision.all_class_non_max_suppression",
                b,
                s,
                np.int64(2),
                np.float32(0.4),
                np.float32(0.3),
                output_format=k,
            ),
            four,
            marks,
        )
    made["regular_non_max_suppression"] = case(
        lambda b, s: relay.vision.regular_non_max_suppression(b, s, 2, 4, 3, 0.5, 0.2),
        lambda b, s: meaning(
            "vision.regular_non_max_suppression",
            b,
            s,
            max_detections_per_class=2,
            max_detections=4,
            num_classes=3,
            iou_threshold=0.5,
            score_threshold=0.2,
        ),
        four,
        np.ascontiguousarray(marks.transpose(0, 2, 1)),
    )
    scores, offsets = positive(1, 3, 4), reals(1, 16) * np.float32(0.1)
    anchors = np.sort(np.random.default_rng(8).uniform(0, 1, (1, 4, 2, 2)), 2)
    for k, attrs in enumerate(
        [
            {},
            {"clip": False, "threshold": 0.5},
            {"variances": (0.2, 0.2, 0.3, 0.3), "keep_background": True},
        ]
    ):
        made[f"multibox_transform_loc {k}"] = case(
            lambda *v, a=attrs: relay.vision.multibox_transform_loc(*v, **a),
            lambda *v, a=attrs: meaning("vision.multibox_transform_loc", *v, **a),
            scores,
            offsets,
            anchors.reshape(1, 4, 4).astype("float32"),
            tolerance=1e-4,
        )
    return made


def suppressed(*arrays: Any, **attrs: Any) -> Any:
    limits = (
        np.int32(attrs.pop("max_output_size", -1)),
        np.float32(attrs.pop("iou_threshold", 0.5)),
    )
    return meaning("vision.non_max_suppression", *arrays, *limits, **attrs)


def regions() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(2, 3, 6, 7)
    rois = np.array([[0, 0.5, 1, 5, 4], [1, 0, 0, 3.2, 5.1], [0, 2, 2, 2.5, 2.5]], "float32")
    for layout in ("NCHW", "NHWC"):
        for mode in ("avg", "max"):
            for ratio in (-1, 2):
                attrs = {
                    "pooled_size": (2, 3),
                    "spatial_scale": 0.8,
                    "sample_ratio": ratio,
                    "mode": mode,
                }
                want = meaning("vision.roi_align", x, rois, **attrs)
                made[f"roi_align {layout} {mode} {ratio}"] = case(
                    lambda v, r, a=attrs, ly=layout: relay.vision.roi_align(v, r, layout=ly, **a),
                    turned(want, "NCHW", layout),
                    turned(x, "NCHW", layout),
                    rois,
                    tolerance=1e-4,
                )
    for scale in (1.0, 0.5):
        made[f"roi_pool {scale}"] = case(
            lambda v, r, s=scale: relay.vision.roi_pool(v, r, (2, 2), s),
            lambda v, r, s=scale: meaning(
                "vision.roi_pool", v, r, pooled_size=(2, 2), spatial_scale=s
            ),
            x,
            np.floor(rois),
        )
    attrs: dict[str, Any] = {
        "scales": (0.5,),
        "ratios": (0.5, 1.0),
        "feature_stride": 8,
        "rpn_min_size": 4,
        "threshold": 0.7,
        "rpn_pre_nms_top_n": 20,
        "rpn_post_nms_top_n": 5,
    }
    given = [
        positive(1, 4, 2, 3),
        reals(1, 8, 2, 3) * np.float32(0.1),
        np.array([[32.0, 40.0, 1.0]], "float32"),
    ]
    for loss in (False, True):
        named = {**attrs, "iou_loss": loss}
        made[f"proposal {loss}"] = case(
            lambda *v, a=named: relay.vision.proposal(*v, **a),
            lambda *v, a=named: meaning("vision.proposal", *v, **a),
            *given,
            tolerance=1e-3,
        )
    kernel, image = reals(4, 2, 3, 3), reals(1, 2, 5, 4)
    for name, groups, more in [
        ("plain", 1, {}),
        ("padding", 1, {"padding": (1, 1)}),
        ("strides", 1, {"strides": (2, 1), "padding": (1, 0)}),
        ("two groups of offsets", 2, {"padding": (1, 1)}),
        ("dilation", 1, {"dilation": (2, 1), "padding": (2, 1)}),
    ]:
        named = {"deformable_groups": groups, "kernel_size": (3, 3), "channels": 4, **more}
        pads = {"padding": (0, 0), "strides": (1, 1), "dilation": (1, 1), **more}
        size = [
            (image.shape[2 + d] + 2 * pads["padding"][d] - pads["dilation"][d] * 2 - 1)
            // pads["strides"][d]
            + 1
            for d in range(2)
        ]
        offset = reals(1, 18 * groups, *size, seed=4)
        made[f"deformable_conv2d {name}"] = case(
            lambda *v, a=named: relay.nn.deformable_conv2d(*v, **a),
            lambda *v, a=named: meaning("nn.deformable_conv2d", *v, **a),
            image,
            offset,
            kernel,
            tolerance=1e-3,
        )
    return made


PROGRAMS = {
    "resized": Program(resized(), "graph"),
    "moved": Program(moved(), "vm"),
    "boxes": Program(boxes(), "debug"),
    "regions": Program(regions(), "graph"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
