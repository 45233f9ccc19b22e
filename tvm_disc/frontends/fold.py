"""Constant folding of small tensors during import.

Exporters write scales, limits and indices as operators on constants. Operators that require these
values at compile time find them only if the constants are folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.relay import expr as ast
from tvm_disc.relay.ops.literals import literal

MOST = 4096  # maximum number of elements of all operands together, and of the result
_WEIGHTS = 1 << 16  # bytes; an array of bytes of at least this size is taken for a weight


def folded(name: str, args: Sequence[object], attrs: Mapping[str, object]) -> np.ndarray | None:
    """Return the value of a call, or None if it cannot be folded.

    A call is not folded if an operand is not constant or too large, or if the call casts an array
    that may be a quantized weight.
    """
    items = [_literals(a) for a in args]
    if any(i is None for i in items) or _elements(items) > MOST:
        return None
    if name == "cast" and may_be_weights(items[0]):
        return None
    return literal(name, items, attrs, MOST)


def may_be_weights(array: np.ndarray) -> bool:
    """Return whether an array may be a quantized weight: a matrix of 8-bit integers, or a large
    array of 8-bit elements.
    """
    matrix = sum(size > 1 for size in array.shape) > 1 and array.dtype.kind in "iu"
    return array.dtype.itemsize == 1 and (matrix or array.size >= _WEIGHTS)


def _literals(arg: object) -> Any:
    if isinstance(arg, ast.Constant):
        return arg.data
    if isinstance(arg, ast.Tuple) and all(isinstance(f, ast.Constant) for f in arg.fields):
        return [f.data for f in arg.fields if isinstance(f, ast.Constant)]
    return None


def _elements(items: Sequence[Any]) -> int:
    return sum(sum(x.size for x in i) if isinstance(i, list) else i.size for i in items)


__all__ = ["folded", "may_be_weights"]
