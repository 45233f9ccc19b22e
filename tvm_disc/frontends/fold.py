"""Operators of small constants, computed while a model is imported.

Exporters compute scales, limits and positions from constants; an operator that must know them at
compile time finds them as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.relay import expr as ast

MOST = 4096  # elements of all operands, and of the result

_PLAIN: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "equal": np.equal,
    "exp": np.exp,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isfinite": np.isfinite,
    "less": np.less,
    "less_equal": np.less_equal,
    "log": np.log,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
}


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Floats only: kernels have their own way with integers."""
    return a / b if a.dtype.kind == "f" else None


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(a: np.ndarray, b: np.ndarray) -> Any:
        return None if not np.all(b) else function(a, b)

    return compute


_SOME: Mapping[str, Callable[..., Any]] = {
    "divide": _divide,
    "floor_divide": _whole(np.floor_divide),
    "floor_mod": _whole(np.mod),
    "negative": lambda a: None if a.dtype.kind in "ub" else -a,
}


def folded(name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> np.ndarray | None:
    """The value of a call, None where it is not known or too large."""
    items = [_literals(a) for a in args]
    if any(i is None for i in items) or _elements(items) > MOST:
        return None
    rule = _RULES.get(name)
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        found = rule(items, attrs)
    return found if found is not None and found.size <= MOST else None


def _literals(arg: Any) -> Any:
    if isinstance(arg, ast.Constant):
        return arg.data
    if isinstance(arg, ast.Tuple) and all(isinstance(f, ast.Constant) for f in arg.fields):
        return [f.data for f in arg.fields if isinstance(f, ast.Constant)]
    return None


def _elements(items: Sequence[Any]) -> int:
    return sum(sum(x.size for x in i) if isinstance(i, list) else i.size for i in items)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
        if len({i.dtype for i in items}) > 1 or any(i.dtype.name == "bfloat16" for i in items):
            return None
        found = function(*items)
        return None if found is None else np.asarray(found)

    return rule


def _where(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
    cond, a, b = items
    return np.where(cond, a, b) if cond.dtype == bool and a.dtype == b.dtype else None


def _cast(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
    x = items[0]
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        return None
    return x.astype(attrs["dtype"])


def _arange(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
    start, stop, step = (i.reshape(-1)[0] for i in items)
    if not step or abs(float(stop) - float(start)) / abs(float(step)) > MOST:
        return None
    return np.arange(start, stop, step).astype(attrs["dtype"])


def _take(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
    x, picks = items
    plain = attrs.get("mode", "clip") == "clip" and not attrs.get("batch_dims")
    inside = plain and x.ndim == 1 and bool(np.all((picks >= 0) & (picks < x.size)))
    return x[picks] if inside else None


def _strided_slice(items: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray | None:
    x, lists = items[0], [attrs[k] for k in ("begin", "end", "strides", "axes")]
    if len(items) > 1 or lists[3] is None or 0 in lists[2] or len({len(v) for v in lists}) > 1:
        return None
    where = [slice(None)] * x.ndim
    for begin, end, step, axis in zip(*lists, strict=True):
        where[axis] = slice(begin, end, step)
    return x[tuple(where)]


_RULES: Mapping[str, Callable[..., np.ndarray | None]] = {
    **{name: _elementwise(function) for name, function in {**_PLAIN, **_SOME}.items()},
    "where": _where,
    "cast": _cast,
    "arange": _arange,
    "take": _take,
    "strided_slice": _strided_slice,
    "concatenate": lambda items, attrs: np.concatenate(items[0], attrs["axis"]),
    "stack": lambda items, attrs: np.stack(items[0], attrs["axis"]),
    "transpose": lambda items, attrs: np.transpose(items[0], attrs["axes"] or None),
}

__all__ = ["folded"]
