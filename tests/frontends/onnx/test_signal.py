"""Transforms of signals of which only a call says whether they are real."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .helpers import F32, I64, model, node, normal, same


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
