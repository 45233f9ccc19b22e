"""``relay.qnn.op.legalizations``: the float functions of quantized operators."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.expr import Array


def hardswish_func(x: Array) -> Array:
    """Return ``x * min(max(x + 3, 0), 6) / 6``."""
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


__all__ = ["hardswish_func"]
