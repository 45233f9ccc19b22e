"""A GGUF file: its metadata by key, and its tensors by name; errors have the key or name."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from tvm_disc.errors import BadInput, Unsupported, shown
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.gguf.blocks import FORMATS, Blocks, matrix
from tvm_disc.typing import Array


class GGUFFile:
    """An open GGUF file.

    Raises:
        BadInput: the file is missing, damaged or truncated.
        Unsupported: the package ``gguf`` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require("gguf", "gguf", f"{path}")
        import gguf

        self.path = Path(path)
        if not self.path.is_file():
            why = "expected a regular file" if self.path.exists() else "No such file or directory"
            raise BadInput(f"{path}: {why}")
        try:
            reader = gguf.GGUFReader(self.path)
        except Exception as error:  # a damaged file may raise any exception
            text = " ".join(str(error).split())[:200]
            raise BadInput(
                f"{path}: not a complete GGUF file: {type(error).__name__}: {text}"
            ) from error
        self._fields = reader.fields
        self._tensors = {str(t.name): t for t in reader.tensors}
        self._size = self.path.stat().st_size
        self._mapped = reader.data

    def value(self, key: str, default: object = None) -> object:
        """Return the value of a key of the file's metadata, or ``default`` if it has no such key.

        Raises:
            BadInput: the key is missing, and ``default`` is None.
        """
        found = self._fields.get(key)
        if found is not None:
            value: object = found.contents()
            return value
        if default is None:
            raise BadInput(f"{self.path}: the key {key} is missing")
        return default

    def number(self, key: str, default: float | None = None) -> float:
        """Return the value of a key of the metadata, which must be a positive number."""
        found = self.value(key, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
            raise BadInput(f"{self.path}: {key}: expected a positive number, found {shown(found)}")
        return found

    def has(self, name: str) -> bool:
        """Return whether there is a tensor of this name."""
        return name in self._tensors

    def tensor(self, name: str, shape: Sequence[int | None]) -> Blocks | Array:
        """Return the tensor ``name``; a weight matrix has the shape ``[outputs, inputs]``.

        Args:
            shape: the expected shape; None accepts any size.

        Raises:
            BadInput: the tensor is missing, has another shape, or extends beyond the file's end.
            Unsupported: the format of the tensor is not supported.
        """
        if name not in self._tensors:
            raise BadInput(f"{self.path}: the tensor {name} is missing")
        found = self._tensors[name]
        sizes = [int(d) for d in reversed(found.shape)]
        fits = len(sizes) == len(shape) and all(
            want in (None, have) for have, want in zip(sizes, shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("?" if d is None else str(d) for d in shape)
            raise BadInput(
                f"{self.path}: tensor {name}: expected the shape [{wanted}], found {sizes}"
            )
        kind = str(found.tensor_type.name)
        if kind not in FORMATS:
            raise Unsupported(
                f"{self.path}: tensor {name} has the format {kind}; supported are "
                f"{', '.join(FORMATS)}"
            )
        if int(found.data_offset) + int(found.n_bytes) > self._size:
            raise BadInput(
                f"{self.path}: the file ends within the tensor {name}: expected "
                f"{found.data_offset + found.n_bytes} bytes, found {self._size}"
            )
        made = matrix(found.data, kind)
        self._forget()
        return made

    def _forget(self) -> None:
        """Drop the file's pages from memory by ``madvise``; a later read loads them again."""
        pages, dropped = getattr(self._mapped, "_mmap", None), getattr(mmap, "MADV_DONTNEED", None)
        if pages is not None and dropped is not None:
            pages.madvise(dropped)


__all__ = ["GGUFFile"]
