"""Constant folding of operators by the NumPy references in their table entries.

Kernels are tested against the same references. A call is not folded if the kernel may differ from
NumPy, as for a position outside of the axis or a float outside of the range of an integer type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_disc.relay.ops.table import OPS
from tvm_disc.support.limits import may_fold
from tvm_disc.typing import Array

if TYPE_CHECKING:
    from tvm_disc.relay.expr import HostArray


Attrs = Mapping[str, Any]

_ELEMENTWISE = frozenset(
    "abs add ceil divide equal exp floor floor_divide floor_mod greater greater_equal isfinite "
    "less less_equal log logical_and logical_not logical_or maximum minimum multiply negative "
    "not_equal rsqrt sqrt subtract where".split()
)
# functions that are computed in a wider type and rounded once
_ROUNDED_ONCE = ("exp", "log", "rsqrt")
_WIDER = {"bfloat16": "float32", "float16": "float64", "float32": "float64"}


def literal(name: str, args: Sequence[object], attrs: Attrs, most: int) -> np.ndarray | None:
    """Return the result of an operator, or None if unknown or larger than ``most`` elements.

    Args:
        name: the operator's name in Relay.
        args: an array for each operand, a list of arrays for a tuple.
        attrs: the attributes that differ from the defaults of the table entry.
    """
    rule = _elementwise if name in _ELEMENTWISE else _RULES.get(name)
    if rule is None:
        return None
    row = OPS[name]
    assert row.reference is not None
    with np.errstate(all="ignore"):
        try:
            elements, operands = _elements(name, args)
            if elements > most or not may_fold(elements, operands):
                return None
            found = rule(row.reference, name, args, {**row.attrs, **attrs}, most)
        # The operands do not fit the operator; its import rule reports the error.
        except (ValueError, IndexError):
            return None
    return found if found is not None and found.size <= most else None


def _elements(name: str, args: Sequence[Any]) -> tuple[int, int]:
    """Return (number of elements that the limit applies to, number of operand elements).

    The limit applies to the results of element-wise operators and to the operands of others. It is
    not applied to ``arange`` here.

    Raises:
        ValueError: the operands cannot be broadcast.
    """
    parts = [x for arg in args for x in (arg if isinstance(arg, list) else [arg])]
    operands = sum(x.size for x in parts)
    if name in _ELEMENTWISE:
        return prod(np.broadcast_shapes(*(x.shape for x in parts))), operands
    return (0 if name == "arange" else operands), operands


def _elementwise(
    reference: Callable[..., object], name: str, args: Sequence[Any], attrs: Attrs, most: int
) -> np.ndarray | None:
    numbers = args[1:] if name == "where" else args
    dtype = numbers[0].dtype
    if any(x.dtype != dtype for x in numbers) or not _fits(name, args):
        return None
    if dtype.name == "bfloat16" or name in _ROUNDED_ONCE:
        args = [x.astype(_WIDER.get(x.dtype.name, x.dtype)) for x in args]
    found = np.asarray(reference(*args))
    return found if found.dtype == bool else found.astype(dtype)


def _fits(name: str, args: Sequence[np.ndarray]) -> bool:
    if name in ("floor_divide", "floor_mod"):
        return bool(np.all(args[1]))
    if name in ("where", "logical_and", "logical_or", "logical_not"):
        return bool(args[0].dtype == bool)
    return name != "negative" or args[0].dtype.kind not in "ub"


def _cast(
    reference: Callable[..., object], name: str, args: Sequence[object], attrs: Attrs, most: int
) -> np.ndarray | None:
    try:
        with np.errstate(invalid="raise"):
            return np.asarray(reference(*args, **attrs))
    except FloatingPointError:
        return None


def _arange(
    reference: Callable[..., object],
    name: str,
    args: Sequence[HostArray | Array],
    attrs: Attrs,
    most: int,
) -> np.ndarray | None:
    start, stop, step = (float(x.reshape(-1)[0]) for x in args)
    if not step or abs(stop - start) / abs(step) > most:
        return None
    return np.asarray(reference(*args, **attrs))


def _take(
    reference: Callable[..., object],
    name: str,
    args: Sequence[HostArray | Array],
    attrs: Attrs,
    most: int,
) -> np.ndarray | None:
    x, picks = args
    plain = attrs["mode"] == "clip" and not attrs["batch_dims"] and x.ndim == 1
    inside = plain and bool(np.all((picks >= 0) & (picks < x.size)))
    return np.asarray(reference(*args, **attrs)) if inside else None


def _strided_slice(
    reference: Callable[..., object], name: str, args: Sequence[object], attrs: Attrs, most: int
) -> np.ndarray | None:
    lists = [attrs[k] for k in ("begin", "end", "strides", "axes")]
    if len(args) > 1 or None in lists or 0 in lists[2] or len({len(v) for v in lists}) > 1:
        return None
    known = all(isinstance(v, int | np.integer) for items in lists for v in items)
    return np.asarray(reference(*args, **attrs)) if known else None


def _moved(
    reference: Callable[..., object], name: str, args: Sequence[Any], attrs: Attrs, most: int
) -> np.ndarray | None:
    parts = args[0] if isinstance(args[0], list) else args
    same = len({x.dtype for x in parts}) == 1
    return np.asarray(reference(*args, **attrs)) if same else None


_RULES: Mapping[str, Callable[..., np.ndarray | None]] = {
    "cast": _cast,
    "arange": _arange,
    "take": _take,
    "strided_slice": _strided_slice,
    "concatenate": _moved,
    "stack": _moved,
    "transpose": _moved,
}

LITERALS = _ELEMENTWISE | _RULES.keys()

__all__ = ["LITERALS", "literal"]
