"""Programs whose inputs have unknown dims: every family of operators, lists, loops, branches."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.loops import while_loop

from tests.relay.suite.expressions import (
    COUNTED,
    Case,
    Program,
    case,
    counts,
    meaning,
    parameters,
    reals,
)
from tvm_disc import relay

X = reals(2, 3, 4)


def elementwise() -> dict[str, Case]:
    return {
        "broadcast": case(relay.add, np.add, X, reals(3, 1)),
        "broadcast of ones": case(relay.multiply, np.multiply, reals(1, 4), reals(3, 1)),
        "compared": case(relay.less, np.less, X, reals(4)),
        "unary": case(
            lambda v: relay.sqrt(relay.exp(relay.negative(v))), lambda v: np.sqrt(np.exp(-v)), X
        ),
        "zeros_like": case(relay.zeros_like, np.zeros_like, X),
        "full_like": case(lambda v: relay.full_like(v, relay.const(3.0)), np.full_like(X, 3), X),
        "cast_like": case(relay.cast_like, lambda a, b: a.astype("int32"), X, counts(2)),
        "where": case(relay.where, lambda c, a, b: np.where(c, a, b), X > 0, X, reals(3, 1)),
        "sum": case(
            lambda v: relay.sum(v, axis=(0, 2), keepdims=True), X.sum((0, 2), keepdims=True), X
        ),
        "argmax": case(lambda v: relay.argmax(v, axis=1), X.argmax(1).astype("int32"), X),
        "variance": case(lambda v: relay.variance(v, axis=1), X.var(1), X),
        "all": case(lambda v: relay.all(v, axis=0), lambda v: v.all(0), X > 0),
        "softmax": case(relay.nn.softmax, lambda v: meaning("nn.softmax", v), X),
        "cumsum": case(lambda v: relay.cumsum(v, axis=1), X.cumsum(1), X),
        "shape_of": case(
            lambda v: relay.shape_of(relay.concatenate((v, v), 1), "int64"), np.array([2, 6, 4]), X
        ),
        "ndarray_size": case(relay.ndarray_size, np.int32(24), X),
        "a number of dims": case(
            lambda v: relay.take(relay.shape_of(v), relay.const(1)) * relay.const(2), np.int32(6), X
        ),
    }


def moved() -> dict[str, Case]:
    where = counts(2, 2, below=3)
    return {
        "reshape": case(lambda v: relay.reshape(v, (-1, 4)), X.reshape(6, 4), X),
        "reshape 0": case(lambda v: relay.reshape(v, (0, -1)), X.reshape(2, 12), X),
        "reshape -2": case(lambda v: relay.reshape(v, (-2,)), X, X),
        "reshape -3": case(lambda v: relay.reshape(v, (-3, 0)), X.reshape(6, 4), X),
        "reshape -4": case(lambda v: relay.reshape(v, (0, 0, -4, 2, -1)), X.reshape(2, 3, 2, 2), X),
        "reshape_like": case(relay.reshape_like, X.reshape(6, 4), X, reals(6, 4)),
        "reverse_reshape": case(lambda v: relay.reverse_reshape(v, (-1, 0)), X.reshape(6, 4), X),
        "expand_dims": case(lambda v: relay.expand_dims(v, 1, 2), X[:, None, None], X),
        "squeeze": case(lambda v: relay.squeeze(v, axis=[1]), lambda v: v.squeeze(1), X[:, :1]),
        "transpose": case(lambda v: relay.transpose(v, (1, 0, 2)), X.transpose(1, 0, 2), X),
        "batch_flatten": case(relay.nn.batch_flatten, X.reshape(2, 12), X),
        "concatenate": case(
            lambda *v: relay.concatenate(v, 1),
            lambda *v: np.concatenate(v, 1),
            X,
            X[:, :1],
            X[:, :0],
        ),
        "stack": case(lambda *v: relay.stack(v, 2), lambda *v: np.stack(v, 2), X, X + 1),
        "split": case(lambda v: relay.split(v, 3, 1), np.split(X, 3, 1), X),
        "split at places": case(lambda v: relay.split(v, (1, 3), 2), np.split(X, [1, 3], 2), X),
        "repeat": case(lambda v: relay.repeat(v, 2, 1), X.repeat(2, 1), X),
        "tile": case(lambda v: relay.tile(v, (2, 1, 3, 1)), np.tile(X, (2, 1, 3, 1)), X),
        "reverse": case(lambda v: relay.reverse(v, 1), X[:, ::-1], X),
        "layout_transform": case(
            lambda v: relay.layout_transform(v, "NCHW", "NHWC"),
            lambda v: v.transpose(0, 2, 3, 1),
            reals(1, 4, 2, 3),
        ),
        "strided_slice": case(
            lambda v: relay.strided_slice(v, [1, -2, 0], [2, 3, 4], [1, 1, 2]),
            X[1:2, -2:3, 0:4:2],
            X,
        ),
        "slice to another's dims": case(
            lambda v, w: relay.strided_slice(
                v, relay.const(np.array([0, 0, 0])), relay.cast(relay.shape_of(w), "int64")
            ),
            X[:1, :2, :4],
            X,
            reals(1, 2, 4),
        ),
        "slice_like": case(relay.slice_like, X[:1, :2, :3], X, reals(1, 2, 3)),
        "take": case(lambda v, i: relay.take(v, i, axis=1), np.take(X, where, 1), X, where),
        "take of all": case(relay.take, np.take(X, where), X, where),
        "gather": case(
            lambda v, i: relay.gather(v, 2, i),
            np.take_along_axis(X, counts(2, 3, 2, below=4), 2),
            X,
            counts(2, 3, 2, below=4),
        ),
        "gather_nd": case(
            lambda v, i: relay.gather_nd(v, relay.reshape(i, (2, -1))),
            X[tuple(where % 2)],
            X,
            where % 2,
        ),
        "adv_index": case(
            lambda v, i: relay.adv_index([v, i]), X[np.array([1, 0, 1])], X, np.array([1, 0, 1])
        ),
        "one_hot": case(
            lambda i: relay.one_hot(i, relay.const(1.0), relay.const(0.0), 4, -1, "float32"),
            np.eye(4, dtype="float32")[where],
            where,
        ),
        "scatter_nd": case(
            lambda v, i, u: relay.scatter_nd(v, relay.reshape(i, (1, -1)), u, "add"),
            lambda v, i, u: meaning("scatter_nd", v, i.reshape(1, -1), u, mode="add"),
            X,
            np.array([1, 1]),
            reals(2, 3, 4),
        ),
        "sequence_mask": case(
            lambda v, n: relay.sequence_mask(v, n, axis=1),
            lambda v, n: meaning("sequence_mask", v, n, axis=1),
            X,
            np.array([1, 2], "int32"),
        ),
    }


def of_data() -> dict[str, Case]:
    marks = np.array([[0, 2, 0, 1], [3, 0, 0, 0]], "float32")
    numbers = np.array([3, 1, 3, 2, 1], "int32")
    boxes = np.sort(np.random.default_rng(3).uniform(0, 1, (1, 5, 2, 2)), 2).reshape(1, 5, 4)
    boxes = boxes.astype("float32")
    rows = np.concatenate([np.zeros((1, 5, 1)), reals(1, 5, 1) + 2, boxes], 2).astype("float32")
    scores = np.random.default_rng(4).uniform(0, 1, (1, 2, 5)).astype("float32")
    sizes = np.int64(2), np.float32(0.4), np.float32(0.3)
    return {
        "arange": case(
            lambda n: relay.arange(n, dtype="int32"), np.arange(7, dtype="int32"), np.int32(7)
        ),
        "arange of three": case(
            lambda a, b, c: relay.arange(a, b, c, "int64"),
            np.arange(9, 1, -3),
            *np.array([9, 1, -3]),
        ),
        "argwhere": case(relay.argwhere, np.argwhere(marks).astype("int32"), marks),
        "argwhere of none": case(relay.argwhere, np.zeros((0, 1), "int32"), np.zeros(3, "bool")),
        "gathered": case(
            lambda v: relay.gather_nd(v, relay.transpose(relay.argwhere(v))),
            marks[marks != 0],
            marks,
        ),
        "added to the places": case(
            lambda v: relay.argwhere(v) + relay.const(1),
            np.argwhere(marks).astype("int32") + 1,
            marks,
        ),
        "unique": case(
            lambda v: relay.strided_slice(
                relay.unique(v)[0],
                relay.const(np.array([0])),
                relay.cast(relay.unique(v)[3], "int64"),
            ),
            np.array([1, 2, 3], "int32"),
            numbers,
        ),
        "topk": case(
            lambda v, k: relay.topk(v, k, ret_type="values"),
            -np.sort(-X, -1)[..., :2],
            X,
            np.int32(2),
        ),
        "topk of a size": case(
            lambda v, w: relay.topk(
                v, relay.take(relay.shape_of(w), relay.const(0)), axis=1, ret_type="values"
            ),
            -np.sort(-X, 1)[:, :2],
            X,
            reals(2),
        ),
        "sort": case(lambda v: relay.sort(v, axis=1), np.sort(X, 1), X),
        "argsort": case(
            lambda v: relay.argsort(v, is_ascend=False),
            np.argsort(-X, kind="stable").astype("int32"),
            X,
        ),
        "searchsorted": case(
            relay.searchsorted, lambda a, b: meaning("searchsorted", a, b), np.sort(X[0], -1), X[1]
        ),
        "non_max_suppression": case(
            lambda v: suppressed(*relay.vision.get_valid_counts(v, 0.5)), kept, rows
        ),
        "all_class_non_max_suppression": case(
            lambda b, s: relay.vision.all_class_non_max_suppression(b, s, 2, 0.4, 0.3)[1],
            lambda b, s: meaning(
                "vision.all_class_non_max_suppression", b, s, *sizes, output_format="onnx"
            )[1],
            boxes,
            scores,
        ),
        "sparse_to_dense": case(
            lambda i, v: relay.sparse_to_dense(i, (6,), v, relay.const(0)),
            np.array([0, 5, 0, 0, 6, 0], "int32"),
            np.array([1, 4]),
            np.array([5, 6], "int32"),
        ),
    }


def suppressed(count: Any, boxes: Any, places: Any) -> Any:
    return relay.vision.non_max_suppression(boxes, count, places, return_indices=False)


def kept(v: np.ndarray) -> Any:
    count, boxes, places = meaning(
        "vision.get_valid_counts", v, np.float32(0.5), score_threshold=None
    )
    return meaning(
        "vision.non_max_suppression",
        boxes,
        count,
        places,
        np.int32(-1),
        np.float32(0.5),
        return_indices=False,
    )


def networks() -> dict[str, Case]:
    x = reals(1, 3, 6, 5)
    window = {"pool_size": (2, 2), "strides": (2, 2), "padding": (1, 1)}
    return {
        "dense": case(relay.nn.dense, lambda a, b: a @ b.T, reals(3, 4), reals(5, 4)),
        "batch_matmul": case(
            relay.nn.batch_matmul, lambda a, b: a @ b.transpose(0, 2, 1), X, reals(2, 5, 4)
        ),
        "matmul of steps": case(
            lambda a, b: relay.nn.matmul(relay.nn.relu(a), b),
            lambda a, b: np.maximum(a, 0) @ b,
            reals(3, 4),
            reals(4, 2),
        ),
        "conv2d": case(
            lambda v, w: relay.nn.conv2d(v, w, padding=(1, 1)),
            lambda v, w: meaning("nn.conv2d", v, w, padding=(1, 1)),
            x,
            reals(4, 3, 3, 3),
            tolerance=1e-4,
        ),
        "conv1d": case(
            lambda v, w: relay.nn.conv1d(v, w, strides=2),
            lambda v, w: meaning("nn.conv1d", v, w, strides=(2,)),
            X,
            reals(2, 3, 2),
            tolerance=1e-4,
        ),
        "conv3d": case(
            relay.nn.conv3d,
            lambda v, w: meaning("nn.conv3d", v, w),
            reals(1, 2, 3, 4, 3),
            reals(2, 2, 2, 2, 2),
            tolerance=1e-4,
        ),
        "conv2d_transpose": case(
            lambda v, w: relay.nn.conv2d_transpose(v, w, strides=(2, 2)),
            lambda v, w: meaning("nn.conv2d_transpose", v, w, strides=(2, 2)),
            x,
            reals(3, 2, 3, 3),
            tolerance=1e-4,
        ),
        "max_pool2d": case(
            lambda v: relay.nn.max_pool2d(v, **window),
            lambda v: meaning("nn.max_pool2d", v, **window),
            x,
        ),
        "avg_pool2d": case(
            lambda v: relay.nn.avg_pool2d(v, **window),
            lambda v: meaning("nn.avg_pool2d", v, **window),
            x,
        ),
        "global_avg_pool2d": case(relay.nn.global_avg_pool2d, x.mean((2, 3), keepdims=True), x),
        "upsampling": case(lambda v: relay.nn.upsampling(v, 2, 3), x.repeat(2, 2).repeat(3, 3), x),
        "resize2d": case(
            lambda v: relay.image.resize2d(v, (4, 9)),
            lambda v: meaning("image.resize2d", v, size=(4, 9)),
            x,
            tolerance=1e-4,
        ),
        "pad": case(
            lambda v: relay.nn.pad(v, ((1, 0), (0, 2), (0, 0)), 3.0),
            np.pad(X, ((1, 0), (0, 2), (0, 0)), constant_values=3),
            X,
        ),
        "roi_align": case(
            lambda v, r: relay.vision.roi_align(v, r, (2, 2), 1.0, 2),
            lambda v, r: meaning(
                "vision.roi_align", v, r, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2
            ),
            x,
            np.array([[0, 0, 0, 4, 4], [0, 1, 1, 3, 2]], "float32"),
            tolerance=1e-4,
        ),
    }


def control() -> dict[str, Case]:
    def grown(n: Any) -> Any:
        start = relay.Var("list", relay.TensorType((relay.Any(),), "int32"))
        count = relay.var("count", shape=(), dtype="int32")
        loop = while_loop(
            lambda k, _: relay.less(k, n),
            [count, start],
            lambda k, xs: [k + relay.const(1), relay.concatenate((xs, relay.reshape(k, (1,))), 0)],
        )
        return relay.TupleGetItem(loop(relay.const(0), relay.zeros((1,), "int32")), 1)

    def summed(v: Any) -> Any:
        count = relay.var("count", shape=(), dtype="int32")
        total = relay.Var("total", relay.TensorType((relay.Any(), relay.Any()), "float32"))
        loop = while_loop(
            lambda k, _: relay.less(k, relay.const(3)),
            [count, total],
            lambda k, t: [k + relay.const(1), t + v],
        )
        return relay.TupleGetItem(loop(relay.const(0), v), 1)

    return {
        "a list that grows": case(grown, np.array([0, 0, 1, 2, 3], "int32"), np.int32(4)),
        "a list that does not": case(grown, np.array([0], "int32"), np.int32(0)),
        "a loop over rows": case(summed, lambda v: v * 4, reals(2, 3)),
        "a branch": case(
            lambda c, a, b: relay.If(c, relay.exp(a), b), np.exp(X), np.bool_(True), X, X[:1]
        ),
        "the other branch": case(
            lambda c, a, b: relay.If(c, relay.concatenate((a, a), 0), b),
            X[:1],
            np.bool_(False),
            X,
            X[:1],
        ),
        "a branch by a size": case(
            lambda v: relay.If(
                relay.less(relay.take(relay.shape_of(v), relay.const(0)), relay.const(3)), v + v, v
            ),
            X + X,
            X,
        ),
        "a tuple of branches": case(
            lambda c, a: relay.If(c, relay.Tuple([a, a + a]), relay.Tuple([a, a])),
            [X, X * 2],
            np.bool_(True),
            X,
        ),
        "a local function": case(
            lambda v: relay.Let(
                f := relay.Var("f"),
                relay.Function([p := relay.Var("p", relay.TensorType([relay.Any()] * 3))], p * p),
                f(f(v)),
            ),
            X**4,
            X,
        ),
    }


PROGRAMS = {
    "elementwise": Program(elementwise(), "vm", unknown=True),
    "moved": Program(moved(), "debug", unknown=True),
}
if os.environ.get(COUNTED):  # dear to compile: where all cases are counted, alone
    PROGRAMS |= {
        "data": Program(of_data(), "vm", unknown=True),
        "networks": Program(networks(), "graph", unknown=True),
        "control": Program(control(), "vm", unknown=True),
    }


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
