"""``dynamic_update_slice`` of donated arrays, and the memory of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import tvm_disc  # noqa: E402
import tvm_disc.jax as disc_jax  # noqa: E402

SLOTS = 64
Shape = jax.ShapeDtypeStruct


def step(cache: Any, x: Any, at: Any) -> Any:
    """A layer of a stacked cache that is written at a position, and what is read of it."""
    cache = jax.lax.dynamic_update_slice(cache, (x * 2)[None], (1, 0, at, 0))
    return jnp.sum(cache, axis=(0, 1, 2)) + x.sum(), cache


def specs() -> tuple[Any, ...]:
    (n,) = jax.export.symbolic_shape("n", constraints=[f"n <= {SLOTS}"])
    return (
        Shape((3, 2, SLOTS, 4), jnp.float32),
        Shape((2, n, 4), jnp.float32),
        Shape((), jnp.int32),
    )


@pytest.fixture(scope="module")
def compiled() -> Any:
    return disc_jax.compile(step, *specs(), donate_argnums=0)


def test_a_slice_is_written_in_place(compiled: Any) -> None:
    launches = compiled.executable.launches
    assert sum("update_slice" in name for name in launches) == 1
    assert not any("where" in name for name in launches)


def test_positions(compiled: Any) -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 17, SLOTS):
        for at in (0, 5, SLOTS - 1, SLOTS, 1000, -1, -1000, -(2**31), 2**31 - 1):
            cache = rng.random((3, 2, SLOTS, 4), dtype="float32")
            x, place = rng.random((2, count, 4), dtype="float32"), jnp.int32(at)
            wanted = step(jnp.asarray(cache), x, place)
            found = compiled(jnp.asarray(cache), jnp.asarray(x), place)
            np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
            np.testing.assert_array_equal(found[1], wanted[1])


def test_many_calls_keep_the_memory(compiled: Any) -> None:
    """Calls by DLPack, and, after many at the same shapes, by XLA."""
    cache = jnp.zeros((3, 2, SLOTS, 4))
    wanted = np.zeros(cache.shape, "float32")
    places = {cache.unsafe_buffer_pointer()}
    for k in range(2500):
        x = np.full((2, 1 + k % 2, 4), float(k), "float32")
        at = k % (SLOTS - 1)
        before = cache
        _, cache = compiled(cache, jnp.asarray(x), jnp.int32(at))
        wanted[1, :, at : at + x.shape[1]] = 2 * x
        assert before.is_deleted()
        places.add(cache.unsafe_buffer_pointer())
        if k % 100 == 0:
            np.testing.assert_array_equal(cache, wanted)
    np.testing.assert_array_equal(cache, wanted)
    # XLA copies an array that it did not allocate, once for each shape.
    assert len(places) <= 3


def test_inside_of_jit(compiled: Any) -> None:
    x, at = jnp.ones((2, 2, 4)), jnp.int32(3)
    donating = jax.jit(lambda c, x, at: compiled(c, x, at), donate_argnums=0)
    cache = jnp.zeros((3, 2, SLOTS, 4))
    place = cache.unsafe_buffer_pointer()
    _, now = donating(cache, x, at)
    assert now.unsafe_buffer_pointer() == place and float(now.sum()) == 32
    # An array that is needed later is copied.
    cache = jnp.zeros((3, 2, SLOTS, 4))
    (_, now), kept = jax.jit(lambda c, x, at: (compiled(c, x, at), c))(cache, x, at)
    assert (float(now.sum()), float(kept.sum()), float(cache.sum())) == (32, 0, 0)


def test_state_of_an_exported_function() -> None:
    exported = jax.export.export(jax.jit(step))(*specs())
    exe = tvm_disc.build(exported, options=tvm_disc.Options(state=["cache"]))
    state, cache = exe.state(), jnp.zeros((3, 2, SLOTS, 4))
    for k in (1, 3, 60):
        x, at = jnp.full((2, k, 4), k + 0.5), jnp.int32(k)
        wanted, cache = step(cache, x, at)
        found = state(np.asarray(x), np.asarray(at))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        np.testing.assert_array_equal(state.cache("cache"), cache)


def test_a_result_that_is_no_update() -> None:
    """Nothing reads the first argument when the result of its shape is written."""

    def layers(x: Any, w: Any) -> Any:
        return jnp.maximum(x @ w, 0) @ w

    w = jnp.asarray(np.random.default_rng(1).random((8, 8), dtype="float32"))
    n = jax.export.symbolic_shape("n, 8")
    ours = disc_jax.compile(
        layers, Shape(n, jnp.float32), Shape((8, 8), jnp.float32), donate_argnums=0
    )
    for rows in (1, 5, 64):
        x = jnp.ones((rows, 8))
        wanted, place = layers(x, w), x.unsafe_buffer_pointer()
        y = ours(x, w)
        np.testing.assert_allclose(y, wanted, rtol=1e-5)
        assert x.is_deleted() and y.unsafe_buffer_pointer() == place


def test_numpy_arrays_are_not_changed() -> None:
    ours = disc_jax.compile(step, *specs(), donate_argnums=0)
    room = np.zeros(3 * 2 * SLOTS * 4 + 16, "float32")
    first = -room.ctypes.data % 64 // 4  # JAX shares the memory of aligned arrays
    cache = room[first : first + 3 * 2 * SLOTS * 4].reshape(3, 2, SLOTS, 4)
    for _ in range(3):
        _, now = ours(cache, jnp.ones((2, 2, 4)), jnp.int32(1))
        assert float(now.sum()) == 32 and not cache.any()


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_shapes_that_are_equal_in_some_calls_only() -> None:
    n, k = jax.export.symbolic_shape("n, k")
    shapes = [Shape(s, jnp.float32) for s in [(n, 8), (8, 8), (8, k)]]
    ours = disc_jax.compile(lambda x, w, u: jnp.maximum(x @ w, 0) @ u, *shapes, donate_argnums=0)
    assert ours.executable.donated == {0: 0}
    for columns in (8, 5):
        w, u = jnp.eye(8), jnp.ones((8, columns))
        for _ in range(1300):  # by DLPack, and then by XLA
            y = ours(jnp.ones((4, 8)), w, u)
        assert y.shape == (4, columns) and float(y[0, 0]) == 8
        y = jax.jit(lambda *a: ours(*a))(jnp.ones((4, 8)), w, u)
        assert y.shape == (4, columns)
