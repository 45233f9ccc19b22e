"""Sums back to a shape, products of batches, adaptive pooling, masks, diagonals, losses."""

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

X = reals(2, 3, 4)


def shaped() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for to in ((3, 4), (1, 4), (3, 1), (2, 1, 4), (4,), (1,)):
        made[f"collapse_sum_like {to}"] = case(
            relay.collapse_sum_like, lambda v, w: meaning("collapse_sum_like", v, w), X, reals(*to)
        )
        made[f"collapse_sum_to {to}"] = case(
            lambda v, s=to: relay.collapse_sum_to(v, s),
            lambda v, s=to: meaning("collapse_sum_like", v, np.zeros(s, "float32")),
            X,
        )
    for to in ((2, 3, 4), (5, 2, 3, 4)):
        made[f"broadcast_to {to}"] = case(
            lambda v, s=to: relay.broadcast_to(v, s), np.broadcast_to(X, to), X
        )
    made |= {
        "broadcast_to int64": case(
            lambda v: relay.broadcast_to(v, relay.const(np.array([1, 5, 6], "int64"))),
            np.broadcast_to(reals(5, 1), (1, 5, 6)),
            reals(5, 1),
        ),
        "broadcast_to_like": case(
            relay.broadcast_to_like, np.broadcast_to(X[:, :1], X.shape), X[:, :1], X
        ),
        "slice_like": case(relay.slice_like, X[:1, :2, :3], X, reals(1, 2, 3)),
        "slice_like axes": case(
            lambda a, b: relay.slice_like(a, b, axes=(1, 2)), X[:, :2, :3], X, reals(2, 2, 3)
        ),
        "slice_like axis from behind": case(
            lambda a, b: relay.slice_like(a, b, axes=(-1,)), X[..., :2], X, reals(3, 3, 2)
        ),
        "shape_of": case(relay.shape_of, np.array([2, 3, 4], "int32"), X),
        "shape_of int64": case(lambda v: relay.shape_of(v, "int64"), np.array([2, 3, 4]), X),
        "ndarray_size": case(lambda v: relay.ndarray_size(v, dtype="int64"), np.int64(24), X),
        "checkpoint": case(lambda v: relay.annotation.checkpoint(v + v), X + X, X),
        "layout_transform": case(
            lambda v: relay.layout_transform(v, "NCHW", "NHWC"),
            lambda v: v.transpose(0, 2, 3, 1),
            reals(1, 4, 2, 3),
        ),
        "layout_transform to blocks": case(
            lambda v: relay.layout_transform(v, "NCHW", "NCHW2c"),
            lambda v: turned(v, "NCHW", "NCHW2c"),
            reals(1, 4, 2, 3),
        ),
        "layout_transform from blocks": case(
            lambda v: relay.layout_transform(v, "NCHW2c", "NCHW"),
            lambda v: v.transpose(0, 1, 4, 2, 3).reshape(1, 4, 2, 3),
            reals(1, 2, 2, 3, 2),
        ),
    }
    for ta in (False, True):
        for tb in (False, True):
            a, b = reals(2, 3, 4), reals(2, 4, 5)
            made[f"batch_matmul {ta} {tb}"] = case(
                lambda v, w, f=(ta, tb): relay.nn.batch_matmul(
                    v, w, transpose_a=f[0], transpose_b=f[1]
                ),
                a @ b,
                np.ascontiguousarray(a.transpose(0, 2, 1)) if ta else a,
                np.ascontiguousarray(b.transpose(0, 2, 1)) if tb else b,
            )
    a, b = counts(2, 3, 8, dtype="int8"), counts(1, 4, 8, dtype="int8")
    made["batch_matmul int8, one broadcast"] = case(
        lambda v, w: relay.nn.batch_matmul(v, w, out_dtype="int32"),
        a.astype("int32") @ b.astype("int32").transpose(0, 2, 1),
        a,
        b,
    )
    return made


def pooled() -> dict[str, Case]:
    made: dict[str, Case] = {}
    dims: dict[int, Any] = {1: (2, 3, 7), 2: (1, 3, 5, 6), 3: (1, 2, 4, 5, 3)}
    plain = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
    for kind in ("avg", "max"):
        for rank, sizes in {1: [(1,), (3,)], 2: [(1, 1), (2, 4), (5, 6)], 3: [(2, 2, 3)]}.items():
            for k, size in enumerate(sizes):
                layout = plain[rank] if k % 2 == 0 else plain[rank].replace("C", "") + "C"
                x = reals(*dims[rank])
                want = meaning(f"nn.adaptive_{kind}_pool{rank}d", x, output_size=size)
                made[f"adaptive_{kind}_pool{rank}d {size} {layout}"] = case(
                    lambda v, n=f"adaptive_{kind}_pool{rank}d", s=size, ly=layout: getattr(
                        relay.nn, n
                    )(v, s, layout=ly),
                    turned(want, plain[rank], layout),
                    turned(x, plain[rank], layout),
                )
        made[f"adaptive_{kind}_pool2d of one number"] = case(
            lambda v, k=kind: getattr(relay.nn, f"adaptive_{k}_pool2d")(v, 3),
            lambda v, k=kind: meaning(f"nn.adaptive_{k}_pool2d", v, output_size=(3, 3)),
            reals(1, 2, 4, 5),
        )
        made[f"adaptive_{kind}_pool2d as it is"] = case(
            lambda v, k=kind: getattr(relay.nn, f"adaptive_{k}_pool2d")(v),
            lambda v: v,
            reals(1, 2, 4, 5),
        )
    return made


def masked() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for axis in (0, 1):
        for value in (0.0, -1.5):
            lengths = np.array([1, 3, 0], "int32")[: X.shape[1 - axis]]
            made[f"sequence_mask {axis} {value}"] = case(
                lambda v, n, a=axis, m=value: relay.sequence_mask(v, n, m, a),
                lambda v, n, a=axis, m=value: meaning("sequence_mask", v, n, mask_value=m, axis=a),
                X,
                lengths,
            )
    where = counts(2, 3, below=4)
    for axis in (-1, 0, 1):
        for dtype in ("float32", "int32"):
            made[f"one_hot {axis} {dtype}"] = case(
                lambda v, a=axis, d=dtype: relay.one_hot(
                    v, relay.const(3, d), relay.const(-1, d), 5, a, d
                ),
                np.moveaxis(
                    np.where(np.eye(5, dtype="bool")[where], 3, -1).astype(dtype), -1, axis
                ),
                where,
            )
    for k, dims in [
        ((0, 0), (2, 3)),
        ((1, 1), (2, 3)),
        ((-1, 0), (2, 2, 3)),
        ((-1, 1), (2, 3, 3)),
        ((-2, -1), (2, 2, 2)),
    ]:
        for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
            if k[0] == k[1] and align != "RIGHT_LEFT":
                continue
            sides = {
                "super_diag_right_align": align.startswith("RIGHT"),
                "sub_diag_right_align": align.endswith("RIGHT"),
            }
            made[f"matrix_set_diag {k} {align}"] = case(
                lambda v, d, k=k, a=align: relay.matrix_set_diag(v, d, k, a),
                lambda v, d, k=k, s=sides: meaning("matrix_set_diag", v, d, k1=k[0], k2=k[1], **s),
                X,
                reals(*dims, seed=3),
            )
    scores = np.log(positive(4, 3))
    target, weights = np.array([2, 0, 1, 2], "int32"), positive(3, seed=2)
    for reduction in ("mean", "sum", "none"):
        for ignored in (-100, 2):
            attrs = {"reduction": reduction, "ignore_index": ignored}
            made[f"nll_loss {reduction} {ignored}"] = case(
                lambda *v, a=attrs: relay.nn.nll_loss(*v, **a),
                lambda *v, a=attrs: meaning("nn.nll_loss", *v, **a),
                scores,
                target,
                weights,
            )
    made["nll_loss of images"] = case(
        lambda *v: relay.nn.nll_loss(*v),
        lambda *v: meaning("nn.nll_loss", *v, ignore_index=-100),
        np.log(positive(2, 3, 2, 2)),
        counts(2, 2, 2, below=3),
        weights,
    )
    p, t = positive(3, 4), positive(3, 4, seed=4)
    made["cross_entropy"] = case(
        relay.nn.cross_entropy, lambda a, b: meaning("nn.cross_entropy", a, b), p, t
    )
    made["cross_entropy_with_logits"] = case(
        relay.nn.cross_entropy_with_logits,
        lambda a, b: meaning("nn.cross_entropy_with_logits", a, b),
        p,
        t,
    )
    made["fifo_buffer"] = case(
        lambda d, b: relay.nn.fifo_buffer(d, b, axis=1),
        lambda d, b: np.concatenate((b[:, 1:], d), 1),
        reals(2, 1, 3),
        reals(2, 4, 3),
    )
    return made


PROGRAMS = {
    "shaped": Program(shaped(), "graph"),
    "pooled": Program(pooled(), "vm"),
    "masked": Program(masked(), "debug"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
