"""Integers, comparisons, choices, reductions, slices, places in sorted rows."""

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
from tvm_disc import relay

X = reals(2, 3, 4)


def binary() -> dict[str, Case]:
    made: dict[str, Case] = {}
    compared = {
        "less": np.less,
        "less_equal": np.less_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
        "equal": np.equal,
        "not_equal": np.not_equal,
    }
    for k, (name, want) in enumerate(compared.items()):
        dtype = ("float32", "int64", "uint8")[k % 3]
        made[f"{name} {dtype}"] = case(
            getattr(relay, name), want, counts(3, 4, dtype=dtype), counts(4, below=11, dtype=dtype)
        )
    whole = {
        "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "left_shift": np.left_shift,
        "right_shift": np.right_shift,
        "maximum": np.maximum,
        "minimum": np.minimum,
    }
    for k, (name, want) in enumerate(whole.items()):
        dtype = ("int32", "uint8", "int64")[k % 3]
        made[f"{name} {dtype}"] = case(
            getattr(relay, name), want, counts(2, 5, dtype=dtype), counts(5, below=4, dtype=dtype)
        )
    bools = [np.array([[True, False], [True, True]]), np.array([False, True])]
    for name in ("logical_and", "logical_or", "logical_xor"):
        made[name] = case(getattr(relay, name), getattr(np, name), *bools)
    below = counts(8, least=-9), np.array([3, -3, 2, -2, 4, 1, -1, 5], "int32")
    made |= {
        "trunc_divide": case(
            relay.op.trunc_divide, lambda a, b: np.trunc(a / b).astype("int32"), *below
        ),
        "trunc_mod": case(relay.op.trunc_mod, np.fmod, *below),
        "floor_divide": case(relay.floor_divide, np.floor_divide, *below),
        "floor_mod": case(relay.floor_mod, np.mod, *below),
        "mod": case(relay.mod, np.fmod, *below),
        "divide": case(relay.divide, lambda a, b: np.trunc(a / b).astype("int32"), *below),
        "power float64": case(
            relay.power, np.power, positive(3, dtype="float64"), reals(3, dtype="float64")
        ),
        "floor_mod of fractions": case(relay.floor_mod, np.mod, reals(5) * 3, positive(5)),
        "where of a row": case(
            relay.where,
            lambda c, a, b: np.where(c, a, b),
            np.array([True, False, True, False]),
            X,
            np.zeros((3, 1), "float32"),
        ),
        "where int8": case(
            relay.where,
            lambda c, a, b: np.where(c, a, b),
            counts(3, below=2),
            counts(3, dtype="int8"),
            counts(3, below=20, dtype="int8"),
        ),
    }
    return made


def reductions() -> dict[str, Case]:
    made: dict[str, Case] = {}
    axes: list[tuple[Any, bool, bool]] = [
        (None, False, False),
        (None, True, False),
        (0, False, False),
        (1, True, False),
        (-1, False, False),
        ((0, 2), False, False),
        ([1, 2], True, False),
        (1, False, True),
        ((0, 1), True, True),
        ((-1, 0), False, False),
    ]
    plain: dict[str, Any] = {
        "sum": np.sum,
        "max": np.max,
        "min": np.min,
        "mean": np.mean,
        "prod": np.prod,
        "variance": np.var,
    }
    for k, (name, want) in enumerate(plain.items()):
        for axis, keep, exclude in axes if name in ("sum", "mean") else axes[k % 3 :: 3]:
            over = axis if axis is None or isinstance(axis, int) else tuple(axis)
            if exclude:
                left = {a % 3 for a in ((axis,) if isinstance(axis, int) else axis)}
                over = tuple(a for a in range(3) if a not in left)
            made[f"{name} {axis} {keep} {exclude}"] = case(
                lambda v, n=name, a=axis, k=keep, e=exclude: getattr(relay, n)(
                    v, axis=a, keepdims=k, exclude=e
                ),
                want(X, axis=over, keepdims=keep),
                X,
            )
    for name in ("argmax", "argmin"):
        for axis, keep, last in [
            (None, False, False),
            (1, True, False),
            (-1, False, True),
            ((0, 2), False, False),
            (0, False, False),
        ]:
            x = counts(3, 4, 5, below=3)
            attrs = {"axis": axis, "keepdims": keep, "select_last_index": last}
            made[f"{name} {axis} {keep} {last}"] = case(
                lambda v, n=name, a=attrs: getattr(relay, n)(v, **a),
                lambda v, n=name, a=attrs: meaning(n, v, **a),
                x,
            )
    bools = counts(3, 4, below=2, dtype="bool")
    for name in ("all", "any"):
        for axis in (None, 0, (0, 1)):
            made[f"{name} {axis}"] = case(
                lambda v, n=name, a=axis: getattr(relay, n)(v, axis=a, keepdims=a == 0),
                lambda v, n=name, a=axis: getattr(np, n)(v, a, keepdims=a == 0),
                bools,
            )
    for dtype in ("int32", "int8", "float16", "int64"):
        x = counts(3, 4, below=5, dtype=dtype)
        made[f"sum {dtype}"] = case(lambda v: relay.sum(v, axis=0), x.sum(0, dtype=dtype), x)
        made[f"max {dtype}"] = case(lambda v: relay.max(v, axis=1), x.max(1), x)
    made |= {
        "std": case(lambda v: relay.std(v, axis=1, keepdims=True), X.std(1, keepdims=True), X),
        "std unbiased": case(lambda v: relay.std(v, 1, unbiased=True), X.std(1, ddof=1), X),
        "variance unbiased": case(
            lambda v: relay.variance(v, (0, 2), unbiased=True), X.var((0, 2), ddof=1), X
        ),
        "mean_variance": case(
            lambda v: relay.mean_variance(v, axis=-1, keepdims=True),
            [X.mean(-1, keepdims=True), X.var(-1, keepdims=True)],
            X,
        ),
        "mean_std": case(lambda v: relay.mean_std(v, axis=0), [X.mean(0), X.std(0)], X),
        "mean_std exclude": case(
            lambda v: relay.mean_std(v, axis=1, exclude=True), [X.mean((0, 2)), X.std((0, 2))], X
        ),
        "logsumexp": case(
            lambda v: relay.logsumexp(v, axis=[0, 2]), np.log(np.exp(X).sum((0, 2))), X
        ),
        "logsumexp keepdims": case(
            lambda v: relay.logsumexp(v, 1, True), np.log(np.exp(X).sum(1, keepdims=True)), X
        ),
        "ndarray_size": case(relay.ndarray_size, np.int32(24), X),
    }
    return made


def slices() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = reals(3, 5, 4)
    table: list[tuple[Any, Any, Any]] = [
        ([0, 1, 2], [3, 4, 4], [1, 1, 1]),
        ([1, 0, 0], [2, 5, 4], [1, 2, 3]),
        ([1, 1], [3, 4], None),
        ([0, -3, 0], [-1, -1, 4], [1]),
        ([2, 4, 3], [0, 0, 0], [-1, -2, -1]),
        ([1, -1, 0], [2, -5, 3], [1, -1, 1]),
        ([0, 0, 0], [100, 100, 100], [2, 2, 2]),
        ([-100, 1, 1], [2, 4, 4], None),
        ([2, 2, 2], [2, 2, 2], None),
        ([1], [3], [1]),
    ]
    for k, (begin, end, strides) in enumerate(table):
        more = {} if strides is None else {"strides": strides}
        steps = (strides or [1]) * (len(begin) if len(strides or [1]) == 1 else 1)
        cut = tuple(slice(*v) for v in zip(begin, end, steps, strict=True))
        made[f"slice {begin} {end} {strides}"] = case(
            lambda v, b=begin, e=end, m=more: relay.strided_slice(v, b, e, **m), x[cut], x
        )
        if k < 4:
            tensors = [np.array(w, "int64") for w in (begin, end, steps)]
            made[f"slice at run time {begin} {end} {strides}"] = case(
                relay.strided_slice, x[cut], x, *tensors
            )
    made |= {
        "slice sizes": case(
            lambda v: relay.strided_slice(v, [1, 0, 2], [2, 3, -1], slice_mode="size"),
            x[1:3, 0:3, 2:],
            x,
        ),
        "slice axes": case(lambda v: relay.strided_slice(v, [1], [4], axes=[1]), x[:, 1:4], x),
        "slice axes from behind": case(
            lambda v: relay.strided_slice(v, [0, 1], [2, 3], strides=[1, 2], axes=[-1, 0]),
            x[1:3:2, :, 0:2],
            x,
        ),
        "slice tuples": case(
            lambda v: relay.strided_slice(v, (0, 1, 2), (1, 2, 3), (1, 1, 1)), x[:1, 1:2, 2:3], x
        ),
        "slice of a small type": case(
            lambda v: relay.strided_slice(v, [1], [3]), lambda v: v[1:3], counts(4, dtype="uint8")
        ),
        "slice_like": case(relay.slice_like, x[:2, :3, :4], x, reals(2, 3, 4)),
        "slice_like axes": case(
            lambda a, b: relay.slice_like(a, b, axes=(0, -1)), x[:2, :, :3], x, reals(2, 9, 3)
        ),
        "slice_like ranks": case(
            lambda a, b: relay.slice_like(a, b, axes=(1,)), x[:, :2], x, reals(1, 2)
        ),
    }
    changed = x.copy()
    changed[1:3, 0:4:2, 1:3] = v = reals(2, 2, 2, seed=4)
    made["strided_set"] = case(
        lambda a, b: relay.strided_set(a, b, [1, 0, 1], [3, 4, 3], [1, 2, 1]), changed, x, v
    )
    back = x.copy()
    back[2:0:-1] = w = reals(2, 5, 4, seed=6)
    made["strided_set backwards"] = case(
        lambda a, b: relay.strided_set(a, b, [2], [0], strides=[-1]), back, x, w
    )
    rows = np.sort(reals(2, 6), -1)
    for right in (False, True):
        made[f"searchsorted {right}"] = case(
            lambda a, b, r=right: relay.searchsorted(a, b, right=r),
            lambda a, b, r=right: meaning("searchsorted", a, b, right=r),
            rows,
            reals(2, 3, seed=7),
        )
    made["searchsorted line"] = case(
        lambda a, b: relay.searchsorted(a, b, dtype="int64"),
        np.searchsorted(rows[0], X),
        rows[0],
        X,
    )
    return made


PROGRAMS = {
    "binary": Program(binary(), "graph"),
    "reductions": Program(reductions(), "aot"),
    "slices": Program(slices(), "debug"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
