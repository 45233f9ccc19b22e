"""Transforms of signals that are real or complex in different calls, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .helpers import F16, F32, I64, build, listed, model, node, normal, same


@pytest.mark.parametrize("attrs", [{}, {"onesided": 1}, {"inverse": 1}])
def test_a_transform_of_real_and_complex_numbers(attrs: dict[str, Any]) -> None:
    made = model(
        [node("DFT", ["x", "", "axis"], ["y"], **attrs)],
        {"x": (F32, ["n", "t", "parts"])},
        opset=20,
        axis=np.int64(1),
    )
    parts = (1, 1) if "onesided" in attrs else (1, 2, 1, 2)
    sizes = ((1, 1), (2, 5), (3, 16), (1, 7))[: len(parts)]
    cases = [[normal(n, t, p)] for (n, t), p in zip(sizes, parts, strict=True)]
    same(made, *cases, atol=1e-3)


def test_frames_of_real_and_complex_numbers() -> None:
    made = model(
        [node("STFT", ["x", "step", "window"], ["y"])],
        {"x": (F32, ["n", "t", "parts"]), "step": (I64, []), "window": (F32, ["w"])},
        opset=17,
    )

    def want(x: np.ndarray, step: np.ndarray, window: np.ndarray) -> np.ndarray:
        size, signal = len(window), x[..., 0] + (1j * x[..., 1] if x.shape[2] > 1 else 0)
        begins = range(0, x.shape[1] - size + 1, int(step))
        frames = np.stack([signal[:, b : b + size] * window for b in begins], 1)
        found = np.fft.fft(frames)
        found = found if x.shape[2] > 1 else found[..., : size // 2 + 1]
        return np.stack([found.real, found.imag], -1).astype("float32")

    dims = ((1, 8, 1, 2, 4), (2, 17, 2, 3, 5), (3, 30, 1, 4, 8))
    cases = [
        [normal(n, t, p), np.int64(s), np.hanning(w).astype("float32")] for n, t, p, s, w in dims
    ]
    same(made, *cases, want=want, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [[40, 50], [0, 3], [70, 100]])
def test_random_numbers_of_a_fixed_shape(dtype: str, shape: list[int]) -> None:
    """Nodes without inputs; small results are folded, those of 7000 elements are computed."""
    code = {"float16": F16, "float32": F32, "float64": 11}[dtype]
    made = model(
        [
            node("RandomNormal", [], ["a"], shape=shape, dtype=code, mean=2.0, scale=0.5),
            node("RandomUniform", [], ["b"], shape=shape, dtype=code, low=-3.0, high=5.0, seed=1.0),
        ],
        {},
        results=["a", "b"],
    )
    a, b = (result.numpy() for result in build(made)())
    assert a.dtype == b.dtype == dtype and a.shape == b.shape == tuple(shape)
    if a.size:
        assert abs(a.mean() - 2) < 0.05 and abs(a.std() - 0.5) < 0.05
        assert b.min() >= -3 and b.max() <= 5 and abs(b.mean(dtype="float64") - 1) < 0.2


@pytest.mark.parametrize("kind", ["Normal", "Uniform"])
def test_random_numbers_like_an_input(kind: str) -> None:
    nodes = [
        node(f"Random{kind}Like", ["x"], ["a"], seed=7.0),
        node(f"Random{kind}Like", ["x"], ["b"], dtype=F32, seed=7.0),
    ]
    program = build(model(nodes, {"x": (F16, ["n", 3])}, results=["a", "b"]))
    for n in (0, 1, 900):
        a, b = listed(program(np.zeros((n, 3), "float16")))
        assert (a.dtype, b.dtype) == ("float16", "float32") and a.shape == b.shape == (n, 3)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
