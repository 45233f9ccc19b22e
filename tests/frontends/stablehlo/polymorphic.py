"""Functions of JAX on arrays of symbolic shape: one for each operator that knows such shapes.

A case is a function and the shapes of its arguments, in the language of JAX's symbolic shapes, with
a type after a colon. Numbers are floats from a normal distribution, integers are from 0 to 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp

Case = tuple[Callable[..., Any], str]  # shapes of arguments, separated by ";"
IMAGE = ("NHWC", "HWIO", "NHWC")


def grad(f: Any) -> Any:
    return jax.grad(lambda *a: jnp.sum(jnp.sin(f(*a))))


def convolved(x: Any, **options: Any) -> Any:
    options = {"window_strides": (1, 1), "padding": "SAME", **options}
    w = jnp.full((3, 3, 2, 4), 0.1)
    return lax.conv_general_dilated(x, w, dimension_numbers=IMAGE, **options)


def window(reducer: Any, init: float, padding: str) -> Any:
    return lambda x: lax.reduce_window(x, init, reducer, (1, 2), (1, 1), padding)


def key_of(x: Any) -> Any:
    return jax.random.key(x.astype(jnp.int32).sum())


ELEMENTWISE: dict[str, Case] = {
    "add": (lambda x, y: x + y, "a, b; a, b"),
    "add to a row": (lambda x, y: x + y, "a, b; b"),
    "add to a column": (lambda x, y: x + y, "a, b; a, 1"),
    "add a dim": (lambda x: x + x.shape[0], "a, b"),
    "dim as float": (lambda x: x * jnp.float32(x.shape[1]), "a, b"),
    "floor_divide": (lambda x: x // 0.3, "a, b"),
    "remainder": (lambda x: x % 0.3, "a, b"),
    "integer division": (lambda x: (x - 5) // (x + 1), "a:int32"),
    "integer remainder": (lambda x: (x - 5) % (x + 1), "a:int32"),
    "power": (lambda x: jnp.abs(x) ** 1.5, "a, b"),
    "integer_pow": (lambda x: x**3, "a, b"),
    "clip": (lambda x: jnp.clip(x, -0.3, 0.4), "a, b"),
    "where": (lambda x: jnp.where(x > 0, x, -1), "a, b"),
    "select_n": (lambda k, x, y: lax.select_n(k % 2, x, y), "a:int32; a; a"),
    "nan_to_num": (lambda x: jnp.nan_to_num(x / 0), "a, b"),
    "logical": (lambda x: jnp.logical_xor(x > 0, x < 1), "a, b"),
    "bits": (lambda x: (x << 2 | 1) ^ x, "a:int32"),
    "astype": (lambda x: x.astype(jnp.int32), "a, b"),
    "hypot": (lambda x, y: jnp.hypot(x, y), "a; a"),
    "logaddexp": (lambda x, y: jnp.logaddexp(x, y), "a; a"),
    "sinc": (jnp.sinc, "a"),
    "erf": (lax.erf, "a, b"),
    "expm1": (jnp.expm1, "a"),
    "polyval": (lambda x: jnp.polyval(jnp.array([1.0, -2, 3]), x), "a"),
    "interp": (lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), "a"),
    "isclose": (lambda x, y: jnp.isclose(x, y), "a; a"),
    "sign": (jnp.sign, "a, b"),
    "round": (lambda x: jnp.round(x, 1), "a"),
}

SHAPES: dict[str, Case] = {
    "arange": (lambda x: jnp.arange(x.shape[0]), "a, b"),
    "arange with a step": (lambda x: jnp.arange(0, x.shape[0], 2), "a, b"),
    "arange to a product": (lambda x: jnp.arange(2 * x.shape[0] + 1), "a, b"),
    "linspace": (lambda x: jnp.linspace(0, 1, x.shape[0]), "a"),
    "eye": (lambda x: jnp.eye(x.shape[0], x.shape[1]), "a, b"),
    "full": (lambda x: jnp.full((x.shape[0], 2), 7.0), "a"),
    "ones_like": (jnp.ones_like, "a, b"),
    "tri": (lambda x: jnp.tri(x.shape[0]), "a"),
    "tril": (jnp.tril, "a, b"),
    "triu": (lambda x: jnp.triu(x, 1), "a, b"),
    "iota": (lambda x: lax.broadcasted_iota(jnp.int32, x.shape, 1), "a, b"),
    "meshgrid": (lambda x, y: jnp.meshgrid(x, y), "a; b"),
    "reshape": (lambda x: x.reshape(-1), "a, b"),
    "reshape to columns": (lambda x: x.reshape(x.shape[0], -1), "a, b, 3"),
    "reshape of a product": (lambda x: x.reshape(x.shape[0] * x.shape[1], 2), "a, b, 2"),
    "split an axis": (lambda x: x.reshape(-1, 2), "2*a"),
    "divide by the other": (lambda x: x.reshape(2, -1, x.shape[1]), "2*a, b"),
    "ravel": (jnp.ravel, "a, b"),
    "expand_dims": (lambda x: x[:, None], "a, b"),
    "squeeze": (jnp.squeeze, "a, 1, b"),
    "transpose": (lambda x: x.T, "a, b"),
    "moveaxis": (lambda x: jnp.moveaxis(x, 0, -1), "a, b, 3"),
    "swapaxes": (lambda x: jnp.swapaxes(x, 0, 2), "a, b, 3"),
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (3, *x.shape)), "a, b"),
    "broadcast to the other": (lambda x, y: jnp.broadcast_to(x, y.shape), "b; a, b"),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), "a, 3; b, 3"),
    "concatenate itself": (lambda x: jnp.concatenate([x, x], 1), "a, b"),
    "stack": (lambda x, y: jnp.stack([x, y], 1), "a; a"),
    "hstack": (lambda x, y: jnp.hstack([x, y]), "a, 2; a, b"),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1))), "a, b"),
    "pad by a dim": (lambda x: jnp.pad(x, (0, x.shape[0])), "a"),
    "pad with reflection": (lambda x: jnp.pad(x, 1, mode="reflect"), "a"),
    "pad with edges": (lambda x: jnp.pad(x, 2, mode="edge"), "a"),
    "pad inside": (lambda x: lax.pad(x, 0.0, ((1, -1, 2), (0, 0, 0))), "a, b"),
    "flip": (lambda x: jnp.flip(x, 1), "a, b"),
    "roll": (lambda x: jnp.roll(x, 2, 0), "a, b"),
    "roll by a dim": (lambda x: jnp.roll(x, x.shape[1], 0), "a, b"),
    "tile": (lambda x: jnp.tile(x, (2, 1)), "a, b"),
    "tile by a dim": (lambda x: jnp.tile(x, x.shape[0]), "a"),
    "repeat": (lambda x: jnp.repeat(x, 3, 0), "a, b"),
    "repeat by a dim": (lambda x: jnp.repeat(x, x.shape[0], 1), "a, b"),
    "split": (lambda x: jnp.split(x, 2), "2*a, b"),
    "array_split": (lambda x: jnp.array_split(x, [1, 2]), "a, b"),
    "rot90": (jnp.rot90, "a, b"),
    "diag": (jnp.diag, "a"),
    "diagonal": (jnp.diagonal, "a, a"),
    "vander": (lambda x: jnp.vander(x, 3), "a"),
    "size": (lambda x: jnp.array(x.size), "a, b"),
    "maximum of dims": (lambda x: jnp.zeros((jax.core.max_dim(*x.shape),)), "a, b"),
}

REDUCTIONS: dict[str, Case] = {
    "sum": (jnp.sum, "a, b"),
    "sum of an axis": (lambda x: x.sum(0), "a, b"),
    "mean": (lambda x: x.mean(1), "a, b"),
    "weighted average": (lambda x, w: jnp.average(x, 0, w), "a, b; a"),
    "var": (lambda x: jnp.var(x, 0), "a, b"),
    "std": (jnp.std, "a, b"),
    "prod": (lambda x: x.prod(1), "a, b"),
    "max": (lambda x: x.max(1), "a, b"),
    "min": (jnp.min, "a, b"),
    "any": (lambda x: (x > 1).any(0), "a, b"),
    "all": (lambda x: (x > -2).all(1), "a, b"),
    "argmax": (lambda x: x.argmax(1), "a, b"),
    "argmin": (lambda x: x.argmin(0), "a, b"),
    "argmax of all": (jnp.argmax, "a, b"),
    "nanmean": (lambda x: jnp.nanmean(jnp.where(x > 1, jnp.nan, x), 1), "a, b"),
    "median": (jnp.median, "a"),
    "quantile": (lambda x: jnp.quantile(x, 0.3), "a"),
    "percentile": (lambda x: jnp.percentile(x, 40, axis=0), "a, b"),
    "ptp": (jnp.ptp, "a"),
    "count_nonzero": (lambda x: jnp.count_nonzero(x > 0), "a, b"),
    "logsumexp": (lambda x: logsumexp(x, 1), "a, b"),
    "norm": (jnp.linalg.norm, "a, b"),
    "cumsum": (lambda x: jnp.cumsum(x, 0), "a, b"),
    "cumprod": (lambda x: jnp.cumprod(x, 1), "a, b"),
    "cummax": (lambda x: lax.cummax(x, 0), "a, b"),
    "cummin reversed": (lambda x: lax.cummin(x, 1, reverse=True), "a, b"),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 0), "a, b"),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), "4, b"),
    "reduce": (lambda x: lax.reduce(x, 1.0, lax.mul, (0,)), "a, b"),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), "a"),
    "window sum": (window(lax.add, 0.0, "SAME"), "a, b"),
    "window maximum": (window(lax.max, -jnp.inf, "VALID"), "a, b"),
    "window product": (window(lax.mul, 1.0, "VALID"), "a, b"),
    "histogram": (lambda x: jnp.histogram(x, jnp.linspace(-2, 2, 5))[0], "a"),
    "bincount": (lambda x: jnp.bincount(x, length=4), "a:int32"),
    "trapezoid": (jnp.trapezoid, "a"),
    "cov": (jnp.cov, "a, b"),
    "corrcoef": (jnp.corrcoef, "a, b"),
    "softmax": (jax.nn.softmax, "a, b"),
    "log_softmax": (jax.nn.log_softmax, "a, b"),
    "cross entropy": (
        lambda x, k: -jnp.take_along_axis(jax.nn.log_softmax(x), k % 3, 1),
        "a, 3; a, 1:int32",
    ),
}

INDICES: dict[str, Case] = {
    "first": (lambda x: x[0], "a, b"),
    "last": (lambda x: x[-1], "a, b"),
    "slice": (lambda x: x[1:], "a, b"),
    "slice from the end": (lambda x: x[:-1], "a, b"),
    "slice with a step": (lambda x: x[::2], "a, b"),
    "slice backwards": (lambda x: x[::-1], "a, b"),
    "slice by a dim": (lambda x: x[: x.shape[0] // 2], "a, b"),
    "slice with a step of a dim": (
        lambda x: lax.slice_in_dim(x, 1, x.shape[0], 1 + x.shape[0] // 4),
        "a, b",
    ),
    "slice to the other": (lambda x, y: x[: y.shape[0]], "a + b; b"),
    "rows": (lambda x: x[jnp.array([1, 0])], "a, b"),
    "rows by an argument": (lambda x, i: x[i], "a, b; c:int32"),
    "elements": (lambda x, i: x[i, i], "a, b; c:int32"),
    "row by a scalar": (lambda x, i: x[i], "a, b; :int32"),
    "take": (lambda x, i: jnp.take(x, i, axis=1), "a, b; c:int32"),
    "take and fill": (lambda x, i: jnp.take(x, i * 2, axis=0, mode="fill"), "a, b; c:int32"),
    "take and wrap": (lambda x, i: jnp.take(x, i * 3, axis=0, mode="wrap"), "a, b; c:int32"),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 0), "a, b; c, b:int32"),
    "take_along_axis of one column": (
        lambda x, i: jnp.take_along_axis(x, i, 0),
        "a, b; a, 1:int32",
    ),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 1)), "a, b; :int32"),
    "dynamic_slice of a dim": (
        lambda x, i: lax.dynamic_slice(x, (i, 0), (2, x.shape[1])),
        "a, b; :int32",
    ),
    "dynamic_index": (lambda x, i: lax.dynamic_index_in_dim(x, i, 1), "a, b; :int32"),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, 1)), (i, 1)),
        "a, b; :int32",
    ),
    "set": (lambda x: x.at[1].set(3.0), "a, b"),
    "set a column": (lambda x: x.at[:, -1].set(3.0), "a, b"),
    "add at": (lambda x, i: x.at[i].add(1.0), "a, b; c:int32"),
    "maximum at": (lambda x, i: x.at[i].max(0.5), "a, b; c:int32"),
    "multiply at": (lambda x, i: x.at[:, i].multiply(0.5), "a, 3; c:int32"),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 4), "a, b; a:int32"),
    "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 3), "a, b; a:int32"),
    "one_hot": (lambda i: jax.nn.one_hot(i, 4), "a:int32"),
    "one_hot of a dim": (lambda i, x: jax.nn.one_hot(i, x.shape[0]), "a:int32; b"),
    "sort": (lambda x: jnp.sort(x, 0), "a, b"),
    "argsort": (lambda x: jnp.argsort(x, 1), "a, b"),
    "sort of pairs": (lambda x, y: lax.sort((x, y), num_keys=1), "a; a"),
    "top_k": (lambda x: lax.top_k(x, 2), "a, 5"),
    "top_k of a dim": (lambda x: lax.top_k(x, 2), "b, a"),
    "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), "a; b"),
    "digitize": (lambda x: jnp.digitize(x, jnp.array([-1.0, 0, 1])), "a"),
    "tril_indices": (lambda x: x[jnp.tril_indices(3)], "3, 3, b"),
    "choose": (lambda k, x: jnp.choose(k % 2, [x, -x], mode="clip"), "a:int32; a"),
    "unique of a size": (lambda x: jnp.unique(x, size=3), "a:int32"),
    "nonzero of a size": (lambda x: jnp.nonzero(x > 0, size=4)[0], "a"),
    "isin": (lambda x: jnp.isin(x, jnp.array([0, 2])), "a:int32"),
}

PRODUCTS: dict[str, Case] = {
    "matmul": (lambda x, y: x @ y, "a, b; b, c"),
    "batched matmul": (lambda x, y: x @ y, "c, a, b; c, b, 3"),
    "matmul of a vector": (lambda x, y: x @ y, "a, b; b"),
    "dot": (jnp.dot, "a; a"),
    "vdot": (jnp.vdot, "a, b; a, b"),
    "inner": (jnp.inner, "a, b; c, b"),
    "outer": (jnp.outer, "a; b"),
    "kron": (jnp.kron, "a, 2; 2, b"),
    "cross": (jnp.cross, "a, 3; a, 3"),
    "tensordot": (lambda x, y: jnp.tensordot(x, y, 1), "a, b; b, c, 2"),
    "einsum": (lambda x, y: jnp.einsum("abc,acd->abd", x, y), "a, b, c; a, c, 2"),
    "einsum of one": (lambda x: jnp.einsum("aa->a", x), "a, a"),
    "einsum of an ellipsis": (lambda x, y: jnp.einsum("...ij,jk->...ik", x, y), "a, b, 4; 4, c"),
    "trace": (jnp.trace, "a, a"),
    "integer matmul": (lambda x, y: x @ y, "a, b:int32; b, c:int32"),
    "convolution": (convolved, "a, 6, 7, 2"),
    "convolution of any size": (convolved, "1, a, b, 2"),
    "valid convolution": (lambda x: convolved(x, padding="VALID"), "1, a + 3, b + 3, 2"),
    "strided convolution": (lambda x: convolved(x, window_strides=(2, 2)), "1, a, b, 2"),
    "dilated convolution": (lambda x: convolved(x, rhs_dilation=(2, 1)), "1, a, b, 2"),
    "transposed convolution": (
        lambda x: lax.conv_transpose(x, jnp.full((3, 3, 2, 4), 0.1), (2, 2), "SAME"),
        "1, a, b, 2",
    ),
    "convolve": (lambda x: jnp.convolve(x, jnp.array([1.0, 2, 3])), "a"),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(x.shape[0])), "a, a"),
    "solve": (lambda x: jnp.linalg.solve(x + 9 * jnp.eye(x.shape[0]), x[0]), "a, a"),
    "inverse": (lambda x: jnp.linalg.inv(x + 9 * jnp.eye(3)), "a, 3, 3"),
    "determinant": (lambda x: jnp.linalg.det(x + jnp.eye(x.shape[-1])), "a, 3, 3"),
    "triangular_solve": (
        lambda x, y: lax.linalg.triangular_solve(x + 9 * jnp.eye(x.shape[0]), y, left_side=True),
        "a, a; a, b",
    ),
    "matrix_power": (lambda x: jnp.linalg.matrix_power(x, 3), "a, a"),
    "expm": (lambda x: jax.scipy.linalg.expm(x * 0.1), "3, 3"),
    "qr": (lambda x: jnp.linalg.qr(x)[1], "a, a"),
    "eigh": (lambda x: jnp.linalg.eigh(x + x.T)[0], "a, a"),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), "a, b"),
    "schur": (lambda x: jax.scipy.linalg.schur(x)[0], "a, a"),
    "pinv": (jnp.linalg.pinv, "a, 5, 3"),
    "approximate top_k": (lambda x: lax.approx_max_k(x, 2), "a, b"),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), "a, 8"),
    "complex": (lambda x: jnp.abs(x + 1j), "a"),
}

CONTROL: dict[str, Case] = {
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "a, b"),
    "cond on a dim": (lambda x: lax.cond(x.shape[0] > 3, jnp.sin, jnp.cos, x), "a, b"),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), ":int32; a"),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, v: v * 0.5 + i, x), "a, b"),
    "fori_loop to a dim": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, v: v + x[i], x[0]),
        "a, b",
    ),
    "while_loop": (
        lambda x: lax.while_loop(lambda v: v.sum() < 50, lambda v: v + 1, jnp.abs(x)),
        "a, b",
    ),
    "scan": (lambda x: lax.scan(lambda c, t: (c + t, c * t), x[0], x), "a, b"),
    "reversed scan": (lambda x: lax.scan(lambda c, t: (c + t, c), x[0], x, reverse=True), "a, b"),
    "scan of a length": (
        lambda x: lax.scan(lambda c, _: (c * 0.9, c.sum()), x, None, length=5),
        "a",
    ),
    "scan of a dim": (
        lambda x: lax.scan(lambda c, _: (c + 1, c), 0.0, None, length=x.shape[0]),
        "a",
    ),
    "map": (lambda x: lax.map(lambda v: v.sum() * v, x), "a, b"),
    "vmap": (jax.vmap(lambda v: v * v.sum()), "a, b"),
    "vmap of two": (jax.vmap(lambda v, w: v @ w), "a, b; a, b"),
    "nested jit": (lambda x: jax.jit(lambda v: v.T @ v)(x), "a, b"),
    "checkpoint": (grad(jax.checkpoint(jnp.tanh)), "a, b"),
    "custom_jvp": (lambda x: jax.nn.relu(x) + jax.nn.silu(x), "a, b"),
    "vectorize": (jnp.vectorize(jnp.dot, signature="(n),(n)->()"), "a, b; a, b"),
    "stop_gradient": (lambda x: lax.stop_gradient(x), "a"),
    "uniform": (lambda x: jax.random.uniform(key_of(x), x.shape), "a:int32"),
    "normal": (lambda x: jax.random.normal(key_of(x), (x.shape[0], 2)), "a:int32"),
    "bernoulli": (lambda x: jax.random.bernoulli(key_of(x), 0.3, x.shape), "a:int32"),
    "randint": (lambda x: jax.random.randint(key_of(x), x.shape, 0, 9), "a:int32"),
    "split of keys": (
        lambda x: jax.random.key_data(jax.random.split(key_of(x), x.shape[0])),
        "a:int32",
    ),
    "categorical": (lambda x: jax.random.categorical(jax.random.key(1), x), "a, b"),
    "permutation": (lambda x: jax.random.permutation(jax.random.key(1), x), "a"),
    "gamma": (lambda x: jax.random.gamma(jax.random.key(1), jnp.abs(x) + 1), "a"),
    "truncated_normal": (
        lambda x: jax.random.truncated_normal(jax.random.key(1), -1, 1, x.shape),
        "a",
    ),
    "image resize": (lambda x: jax.image.resize(x, (6, 8, 2), "bilinear"), "a, b, 2"),
    "image resize by two": (
        lambda x: jax.image.resize(x, (2 * x.shape[0], x.shape[1]), "nearest"),
        "a, b",
    ),
}

GRADIENTS: dict[str, Case] = {
    "gradient of matmul": (jax.grad(lambda x, y: jnp.sin(x @ y).sum(), (0, 1)), "a, b; b, c"),
    "gradient of softmax": (grad(jax.nn.softmax), "a, b"),
    "gradient of max": (grad(lambda x: x.max(1)), "a, b"),
    "gradient of var": (grad(lambda x: x.var(0)), "a, b"),
    "gradient of cumsum": (grad(lambda x: jnp.cumsum(x, 1)), "a, b"),
    "gradient of prod": (grad(lambda x: x.prod(1)), "a, 3"),
    "gradient of sort": (grad(lambda x: jnp.sort(x, 1)), "a, b"),
    "gradient of take": (jax.grad(lambda x, i: jnp.sin(x[i]).sum()), "a, b; c:int32"),
    "gradient of a slice": (grad(lambda x: x[1:, ::2]), "a, b"),
    "gradient of concatenate": (grad(lambda x: jnp.concatenate([x, x * x])), "a, b"),
    "gradient of pad": (grad(lambda x: jnp.pad(x, 1)), "a, b"),
    "gradient of where": (grad(lambda x: jnp.where(x > 0, x * x, x)), "a, b"),
    "gradient of scan": (
        grad(lambda x: lax.scan(lambda c, t: (jnp.tanh(c + t), c), x[0], x)[1]),
        "a, b",
    ),
    "gradient of cond": (grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)), "a, b"),
    "gradient of a convolution": (grad(convolved), "1, a, b, 2"),
    "gradient of a window": (grad(window(lax.add, 0.0, "SAME")), "a, b"),
    "gradient of a window maximum": (grad(window(lax.max, -jnp.inf, "VALID")), "a, b"),
    "hessian": (lambda x: jax.hessian(lambda v: jnp.sin(v).prod())(x), "3"),
    "jacobian": (lambda x: jax.jacfwd(jnp.tanh)(x), "4"),
    "jvp": (lambda x, y: jax.jvp(lambda v: jnp.sin(v) @ v.T, (x,), (y,)), "a, b; a, b"),
    "vjp of einsum": (grad(lambda x: jnp.einsum("ab,cb->ac", x, x)), "a, b"),
}

CASES = {**ELEMENTWISE, **SHAPES, **REDUCTIONS, **INDICES, **PRODUCTS, **CONTROL, **GRADIENTS}
