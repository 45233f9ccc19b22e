"""Import rules: Fourier transforms, as one matmul with a matrix of sines and cosines."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.nn import matmul
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.sparse import stacked
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    iota,
    is_float,
    number,
)
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.typing import Size

F32, I64 = "float32", "int64"


def _with_waves(ctx: Emitter, x: Tensor, count: Size) -> tuple[Tensor, Tensor]:
    """Return ``x[m, n]`` times the cosines, and times the sines, ``[n, count]`` of ``2 pi i j /
    n``.

    ``i j`` is reduced modulo n in integers, before rounding to float.
    """
    size = x.dims[1]
    i, j = ctx.reshape(iota(ctx, size), [size, i64(1)]), iota(ctx, count)
    turns = i * j
    part = turns % number(ctx, size, I64)
    angle = cast(ctx, part, F32) / number(ctx, size, F32)
    angle = angle * (2.0 * math.pi)
    both = [ctx.apply(name, angle) for name in ("cos", "sin")]
    joined = R.concat([ctx.expr(w) for w in both], 1)
    waves = ctx.emit(joined, [size, count * 2], F32)
    found = matmul(ctx, x, waves, F32)
    cos = sliced(ctx, found, {1: (i64(0), count, 1)})
    return cos, sliced(ctx, found, {1: (count, count, 1)})


def _float32(ctx: Emitter, *args: Tensor) -> None:
    for x in args:
        if x.dtype != F32:
            raise Unsupported(ctx.where(f"expected float32, found {x.dtype}; cast it to float32"))


def _dft(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return the transform over the last axis; the inverse negates the angle and divides by the
    size.
    """
    real, imaginary = args
    _float32(ctx, real, imaginary)
    if real.rank != imaginary.rank or real.rank < 1:
        ranks = f"{real.rank} and {imaginary.rank}"
        raise TypeMismatch(
            ctx.where(f"expected operands of the same rank, at least 1, found ranks {ranks}")
        )
    for a, (d, e) in enumerate(zip(real.dims, imaginary.dims, strict=True)):
        ctx.require_eq(d, e, f"axis {a} of both parts must have the same size")
    size = real.dims[-1]
    rows = ctx.solver.simplify(product(real.dims[:-1]))
    parts = [ctx.expr(ctx.reshape(x, [rows, size])) for x in (real, imaginary)]
    joined = ctx.emit(R.concat(parts, 0), [rows * 2, size], F32)
    waves = _with_waves(ctx, joined, size)
    (a_cos, b_cos), (a_sin, b_sin) = (
        [sliced(ctx, w, {0: (rows * k, rows, 1)}) for k in range(2)] for w in waves
    )
    inverse = bool(attrs["inverse"])
    if inverse:
        found = [x / number(ctx, size, F32) for x in (a_cos - b_sin, b_cos + a_sin)]
    else:
        found = [a_cos + b_sin, b_cos - a_sin]
    return ctx.reshape(found[0], real.dims), ctx.reshape(found[1], real.dims)


def _stft(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the short-time transform, ``[batch, frequencies, frames, 2]``."""
    data, window = args
    if not is_float(window.dtype):  # Relay's default window of ones is int32
        window = cast(ctx, window, F32)
    _float32(ctx, data, window)
    if data.rank != 2:
        raise TypeMismatch(ctx.where(f"expected data of rank 2, found rank {data.rank}"))
    n_fft, hop, size = (int(attrs[n]) for n in ("n_fft", "hop_length", "win_length"))
    if min(n_fft, hop, size) < 1 or size > n_fft:
        raise TypeMismatch(
            ctx.where(
                f"n_fft {n_fft}, hop_length {hop}, win_length {size}: "
                "expected 1 <= win_length <= n_fft and hop_length >= 1"
            )
        )
    ctx.require_eq(window.dims[0], i64(size), "the window must have win_length elements")
    ctx.solver.require_le(
        i64(n_fft), data.dims[1], ctx.where("axis 1 must have at least n_fft elements")
    )
    frames = ctx.solver.simplify(tirx.floordiv(data.dims[1] - n_fft, i64(hop)) + 1)
    count = n_fft // 2 + 1 if attrs["onesided"] else n_fft
    begin = iota(ctx, frames) * hop
    places = ctx.reshape(begin, [frames, i64(1)]) + iota(ctx, i64(size))
    dims = [data.dims[0], frames, i64(size)]
    read = ctx.emit(R.take(ctx.expr(data), ctx.expr(places), 1, "clip"), dims, F32)
    shown = ctx.reshape(read * window, [product(dims[:2]), i64(size)])
    real, turned = _with_waves(ctx, shown, i64(count))
    wide = [*dims[:2], i64(count)]
    parts = [ctx.reshape(x, wide) for x in (real, -turned)]
    if attrs["normalized"]:
        parts = [x / math.sqrt(n_fft) for x in parts]
    moved = [
        ctx.emit(R.permute_dims(ctx.expr(x), [0, 2, 1]), [dims[0], i64(count), frames], F32)
        for x in parts
    ]
    return stacked(ctx, moved, 3)


LOWER: Mapping[str, Rule] = {
    "dft": _dft,
    "stft": _stft,
}
