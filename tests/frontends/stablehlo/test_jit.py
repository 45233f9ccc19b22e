"""``tvm_disc.jax``: compilation at the first call, trees, static arguments, tracing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402

import tvm_disc  # noqa: E402
import tvm_disc.jax as disc_jax  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.errors import BadInput  # noqa: E402
from tvm_disc.jax import calls  # noqa: E402

W = jnp.asarray(np.random.default_rng(0).standard_normal((64, 8)), jnp.float32)


def test_one_program_serves_every_shape() -> None:
    @disc_jax.jit(dynamic={"x": "b, s, 64"})
    def f(x: Any, scale: Any) -> Any:
        return {"y": jnp.tanh(x @ (W / 8)) * scale, "total": x.sum()}

    with compile_counter() as compiled:
        for b, s in ((2, 3), (5, 1), (1, 7), (3, 33)):
            x = jax.random.normal(jax.random.key(b), (b, s, 64))
            found = f(x, 2.0)
            assert isinstance(found["y"], jax.Array)
            np.testing.assert_allclose(found["y"], jnp.tanh(x @ (W / 8)) * 2, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found["total"], x.sum(), rtol=1e-4, atol=1e-4)
    assert compiled[0] == 1
    assert f.__name__ == "f"


def test_fixed_shapes_and_static_values_compile_again() -> None:
    @disc_jax.jit(dynamic={"x": "n"}, static_argnums=1)
    def power(x: Any, k: int, y: Any) -> Any:
        return x**k + y.sum()

    for n, k, m in ((3, 2, 4), (5, 2, 4), (5, 3, 4), (5, 3, 2)):
        x, y = jnp.arange(float(n)), jnp.ones(m)
        np.testing.assert_allclose(power(x, k, y), x**k + m, rtol=1e-6)
    assert len(power.programs) == 3


def test_inside_of_a_traced_function() -> None:
    @disc_jax.jit(dynamic={"x": "n, 64"})
    def f(x: Any) -> Any:
        return x @ W

    x = jnp.ones((3, 64))
    np.testing.assert_allclose(jax.jit(lambda v: f(v) + 1)(x), x @ W + 1, rtol=1e-5)


def test_trees_of_arguments(tmp_path: Path) -> None:
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("64, n"), jnp.float32)
    compiled = disc_jax.compile(lambda p, x: (p["w"].T @ x["a"], x["a"][0]), {"w": W}, {"a": spec})
    for n in (1, 5, 16):
        a = np.ones((64, n), "float32")
        first, second = compiled({"w": W}, {"a": a})
        np.testing.assert_allclose(first, W.T @ a, rtol=1e-5)
        assert second.shape == (n,)
    with pytest.raises(BadInput, match="expected the structure"):
        compiled({"w": W}, {"b": a})
    with pytest.raises(BadInput, match="'x_a' axis 0: expected 64"):
        compiled({"w": W}, {"a": a[:3]})
    path = tmp_path / "f.so"
    compiled.save(path)
    np.testing.assert_allclose(tvm_disc.load(path)(np.asarray(W), a)[0], W.T @ a, rtol=1e-5)
    assert "kernel" in compiled.explain()


def test_a_training_step() -> None:
    """Loss and gradient descend as JAX's own do, for batches of different sizes."""

    def step(w: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(lambda v: jnp.square(x @ v - y).mean())(w)
        return loss, w - 0.01 * g

    ours = disc_jax.jit(step, dynamic={"x": "n, 64", "y": "n, 8"})
    a = b = jnp.zeros_like(W)
    for n in (4, 9, 1, 17):
        x = jax.random.normal(jax.random.key(n), (n, 64))
        y = x @ W
        loss, a = ours(a, x, y)
        wanted, b = step(b, x, y)
        np.testing.assert_allclose(loss, wanted, rtol=1e-4)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert len(ours.programs) == 1


def test_donated_arguments_are_deleted() -> None:
    def step(params: Any, k: int, x: Any) -> Any:
        return {"w": params["w"] + k * x.sum(0), "b": params["b"]}

    ours = disc_jax.jit(step, dynamic={"x": "n, 8"}, static_argnums=1, donate_argnums=0)
    for n in (1, 4, 9):
        params, x = {"w": jnp.ones(8), "b": jnp.zeros(3)}, jnp.ones((n, 8))
        new = ours(params, 2, x)
        np.testing.assert_allclose(new["w"], 1 + 2 * np.full(8, n))
        np.testing.assert_array_equal(new["b"], np.zeros(3))
        assert params["w"].is_deleted() and params["b"].is_deleted() and not x.is_deleted()
    with pytest.raises(BadInput, match="deleted"):
        ours(params, 2, x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int32", "uint8", "bool"])
def test_types_of_arrays(dtype: str) -> None:
    """Constants of a function have its type, and results are arrays of it."""

    def f(x: Any) -> Any:
        if x.dtype == bool:
            return ~x, x & jnp.array([True, False, True])
        table = jnp.array([1, 2, 7], x.dtype)
        return x * 2 + table, jnp.maximum(x, 3) // table

    ours = disc_jax.jit(f, dynamic={"x": "n, 3"})
    for n in (1, 4, 9):
        x = (jnp.arange(3 * n).reshape(n, 3) % 5).astype(dtype)
        for found, want in zip(ours(x), f(x), strict=True):
            assert found.dtype == want.dtype and isinstance(found, jax.Array)
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_results_outlive_arguments_and_calls() -> None:
    ours = disc_jax.jit(lambda x: (x, x + 1), dynamic={"x": "n"})
    x = jnp.arange(1000.0)
    first, second = ours(x)
    ours(jnp.zeros(1000))
    x.delete()
    np.testing.assert_array_equal(first, np.arange(1000.0))
    np.testing.assert_array_equal(second, np.arange(1000.0) + 1)


def test_the_lookup_of_programs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_CALLS", 3)
    ours = disc_jax.jit(lambda x: x * 2, dynamic={"x": "n"})
    for n in (1, 2, 3, 4, 5, 1, 2):
        np.testing.assert_array_equal(ours(np.ones(n, "float32")), np.full(n, 2, "float32"))
    assert len(ours.programs) == 1 and len(ours._calls) <= 3


def test_refusals() -> None:
    with pytest.raises(BadInput, match="'z' is not a parameter of f"):

        @disc_jax.jit(dynamic={"z": "n"})
        def f(x: Any) -> Any:
            return x

    @disc_jax.jit(static_argnums=0)
    def g(k: Any, x: Any) -> Any:
        return x

    with pytest.raises(BadInput, match="hashable"):
        g([1], jnp.ones(2))
