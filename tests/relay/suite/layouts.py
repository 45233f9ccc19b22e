"""Arrays in the layouts of images, blocks such as ``NCHW4c`` among them."""

from __future__ import annotations

import numpy as np


def turned(x: np.ndarray, was: str, layout: str) -> np.ndarray:
    """An array whose axes are ``was`` in the order of ``layout``, blocks such as ``4c`` split."""
    letters = [c for c in layout if c.isalpha()]
    dims: list[int] = []
    axes: list[int] = []
    names: list[str] = []
    size = ""
    blocks: dict[str, int] = {}
    for c in layout:
        if c.isdigit():
            size += c
        elif size:
            blocks[c.upper()], size = int(size), ""
    for letter, d in zip(was, x.shape, strict=True):
        block = blocks.get(letter)
        dims += [d // block, block] if block else [d]
        names += [letter, letter.lower()] if block else [letter]
    axes = [names.index(c) for c in letters]
    return np.ascontiguousarray(x.reshape(dims).transpose(axes))
