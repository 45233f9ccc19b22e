"""Converters of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Dim, Expr, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.slices import padded
from tvm_disc.frontends.onnx.table import Row


@dataclass(frozen=True)
class Window:
    """Parameters of a window that slides over the spatial axes.

    Attributes:
        kernel: the size of the window along each spatial axis.
        before: the padding before each spatial axis; with ``auto_pad`` it may depend on dims.
        after: the padding after each spatial axis.
    """

    kernel: list[Dim]
    strides: list[int]
    dilations: list[int]
    before: list[Dim]
    after: list[Dim]

    @property
    def is_fixed(self) -> bool:
        """Return whether all padding widths are nonnegative constants."""
        return all(isinstance(p, int) and p >= 0 for p in (*self.before, *self.after))

    @property
    def padding(self) -> tuple[object, ...]:
        """Return the padding in Relay's order: before all axes, then after all axes."""
        return (*self.before, *self.after)


def window_of(n: OnnxNode, x: Expr, kernel: Sequence[Dim]) -> Window:
    """Return the window of a node with the given kernel size.

    Raises:
        Unsupported: auto_pad has an unknown value.
    """
    rank = len(kernel)
    strides, dilations = (n.ints(name, [1] * rank) for name in ("strides", "dilations"))
    how = str(n.attr("auto_pad", "NOTSET"))
    if how in ("SAME_UPPER", "SAME_LOWER"):
        pairs = [
            _same(n, n.size(x, 2 + k), reach(n, kernel[k], dilations[k]), strides[k], how)
            for k in range(rank)
        ]
        before, after = [p[0] for p in pairs], [p[1] for p in pairs]
    elif how in ("NOTSET", "VALID", ""):
        pads = [0] * 2 * rank if how == "VALID" else n.ints("pads", [0] * 2 * rank)
        before, after = [*pads[:rank]], [*pads[rank:]]
    else:
        raise Unsupported(
            f"auto_pad: expected NOTSET, VALID, SAME_UPPER or SAME_LOWER, found {how!r}"
        )
    return Window(list(kernel), strides, dilations, before, after)


def reach(n: Calc, kernel: Dim, dilation: int) -> Dim:
    """Return the number of elements that a dilated window spans."""
    return n.dim("add", n.dim("multiply", n.dim("subtract", kernel, 1), dilation), 1)


def _same(n: Calc, size: Dim, span: Dim, stride: int, how: str) -> tuple[Dim, Dim]:
    """Return the padding (before, after) of an axis for ceil(size / stride) windows."""
    if stride == 1:
        total = n.dim("subtract", span, 1)
    else:
        count = n.dim("floor_divide", n.dim("add", size, stride - 1), stride)
        covered = n.dim("add", n.dim("multiply", n.dim("subtract", count, 1), stride), span)
        total = n.dim("maximum", n.dim("subtract", covered, size), 0)
    return _halves(n, total, how)


def _halves(n: Calc, total: Dim, how: str) -> tuple[Dim, Dim]:
    """Return a width split in two; the end gets the odd element if ``how`` is SAME_UPPER."""
    half = n.dim("floor_divide", total, 2)
    rest = n.dim("subtract", total, half)
    return (half, rest) if how == "SAME_UPPER" else (rest, half)


def bordered(n: Calc, x: Expr, window: Window, fill: object) -> Expr:
    """Return ``x`` with the padding of a window, filled with ``fill``."""
    pads: list[Dim] = [0, 0, *window.before, 0, 0, *window.after]
    return padded(n, x, pads, fill, "constant")


def kernel_of(n: OnnxNode, weight: Expr) -> list[Dim]:
    """Return the size of the kernel, from the attribute kernel_shape or from the weights."""
    return [*n.ints("kernel_shape")] or n.sizes(weight)[2:]


def weights_of(n: OnnxNode, k: int) -> Expr:
    """Return the weights, input ``k``; their spatial dims are guarded to equal kernel_shape."""
    sizes = n.ints("kernel_shape")
    if not sizes:
        return n[k]
    made: Expr = n.fitted({"W": (n[k], [None, None, *sizes])})[0]
    return made


def spatial(n: Calc, x: Expr) -> int:
    """Return the number of spatial axes.

    Raises:
        Unsupported: the number is not 1, 2 or 3.
    """
    rank = n.rank(x) - 2
    if not 1 <= rank <= 3:
        raise Unsupported(f"expected an input of rank 3, 4 or 5, found rank {rank + 2}")
    return rank


def convolved(n: OnnxNode, x: Expr, w: Expr, name: str, *more: Expr, **attrs: object) -> Expr:
    """Return the convolution ``name`` of ``x`` and ``w``, with the attributes of a node.

    ``more`` are additional operands; ``{}`` in the name is replaced by the number of spatial axes.
    """
    rank = spatial(n, x)
    window = window_of(n, x, kernel_of(n, w))
    padding = window.padding
    if not window.is_fixed:
        x, padding = bordered(n, x, window, 0), (0,) * 2 * rank
    return op(
        name.format(rank),
        x,
        w,
        *more,
        strides=tuple(window.strides),
        padding=padding,
        dilation=tuple(window.dilations),
        groups=int(n.attr("group", 1)),
        **attrs,
    )


def _transposed(n: OnnxNode, x: Expr, w: Expr) -> Expr:
    """Return the transposed convolution of ``x`` and ``w``.

    If a padding width is negative or depends on dims, the unpadded result is computed and cropped.
    """
    rank, kernel = spatial(n, x), kernel_of(n, w)
    strides, dilations = (n.ints(name, [1] * rank) for name in ("strides", "dilations"))
    more = n.ints("output_padding", [0] * rank)
    spans = [reach(n, k, d) for k, d in zip(kernel, dilations, strict=True)]
    before, after = _cut_borders(n, x, strides, spans, more)
    if not all(isinstance(k, int) for k in kernel):
        return _spread(
            n, x, w, before, [n.dim("subtract", m, a) for m, a in zip(more, after, strict=True)]
        )
    fixed = all(isinstance(p, int) and p >= 0 for p in (*before, *after))
    padding = (*before, *after) if fixed else (0,) * 2 * rank
    made: Expr = op(
        f"nn.conv{rank}d_transpose",
        x,
        w,
        strides=tuple(strides),
        padding=padding,
        dilation=tuple(dilations),
        groups=int(n.attr("group", 1)),
        output_padding=tuple(more),
    )
    if fixed:
        return made
    widths = [n.dim("subtract", 0, p) for p in (*before, *after)]
    return _resized(n, made, widths[:rank], widths[rank:])


def _spread(n: OnnxNode, x: Expr, w: Expr, before: Sequence[Dim], more: Sequence[Dim]) -> Expr:
    """Return the transposed convolution for a kernel whose size is unknown at compile time.

    The input is dilated by the strides and convolved with the reversed kernel. ``before`` elements
    are cropped at the start of each spatial axis, and ``more`` are added at the end.
    """
    rank, groups = spatial(n, x), int(n.attr("group", 1))
    strides, dilations = (n.ints(name, [1] * rank) for name in ("strides", "dilations"))
    x = op("nn.dilate", x, strides=(1, 1, *strides))
    reaches = [
        n.dim("multiply", n.dim("subtract", k, 1), d)
        for k, d in zip(n.sizes(w)[2:], dilations, strict=True)
    ]
    low = [n.dim("subtract", r, b) for r, b in zip(reaches, before, strict=True)]
    high = [n.dim("add", r, m) for r, m in zip(reaches, more, strict=True)]
    for axis in range(2, 2 + rank):
        w = op("reverse", w, axis=axis)
    inputs, outputs, *kernel = n.sizes(w)
    part = n.dim("floor_divide", inputs, groups)
    apart = n.reshape(w, [groups, part, outputs, *kernel])
    swapped = n.transpose(apart, [0, 2, 1, *range(3, 3 + rank)])
    w = n.reshape(swapped, [n.dim("multiply", outputs, groups), part, *kernel])
    x = _resized(n, x, low, high)
    return op(f"nn.conv{rank}d", x, w, dilation=tuple(dilations), groups=groups)


def _cut_borders(
    n: OnnxNode, x: Expr, strides: Sequence[int], spans: Sequence[Dim], more: Sequence[int]
) -> tuple[list[Dim], list[Dim]]:
    """Return the widths that are cropped before and after each spatial axis."""
    rank = len(strides)
    how, wanted = str(n.attr("auto_pad", "NOTSET")), n.ints("output_shape")
    if not wanted and how in ("NOTSET", "VALID", ""):
        none = [0] * 2 * rank
        pads = none if how == "VALID" else n.ints("pads", none)
        return [*pads[:rank]], [*pads[rank:]]
    pairs = []
    for k in range(rank):
        size = n.size(x, 2 + k)
        full = n.dim("add", n.dim("multiply", n.dim("subtract", size, 1), strides[k]), spans[k])
        full = n.dim("add", full, more[k])
        want = wanted[-rank:][k] if wanted else n.dim("multiply", size, strides[k])
        total = n.dim("subtract", full, want)
        if not wanted:
            total = n.dim("add", n.dim("subtract", spans[k], strides[k]), more[k])
            total = n.dim("maximum", total, 0)
        pairs.append(_halves(n, total, how))
    return [before for before, _ in pairs], [after for _, after in pairs]


def _resized(n: Calc, x: Expr, before: Sequence[Dim], after: Sequence[Dim]) -> Expr:
    """Return ``x`` with its spatial axes padded by the widths, or cropped if one is negative.

    The signs may be unknown at compile time.
    """
    for k, (low, high) in enumerate(zip(before, after, strict=True)):
        axis = 2 + k
        first = n.dim("maximum", n.dim("subtract", 0, low), 0)
        end = n.dim("add", n.size(x, axis), n.dim("minimum", high, 0))
        x = n.slice(x, axis, first, end)
        wide: list[Any] = [(0, 0)] * n.rank(x)
        wide[axis] = (n.dim("maximum", low, 0), n.dim("maximum", high, 0))
        x = n.pad(x, wide, 0)
    return x


def integer_conv(n: OnnxNode, x: Expr, w: Expr, x_zero: Expr | None, w_zero: Expr | None) -> Expr:
    """Return the int32 convolution of two 8-bit tensors, each minus its zero point."""
    zero = n.cast(n.reshape(x_zero, []), "int32") if x_zero is not None else n.scalar(0, "int32")
    other = n.scalar(0, "int32")
    if w_zero is not None:
        flat = n.literals(w_zero) == [] or n.literals(w_zero) == [1]
        other = n.cast(n.reshape(w_zero, []) if flat else w_zero, "int32")
    if spatial(n, x) == 2 and n.known(zero) is not None and n.known(other) is not None:
        one = n.scalar(1, "float32")
        return convolved(n, x, w, "qnn.conv{}d", zero, other, one, one, out_dtype="int32")
    x = n.cast(x, "int32") - zero
    other = n.along(other, 0, n.rank(w)) if n.rank(other) else other
    w = n.cast(w, "int32") - other
    return convolved(n, x, w, "nn.conv{}d", out_dtype="int32")


ROWS: tuple[Row, ...] = (
    Row("Conv", lambda n: n.biased(convolved(n, n[0], weights_of(n, 1), "nn.conv{}d"), 2)),
    Row("ConvTranspose", lambda n: n.biased(_transposed(n, n[0], weights_of(n, 1)), 2)),
    Row("ConvInteger", lambda n: integer_conv(n, n[0], n[1], n.get(2), n.get(3))),
)

__all__ = [
    "ROWS",
    "Window",
    "bordered",
    "convolved",
    "integer_conv",
    "kernel_of",
    "reach",
    "spatial",
    "weights_of",
    "window_of",
]
