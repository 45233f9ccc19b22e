"""Means of integers, and operands whose types are not what the operator's samples have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import tvm_disc
from tests.build.cases import compiled
from tvm_disc import relay
from tvm_disc.errors import ShapeConflict, TypeMismatch, Unsupported

INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
IMAGE = (None, None, None, None)


def whole(dtype: str, *shape: int) -> np.ndarray:
    kind = np.iinfo(dtype)
    low, high = max(kind.min, -(2**20)), min(kind.max, 2**20)
    return np.random.default_rng(0).integers(low, high, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_of_integers_are_sums_divided(dtype: str) -> None:
    """Of any number of them, also of more than the type counts."""
    mean = compiled("mean", ((None, None), dtype), axis=(1,), keepdims=False, exclude=False)
    pool = compiled("nn.global_avg_pool2d", (IMAGE, dtype))
    for rows, columns in ((1, 1), (3, 7), (2, 256), (5, 1000)):
        x = whole(dtype, rows, columns)
        wanted = np.trunc(x.astype("float64").mean(1)).astype(dtype)
        np.testing.assert_array_equal(mean(x), wanted)
        image = x.reshape(1, rows, 1, columns)
        np.testing.assert_array_equal(pool(image).reshape(-1), wanted)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (4, 64)])
def test_windows_of_truth_values(shape: tuple[int, int]) -> None:
    exe = compiled("nn.max_pool2d", (IMAGE, "bool"), pool_size=(2, 2), padding=(1, 1))
    x = np.random.default_rng(0).random((2, 3, *shape)) < 0.2
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [wide[:, :, a : a + shape[0] + 1, b : b + shape[1] + 1] for a in (0, 1) for b in (0, 1)]
    np.testing.assert_array_equal(exe(x), np.logical_or.reduce(parts))


def test_nothing_repeated_is_empty() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    repeated = relay.repeat(x, repeats=0, axis=1)
    sums = [relay.sum(repeated), relay.all(relay.less(repeated, relay.const(0.0))), repeated]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(sums)))
    for rows in (0, 1, 5):
        total, every, found = exe(np.ones((rows, 3), "float32"))
        assert (total, every, found.shape) == (0, True, (rows, 0))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_zero_points_of_any_integers(dtype: str) -> None:
    """Those of a sum: of both operands, and of the result."""
    q = [relay.var(n, shape=(relay.Any(),), dtype="int8") for n in "ab"]
    scale, zero = relay.const(0.5), relay.const(np.array(3, dtype), dtype)
    exe = tvm_disc.build(relay.Function(q, relay.qnn.add(*q, *[scale, zero] * 3)))
    a, b = whole("int8", 300), whole("int8", 300)[::-1].copy()
    wanted = np.clip(a.astype(int) + b - 3, -128, 127)
    np.testing.assert_array_equal(exe(a, b), wanted)


@pytest.mark.parametrize("value", [0, 1, -1])
@pytest.mark.parametrize(("given", "asked"), [("int64", "uint64"), ("int32", "float32")])
def test_the_bits_of_literals(value: int, given: str, asked: str) -> None:
    """TVM takes those of a literal 0 for a pointer's."""
    exact = np.array(value, given)
    x = relay.var("x", shape=(relay.Any(),), dtype=given)
    filled = relay.full(relay.const(exact, given), (5,), given)
    parts = [relay.reinterpret(y, asked) for y in (relay.const(exact, given), filled, x)]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(parts)))
    found = exe(np.full(3, value, given))
    for got, shape in zip(found, ((), (5,), (3,)), strict=True):
        np.testing.assert_array_equal(got, np.full(shape, value, given).view(asked))


@pytest.mark.parametrize(("given", "asked"), [("float32", "uint32"), ("float64", "int64")])
def test_the_bits_of_zeros_with_a_sign(given: str, asked: str) -> None:
    zeros = [np.array(v, given) for v in (0.0, -0.0)]
    filled = [relay.full(relay.const(z, given), (5,), given) for z in zeros]
    parts = relay.Tuple([relay.reinterpret(f, asked) for f in filled])
    for got, zero in zip(tvm_disc.build(relay.Function([], parts))(), zeros, strict=True):
        np.testing.assert_array_equal(np.from_dlpack(got), np.full(5, zero).view(asked))


PAIR = ((None, 4), "float32")
OTHERS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("nn.bias_add", [PAIR, ((None,), "float16")], {}),
    ("nn.prelu", [(IMAGE, "float32"), ((None,), "float64")], {}),
    ("variance", [PAIR, ((None,), "int32")], {"axis": (1,)}),
    ("scatter_elements", [PAIR, ((None, 4), "int64"), ((None, 4), "float64")], {"axis": 0}),
    ("scatter", [PAIR, ((None, 4), "int64"), ((None, 4), "int32")], {"axis": 0}),
    ("scatter_nd", [PAIR, ((1, None), "int64"), ((None, 4), "bool")], {}),
]


@pytest.mark.parametrize(("name", "inputs", "attrs"), OTHERS, ids=[o[0] for o in OTHERS])
def test_operands_of_two_types(name: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    with pytest.raises(TypeMismatch, match=f"{name}: expected operands of the same dtype, found"):
        compiled(name, *inputs, **attrs)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("nn.bias_add", [PAIR, PAIR], {}, "expected a bias of rank 1, found rank 2"),
        (
            "variance",
            [PAIR, ((None, 2), "float32")],
            {"axis": (1,)},
            "axis 1 of the mean must",
        ),
        (
            "variance",
            [PAIR, ((1, 1, 1), "float32")],
            {"axis": (1,)},
            "expected a mean of rank 1 or 2, found rank 3",
        ),
        (
            "nn.upsampling",
            [(IMAGE, "float32")],
            {"scale_h": -1.0, "scale_w": 1.0},
            "scale_h: expected a finite factor",
        ),
        (
            "nn.upsampling",
            [(IMAGE, "float32")],
            {"scale_h": 2.0, "scale_w": 0.0},
            "factor above 0, found 0.0",
        ),
        (
            "nn.correlation",
            [(IMAGE, "float32")] * 2,
            {"max_displacement": -1, "kernel_size": 1, "stride1": 1, "stride2": 1},
            "max_displacement: expected 0 or more, found -1",
        ),
    ],
)
def test_what_is_refused(name: str, inputs: list[Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeMismatch, ShapeConflict), match=message):
        compiled(name, *inputs, **attrs)


def test_a_mean_of_integers_that_no_importer_made() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 4), "int32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.mean(x, 1)))
    with pytest.raises(Unsupported, match="no kernel computes means of int32; cast to float32"):
        tvm_disc.build(builder.get())
