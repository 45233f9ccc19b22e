"""Recorded models as ``replay.cc`` reads them: the program, and its cases in one binary file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODELS = Path(__file__).resolve().parents[1] / "data" / "relay" / "models"
# DLPack's type codes.
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


@dataclass(frozen=True)
class Case:
    """The inputs of one call, in the program's order, and what it is to give."""

    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]


def recorded_cases(name: str, names: Sequence[str]) -> list[Case]:
    """The recorded calls of a model whose inputs are ``names``."""
    with np.load(MODELS / f"{name}.npz") as arrays:
        numbers = sorted({int(key.partition(".")[0]) for key in arrays.files})
        return [Case([arrays[f"{k}.{n}"] for n in names], [arrays[f"{k}.y"]]) for k in numbers]


def write_cases(cases: Sequence[Case], path: Path) -> None:
    """Words of int64, and the bytes of arrays padded to whole words."""
    parts = [_words(len(cases))]
    for case in cases:
        for arrays in (case.inputs, case.outputs):
            parts.append(_words(len(arrays)))
            parts += [_array(a) for a in arrays]
    path.write_bytes(b"".join(parts))


def _words(*values: int) -> bytes:
    return np.array(values, "<i8").tobytes()


def _array(array: np.ndarray) -> bytes:
    kind = array.dtype
    head = _words(CODES[kind.kind], 8 * kind.itemsize, array.ndim, *array.shape)
    data = np.ascontiguousarray(array, kind.newbyteorder("<")).tobytes()
    return head + data + bytes(-len(data) % 8)
