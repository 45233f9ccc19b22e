"""Programs in which a template has one plan, and inputs that begin where no access does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tests.cuda import emulator
from tests.cuda.helpers import ORDERS, built
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.codegen.cuda.source import PRELUDE
from tvm_disc.runtime.arrays import as_array
from tvm_disc.schedules.cuda import product, reduce, window
from tvm_disc.schedules.cuda.reduce import ReduceKnobs
from tvm_disc.schedules.cuda.rows import template as rows
from tvm_disc.schedules.cuda.rows.template import RowKnobs
from tvm_disc.schedules.cuda.tile import TileKnobs


@contextmanager
def only_tile(tile: TileKnobs) -> Iterator[None]:
    """Products and convolutions in tiles of one size."""
    with mock.patch.object(product, "TILES", (tile,)), _nothing_else(product):
        yield


@contextmanager
def only_strips() -> Iterator[None]:
    """Windows in strips."""
    with _nothing_else(window):
        yield


def _nothing_else(template: Any) -> Any:
    return mock.patch.object(template, "plan_contraction", lambda *given: [])


@contextmanager
def only_sums(knobs: ReduceKnobs) -> Iterator[None]:
    """Contractions one way, and products in no tiles."""
    with mock.patch.object(reduce, "ALL", (knobs,)), mock.patch.object(product, "TILES", ()):
        yield


@contextmanager
def only_column_sums(knobs: ReduceKnobs) -> Iterator[None]:
    """Reductions of axes that are not the last as contractions, one way."""
    with mock.patch.object(reduce, "ALL", (knobs,)), mock.patch.object(rows, "ALL", ()):
        yield


@contextmanager
def only_rows(knobs: RowKnobs) -> Iterator[None]:
    """Rows one way."""
    with mock.patch.object(rows, "ALL", (knobs,)), _nothing_else(rows):
        yield


def made(module: Any, facts: Sequence[str] = ()) -> tuple[Any, dict[str, str]]:
    """A program, and its device functions by the first part of their names: k0, k1, ..."""
    emulator.sources()
    program = built(module, facts)
    found = {}
    for text in "".join(emulator.sources()).split('extern "C" __global__ ')[1:]:
        if ") {" in text:
            found[re.findall(r" k(\d+)_", text)[0]] = text
    return program, {f"k{k}": text for k, text in found.items()}


def ptx(functions: dict[str, str]) -> dict[str, str] | None:
    """The functions as PTX, if there is a compiler for it."""
    if not nvrtc.is_there():
        return None
    text = "\n".join(f'extern "C" __global__ {f}' for f in functions.values())
    calls = sorted({m.groups() for m in _DIVISION.finditer(text)})
    lines = [f"DISC_{w.upper()}_{k.upper()}(disc_div_{w}_{k}_{t}_v1, {t}_t)" for w, k, t in calls]
    code = nvrtc.compile_for("\n".join([PRELUDE, *lines, text]), "compute_80").decode()
    entries = code.split(".visible .entry ")[1:]
    return dict(zip(functions, entries, strict=True))


_DIVISION = re.compile(r"\bdisc_div_(floor|trunc)_(divide|mod)_(u?int\d+)_v1\b")


def moved(program: Any, array: np.ndarray) -> Any:
    """An array on the device, one element after where it would begin."""
    room = np.zeros(array.size + 1, array.dtype)
    room[1:] = array.ravel()
    there = program._main.sent(room)
    return there._create_view(array.shape, str(array.dtype), array.itemsize)


def check_all(
    gpu: ctypes.CDLL,
    program: Any,
    inputs: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    tolerance: float = 2e-5,
) -> None:
    """Right, whatever the order of threads and blocks, and wherever inputs begin."""
    found = []
    for order in ORDERS:
        gpu.emulated_order(order)
        found.append(_several(program(*inputs)))
    there = [moved(program, x) if x.size else program._main.sent(x) for x in inputs]
    apart = [as_array(program._main.fetched(y)) for y in _several(program(*there))]
    for k, want in enumerate(wanted):
        for one in (found[0][k], apart[k]):
            np.testing.assert_allclose(one, want, rtol=tolerance, atol=tolerance / 4)
        for other in found[1:]:
            np.testing.assert_array_equal(found[0][k], other[k])


def _several(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


__all__ = [
    "check_all",
    "made",
    "moved",
    "only_column_sums",
    "only_rows",
    "only_strips",
    "only_sums",
    "only_tile",
    "ptx",
]
