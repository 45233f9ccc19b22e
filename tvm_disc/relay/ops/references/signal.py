"""NumPy semantics of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def dft(real: Array, imaginary: Array, *, inverse: bool) -> tuple[Array, Array]:
    """Return the real and imaginary part of the transform over the last axis."""
    if real.shape[-1] == 0:
        return real, imaginary
    found = (np.fft.ifft if inverse else np.fft.fft)(real + 1j * imaginary)
    return found.real.astype(real.dtype), found.imag.astype(real.dtype)


def stft(
    data: Array,
    window: Array,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool,
    onesided: bool,
) -> Array:
    """Return the transforms of overlapping windows, ``[batch, frequencies, frames, 2]``."""
    frames = (data.shape[1] - n_fft) // hop_length + 1
    if data.shape[1] < n_fft:
        raise ValueError(f"stft: expected at least n_fft = {n_fft} elements, found {data.shape[1]}")
    count = n_fft // 2 + 1 if onesided else n_fft
    begins = np.arange(frames)[:, None] * hop_length + np.arange(win_length)
    angle = -2j * np.pi * np.outer(np.arange(win_length), np.arange(count)) / win_length
    found = (data[:, begins] * window) @ np.exp(angle)
    found = found / np.sqrt(n_fft) if normalized else found
    parts = np.stack([found.real, found.imag], -1)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).astype(data.dtype)
