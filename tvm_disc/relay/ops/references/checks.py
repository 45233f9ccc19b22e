"""NumPy semantics of conditions on elements."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def inside(x: Array, low: Array, high: Array, **_: object) -> Array:
    """Return ``x``, whose elements must all be at least ``low`` and less than ``high``."""
    assert ((x >= low) & (x < high)).all()
    return np.array(x)


def nonempty(x: Array, axes: tuple[int, ...], unless: int | None = None, **_: object) -> Array:
    """Return ``x``, whose ``axes`` must not be empty, unless the axis ``unless`` is."""
    assert all(x.shape[a] for a in axes) or (unless is not None and not x.shape[unless])
    return np.array(x)


def nonzero(x: Array, dividend: Array, **_: Any) -> Array:
    """Return ``x``, which must not contain 0 unless ``dividend`` is empty."""
    assert dividend.size == 0 or (x != 0).all()
    return np.array(x)
