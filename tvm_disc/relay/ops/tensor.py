"""Table entries of element-wise operators of one operand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import ELEMWISE, INJECTIVE, OPAQUE, REQUIRED, OpRow, op

ref = References("elementwise")


def _unary(name: str, function: Callable[..., object]) -> OpRow:
    return op(name, "data", ELEMWISE, ref.unary.of(function))


def _predicate(name: str, function: Callable[..., object]) -> OpRow:
    return op(name, "data", ELEMWISE, ref.predicate.of(function), compares=True)


ROWS: tuple[OpRow, ...] = (
    _unary("abs", np.abs),
    _unary("acos", np.arccos),
    _unary("acosh", np.arccosh),
    _unary("asin", np.arcsin),
    _unary("asinh", np.arcsinh),
    _unary("atan", np.arctan),
    _unary("atanh", np.arctanh),
    _unary("bitwise_not", np.invert),
    _unary("ceil", np.ceil),
    op("clip", "a", ELEMWISE, ref.clip, {"a_min": REQUIRED, "a_max": REQUIRED}),
    _unary("copy", np.copy),
    _unary("cos", np.cos),
    _unary("cosh", np.cosh),
    op("erf", "data", ELEMWISE, ref.erf),
    _unary("exp", np.exp),
    op("fast_erf", "data", ELEMWISE, ref.erf),
    _unary("fast_exp", np.exp),
    _unary("fast_tanh", np.tanh),
    _unary("floor", np.floor),
    _predicate("isfinite", np.isfinite),
    _predicate("isinf", np.isinf),
    _predicate("isnan", np.isnan),
    _unary("log", np.log),
    _unary("log10", np.log10),
    _unary("log2", np.log2),
    _unary("logical_not", np.logical_not),
    op("ndarray_size", "data", INJECTIVE, ref.ndarray_size, {"dtype": ""}),
    _unary("negative", np.negative),
    _unary("ones_like", np.ones_like),
    op("round", "data", ELEMWISE, ref.round_half_away),
    _unary("rsqrt", lambda x: 1 / np.sqrt(x)),
    op("shape_of", "data", OPAQUE, ref.shape_of, {"dtype": ""}),
    op("sigmoid", "data", ELEMWISE, ref.sigmoid),
    _unary("sign", np.sign),
    _unary("sin", np.sin),
    _unary("sinh", np.sinh),
    _unary("sqrt", np.sqrt),
    _unary("tan", np.tan),
    _unary("tanh", np.tanh),
    _unary("trunc", np.trunc),
    _unary("zeros_like", np.zeros_like),
)
