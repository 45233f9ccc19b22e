"""Reading of external tensor data, which is stored in files beside the model.

A model names these files and may be untrusted. Before anything is read, each file must be a
regular file in the model's folder and large enough for its tensors, and all tensors together must
fit into memory. A file is opened without blocking, and its type is checked again after opening.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from tvm_disc.errors import BadInput
from tvm_disc.frontends.onnx.dtypes import item_bytes
from tvm_disc.support.limits import MODEL_FILE_BYTES, UNREAD_FILE_BYTES, memory_bytes
from tvm_disc.support.literals import room_for
from tvm_disc.typing import GraphProto, ModelProto, TensorProto

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# Types whose elements NumPy reads directly from the file.
_NATIVE = {1: "<f4", 6: "<i4", 7: "<i8", 11: "<f8"}


@dataclass(frozen=True)
class FileRange:
    """Location of a tensor's elements: the bytes [offset, offset + nbytes) of a file.

    ``name`` is the name of the tensor.
    """

    name: str
    path: Path
    offset: int
    nbytes: int


def check_model_file(path: Path) -> None:
    """Check the file of a model before it is read.

    Raises:
        BadInput: the file does not exist, cannot be read, is not a regular file, or is longer
            than protobuf's limit.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        if isinstance(error, FileNotFoundError):
            raise BadInput(f"no such ONNX file: {str(path)!r}") from None
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"the ONNX file {str(path)!r} cannot be read: {why}") from None
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(
            f"no such ONNX file: expected a regular file, {str(path)!r} is {_kind(status.st_mode)}"
        )
    if status.st_size > MODEL_FILE_BYTES:
        raise BadInput(
            f"{str(path)!r} cannot be read: found {status.st_size} bytes, protobuf's limit is "
            f"{MODEL_FILE_BYTES} bytes; save the weights as external data"
        )


def files_beside(path: Path) -> list[Path]:
    """Return the external data files of the model at a path.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a model, or an external file is far longer than its tensors.
        BadInput: the model's file or an external file is refused.
    """
    check_model_file(path)
    if b"location" not in path.read_bytes():
        return []
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's error class is in different modules in its releases
        raise ValueError(str(error)) from error
    needed: dict[Path, int] = {}
    for place in check_external(model, str(path.parent), path):
        needed[place.path] = needed.get(place.path, 0) + place.nbytes
    for file, nbytes in needed.items():
        if file.stat().st_size > nbytes + UNREAD_FILE_BYTES:
            raise ValueError(f"{file}: too long to be compared as a whole")
    return sorted(needed)


def check_external(model: ModelProto, folder: str, path: Path | None = None) -> list[FileRange]:
    """Check all external tensors of a model and return the locations of their elements.

    Args:
        folder: the folder of the model's file.
        path: the model's file, if there is one. If it is a symbolic link, files beside its target
            are accepted too, because download caches consist of symbolic links.

    Raises:
        BadInput: a file is not accepted, or all tensors together do not fit into memory.
    """
    roots = [os.path.realpath(folder)]
    if path is not None:
        roots.append(os.path.dirname(os.path.realpath(path)))
    found = [_checked(t, folder, roots) for t in _tensors([model.graph, *model.functions])]
    places = [place for place in found if place is not None]
    total, most = sum(p.nbytes for p in places), memory_bytes()
    if most is not None and total > most:
        large = max(places, key=lambda p: p.nbytes)
        raise BadInput(
            f"ONNX external data: the tensors have {total} bytes in total (the largest, "
            f"{large.name!r}, has {large.nbytes}), but this machine has {most} bytes of memory"
        )
    return places


def _tensors(bodies: Sequence[GraphProto]) -> Iterator[object]:
    """Yield every tensor of graphs and functions, including tensors in node attributes."""
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


def is_external(tensor: TensorProto) -> bool:
    """Return whether the elements of a tensor are in a separate file."""
    return bool(tensor.data_location == tensor.EXTERNAL)


def read_elements(tensor: TensorProto, folder: str) -> np.ndarray | bytes:
    """Return the elements of an external tensor: as an array if their type is in ``_NATIVE`` and
    the tensor is not empty, otherwise as bytes.

    Raises:
        BadInput: the file is not accepted, or is now too short.
    """
    place = _place(tensor, folder)
    dtype = _NATIVE.get(tensor.data_type)
    with _opened(place) as file:
        file.seek(place.offset)
        if dtype is None or not place.nbytes:
            data = file.read(place.nbytes)
            if len(data) == place.nbytes:
                return data
        else:
            array = room_for(tuple(tensor.dims), np.dtype(dtype))
            if _filled(file, array):
                return array
    raise _short(place, place.path.stat().st_size)


def _checked(tensor: object, folder: str, roots: Sequence[str]) -> FileRange | None:
    """Check the external file of a tensor and return the location of the elements.

    Returns None if the model itself stores the elements.
    """
    if not is_external(tensor):
        return None
    place = _place(tensor, folder)
    real = os.path.realpath(place.path)
    if not any(os.path.commonpath([root, real]) == root for root in roots):
        raise _refused(place, f"is {real!r}, outside of the model's folder {roots[0]!r}")
    with _opened(place) as file:
        size = os.fstat(file.fileno()).st_size
    if size < place.offset + place.nbytes:
        raise _short(place, size)
    return place


def _place(tensor: TensorProto, folder: str) -> FileRange:
    """Return the location that an external tensor specifies, without accessing the file."""
    told = {entry.key: entry.value for entry in tensor.external_data}
    where, name = told.get("location", ""), tensor.name
    if not where or "\0" in where or os.path.isabs(where):
        raise BadInput(
            f"ONNX tensor {name!r}: its elements are in an external file; expected a name "
            f"relative to the model's folder, found {where!r}"
        )
    dims = tuple(tensor.dims)
    if min(dims, default=0) < 0:
        raise BadInput(f"ONNX tensor {name!r}: expected dims of at least 0, found {list(dims)}")
    nbytes = prod(dims) * item_bytes(tensor.data_type)
    offset, length = _number(name, told, "offset", 0), _number(name, told, "length", nbytes)
    if length != nbytes:
        raise BadInput(
            f"ONNX tensor {name!r}: its dims {list(dims)} need {nbytes} bytes, found a length of "
            f"{length} in its external data; the model is damaged"
        )
    return FileRange(name, Path(folder, where), offset, nbytes)


def _number(name: str, told: dict[str, str], key: str, default: int) -> int:
    text = told.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadInput(
            f"ONNX tensor {name!r}: expected the {key} of its external data as an integer of 1 to "
            f"19 digits without a sign, found {text[:40]!r}"
        )
    return int(text)


def _opened(place: FileRange) -> IO[bytes]:
    """Open the file of a tensor and check that it is a regular file."""
    try:
        handle = os.open(place.path, _OPEN)
    except IsADirectoryError:
        raise _refused(place, "is a folder, expected a regular file") from None
    except FileNotFoundError:
        raise _refused(place, "does not exist; keep it beside the model") from None
    except OSError as error:
        raise _refused(place, f"cannot be read: {error.strerror}") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _refused(place, f"is {_kind(mode)}, expected a regular file")
    return os.fdopen(handle, "rb", buffering=0)


def _kind(mode: int) -> str:
    """Return a phrase for messages that describes a file that is not regular."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _refused(place: FileRange, why: str) -> BadInput:
    return BadInput(
        f"ONNX tensor {place.name!r}: its elements are in an external file, "
        f"{str(place.path)!r}, which {why}"
    )


def _short(place: FileRange, size: int) -> BadInput:
    return _refused(
        place,
        f"has {size} bytes; expected at least {place.offset + place.nbytes}, of which the tensor "
        f"takes {place.nbytes} from byte {place.offset} on",
    )


def _filled(file: IO[bytes], array: np.ndarray) -> bool:
    """Fill an array from a file; return False if the file is too short."""
    left = array.reshape(-1).view(np.uint8).data
    while left:
        count: int | None = file.readinto(left)  # type: ignore[attr-defined]
        if not count:
            return False
        left = left[count:]
    return True


__all__ = ["check_external", "check_model_file", "files_beside", "is_external", "read_elements"]
