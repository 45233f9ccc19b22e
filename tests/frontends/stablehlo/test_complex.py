"""Complex numbers between real inputs and results, and Fourier transforms, beside JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

import tvm_disc  # noqa: E402
import tvm_disc.jax as disc_jax  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

Function = Callable[[Any], Any]


def parts(z: Any) -> tuple[Any, Any]:
    return jnp.real(z), jnp.imag(z)


def check(
    function: Function, shape: str, *, tolerance: float = 1e-4, limit: str = "b >= 1"
) -> None:
    """Compare a function with JAX at several sizes of ``b``."""
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(shape), jnp.float32)
    ours = disc_jax.compile(function, spec)
    for b in (3, 1, 8):
        size = [b if d.strip() == "b" else int(d) for d in shape.split(",")]
        x = np.random.default_rng(b).standard_normal(size).astype("float32")
        pairs = zip(jax.tree.leaves(ours(x)), jax.tree.leaves(function(x)), strict=True)
        for found, want in pairs:
            most = max(1.0, float(np.abs(want).max()))
            np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * most)


# one product; primes; two steps, also of primes; a prime that is a convolution
LENGTHS = [1, 7, 67, 96, 134, 1031]


@pytest.mark.parametrize("length", LENGTHS)
def test_transforms_of_lines(length: int) -> None:
    def f(x: Any) -> Any:
        z = x + 1j * x[:, ::-1] ** 2
        spectrum = jnp.fft.rfft(x)
        return (
            parts(jnp.fft.fft(z)),
            parts(jnp.fft.ifft(z)),
            parts(spectrum),
            jnp.fft.irfft(spectrum * (1 - 0.5j), n=length),
        )

    check(f, f"b, {length}")


@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (1,)])
def test_transforms_of_axes(axes: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        spectrum = jnp.fft.rfftn(x, axes=axes)
        size = [x.shape[a] for a in axes]
        return (
            parts(jnp.fft.fftn(x, axes=axes)),
            parts(jnp.fft.ifftn(x * (1 + 2j), axes=axes)),
            parts(spectrum),
            jnp.fft.irfftn(spectrum, s=size, axes=axes),
        )

    check(f, "b, 6, 10")


def test_a_filter_of_frequencies() -> None:
    """A layer of a Fourier neural operator: products of the low frequencies with weights."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 3, 5)) + 1j * rng.standard_normal((8, 3, 5))

    def f(x: Any) -> Any:
        low = jnp.fft.rfft(x, axis=1)[:, :8]
        made = jnp.einsum("bkc,kcd->bkd", low, jnp.asarray(w, jnp.complex64))
        return jax.nn.gelu(jnp.fft.irfft(jnp.pad(made, ((0, 0), (0, 9), (0, 0))), n=32, axis=1))

    check(f, "b, 32, 3")


ELEMENTWISE: dict[str, Function] = {
    "product": lambda z: z * z[:, ::-1] + (1 - 2j),
    "quotient": lambda z: z / (z[:, ::-1] + (0.1 + 3j)),
    "absolute value": jnp.abs,
    "angle": jnp.angle,
    "conjugate": lambda z: -jnp.conj(z),
    "exponential": jnp.exp,
    "logarithm": jnp.log,
    "square root": jnp.sqrt,
    "sign": jnp.sign,
    "comparison": lambda z: jnp.where(z == z[:, :1], 2 * z, z - 1) * (z != 0),
    "sum": lambda z: (z.sum(0), z.mean(1)),
    "constants": lambda z: z + np.array([1 + 2j, -0.5j, 3, 1e-9j], np.complex64),
    "many constants": lambda z: z[:, :, None] * np.full((4, 100), 1 - 1j, np.complex64) ** 3,
    "gather": lambda z: z[jnp.array([0, 0]), :][:, jnp.array([3, 1])],
    "moves": lambda z: jnp.concatenate([z.T, jnp.zeros_like(z.T)], 1).reshape(4, 2, -1)[:, ::-1],
    "slices": lambda z: (lax.dynamic_slice(z, (0, 1), (1, 2)), z[:1, ::2]),
    "matmul": lambda z: z @ z.T.conj(),
    "number of rows": lambda z: z * z.shape[0],
    "loop over real numbers": lambda z: lax.fori_loop(0, 3, lambda k, y: jnp.abs(y + 1j), z.real),
}


@pytest.mark.parametrize("name", list(ELEMENTWISE))
def test_operators(name: str) -> None:
    def f(x: Any) -> Any:
        return jax.tree.map(parts, ELEMENTWISE[name](lax.complex(x[..., 0], x[..., 1])))

    check(f, "b, 4, 2")


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_squares_do_not_overflow(scale: float) -> None:
    def f(x: Any) -> Any:
        z = lax.complex(x[..., 0], x[..., 1]) * scale
        return jnp.abs(z) / scale, parts(z / (z + z)), parts(jnp.sqrt(z) / np.sqrt(scale))

    check(f, "b, 4, 2")


def test_gradient_of_a_spectrum() -> None:
    check(jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()), "b, 12")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * 1j, "result 0: expected real numbers, found complex numbers; return"),
        (lambda x: jnp.tanh(x * 1j).imag, "tanh.*no converter for complex numbers"),
        (lambda x: lax.fori_loop(0, 3, lambda k, z: z * 1j, x + 0j).real, "while.*complex"),
        (
            lambda x: lax.fori_loop(0, 3, lambda k, y, z=x * 1j: y + z.imag, x),
            "complex numbers",
        ),
        (lambda x: jnp.prod(x * 1j).imag, "can only be reduced by a sum"),
        (lambda x: (x * 1j).at[0].set(2).imag, "scatter.*no converter for complex numbers"),
    ],
    ids=["result", "tanh", "carried", "read", "product", "scatter"],
)
def test_refused(function: Function, reason: str) -> None:
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32)
    with pytest.raises(Unsupported, match=reason):
        tvm_disc.build(export.export(jax.jit(function))(spec))
