"""Table entries of broadcasting operators of two operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import BROADCAST, OpRow, op

ref = References("elementwise")


def _binary(name: str, function: Callable[..., object]) -> OpRow:
    return op(name, "lhs rhs", BROADCAST, ref.binary.of(function))


def _comparison(name: str, function: Callable[..., object]) -> OpRow:
    return op(name, "lhs rhs", BROADCAST, ref.predicate.of(function), compares=True)


def _logical(name: str, function: Callable[..., object]) -> OpRow:
    return op(name, "lhs rhs", BROADCAST, ref.logical.of(function))


ROWS: tuple[OpRow, ...] = (
    _binary("add", np.add),
    _binary("bitwise_and", np.bitwise_and),
    _binary("bitwise_or", np.bitwise_or),
    _binary("bitwise_xor", np.bitwise_xor),
    _binary("divide", ref.divide),
    _comparison("equal", np.equal),
    _binary("floor_divide", np.floor_divide),
    _binary("floor_mod", np.mod),
    _comparison("greater", np.greater),
    _comparison("greater_equal", np.greater_equal),
    _binary("left_shift", np.left_shift),
    _comparison("less", np.less),
    _comparison("less_equal", np.less_equal),
    _logical("logical_and", np.logical_and),
    _logical("logical_or", np.logical_or),
    _logical("logical_xor", np.logical_xor),
    _binary("maximum", np.maximum),
    _binary("minimum", np.minimum),
    _binary("mod", np.fmod),
    _binary("multiply", np.multiply),
    _comparison("not_equal", np.not_equal),
    _binary("power", np.power),
    _binary("right_shift", np.right_shift),
    _binary("subtract", np.subtract),
    _binary("trunc_divide", ref.trunc_divide),
    _binary("trunc_mod", np.fmod),
)
