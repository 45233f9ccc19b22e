"""Renaming of symbols in relocatable ELF objects (64 bits, little endian), in place.

The code of each processor level defines the same names. A linker that merges equal definitions
could keep the definition of a level that the processor does not support.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from tvm_disc.errors import ArtifactError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_IDENTITY = b"\x7fELF\x02\x01"
_SYMBOL_TABLE, _NO_BITS = 2, 8
_GLOBAL, _WEAK, _HIDDEN = 1, 2, 2
_VARIABLE = 1


class Symbol(NamedTuple):
    """A global symbol that an object defines or references."""

    name: str
    variable: bool
    defined: bool


def rename_symbols(path: Path, renamed: Callable[[Symbol], str | None]) -> None:
    """Rename global symbols, and hide the renamed ones inside the library.

    Args:
        renamed: returns the new name of a symbol, or None to keep it.

    Raises:
        ArtifactError: the file is not a relocatable 64-bit little-endian ELF object.
    """
    data = _read(path)
    for link, names, rows in _symbol_tables(data):
        for where, symbol in rows:
            other = renamed(symbol)
            if other is not None:
                _, info, _, section, value, length = _SYMBOL.unpack_from(data, where)
                fields = (len(names), info, _HIDDEN, section, value, length)
                _SYMBOL.pack_into(data, where, *fields)
                names += other.encode() + b"\0"
        _replace_names(data, link, names)
    path.write_bytes(data)


def symbols_of(path: Path) -> list[Symbol]:
    """Return the global symbols of an object.

    Raises:
        ArtifactError: the file is not a relocatable 64-bit little-endian ELF object.
    """
    return [symbol for _, _, rows in _symbol_tables(_read(path)) for _, symbol in rows]


def is_whole(path: Path) -> bool:
    """Return whether a file is ELF and contains all sections and segments that its tables refer to.

    For other ELF kinds than 64-bit little endian only the magic number is checked.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size or head[:4] != _IDENTITY[:4]:
                return False
            if head[: len(_IDENTITY)] != _IDENTITY:
                return True
            header = _HEADER.unpack(head)
            segments = _rows(file, _SEGMENT, header[5], header[10])
            sections = _rows(file, _SECTION, header[6], header[12])
    except (OSError, struct.error):
        return False
    ends = [row[2] + row[5] for row in segments]
    ends += [row[4] + row[5] for row in sections if row[1] != _NO_BITS]
    return bool(ends) and max(ends) <= size


def _rows(file: IO[bytes], row: struct.Struct, at: int, count: int) -> list[tuple[int, ...]]:
    """Return ``count`` rows of the table at offset ``at``. Raises struct.error if the file ends
    before, or OSError.
    """
    file.seek(min(at, 1 << 62))
    data = file.read(count * row.size)
    return [row.unpack_from(data, k * row.size) for k in range(count)]


def _read(path: Path) -> bytearray:
    data = bytearray(path.read_bytes())
    if data[: len(_IDENTITY)] != _IDENTITY:
        raise ArtifactError(f"{path.name}: expected an ELF object of 64 bits, little endian")
    return data


def _symbol_tables(
    data: bytearray,
) -> Iterator[tuple[int, bytearray, list[tuple[int, Symbol]]]]:
    """Yield for each symbol table: the index of its name section, the names, and its global symbols
    with their offsets.
    """
    sections = _sections(data)
    for kind, at, size, link in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names, rows = _names(data, sections[link]), []
        for where in range(at, at + size, _SYMBOL.size):
            name_at, info, _, section, _, _ = _SYMBOL.unpack_from(data, where)
            if info >> 4 in (_GLOBAL, _WEAK):
                name = bytes(names[name_at : names.index(0, name_at)]).decode()
                rows.append((where, Symbol(name, info & 15 == _VARIABLE, section != 0)))
        yield link, names, rows


def _sections(data: bytearray) -> list[tuple[int, int, int, int]]:
    """Return (kind, offset, size, link) of every section."""
    header = _HEADER.unpack_from(data)
    start, count = header[6], header[12]
    if count == 0:  # more sections than the field can hold: the first section contains the number
        count = _SECTION.unpack_from(data, start)[5]
    rows = [_SECTION.unpack_from(data, start + k * _SECTION.size) for k in range(count)]
    return [(row[1], row[4], row[5], row[6]) for row in rows]


def _names(data: bytearray, section: tuple[int, int, int, int]) -> bytearray:
    _, at, size, _ = section
    return data[at : at + size]


def _replace_names(data: bytearray, section: int, names: bytearray) -> None:
    """Append the extended name table to the object. The old table is kept, as other sections may
    refer to it.
    """
    at = _HEADER.unpack_from(data)[6] + section * _SECTION.size
    fields = list(_SECTION.unpack_from(data, at))
    fields[4], fields[5] = len(data), len(names)
    _SECTION.pack_into(data, at, *fields)
    data += names


__all__ = ["Symbol", "is_whole", "rename_symbols", "symbols_of"]
