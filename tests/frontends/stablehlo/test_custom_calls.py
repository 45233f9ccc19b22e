"""Programs of JAX functions as custom calls of XLA: after many calls, and inside ``jax.jit``."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")

import jax.numpy as jnp  # noqa: E402

import tvm_disc.jax as disc_jax  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.errors import BadInput  # noqa: E402
from tvm_disc.jax import calls  # noqa: E402


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let XLA convert arrays from the second call at a shape, and dispatch after three more."""
    monkeypatch.setattr(calls, "MOST_ARRAYS", 1)
    monkeypatch.setattr(calls, "SETTLED", 3)


def doubled(x: Any, y: Any) -> Any:
    return {"sum": x + y["b"], "total": (x.sum(0), x[:, ::-1])}


def ones(n: int) -> tuple[Any, Any]:
    return jnp.arange(3.0 * n).reshape(n, 3), {"b": jnp.ones(3)}


def same(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(a, jax.Array) and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("how", ["jit", "compile"])
def test_shapes_in_any_order(how: str) -> None:
    """Results are right while calls go from DLPack to custom calls and back at new shapes."""
    with compile_counter() as compiled:
        if how == "jit":
            ours = disc_jax.jit(doubled, dynamic={"x": "n, 3"})
        else:
            x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), jnp.float32)
            ours = disc_jax.compile(doubled, x, {"b": jax.ShapeDtypeStruct((3,), jnp.float32)})
        settled = []
        for n in (2,) * 6 + (5,) + (2,) * 4 + (5,) * 6 + (2, 5, 1, 2):
            same(ours(*ones(n)), doubled(*ones(n)))
            settled.append(ours._calls.settled is not None)
        same(ours(np.ones((2, 3), "float32"), {"b": np.ones(3, "float32")}), doubled(*_numpy()))
    assert compiled[0] == 1
    assert True in settled and False in settled[settled.index(True) :]


def _numpy() -> tuple[Any, Any]:
    return jnp.ones((2, 3)), {"b": jnp.ones(3)}


def test_errors_name_inputs() -> None:
    ours = disc_jax.compile(
        doubled, jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), jnp.float32), ones(1)[1]
    )
    for _ in range(8):
        ours(*ones(4))
    assert ours._calls.settled is not None
    with pytest.raises(BadInput, match="'x' axis 1: expected 3"):
        ours(jnp.ones((4, 2)), {"b": jnp.ones(3)})
    with pytest.raises(BadInput, match="expected the structure"):
        ours(jnp.ones((4, 3)), {"c": jnp.ones(3)})
    same(ours(*ones(4)), doubled(*ones(4)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint32", "bool"])
def test_types(dtype: str) -> None:
    def f(x: Any) -> Any:
        return x[::-1], (x == x[0])

    ours = disc_jax.jit(f, dynamic={"x": "n, 3"})
    for n in (4, 4, 4, 4, 4, 4, 1, 1):
        x = (jnp.arange(3 * n).reshape(n, 3) % 2).astype(dtype)
        for found, want in zip(ours(x), f(x), strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_static_and_donated_arguments() -> None:
    def step(w: Any, k: int, x: Any) -> Any:
        return w + k * x.sum(0)

    ours = disc_jax.jit(step, dynamic={"x": "n, 3"}, static_argnums=1, donate_argnums=0)
    for k in (2, 3, 2, 2, 2, 2, 3, 3, 3):
        w, x = jnp.ones(3), jnp.ones((4, 3))
        np.testing.assert_allclose(ours(w, k, x), 1 + 4.0 * k * np.ones(3))
        assert w.is_deleted() and not x.is_deleted()
    assert len(ours.programs) == 2


def test_observers_see_all_calls() -> None:
    ours = disc_jax.jit(lambda x: x * 2, dynamic={"x": "n"})
    x, seen = jnp.ones(3), []
    for _ in range(8):
        ours(x)
    assert ours._calls.settled is not None

    def entry(main: Any) -> Any:
        def call(*args: Any) -> Any:
            seen.append(args)
            return main(*args)

        return call

    with ours.program(x).executable.observed(entry):
        for _ in range(4):
            ours(x)
    ours(x)
    assert len(seen) == 4


def test_inside_of_a_traced_function() -> None:
    """A custom call has no callback to Python."""
    inner = disc_jax.jit(lambda x: x * 2, dynamic={"x": "n"})
    outer = jax.jit(lambda x: inner(x) + 1)
    text = str(jax.make_jaxpr(outer)(jnp.ones(3)))
    assert "ffi_call" in text and "callback" not in text
    for n in (3, 3, 7, 1):
        np.testing.assert_array_equal(outer(jnp.ones(n)), np.full(n, 3))


def test_a_compiled_call_keeps_its_program() -> None:
    def made() -> Any:
        inner = disc_jax.jit(lambda x: x * 2, dynamic={"x": "n"})
        return jax.jit(lambda x: inner(x) + 1).lower(jnp.ones(3)).compile()

    call = made()
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(call(jnp.ones(3)), np.full(3, 3))
