"""bfloat16 programs against NumPy in float32, rounded where the graph has a bfloat16 value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.codegen.plan.kernels import read_group
from tvm_disc.errors import BadInput, Unsupported

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(3)
LENGTHS = (0, 1, 7, 15, 16, 17, 33, 300)
ONE_UNIT = 2.0**-7  # of the last place: sums in another order may round the other way


def narrow(x: Any) -> np.ndarray:
    return np.asarray(x, "float32").astype(BF16)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype("float32")


def rounded(x: Any) -> np.ndarray:
    return wide(narrow(x))


def normal(*shape: int) -> np.ndarray:
    return narrow(RNG.standard_normal(shape))


def check(
    exe: Any, args: Sequence[np.ndarray], reference: Callable[..., Any], units: float = 0.0
) -> None:
    got = exe(*args)
    expected = reference(*(wide(a) if a.dtype == BF16 else a for a in args))
    assert got.dtype == BF16
    np.testing.assert_allclose(
        wide(got), rounded(expected), rtol=units * ONE_UNIT, atol=units / 512
    )


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def test_casts_are_exact_or_round_to_nearest_even() -> None:
    x, y = rows("n", dtype="bfloat16"), rows("n")
    up = tvm_disc.build(function(x, relay.cast(x, "float32")))
    down = tvm_disc.build(function(y, relay.cast(y, "bfloat16")))
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(BF16)
    np.testing.assert_array_equal(up(every), wide(every))
    near = (np.arange(1 << 16, dtype=np.uint32) << 16)[:, None]
    near = (near + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).view(np.float32)
    for size in (0, 1, 17, near.size):
        values = near.reshape(-1)[:size]
        np.testing.assert_array_equal(wide(down(values)), rounded(values))


def test_integers_and_other_floats() -> None:
    x = rows("n", dtype="bfloat16")
    for dtype in ("int32", "float16", "float64", "bool"):
        there = relay.cast(x, dtype)
        exe = tvm_disc.build(function(x, relay.cast(there, "bfloat16")))
        for n in LENGTHS:
            a = narrow(3 * RNG.standard_normal(n))
            check(exe, [a], lambda v, dtype=dtype: v.astype(dtype).astype("float32"))


def test_a_chain_rounds_each_value_of_the_graph_in_one_kernel() -> None:
    x, y = rows("n", 40, dtype="bfloat16"), rows(40, name="y", dtype="bfloat16")
    third = relay.const(1 / 3, "bfloat16")
    z = relay.tanh(relay.multiply(relay.add(x, y), third))
    exe = tvm_disc.build(function(x, y, relay.nn.relu(relay.subtract(relay.exp(z), third))))
    assert len(exe.launches) == 1

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        t = rounded(np.tanh(rounded(rounded(a + b) * rounded(1 / 3))))
        return np.maximum(rounded(rounded(np.exp(t)) - rounded(1 / 3)), 0)

    for n in LENGTHS:
        check(exe, [normal(n, 40), normal(40)], reference, units=1)


def test_composite_operators_round_their_result_only() -> None:
    x = rows("n", "m", dtype="bfloat16")
    exe = tvm_disc.build(function(x, relay.nn.softmax(x)))
    assert len(exe.launches) == 1
    for n, m in ((0, 5), (1, 1), (3, 7), (2, 300), (40, 64), (5, 1000)):
        check(exe, [normal(n, m)], softmax, units=1)


def test_layer_norm_is_one_kernel() -> None:
    gamma, beta = normal(48), normal(48)
    x = rows("n", 48, dtype="bfloat16")
    y = relay.nn.layer_norm(x, relay.const(gamma), relay.const(beta))
    exe = tvm_disc.build(function(x, y))
    assert len(exe.launches) == 1

    def reference(a: np.ndarray) -> np.ndarray:
        centred = a - a.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return centred / scale * wide(gamma) + wide(beta)

    for n in LENGTHS[1:]:
        check(exe, [normal(n, 48)], reference, units=2)


def test_sums_are_added_in_float32() -> None:
    x = rows("n", "m", dtype="bfloat16")
    for axis in (0, 1):
        exe = tvm_disc.build(function(x, relay.sum(x, axis=axis)))
        for n, m in ((1, 1), (3, 4000), (4000, 3), (0, 5)):
            check(exe, [narrow(np.ones((n, m)))], lambda a, axis=axis: a.sum(axis))


@pytest.mark.parametrize("constant", [True, False])
def test_dense_keeps_narrow_weights(constant: bool, tmp_path: Path) -> None:
    w, b = normal(70, 96), normal(70)
    x, v = rows("n", 96, dtype="bfloat16"), rows("m", 96, name="w", dtype="bfloat16")
    y = relay.nn.dense(x, relay.const(w) if constant else v)
    out = relay.nn.relu(relay.nn.bias_add(y, relay.const(b)) if constant else y)
    exe = tvm_disc.build(function(x, out) if constant else function(x, v, out))
    assert len(exe.launches) == 1

    def reference(a: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
        product = rounded(a @ (wide(w) if other is None else other).T)
        return np.maximum(product + wide(b) if constant else product, 0)

    for n in LENGTHS:
        args = [normal(n, 96)] if constant else [normal(n, 96), normal(n + 3, 96)]
        check(exe, args, reference, units=2)
    if constant:
        exe.save(tmp_path / "dense.so")
        loaded = tvm_disc.load(tmp_path / "dense.so")
        assert loaded.signature[0][2] == "bfloat16"
        check(loaded, [normal(5, 96)], reference, units=2)


def test_batch_matmul() -> None:
    p, q = (rows("b", n, 32, name=n, dtype="bfloat16") for n in ("n", "m"))
    exe = tvm_disc.build(function(p, q, relay.nn.batch_matmul(p, q)))
    for b, n, m in ((1, 1, 1), (2, 5, 9), (3, 33, 17), (2, 3, 50), (1, 100, 64)):
        args = [normal(b, n, 32), normal(b, m, 32)]
        check(exe, args, lambda x, y: x @ y.transpose(0, 2, 1), units=2)


def test_attention_is_one_kernel() -> None:
    q, k, v = (rows("b", n, 32, name=f"x{i}", dtype="bfloat16") for i, n in enumerate("nmm"))
    mask = rows("b", 1, "m", name="mask", dtype="bfloat16")
    scores = relay.multiply(relay.nn.batch_matmul(q, k), relay.const(0.2, "bfloat16"))
    weights = relay.nn.softmax(relay.add(scores, mask))
    y = relay.nn.batch_matmul(weights, relay.transpose(v, (0, 2, 1)))
    exe = tvm_disc.build(function(q, k, v, mask, y))
    assert len(exe.launches) == 1

    def reference(a: Any, b: Any, c: Any, m: Any) -> np.ndarray:
        s = rounded(rounded(a @ b.transpose(0, 2, 1)) * rounded(0.2))
        return softmax(rounded(s + m)) @ c  # the kernel's weights are not rounded

    for b, n, m in ((1, 1, 1), (2, 5, 9), (3, 33, 17), (1, 50, 200), (2, 3, 300)):
        args = [normal(b, n, 32), normal(b, m, 32), normal(b, m, 32), normal(b, 1, m)]
        check(exe, args, reference, units=2)


@pytest.mark.parametrize("groups", [1, 6])
def test_convolution_and_pooling(groups: int) -> None:
    w = normal(6, 6 // groups, 3, 3)
    x = rows("b", 6, "h", "w", dtype="bfloat16")
    y = relay.nn.conv2d(
        x, relay.const(w), padding=(1, 1), channels=6, kernel_size=(3, 3), groups=groups
    )
    exe = tvm_disc.build(function(x, relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))))

    def reference(a: np.ndarray) -> np.ndarray:
        n, _, h, width = a.shape
        padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
        full = np.zeros((6, 6, 3, 3), "float32")
        for o in range(6):
            first = o // (6 // groups) * (6 // groups)
            full[o, first : first + 6 // groups] = wide(w)[o]
        taps = [(i, j) for i in range(3) for j in range(3)]
        views = [padded[:, :, i : i + h, j : j + width] for i, j in taps]
        parts = [np.einsum("nchw,oc->nohw", v, full[:, :, i, j])
                 for v, (i, j) in zip(views, taps, strict=True)]  # fmt: skip
        out = np.sum(parts, 0)
        pairs = out[:, :, : h // 2 * 2, : width // 2 * 2]
        return pairs.reshape(n, 6, h // 2, 2, width // 2, 2).max((3, 5))

    for b, h, width in ((1, 2, 2), (2, 7, 9), (1, 16, 33), (3, 5, 40)):
        check(exe, [normal(b, 6, h, width)], reference, units=2)


def test_moves_keep_the_bits() -> None:
    x, i = rows("n", "m", dtype="bfloat16"), rows("k", name="i", dtype="int64")
    both = relay.concatenate([x, relay.reverse(x, axis=1)], axis=1)
    exe = tvm_disc.build(function(x, i, relay.take(relay.transpose(both, (1, 0)), i, axis=0)))
    for n, m, k in ((1, 1, 1), (3, 7, 5), (17, 33, 40), (5, 64, 0), (40, 20, 9)):
        bits = RNG.integers(0, 1 << 16, (n, m)).astype(np.uint16)  # NaN and infinity among them
        picks = RNG.integers(0, 2 * m, k)
        expected = np.concatenate([bits, bits[:, ::-1]], 1).T[picks]
        np.testing.assert_array_equal(exe(bits.view(BF16), picks).view(np.uint16), expected)


def test_branches_and_comparisons() -> None:
    x = rows("n", dtype="bfloat16")
    positive = relay.greater(relay.max(x), relay.const(0.0, "bfloat16"))
    body = relay.If(positive, relay.add(x, x), relay.negative(x))
    exe = tvm_disc.build(function(x, body))
    for n in LENGTHS[1:]:
        for sign in (1, -1):
            a = narrow(sign * np.abs(RNG.standard_normal(n)) - sign * 0.01)
            check(exe, [a], lambda v: v + v if v.max() > 0 else -v)


def test_arrays_and_tensors_of_every_kind() -> None:
    x = rows("n", 4, dtype="bfloat16")
    exe = tvm_disc.build(function(x, relay.Tuple([relay.negative(x), relay.cast(x, "float32")])))
    a = normal(6, 4)
    expected = -wide(a)
    for given in (a, np.asfortranarray(a), np.repeat(a, 2, 0)[::2], a.tolist()):
        first, second = exe(given)
        assert isinstance(first, np.ndarray) and first.dtype == BF16 and second.dtype == "float32"
        np.testing.assert_array_equal(wide(first), expected)
    tensor = exe(tvm.runtime.tensor(a))[0]
    assert str(tensor.dtype) == "bfloat16"
    np.testing.assert_array_equal(wide(tensor.numpy()), expected)
    out = np.zeros((6, 4), BF16), np.zeros((6, 4), "float32")
    exe(a, out=out)
    np.testing.assert_array_equal(wide(out[0]), expected)


def test_other_types_are_refused_by_name() -> None:
    x = rows("n", 4, dtype="bfloat16")
    exe = tvm_disc.build(function(x, relay.negative(x)))
    for dtype in ("float32", "float16", "uint16"):
        with pytest.raises(BadInput, match=f"input 'x': expected dtype bfloat16; found x: {dtype}"):
            exe(np.zeros((2, 4), dtype))
    with pytest.raises(BadInput, match="output 0: expected dtype bfloat16"):
        exe(normal(2, 4), out=np.zeros((2, 4), "float16"))
    check(exe, [normal(2, 4)], np.negative)


def test_no_kernel_computes_in_bfloat16() -> None:
    x = relax.Var("x", relax.TensorType([4, 4], "bfloat16"))
    for call, name in ((R.exp(x), "exp"), (R.matmul(x, x), "matmul")):
        builder = relax.BlockBuilder()
        with builder.function("main", [x], {"disc.kind": "loop", "disc.constants": []}):
            builder.emit_func_output(builder.emit(call))
        with pytest.raises(Unsupported, match=f"{name}: no kernel computes in bfloat16; cast its"):
            read_group("group", builder.get()["main"])
