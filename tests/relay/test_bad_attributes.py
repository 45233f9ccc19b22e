"""Attributes that an operator cannot have: refused by the importer, with the operator and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay_passes.versions import import_versions

X = relay.var("x", shape=(relay.Any(), 3))
ONE = relay.const(1.0)
IMAGE = relay.var("image", shape=(relay.Any(),) * 4)
KERNEL = relay.var("kernel", shape=(4, 4, 3, 3))
SIZES = relay.shape_of(X)  # [?, 3], known to the importer


def numbers(*values: Any) -> Any:
    return relay.const(list(values), "int32")


def imported(expr: Any) -> None:
    module = relay.IRModule.from_expr(relay.Function(relay.free_vars(expr), expr))
    import_versions(module, None, (), False)


OF_SIZES: list[tuple[Callable[[], Any], str]] = [
    (lambda: relay.transpose(SIZES, (1, 0)), "axis 1 is out of range; expected -1 to 0"),
    (lambda: relay.squeeze(SIZES, [0]), "2 must equal 1"),
    (lambda: relay.squeeze(SIZES, [1]), "axis 1 is out of range"),
    (lambda: relay.expand_dims(SIZES, 4), "axis 4 is out of range; expected -2 to 1"),
    (lambda: relay.concatenate([SIZES, numbers([1, 2])], 0), "ranks 1 and 2"),
    (lambda: relay.concatenate([SIZES, SIZES], 1), "axis 1 is out of range"),
    (lambda: relay.stack([SIZES, numbers(1, 2, 3)], 0), "2 must equal 3"),
    (lambda: relay.take(SIZES, relay.const(0), axis=3), "axis 3 is out of range"),
    (lambda: relay.gather(SIZES, 2, numbers(0)), "axis 2 is out of range"),
    (lambda: relay.add(SIZES, numbers(1, 2, 3)), "2 must equal 3"),
    (lambda: relay.less(SIZES, numbers(1, 2, 3)), "2 must equal 3"),
    (lambda: relay.logical_not(SIZES), "expected bools, found int"),
    (lambda: relay.logical_and(SIZES, SIZES), "expected bools, found int"),
    (lambda: relay.prod(SIZES, axis=4), "axis 4 is out of range"),
    (lambda: relay.scatter_elements(SIZES, numbers([0]), numbers(1)), "indices of rank 1"),
    (lambda: relay.scatter_elements(SIZES, numbers(0, 1), numbers(1)), "1 must equal 2"),
]


@pytest.mark.parametrize(("make", "message"), OF_SIZES)
def test_sizes_are_refused_as_other_tensors_are(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeMismatch, ShapeConflict), match=message):
        imported(make())


OF_TENSORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: relay.expand_dims(X, 4), "axis 4 is out of range; expected -3 to 2"),
    (lambda: relay.reshape_like(X, X, lhs_begin=-3), "lhs_end: .* rank 2, found -3 and 2"),
    (lambda: relay.reshape_like(X, X, rhs_begin=1, rhs_end=0), "rhs_end: .* rank 2, found 1 and 0"),
    (lambda: relay.reshape_like(X, X, lhs_end=3), "lhs_end: .* rank 2, found 0 and 3"),
    (lambda: relay.sliding_window(X, 1, (2,), (-1,)), "windows and strides of at least 1, found"),
    (lambda: relay.sliding_window(X, 1, (0,), (1,)), r"found \[0\] and \[1\]"),
    (
        lambda: relay.Call(
            relay.op.get("qnn.simulated_quantize"), [X, ONE, ONE, ONE], {"axis": -1}
        ),
        "expected the code of a type as int32, found float32",
    ),
    (lambda: relay.expand_dims(X, 0, 1 << 31), "num_newaxis: expected 0 to 64"),
    (
        lambda: relay.nn.prelu(IMAGE, relay.var("a", shape=(3,), dtype="float64")),
        "expected operands of the same dtype, found float32 and float64",
    ),
    (lambda: relay.tile(X, (-1, 1)), "reps: expected at least 0, found -1"),
    (lambda: relay.repeat(X, -2, axis=0), "repeats: expected at least 0, found -2"),
    (lambda: relay.full(relay.const(1.0), (-3,), "float32"), "axis 0 .* would have size -3"),
    (lambda: relay.split(X, 1 << 31, axis=0)[0], "expected 1 to 4096 parts, found 2147483648"),
    (lambda: relay.nn.lrn(IMAGE, size=1 << 20), "size: expected 1 to 255 entries, found 1048576"),
    (lambda: relay.nn.lrn(IMAGE, size=0), "expected 1 to 255 entries, found 0"),
    (lambda: relay.cast(X, "foo"), "dtype: expected an element type .*found 'foo'"),
    (lambda: relay.cast(X, "int4"), "dtype: expected an element type .*found 'int4'"),
    (lambda: relay.cast(X, ""), "dtype: expected an element type .*found ''"),
    (lambda: relay.shape_of(X, "foo"), "dtype: expected an element type .*found 'foo'"),
    (
        lambda: relay.gather_nd(X, numbers([0]), batch_dims=-1),
        "batch_dims: expected 0 to 1, found -1",
    ),
    (lambda: relay.nn.mirror_pad(X, pad_width=((0,), (1, 1))), "two widths"),
    (lambda: relay.nn.depth_to_space(IMAGE, 0), "block_size: expected 1 to 2147483647, found 0"),
    (lambda: relay.nn.conv2d(IMAGE, KERNEL, groups=0), "groups: expected 1 to .* found 0"),
    (lambda: relay.nn.conv2d(IMAGE, KERNEL, groups=1 << 31), "groups: .* found 2147483648"),
    (
        lambda: relay.nn.conv2d(IMAGE, KERNEL, strides=(1 << 40, 1)),
        "strides: .* found 1099511627776",
    ),
    (lambda: relay.stft(relay.reshape(X, (-1,)), 1 << 31, 2, 8), "n_fft: .* found 2147483648"),
    (lambda: relay.nn.max_pool2d(IMAGE, pool_size=(0, 2)), "pool_size: .* found 0"),
]


@pytest.mark.parametrize(("make", "message"), OF_TENSORS)
def test_what_an_attribute_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeMismatch, Unsupported), match=message):
        imported(make())


def test_attributes_at_the_border_of_what_they_can_be() -> None:
    imported(relay.nn.lrn(IMAGE, size=1))
    imported(relay.expand_dims(X, -3, 2))
    imported(relay.tile(X, (0, 1)))
    imported(relay.split(X, 3, axis=1)[2])
    imported(relay.cast(X, "float"))
