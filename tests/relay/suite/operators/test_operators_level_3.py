"""Casts, shapes, picking and placing elements, scans, sparse coordinates, random numbers."""

from __future__ import annotations

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
from tvm_disc import relay

X = reals(2, 3, 4)


def elements() -> dict[str, Case]:
    made: dict[str, Case] = {}
    mixed = np.array([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.4], "float32")
    odd = np.array([np.inf, -np.inf, np.nan, 1, 0], "float32")
    for name, want in {
        "zeros_like": np.zeros_like,
        "ones_like": np.ones_like,
        "ceil": np.ceil,
        "floor": np.floor,
        "trunc": np.trunc,
        "round": lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5),
        "abs": np.abs,
        "copy": np.copy,
        "negative": np.negative,
        "sign": np.sign,
    }.items():
        made[name] = case(getattr(relay, name), want, mixed)
    for name in ("isfinite", "isinf", "isnan"):
        for dtype in ("float32", "float16", "float64"):
            made[f"{name} {dtype}"] = case(
                getattr(relay, name), getattr(np, name), odd.astype(dtype)
            )
    made["isfinite of integers"] = case(relay.isfinite, np.isfinite, counts(4))
    made["logical_not"] = case(relay.logical_not, np.logical_not, counts(5, below=2, dtype="bool"))
    made["bitwise_not"] = case(relay.bitwise_not, np.invert, counts(5, least=-4, dtype="int16"))
    for was, now in [
        ("float32", "int32"),
        ("int32", "float16"),
        ("bool", "float32"),
        ("float32", "bool"),
        ("int64", "int8"),
        ("uint8", "float64"),
        ("float16", "float32"),
        ("int8", "uint8"),
    ]:
        x = counts(3, 2, below=5, least=0 if was[0] in "ub" else -5, dtype=was)
        made[f"cast {was} {now}"] = case(lambda v, t=now: relay.cast(v, t), x.astype(now), x)
    made["cast_like"] = case(
        relay.cast_like, lambda a, b: a.astype("int64"), mixed, np.zeros(1, "int64")
    )
    for dtype, low, high in [
        ("float32", -1.0, 1.5),
        ("int8", -3, 3),
        ("uint8", 1, 3),
        ("int64", -2, 5),
        ("float16", -0.5, 0.5),
        ("int32", -1, 1),
    ]:
        x = counts(9, least=0 if dtype[0] == "u" else -9, dtype=dtype)
        made[f"clip {dtype}"] = case(
            lambda v, a=low, b=high: relay.clip(v, a, b), np.clip(x, low, high).astype(dtype), x
        )
    made["reinterpret"] = case(lambda v: relay.reinterpret(v, "int32"), mixed.view("int32"), mixed)
    for multiplier, shift in [(0.5, 0), (0.7, -1), (1.3, 2)]:
        whole = round(multiplier / 2 * 2**31), shift
        made[f"fixed_point_multiply {multiplier}"] = case(
            lambda v, w=whole: relay.fixed_point_multiply(v, *w),
            lambda v, w=whole: meaning("fixed_point_multiply", v, multiplier=w[0], shift=w[1]),
            counts(6, least=-1000, below=1000),
        )
    for name, fast in [
        ("exp", relay.op.fast_exp),
        ("tanh", relay.op.fast_tanh),
        ("erf", relay.op.fast_erf),
    ]:
        made[f"fast_{name}"] = case(fast, lambda v, n=name: meaning(n, v), mixed, tolerance=1e-3)
    made["leaky_relu"] = case(
        lambda v: relay.nn.leaky_relu(v, alpha=0.1),
        np.where(mixed > 0, mixed, mixed * np.float32(0.1)),
        mixed,
    )
    made["leaky_relu default"] = case(
        relay.nn.leaky_relu, np.where(mixed > 0, mixed, mixed * np.float32(0.01)), mixed
    )
    for axis in (1, 2):
        slope = reals(X.shape[axis])
        shape = [-1 if a == axis else 1 for a in range(3)]
        made[f"prelu {axis}"] = case(
            lambda v, s, a=axis: relay.nn.prelu(v, s, axis=a),
            np.where(X > 0, X, X * slope.reshape(shape)),
            X,
            slope,
        )
    made["hardswish"] = case(relay.op.get("hardswish"), lambda v: meaning("hardswish", v), mixed)
    return made


def shapes() -> dict[str, Case]:
    made: dict[str, Case] = {}
    ones = reals(1, 3, 1, 2)
    for axis in (None, (0,), (2,), (0, 2), (-2,), [0, -2]):
        made[f"squeeze {axis}"] = case(
            lambda v, a=axis: relay.squeeze(v, axis=a),
            ones.squeeze(None if axis is None else tuple(axis)),
            ones,
        )
    made["squeeze one axis"] = case(lambda v: relay.squeeze(v, 2), ones.squeeze(2), ones)
    for axes in (None, (2, 0, 1), (-1, -2, -3), [0, 2, 1], []):
        made[f"transpose {axes}"] = case(
            lambda v, a=axes: relay.transpose(v, axes=a), X.transpose(axes or None), X
        )
    for codes, want in [
        ((4, 6), (4, 6)),
        ((-1,), (24,)),
        ((0, -1), (2, 12)),
        ((-2,), (2, 3, 4)),
        ((-3, 4), (6, 4)),
        ((2, -3), (2, 12)),
        ((0, 0, -4, 2, 2), (2, 3, 2, 2)),
        ((-4, 1, 2, -2), (1, 2, 3, 4)),
        ((-4, -1, 2, -3), (1, 2, 12)),
        ((0, 3, -1), (2, 3, 4)),
        ((0, -4, 3, -1, 4), (2, 3, 1, 4)),
        ((1, -2), None),
    ]:
        if want:
            made[f"reshape {codes}"] = case(
                lambda v, c=codes: relay.reshape(v, newshape=c), X.reshape(want), X
            )
    made["reshape allowzero"] = case(
        lambda v: relay.reshape(v, (3, 0), allowzero=True),
        np.zeros((3, 0), "float32"),
        np.zeros((0, 4), "float32"),
    )
    made["reshape to no dims"] = case(
        lambda v: relay.reshape(v, []), lambda v: v.reshape(()), reals(1, 1)
    )
    for codes, want in [
        ((4, 0, 2), (4, 3, 2)),
        ((-1, 0), (6, 4)),
        ((-3, 0), (6, 4)),
        ((0, -3), (2, 12)),
    ]:
        made[f"reverse_reshape {codes}"] = case(
            lambda v, c=codes: relay.reverse_reshape(v, c),
            X.reshape(want),
            X,
        )
    like = reals(4, 6)
    made["reshape_like"] = case(relay.reshape_like, X.reshape(4, 6), X, like)
    made["reshape_like in part"] = case(
        lambda a, b: relay.reshape_like(a, b, lhs_begin=1, rhs_begin=1),
        lambda a, b: a.reshape(2, 6, 2),
        X,
        reals(9, 6, 2),
    )
    made["reshape_like to an end"] = case(
        lambda a, b: relay.reshape_like(a, b, lhs_begin=0, lhs_end=1, rhs_begin=1, rhs_end=3),
        lambda a, b: a.reshape(2, 1, 3, 4),
        X,
        reals(5, 2, 1),
    )
    for _k, (parts, axis) in enumerate([(2, 2), ((1,), 1), ((1, 3), -1), (3, 1), ((2, 2), 2)]):
        cut = list(parts) if isinstance(parts, tuple) else parts
        made[f"split {parts} {axis}"] = case(
            lambda v, p=parts, a=axis: relay.split(v, p, axis=a), np.split(X, cut, axis), X
        )
    made["split, one taken"] = case(lambda v: relay.split(v, 3, 1)[2], X[:, 2:], X)
    for reps in ((2, 1, 2), (3,), (2, 1, 1, 2), 2):
        made[f"tile {reps}"] = case(
            lambda v, r=reps: relay.tile(v, reps=r if isinstance(r, tuple) else (r,)),
            np.tile(X, reps),
            X,
        )
    for repeats, axis in [(2, 0), (3, -1), (2, None), (1, 1)]:
        made[f"repeat {repeats} {axis}"] = case(
            lambda v, r=repeats, a=axis: relay.repeat(v, r, a), np.repeat(X, repeats, axis), X
        )
    parts = [X, reals(2, 3, 4, seed=3)]
    for axis in (0, 1, -1, 3):
        made[f"stack {axis}"] = case(
            lambda *v, a=axis: relay.stack(v, axis=a), np.stack(parts, axis), *parts
        )
    made["stack of a tuple"] = case(
        lambda *v: relay.stack(relay.Tuple(v), axis=-2), np.stack(parts, -2), *parts
    )
    for axis in (0, 1, -1):
        made[f"reverse {axis}"] = case(
            lambda v, a=axis: relay.reverse(v, axis=a), np.flip(X, axis), X
        )
    for seq, batch in [(1, 0), (0, 1), (2, 0)]:
        lengths = np.arange(1, X.shape[batch] + 1, dtype="int32").clip(1, X.shape[seq])
        made[f"reverse_sequence {seq} {batch}"] = case(
            lambda v, n, s=seq, b=batch: relay.reverse_sequence(v, n, seq_axis=s, batch_axis=b),
            lambda v, n, s=seq, b=batch: meaning(
                "reverse_sequence", v, n, seq_axis=s, batch_axis=b
            ),
            X,
            lengths,
        )
    for name, window, strides, axis in [
        ("rows", (2, 2), (1, 1), 1),
        ("last", (3,), (2,), 2),
        ("all", (1, 2, 3), (1, 1, 1), 0),
    ]:
        made[f"sliding_window {name}"] = case(
            lambda v, w=(axis, window, strides): relay.sliding_window(v, *w),
            lambda v, w=(axis, window, strides): meaning(
                "sliding_window", v, axis=w[0], window_shape=w[1], strides=w[2]
            ),
            X,
        )
    a, b, c = reals(2), reals(3, seed=2), reals(4, seed=3)
    for indexing in ("ij", "xy"):
        made[f"meshgrid {indexing}"] = case(
            lambda *v, i=indexing: relay.meshgrid(v, indexing=i),
            np.meshgrid(a, b, c, indexing=indexing),
            a,
            b,
            c,
        )
    return made


def made_up() -> dict[str, Case]:
    made: dict[str, Case] = {
        "zeros": case(lambda: relay.zeros((2, 3), "float32"), np.zeros((2, 3), "float32")),
        "ones": case(lambda: relay.ones(shape=(4,), dtype="int8"), np.ones(4, "int8")),
        "zeros of nothing": case(lambda: relay.zeros((), "int64"), np.zeros((), "int64")),
        "full": case(
            lambda v: relay.full(v, (2, 3), "float32"), np.full((2, 3), 4, "float32"), np.float32(4)
        ),
        "full of an int": case(
            lambda v: relay.full(v, (1, 2)), np.full((1, 2), 4, "int32"), np.int32(4)
        ),
        "full another type": case(
            lambda v: relay.full(v, (3,), "float64"), np.full(3, 4.0), np.int32(4)
        ),
        "full constant": case(
            lambda: relay.full(relay.const(1.5), shape=(2,)), np.full(2, 1.5, "float32")
        ),
        "full_like": case(relay.full_like, np.full((2, 3, 4), 7, "float32"), X, np.float32(7)),
        "arange stop": case(lambda: relay.arange(relay.const(5)), np.arange(5, dtype="float32")),
        "arange": case(
            lambda: relay.arange(
                relay.const(1, "int32"),
                relay.const(9, "int32"),
                relay.const(3, "int32"),
                dtype="int32",
            ),
            np.arange(1, 9, 3, dtype="int32"),
        ),
        "arange down": case(
            lambda: relay.arange(
                relay.const(5.0), relay.const(-1.0), relay.const(-1.5), dtype="float32"
            ),
            np.arange(5, -1, -1.5, dtype="float32"),
        ),
        "arange of fractions": case(
            lambda: relay.arange(relay.const(0.0), relay.const(2.0), relay.const(0.3)),
            np.arange(0, 2, 0.3, dtype="float32"),
        ),
        "arange int64": case(
            lambda: relay.arange(relay.const(7, "int64"), dtype="int64"), np.arange(7)
        ),
        "arange to an input": case(
            lambda n: relay.arange(relay.const(0, "int32"), n, relay.const(2, "int32"), "int32"),
            np.arange(0, 9, 2, dtype="int32"),
            np.int32(9),
        ),
    }
    return made


def picked() -> dict[str, Case]:
    made: dict[str, Case] = {}
    where = np.array([[2, 0], [1, -1]], "int32")
    for axis in (None, 0, 1, 2, -1):
        for mode in ("clip", "wrap"):
            at = where + 40 if mode == "wrap" else where
            made[f"take {axis} {mode}"] = case(
                lambda v, i, a=axis, m=mode: relay.take(v, i, axis=a, mode=m),
                lambda v, i, a=axis, m=mode: np.take(v, i, a, mode=m),
                X,
                at,
            )
    inside = np.array([0, 1, 1, 0], "int64")
    made["take fast"] = case(
        lambda v, i: relay.take(v, i, axis=0, mode="fast"), X[inside], X, inside
    )
    made["take of a number"] = case(lambda v, i: relay.take(v, i, axis=1), X[:, 2], X, np.int32(2))
    made["take uint8"] = case(
        lambda v, i: relay.take(v, i, axis=1), X[:, [1, 0]], X, np.array([1, 0], "uint8")
    )
    for batch, axis in [(1, 1), (1, 2), (2, 2)]:
        i = counts(2, 3, below=3) if batch == 2 else counts(2, 2, below=3)
        made[f"take batch_dims {batch} {axis}"] = case(
            lambda v, i, b=batch, a=axis: relay.take(v, i, axis=a, batch_dims=b),
            lambda v, i, b=batch, a=axis: meaning("take", v, i, axis=a, batch_dims=b),
            X,
            i,
        )
    for axis in (0, 1, -1):
        i = counts(2, 3, 4, below=2)
        made[f"gather {axis}"] = case(
            lambda v, i, a=axis: relay.gather(v, a, i), np.take_along_axis(X, i, axis), X, i
        )
    made["gather backwards"] = case(
        lambda v, i: relay.gather(v, 1, i),
        np.take_along_axis(X, counts(2, 2, 4, below=3) - 3, 1),
        X,
        counts(2, 2, 4, below=3) - 3,
    )
    for dims, batch in [
        ((1, 5), 0),
        ((2, 4), 0),
        ((3, 2, 2), 0),
        ((2, 2, 3), 1),
        ((1, 2), 1),
        ((1, 2, 3), 2),
    ]:
        i = counts(*dims, below=2, dtype="int64")
        made[f"gather_nd {dims} {batch}"] = case(
            lambda v, i, b=batch: relay.gather_nd(v, i, batch_dims=b),
            lambda v, i, b=batch: meaning("gather_nd", v, i, batch_dims=b),
            X,
            i,
        )
    made["gather_nd of unknown length"] = case(
        lambda v, i: relay.gather_nd(v, i, batch_dims=0, index_rank=2),
        lambda v, i: v[tuple(i)],
        X,
        counts(2, 3, below=2),
    )
    i, j = np.array([1, 0, 1], "int64"), np.array([2, 1, -1], "int64")
    made |= {
        "adv_index": case(lambda v, *i: relay.adv_index([v, *i]), X[i, j], X, i, j),
        "adv_index one": case(lambda v, *i: relay.adv_index([v, *i]), X[i], X, i),
        "adv_index broadcast": case(
            lambda v, *i: relay.adv_index([v, *i]), X[i[:, None], j], X, i[:, None], j
        ),
    }
    for dims in ((6, 4), (2, 3, 4), (1, 2, 3, 4), (2, 2, 3, 2)):
        flat = np.array([0, 5, 23, 11], "int64")
        made[f"unravel_index {dims}"] = case(
            lambda i, d: relay.unravel_index(i, d),
            np.stack(np.unravel_index(flat, dims)),
            flat,
            np.array(dims, "int64"),
        )
        made[f"unravel_index {dims} constant"] = case(
            lambda i, d=dims: relay.unravel_index(i, relay.const(np.array(d, "int32"))),
            np.stack(np.unravel_index(flat, dims)).astype("int32"),
            flat.astype("int32"),
        )
    made["invert_permutation"] = case(
        relay.invert_permutation, np.array([2, 0, 3, 1], "int32"), np.array([1, 3, 0, 2], "int32")
    )
    return made


def placed() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for reduction in ("update", "add", "mul", "mean", "min", "max"):
        for axis in (0, -1):
            i = np.array([[[0, 1, 1, 0]] * 3] * 2, "int64")
            i = (
                np.stack([np.argsort(reals(2, 3, 4), axis)])[0].astype("int64")
                if (reduction == "update")
                else i
            )
            made[f"scatter_elements {reduction} {axis}"] = case(
                lambda v, i, u, a=axis, r=reduction: relay.scatter_elements(v, i, u, a, r),
                lambda v, i, u, a=axis, r=reduction: meaning(
                    "scatter_elements", v, i, u, axis=a, reduction=r
                ),
                X,
                i,
                reals(2, 3, 4, seed=8),
            )
    made["scatter_elements default"] = case(
        relay.scatter_elements,
        lambda v, i, u: meaning("scatter_elements", v, i, u),
        reals(4),
        np.array([2, -1], "int64"),
        reals(2, seed=4),
    )
    for mode in ("update", "add", "mul", "min", "max"):
        for dims in ((1, 2), (2, 2), (3, 2)):
            i = np.array([[0, 1], [2, 0], [1, 3]], "int64")[: dims[0]]
            u = reals(2, *X.shape[dims[0] :], seed=5)
            made[f"scatter_nd {mode} {dims}"] = case(
                lambda v, i, u, m=mode: relay.scatter_nd(v, i, u, m),
                lambda v, i, u, m=mode: meaning("scatter_nd", v, i, u, mode=m),
                X,
                i,
                u,
            )
    made["scatter_nd default"] = case(
        relay.scatter_nd,
        lambda v, i, u: meaning("scatter_nd", v, i, u, mode="update"),
        np.zeros(5, "int32"),
        np.array([[1, 3]], "int64"),
        np.array([7, 8], "int32"),
    )
    made["segment_sum"] = case(
        lambda v, i: relay.op.segment_sum(v, i, num_segments=3),
        np.array([[4, 6], [5, 6], [0, 0]], "float32"),
        np.array([[1, 2], [3, 4], [5, 6]], "float32"),
        np.array([0, 0, 1], "int32"),
    )
    for shape, at, value in [((4,), [1, 3], 7), ((3, 3), [[0, 2], [2, 0]], [1, 5])]:
        want = np.zeros(shape, "int32")
        want[tuple(np.array(at).T) if len(shape) > 1 else at] = value
        made[f"sparse_to_dense {shape}"] = case(
            lambda i, v, s=shape: relay.sparse_to_dense(i, s, v),
            want,
            np.array(at, "int32"),
            np.array(value, "int32"),
        )
    made["sparse_to_dense default"] = case(
        lambda i, v, d: relay.sparse_to_dense(i, (4,), v, d),
        np.array([9, 9, 3, 9], "float32"),
        np.array([2], "int32"),
        np.array([3], "float32"),
        np.float32(9),
    )
    made["sparse_to_dense of a number"] = case(
        lambda i, v: relay.sparse_to_dense(i, (5,), v),
        np.array([0, 0, 0, 2, 0], "float32"),
        np.int32(3),
        np.float32(2),
    )
    coords = np.array([[0, 0, 0], [0, 1, 0], [1, 2, 3]], "int64")
    for to in ((6, 4), (-1,), (3, -1, 2)):
        made[f"sparse_reshape {to}"] = case(
            lambda i, p, n: relay.sparse_reshape(i, p, n),
            lambda i, p, n: meaning("sparse_reshape", i, p, n),
            coords,
            np.array([2, 3, 4], "int64"),
            np.array(to, "int64"),
        )
    rows = np.array([[0, 1], [0, 3], [2, 0]], "int64")
    made["sparse_fill_empty_rows"] = case(
        relay.sparse_fill_empty_rows,
        lambda i, v, d, f: [
            np.asarray(w, t)
            for w, t in zip(
                meaning("sparse_fill_empty_rows", i, v, d, f),
                ("int64", "int64", "bool"),
                strict=True,
            )
        ],
        rows,
        np.array([4, 5, 6], "int64"),
        np.array([4, 5], "int64"),
        np.array([-1], "int64"),
    )
    for upper in (True, False):
        for k in (0, 1, -2):
            made[f"trilu {upper} {k}"] = case(
                lambda v, k=k, u=upper: relay.trilu(v, relay.const(k, "int64"), u),
                np.triu(X, k) if upper else np.tril(X, k),
                X,
            )
    made["trilu of bools"] = case(
        lambda v: relay.trilu(v, 0, upper=False),
        np.tril(np.ones((3, 3), "bool")),
        np.ones((3, 3), "bool"),
    )
    return made


def scans() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for name, plain in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
        for axis in (None, 0, -1):
            for exclusive in (None, True):
                made[f"{name} {axis} {exclusive}"] = case(
                    lambda v, n=name, a=axis, e=exclusive: getattr(relay, n)(v, a, exclusive=e),
                    lambda v, n=name, a=axis, e=exclusive: meaning(n, v, axis=a, exclusive=bool(e)),
                    positive(2, 3),
                )
        made[f"{name} of int8"] = case(
            lambda v, n=name: getattr(relay, n)(v, axis=1, dtype="int32"),
            plain(counts(2, 3, dtype="int8"), 1, dtype="int32"),
            counts(2, 3, dtype="int8"),
        )
        made[f"{name} keeps int32"] = case(
            lambda v, n=name: getattr(relay, n)(v),
            plain(counts(2, 3)).astype("int32"),
            counts(2, 3),
        )
    made["cumsum of bools"] = case(
        lambda v: relay.cumsum(v, axis=0, dtype="int32"),
        np.array([1, 1, 2], "int32"),
        np.array([True, False, True]),
    )
    for k in ("ordered", "sorted", "counted"):
        x = np.array([3, 1, 3, 2, 1, 1], "int32")
        made[f"unique {k}"] = case(
            lambda v, k=k: relay.unique(v, is_sorted=k != "ordered", return_counts=k == "counted"),
            lambda v, k=k: uniques(v, k),
            x,
        )
    made["argwhere"] = case(
        relay.argwhere,
        lambda v: np.argwhere(v).astype("int32"),
        np.array([[0, 2, 0], [1, 0, 3]], "float32"),
    )
    made["where"] = case(relay.where, lambda c, a, b: np.where(c, a, b), X > 0, X, X * 2)
    made["where broadcast"] = case(
        relay.where,
        lambda c, a, b: np.where(c, a, b),
        np.array([[True], [False], [True]]),
        X,
        np.float32(1),
    )
    for eq, dims in [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bij,bjk->bik", ((2, 2, 3), (2, 3, 2))),
        ("ii", ((3, 3),)),
        ("ij->ji", ((2, 3),)),
        ("ij,ij->", ((2, 3), (2, 3))),
        ("i,j", ((2,), (3,))),
        ("...ij,...jk->...ik", ((2, 1, 2, 3), (4, 3, 2))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("iij->j", ((3, 3, 2),)),
        ("...i->...", ((2, 3, 4),)),
    ]:
        given = [reals(*d, seed=k) for k, d in enumerate(dims)]
        made[f"einsum {eq}"] = case(
            lambda *v, e=eq: relay.einsum(v, e), np.einsum(eq, *given), *given
        )
    return made


def uniques(x: np.ndarray, how: str) -> list[np.ndarray]:
    """(values, places, inverse, how many[, counts]); what lies behind is left over."""
    return [
        np.asarray(v)
        for v in meaning("unique", x, sorted=how != "ordered", return_counts=how == "counted")
    ]


PROGRAMS = {
    "elements": Program(elements(), "graph"),
    "shapes": Program(shapes(), "vm"),
    "made": Program(made_up(), "debug"),
    "picked": Program(picked(), "vm"),
    "placed": Program(placed(), "debug"),
    "scans": Program(scans(), "vm"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
