"""Relay's element-wise operators, reductions and orders on special values, beside NumPy.

What NumPy computes of float32 is computed in float64 and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.semantics import special
from tvm_disc import relay
from tvm_disc.relay import builder
from tvm_disc.relay.ops.row import FusionClass
from tvm_disc.relay.ops.table import OPS

NAN, INF = math.nan, math.inf
# No function of one number, or with a file of its own.
_ELSEWHERE = frozenset(
    """copy ones_like zeros_like bitwise_not logical_not sin cos tan annotation.cast_hint
    annotation.checkpoint annotation.stop_fusion device_copy on_device""".split()
)
UNARY = sorted(
    row.name
    for row in OPS.values()
    if row.pattern is FusionClass.ELEMWISE
    and len(row.args) == 1
    and not row.attrs
    and row.name not in _ELSEWHERE
    and not row.name.startswith(("qnn.", "annotation."))
    and row.lower is not None
    and row.reference is not None
)
BINARY = sorted(
    row.name
    for row in OPS.values()
    if row.pattern is FusionClass.BROADCAST
    and row.args == ("lhs", "rhs")
    and not row.name.startswith(("bitwise_", "logical_", "left_", "right_", "qnn."))
    and row.lower is not None
)
# -0.0 becomes either zero.
EITHER_ZERO = ("nn.relu", "round", "sign")
# Python's lgamma is not relatively accurate at its zeros.
ATOL = {"lgamma": 1e-15}
# A formula that overflows where its result would not.
AS_IT_STANDS = ("hardswish",)
REDUCTIONS = ("sum", "prod", "mean", "max", "min", "argmax", "argmin")


def call(name: str, *operands: Any, **attrs: Any) -> Any:
    """A call of an operator, which Relay's Python functions may not have."""
    return builder.call(name, operands, **attrs)


def program(make: Callable[..., Any], *operands: np.ndarray) -> Any:
    """One program of all results, dims open."""
    shapes = [(relay.Any(), *x.shape[1:]) for x in operands]
    variables = [
        relay.var(f"x{k}", shape=s, dtype=str(x.dtype))
        for k, (s, x) in enumerate(zip(shapes, operands, strict=True))
    ]
    body = relay.Tuple(make(*variables))
    built = tvm_disc.build(relay.Function(variables, body), options=tvm_disc.Options(threads=1))
    found = built(*operands)
    return [np.asarray(f) for f in (found if isinstance(found, list | tuple) else [found])]


def reference(name: str, *operands: np.ndarray, **attrs: Any) -> np.ndarray:
    """What the row's reference computes in float64."""
    row = OPS[name]
    wide = [x if name in AS_IT_STANDS else x.astype(np.float64) for x in operands]
    with np.errstate(all="ignore"):
        assert row.reference is not None
        found = np.asarray(row.reference(*wide, **{**row.attrs, **attrs}))
        return found.astype(operands[0].dtype) if found.dtype.kind == "f" else found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(dtype: str) -> None:
    x = special.floats(dtype)
    assert len(UNARY) >= 35
    found = program(lambda v: [call(name, v) for name in UNARY], x)
    told = []
    for name, got in zip(UNARY, found, strict=True):
        # Relay's fast functions are the plain ones here.
        rtol, signs = (1e-6 if dtype == "float32" else 1e-14), name not in EITHER_ZERO
        want = reference(name, x)
        told += special.check(name, got, want, (x,), rtol=rtol, signs=signs, atol=ATOL.get(name, 0))
    assert not told, "\n".join(told)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary(dtype: str) -> None:
    a, b = special.pairs(dtype)
    assert len(BINARY) >= 15
    found = program(lambda v, w: [call(name, v, w) for name in BINARY], a, b)
    told = []
    for name, got in zip(BINARY, found, strict=True):
        signs = name not in ("maximum", "minimum")  # either zero
        rtol = 1e-6 if dtype == "float32" else 1e-14
        told += special.check(name, got, reference(name, a, b), (a, b), rtol=rtol, signs=signs)
    assert not told, "\n".join(told)


def test_reductions() -> None:
    x = special.rows("float32")
    found = program(lambda v: [call(n, v, axis=(1,)) for n in REDUCTIONS], x)
    told = []
    for name, got in zip(REDUCTIONS, found, strict=True):
        want = reference(name, x, axis=(1,))
        told += special.check(name, got, want.astype(got.dtype), (x,), rtol=1e-6, signs=False)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64"])
@pytest.mark.parametrize("ascend", [True, False])
def test_order(dtype: str, ascend: bool) -> None:
    """NaN is above every number, and equal elements keep their order."""
    x = special.rows(dtype) if dtype.startswith("float") else special.integers(dtype)[None]

    def make(v: Any) -> list[Any]:
        top = relay.topk(v, k=3, axis=1, ret_type="both", is_ascend=ascend, dtype="int64")
        return [
            relay.sort(v, axis=1, is_ascend=ascend),
            relay.argsort(v, axis=1, is_ascend=ascend, dtype="int64"),
            top[0], top[1], relay.argmax(v, axis=1), relay.argmin(v, axis=1),
        ]  # fmt: skip

    values, places, top, top_places, most, least = program(make, x)
    for line, row in enumerate(x):
        key = [(1, 0.0) if np.isnan(v) else (0, float(v)) for v in row.astype(np.float64)]
        if dtype == "int64":
            key = [(0, int(v)) for v in row]  # type: ignore[misc]
        want = sorted(range(len(row)), key=lambda k: key[k])
        if not ascend:
            want = sorted(range(len(row)), key=lambda k: (-key[k][0], -key[k][1]))
        assert places[line].tolist() == want, row
        assert top_places[line].tolist() == want[:3]
        assert np.array_equal(values[line], row[want], equal_nan=dtype.startswith("float"))
        assert np.array_equal(top[line], row[want[:3]], equal_nan=dtype.startswith("float"))
        assert most[line] == np.argmax(row) and least[line] == np.argmin(row)


def test_a_long_line_in_descending_order() -> None:
    """Many passes of merging keep NaN in front, in their old order."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3001)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = NAN
    (places,) = program(lambda v: [relay.argsort(v, axis=1, is_ascend=False, dtype="int64")], x)
    assert np.array_equal(places, np.lexsort((-x, ~np.isnan(x)), 1))


def test_softmax_of_a_hidden_row() -> None:
    """A softmax that is written out gives NaN where all is -inf; PyTorch's attention does not."""
    x = np.array([[0, -INF], [-INF, -INF]], np.float32)
    (got,) = program(lambda v: [relay.nn.softmax(v, axis=1)], x)
    assert np.array_equal(got, np.array([[1, 0], [NAN, NAN]], np.float32), equal_nan=True)


def test_angles_beyond_the_range_are_nan() -> None:
    x = np.array([2.0**29, -(2.0**29), 3e38, INF, NAN], np.float32)
    for got in program(lambda v: [relay.sin(v), relay.cos(v), relay.tan(v)], x):
        assert np.isnan(got).all()


def test_running_totals_add_in_their_type() -> None:
    x = np.array([[1e30, 1e38, -1e38]], np.float32)
    (got,) = program(lambda v: [relay.cumsum(v, axis=1)], x)
    assert got[0, 2] == 0
