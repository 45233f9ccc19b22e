"""Import rules: transposed convolution, by the phases of its result.

The result of a transposed convolution of stride ``s`` consists of ``s`` interleaved sequences along
each axis (its phases). Each phase is an ordinary convolution of the input by every ``s``-th tap of
the kernel (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016,
section 2). One convolution computes all phases as separate channels, which are then interleaved::

  before  conv2d_transpose(x, w)                  # x f32[n, i, h, w], w f32[i, o, 4, 4], stride 2
  after   y = conv2d(x, phases(w))                # f32[n, o * 2 * 2, h + 1, w + 1], taps 2 x 2
          crop(weave(y))                          # f32[n, o, 2 * h + 2, 2 * w + 2]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule
from tvm_disc.relay.importer.lowering.transform import channels_first, flip, permute
from tvm_disc.relay.importer.lowering.window import (
    SPATIAL,
    convolve,
    dilate,
    kernel_first,
    padded,
    padded_by,
    padding,
    per_axis,
    steps,
)
from tvm_disc.relay.importer.tensor import Tensor


@dataclass(frozen=True)
class PhaseAxis:
    """One spatial axis of a transposed convolution, computed by phases.

    Element ``origin + stride * q + r`` of the full result is phase ``r`` at ``q``; it sums input
    elements ``q + shift - taps + 1 ... q + shift``.

    Attributes:
        taps: taps of each phase; taps that a phase does not have are zero.
        before, after: padding of the convolution.
        skipped: elements of the interleaved result before the first element of the output.
        length: size of the output minus ``stride`` times the size of the input.
    """

    kernel: int
    stride: int
    origin: int
    shift: int
    taps: int
    before: int
    after: int
    skipped: int
    length: int

    @staticmethod
    def of(kernel: int, stride: int, pads: tuple[int, int], more: int) -> PhaseAxis:
        """Return the phases of an axis that is cropped by ``pads`` and extended by ``more``
        elements.

        The interleaved result starts where the output starts, if that needs no additional tap.
        """
        taps = -(-kernel // stride)
        origin = pads[0] % stride
        if -(-(kernel - origin) // stride) >= taps:
            origin = 0
        shift = int(origin > 0)
        before = max(taps - 1 - shift - (pads[0] - origin) // stride, 0)
        first = taps - 1 - shift - before
        beyond = (kernel - pads[1] + more - 1 - origin) // stride
        return PhaseAxis(
            kernel=kernel,
            stride=stride,
            origin=origin,
            shift=shift,
            taps=taps,
            before=before,
            after=max(beyond + shift, 0),
            skipped=pads[0] - origin - stride * first,
            length=kernel - stride - sum(pads) + more,
        )

    @property
    def margins(self) -> tuple[int, int]:
        """Return the zeros before and after the kernel that extend it to ``taps * stride``."""
        lead = self.stride * self.shift - self.origin
        return lead, self.taps * self.stride - self.kernel - lead


def _conv_transpose(build: Callable[..., object], rank: int) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        wanted, out = f"NC{SPATIAL[rank]}", attrs["out_layout"]
        x, restore = channels_first(ctx, args[0], attrs["data_layout"], wanted, out)
        w = kernel_first(ctx, args[1], attrs["kernel_layout"], f"IO{SPATIAL[rank]}")
        ctx.require_eq(
            x.dims[1], w.dims[0], "the input channels must equal those that the kernel reads"
        )
        strides, dilation = (steps(ctx, attrs, n, rank) for n in ("strides", "dilation"))
        if None in map(ctx.literal, w.dims[2:]):
            return restore(_whole(ctx, build, x, w, attrs))
        if any(s > 1 and d > 1 for s, d in zip(strides, dilation, strict=True)):
            return restore(_spread(ctx, build, x, w, attrs))
        return restore(_by_phases(ctx, build, x, w, attrs))

    return rule


def _by_phases(
    ctx: Emitter, build: Callable[..., object], x: Tensor, w: Tensor, attrs: Attrs
) -> Tensor:
    """Return the convolution by phases; no axis may have both a stride and a dilation."""
    rank, groups = x.rank - 2, int(attrs["groups"])
    strides, dilation = (steps(ctx, attrs, n, rank) for n in ("strides", "dilation"))
    pads, more = padding(ctx, attrs["padding"], rank), per_axis(attrs["output_padding"], rank)
    sizes = [ctx.static(d, "the kernel's size") for d in w.dims[2:]]
    reach = [dilation[d] * (sizes[d] - 1) + 1 for d in range(rank)]
    axes = [
        PhaseAxis.of(reach[d], strides[d], (pads[d], pads[d + rank]), more[d]) for d in range(rank)
    ]
    lengths = [x.dims[2 + d] * strides[d] + axes[d].length for d in range(rank)]
    for length in lengths:
        ctx.solver.require_le(
            i64(0), length, ctx.where("the padding must not be larger than the result")
        )
    window = ([1] * rank, [*(a.before for a in axes), *(a.after for a in axes)], dilation)
    phases = _grouped(ctx, _phases(ctx, w, axes), groups)
    y = convolve(ctx, build, x, phases, {**attrs, "groups": groups, "channels": None}, window)
    woven = _weave(ctx, y, [a.stride for a in axes], groups)
    return sliced(ctx, woven, {2 + d: (i64(axes[d].skipped), lengths[d], 1) for d in range(rank)})


def _phases(ctx: Emitter, w: Tensor, axes: list[PhaseAxis]) -> Tensor:
    """Return ``(i, o, k...)`` as ``(i, s... * o, taps...)``: the flipped taps of every phase."""
    rank = len(axes)
    plain = [a.stride == 1 for a in axes]
    margins = [(0, 0) if p else a.margins for p, a in zip(plain, axes, strict=True)]
    wide = padded(ctx, w, [(0, 0), (0, 0), *margins], ctx.scalar(0, w.dtype))
    taps = [wide.dims[2 + d] if plain[d] else i64(axes[d].taps) for d in range(rank)]
    strides = [i64(a.stride) for a in axes]
    split = [dim for pair in zip(taps, strides, strict=True) for dim in pair]
    apart = ctx.reshape(wide, [*w.dims[:2], *split])
    for d in range(rank):
        apart = flip(ctx, apart, 2 + 2 * d)
    order = [0, *range(3, 3 + 2 * rank, 2), 1, *range(2, 2 + 2 * rank, 2)]
    outs = w.dims[1]
    for s in strides:
        outs = outs * s
    return ctx.reshape(permute(ctx, apart, order), [w.dims[0], outs, *taps])


def _weave(ctx: Emitter, y: Tensor, strides: list[int], groups: int) -> Tensor:
    """Interleave ``(n, g * s... * o, q...)`` to ``(n, g * o, (q * s)...)``."""
    rank, places = len(strides), y.dims[2:]
    if all(s == 1 for s in strides):
        return y
    outs = ctx.solver.simplify(tirx.floordiv(y.dims[1], i64(groups * math.prod(strides))))
    lead = [y.dims[0], i64(groups)] if groups > 1 else [y.dims[0]]
    apart = ctx.reshape(y, [*lead, *map(i64, strides), outs, *places])
    first = len(lead)
    order = [*range(first), first + rank]
    for d in range(rank):
        order += [first + rank + 1 + d, first + d]
    lengths = [places[d] * strides[d] for d in range(rank)]
    return ctx.reshape(permute(ctx, apart, order), [y.dims[0], outs * groups, *lengths])


def _spread(
    ctx: Emitter, build: Callable[..., object], x: Tensor, w: Tensor, attrs: Attrs
) -> Tensor:
    """Return the adjoint of a convolution: a convolution by the flipped kernel, of the input
    with zeros between its elements.
    """
    rank, groups = x.rank - 2, int(attrs["groups"])
    strides, dilation = (steps(ctx, attrs, n, rank) for n in ("strides", "dilation"))
    pads, more = padding(ctx, attrs["padding"], rank), per_axis(attrs["output_padding"], rank)
    taps = [ctx.static(d, "the kernel's size") for d in w.dims[2:]]
    reach = [dilation[d] * (taps[d] - 1) for d in range(rank)]
    before = [reach[d] - pads[d] for d in range(rank)]
    after = [reach[d] - pads[d + rank] + more[d] for d in range(rank)]
    spread = dilate(ctx, x, [1, 1, *strides], ctx.scalar(0, x.dtype))
    for a in range(rank):
        w = flip(ctx, w, 2 + a)
    plain = {**attrs, "groups": groups}
    window = ([1] * rank, [*before, *after], dilation)
    return convolve(ctx, build, spread, _grouped(ctx, w, groups), plain, window)


def _whole(
    ctx: Emitter, build: Callable[..., object], x: Tensor, w: Tensor, attrs: Attrs
) -> Tensor:
    """Return :func:`_spread` for a kernel of symbolic size: the padding is sliced off the full
    result.
    """
    rank, groups = x.rank - 2, int(attrs["groups"])
    strides, dilation = (steps(ctx, attrs, n, rank) for n in ("strides", "dilation"))
    pads, more = padding(ctx, attrs["padding"], rank), per_axis(attrs["output_padding"], rank)
    zero = ctx.scalar(0, x.dtype)
    reach = [(w.dims[2 + d] - 1) * dilation[d] for d in range(rank)]
    borders = [(i64(0), i64(0))] * 2 + [(r, r + e) for r, e in zip(reach, more, strict=True)]
    wide = padded_by(ctx, dilate(ctx, x, [1, 1, *strides], zero), borders, zero)
    lengths = []
    for d in range(rank):
        taken = strides[d] - 1 - more[d] + pads[d] + pads[d + rank]
        lengths.append(ctx.solver.simplify(x.dims[2 + d] * strides[d] + reach[d] - taken))
        ctx.solver.require_le(
            i64(0), lengths[d], ctx.where("the padding must not be larger than the result")
        )
    for a in range(rank):
        w = flip(ctx, w, 2 + a)
    window = ([1] * rank, [0] * (2 * rank), dilation)
    plain = {**attrs, "groups": groups, "channels": None}
    found = convolve(ctx, build, wide, _grouped(ctx, w, groups), plain, window)
    return sliced(ctx, found, {2 + d: (i64(pads[d]), lengths[d], 1) for d in range(rank)})


def _grouped(ctx: Emitter, w: Tensor, groups: int) -> Tensor:
    """Return ``(I, O / groups, ...)`` as ``(O, I / groups, ...)``."""
    if groups == 1:
        return permute(ctx, w, [1, 0, *range(2, w.rank)])
    ctx.solver.require_divides(
        i64(groups), w.dims[0], ctx.where("groups must divide the number of input channels")
    )
    size = ctx.solver.simplify(tirx.floordiv(w.dims[0], i64(groups)))
    split = ctx.reshape(w, [i64(groups), size, *w.dims[1:]])
    moved = permute(ctx, split, [0, 2, 1, *range(3, split.rank)])
    return ctx.reshape(moved, [w.dims[1] * groups, size, *w.dims[2:]])


LOWER: Mapping[str, Rule] = {
    "nn.conv1d_transpose": _conv_transpose(R.nn.conv1d, 1),
    "nn.conv2d_transpose": _conv_transpose(R.nn.conv2d, 2),
    "nn.conv3d_transpose": _conv_transpose(R.nn.conv3d, 3),
}
