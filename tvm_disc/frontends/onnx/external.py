"""Elements that lie in a file beside the model, read once, to where they stay."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc.literals import room_for

# Smaller ones are not worth the second way.
_LEAST_BYTES = 1 << 16
_NATIVE = {1: "float32", 6: "int32", 7: "int64", 11: "float64"}


def files_beside(path: Path) -> list[Path]:
    """The files that hold elements of tensors of the model in a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it holds no model.
    """
    if b"location" not in path.read_bytes():
        return []
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's own class, which moved between its releases
        raise ValueError(str(error)) from error
    places = map(_place, _tensors([model.graph, *model.functions]))
    return sorted({path.parent / place for place in places if place is not None})


def _tensors(bodies: Sequence[Any]) -> Iterator[Any]:
    """Every tensor of graphs and functions, those of their nodes' attributes too."""
    left = list(bodies)
    while left:
        body = left.pop()
        yield from getattr(body, "initializer", ())
        for sparse in getattr(body, "sparse_initializer", ()):
            yield from (sparse.values, sparse.indices)
        for attribute in (a for node in body.node for a in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            left += [attribute.g, *attribute.graphs]


def read_elements(tensor: Any, folder: str) -> np.ndarray | None:
    """A large tensor out of its file; None where nothing but ONNX's own reader should judge it.

    That is, whenever a place is not plainly a file in the model's own folder, or too short.
    """
    dims = tuple(tensor.dims)
    dtype = _NATIVE.get(tensor.data_type)
    place = _place(tensor)
    if dtype is None or place is None or min(dims, default=0) < 1:
        return None
    told = {entry.key: entry.value for entry in tensor.external_data}
    nbytes = prod(dims) * np.dtype(dtype).itemsize
    try:
        offset, length = int(told.get("offset", 0)), int(told.get("length", nbytes))
    except ValueError:
        return None
    if nbytes < _LEAST_BYTES or length != nbytes or offset < 0:
        return None
    path = Path(folder, place)
    plain = os.path.basename(place) == place and not path.is_symlink() and path.is_file()
    if not plain or path.stat().st_size < offset + nbytes:
        return None
    array = room_for(dims, np.dtype(dtype))
    return array if _filled(path, offset, array) else None


def _place(tensor: Any) -> str | None:
    if tensor.data_location != tensor.EXTERNAL:
        return None
    return next((e.value for e in tensor.external_data if e.key == "location"), None)


def _filled(path: Path, offset: int, array: np.ndarray) -> bool:
    """Whether the file had as many bytes."""
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        left = array.reshape(-1).view(np.uint8).data
        while left:
            count = file.readinto(left)
            if not count:
                return False
            left = left[count:]
    return True


__all__ = ["files_beside", "read_elements"]
