"""Convolutions, pooling, padding, normalisation over a window, upsampling: layouts and windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.relay.suite.expressions import Case, Program, case, counts, meaning, parameters, reals
from tests.relay.suite.layouts import turned
from tvm_disc import relay

SPACE = {1: "W", 2: "HW", 3: "DHW"}


def conv(
    rank: int,
    dims: tuple[int, ...],
    kernel: tuple[int, ...],
    layout: str = "",
    kernel_layout: str = "",
    dtypes: tuple[str, str] = ("float32", "float32"),
    named: Mapping[str, Any] | None = None,
    **attrs: Any,
) -> Case:
    """A convolution whose dims are given in channels-first order."""
    data, weights = f"NC{SPACE[rank]}", f"OI{SPACE[rank]}"
    op = f"nn.conv{rank}d"
    makers = [counts if d[0] in "iu" else reals for d in dtypes]
    x, w = makers[0](*dims, dtype=dtypes[0]), makers[1](*kernel, dtype=dtypes[1])
    layouts = {"data_layout": layout, "kernel_layout": kernel_layout}
    layouts = {k: v for k, v in layouts.items() if v}

    each = {k: (v,) * rank if isinstance(v, int) else v for k, v in attrs.items()}
    each |= {k: attrs[k] for k in ("groups", "channels") if k in attrs}

    def want(*_: Any) -> np.ndarray:
        out = np.asarray(meaning(op, x, w, **each))
        return turned(out, data, attrs.get("out_layout") or layout or data)

    def build(a: Any, b: Any) -> Any:
        return getattr(relay.nn, f"conv{rank}d")(a, b, **layouts, **attrs, **(named or {}))

    given = turned(x, data, layout or data), turned(w, weights, kernel_layout or weights)
    return case(build, want, *given, tolerance=2e-2 if "16" in dtypes[0] else 1e-4)


def convolutions() -> dict[str, Case]:
    made = {
        "1d": conv(1, (2, 3, 9), (4, 3, 3), padding=1, channels=4, kernel_size=3),
        "1d strides": conv(1, (1, 3, 9), (4, 3, 3), strides=2, dilation=2),
        "1d two paddings": conv(1, (1, 2, 6), (3, 2, 2), padding=(0, 1)),
        "1d NWC": conv(1, (2, 3, 7), (5, 3, 3), "NWC", "WIO"),
        "1d groups": conv(1, (1, 4, 6), (6, 2, 3), groups=2, channels=6),
        "3d": conv(3, (1, 2, 4, 5, 6), (3, 2, 3, 3, 3), padding=(1, 1, 1)),
        "3d six paddings": conv(3, (1, 2, 4, 5, 6), (3, 2, 2, 3, 1), padding=(1, 0, 1, 0, 1, 0)),
        "3d NDHWC": conv(3, (2, 2, 4, 4, 5), (3, 2, 3, 1, 3), "NDHWC", "DHWIO", strides=(1, 2, 1)),
        "3d groups": conv(3, (1, 4, 3, 3, 3), (4, 2, 2, 2, 2), groups=2, channels=4),
    }
    wide, kernel = (1, 4, 7, 6), (6, 4, 3, 3)
    for name, attrs in {
        "plain": {},
        "one padding": {"padding": 1},
        "two paddings": {"padding": (2, 1)},
        "four paddings": {"padding": (0, 1, 2, 1)},
        "strides": {"strides": (2, 3)},
        "one stride": {"strides": 2, "padding": (1, 1)},
        "dilation": {"dilation": (2, 1)},
        "channels": {"channels": 6, "kernel_size": (3, 3)},
        "out_layout": {"out_layout": "NHWC"},
        "blocks": {"out_layout": "NCHW3c"},
    }.items():
        made[f"2d {name}"] = conv(2, wide, kernel, **attrs)
    for layout, kernel_layout in [
        ("NHWC", "HWIO"),
        ("NHWC", "OHWI"),
        ("HWCN", "HWIO"),
        ("NCHW2c", "OIHW"),
        ("NCHW2c", "OIHW2i3o"),
        ("NHWC", "OIHW"),
        ("NCHW1n2c", "OIHW3o2i"),
    ]:
        attrs = {"channels": 6, "kernel_size": (3, 3), "padding": (1, 1)}
        made[f"2d {layout} {kernel_layout}"] = conv(2, wide, kernel, layout, kernel_layout, **attrs)
    for groups, c, o in [(2, 4, 6), (4, 4, 4), (4, 4, 8), (3, 6, 3)]:
        attrs = {"groups": groups, "channels": o, "kernel_size": (3, 3)}
        made[f"2d groups {groups} {c} {o}"] = conv(2, (1, c, 5, 5), (o, c // groups, 3, 3), **attrs)
    for a, b, out in [
        ("int8", "int8", "int32"),
        ("uint8", "int8", "int32"),
        ("float16", "float16", "float32"),
        ("float16", "float16", ""),
        ("int32", "int32", "int32"),
        ("float64", "float64", ""),
    ]:
        attrs = {"out_dtype": out, "channels": 6, "kernel_size": (3, 3)}
        made[f"2d {a} {b} {out}"] = conv(2, wide, kernel, dtypes=(a, b), **attrs)
    made["2d NHWC int8"] = conv(
        2,
        wide,
        kernel,
        "NHWC",
        "HWIO",
        dtypes=("int8", "int8"),
        out_dtype="int32",
        channels=6,
        kernel_size=(3, 3),
    )
    made["depthwise NHWC"] = depthwise("NHWC", "HWOI", 1)
    made["depthwise NHWC multiplier"] = depthwise("NHWC", "HWOI", 2)
    made["depthwise multiplier"] = depthwise("NCHW", "OIHW", 2)
    return made


def depthwise(layout: str, kernel_layout: str, multiplier: int) -> Case:
    """One kernel per channel, the multiplier in the kernel's second axis."""
    x, w = reals(2, 4, 5, 6), reals(4, multiplier, 3, 3)
    attrs = {"groups": 4, "channels": 4 * multiplier, "kernel_size": (3, 3), "padding": (1, 1)}
    want = meaning("nn.conv2d", x, w.reshape(4 * multiplier, 1, 3, 3), **attrs)
    return case(
        lambda a, b: relay.nn.conv2d(
            a, b, data_layout=layout, kernel_layout=kernel_layout, **attrs
        ),
        turned(want, "NCHW", layout),
        turned(x, "NCHW", layout),
        turned(w, "OIHW", kernel_layout),
        tolerance=1e-4,
    )


def transposed() -> dict[str, Case]:
    made: dict[str, Case] = {}

    def add(
        name: str,
        rank: int,
        dims: Any,
        kernel: Any,
        layout: str = "",
        kernel_layout: str = "",
        **attrs: Any,
    ) -> None:
        data, weights = f"NC{SPACE[rank]}", f"IO{SPACE[rank]}"
        x, w = reals(*dims), reals(*kernel)
        op = f"conv{rank}d_transpose"
        layouts = {"data_layout": layout or data, "kernel_layout": kernel_layout or weights}
        want = meaning(f"nn.{op}", x, w, **attrs)
        made[name] = case(
            lambda a, b: getattr(relay.nn, op)(a, b, **layouts, **attrs),
            turned(want, data, layout or data),
            turned(x, data, layouts["data_layout"]),
            turned(w, weights, layouts["kernel_layout"]),
            tolerance=1e-4,
        )

    add(
        "1d",
        1,
        (1, 3, 6),
        (3, 4, 3),
        channels=4,
        kernel_size=(3,),
        strides=(2,),
        padding=(1,),
        output_padding=(1,),
    )
    add("1d NWC", 1, (1, 3, 6), (3, 4, 3), "NWC", "WIO", channels=4, kernel_size=(3,))
    add(
        "2d",
        2,
        (1, 3, 5, 4),
        (3, 4, 3, 3),
        channels=4,
        kernel_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1),
        output_padding=(1, 1),
    )
    add("2d plain", 2, (2, 3, 5, 4), (3, 4, 2, 3))
    add(
        "2d four paddings",
        2,
        (1, 3, 5, 4),
        (3, 4, 3, 3),
        padding=(0, 1, 2, 1),
        strides=(1, 2),
        channels=4,
        kernel_size=(3, 3),
    )
    add(
        "2d NHWC",
        2,
        (1, 3, 5, 4),
        (3, 4, 3, 3),
        "NHWC",
        "HWIO",
        channels=4,
        kernel_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1),
    )
    add(
        "2d NHWC OIHW",
        2,
        (1, 3, 5, 4),
        (3, 4, 3, 3),
        "NHWC",
        "OIHW",
        channels=4,
        kernel_size=(3, 3),
    )
    add(
        "2d groups",
        2,
        (1, 4, 4, 4),
        (4, 3, 3, 3),
        groups=2,
        channels=6,
        kernel_size=(3, 3),
        strides=(2, 2),
    )
    add(
        "2d one kernel per channel",
        2,
        (1, 4, 4, 4),
        (4, 1, 3, 3),
        groups=4,
        channels=4,
        kernel_size=(3, 3),
        padding=(1, 1),
    )
    add(
        "2d dilation",
        2,
        (1, 3, 5, 4),
        (3, 4, 3, 3),
        dilation=(2, 1),
        channels=4,
        kernel_size=(3, 3),
    )
    add("1d groups", 1, (1, 4, 5), (4, 2, 3), groups=2, channels=4, kernel_size=(3,))
    add(
        "3d",
        3,
        (1, 2, 3, 4, 3),
        (2, 3, 2, 2, 2),
        channels=3,
        kernel_size=(2, 2, 2),
        strides=(2, 1, 1),
        padding=(1, 0, 0),
        output_padding=(1, 0, 0),
    )
    add(
        "3d groups",
        3,
        (1, 4, 3, 3, 3),
        (4, 1, 2, 2, 2),
        groups=2,
        channels=2,
        kernel_size=(2, 2, 2),
    )
    return made


POOLS: list[tuple[str, int, dict[str, Any]]] = [
    ("plain", 2, {"pool_size": (2, 2)}),
    ("strides", 2, {"pool_size": (3, 2), "strides": (2, 1)}),
    ("padding", 2, {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
    ("one padding", 2, {"pool_size": 3, "strides": 2, "padding": 1}),
    ("four paddings", 2, {"pool_size": (3, 3), "strides": (2, 2), "padding": (0, 1, 2, 1)}),
    ("dilation", 2, {"pool_size": (2, 2), "dilation": (2, 3)}),
    ("ceil_mode", 2, {"pool_size": (2, 2), "strides": (3, 3), "ceil_mode": True}),
    (
        "ceil_mode padding",
        2,
        {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "ceil_mode": True},
    ),
    ("NHWC", 2, {"pool_size": (2, 2), "strides": (2, 2), "layout": "NHWC"}),
    ("NCHW2c", 2, {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW2c"}),
    ("out_layout", 2, {"pool_size": (2, 2), "out_layout": "NHWC"}),
    ("1d", 1, {"pool_size": (3,), "strides": (2,), "padding": (1,)}),
    ("1d numbers", 1, {"pool_size": 2, "strides": 2, "padding": (0, 1)}),
    ("1d dilation", 1, {"pool_size": 2, "dilation": 2}),
    ("1d NWC", 1, {"pool_size": (2,), "layout": "NWC"}),
    ("1d ceil_mode", 1, {"pool_size": 2, "strides": 4, "ceil_mode": True}),
    ("3d", 3, {"pool_size": (2, 2, 2), "strides": (2, 1, 2)}),
    ("3d padding", 3, {"pool_size": (3, 3, 3), "strides": (2, 2, 2), "padding": (1, 1, 1)}),
    ("3d six paddings", 3, {"pool_size": (2, 3, 2), "padding": (1, 0, 1, 0, 2, 1)}),
    ("3d NDHWC", 3, {"pool_size": (2, 2, 2), "layout": "NDHWC"}),
    ("3d dilation", 3, {"pool_size": (2, 2, 2), "dilation": (2, 1, 1)}),
]


def pools() -> dict[str, Case]:
    made: dict[str, Case] = {}
    dims: dict[int, Any] = {1: (1, 3, 8), 2: (2, 4, 6, 7), 3: (1, 2, 4, 5, 6)}
    for kind in ("max", "avg"):
        for name, rank, attrs in POOLS:
            for counted in (False, True) if kind == "avg" and "padding" in name else (None,):
                more = {} if counted is None else {"count_include_pad": counted}
                label = f"{kind} {name}" + ("" if counted is None else f" {counted}")
                made[label] = pool(kind, rank, dims[rank], {**attrs, **more})
    for dtype in ("int32", "float16", "uint8", "int8"):
        x = counts(1, 2, 5, 5, dtype=dtype)
        made[f"max {dtype}"] = case(
            lambda v: relay.nn.max_pool2d(v, (2, 2), (2, 2), padding=(1, 1)),
            lambda v: meaning("nn.max_pool2d", v, pool_size=(2, 2), strides=(2, 2), padding=(1, 1)),
            x,
        )
    for dtype in ("int32", "uint16", "uint8", "int8"):
        made[f"avg {dtype}"] = case(
            lambda v: relay.nn.avg_pool2d(v, (2, 2), (2, 2)),
            lambda v: v.reshape(1, 2, 2, 2, 3, 2).mean((3, 5)).astype(v.dtype),
            counts(1, 2, 4, 6, below=99, dtype=dtype),
        )
    x = reals(2, 3, 4, 5)
    made |= {
        "global max": case(relay.nn.global_max_pool2d, x.max((2, 3), keepdims=True), x),
        "global avg": case(relay.nn.global_avg_pool2d, x.mean((2, 3), keepdims=True), x),
        "global avg NHWC": case(
            lambda v: relay.nn.global_avg_pool2d(v, layout="NHWC"),
            x.mean((1, 2), keepdims=True),
            x,
        ),
        "global max 1d": case(
            relay.nn.global_max_pool1d, lambda v: v.max(2, keepdims=True), reals(2, 3, 5)
        ),
        "global avg 3d": case(
            relay.nn.global_avg_pool3d,
            lambda v: v.mean((2, 3, 4), keepdims=True),
            reals(1, 2, 3, 2, 2),
        ),
        "padding alone": case(
            lambda v: relay.nn.max_pool3d(v, (1, 1, 1), padding=(1, 1, 1)),
            lambda v: meaning("nn.max_pool3d", v, pool_size=(1, 1, 1), padding=(1, 1, 1)),
            reals(1, 1, 1, 2, 1),
        ),
        "max_pool2d_grad": case(
            lambda g, v: relay.nn.max_pool2d_grad(g, v, (2, 2), (2, 2)),
            lambda g, v: meaning("nn.max_pool2d_grad", g, v, pool_size=(2, 2), strides=(2, 2)),
            reals(1, 2, 2, 2, seed=5),
            reals(1, 2, 4, 4),
        ),
        "avg_pool2d_grad": case(
            lambda g, v: relay.nn.avg_pool2d_grad(
                g, v, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), count_include_pad=True
            ),
            lambda g, v: meaning(
                "nn.avg_pool2d_grad",
                g,
                v,
                pool_size=(3, 3),
                strides=(2, 2),
                padding=(1, 1),
                count_include_pad=True,
            ),
            reals(1, 2, 2, 2, seed=5),
            reals(1, 2, 4, 4),
        ),
    }
    return made


def pool(kind: str, rank: int, dims: tuple[int, ...], attrs: Mapping[str, Any]) -> Case:
    """Pooling whose dims are given in channels-first order."""
    plain = f"NC{SPACE[rank]}"
    layout = attrs.get("layout", plain)
    asked = {k: v for k, v in attrs.items() if k not in ("layout", "out_layout")}
    for key, value in asked.items():
        if isinstance(value, int) and not isinstance(value, bool):
            asked[key] = (value,) * rank
    x = reals(*dims)
    want = np.asarray(meaning(f"nn.{kind}_pool{rank}d", x, **asked))
    return case(
        lambda v: getattr(relay.nn, f"{kind}_pool{rank}d")(v, **attrs),
        turned(want, plain, attrs.get("out_layout") or layout),
        turned(x, plain, layout),
    )


def padded() -> dict[str, Case]:
    x = reals(2, 3, 4)
    return {
        "constant": case(
            lambda v: relay.nn.pad(v, ((1, 1), (0, 2), (3, 0))),
            np.pad(x, ((1, 1), (0, 2), (3, 0))),
            x,
        ),
        "value": case(
            lambda v: relay.nn.pad(v, ((0, 0), (1, 0), (0, 1)), 7.5),
            np.pad(x, ((0, 0), (1, 0), (0, 1)), constant_values=7.5),
            x,
        ),
        "an input as value": case(
            lambda v, p: relay.nn.pad(v, ((1, 0), (0, 0), (0, 1)), p),
            np.pad(x, ((1, 0), (0, 0), (0, 1)), constant_values=3),
            x,
            np.float32(3),
        ),
        "edge": case(
            lambda v: relay.nn.pad(v, ((0, 0), (1, 2), (2, 1)), pad_mode="edge"),
            np.pad(x, ((0, 0), (1, 2), (2, 1)), "edge"),
            x,
        ),
        "reflect": case(
            lambda v: relay.nn.pad(v, ((0, 0), (1, 2), (2, 1)), pad_mode="reflect"),
            np.pad(x, ((0, 0), (1, 2), (2, 1)), "reflect"),
            x,
        ),
        "taken away": case(
            lambda v: relay.nn.pad(v, ((-1, 0), (0, 1), (-1, -1))),
            np.pad(x[1:, :, 1:-1], ((0, 0), (0, 1), (0, 0))),
            x,
        ),
        "int8": case(
            lambda v: relay.nn.pad(v, ((1, 1), (0, 1)), pad_value=3),
            lambda v: np.pad(v, ((1, 1), (0, 1)), constant_values=3),
            counts(2, 2, dtype="int8"),
        ),
        "mirror SYMMETRIC": case(
            lambda v: relay.nn.mirror_pad(v, ((0, 0), (1, 1), (2, 2))),
            np.pad(x, ((0, 0), (1, 1), (2, 2)), "symmetric"),
            x,
        ),
        "mirror REFLECT": case(
            lambda v: relay.nn.mirror_pad(v, ((1, 1), (0, 1), (2, 2)), mode="REFLECT"),
            np.pad(x, ((1, 1), (0, 1), (2, 2)), "reflect"),
            x,
        ),
        "flatten": case(relay.nn.batch_flatten, x.reshape(2, 12), x),
        "flatten rank 4": case(
            relay.nn.batch_flatten, lambda v: v.reshape(3, 8), reals(3, 2, 1, 4)
        ),
        "l2_normalize": case(
            lambda v: relay.nn.l2_normalize(v, eps=1e-3, axis=[1]),
            lambda v: meaning("nn.l2_normalize", v, eps=1e-3, axis=[1]),
            x,
        ),
        "l2_normalize two": case(
            lambda v: relay.nn.l2_normalize(v, 1e-3, axis=[1, 2]),
            lambda v: meaning("nn.l2_normalize", v, eps=1e-3, axis=[1, 2]),
            x,
        ),
        "lrn": case(
            lambda v: relay.nn.lrn(v, size=3, axis=1, bias=1.0, alpha=0.5, beta=0.75),
            lambda v: meaning("nn.lrn", v, size=3, axis=1, bias=1.0, alpha=0.5, beta=0.75),
            reals(1, 5, 2, 3),
            tolerance=1e-4,
        ),
        "lrn NHWC": case(
            lambda v: relay.nn.lrn(v, size=3, axis=3, bias=2, alpha=0.1, beta=0.5),
            lambda v: meaning("nn.lrn", v, size=3, axis=3, bias=2, alpha=0.1, beta=0.5),
            reals(1, 2, 3, 5),
            tolerance=1e-4,
        ),
        "dilate": case(
            lambda v: relay.nn.dilate(v, (2, 1, 3)),
            lambda v: meaning("nn.dilate", v, strides=(2, 1, 3)),
            x,
        ),
        "dilate value": case(
            lambda v: relay.nn.dilate(v, (1, 2, 2), dilation_value=1.5),
            lambda v: meaning("nn.dilate", v, strides=(1, 2, 2), dilation_value=1.5),
            x,
        ),
        "bitpack": case(
            lambda v: relay.nn.bitpack(v, bits=2, pack_axis=1, bit_axis=2, pack_type="uint32"),
            lambda v: meaning("nn.bitpack", v, bits=2, pack_axis=1, bit_axis=2, pack_type="uint32"),
            counts(2, 64, 3, below=4, dtype="uint32"),
        ),
        "correlation": case(
            lambda a, b: relay.nn.correlation(a, b, 1, 2, 1, 1, 2, True, "NCHW"),
            lambda a, b: meaning(
                "nn.correlation",
                a,
                b,
                kernel_size=1,
                max_displacement=2,
                stride1=1,
                stride2=1,
                padding=(2, 2),
                is_multiply=True,
            ),
            reals(1, 3, 5, 5),
            reals(1, 3, 5, 5, seed=9),
        ),
    }


def upsampled() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(1, 2, 3, 4)
    for layout in ("NCHW", "NHWC"):
        for method, more in [
            ("nearest_neighbor", {}),
            ("bilinear", {}),
            ("bilinear", {"align_corners": True}),
            ("bicubic", {}),
        ]:
            want = meaning("nn.upsampling", x, scale_h=2.0, scale_w=3.0, method=method, **more)
            made[f"{layout} {method} {more}"] = case(
                lambda v, m=method, n=more, ly=layout: relay.nn.upsampling(
                    v, scale_h=2, scale_w=3, layout=ly, method=m, **n
                ),
                turned(want, "NCHW", layout),
                turned(x, "NCHW", layout),
                tolerance=1e-4,
            )
    made["a fraction"] = case(
        lambda v: relay.nn.upsampling(v, 2.5, 0.5),
        lambda v: meaning("nn.upsampling", v, scale_h=2.5, scale_w=0.5),
        reals(1, 1, 4, 6),
    )
    y = reals(1, 2, 2, 3, 2)
    for method in ("nearest_neighbor", "trilinear"):
        for mode in ("half_pixel", "align_corners", "asymmetric"):
            if method == "nearest_neighbor" and mode == "align_corners":
                continue
            attrs = {"method": method, "coordinate_transformation_mode": mode}
            made[f"3d {method} {mode}"] = case(
                lambda v, a=attrs: relay.nn.upsampling3d(v, 2, 2, 3, **a),
                lambda v, a=attrs: meaning(
                    "nn.upsampling3d", v, scale_d=2.0, scale_h=2.0, scale_w=3.0, **a
                ),
                y,
                tolerance=1e-4,
            )
    made["3d NDHWC"] = case(
        lambda v: relay.nn.upsampling3d(
            v, 1, 2, 2, layout="NDHWC", coordinate_transformation_mode="asymmetric"
        ),
        turned(y.repeat(2, 3).repeat(2, 4), "NCDHW", "NDHWC"),
        turned(y, "NCDHW", "NDHWC"),
    )
    return made


PROGRAMS = {
    "conv": Program(convolutions(), "graph"),
    "transpose": Program(transposed(), "vm"),
    "pool": Program(pools(), "graph"),
    "pad": Program(padded(), "debug"),
    "upsampling": Program(upsampled(), "aot"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
