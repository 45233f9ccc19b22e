"""Every StableHLO operator is converted or refused; those that JAX rarely emits, beside JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

import tvm_disc  # noqa: E402
from tests.frontends.stablehlo.operators import (  # noqa: E402
    SECTION,
    STRUCTURE,
    defined,
    table,
)
from tvm_disc.frontends.stablehlo.rows import REFUSED, ROWS  # noqa: E402

# operators that only newer versions of JAX define
NEWER = {"collective_reduce"}
LAYOUT = ("NHWC", "HWIO", "NHWC")


def test_every_operator_is_converted_or_refused() -> None:
    names = set(defined())
    assert not names - set(ROWS) - set(REFUSED) - set(STRUCTURE)
    assert not set(ROWS) & set(REFUSED)
    listed = {n for n in ROWS if "." not in n and n != "call"} | set(REFUSED)
    assert listed - names <= NEWER


def test_the_document_lists_all_operators() -> None:
    assert SECTION.read() == table()


def positive(x: Any) -> Any:
    return x @ jnp.swapaxes(x, -1, -2) + 4 * jnp.eye(x.shape[-1])


def gradient(f: Any) -> Any:
    return jax.grad(lambda x: jnp.square(f(x)).sum())


def pooled(size: int, padding: str) -> Any:
    window, strides = (1, size, size, 1), (1, 2, 2, 1)
    return gradient(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding))


def triangular(**options: Any) -> Any:
    side = slice(None) if options.get("left_side", True) else slice(2)
    return lambda x: lax.linalg.triangular_solve(positive(x), x[:, side], **options)


def weights_gradient(stride: int, padding: str) -> Any:
    def f(x: Any) -> Any:
        return gradient(
            lambda w: lax.conv_general_dilated(
                x, w, (stride,) * 2, padding, dimension_numbers=LAYOUT
            )
        )(jnp.full((3, 3, 3, 4), 0.1))

    return f


def image_gradient(stride: int, padding: str) -> Any:
    w = jnp.full((3, 3, 3, 4), 0.1)
    return gradient(
        lambda x: lax.conv_general_dilated(x, w, (stride,) * 2, padding, dimension_numbers=LAYOUT)
    )


def largest_and_sum(x: Any) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return jnp.maximum(a[0], b[0]), a[1] + b[1]

    return lax.reduce_window((x, x), (0.0, 0.0), combine, (2,), (2,), "VALID")


def bits_of(f: Any) -> Any:
    return lambda x: f(lax.bitcast_convert_type(x, jnp.int32))


def added_in_two(x: Any) -> Any:
    """Return a scatter of two operands with different functions."""
    i = jnp.array([[0], [2], [9], [0]])
    dims = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter_add(x, i, jnp.ones((4, 3)), dims), lax.scatter_max(x, i, x[:4] + 1, dims)


CASES = {
    "cholesky": (jnp.linalg.cholesky, "b, 4, 4", positive),
    "cholesky of any size": (jnp.linalg.cholesky, "n, n", positive),
    "upper cholesky": (lambda x: jnp.linalg.cholesky(x, upper=True), "b, 3, 3", positive),
    "gradient of cholesky": (gradient(lambda x: jnp.linalg.cholesky(positive(x))), "b, 3, 3", None),
    "triangular": (triangular(left_side=True, lower=True), "b, 4, 4", None),
    "upper": (triangular(left_side=True), "b, 4, 4", None),
    "right": (triangular(left_side=False, unit_diagonal=True), "b, 4, 4", None),
    "right transposed": (triangular(lower=True, transpose_a=True), "b, 4, 4", None),
    "solve": (lambda x: jnp.linalg.solve(positive(x), x[..., :2]), "b, 4, 4", None),
    "solve any size": (lambda x: jnp.linalg.solve(positive(x), x[:, 0]), "n, n", None),
    "inverse": (jnp.linalg.inv, "b, 3, 3", positive),
    "determinant": (jnp.linalg.slogdet, "n, n", None),
    "pooling": (pooled(2, "VALID"), "b, 8, 8, 3", None),
    "overlapping pooling": (pooled(3, "SAME"), "b, 7, 8, 3", None),
    "pooling of any size": (pooled(2, "VALID"), "2, n, n, 3", None),
    "several windows": (largest_and_sum, "n", None),
    "windows of a function": (
        lambda x: lax.reduce_window(x, 1.0, lambda a, b: a * 0.5 + b, (2, 2), (1, 2), "SAME"),
        "n, 4",
        None,
    ),
    "bytes": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), "b", None),
    "halves": (
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint16), jnp.float32),
        "b, 3",
        None,
    ),
    "bits": (bits_of(lax.population_count), "b", None),
    "leading zeros": (bits_of(lax.clz), "b", None),
    "8 bits": (lambda x: lax.reduce_precision(x * 3, 4, 3), "b", None),
    "large numbers": (lambda x: lax.reduce_precision(x * 1e4, 5, 10), "b", None),
    "small numbers": (lambda x: lax.reduce_precision(x * 1e-2, 4, 2), "b", None),
    "weights": (weights_gradient(2, "SAME"), "b, 9, 8, 3", None),
    "weights for any size": (weights_gradient(1, "SAME"), "2, n, n, 3", None),
    "image": (image_gradient(2, "VALID"), "b, 9, 9, 3", None),
    "image of any size": (image_gradient(1, "SAME"), "2, n, n, 3", None),
    "scatters": (added_in_two, "b, 3", None),
    "erf_inv": (lambda x: lax.erf_inv(jnp.tanh(x)), "b", None),
    "digamma": (lax.digamma, "b", None),
    "bessel": (lax.bessel_i1e, "b", None),
    "igamma": (lambda x: lax.igamma(jnp.abs(x) + 0.5, jnp.abs(x)), "b", None),
    "next": (lambda x: jnp.nextafter(x, x + 1), "b", None),
}


@pytest.mark.parametrize("name", CASES)
def test_beside_jax(name: str) -> None:
    function, dims, prepare = CASES[name]
    symbol = "n" if "n" in dims else "b"
    least = 4 if name == "scatters" else 2
    scope = export.SymbolicScope([f"{symbol} >= {least}"] if symbol == "n" or least > 2 else [])
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(dims, scope=scope), jnp.float32)
    f = jax.jit(function if prepare is None else lambda x: function(prepare(x)))
    exe = tvm_disc.build(export.export(f)(spec))
    for size in (least, 4, 9) if symbol == "n" or least > 2 else (1, 2, 5, 16):
        shape = [size if d.strip() == symbol else int(d) for d in dims.split(",")]
        x = np.random.default_rng(size).standard_normal(shape).astype("float32")
        found = exe(x)
        found = found if isinstance(found, list | tuple) else [found]
        for one, want in zip(found, jax.tree.leaves(f(x)), strict=True):
            assert one.dtype == want.dtype
            np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)


def operator(name: str, attributes: str, shapes: list[str], results: list[str]) -> str:
    given = ", ".join(f"%a{k}: tensor<{s}>" for k, s in enumerate(shapes))
    names = ", ".join(f"%a{k}" for k in range(len(shapes)))
    kinds = ", ".join(f"tensor<{s}>" for s in shapes)
    made = ", ".join(f"%r#{k}" for k in range(len(results)))
    types = ", ".join(f"tensor<{s}>" for s in results)
    return f"""module {{ func.func @main({given}) -> ({types}) {{
      %r:{len(results)} = "stablehlo.{name}"({names}) <{{{attributes}}}> : ({kinds}) -> ({types})
      return {made} : {types} }} }}"""


NORM = "epsilon = 1.0e-3 : f32, feature_index = 1 : i64"


def test_batch_norm() -> None:
    x4, c = "?x3x5xf32", "3xf32"
    training = tvm_disc.build(operator("batch_norm_training", NORM, [x4, c, c], [x4, c, c]))
    inference = tvm_disc.build(operator("batch_norm_inference", NORM, [x4, c, c, c, c], [x4]))
    backward = tvm_disc.build(operator("batch_norm_grad", NORM, [x4, c, c, c, x4], [x4, c, c]))

    def norm(x: Any, scale: Any, offset: Any) -> Any:
        mean, variance = x.mean((0, 2)), x.var((0, 2))
        made = (x - mean[:, None]) * lax.rsqrt(variance + 1e-3)[:, None]
        return made * scale[:, None] + offset[:, None], mean, variance

    for n in (1, 4, 9):
        rng = np.random.default_rng(n)
        x, up = (rng.standard_normal((n, 3, 5)).astype("float32") for _ in range(2))
        scale, offset = (rng.standard_normal(3).astype("float32") for _ in range(2))
        wanted = norm(x, scale, offset)
        for found, want in zip(training(x, scale, offset), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
        mean, variance = (np.asarray(v) for v in wanted[1:])
        found = inference(x, scale, offset, mean, variance)
        np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-5)
        _, back = jax.vjp(lambda *a: norm(*a)[0], x, scale, offset)
        for one, want in zip(backward(x, scale, mean, variance, up), back(up), strict=True):
            np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)


def test_factorizations_as_operators() -> None:
    """Other platforms than the CPU have operators instead of calls of LAPACK."""
    factor = tvm_disc.build(operator("cholesky", "lower = true", ["?x4x4xf32"], ["?x4x4xf32"]))
    options = (
        "left_side = true, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose TRANSPOSE>"
    )
    solve = tvm_disc.build(
        operator("triangular_solve", options, ["?x4x4xf32", "?x4x2xf32"], ["?x4x2xf32"])
    )
    for n in (0, 1, 5):
        x = np.random.default_rng(n).standard_normal((n, 4, 4)).astype("float32")
        a = np.asarray(positive(x))
        lower = np.linalg.cholesky(a)
        np.testing.assert_allclose(factor(a), lower, rtol=1e-4, atol=1e-5)
        want = np.linalg.solve(np.swapaxes(lower, -1, -2), x[..., :2])
        np.testing.assert_allclose(solve(lower, x[..., :2].copy()), want, rtol=1e-3, atol=1e-4)
