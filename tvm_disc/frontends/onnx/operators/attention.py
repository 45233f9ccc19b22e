"""Converters of attention and rotary embeddings of ONNX's default domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from tvm_disc.frontends.calc import Calc, Demand, Dim, Expr
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.frontends.onnx.tensors import dtype_of

LOWEST = -3.4028234663852886e38


@dataclass
class Heads:
    """Queries, keys and values of attention, each ``[batch, heads, length, width]``."""

    query: Expr
    key: Expr
    value: Expr


def split_heads(n: Calc, x: Expr, heads: int) -> Expr:
    """Return ``[batch, length, heads * width]`` reshaped to ``[batch, heads, length, width]``."""
    width = n.dim("floor_divide", n.size(x, 2), heads)
    return n.transpose(n.reshape(x, [n.size(x, 0), n.size(x, 1), heads, width]), [0, 2, 1, 3])


def joined_heads(n: Calc, x: Expr) -> Expr:
    """Return ``[batch, heads, length, width]`` reshaped to ``[batch, length, heads * width]``."""
    sizes = n.sizes(x)
    moved = n.transpose(x, [0, 2, 1, 3])
    return n.reshape(moved, [sizes[0], sizes[2], n.dim("multiply", sizes[1], sizes[3])])


def repeated(n: Calc, x: Expr, times: Dim, count: Dim | None = None) -> Expr:
    """Return keys or values with every head repeated ``times`` times.

    ``count`` is the resulting number of heads, if the caller knows it.
    """
    if isinstance(times, int) and times == 1:
        return x
    b, h, s, d = n.sizes(x)
    wide = n.broadcast(n.expand(x, 2), [b, h, times, s, d])
    return n.reshape(wide, [b, n.dim("multiply", h, times) if count is None else count, s, d])


def causal(n: Calc, rows: Dim, columns: Dim, offset: Expr) -> Expr:
    """Return a causal mask ``[rows, columns]``: query i may attend to key j if j <= i + offset."""
    place: Expr = n.expand(n.arange(rows), 1) + offset
    return n.arange(columns) <= place


def scores(n: Calc, heads: Heads, scale: Expr | float, softcap: float = 0.0) -> Expr:
    """Return the scaled matmul of queries and keys, limited to ``softcap`` if that is not 0."""
    plain = isinstance(scale, float) and scale == 1
    query = heads.query if plain else heads.query * scale
    return capped(n, n.matmul(query, n.swapped(heads.key)), softcap)


def capped(n: Calc, found: Expr, softcap: float) -> Expr:
    """Return the scores limited to ``softcap`` if that is not 0."""
    return n.tanh(found / softcap) * softcap if softcap else found


def hidden(n: Calc, found: Expr, seen: Expr) -> Expr:
    """Return the scores with the most negative number wherever ``seen`` is false."""
    return n.where(seen, found, _low(n, found))


def weighted(n: Calc, found: Expr, value: Expr) -> Expr:
    """Return the values weighted by the softmax of the scores."""
    return n.matmul(n.softmax(found, -1), value)


def default_scale(n: Calc, x: Expr, given: Any) -> Expr | float:
    """Return the given scale, or 1 / sqrt(head width) if it is None or 0.

    The result is an expression if the width is unknown at compile time.
    """
    width = n.literals(x)[-1]
    if given:
        return float(given)
    if width is not None:
        return 1 / math.sqrt(width) if width else 1.0
    root = n.rsqrt(n.scalar(n.size(x, n.rank(x) - 1), "float32"))
    return n.cast(root, n.dtype(x))


# -- attention ---------------------------------------------------------------------------------


def _attention(n: OnnxNode) -> list[Expr]:
    """Convert Attention. A mask, causality, windows and lengths may each hide keys."""
    flat = n.rank(n[0]) == 3
    query, key, value, *before = _operands(n, flat)
    past: Dim = 0
    if before[0] is not None:
        past = n.size(before[0], 2)
        key, value = (n.concat([p, x], 2) for p, x in zip(before, (key, value), strict=True))
    count = n.size(query, 1)
    times = n.dim("floor_divide", count, n.size(key, 1))
    heads = Heads(query, *(repeated(n, x, times, count) for x in (key, value)))
    mode, cap = int(n.attr("qk_matmul_output_mode", 0)), float(n.attr("softcap", 0.0))
    plain = scores(n, heads, default_scale(n, query, n.attr("scale")))
    found = capped(n, plain, cap)
    shown = [plain, found]
    seen, bias = _masks(n, found, past)
    if bias is not None:
        found = found + bias
    if seen is not None:
        found = n.where(seen, found, -math.inf if mode == 2 else _low(n, found))
    shown.append(found)
    weights = _softmax(n, found)
    out = n.matmul(weights, heads.value)
    some = _some(n, seen, bias)
    if some is not None:
        out = n.where(some, out, n.like(0, out))
        weights = n.where(some, weights, n.like(0, weights)) if mode == 3 else weights
    shown.append(weights)
    return [joined_heads(n, out) if flat else out, key, value, shown[mode]]


def _operands(n: OnnxNode, flat: bool) -> list[Any]:
    """Return queries, keys, values, past keys and past values, ``[batch, heads, length, width]``.

    Dims that must be equal are the same symbol in the results, with a guard if required.
    """
    query, key, value = n[0], n[1], n[2]
    if flat:
        counts = int(n.required("q_num_heads")), int(n.required("kv_num_heads"))
        query = split_heads(n, query, counts[0])
        key, value = (split_heads(n, x, counts[1]) for x in (key, value))
    rows: dict[str, tuple[Any, Sequence[Demand]]] = {
        "Q": (query, ["batch", None, None, "width"]),
        "K": (key, ["batch", "heads", "keys", "width"]),
        "V": (value, ["batch", "heads", "keys", "values"]),
        "past_key": (n.get(4), ["batch", "heads", "past", "width"]),
        "past_value": (n.get(5), ["batch", "heads", "past", "values"]),
    }
    return n.fitted(rows)


def _softmax(n: OnnxNode, found: Expr) -> Expr:
    precision = n.attr("softmax_precision")
    dtype = n.dtype(found)
    wide = dtype_of(int(precision)) if precision else dtype
    return n.cast(n.softmax(n.cast(found, wide), -1), dtype)


def _low(n: Calc, found: Expr) -> float:
    """Return a number that is less than every score, and finite in the scores' dtype."""
    return LOWEST if n.dtype(found) in ("float32", "float64", "bfloat16") else -65504.0


def _masks(n: OnnxNode, found: Expr, past: Dim) -> tuple[Expr | None, Expr | None]:
    """Return the mask of visible keys and the bias of the scores; either may be None."""
    rows, columns = n.size(found, 2), n.size(found, 3)
    tests: list[Expr] = []
    bias, lengths = None, n.get(6)
    if n.get(3) is not None:
        mask = _widened(n, n[3], found)
        if n.dtype(mask) == "bool":
            tests.append(mask)
        else:
            bias = mask
    offset: Expr = n.scalar(past)
    if lengths is not None:
        wide = n.expand(n.cast(lengths, "int64"), 1, 3)
        tests.append(n.arange(columns) < wide)
        offset = wide - n.scalar(rows)
    place = n.expand(n.arange(rows), 1) + offset
    if n.attr("is_causal", 0):
        tests.append(n.arange(columns) <= place)
    left, right = (int(n.attr(f"{side}_window_size", -1)) for side in ("left", "right"))
    if left >= 0:
        tests.append(place - n.arange(columns) <= left)
    if right >= 0:
        tests.append(n.arange(columns) - place <= right)
    return reduce(and_, tests) if tests else None, bias


def _widened(n: OnnxNode, mask: Expr, found: Expr) -> Expr:
    """Return a mask padded to the number of keys; keys in the padding are hidden."""
    rank, size = n.rank(mask), n.size(found, 3)
    have, want = n.infer.dims_of(mask)[-1], n.infer.dims_of(found)[3]
    if n.infer.same(have, want) or n.literals(mask)[-1] == 1:
        return mask
    more = n.dim("maximum", n.dim("subtract", size, n.size(mask, rank - 1)), 0)
    widths: list[tuple[Dim, Dim]] = [(0, 0)] * (rank - 1) + [(0, more)]
    if n.dtype(mask) == "bool":
        return n.not_equal(n.pad(n.cast(mask, "int8"), widths, 0), 0)
    return n.pad(mask, widths, -math.inf)


def _some(n: OnnxNode, seen: Any, bias: Any) -> Expr | None:
    """Return whether each query has a visible key, or None if every query always has one."""
    if n.get(3) is None and n.get(6) is None:
        return None
    tests = [] if seen is None else [seen]
    if bias is not None:
        tests.append(bias > -math.inf)
    both = n.cast(reduce(and_, tests), "int8")
    return n.not_equal(n.reduce("max", both, [n.rank(both) - 1], True), 0)


# -- rotary embeddings -------------------------------------------------------------------------


def rotated(n: Calc, x: Expr, cos: Expr, sin: Expr, interleaved: bool) -> Expr:
    """Return ``x[..., length, width]`` with pairs of elements rotated by angles.

    ``cos`` and ``sin`` have one angle for each pair. If they have fewer than width / 2 angles, only
    the first elements are rotated, and the rest of the width is copied.
    """
    rank = n.rank(x)
    half = n.size(cos, -1)
    whole = n.dim("multiply", half, 2)
    every = n.same(n.formulas(x)[-1], n.formulas(n.arange(whole))[0])
    part = x if every else n.slice(x, rank - 1, 0, whole)
    if isinstance(whole, int):
        part = n.fitted({"input": (part, [*[None] * (rank - 1), whole])})[0]
    if interleaved:
        one, other = (n.slice(part, rank - 1, k, whole, 2) for k in range(2))
    else:
        one, other = n.slice(part, rank - 1, 0, half), n.slice(part, rank - 1, half, whole)
    real = one * cos - other * sin
    turned = one * sin + other * cos
    if interleaved:
        made = n.reshape(n.stack([real, turned], rank), n.sizes(part))
    else:
        made = n.concat([real, turned], rank - 1)
    return made if every else n.concat([made, n.slice(x, rank - 1, whole, None)], rank - 1)


def _rotary(n: OnnxNode) -> Expr:
    """Convert RotaryEmbedding.

    The input is ``[batch, heads, length, width]`` or ``[batch, length, heads * width]``.
    """
    width, flat = int(n.attr("rotary_embedding_dim", 0)), n.rank(n[0]) == 3
    heads = int(n.required("num_heads")) if flat else 1
    x, cos, sin, place = _angles(n, heads, width)
    if place is not None:
        cos, sin = (n.take(c, place, 0) for c in (cos, sin))
    sizes = n.sizes(x)
    whole = n.dim("multiply", n.size(cos, -1), 2)
    if flat and not width:
        x = n.transpose(n.reshape(x, [*sizes[:2], heads, whole]), [0, 2, 1, 3])
    elif flat:
        x = split_heads(n, x, heads)
    elif not width:
        x = n.reshape(x, [*sizes[:3], whole])
    cos, sin = (n.expand(c, 1) for c in (cos, sin))
    made = rotated(n, x, cos, sin, bool(n.attr("interleaved", 0)))
    return joined_heads(n, made) if flat else made


def _angles(n: OnnxNode, heads: int, width: int) -> list[Any]:
    """Return the input, cosines, sines and positions.

    Dims that must be equal are the same symbol in the results, with a guard if required. The number
    of angles is half of the width of a head, or of its rotated part.
    """
    rank, known, place = n.rank(n[0]), n.literals(n[0])[-1], n.get(3)
    half: Demand = "half"
    if width or known is not None:
        half = (width or (known or 0) // heads) // 2
    x: list[Demand] = ["batch", *[None] * (rank - 3), "length", None]
    table: list[Demand] = ["batch", "length", half] if place is None else ["places", half]
    rows: list[Demand] = ["batch", "length"]
    if place is not None and n.literals(place)[0] == 1:
        rows[0] = None  # all entries of the batch have the same positions
    return n.fitted(
        {
            "X": (n[0], x),
            "cos_cache": (n[1], table),
            "sin_cache": (n[2], table),
            "position_ids": (place, rows),
        }
    )


ROWS: tuple[Row, ...] = (
    Row("Attention", _attention, since=23),
    Row("RotaryEmbedding", _rotary, since=23),
)

__all__ = [
    "ROWS",
    "Heads",
    "causal",
    "default_scale",
    "hidden",
    "joined_heads",
    "repeated",
    "rotated",
    "scores",
    "split_heads",
    "weighted",
]
