"""What machine code of a GPU says of its kernels: registers, and memory of a thread.

The section ``.nv.info`` is a row of attributes; those of 32-bit words have format 4 and a length.
"""

from __future__ import annotations

import struct

_WORDS, _REGISTERS, _FRAME = 4, 0x2F, 0x11
_SYMBOL_BYTES = 24


def registers(image: bytes) -> dict[str, int]:
    """32-bit registers of a thread, by kernel."""
    return _attributes(image, _REGISTERS)


def frames(image: bytes) -> dict[str, int]:
    """Bytes of local memory of a thread, by kernel: arrays, and what registers have no room for."""
    return _attributes(image, _FRAME)


def _attributes(image: bytes, wanted: int) -> dict[str, int]:
    sections = _sections(image)
    info, symbols, names = (sections[n] for n in (".nv.info", ".symtab", ".strtab"))
    found, at = {}, 0
    while at < len(info):
        kind, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind != _WORDS:
            continue
        if attribute == wanted:
            symbol, value = struct.unpack_from("<II", info, at)
            [name] = struct.unpack_from("<I", symbols, _SYMBOL_BYTES * symbol)
            found[names[name:].partition(b"\0")[0].decode()] = value
        at += size
    return {k: v for k, v in found.items() if k.startswith("k")}


def _sections(image: bytes) -> dict[str, bytes]:
    [table] = struct.unpack_from("<Q", image, 0x28)
    count, names = struct.unpack_from("<HH", image, 0x3C)
    rows = [struct.unpack_from("<IIQQQQ", image, table + 64 * k) for k in range(count)]
    texts = image[rows[names][4] :]
    return {
        texts[name:].partition(b"\0")[0].decode(): image[begin : begin + size]
        for name, _, _, _, begin, size in rows
    }
