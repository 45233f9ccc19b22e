"""NumPy semantics of conditions on elements."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def inside(x: Array, low: Array, high: Array, **_: object) -> Array:
    """Return ``x``, whose elements must all be at least ``low`` and less than ``high``.

    Raises:
        ValueError: an element is not.
    """
    if not ((x >= low) & (x < high)).all():
        raise ValueError("an element is out of the required range")
    return np.array(x)


def nonempty(x: Array, axes: tuple[int, ...], unless: int | None = None, **_: object) -> Array:
    """Return ``x``, whose ``axes`` must not be empty, unless the axis ``unless`` is.

    Raises:
        ValueError: an axis is empty.
    """
    if not all(x.shape[a] for a in axes) and (unless is None or x.shape[unless]):
        raise ValueError("an axis that must not be empty is empty")
    return np.array(x)


def nonzero(x: Array, dividend: Array, **_: object) -> Array:
    """Return ``x``, which must not contain 0 unless ``dividend`` is empty.

    Raises:
        ValueError: ``x`` contains 0.
    """
    if dividend.size and not (x != 0).all():
        raise ValueError("a divisor that must not be 0 is 0")
    return np.array(x)
