"""Functions of Relay's Python API that are made of several operators, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import relay

SHAPES = [(1, 1), (4, 3), (7, 1), (1, 8), (13, 5)]
X = relay.var("x", shape=(relay.Any(), relay.Any()))


def test_statistics_and_sums_of_powers() -> None:
    results = [
        *relay.mean_variance(X, 1, unbiased=False),
        *relay.mean_std(X, 0, keepdims=True),
        relay.std(X, 1, True),
        relay.logsumexp(X, 1),
        relay.logsumexp(X, 0, keepdims=True),
    ]
    exe = tvm_disc.build(relay.Function([X], relay.Tuple(results)))
    for k, shape in enumerate(SHAPES):
        x = np.random.default_rng(k).normal(size=shape).astype("float32")
        wanted = [
            x.mean(1),
            x.var(1),
            x.mean(0, keepdims=True),
            x.std(0, keepdims=True),
            x.std(1, keepdims=True),
            np.log(np.exp(x).sum(1)),
            np.log(np.exp(x).sum(0, keepdims=True)),
        ]
        for found, want in zip(exe(x), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_sums_of_segments() -> None:
    ids = relay.var("ids", shape=(relay.Any(),), dtype="int32")
    both = relay.Tuple([relay.segment_sum(X, ids), relay.segment_sum(X, ids, 20)])
    exe = tvm_disc.build(relay.Function([X, ids], both))
    for k, shape in enumerate(SHAPES):
        rng = np.random.default_rng(k)
        x = rng.normal(size=shape).astype("float32")
        rows = rng.integers(0, shape[0] + 2, shape[0]).astype("int32")
        for found, number in zip(exe(x, rows), (rows.max() + 1, 20), strict=True):
            want: Any = np.zeros((number, shape[1]), "float32")
            np.add.at(want, rows, x)
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_a_window_of_ones() -> None:
    exe = tvm_disc.build(relay.Function([X], relay.stft(X, 4)))
    for batch, length in [(1, 4), (2, 7), (3, 12), (5, 5), (1, 16)]:
        x = np.random.default_rng(length).normal(size=(batch, length)).astype("float32")
        frames = np.stack([x[:, k : k + 4] for k in range(length - 3)], -1)
        want = np.fft.rfft(frames, axis=1)
        found = exe(x)
        np.testing.assert_allclose(found[..., 0], want.real, atol=1e-4)
        np.testing.assert_allclose(found[..., 1], want.imag, atol=1e-4)
