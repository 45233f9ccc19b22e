"""Converters of image resizing and sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.matmul import matmul
from tvm_disc.frontends.torch.values import Dim, Value, wide_dtype

_CUBIC = -0.75  # PyTorch's coefficient of the cubic kernel


def _step(
    m: Maker, size: Dim, wanted: Dim, corners: bool, scale: float | None, dtype: str = "float32"
) -> Value:
    """Return the distance between adjacent result elements, in elements of the operand."""
    if corners:
        gaps = m.maximum(m.tensor(wanted - 1, dtype), 1.0)
        return m.tensor(size - 1, dtype) / gaps
    if scale:
        return m.tensor(1.0 / scale, dtype)
    return m.tensor(size, dtype) / m.tensor(wanted, dtype)


def _places(m: Maker, wanted: Dim, step: Value, corners: bool) -> Value:
    line = m.arange(wanted, step.dtype)
    if corners:
        return line * step
    return (line + 0.5) * step - 0.5


def _exact(x: Value) -> str:
    """Return the dtype in which PyTorch computes positions in modes other than "nearest"."""
    return "float64" if x.dtype == "float64" else "float32"


def times(size: Dim, wanted: Dim) -> int | None:
    """Return ``wanted / size``, the copies of each element, or None if it is not an integer."""
    if isinstance(size, int) and isinstance(wanted, int):
        return wanted // size if size and wanted % size == 0 else None
    import sympy

    ratio = sympy.sympify(wanted) / sympy.sympify(size)
    return int(ratio) if ratio.is_Integer else None


def _nearest(m: Maker, x: Value, axis: int, wanted: Dim, exact: bool, scale: float | None) -> Value:
    size = x.dims[axis]
    copies = times(size, wanted)
    if copies is not None and (not scale or scale == copies):
        dims = (*x.dims[:axis], wanted, *x.dims[axis + 1 :])
        made = m.call("repeat", x, repeats=copies, axis=axis) if copies > 1 else x.expr
        return Value(made, x.dtype, dims)
    step = _step(m, size, wanted, False, scale)
    line = m.arange(wanted, "float32")
    line = line + 0.5 if exact else line
    place = m.cast(m.floor(line * step), "int64")
    return m.take(x, m.limited(place, size), axis)


def _linear(
    m: Maker, x: Value, axis: int, wanted: Dim, corners: bool, scale: float | None
) -> Value:
    size = x.dims[axis]
    if size == wanted and (corners or scale in (None, 1.0)):
        return x
    place = _places(m, wanted, _step(m, size, wanted, corners, scale, _exact(x)), corners)
    place = m.maximum(place, 0.0)
    low = m.floor(place)
    part = m.along(m.cast(place - low, x.dtype), axis, x.rank)
    first = m.cast(low, "int64")
    below = m.take(x, m.limited(first, size), axis)
    above = m.take(x, m.limited(first + 1, size), axis)
    rest = m.tensor(1.0, x.dtype) - part
    return below * rest + above * part


def _cubic(m: Maker, x: Value, axis: int, wanted: Dim, corners: bool, scale: float | None) -> Value:
    size = x.dims[axis]
    place = _places(m, wanted, _step(m, size, wanted, corners, scale, _exact(x)), corners)
    low = m.floor(place)
    part = place - low
    first = m.cast(low, "int64")
    total: Value | None = None
    for tap in (-1, 0, 1, 2):
        gap = m.abs(part - float(tap))
        weight = m.along(m.cast(_cubic_weight(m, gap, tap in (0, 1)), x.dtype), axis, x.rank)
        read = m.take(x, m.limited(first + tap, size), axis)
        term = read * weight
        total = term if total is None else total + term
    assert total is not None
    return total


def _cubic_weight(m: Maker, gap: Value, near: bool, a: float = _CUBIC) -> Value:
    """Return Keys' cubic kernel for distances in [0, 1] if ``near``, else in [1, 2]."""
    factors = (a + 2, -(a + 3), 0.0, 1.0) if near else (a, -5 * a, 8 * a, -4 * a)
    found = gap * factors[0]
    for k in factors[1:3]:
        found = (found + k) * gap
    return found + factors[3]


def _antialias(reach: float, kernel: Callable[[Maker, Value], Value]) -> Callable[..., Value]:
    """Return a function that resizes one axis with antialiasing.

    Resizing is a matmul with a matrix of weights. ``reach`` is the extent of the kernel on each
    side. If the axis shrinks, the kernel is widened by the same factor, so that every element
    contributes.
    """

    def along(
        m: Maker, x: Value, axis: int, wanted: Dim, corners: bool, scale: float | None
    ) -> Value:
        size = x.dims[axis]
        if size == wanted and (corners or scale in (None, 1.0)):
            return x
        step = _step(m, size, wanted, corners, scale, x.dtype)
        wide = m.maximum(step, 1.0)
        center = step * (m.arange(wanted, x.dtype) + 0.5)
        center, half = m.expand(center, 1), wide * reach
        at = m.expand(m.arange(size, x.dtype), 0)
        first = m.floor(center - half + 0.5)
        end = m.floor(center + half + 0.5)
        inside = (at >= first) & (at < end)
        gap = m.abs(at - center + 0.5) / wide
        weights = m.where(inside, kernel(m, gap), 0.0)
        weights = weights / m.reduce("sum", weights, [1], True)
        return m.move(matmul(m, m.move(x, axis, -1), m.swap(weights, 0, 1)), -1, axis)

    return along


def _triangle(m: Maker, gap: Value) -> Value:
    return m.maximum(1.0 - gap, 0.0)


def _keys(m: Maker, gap: Value) -> Value:
    """Return Keys' cubic kernel at the distances ``gap``, which must not be negative.

    Its coefficient is -1/2, as in PyTorch for antialiasing.
    """
    far = m.where(gap < 2.0, _cubic_weight(m, gap, False, -0.5), 0.0)
    return m.where(gap < 1.0, _cubic_weight(m, gap, True, -0.5), far)


def _scales(given: Sequence[Any], vec: bool, rank: int) -> list[float | None]:
    """Return the scale of each axis, or None if it is omitted.

    The arguments ``given`` are one list if ``vec``, else one number per axis.
    """
    if vec:
        given = given[0] if given and given[0] is not None else ()
    return [None if s is None else float(s) for s in given] or [None] * rank


def _resized(
    m: Maker, x: Value, rank: int, along: Callable[..., Value], scales: Sequence[float | None]
) -> Value:
    wide = m.cast(m.nonempty(x, range(1, x.rank)), wide_dtype(x.dtype))
    for k, (size, scale) in enumerate(zip(m.out_dims[-rank:], scales, strict=True)):
        wide = along(wide, x.rank - rank + k, size, scale)
    return m.cast(m.nonempty(wide, range(2, x.rank)), x.dtype)


def _upsample_nearest(rank: int, exact: bool, vec: bool) -> Row:
    def row(m: Maker, x: Value, size: object, *scales: object) -> Value:
        def along(y: Value, axis: int, wanted: Dim, scale: float | None) -> Value:
            return _nearest(m, y, axis, wanted, exact, scale)

        return _resized(m, x, rank, along, _scales(scales, vec, rank))

    return row


def _upsample_smooth(rank: int, axis_rule: Callable[..., Value], vec: bool) -> Row:
    def row(m: Maker, x: Value, size: object, align_corners: bool, *scales: object) -> Value:
        def along(y: Value, axis: int, wanted: Dim, scale: float | None) -> Value:
            return axis_rule(m, y, axis, wanted, align_corners, scale)

        return _resized(m, x, rank, along, _scales(scales, vec, rank))

    return row


_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


def _grid_sample(m: Maker, x: Value, grid: Value, mode: int, border: int, corners: bool) -> Value:
    rank = x.rank - 2
    x = m.nonempty(x, range(2, x.rank))
    made = m.call(
        "image.grid_sample",
        x,
        m.move(grid, -1, 1),
        method=_MODES[mode],
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=_BORDERS[border],
        align_corners=corners,
    )
    return Value(made, x.dtype, m.out_dims)


def _pixel_shuffle(m: Maker, x: Value, factor: int) -> Value:
    *lead, c, h, w = x.dims
    b = len(lead)
    split = m.reshape(x, [*lead, m.quotient(c, factor * factor), factor, factor, h, w])
    moved = m.transpose(split, [*range(b + 1), b + 3, b + 1, b + 4, b + 2])
    return m.reshape(moved, m.out_dims)


def _pixel_unshuffle(m: Maker, x: Value, factor: int) -> Value:
    *lead, c, h, w = x.dims
    b = len(lead)
    split = m.reshape(x, [*lead, c, m.quotient(h, factor), factor, m.quotient(w, factor), factor])
    moved = m.transpose(split, [*range(b + 1), b + 2, b + 4, b + 1, b + 3])
    return m.reshape(moved, m.out_dims)


_LINEAR = (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3))

ROWS: Mapping[str, Row] = {
    **{
        f"{prefix}{n}d.{o}": _upsample_nearest(n, exact, o == "vec")
        for prefix, exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True))
        for n in (1, 2, 3)
        for o in ("default", "vec")
    },
    **{
        f"upsample_{name}.{o}": _upsample_smooth(n, _linear, o == "vec")
        for name, n in _LINEAR
        for o in ("default", "vec")
    },
    **{
        f"upsample_bicubic2d.{o}": _upsample_smooth(2, _cubic, o == "vec")
        for o in ("default", "vec")
    },
    **{
        f"_upsample_{name}2d_aa.{o}": _upsample_smooth(2, rule, o == "vec")
        for name, rule in (
            ("bilinear", _antialias(1.0, _triangle)),
            ("bicubic", _antialias(2.0, _keys)),
        )
        for o in ("default", "vec")
    },
    "grid_sampler_2d.default": _grid_sample,
    "grid_sampler_3d.default": _grid_sample,
    "grid_sampler.default": _grid_sample,
    "pixel_shuffle.default": _pixel_shuffle,
    "pixel_unshuffle.default": _pixel_unshuffle,
}
