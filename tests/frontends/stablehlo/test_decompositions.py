"""QR, eigenvalues and singular values of real matrices, against NumPy and JAX.

Signs of vectors are not compared: bases are orthogonal, and products are the matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

BATCH = [{"b": b} for b in (1, 2, 5)]
SQUARE = [{"n": n} for n in (1, 2, 3, 7, 16, 33)]
ANY = [{"m": m, "n": n} for m, n in ((1, 1), (5, 3), (3, 5), (17, 9), (9, 30), (1, 4))]


def built(function: Any, shape: str, dtype: str = "float32") -> Any:
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(shape), jnp.dtype(dtype))
    return tvm_disc.build(export.export(jax.jit(function))(spec))


def array(shape: str, dims: Mapping[str, int]) -> np.ndarray:
    size = [dims.get(d.strip()) or int(d) for d in shape.split(",")]
    return np.random.default_rng(sum(size)).standard_normal(size).astype("float32")


def near(found: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    scale = 1 + np.abs(wanted).max(initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5 * scale)


def orthogonal(q: Any) -> None:
    near(
        np.swapaxes(q, -1, -2) @ np.asarray(q),
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)),
    )


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [("b, 4, 3", BATCH), ("b, 3, 5", BATCH), ("2, b, 4, 4", BATCH), ("n, n", SQUARE)],
)
def test_qr_has_the_signs_of_lapack(shape: str, sizes: Any, mode: str) -> None:
    exe = built(lambda x: jax.tree.leaves(jnp.linalg.qr(x, mode=mode)), shape)
    for dims in sizes:
        x = array(shape, dims)
        found = exe(x)
        found = found if isinstance(found, list | tuple) else [found]
        for one, want in zip(found, jax.tree.leaves(jnp.linalg.qr(x, mode=mode)), strict=True):
            near(one, want)


def test_qr_of_zeros_has_no_reflections() -> None:
    exe = built(lambda x: tuple(jnp.linalg.qr(x)), "b, 3, 3")
    x = np.zeros((2, 3, 3), "float32")
    x[1, 0] = 1, 2, 3  # zero below the diagonal
    q, r = exe(x)
    near(q, np.broadcast_to(np.eye(3), (2, 3, 3)))
    near(r, x)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("shape", "sizes"), [("b, 5, 5", BATCH), ("n, n", SQUARE)])
def test_eigenvalues_are_in_order(shape: str, sizes: Any, lower: bool) -> None:
    uplo = "L" if lower else "U"
    exe = built(lambda x: tuple(jnp.linalg.eigh(x, UPLO=uplo, symmetrize_input=False)), shape)
    for dims in sizes:
        x = array(shape, dims)  # one triangle is read
        half = np.tril(x) if lower else np.triu(x)
        whole = half + np.swapaxes(half, -1, -2) - half * np.eye(x.shape[-1], dtype="float32")
        values, vectors = (np.asarray(v) for v in exe(x))
        near(values, np.linalg.eigvalsh(whole.astype("float64")))
        orthogonal(vectors)
        near(vectors * values[..., None, :] @ np.swapaxes(vectors, -1, -2), whole)


def test_equal_eigenvalues() -> None:
    exe = built(lambda x: tuple(jnp.linalg.eigh(x)), "n, n")
    for x in (np.eye(4), np.zeros((3, 3)), np.ones((5, 5)), np.diag([2.0, 1, 2, 1])):
        x = x.astype("float32")
        values, vectors = (np.asarray(v) for v in exe(x))
        near(values, np.linalg.eigvalsh(x))
        orthogonal(vectors)


def test_nan_in_a_matrix_is_nan_in_its_results() -> None:
    exe = built(lambda x: (jnp.linalg.eigvalsh(x), jnp.linalg.svd(x, compute_uv=False)), "b, 3, 3")
    x = np.tile(np.eye(3, dtype="float32"), (2, 1, 1))
    x[0, 2, 2] = np.nan
    for found in exe(x):
        assert np.isnan(found[0]).all()
        near(found[1], np.ones(3))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    ("shape", "sizes"), [("b, 4, 3", BATCH), ("b, 3, 6", BATCH), ("n, n", SQUARE), ("m, n", ANY)]
)
def test_singular_values_and_bases(shape: str, sizes: Sequence[Any], full: bool) -> None:
    exe = built(lambda x: tuple(jnp.linalg.svd(x, full_matrices=full)), shape)
    for dims in sizes:
        x = array(shape, dims)
        u, values, vt = (np.asarray(v) for v in exe(x))
        wanted = np.linalg.svd(x, full_matrices=full)
        assert [v.shape for v in (u, values, vt)] == [v.shape for v in wanted]
        near(values, wanted[1])
        orthogonal(u)
        orthogonal(np.swapaxes(vt, -1, -2))
        count = values.shape[-1]
        near((u[..., :count] * values[..., None, :]) @ vt[..., :count, :], x)


def test_bases_of_matrices_without_full_rank() -> None:
    exe = built(lambda x: tuple(jnp.linalg.svd(x)), "m, n")
    for x in (np.zeros((4, 3)), np.ones((3, 5)), np.outer(np.arange(6), np.arange(4))):
        x = x.astype("float32")
        u, values, vt = (np.asarray(v) for v in exe(x))
        near(values, np.linalg.svd(x, compute_uv=False))
        orthogonal(u)
        orthogonal(vt.T)


USERS: dict[str, tuple[Callable[..., Any], str, list[dict[str, int]]]] = {
    "pinv": (jnp.linalg.pinv, "b, 5, 3", BATCH),
    "rank": (lambda x: jnp.linalg.matrix_rank(x, 1e-3), "n, n", SQUARE),
    "nuclear norm": (lambda x: jnp.linalg.norm(x, "nuc"), "m, n", ANY),
    "gradient of eigenvalues": (
        jax.grad(lambda x: (jnp.linalg.eigvalsh(x @ x.T) ** 2).sum()), "n, n", SQUARE
    ),
    "gradient of qr": (jax.grad(lambda x: jnp.linalg.qr(x)[1].sum()), "b, 4, 3", []),
    "lu": (lambda x: tuple(jax.lax.linalg.lu(x)), "m, n", ANY),
    "principal components": (
        lambda x: jnp.abs(jnp.linalg.eigh(jnp.cov(x.T, ddof=0))[1][:, -1]), "b, 3", BATCH[2:]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
def test_functions_on_decompositions(name: str) -> None:
    function, shape, sizes = USERS[name]
    exe = built(function, shape)
    for dims in sizes or BATCH:
        x = array(shape, dims)
        found = exe(x)
        found = found if isinstance(found, list | tuple) else [found]
        for one, want in zip(found, jax.tree.leaves(function(x)), strict=True):
            assert one.dtype == want.dtype
            near(one, want)


def test_least_squares() -> None:
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("n, 3", constraints=["n >= 4"]), jnp.float32)
    solve = jax.jit(lambda x: jnp.linalg.lstsq(x, x[:, 0] + 1)[0])
    exe = tvm_disc.build(export.export(solve)(spec))
    for n in (4, 5, 16, 33):
        x = array("n, 3", {"n": n})
        near(exe(x), np.linalg.lstsq(x, x[:, 0] + 1)[0])


@pytest.mark.parametrize("largest", [True, False])
def test_approximate_top_k_is_exact(largest: bool) -> None:
    apply = jax.lax.approx_max_k if largest else jax.lax.approx_min_k
    exe = built(lambda x: tuple(apply(x, 3)), "b, n + 3")
    for b, n in ((1, 4), (4, 7), (2, 40)):
        x = np.random.default_rng(n).permutation(b * n).reshape(b, n).astype("float32")
        values, places = exe(x)
        order = np.argsort(-x if largest else x, -1)[:, :3]
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: jax.scipy.linalg.schur(x)[0], "lapack_sgees_ffi"),
        (lambda x: jax.scipy.linalg.hessenberg(x), "lapack_sgehrd_ffi"),
    ],
)
def test_other_decompositions_are_refused(function: Any, name: str) -> None:
    with pytest.raises(Unsupported, match=f"@{name} has no converter"):
        built(function, "4, 4")
