"""Float32 weights that a build quantizes: their numbers, their errors, and what stays float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadOption
from tvm_disc.relay_passes.quantize_weights import WeightFormat, quantized

RNG = np.random.default_rng(0)
SIZES = (0, 1, 2, 3, 7, 8, 9, 40)
Array = np.ndarray[Any, Any]


def restored(matrix: Array, bits: int, group: int) -> Array:
    made = quantized(matrix, WeightFormat(bits, group))
    k = len(matrix)
    each = np.repeat(made.scale, group or k, 0)[:k]
    return made.numbers.astype("float32") * each


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [0, 8, 32, 100])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (96, 5), (130, 33), (7, 3)])
def test_each_number_is_the_nearest(bits: int, group: int, k: int, n: int) -> None:
    matrix = RNG.standard_normal((k, n)).astype("float32")
    made = quantized(matrix, WeightFormat(bits, group))
    half = 1 << (bits - 1)
    assert made.numbers.min() >= -half and made.numbers.max() <= half - 1
    each = np.abs(np.repeat(made.scale, group or k, 0)[:k])
    off = np.abs(restored(matrix, bits, group) - matrix)
    # The number of largest magnitude may be one step off: half - 1 instead of half.
    assert np.all(off <= each * (1 + 1e-5)) and (off <= each * 0.50001).mean() >= 0.9
    want = np.sqrt(np.square(off, dtype="float64").sum() / np.square(matrix, dtype="float64").sum())
    assert made.error == pytest.approx(want, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (96, 5), (130, 33), (7, 3)])
def test_scales_may_be_restricted_to_positive_ones(bits: int, k: int, n: int) -> None:
    """The largest magnitude becomes the highest number; the error is at most that of a step."""
    matrix = RNG.standard_normal((k, n)).astype("float32")
    made = quantized(matrix, WeightFormat(bits, 0, positive=True))
    either = quantized(matrix, WeightFormat(bits, 0))
    assert made.scale.min() > 0 and either.error <= made.error
    assert np.abs(made.numbers).max() == (1 << (bits - 1)) - 1
    off = np.abs(made.numbers * made.scale - matrix)
    assert np.all(off <= made.scale * 0.51)
    np.testing.assert_allclose(
        made.error, np.sqrt(np.square(off).sum() / np.square(matrix).sum()), rtol=1e-3, atol=1e-7
    )


@pytest.mark.parametrize(("value", "number"), [(0, 0), (1e-40, 0), (1e-37, 0), (1e30, 127)])
def test_scales_below_the_normal_range_are_one(value: float, number: int) -> None:
    matrix = np.full((5, 2), value, "float32")
    made = quantized(matrix, WeightFormat(8, 0, positive=True))
    assert (made.numbers == number).all()
    assert (made.scale == 1).all() if number == 0 else made.error < 1e-3


@pytest.mark.parametrize("bits", [4, 8])
def test_numbers_that_are_exact_stay_exact(bits: int) -> None:
    half = 1 << (bits - 1)
    numbers = RNG.integers(-half, half, (64, 16)).astype("float32")
    numbers[::32] = -half
    scale = np.float32(0.25)
    np.testing.assert_array_equal(restored(numbers * scale, bits, 32), numbers * scale)


def test_special_weights() -> None:
    """Zeros, denormals and the largest numbers."""
    matrix = np.zeros((64, 4), "float32")
    matrix[:, 1], matrix[:, 2], matrix[::2, 3] = 1e-42, 3e38, -3e38
    made = restored(matrix, 8, 32)
    assert not made[:, 0].any() and np.abs(made[:, 1]).max() <= 1e-38
    np.testing.assert_allclose(made[:, 2:], matrix[:, 2:], rtol=1e-6)


FORMS: dict[str, Any] = {
    "dense": lambda x, w: relay.nn.dense(x, relay.const(w)),
    "matmul": lambda x, w: relay.nn.matmul(x, relay.const(np.ascontiguousarray(w.T))),
    "transposed": lambda x, w: relay.nn.dense(
        x, relay.transpose(relay.const(np.ascontiguousarray(w.T)))
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("group", [0, 32])
def test_products(form: str, kind: str, group: int) -> None:
    w = RNG.standard_normal((192, 768)).astype("float32")
    x = rows("m", 768)
    options = tvm_disc.Options(weights=kind, weight_group=group)
    exe = tvm_disc.build(function(x, FORMS[form](x, w)), options=options)
    assert len(exe.kernels) == 1
    each = f"{kind}, a scale per {'32 rows' if group else 'column'}: relative error 0."
    assert f"weights 768 x 192: {each}" in exe.explain()
    kept = restored(np.ascontiguousarray(w.T), 8 if kind == "int8" else 4, group)
    for m in SIZES:
        value = RNG.standard_normal((m, 768)).astype("float32")
        np.testing.assert_allclose(exe(value), value @ kept, rtol=1e-4, atol=1e-3)


def test_a_program_of_bytes_alone() -> None:
    w = RNG.standard_normal((256, 512)).astype("float32")
    x = rows("b", "s", 512)
    options = tvm_disc.Options(weights="int4", int8_activations=True)
    exe = tvm_disc.build(function(x, relay.nn.dense(x, relay.const(w))), options=options)
    kept = restored(np.ascontiguousarray(w.T), 4, 32)
    for shape in ((1, 1), (2, 0), (3, 5)):
        value = RNG.standard_normal((*shape, 512)).astype("float32")
        found, exact = exe(value), value @ kept
        assert found.shape == exact.shape
        assert np.abs(found - exact).max(initial=0) <= 0.02 * np.abs(exact).max(initial=1)


def test_saved_programs_say_what_was_quantized(tmp_path: Any) -> None:
    w = RNG.standard_normal((256, 512)).astype("float32")
    x = rows("m", 512)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, relay.const(w))), options=tvm_disc.Options(weights="int8")
    )
    exe.save(tmp_path / "net.so")
    again = tvm_disc.load(tmp_path / "net.so")
    assert "weights 512 x 256: int8" in again.explain()
    value = RNG.standard_normal((3, 512)).astype("float32")
    np.testing.assert_array_equal(again(value), exe(value))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((64, 64), "the weights have fewer than 65536 elements"),
        ((8, 16384), "the weights have fewer than 16 columns"),
    ],
)
def test_weights_that_stay_float32(shape: tuple[int, int], reason: str) -> None:
    w = RNG.standard_normal(shape).astype("float32")
    x = rows("m", shape[1])
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, relay.const(w))), options=tvm_disc.Options(weights="int4")
    )
    assert reason in exe.explain() and "relative error" not in exe.explain()
    value = RNG.standard_normal((5, shape[1])).astype("float32")
    np.testing.assert_allclose(exe(value), value @ w.T, rtol=1e-4, atol=1e-3)


def test_weights_that_are_not_finite() -> None:
    w = RNG.standard_normal((256, 512)).astype("float32")
    w[3, 5] = np.nan
    x = rows("m", 512)
    exe = tvm_disc.build(
        function(x, relay.nn.dense(x, relay.const(w))), options=tvm_disc.Options(weights="int4")
    )
    assert "a weight is NaN or infinite" in exe.explain()
    got = exe(np.ones((2, 512), "float32"))
    assert np.isnan(got[:, 3]).all() and np.isfinite(np.delete(got, 3, 1)).all()


def test_computed_matrices_are_not_weights() -> None:
    x, y = rows("m", 512), relay.var("y", shape=(256, 512))
    func = relay.Function([x, y], relay.nn.dense(x, y))
    exe = tvm_disc.build(func, options=tvm_disc.Options(weights="int4"))
    assert "relative error" not in exe.explain()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": "int2"}, "weights: expected 'int8', 'int4' or None, found 'int2'"),
        ({"weights": 4}, "weights: expected 'int8', 'int4' or None, found 4"),
        ({"weight_group": 4}, "weight_group: expected 0 or at least 8, found 4"),
        ({"weight_group": -1}, "weight_group: expected 0 or at least 8, found -1"),
        ({"weight_group": "32"}, "weight_group: expected an integer, found '32'"),
        ({"int8_activations": 1}, "int8_activations: expected True or False, found 1"),
    ],
)
def test_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption) as failed:
        tvm_disc.Options(**given)
    assert str(failed.value) == message


def test_rows_are_not_rounded_on_a_gpu() -> None:
    x = rows("m", 8)
    options = tvm_disc.Options(int8_activations=True)
    with pytest.raises(BadOption, match="int8_activations: expected a CPU target, found a GPU"):
        tvm_disc.build(function(x, relay.nn.relu(x)), target="cuda", options=options)
