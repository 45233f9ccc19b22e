"""Quantised operators: scales and zero points of whole tensors and of channels, roundings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay.suite.expressions import Case, Program, case, counts, meaning, parameters, reals
from tests.relay.suite.layouts import turned
from tvm_disc import relay


def f(value: Any) -> relay.Constant:
    """A scale."""
    return relay.const(np.asarray(value, "float32"))


def i(value: Any) -> relay.Constant:
    """A zero point."""
    return relay.const(np.asarray(value, "int32"))


LIMITS = {d: (np.iinfo(d).min, np.iinfo(d).max) for d in ("int8", "uint8", "int16", "int32")}


def quantized(x: Any, scale: Any, zero: Any, dtype: str = "int8") -> np.ndarray:
    low, high = LIMITS[dtype]
    return np.clip(away(np.asarray(x, "float64") / scale) + zero, low, high).astype(dtype)


def away(x: Any) -> np.ndarray:
    """The nearest whole number, of two the one further from 0."""
    return np.asarray(np.sign(x) * np.floor(np.abs(x) + 0.5))


def real(x: np.ndarray, scale: Any, zero: Any) -> np.ndarray:
    return np.asarray((x.astype("float64") - zero) * scale)


def column(values: Any, axis: int, rank: int) -> np.ndarray:
    return np.reshape(values, [-1 if a == axis % rank else 1 for a in range(rank)])


def steps() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(3, 4) * np.float32(20)
    for dtype, scale, zero in [
        ("int8", 0.5, 0),
        ("uint8", 0.25, 127),
        ("int8", 0.1, -5),
        ("int16", 0.01, 3),
        ("int32", 0.001, 7),
    ]:
        made[f"quantize {dtype} {scale}"] = case(
            lambda v, a=(scale, zero, dtype): relay.qnn.op.quantize(
                v, f(a[0]), i(a[1]), out_dtype=a[2]
            ),
            quantized(x, np.float32(scale), zero, dtype),
            x,
        )
        q = counts(3, 4, below=100, dtype=dtype)
        made[f"dequantize {dtype} {scale}"] = case(
            lambda v, a=(scale, zero): relay.qnn.op.dequantize(v, f(a[0]), i(a[1])),
            real(q, np.float32(scale), zero).astype("float32"),
            q,
        )
    scales, zeros = [0.5, 0.25, 0.1, 1.0], [0, 5, -3, 1]
    for axis, n in ((0, 3), (1, 4), (-1, 4)):
        s, z = column(np.float32(scales[:n]), axis, 2), column(zeros[:n], axis, 2)
        made[f"quantize axis {axis}"] = case(
            lambda v, a=axis, n=n: relay.qnn.op.quantize(v, f(scales[:n]), i(zeros[:n]), axis=a),
            quantized(x, s, z),
            x,
        )
        q = counts(3, 4, below=100, least=-100, dtype="int8")
        made[f"dequantize axis {axis}"] = case(
            lambda v, a=axis, n=n: relay.qnn.op.dequantize(v, f(scales[:n]), i(zeros[:n]), axis=a),
            real(q, s, z).astype("float32"),
            q,
        )
    made["dequantize float16"] = case(
        lambda v: relay.qnn.op.dequantize(v, f(0.5), i(1), out_dtype="float16"),
        real(counts(5, dtype="uint8"), 0.5, 1).astype("float16"),
        counts(5, dtype="uint8"),
    )
    wide = np.array([-300, -129, -5, -3, -1, 0, 1, 2, 3, 5, 129, 300], "int32")
    for rounding in ("UPWARD", "TONEAREST"):
        for compute in ("int64", "float32", "float64"):
            for scale in ((1.0, 0.5), (0.5, 1.0), (0.3, 0.7)):
                attrs = {"rounding": rounding, "compute_dtype": compute}
                ratio = np.float64(np.float32(scale[0])) / np.float64(np.float32(scale[1]))
                scaled = wide * ratio
                whole = np.floor(scaled + 0.5) if rounding == "UPWARD" else away(scaled)
                made[f"requantize {rounding} {compute} {scale}"] = case(
                    lambda v, s=scale, a=attrs: relay.qnn.op.requantize(
                        v, f(s[0]), i(0), f(s[1]), i(0), **a
                    ),
                    np.clip(whole, -128, 127).astype("int8"),
                    wide,
                )
    for zi, zo, dtype in [(3, 5, "int8"), (-2, 120, "uint8"), (0, -7, "int32")]:
        low, high = LIMITS[dtype]
        made[f"requantize zero points {zi} {zo} {dtype}"] = case(
            lambda v, a=(zi, zo, dtype): relay.qnn.op.requantize(
                v, f(1.0), i(a[0]), f(2.0), i(a[1]), out_dtype=a[2]
            ),
            np.clip(np.floor((wide - zi) / 2 + 0.5) + zo, low, high).astype(dtype),
            wide,
        )
    q = counts(2, 3, below=90, dtype="int32")
    for axis, n in ((0, 2), (1, 3)):
        made[f"requantize axis {axis}"] = case(
            lambda v, a=axis, n=n: relay.qnn.op.requantize(
                v, f([0.5, 0.25, 2.0][:n]), i(0), f(1.0), i(4), axis=a
            ),
            np.clip(
                np.floor(q * column([0.5, 0.25, 2.0][:n], axis, 2) + 0.5) + 4, -128, 127
            ).astype("int8"),
            q,
        )
    for name in ("simulated_quantize", "simulated_dequantize"):
        made[name] = case(
            lambda v, n=name: getattr(relay.qnn.op, n)(v, f(0.5), i(3)),
            lambda v, n=name: meaning(f"qnn.{n}", v, np.int32(1), np.float32([0.5]), np.int32([3])),
            x,
        )
    return made


def pairs() -> dict[str, Case]:
    made: dict[str, Case] = {}
    rows: list[tuple[str, Callable[..., Any]]] = [
        ("add", np.add),
        ("subtract", np.subtract),
        ("mul", np.multiply),
    ]
    for name, plain in rows:
        for dtype, (sa, za), (sb, zb), (so, zo) in [
            ("uint8", (0.5, 0), (0.5, 0), (0.5, 0)),
            ("uint8", (0.25, 3), (0.5, 9), (1.0, 7)),
            ("int8", (0.5, -4), (0.25, 2), (0.5, 1)),
            ("int8", (0.125, 0), (0.125, 0), (2.0, -3)),
        ]:
            least = 0 if dtype[0] == "u" else -60
            a, b = (
                counts(3, 4, below=60, least=least, dtype=dtype),
                counts(4, below=61, least=least, dtype=dtype),
            )
            want = plain(real(a, sa, za), real(b, sb, zb)) / so
            low, high = LIMITS[dtype]
            made[f"{name} {dtype} {sa} {sb} {so}"] = case(
                lambda v, w, n=name, p=(sa, za, sb, zb, so, zo): getattr(relay.qnn.op, n)(
                    v, w, f(p[0]), i(p[1]), f(p[2]), i(p[3]), f(p[4]), i(p[5])
                ),
                np.clip(np.floor(want + 0.5) + zo, low, high).astype(dtype),
                a,
                b,
                tolerance=1.01,
            )
    parts = [counts(2, 3, below=90, dtype="uint8"), counts(2, 2, below=80, dtype="uint8")]
    for axis in (1, -1):
        want = np.concatenate(
            [
                quantized(real(p, s, z), 0.5, 4, "uint8")
                for p, s, z in zip(parts, (0.5, 0.25), (4, 1), strict=True)
            ],
            axis,
        )
        made[f"concatenate {axis}"] = case(
            lambda a, b, k=axis: relay.qnn.op.concatenate(
                (a, b), (f(0.5), f(0.25)), (i(4), i(1)), f(0.5), i(4), axis=k
            ),
            want,
            *parts,
            tolerance=1.01,
        )
    made["concatenate alike"] = case(
        lambda a, b: relay.qnn.op.concatenate(
            relay.Tuple((a, b)),
            relay.Tuple([f(1.0)] * 2),
            relay.Tuple([i(0)] * 2),
            f(1.0),
            i(0),
            axis=1,
        ),
        np.concatenate(parts, 1),
        *parts,
    )
    return made


def elementwise() -> dict[str, Case]:
    made: dict[str, Case] = {}
    plain: dict[str, Any] = {
        "abs": np.abs,
        "exp": np.exp,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "log": np.log,
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "erf": lambda x: meaning("erf", x.astype("float32")),
        "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    }
    for name, want in plain.items():
        for dtype, zero, (so, zo) in [("uint8", 0, (0.05, 1)), ("int8", -128, (0.02, -100))]:
            x = counts(2, 5, below=100, least=1, dtype=dtype)
            given = real(x, np.float32(0.03), zero)
            made[f"{name} {dtype}"] = case(
                lambda v, n=name, p=(0.03, zero, so, zo): getattr(relay.qnn.op, n)(
                    v, f(p[0]), i(p[1]), f(p[2]), i(p[3])
                ),
                quantized(want(given), np.float32(so), zo, dtype),
                x,
                tolerance=1.01,
            )
    x = counts(3, 4, below=100, least=-100, dtype="int8")
    for alpha, zi, zo in [(0.1, 0, 0), (0.25, 3, -5)]:
        given = real(x, 0.25, zi)
        made[f"leaky_relu {alpha}"] = case(
            lambda v, a=(alpha, zi, zo): relay.qnn.op.leaky_relu(
                v, a[0], f(0.25), i(a[1]), f(0.5), i(a[2])
            ),
            quantized(np.where(given < 0, alpha * given, given), 0.5, zo),
            x,
            tolerance=1.01,
        )
    for axis in (-1, 0):
        e = real(x, np.float32(0.02), 3)
        e = np.exp(e - e.max(axis, keepdims=True))
        made[f"softmax {axis}"] = case(
            lambda v, a=axis: relay.qnn.op.softmax(v, f(0.02), i(3), f(1 / 256), i(-128), axis=a),
            quantized(e / e.sum(axis, keepdims=True), 1 / 256, -128),
            x,
            tolerance=3.01,
        )
    image = counts(1, 2, 4, 5, below=90, dtype="uint8")
    for layout in ("NCHW", "NHWC"):
        for scale, zero in ((0.5, 3), (0.25, 7)):
            mean = real(image, 0.5, 3)[:, :, :, :4].reshape(1, 2, 2, 2, 2, 2).mean((3, 5))
            made[f"avg_pool2d {layout} {scale}"] = case(
                lambda v, ly=layout, s=scale, z=zero: relay.qnn.op.avg_pool2d(
                    v,
                    f(0.5),
                    i(3),
                    f(s),
                    i(z),
                    pool_size=(2, 2),
                    strides=(2, 2),
                    padding=(0, 0),
                    dilation=(1, 1),
                    layout=ly,
                ),
                turned(quantized(mean, scale, zero, "uint8"), "NCHW", layout),
                turned(image, "NCHW", layout),
                tolerance=1.01,
            )
    return made


def products() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for a, b, za, zb in [
        ("uint8", "uint8", 0, 0),
        ("uint8", "int8", 5, -3),
        ("int8", "int8", -7, 2),
        ("int8", "int8", 0, 4),
        ("uint8", "uint8", 9, 8),
    ]:
        x = counts(3, 6, below=90, dtype=a)
        w = counts(4, 6, below=80, least=0 if b[0] == "u" else -80, dtype=b)
        want = (x.astype("int32") - za) @ (w.astype("int32") - zb).T
        made[f"dense {a} {b} {za} {zb}"] = case(
            lambda v, k, z=(za, zb): relay.qnn.op.dense(
                v, k, i(z[0]), i(z[1]), f(0.5), f(0.25), units=4
            ),
            want,
            x,
            w,
        )
        y, u = np.stack([x, x[::-1]]), np.stack([w, w[::-1]])
        made[f"batch_matmul {a} {b} {za} {zb}"] = case(
            lambda v, k, z=(za, zb): relay.qnn.op.batch_matmul(
                v, k, i(z[0]), i(z[1]), f(0.5), f(0.25)
            ),
            (y.astype("int32") - za) @ (u.astype("int32") - zb).transpose(0, 2, 1),
            y,
            u,
        )
        image = counts(1, 4, 5, 4, below=70, dtype=a)
        kernel = counts(6, 4, 3, 2, below=60, least=0 if b[0] == "u" else -60, dtype=b)
        made |= convolutions(f"{a} {b} {za} {zb}", image, kernel, za, zb)
    x, w = counts(2, 3, below=50, dtype="int8"), counts(4, 3, below=51, dtype="int8")
    made["dense, requantized by channel"] = case(
        lambda v, k: relay.qnn.op.requantize(
            relay.qnn.op.dense(v, k, i(1), i(0), f(0.5), f([0.5, 1.0, 0.25, 2.0]), units=4),
            f([0.25, 0.5, 0.125, 1.0]),
            i(0),
            f(8.0),
            i(3),
            axis=1,
        ),
        np.clip(
            np.floor(
                ((x.astype("int32") - 1) @ w.astype("int32").T)
                * np.array([0.25, 0.5, 0.125, 1.0])
                / 8
                + 0.5
            )
            + 3,
            -128,
            127,
        ).astype("int8"),
        x,
        w,
    )
    made["dense of inputs"] = case(
        lambda v, k, za, zb: relay.qnn.op.dense(v, k, za, zb, f(0.5), f(0.5), units=4),
        (x.astype("int32") - 2) @ (w.astype("int32") - 3).T,
        x,
        w,
        np.int32(2),
        np.int32(3),
    )
    return made


def convolutions(name: str, x: np.ndarray, w: np.ndarray, za: int, zb: int) -> dict[str, Case]:
    made: dict[str, Case] = {}
    variants: list[tuple[str, dict[str, Any]]] = [
        ("plain", {}),
        ("padding", {"padding": (1, 1)}),
        ("strides", {"strides": (2, 1)}),
        ("dilation", {"dilation": (2, 1)}),
        ("four paddings", {"padding": (1, 0, 2, 1)}),
    ]
    shifted, kernel = x.astype("int32") - za, w.astype("int32") - zb
    for label, attrs in variants:
        want = meaning("nn.conv2d", shifted, kernel, **attrs)
        made[f"conv2d {name} {label}"] = case(
            lambda v, k, a=attrs: relay.qnn.op.conv2d(
                v, k, i(za), i(zb), f(0.5), f(0.25), kernel_size=(3, 2), channels=6, **a
            ),
            want.astype("int32"),
            x,
            w,
        )
    want = meaning("nn.conv2d", shifted, kernel).astype("int32")
    made[f"conv2d {name} NHWC"] = case(
        lambda v, k: relay.qnn.op.conv2d(
            v,
            k,
            i(za),
            i(zb),
            f(0.5),
            f(0.25),
            kernel_size=(3, 2),
            channels=6,
            data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        turned(want, "NCHW", "NHWC"),
        turned(x, "NCHW", "NHWC"),
        turned(w, "OIHW", "HWIO"),
    )
    one = w[:4, :1]
    want = meaning("nn.conv2d", shifted, kernel[:4, :1], groups=4, padding=(1, 1)).astype("int32")
    made[f"conv2d {name} depthwise"] = case(
        lambda v, k: relay.qnn.op.conv2d(
            v,
            k,
            i(za),
            i(zb),
            f(0.5),
            f(0.25),
            kernel_size=(3, 2),
            channels=4,
            groups=4,
            padding=(1, 1),
        ),
        want,
        x,
        one,
    )
    two = w[:4, :2]
    want = meaning("nn.conv2d", shifted, kernel[:4, :2].reshape(8, 1, 3, 2), groups=4)
    made[f"conv2d {name} multiplier"] = case(
        lambda v, k: relay.qnn.op.conv2d(
            v, k, i(za), i(zb), f(0.5), f(0.25), kernel_size=(3, 2), channels=8, groups=4
        ),
        want.astype("int32"),
        x,
        two,
    )
    want = meaning("nn.conv2d", shifted, kernel[:, :2], groups=2).astype("int32")
    made[f"conv2d {name} groups"] = case(
        lambda v, k: relay.qnn.op.conv2d(
            v, k, i(za), i(zb), f(0.5), f(0.25), kernel_size=(3, 2), channels=6, groups=2
        ),
        want,
        x,
        np.ascontiguousarray(w[:, :2]),
    )
    turn = np.ascontiguousarray(w.transpose(1, 0, 2, 3))
    for label, attrs in (
        ("", {}),
        (" strides", {"strides": (2, 2), "output_padding": (1, 1)}),
        (" padding", {"padding": (1, 1)}),
    ):
        want = meaning("nn.conv2d_transpose", shifted, turn.astype("int32") - zb, **attrs)
        made[f"conv2d_transpose {name}{label}"] = case(
            lambda v, k, a=attrs: relay.qnn.op.conv2d_transpose(
                v, k, i(za), i(zb), f(0.5), f(0.25), channels=6, kernel_size=(3, 2), **a
            ),
            want.astype("int32"),
            x,
            turn,
        )
    return made


PROGRAMS = {
    "steps": Program(steps(), "graph"),
    "pairs": Program(pairs(), "vm"),
    "elementwise": Program(elementwise(), "debug"),
    "products": Program(products(), "graph"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
