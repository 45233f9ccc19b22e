"""Element-wise operators, broadcasts, softmax, joining, normalisation, products of matrices."""

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


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


UNARY: dict[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "atan": np.arctan,
    "acosh": lambda x: np.arccosh(x + 1),
    "asinh": np.arcsinh,
    "erf": lambda x: meaning("erf", x),
    "sigmoid": sigmoid,
}

TWO: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "power": np.power,
}


def unary() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for name, want in UNARY.items():
        shift = name == "acosh"
        for dtype, dims in [("float32", (3, 4)), ("float16", (5,)), ("float64", ())]:
            x = positive(*dims, dtype=dtype)
            made[f"{name} {dtype}"] = case(
                lambda v, n=name, s=shift, d=dtype: getattr(relay, n)(
                    relay.add(v, relay.const(1, d)) if s else v
                ),
                want,
                x,
                tolerance=1e-2 if dtype == "float16" else 1e-5,
            )
    for dtype in ("float32", "float16", "int8", "uint8", "int64"):
        x = counts(2, 3, least=0 if dtype[0] == "u" else -9, dtype=dtype)
        made[f"relu {dtype}"] = case(relay.nn.relu, np.maximum(x, np.zeros((), dtype)), x)
    return made


def binary() -> dict[str, Case]:
    pairs = [((3, 4), (4,)), ((5, 1, 2), (1, 3, 1)), ((), (2, 2)), ((0, 3), (1, 3))]
    made: dict[str, Case] = {}
    for k, (name, want) in enumerate(TWO.items()):
        for a, b in (pairs[k % 4], pairs[(k + 1) % 4]):
            made[f"{name} {a} {b}"] = case(getattr(relay, name), want, positive(*a), positive(*b))
    x, y = counts(4, 5, below=50), counts(5, below=9, least=1)
    for name in ("add", "subtract", "multiply", "floor_divide", "floor_mod", "mod"):
        made[f"{name} of int32"] = case(getattr(relay, name), TWO[name], x, y)
    made |= {
        "a number on the left": case(lambda v: relay.const(2.0) - v, lambda v: 2 - v, reals(3)),
        "the signs of Python": case(
            lambda v, w: (-v + w) * v / w, lambda v, w: (-v + w) * v / w, reals(3), positive(3)
        ),
    }
    return made


def joined() -> dict[str, Case]:
    parts = [reals(2, 3, 2), reals(2, 1, 2), reals(2, 4, 2)]
    whole = [counts(2, 2, dtype="int64"), counts(0, 2, dtype="int64")]
    return {
        **{
            f"concatenate {k}": case(
                lambda *v, k=k: relay.concatenate(v, axis=k), np.concatenate(parts, k), *parts
            )
            for k in (1, -2)
        },
        "concatenate of a tuple": case(
            lambda *v: relay.concatenate(relay.Tuple(v), 0), np.concatenate(whole), *whole
        ),
        "concatenate of one": case(
            lambda v: relay.concatenate([v], axis=0), lambda v: v, reals(2, 2)
        ),
        "concatenate, then added": case(
            lambda a, b, c: relay.concatenate((a, b), axis=1) + c,
            lambda a, b, c: np.concatenate((a, b), 1) + c,
            reals(3, 2),
            reals(3, 4),
            reals(),
        ),
        "expand_dims behind": case(
            lambda v: relay.expand_dims(v, axis=-1, num_newaxis=2),
            lambda v: v[..., None, None],
            reals(2, 3),
        ),
        "expand_dims in front": case(
            lambda v: relay.expand_dims(v, 0, 3), lambda v: v[None, None, None], reals(4)
        ),
        "bias_add": case(relay.nn.bias_add, lambda x, b: x + b[:, None], reals(2, 3, 4), reals(3)),
        "bias_add last": case(
            lambda x, b: relay.nn.bias_add(x, b, axis=-1), np.add, reals(2, 3, 4), reals(4)
        ),
        "bias_add float16": case(
            relay.nn.bias_add,
            np.add,
            reals(2, 3, dtype="float16"),
            reals(3, dtype="float16"),
            tolerance=1e-2,
        ),
    }


def normal() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for dims, axis in [((2, 5), -1), ((3, 4, 2), 1), ((1, 9), 0), ((7,), -1)]:
        at = {"axis": axis}
        made[f"softmax {dims} {axis}"] = case(
            lambda x, a=at: relay.nn.softmax(x, **a), softmax(reals(*dims), axis), reals(*dims)
        )
        made[f"log_softmax {dims} {axis}"] = case(
            lambda x, a=at: relay.nn.log_softmax(x, **a),
            np.log(softmax(reals(*dims), axis)),
            reals(*dims),
        )
    made["fast_softmax"] = case(
        lambda x: relay.nn.fast_softmax(x, axis=1),
        softmax(reals(3, 6), 1),
        reals(3, 6),
        tolerance=1e-4,
    )
    made["softmax float16"] = case(
        relay.nn.softmax,
        softmax(reals(3, 4, dtype="float16")),
        reals(3, 4, dtype="float16"),
        tolerance=1e-2,
    )
    made["dropout"] = case(lambda x: relay.nn.dropout(x, rate=0.25), lambda x: x, reals(3, 2))
    stats = [reals(3, seed=1), reals(3, seed=2), reals(3, seed=3), positive(3)]
    for axis, dims in [(1, (2, 3, 4)), (-1, (2, 2, 3)), (0, (3, 5)), (3, (1, 2, 2, 3))]:
        for kept in ((True, True), (False, True), (True, False)):
            named: dict[str, Any] = {"axis": axis, "center": kept[0], "scale": kept[1]}
            made[f"batch_norm {axis} {kept}"] = case(
                lambda *v, a=named: relay.nn.batch_norm(*v, epsilon=1e-3, **a)[0],
                lambda *v, a=named: meaning("nn.batch_norm", *v, epsilon=1e-3, **a)[0],
                reals(*dims),
                *stats,
                tolerance=1e-4,
            )
    for name in ("layer_norm", "instance_norm"):
        made[name] = case(
            lambda *v, n=name: getattr(relay.nn, n)(*v, axis=1, epsilon=1e-3),
            lambda *v, n=name: meaning(f"nn.{n}", *v, axis=1, epsilon=1e-3),
            reals(2, 3, 4),
            reals(3),
            reals(3, seed=4),
            tolerance=1e-4,
        )
    made["group_norm"] = case(
        lambda *v: relay.nn.group_norm(*v, num_groups=2),
        lambda *v: meaning("nn.group_norm", *v, num_groups=2),
        reals(2, 4, 3),
        reals(4),
        reals(4, seed=4),
        tolerance=1e-4,
    )
    return made


def products() -> dict[str, Case]:
    x, w = reals(2, 3, 4), reals(5, 4)
    half = [reals(3, 8, dtype="float16"), reals(2, 8, dtype="float16")]
    small = [counts(4, 8, least=-9, dtype="int8"), counts(6, 8, least=-9, dtype="int8")]
    mixed = [counts(4, 8, dtype="uint8"), small[1]]
    made = {
        "dense": case(relay.nn.dense, lambda x, w: x @ w.T, x, w),
        "dense units": case(lambda x, w: relay.nn.dense(x, w, units=5), lambda x, w: x @ w.T, x, w),
        "dense float16": case(relay.nn.dense, half[0] @ half[1].T, *half, tolerance=1e-1),
        "dense float16 to float32": case(
            lambda x, w: relay.nn.dense(x, w, out_dtype="float32"),
            half[0].astype("float32") @ half[1].T.astype("float32"),
            *half,
            tolerance=1e-3,
        ),
        "dense int8": case(
            lambda x, w: relay.nn.dense(x, w, out_dtype="int32"),
            small[0].astype("int32") @ small[1].T,
            *small,
        ),
        "dense uint8 int8": case(
            lambda x, w: relay.nn.dense(x, w, units=6, out_dtype="int32"),
            mixed[0].astype("int32") @ mixed[1].T,
            *mixed,
        ),
    }
    for ta in (False, True):
        for tb in (False, True):
            a, b = reals(3, 4), reals(4, 5)
            made[f"matmul {ta} {tb}"] = case(
                lambda a, b, f=(ta, tb): relay.nn.matmul(
                    a, b, units=5, transpose_a=f[0], transpose_b=f[1]
                ),
                a @ b,
                np.ascontiguousarray(a.T) if ta else a,
                np.ascontiguousarray(b.T) if tb else b,
            )
    made["bitserial_dense"] = case(
        lambda x, w: relay.nn.bitserial_dense(x, w, units=4, data_bits=2, weight_bits=1),
        lambda x, w: meaning(
            "nn.bitserial_dense",
            x,
            w,
            units=4,
            data_bits=2,
            weight_bits=1,
            pack_dtype="uint32",
            out_dtype="int16",
        ),
        counts(3, 32, below=4, dtype="int16"),
        counts(4, 32, below=2, dtype="int16"),
    )
    return made


PROGRAMS = {
    "unary": Program(unary(), "graph"),
    "binary": Program(binary(), "vm"),
    "joined": Program(joined(), "debug"),
    "normal": Program(normal(), "graph"),
    "products": Program(products(), "aot"),
}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
