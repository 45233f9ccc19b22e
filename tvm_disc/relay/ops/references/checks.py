"""What conditions on elements mean."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def inside(x: Array, low: Array, high: Array, **_: Any) -> Array:
    """``x``, of which every element must be at least ``low`` and less than ``high``."""
    assert ((x >= low) & (x < high)).all()
    return np.array(x)


def nonempty(x: Array, axes: tuple[int, ...], **_: Any) -> Array:
    """``x``, whose ``axes`` must have elements."""
    assert all(x.shape[a] for a in axes)
    return np.array(x)


def nonzero(x: Array, dividend: Array, **_: Any) -> Array:
    """``x``, of which no element may be 0 unless ``dividend`` has no elements."""
    assert dividend.size == 0 or (x != 0).all()
    return np.array(x)
