"""Every element-wise operator of the table on every dtype: right, or refused while importing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tvm_disc
from tests.relay.samples import samples_of
from tvm_disc import relay
from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.module import import_module
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops import broadcast, tensor
from tvm_disc.relay.ops.row import FusionClass, OpRow

FLOATS = {"float64": 1e-13, "float32": 4e-7, "float16": 1e-3, "bfloat16": 8e-3}
INTEGERS = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = [*FLOATS, *INTEGERS, "bool"]
# One of each kind and width of register; the table's samples are float32 and int32.
COMPILED = ["float64", "float16", "bfloat16", "int8", "int64", "uint8", "uint64", "bool"]
ROWS = [
    row
    for row in (*tensor.ROWS, *broadcast.ROWS)
    if row.pattern in (FusionClass.ELEMWISE, FusionClass.BROADCAST)
    and 1 <= len(row.args) <= 2
    and samples_of(row)
    and row.name not in ("full", "cast", "cast_like", "broadcast_to_like", "trilu", "full_like")
]
# What an operator is not defined for.
REAL = set(
    "acos acosh asin asinh atan atanh cos cosh erf exp fast_erf fast_exp fast_tanh log log10 log2 "
    "rsqrt sigmoid sin sinh sqrt tan tanh".split()
)
BITS = set("bitwise_and bitwise_not bitwise_or bitwise_xor left_shift right_shift".split())
SHIFTS = {"left_shift", "right_shift"}
NO_TRUTHS = set(
    "clip divide floor_divide floor_mod mod negative power sign subtract trunc_divide "
    "trunc_mod".split()
)


def is_refused(name: str, dtype: str) -> bool:
    if name.startswith("logical_"):
        return dtype != "bool"
    if dtype in FLOATS:
        return name in BITS
    return name in REAL or (dtype == "bool" and name in NO_TRUTHS | SHIFTS)


def function(row: OpRow, dtype: str, tag: str = "x") -> tuple[list[Any], Any]:
    """(inputs, call) of an operator on vectors."""
    params = [
        relay.var(f"{tag}{k}", shape=(relay.Any(),), dtype=dtype) for k, _ in enumerate(row.args)
    ]
    sample = samples_of(row)[0]
    return params, relay.Call(relay.op.get(row.name), params, {**row.attrs, **sample.attrs})


def elements(row: OpRow, k: int, dtype: str, n: int) -> np.ndarray:
    """Operand ``k``: within what the operator is defined for."""
    rng = np.random.default_rng(n + 7 * k)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    low, high = samples_of(row)[0].ranges.get(k, (-3, 3))
    if dtype in FLOATS:
        return rng.uniform(low, high, n).astype(bfloat16 if dtype == "bfloat16" else dtype)
    kind = np.iinfo(dtype)
    if row.name in SHIFTS and k == 1:
        return rng.integers(0, kind.bits + 3, n).astype(dtype)
    if row.name == "power":
        return rng.integers(0 if k else max(kind.min, -2), 5, n).astype(dtype)
    values = rng.integers(kind.min, kind.max, n, dtype, endpoint=True)
    small = rng.random(n) < 0.5
    values[small] = rng.integers(max(kind.min, -3), 4, n)[small].astype(dtype)
    if "div" in row.name or "mod" in row.name:
        # By 0, and the least number by -1: not defined.
        least = (values == kind.min) & (kind.min < 0)
        values[(values == 0) | least | (values == np.array(-1).astype(dtype))] = 2
    return values


def wanted(row: OpRow, given: list[np.ndarray], dtype: str) -> np.ndarray:
    """NumPy's result, for narrow floats of the same numbers in float64."""
    attrs = {**row.attrs, **samples_of(row)[0].attrs}
    assert row.reference is not None
    wide = [x.astype("float64") for x in given] if dtype in FLOATS else given
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = row.reference(*wide, **attrs)
    return np.asarray(result)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_defined_is_refused(dtype: str) -> None:
    for row in ROWS:
        if is_refused(row.name, dtype):
            params, call = function(row, dtype)
            with pytest.raises(TypeMismatch, match=rf"^{row.name}: expected .*found {dtype}"):
                import_module(IRModule.from_expr(relay.Function(params, call)))


@pytest.mark.parametrize("dtype", COMPILED)
def test_every_operator_on(dtype: str) -> None:
    rows = [row for row in ROWS if not is_refused(row.name, dtype)]
    built = [function(row, dtype, f"{row.name}_") for row in rows]
    inputs = [p for params, _ in built for p in params]
    exe = tvm_disc.build(relay.Function(inputs, relay.Tuple([call for _, call in built])))
    for n in (1, 0, 7, 64, 131):
        given = [[elements(row, k, dtype, n) for k, _ in enumerate(row.args)] for row in rows]
        found = exe(*(x for xs in given for x in xs))
        for row, xs, value in zip(rows, given, found, strict=True):
            compare(f"{row.name} of {dtype}", np.asarray(value), wanted(row, xs, dtype), dtype)


def compare(what: str, found: np.ndarray, want: np.ndarray, dtype: str) -> None:
    if dtype not in FLOATS or want.dtype == bool:
        assert found.dtype == want.dtype, what
        np.testing.assert_array_equal(found, want, what)
        return
    assert str(found.dtype) == dtype, what
    tol = FLOATS[dtype]
    np.testing.assert_allclose(found.astype("float64"), want, tol, tol, err_msg=what)


@pytest.mark.parametrize("wanted", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64"])
def test_negative_floats_become_the_bits_of_signed_integers(given: str, wanted: str) -> None:
    """Alone and in a vector of any length, as NumPy has it on x86-64."""
    x = relay.var("x", shape=(relay.Any(),), dtype=given)
    executable = tvm_disc.build(relay.Function([x], relay.cast(x, wanted)))
    numbers = [-2.0, -1.5, -0.5, 0.0, -200.0, -1.0, 3.0, 254.5]
    if wanted in ("uint32", "uint64") and given != "float16":
        numbers += [2.0**31, 2.0**32 - 1024]
    if wanted == "uint64" and given != "float16":
        numbers += [2.0**62, 2.0**63, 2.0**63 + 2.0**42, 2.0**64 - 2.0**41]
    value = np.array(numbers, given)
    signed = np.where(value < 0, value, 0).astype("int64")
    positive = np.where(value < 0, 0, value).astype(wanted)
    expected = np.where(value < 0, signed.astype(wanted), positive)
    for n in (0, 1, 3, len(numbers), 4 * len(numbers)):
        np.testing.assert_array_equal(
            executable(np.resize(value, n)), np.resize(expected, n), strict=True
        )


N = relay.Any()
REFUSED_TYPES = {
    "cumsum": (relay.cumsum, "bool", "expected numbers, found bool"),
    "cumprod": (relay.cumprod, "bool", "expected numbers, found bool"),
    "softmax": (relay.nn.softmax, "uint64", "expected floats, found uint64"),
    "fast_softmax": (relay.nn.fast_softmax, "int32", "expected floats, found int32"),
    "log_softmax": (relay.nn.log_softmax, "bool", "expected floats, found bool"),
    "l2_normalize": (lambda x: relay.nn.l2_normalize(x, 1e-5), "int32", "expected floats"),
    "loss": (lambda x: relay.nn.cross_entropy_with_logits(x, x), "bool", "expected floats"),
}


@pytest.mark.parametrize("name", REFUSED_TYPES)
def test_types_that_an_operator_over_axes_has_no_code_for(name: str) -> None:
    make, dtype, message = REFUSED_TYPES[name]
    x = relay.var("x", shape=(N, N), dtype=dtype)
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.Function([x], make(x)))


def test_truth_values_are_summed_as_what_is_asked_for() -> None:
    x = relay.var("x", shape=(N,), dtype="bool")
    executable = tvm_disc.build(relay.Function([x], relay.cumsum(x, dtype="int32")))
    value = np.array([True, False, True, True])
    np.testing.assert_array_equal(executable(value), np.cumsum(value), strict=False)
    assert executable(np.zeros(0, "bool")).dtype == "int32"


def test_targets_of_a_loss_are_integers() -> None:
    x, y, w = (relay.var(n, shape=s) for n, s in (("x", (N, N)), ("y", (N,)), ("w", (N,))))
    with pytest.raises(TypeMismatch, match="expected targets of integers, found float32"):
        tvm_disc.build(relay.Function([x, y, w], relay.nn.nll_loss(x, y, w)))
