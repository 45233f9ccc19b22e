"""Programs whose products are tiles of one size on tensor cores."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import tvm_disc
from tests.cuda import emulator
from tests.cuda.forced import check_all
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda import product as products
from tvm_disc.schedules.cuda.tensor import template
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs
from tvm_disc.schedules.cuda.tensor.warpgroup import GroupKnobs
from tvm_disc.target.device import GROUPS

ONLY = "cuda -arch=sm_90"  # the GPUs with instructions of warpgroups
CAPABILITY = GROUPS
DTYPES = ("bfloat16", "float16", "float32")
TOLERANCE = {"bfloat16": 1e-2, "float16": 2e-3, "float32": 2e-3}


@contextmanager
def only_tensor_tile(tile: TensorKnobs) -> Iterator[None]:
    """Products in tiles of one size on tensor cores, without contractions."""
    with (
        mock.patch.object(template, "TILES", (tile,)),
        mock.patch.object(template, "GROUP_TILES", ()),
        mock.patch.object(products, "plan_contraction", lambda *given: []),
    ):
        yield


@contextmanager
def only_group_tile(pair: tuple[GroupKnobs, GroupKnobs]) -> Iterator[None]:
    """Products in tiles of one size by instructions of warpgroups, where these are."""
    with (
        mock.patch.object(template, "TILES", ()),
        mock.patch.object(template, "GROUP_TILES", (pair,)),
        mock.patch.object(products, "plan_contraction", lambda *given: []),
    ):
        yield


def product(dtype: str = "bfloat16") -> Any:
    """``x[m, k] @ z[n, k].T``."""
    x, z = rows("m", "k", dtype=dtype), rows("n", "k", name="z", dtype=dtype)
    return function(x, z, relay.nn.dense(x, z))


def layouts(dtype: str) -> Any:
    """Products with operands by rows and by columns, in a batch, with an epilogue."""
    x, y, z, w = (
        rows(*dims, name=name, dtype=dtype)
        for name, dims in (("x", "mk"), ("y", "kn"), ("z", "nk"), ("w", "gkm"))
    )
    v, bias = rows("g", "k", "n", name="v", dtype=dtype), rows("n", name="b", dtype=dtype)
    results = [
        relay.nn.relu(relay.add(relay.nn.matmul(x, y), bias)),
        relay.nn.dense(x, z),
        relay.nn.batch_matmul(w, v, transpose_a=True, transpose_b=False),
    ]
    return function(x, y, z, w, v, bias, relay.Tuple(results))


def check_layouts(
    gpu: ctypes.CDLL, program: Any, dtype: str, sizes: Sequence[tuple[int, int, int]]
) -> None:
    """Compare a program of :func:`layouts` with NumPy at sizes (m, n, k)."""
    for m, n, k in sizes:
        given = [
            numbers(dtype, *shape, scale=(k + 1) ** -0.5)
            for shape in ((m, k), (k, n), (n, k), (2, k, m), (2, k, n), (n,))
        ]
        a, b, c, d, e, f = (g.astype("f8") for g in given)
        wanted = [np.maximum(a @ b + f, 0), a @ c.T, d.transpose(0, 2, 1) @ e]
        check_all(gpu, program, given, wanted, TOLERANCE[dtype])


def numbers(dtype: str, *shape: int, scale: float = 1.0) -> Any:
    """Numbers of a type that differ from element to element."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return (noise(*shape) * scale).astype(kind)


def built(module: Any) -> tuple[Any, list[str]]:
    """A program with TF32, and its device functions."""
    emulator.sources()
    program = tvm_disc.build(module, target="cuda", options=tvm_disc.Options(tf32=True))
    texts = "".join(emulator.sources()).split('extern "C" __global__ ')[1:]
    return program, [t for t in texts if "disc_tensor_multiply" in t]
