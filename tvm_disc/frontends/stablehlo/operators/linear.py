"""Converters of contractions and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.stablehlo.attributes import numbers, padding_pairs
from tvm_disc.frontends.stablehlo.node import StableHLONode, short_name
from tvm_disc.frontends.stablehlo.operators.shape import padded
from tvm_disc.frontends.stablehlo.table import OperationRow


def _dot_general(n: StableHLONode) -> Expr:
    """Convert a contraction to one batched matmul."""
    from jaxlib.mlir.dialects import stablehlo

    found = stablehlo.DotDimensionNumbers(n.op.attributes["dot_dimension_numbers"])
    batch = [*found.lhs_batching_dimensions], [*found.rhs_batching_dimensions]
    contracted = [*found.lhs_contracting_dimensions], [*found.rhs_contracting_dimensions]
    made = contraction(n, n[0], n[1], batch, contracted)
    return n.cast(made, n.out_dtype())


def contraction(
    n: StableHLONode,
    a: Expr,
    b: Expr,
    batch: tuple[Sequence[int], Sequence[int]],
    contracted: tuple[Sequence[int], Sequence[int]],
) -> Expr:
    """Return the sum of products over the contracted axes, as one batched matmul.

    The result has the batch axes, then the other axes of ``a``, then those of ``b``. ``batch`` and
    ``contracted`` are the axes of ``a``, and those of ``b``. The matmul has no axes of length 1.
    """
    out = n.out_dtype()
    if n.dtype(a) == "bool":
        a, b = n.cast(a, out), n.cast(b, out)
    left, right = (
        [axis for axis in range(n.rank(x)) if axis not in (*batch[k], *contracted[k])]
        for k, x in enumerate((a, b))
    )
    want = [n.size(a, k) for k in (*batch[0], *left)] + [n.size(b, k) for k in right]
    columns_first = _is_swapped(n, len(batch[0]), len(left))
    left, right = (
        [k for k in axes if n.literals(x)[k] != 1] for x, axes in ((a, left), (b, right))
    )
    dims = [n.size(a, k) for k in batch[0]]
    rows, columns = [n.size(a, k) for k in left], [n.size(b, k) for k in right]
    inner = [n.size(a, k) for k in contracted[0]]
    sums = "" if n.dtype(a) == out else out  # the dtype of the sums, if it is not the operands'
    if not batch[0] and len(right) == 1 and len(inner) == 1 and len(left) > 1:
        # Without batch axes, the leading axes of the left operand need not be merged.
        x = _reduced(n, a, [*left, *contracted[0]])
        made = n.matmul(x, _reduced(n, b, [*contracted[1], *right]), sums)
    elif columns_first:
        x = _merged(n, _reduced(n, a, [*batch[0], *contracted[0], *left]), dims, [inner, rows])
        y = _merged(n, _reduced(n, b, [*batch[1], *right, *contracted[1]]), dims, [columns, inner])
        made = n.swapped(n.matmul(y, x, sums))
    else:
        x = _merged(n, _reduced(n, a, [*batch[0], *left, *contracted[0]]), dims, [rows, inner])
        y = _merged(n, _reduced(n, b, [*batch[1], *contracted[1], *right]), dims, [inner, columns])
        made = n.matmul(x, y, sums)
    return made if n.rank(made) == len(want) else n.reshape(made, want)


def _reduced(n: StableHLONode, x: Expr, axes: Sequence[int]) -> Expr:
    """Return ``x`` with its axes in the order ``axes``; axes not in ``axes`` have length 1."""
    rest = [k for k in range(n.rank(x)) if k not in axes]
    if rest:
        dims = [n.size(x, k) for k in range(n.rank(x)) if k not in rest]
        x = n.reshape(x, dims)
        kept = [k for k in range(len(rest) + len(dims)) if k not in rest]
        axes = [kept.index(k) for k in axes]
    return n.transpose(x, axes)


def _is_swapped(n: StableHLONode, batch: int, left: int) -> bool:
    """Return whether the only reader of the result transposes all right axes before the left axes.

    Then the matmul with exchanged operands computes the transposed result directly.
    """
    readers = [getattr(use.owner, "operation", use.owner) for use in n.op.results[0].uses]
    if [short_name(reader) for reader in readers] != ["transpose"]:
        return False
    order = [int(k) for k in numbers(readers[0].attributes["permutation"])]
    wide = [k for k, d in enumerate(n.out_dims()) if d != 1]
    rows = [order.index(k) for k in wide if batch <= k < batch + left]
    columns = [order.index(k) for k in wide if k >= batch + left]
    return bool(rows and columns) and max(columns) < min(rows)


def _merged(
    n: StableHLONode, x: Expr, batch: Sequence[Dim], groups: Sequence[Sequence[Dim]]
) -> Expr:
    """Return ``x`` with each group of axes, after the batch axes, merged to one axis."""
    if all(len(g) == 1 for g in groups):
        return x
    return n.reshape(x, [*batch, *(n.product(g) for g in groups)])


def _dot(n: StableHLONode) -> Expr:
    a, b = n.rank(n[0]), n.rank(n[1])
    return contraction(n, n[0], n[1], ([], []), ([a - 1], [max(b - 2, 0)]))


# -- convolutions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConvolutionAxes:
    """The order of the axes in the operands and the result of a convolution.

    Each tuple has the batch axis, the feature axis and the spatial axes; for the kernel, the axes
    of output features, of input features and the spatial axes.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    result: tuple[int, ...]


def _layout(n: StableHLONode) -> ConvolutionAxes:
    from jaxlib.mlir.dialects import stablehlo

    d = stablehlo.ConvDimensionNumbers(n.op.attributes["dimension_numbers"])
    return ConvolutionAxes(
        (d.input_batch_dimension, d.input_feature_dimension, *d.input_spatial_dimensions),
        (
            d.kernel_output_feature_dimension,
            d.kernel_input_feature_dimension,
            *d.kernel_spatial_dimensions,
        ),
        (d.output_batch_dimension, d.output_feature_dimension, *d.output_spatial_dimensions),
    )


def _convolved(n: StableHLONode, padding: Sequence[Dim]) -> Expr:
    layout, spatial, pads = _layout(n), n.rank(n[0]) - 2, padding_pairs(padding)
    if not 1 <= spatial <= 3:
        raise Unsupported(f"expected 1, 2 or 3 spatial axes, found {spatial}")
    if n.attr("batch_group_count", 1) != 1:
        return _batch_grouped(n, layout, pads)
    groups = int(n.attr("feature_group_count", 1))
    found = _by_taps(n, layout, pads) if groups == 1 else None
    if found is not None:
        return found
    x, w = n.transpose(n[0], layout.image), n.transpose(n[1], layout.kernel)
    made = _plain(n, x, w, pads, groups)
    return n.transpose(made, _inverse(layout.result))


def _plain(
    n: StableHLONode, x: Expr, w: Expr, pads: Sequence[tuple[Dim, Dim]], groups: int
) -> Expr:
    """Return the convolution of operands whose channels precede the spatial axes."""
    spatial = n.rank(x) - 2
    ones = [1] * spatial
    strides, left = n.ints("window_strides", ones), n.ints("lhs_dilation", ones)
    right = n.ints("rhs_dilation", ones)
    for axis, reverse in enumerate(n.ints("window_reversal", [0] * spatial)):
        if reverse:
            w = op("reverse", w, axis=2 + axis)
    flat = [p for pair in pads for p in pair]
    fixed = all(isinstance(p, int) and p >= 0 for p in flat) and left == ones
    if not fixed:
        low, high = [0, 0, *(a for a, _ in pads)], [0, 0, *(b for _, b in pads)]
        gaps = [0, 0, *(k - 1 for k in left)]
        x, pads = padded(n, x, n.like(0, x), low, high, gaps), [(0, 0)] * spatial
    attrs: dict[str, object] = {
        "strides": tuple(strides),
        "padding": (*(a for a, _ in pads), *(b for _, b in pads)),
        "dilation": tuple(right),
        "groups": groups,
    }
    dtype = n.dtype(x)
    if not dtype.startswith(("float", "bfloat")):
        attrs["out_dtype"] = n.out_dtype()
    made = op(f"nn.conv{spatial}d", x, w, **attrs)
    return n.cast(made, n.out_dtype())


MOST_TAPS = 64  # maximum number of spatial positions of a result that is computed by matmuls
FEW_ROWS = 16  # if a matmul has fewer rows, those of all positions are joined to one matmul


def _by_taps(
    n: StableHLONode, layout: ConvolutionAxes, pads: Sequence[tuple[Dim, Dim]]
) -> Expr | None:
    """Return a convolution whose window has dynamic size, as one matmul per result position.

    JAX computes the gradient of a filter in this way: the window is the gradient of an image, and
    the result has few positions, those of the filter. Each matmul sums over all elements of the
    window. Returns None for other convolutions.
    """
    spatial = n.rank(n[0]) - 2
    ones = [1] * spatial
    places = [n.out_dims()[k] for k in layout.result[2:]]
    window = [n.literals(n[1])[k] for k in layout.kernel[2:]]
    taps = list(np.ndindex(*(p or 0 for p in places)))
    reverses = any(n.ints("window_reversal", [0] * spatial))
    if None not in window or reverses or not 1 <= len(taps) <= MOST_TAPS:
        return None
    x = n.transpose(n[0], [layout.image[1], *layout.image[2:], layout.image[0]])
    w = n.transpose(n[1], [layout.kernel[1], *layout.kernel[2:], layout.kernel[0]])
    left = n.ints("lhs_dilation", ones)
    # Slices end at a multiple of the dilation: then their sizes are proved to be the window's.
    rest = [d - 1 for d in n.ints("rhs_dilation", ones)]
    low = [0, *(a for a, _ in pads), 0]
    high = [0, *(n.dim("add", b, d) for (_, b), d in zip(pads, rest, strict=True)), 0]
    x = padded(n, x, n.like(0, x), low, high, [0, *(k - 1 for k in left), 0])
    parts = [_window_at(n, x, w, tap) for tap in taps]
    columns = n.product(n.sizes(w)[:-1])
    for part in parts:
        if not all(map(n.equal_dims, n.sizes(part)[:-1], n.sizes(w)[:-1])):
            return None  # the sizes cannot be proved equal
    b = n.reshape(w, [columns, n.size(w, spatial + 1)])
    rows = n.size(x, spatial + 1)
    if isinstance(rows, int) and rows < FEW_ROWS:
        parts = [n.concat(parts, spatial + 1)]
    flat = [n.reshape(p, [columns, n.size(p, spatial + 1)]) for p in parts]
    made = n.concat([n.matmul(n.swapped(p), b) for p in flat], 0)
    shape: list[Dim] = [*(p or 0 for p in places), rows, n.size(w, spatial + 1)]
    order = [spatial, spatial + 1, *range(spatial)]
    return n.cast(
        n.transpose(n.transpose(n.reshape(made, shape), order), _inverse(layout.result)),
        n.out_dtype(),
    )


def _window_at(n: StableHLONode, x: Expr, w: Expr, tap: Sequence[int]) -> Expr:
    """Return the elements of ``x`` that window ``w`` covers at position ``tap`` of the result."""
    ones = [1] * len(tap)
    steps = zip(n.ints("window_strides", ones), n.ints("rhs_dilation", ones), strict=True)
    for k, (stride, dilation) in enumerate(steps):
        begin = tap[k] * stride
        size = n.dim("multiply", n.size(w, 1 + k), dilation)
        x = n.slice(x, 1 + k, begin, n.dim("add", size, begin), dilation)
    return x


def _batch_grouped(
    n: StableHLONode, layout: ConvolutionAxes, pads: Sequence[tuple[Dim, Dim]]
) -> Expr:
    """Convert a convolution whose batch is split into groups; each group has separate kernels.

    The results of the groups are concatenated along the feature axis. JAX uses this form for the
    gradient of a grouped convolution's weights.
    """
    count = int(n.attr("batch_group_count"))
    x, w = n.transpose(n[0], layout.image), n.transpose(n[1], layout.kernel)
    batch, features = n.size(x, 0), n.size(w, 0)
    part = n.dim("floor_divide", batch, count)
    own = n.dim("floor_divide", features, count)
    pieces = []
    for g in range(count):
        rows = n.slice(x, 0, n.dim("multiply", part, g), n.dim("multiply", part, g + 1))
        kernel = n.slice(w, 0, n.dim("multiply", own, g), n.dim("multiply", own, g + 1))
        pieces.append(_plain(n, rows, kernel, pads, 1))
    return n.transpose(n.concat(pieces, 1), _inverse(layout.result))


def _no_padding(n: StableHLONode) -> list[int]:
    return [0] * 2 * (n.rank(n[0]) - 2)


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(k) for k in range(len(order))]


ROWS: tuple[OperationRow, ...] = (
    OperationRow("dot_general", _dot_general),
    OperationRow("dot", _dot),
    OperationRow("convolution", lambda n: _convolved(n, n.ints("padding", _no_padding(n)))),
    OperationRow("dynamic_conv", lambda n: _convolved(n, n.entries(2, "the padding"))),
)
