"""Programs whose products are tiles of one size on tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import tvm_disc
from tests.cuda import emulator
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda import product as products
from tvm_disc.schedules.cuda.tensor import template
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs
from tvm_disc.schedules.cuda.tensor.warpgroup import GroupKnobs

ONLY = "cuda -arch=sm_90"  # the GPUs with instructions of warpgroups
CAPABILITY = 90
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
