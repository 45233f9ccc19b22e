"""Converters of Fourier transforms and signal windows."""

from __future__ import annotations

import math

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.frontends.onnx.tensors import dtype_of


def _window(n: OnnxNode, parts: tuple[float, ...]) -> Expr:
    """Return a window: the sum over k of ``(-1)^k * parts[k] * cos(k * angle)``."""
    count = n.length(n[0])
    real = n.cast(n.arange(count), "float64")
    whole = n.cast(n.scalar(count), "float64")
    if not n.attr("periodic", 1):
        whole = whole - 1.0
    angle = real * (2 * math.pi) / whole
    total: Expr | None = None
    for k, part in enumerate(parts):
        term = n.full(part, [count], "float64") if not k else op("cos", angle * float(k)) * part
        total = term if total is None else total - term if k % 2 else total + term
    assert total is not None
    return n.cast(total, dtype_of(int(n.attr("output_datatype", 1))))


def waves(n: OnnxNode, rows: Dim, columns: Dim, size: Dim) -> tuple[Expr, Expr]:
    """Return the matrices of cosines and sines of ``2 pi i j / size``, ``[rows, columns]``.

    ``i j`` is reduced modulo ``size``, because large angles would lose accuracy.
    """
    i, j = n.expand(n.arange(rows), 1), n.arange(columns)
    turns = i * j % n.scalar(size)
    angle = n.cast(turns, "float64") * (2 * math.pi) / n.scalar(size, "float64")
    return n.cast(op("cos", angle), "float32"), n.cast(op("sin", angle), "float32")


def _dft_20(n: OnnxNode) -> Expr:
    if n.get(2) is None:
        return _dft(n, n[0], -2)
    known = n.known(n[2])
    if known is not None:
        return _dft(n, n[0], int(known.reshape(-1)[0]))
    return _dft_at(n, n.reshape(n.cast(n[2], "int64"), []))


def _dft_at(n: OnnxNode, axis: Expr) -> Expr:
    """Convert DFT along an axis that is unknown at compile time.

    The input is reshaped to (axes before, axis, axes after), so that the axis is always 1.
    """
    x, rank = n[0], n.rank(n[0]) - 1
    dims, place = n.slice(n.shape(x), 0, 0, rank), n.arange(rank)
    axis = n.where(axis < 0, axis + (rank + 1), axis)
    here = n.equal(place, axis)
    before = n.reduce("prod", n.where(place < axis, dims, 1), [0])
    after = n.reduce("prod", n.where(place > axis, dims, 1), [0])
    size = n.reduce("sum", n.where(here, dims, 0), [0])
    flat = n.reshape(x, [*n.lengths([before, size, after]), n.size(x, rank)])
    made = _dft(n, flat, 1)
    wide = n.where(here, n.scalar(n.size(made, 1)), dims)
    shape = n.lengths([n.item(wide, k) for k in range(rank)])
    return n.reshape(made, [*shape, n.size(made, 3)])


def _dft(n: OnnxNode, whole: Expr, axis: int) -> Expr:
    """Return the DFT as matmuls with cosines and sines.

    The inverse transform of a one-sided spectrum is real.
    """
    x, dtype, rank = n.cast(whole, "float32"), n.dtype(whole), n.rank(whole)
    axis = n.axis(axis, rank)
    inverse, half = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    have = n.size(x, axis)
    length = _length(n, have, inverse and half)
    pieces = _parts(n, x)
    order = [*(a for a in range(rank - 1) if a != axis), axis]
    pieces = [n.transpose(p, order) for p in pieces]
    if inverse and half:
        made = [_real_inverse(n, pieces, have, length)]
    else:
        out = length
        if half:
            out = n.dim("add", n.dim("floor_divide", length, 2), 1)
        made = _complex(n, pieces, (n.dim("minimum", have, length), out, length), inverse)
    back = [order.index(a) for a in range(rank - 1)]
    return n.cast(n.stack([n.transpose(p, back) for p in made], rank - 1), dtype)


def _parts(n: OnnxNode, x: Expr) -> list[Expr]:
    """Return the real part of a signal, and the imaginary part unless the last axis has length 1.

    If the length is unknown, a 0 is appended, so that the imaginary part of a real signal is 0.
    """
    rank, count = n.rank(x), n.literals(x)[-1]
    if count is None:
        x = n.pad(x, [*[(0, 0)] * (rank - 1), (0, 1)], 0)
    return [n.take(x, const(k, "int64"), rank - 1) for k in range(1 if count == 1 else 2)]


def _length(n: OnnxNode, have: Dim, half: bool) -> Dim:
    if n.get(1) is None:
        if not half:
            return have
        return n.dim("multiply", n.dim("subtract", have, 1), 2)
    return n.length(n[1])


def _product(n: OnnxNode, x: Expr, w: Expr) -> Expr:
    """Return the matmul of the last axis of ``x`` with the matrix ``w``."""
    lead = n.sizes(x)[:-1]
    flat = n.reshape(x, [n.product(lead), n.size(x, -1)])
    return n.reshape(n.matmul(flat, w), [*lead, n.size(w, 1)])


def _complex(
    n: OnnxNode, pieces: list[Expr], sizes: tuple[Dim, Dim, Dim], inverse: bool
) -> list[Expr]:
    """Return the real and imaginary part of a transform along the last axis.

    ``sizes`` are the number of input elements, the number of results, and the length of the DFT.
    """
    used, out, length = sizes
    pieces = [n.slice(p, n.rank(p) - 1, 0, used) for p in pieces]
    cos, sin = waves(n, used, out, length)
    a = pieces[0]
    real, imaginary = _product(n, a, cos), -_product(n, a, sin)
    if inverse:
        imaginary = -imaginary
    if len(pieces) > 1:
        b = pieces[1]
        cross, along = _product(n, b, sin), _product(n, b, cos)
        real = real - cross if inverse else real + cross
        imaginary = imaginary + along
    if inverse:
        real, imaginary = (p / n.scalar(length, "float32") for p in (real, imaginary))
    return [real, imaginary]


def _real_inverse(n: OnnxNode, pieces: list[Expr], have: Dim, length: Dim) -> Expr:
    """Return the inverse DFT of a one-sided spectrum; its other half is the conjugate mirror."""
    most = n.dim("add", n.dim("floor_divide", length, 2), 1)
    used = n.dim("minimum", have, most)
    pieces = [n.slice(p, n.rank(p) - 1, 0, used) for p in pieces]
    cos, sin = waves(n, used, length, length)
    place = n.arange(used)
    twice = place * 2
    alone = n.equal(place, 0) | n.equal(twice, n.scalar(length))
    weight = n.expand(n.where(alone, const(1.0, "float32"), 2.0), 1)
    total = _product(n, pieces[0], cos * weight)
    if len(pieces) > 1:
        total = total - _product(n, pieces[1], sin * weight)
    return total / n.scalar(length, "float32")


def _stft(n: OnnxNode) -> Expr:
    """Convert STFT: the DFT of overlapping frames of a signal, each multiplied by a window."""
    x, dtype = n[0], n.dtype(n[0])
    if n.rank(x) == 2:
        x = n.expand(x, 2)
    window, given = n.get(2), n.get(3)
    hop = n.length(n[1])
    if given is not None:
        size = n.length(given)
    elif window is not None:
        size = n.size(window, 0)
    else:
        raise Unsupported("expected the input window or frame_length, found neither")
    span = size if window is None else n.size(window, 0)
    rest = n.dim("subtract", n.size(x, 1), size)
    frames = n.dim("add", n.dim("floor_divide", rest, hop), 1)
    begin = n.arange(frames) * n.scalar(hop)
    places = n.expand(begin, 1) + n.arange(span)
    parts = []
    for part in _parts(n, n.cast(x, "float32")):
        read = n.take(part, places, 1)
        parts.append(read if window is None else read * n.cast(window, "float32"))
    out = size
    if n.attr("onesided", 1):  # only a real signal, size(x, 2) = 1, has a one-sided spectrum
        half = n.dim("add", n.dim("floor_divide", size, 2), 1)
        other = n.dim("subtract", size, half)
        out = n.dim("add", half, n.dim("multiply", other, n.dim("subtract", n.size(x, 2), 1)))
    made = _complex(n, parts, (span, out, size), False)
    return n.cast(n.stack(made, 3), dtype)


def _mel(n: OnnxNode) -> Expr:
    """Convert MelWeightMatrix: triangular filters over a spectrum's bins, evenly spaced in mels."""
    bands, whole_length = n.length(n[0]), n.length(n[1])
    rate, low, high = (n[k] for k in range(2, 5))
    rate, length = n.reshape(n.cast(rate, "int64"), []), n.scalar(whole_length)
    low, high = (n.reshape(n.cast(v, "float64"), []) for v in (low, high))
    bins = n.dim("add", n.dim("floor_divide", whole_length, 2), 1)
    least, most = (_mels(n, v) for v in (low, high))
    edge = n.dim("add", bands, 2)
    step = (most - least) / n.scalar(edge, "float64")
    edges = n.cast(n.arange(edge), "float64") * step + least
    hertz = (n.exp(edges * (math.log(10) / 2595.0)) - 1.0) * 700.0
    whole = n.cast(length + 1, "float64") * hertz / n.cast(rate, "float64")
    place = n.floor(whole)
    first, middle, last = (n.slice(place, 0, k, n.dim("add", bands, k)) for k in range(3))
    at = n.expand(n.cast(n.arange(bins), "float64"), 1)
    rise, fall = middle - first, last - middle
    up = (at - first) / n.maximum(rise, 1.0)
    down = (last - at) / n.maximum(fall, 1.0)
    flat = n.equal(rise, 0.0)
    on_rise = (at >= first) & (at <= middle)
    up = n.where(flat, n.cast(n.equal(at, middle), "float64"), n.where(on_rise, up, 0.0))
    on_fall = (at >= middle) & (at < last)
    made = n.where(on_fall, n.where(n.equal(fall, 0.0), up, down), up)
    return n.cast(made, dtype_of(int(n.attr("output_datatype", 1))))


def _mels(n: OnnxNode, hertz: Expr) -> Expr:
    return n.log(hertz / 700.0 + 1.0) * (2595.0 / math.log(10))


ROWS: tuple[Row, ...] = (
    Row("HannWindow", lambda n: _window(n, (0.5, 0.5)), since=17),
    Row("HammingWindow", lambda n: _window(n, (25 / 46, 1 - 25 / 46)), since=17),
    Row("BlackmanWindow", lambda n: _window(n, (0.42, 0.5, 0.08)), since=17),
    Row("DFT", lambda n: _dft(n, n[0], int(n.attr("axis", 1))), since=17),
    Row("DFT", _dft_20, since=20),
    Row("STFT", _stft, since=17),
    Row("MelWeightMatrix", _mel, since=17),
)
