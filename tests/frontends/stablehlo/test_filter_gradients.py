"""Gradients of filters: convolutions whose window has a dynamic size become matmuls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

import tvm_disc.jax as disc_jax  # noqa: E402

CASES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "same": ("b, h, w, 3", (3, 3, 3, 4), {"padding": "SAME"}),
    "valid": ("b, h + 2, w + 4, 3", (3, 5, 3, 4), {"padding": "VALID"}),
    "many channels": ("b, h, w, 20", (3, 2, 20, 8), {"padding": "SAME"}),
    "strides": ("b, 2*h, 2*w, 3", (3, 3, 3, 4), {"padding": "SAME", "window_strides": (2, 2)}),
    "dilation": ("b, h, w, 3", (3, 3, 3, 4), {"padding": "SAME", "rhs_dilation": (2, 1)}),
    "pointwise": ("b, h, w, 3", (1, 1, 3, 4), {"padding": "VALID"}),
    "padding": ("b, h, w, 3", (3, 2, 3, 4), {"padding": ((2, 1), (0, 3))}),
    "one axis": ("b, h, 3", (4, 3, 5), {"padding": "SAME"}),
    "three axes": ("b, h, w, 2, 3", (2, 3, 2, 3, 2), {"padding": "SAME"}),
}


@pytest.mark.parametrize("name", list(CASES))
def test_gradients(name: str) -> None:
    shape, filters, attrs = CASES[name]
    rank = len(filters)
    spatial = "HWD"[: rank - 2]
    layout = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    options = {"window_strides": (1,) * (rank - 2), **attrs, "dimension_numbers": layout}

    def f(x: Any, w: Any) -> Any:
        return jax.grad(lambda v: jnp.square(lax.conv_general_dilated(x, v, **options)).mean())(w)

    x = jax.ShapeDtypeStruct(export.symbolic_shape(shape), jnp.float32)
    ours = disc_jax.compile(f, x, jax.ShapeDtypeStruct(filters, jnp.float32))
    for seed, (b, h, w) in enumerate(((2, 5, 6), (1, 1, 1), (3, 8, 17))):
        rng = np.random.default_rng(seed)
        dims = {"b": b, "h": h, "w": w}
        size = [int(eval(d, {}, dims)) for d in shape.split(",")]
        given = rng.standard_normal(size).astype("float32"), rng.standard_normal(filters)
        given = given[0], given[1].astype("float32")
        np.testing.assert_allclose(ours(*given), f(*given), rtol=1e-4, atol=1e-5)
    # No convolution over the image remains but the one of the forward pass.
    launched = [k for k in ours.executable.launches if k.startswith("conv")]
    assert len(launched) <= 1, launched
