"""Quantised programs: recorded results, how many kernels they take, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same
from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay.ops.references import qnn as ref

ANY = relay.Any()


def number(value: float) -> relay.Constant:
    """A scale."""
    return relay.const(value, "float32")


def point(value: int) -> relay.Constant:
    """A zero point."""
    return relay.const(value, "int32")


def integers(*shape: int, dtype: str = "int8", seed: int = 0) -> np.ndarray:
    """Numbers from the whole range of a type."""
    kind = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(kind.min, kind.max + 1, shape).astype(dtype)


def test_recorded_network_at_every_size() -> None:
    """Convolutions of several kinds, a sum, a table, a join, a pool and a dense layer, as Relay's
    own executor computed them."""
    module = relay.parse((DATA / "models" / "qcnn.relay").read_text())
    recorded = np.load(DATA / "models" / "qcnn.npz")
    with compile_counter() as count:
        executable = tvm_disc.build(module)
        for k in range(5):
            shape = recorded[f"shape{k}"]
            image = np.arange(int(shape.prod())) * 7919 % 2003 / 1001.5 - 1
            results = executable(image.astype("float32").reshape(shape))
            for j, found in enumerate(results):
                assert_same(found, recorded[f"out{k}_{j}"], f"result {j} at {tuple(shape)}", 0.0)
    assert count == [1]
    assert len(executable.launches) <= 14


@pytest.mark.parametrize("scale", [0.02, np.linspace(0.01, 0.03, 48)], ids=["tensor", "channel"])
def test_dense_and_its_requantisation_are_one_kernel(scale: Any) -> None:
    x = relay.var("x", shape=(ANY, 64), dtype="int8")
    weight, bias = integers(48, 64), np.arange(48, dtype="int32") * 99 - 2000
    scales = np.asarray(scale, "float32")
    y = relay.qnn.op.dense(x, relay.const(weight), point(3), point(0), number(0.1), number(0.2), 48)
    y = relay.nn.bias_add(y, relay.const(bias))
    y = relay.qnn.op.requantize(y, relay.const(scales), point(0), number(0.7), point(-4))
    executable = tvm_disc.build(relay.Function([x], relay.op.clip(y, -4.0, 127.0)))
    assert len(executable.launches) == 1
    for n in (0, 1, 7, 64, 130):
        data = integers(n, 64, seed=n)
        sums = (data.astype("int32") - 3) @ weight.astype("int32").T + bias
        zeros = np.int32(0), np.float32(0.7), np.int32(-4)
        wanted = ref.requantize(sums, scales, *(np.asarray(z) for z in zeros))
        assert_same(executable(data), wanted.clip(-4), f"{n} rows")


def conv(x: relay.Var, weight: np.ndarray, zero: int, **attrs: Any) -> relay.Call:
    """A convolution requantised per channel."""
    channels = weight.shape[0]
    y = relay.qnn.op.conv2d(
        x,
        relay.const(weight),
        point(zero),
        point(0),
        number(0.1),
        number(0.2),
        weight.shape[2:],
        channels,
        **attrs,
    )
    y = relay.nn.bias_add(y, relay.const(np.arange(channels, dtype="int32")))
    scales = relay.const(np.linspace(0.01, 0.03, channels), "float32")
    return relay.qnn.op.requantize(y, scales, point(0), number(2.0), point(9), axis=1)


@pytest.mark.parametrize(("groups", "inner"), [(1, 6), (2, 3), (6, 1)])
def test_a_convolution_and_its_requantisation_are_one_kernel(groups: int, inner: int) -> None:
    """Of one group, it reads and writes channels last: the others transpose bytes."""
    x = relay.var("x", shape=(ANY, 6, ANY, ANY), dtype="int8")
    weight = integers(6, inner, 3, 3)
    call = conv(x, weight, 0, padding=(1, 0, 1, 2), groups=groups)
    executable = tvm_disc.build(relay.Function([x], call))
    assert len(executable.launches) == (3 if groups == 1 else 1)
    for n, h, w in ((1, 1, 1), (2, 7, 5), (1, 17, 50), (3, 2, 97)):
        data = integers(n, 6, h, w, seed=h)
        layouts = {"data_layout": "NCHW", "kernel_layout": "OIHW", "dilation": (1, 1)}
        window = {"strides": (1, 1), "padding": (1, 0, 1, 2), "groups": groups}
        zeros, unused = [np.zeros((), "int32")] * 2, [np.ones((), "float32")] * 2
        sums = ref.conv2d(data, weight, *zeros, *unused, **window, **layouts)
        sums = sums + np.arange(6, dtype="int32").reshape(6, 1, 1)
        scales = np.linspace(0.01, 0.03, 6).astype("float32")
        to = (np.asarray(2.0, "float32"), np.asarray(9, "int32"))
        wanted = ref.requantize(sums, scales, zeros[0], *to, axis=1)
        assert_same(executable(data), wanted, f"{(n, h, w)}")


def test_a_zero_point_is_read_by_the_convolution() -> None:
    """A border of zero points: the convolution reads bytes; the others transpose bytes."""
    x = relay.var("x", shape=(ANY, 6, ANY, ANY), dtype="int8")
    first = conv(x, integers(6, 6, 3, 3), 0, padding=(1, 1))
    second = conv(first, integers(6, 6, 3, 3, seed=1), 9, padding=(1, 1))
    executable = tvm_disc.build(relay.Function([x], second))
    assert len(executable.launches) == 4


def test_integer_averages_round_towards_zero() -> None:
    x = relay.var("x", shape=(ANY, 2, ANY, ANY), dtype="int32")
    call = relay.nn.avg_pool2d(x, (2, 2), (1, 1))
    executable = tvm_disc.build(relay.Function([x], call))
    for n, h, w in ((1, 2, 2), (2, 3, 5), (1, 17, 50)):
        data = integers(n, 2, h, w, dtype="int8", seed=h).astype("int32")
        total = data[..., :-1, :-1] + data[..., 1:, :-1] + data[..., :-1, 1:] + data[..., 1:, 1:]
        assert_same(executable(data), np.trunc(total / 4).astype("int32"), f"{(n, h, w)}")


X = relay.var("x", shape=(ANY, 4), dtype="int8")
F = relay.var("f", shape=(ANY, 4), dtype="float32")
IMAGE = relay.var("image", shape=(ANY, 3, ANY, ANY), dtype="int8")
SCALE = relay.var("scale", shape=(), dtype="float32")
ZERO, ONE, TWO = point(0), number(1.0), number(2.0)
VECTOR = relay.const(np.ones(3), "float32")
TO = (X, ONE, ZERO, TWO, ZERO)
FACTORS = (ZERO, ZERO, ONE, ONE)
WEIGHT, KERNEL = relay.const(integers(4, 4)), relay.const(integers(2, 3, 1, 1))
STACK = relay.var("stack", shape=(ANY, 4, 4), dtype="int8")
ANNOTATION = "relay.op.annotation.simulated_quantize"

REFUSED: list[tuple[str, type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
    ("input scale must be a", Unsupported, "qnn.requantize", (X, SCALE, ZERO, ONE, ZERO), {}),
    ("output scale must be a", Unsupported, "qnn.requantize", (X, ONE, ZERO, SCALE, ZERO), {}),
    ("scale: expected a", Unsupported, "qnn.requantize", (X, ONE, ZERO, number(0), ZERO), {}),
    ("rounding: expected .* found 'DOWN'", Unsupported, "qnn.requantize", TO, {"rounding": "DOWN"}),
    ("compute_dtype.* found 'int8'", Unsupported, "qnn.requantize", TO, {"compute_dtype": "int8"}),
    ("per entry of axis 1", ShapeConflict, "qnn.quantize", (F, VECTOR, ZERO), {}),
    ("expected float32, found int8", TypeMismatch, "qnn.quantize", (X, ONE, ZERO), {}),
    ("scale or zero point: expected rank 0 or 1", TypeMismatch, "qnn.dequantize", (X, F, ZERO), {}),
    ("data: expected integers, found float32", TypeMismatch, "qnn.dequantize", (F, ONE, ZERO), {}),
    ("zero point: expected integers, found", TypeMismatch, "qnn.dequantize", (X, ONE, ONE), {}),
    ("zero point: expected integers, found", TypeMismatch, "qnn.quantize", (F, ONE, ONE), {}),
    ("out_dtype: expected int32", Unsupported, "qnn.dense", (X, WEIGHT, *FACTORS),
     {"units": 4, "out_dtype": "int16"}),
    ("weight_layout: .* found NC16n", Unsupported, "qnn.contrib_dense_pack", (X, WEIGHT, *FACTORS),
     {"weight_layout": "NC16n"}),
    ("expected one zero point per operand", Unsupported, "qnn.batch_matmul",
     (STACK, STACK, relay.const(np.ones(4, "int32")), *FACTORS[1:]), {}),
    ("zero point must be a", Unsupported, "qnn.tanh", (X, SCALE, ZERO, ONE, ZERO), {}),
    ("int8 or uint8, found float32", TypeMismatch, "qnn.exp", (F, *TO[1:]), {}),
    ("int8 or uint8, found float32", TypeMismatch, "qnn.leaky_relu", (F, *TO[1:]), {}),
    ("input scale: .* found 1.5", Unsupported, "qnn.softmax", (X, number(1.5), *TO[2:]), {}),
    ("for the same axis", Unsupported, "qnn.mul", (X, X, VECTOR, *TO[2:], ONE, ZERO), {}),
    ("kernel_layout: .*OIHW4o", Unsupported, "qnn.conv2d", (IMAGE, KERNEL, *FACTORS),
     {"kernel_layout": "OIHW4o"}),
    ("expected floats, found", Unsupported, "nn.adaptive_avg_pool2d", (IMAGE,),
     {"output_size": (2, 2)}),
    ("expected int32, found int8", TypeMismatch, "fixed_point_multiply", (X,),
     {"multiplier": 1, "shift": 0}),
    ("expected True and 'round'", Unsupported, ANNOTATION, (F, ONE, ONE, ONE),
     {"kind": 1, "rounding": "floor"}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "error", "name", "args", "attrs"), REFUSED)
def test_refused(
    message: str, error: type[Exception], name: str, args: tuple[Any, ...], attrs: dict[str, Any]
) -> None:
    call = relay.builder.call(name, args, **attrs)
    params = list(dict.fromkeys(a for a in args if isinstance(a, relay.Var)))
    with pytest.raises(error, match=message):
        tvm_disc.build(relay.Function(params, call))


def test_python_functions_match_relays() -> None:
    x = relay.var("x", shape=(ANY, 4), dtype="float32")
    q = relay.qnn.op.quantize(x, number(0.5), point(1))
    assert q.attrs == {"axis": -1, "out_dtype": "int8"}
    assert relay.qnn.op is relay.qnn
    y = relay.qnn.simulated_quantize(x, number(0.5), point(1), out_dtype="uint8")
    assert int(y.args[1].data) == 2
    assert relay.qnn.leaky_relu(q, 0.5, *[number(1.0), point(0)] * 2).attrs == {"alpha": 0.5}
    with pytest.raises(AttributeError, match=r"unknown operator qnn\.nothing"):
        relay.qnn.op.nothing  # noqa: B018
