"""Operators whose sizes, codes, axes and factors are tensors that a program is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.suite.expressions import Case, Program, case, counts, meaning, parameters, reals
from tvm_disc import relay
from tvm_disc.errors import GuardFailed

X = reals(2, 3, 4)


def line(*values: Any, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


def shapes() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for codes, want in [
        ((4, 6, 1), (4, 6, 1)),
        ((-1, 2, 3), (4, 2, 3)),
        ((0, -1, 2), (2, 6, 2)),
        ((0, 0, 0), (2, 3, 4)),
        ((-3, 4, 1), (6, 4, 1)),
        ((12, 1, -1), (12, 1, 2)),
    ]:
        for dtype in ("int64", "int32")[: 2 if codes[0] == -1 else 1]:
            made[f"reshape {codes} {dtype}"] = case(
                relay.reshape, X.reshape(want), X, line(*codes, dtype=dtype)
            )
    made |= {
        "reshape dyn": case(relay.op.dyn.reshape, X.reshape(8, 3), X, line(8, 3)),
        "reshape of a result": case(
            lambda v, s: relay.reshape(relay.nn.relu(v), s) * relay.const(2.0),
            np.maximum(X, 0).reshape(-1, 2) * 2,
            X,
            line(12, 2),
        ),
        "reshape allowzero": case(
            lambda v, s: relay.reshape(v, s, allowzero=True),
            np.zeros((5, 0), "float32"),
            np.zeros((0, 3), "float32"),
            line(5, 0),
        ),
        "reshape to a shape": case(
            lambda v, w: relay.reshape(v, relay.shape_of(w)), X.reshape(6, 4), X, reals(6, 4)
        ),
        "expand_dims": case(
            lambda v, a: relay.expand_dims(v, a, 2), X[:, None, None], X, np.int64(1)
        ),
        "expand_dims behind": case(relay.op.dyn.expand_dims, X[..., None], X, np.int64(-1)),
    }
    ones = reals(1, 3, 1, 4)
    for axes in ((0, 2), (2, 0), (-2, 0), (0, -2)):
        made[f"squeeze {axes}"] = case(relay.squeeze, ones.squeeze(), ones, line(*axes))
    made["squeeze one"] = case(relay.op.dyn.squeeze, ones.squeeze(2), ones, line(2))
    for to in ((5, 2, 3, 4), (2, 3, 4)):
        made[f"broadcast_to {to}"] = case(relay.broadcast_to, np.broadcast_to(X, to), X, line(*to))
    made["broadcast_to dyn"] = case(
        relay.op.dyn.broadcast_to,
        np.broadcast_to(X[:1], X.shape),
        X[:1],
        line(2, 3, 4, dtype="int32"),
    )
    for reps in ((2, 1, 3), (2, 2, 1, 1), (3,)):
        made[f"tile {reps}"] = case(relay.tile, np.tile(X, reps), X, line(*reps))
    for name in ("zeros", "ones"):
        for to in ((2, 5), (0, 3), ()):
            made[f"{name} {to}"] = case(
                lambda _, s, n=name: getattr(relay, n)(s, "float32"),
                getattr(np, name)(to, "float32"),
                X,  # not read: first inputs have unknown dims, and a shape's length is the rank
                np.array(to, "int64"),
            )
    for dtype in ("float32", "int32"):
        made[f"full {dtype}"] = case(
            lambda v, s, d=dtype: relay.full(v, s, d),
            np.full((3, 2), 7, dtype),
            np.array(7, dtype),
            line(3, 2),
        )
    made["full default"] = case(relay.full, np.full(4, 2.5, "float32"), np.float32(2.5), line(4))
    return made


def slices() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(5, 6, 4)
    for begin, end, strides in [
        ((0, 1, 0), (4, 6, 3), (1, 2, 1)),
        ((-3, -100, 1), (5, 100, 100), (1, 3, 2)),
        ((4, 5, 3), (0, 1, 0), (-1, -2, -1)),
        ((2, 2, 2), (2, 9, 3), (1, 1, 1)),
        ((1, 0, 3), (3, -1, 1), (1, 1, -1)),
    ]:
        cut = tuple(slice(*v) for v in zip(begin, end, strides, strict=True))
        made[f"strided_slice {begin} {end}"] = case(
            relay.strided_slice, x[cut], x, line(*begin), line(*end), line(*strides)
        )
        made[f"strided_slice of ends {begin} {end}"] = case(
            lambda v, b, e, s=strides: relay.strided_slice(v, b, e, list(s)),
            x[cut],
            x,
            line(*begin, dtype="int32"),
            line(*end, dtype="int32"),
        )
    made["strided_slice of leading axes"] = case(
        lambda v, b, e: relay.strided_slice(v, b, e, relay.const(np.array([1, 2]))),
        x[1:4, 0:6:2],
        x,
        line(1, 0),
        line(4, 6),
    )
    made["strided_slice of sizes"] = case(
        lambda v, b, e: relay.strided_slice(v, b, e, slice_mode="size"),
        x[1:3, 2:6, 0:4],
        x,
        line(1, 2, 0),
        line(2, -1, 4),
    )
    made["strided_slice by computed ends"] = case(
        lambda v, w: relay.strided_slice(
            v, relay.const(np.array([0, 0, 0])), relay.cast(relay.shape_of(w), "int64")
        ),
        x[:2, :3, :4],
        x,
        X,
    )
    for widths in (((1, 2), (0, 0), (3, 1)), ((0, 0), (-1, 1), (0, -2))):
        pads = np.array(widths, "int64")
        wide = np.pad(
            x[:, 1:, :2] if widths[1][0] < 0 else x, np.maximum(pads, 0), constant_values=2.5
        )
        made[f"pad {widths}"] = case(lambda v, w: relay.nn.pad(v, w, 2.5), wide, x, pads)
    made["pad by a value"] = case(
        lambda v, w, p: relay.nn.pad(v, w, p),
        np.pad(X, 1, constant_values=9),
        X,
        np.ones((3, 2), "int32"),
        np.float32(9),
    )
    return made


def picks() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for k in (1, 3):
        for axis, up in ((-1, False), (0, True), (1, False)):
            if k > X.shape[axis]:
                continue
            places = np.take(np.argsort(X if up else -X, axis, kind="stable"), range(k), axis)
            both = [np.take_along_axis(X, places, axis), places.astype("int64")]
            for kind in ("both", "values", "indices"):
                want: Any = both if kind == "both" else both[kind == "indices"]
                made[f"topk {k} {axis} {kind}"] = case(
                    lambda v, n, a=(axis, kind, up): relay.topk(v, n, *a, "int64"), want, X, line(k)
                )
    where = counts(2, 3, below=4)
    for axis in (-1, 0, 1):
        made[f"one_hot {axis}"] = case(
            lambda v, d, a=axis: relay.one_hot(
                v, relay.const(1.0), relay.const(0.0), d, a, "float32"
            ),
            np.moveaxis(np.eye(5, dtype="float32")[where], -1, axis),
            where,
            np.int32(5),
        )
    made["one_hot int32"] = case(
        lambda v, on, off, d: relay.one_hot(v, on, off, d, -1, "int32"),
        np.where(np.arange(4) == where[..., None], 7, -1).astype("int32"),
        where,
        np.int32(7),
        np.int32(-1),
        np.int32(4),
    )
    for shape, at, values in [
        ((5,), line(3, 1), line(7, 8)),
        ((2, 3), [[0, 1], [1, 2]], line(4, 5)),
        ((6,), np.int64(2), np.int64(9)),
    ]:
        want = np.zeros(shape, "int64")
        want[tuple(np.array(at).T) if len(shape) > 1 else at] = values
        made[f"sparse_to_dense {shape}"] = case(
            lambda i, v, s: relay.sparse_to_dense(i, s, v),
            want,
            np.array(at, "int64"),
            values,
            np.array(shape, "int64"),
        )
    made["sparse_to_dense default"] = case(
        lambda i, v, s, d: relay.sparse_to_dense(i, s, v, d),
        line(3, 3, 1, 3),
        line(2),
        line(1),
        line(4),
        np.int64(3),
    )
    coords = np.array([[0, 0], [1, 2], [3, 4]], "int64")
    for to in ((20,), (2, -1), (-1, 2, 5)):
        made[f"sparse_reshape {to}"] = case(
            relay.sparse_reshape,
            lambda i, p, n: meaning("sparse_reshape", i, p, n),
            coords,
            line(4, 5),
            line(*to),
        )
    made["arange"] = case(
        lambda a, b, c: relay.arange(a, b, c, "int32"),
        np.arange(2, 11, 4, dtype="int32"),
        np.int32(2),
        np.int32(11),
        np.int32(4),
    )
    for upper in (True, False):
        made[f"trilu {upper}"] = case(
            lambda v, k, u=upper: relay.trilu(v, k, u),
            np.triu(X, 1) if upper else np.tril(X, 1),
            X,
            np.int64(1),
        )
    return made


def upsampled() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(1, 2, 3, 4)
    for layout in ("NCHW", "NHWC"):
        for method in ("nearest_neighbor", "bilinear"):
            for corners in (False, True)[: 1 if method[0] == "n" else 2]:
                attrs = {"layout": layout, "method": method, "align_corners": corners}
                made[f"upsampling {layout} {method} {corners}"] = case(
                    lambda v, h, w, a=attrs: relay.nn.upsampling(v, h, w, **a),
                    lambda v, h, w, a=attrs: meaning(
                        "nn.upsampling", v, scale_h=2.0, scale_w=3.0, **a
                    ),
                    x,
                    np.float32(2),
                    np.float32(3),
                    tolerance=1e-4,
                )
    return made


def upsampled_3d() -> dict[str, Case]:
    made: dict[str, Case] = {}
    cube = reals(1, 1, 2, 3, 2)
    for method in ("nearest_neighbor", "trilinear"):
        mode = {"method": method, "coordinate_transformation_mode": "asymmetric"}
        made[f"upsampling3d {method}"] = case(
            lambda v, *s, a=mode: relay.nn.upsampling3d(v, *s, **a),
            lambda v, *s, a=mode: meaning(
                "nn.upsampling3d", v, scale_d=2.0, scale_h=1.0, scale_w=3.0, **a
            ),
            cube,
            *np.array([2, 1, 3], "float32"),
            tolerance=1e-4,
        )
    return made


def resized() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(1, 2, 3, 4)
    for method, mode in [
        ("linear", "half_pixel"),
        ("nearest_neighbor", "asymmetric"),
        ("cubic", "align_corners"),
        ("linear", "align_corners"),
    ]:
        attrs = {"method": method, "coordinate_transformation_mode": mode, "rounding_method": ""}
        made[f"resize2d {method} {mode}"] = case(
            lambda v, s, a=attrs: relay.image.resize2d(v, s, None, "NCHW", **a),
            lambda v, s, a=attrs: meaning("image.resize2d", v, size=(5, 7), **a),
            x,
            line(5, 7),
            tolerance=1e-4,
        )
    made["resize2d to a size"] = case(
        lambda v, w: relay.image.resize2d(
            v, relay.strided_slice(relay.shape_of(w, "int64"), [2], [4]), method="linear"
        ),
        lambda v, w: meaning("image.resize2d", v, size=w.shape[2:]),
        x,
        reals(1, 1, 6, 2),
        tolerance=1e-4,
    )
    return made


TABLES = {
    "shapes": (shapes, "vm"),
    "slices": (slices, "debug"),
    "picks": (picks, "vm"),
    "upsampled": (upsampled, "debug"),
    "upsampled 3d": (upsampled_3d, "vm"),
    "resized": (resized, "debug"),
}
PROGRAMS = {
    f"{name}, {'unknown' if unknown else 'known'} dims": Program(make(), kind, unknown)
    for name, (make, kind) in TABLES.items()
    for unknown in (False, True)
}
# The number of coordinates or of dims must be known, in Relay too.
for _name, _program in PROGRAMS.items():
    if "unknown" in _name:
        _program.fixed = frozenset([1, 2, 3])


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)


@pytest.mark.parametrize(
    ("build", "inputs", "message"),
    [
        (relay.reshape, (X, line(5, 5)), r"dyn\.reshape"),
        (relay.broadcast_to, (X, line(2, 3, 5)), r"dyn\.broadcast_to"),
        (relay.squeeze, (X, line(0, 1)), r"dyn\.squeeze"),
        (lambda v, a: relay.expand_dims(v, a), (X, np.int64(7)), "axis must be between"),
        (lambda v, s: relay.strided_slice(v, line(0), line(1), s), (X, line(0)), "the slice step"),
    ],
    ids=["reshape", "broadcast_to", "squeeze", "expand_dims", "strided_slice"],
)
def test_refused_when_it_runs(build: Any, inputs: Any, message: str) -> None:
    params = [relay.var(f"v{k}", shape=v.shape, dtype=str(v.dtype)) for k, v in enumerate(inputs)]
    run = relay.create_executor("vm").evaluate(relay.Function(params, build(*params)))
    with pytest.raises(GuardFailed, match=message):
        run(*inputs)
