"""Import rules of operators that Relay's own passes create, computed as the operators that they
replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering import layout, nn, run_time, sparse, window
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    identity,
    is_float,
    reduction,
)
from tvm_disc.relay.importer.lowering.transform import axes_of, permute
from tvm_disc.relay.importer.tensor import Tensor

# Evaluation points of the Winograd transform's polynomials, keyed by the number of points.
_PLACES = {3: (0, -1, 1), 5: (0, -1, 1, 0.5, -2), 7: (0, -1, 1, 0.5, -0.5, 2, -2)}


def winograd_kernel(tile: int, taps: int) -> np.ndarray | None:
    """Return the matrix that maps a kernel of ``taps`` to ``tile + taps - 1`` products (Cook-Toom).

    Returns None for a size at which Relay uses other evaluation points.
    """
    places = _PLACES.get(tile + taps - 2)
    if places is None:
        return None
    rows = []
    for place in places:
        scale = float(np.prod([place - other for other in places if other != place]))
        rows.append([place**k / scale for k in range(taps)])
    rows[0] = [abs(v) for v in rows[0]]
    return np.array([*rows, [0.0] * (taps - 1) + [1.0]])


def _transform(ctx: Emitter, tile: int, taps: int, rank: int) -> np.ndarray:
    """Return :func:`winograd_kernel` over ``rank`` axes, as one matrix."""
    one = winograd_kernel(tile, taps)
    if one is None:
        raise Unsupported(
            ctx.where(
                f"expected a sum of tile_size and kernel size of 5, 7 or 9, found {tile} + {taps}"
            )
        )
    whole = np.ones((1, 1))
    for _ in range(rank):
        whole = np.kron(whole, one)
    return whole


def _require_floats(ctx: Emitter, x: Tensor, attrs: Attrs) -> None:
    """Refuse types other than floats: the transforms contain fractions."""
    for what, dtype in (("data", x.dtype), ("out_dtype", str(attrs.get("out_dtype") or x.dtype))):
        if not is_float(dtype):
            raise TypeMismatch(ctx.where(f"{what}: expected floats, found {dtype}"))


def _along(ctx: Emitter, x: Tensor, matrix: np.ndarray, last: list[int]) -> Tensor:
    """Return ``x`` with its last axes, merged into one, multiplied by a matrix."""
    lead = list(x.dims[: x.rank - len(last)])
    flat = ctx.reshape(x, [product(lead), i64(matrix.shape[1])])
    weights = ctx.constant(np.ascontiguousarray(matrix.T).astype(x.dtype))
    return ctx.reshape(nn.matmul(ctx, flat, weights, x.dtype), [*lead, *(i64(d) for d in last)])


def _winograd_weights(rank: int) -> Rule:
    """Return a rule that transforms ``[O, I, k...]`` to ``[a..., O, I]``.

    Of three spatial axes the first may stay untransformed.
    """

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        w, tile = args[0], int(attrs["tile_size"])
        _require_floats(ctx, w, attrs)
        if w.rank != rank + 2:
            raise TypeMismatch(
                ctx.where(f"expected a kernel of rank {rank + 2}, found rank {w.rank}")
            )
        sizes = [ctx.static(d, "the kernel's size") for d in w.dims[2:]]
        taps = sizes[-1]
        whole = rank == 2 or (2 < sizes[0] < 8 and sizes[0] == taps)
        if sizes[-2] != taps:
            raise TypeMismatch(ctx.where(f"expected a square kernel, found {sizes}"))
        own = rank if whole else 2
        wide = [tile + taps - 1] * own
        if not whole:  # the depth axis follows the transformed axes
            w = permute(ctx, w, [2, 0, 1, 3, 4])
        found = _along(ctx, w, _transform(ctx, tile, taps, own), wide)
        first = found.rank - own
        return permute(ctx, found, [*range(first, found.rank), *range(first)])

    return rule


def _winograd(rank: int) -> Rule:
    """Return a rule that convolves by the original kernel, recovered by least squares."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x, w = args
        _require_floats(ctx, x, attrs)
        if w.rank != rank + 2:
            text = f"expected weights of rank {rank + 2}, found rank {w.rank}"
            raise TypeMismatch(ctx.where(text))
        tile = int(attrs["tile_size"])
        sizes = [ctx.static(d, "the size of a transformed kernel") for d in w.dims[:rank]]
        taps = sizes[0] - tile + 1
        whole = rank == 2 or sizes[-1] == sizes[0]
        own = rank if whole else 2
        if taps < 1 or sizes[1] != sizes[0]:
            raise TypeMismatch(
                ctx.where(f"the transformed kernel {sizes} does not fit tile_size {tile}")
            )
        inverse = np.linalg.pinv(_transform(ctx, tile, taps, own))
        last = permute(ctx, w, [*range(own, w.rank), *range(own)])
        kernel = _along(ctx, last, inverse, [taps] * own)
        if not whole:
            kernel = permute(ctx, kernel, [1, 2, 0, 3, 4])
        names = window.SPATIAL[rank]
        plain = {**attrs, "kernel_layout": f"OI{names}"}
        result: Tensor = window.LOWER[f"nn.conv{rank}d"](ctx, [x, kernel], plain)
        return result

    return rule


def _unpacked(ctx: Emitter, x: Tensor, packed: str, plain: str) -> Tensor:
    """Return ``x`` in a layout without blocks."""
    moved = {"src_layout": packed, "dst_layout": plain}
    result: Tensor = layout.LOWER["layout_transform"](ctx, [x], moved)
    return result


def _blocked_conv(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a convolution whose operands and result have blocked channels."""
    x, w = args
    kernel = _unpacked(ctx, w, str(attrs["kernel_layout"]), "OIHW")
    plain = {**attrs, "kernel_layout": "OIHW"}
    result: Tensor = window.LOWER["nn.conv2d"](ctx, [x, kernel], plain)
    return result


def _blocked_dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w = args
    name = str(attrs["weight_layout"])
    axes = [a for a in axes_of(name) if a.isalpha()]
    if len(axes) != 2 or len(axes_of(name)) != w.rank:
        form = f"two axes, and one axis or block per dim of the weights of rank {w.rank}"
        text = f"weight_layout: expected {form}, found {name}"
        raise TypeMismatch(ctx.where(text))
    plain = _unpacked(ctx, w, name, "".join(axes)) if w.rank > 2 else w
    given = {"units": attrs["units"], "out_dtype": attrs["out_dtype"]}
    result: Tensor = nn.LOWER["nn.dense"](ctx, [x, plain], given)
    return result


# -- packed bits -------------------------------------------------------------------------------


def _bitpack(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return bit planes packed along an axis.

    Each bit of the elements is a plane along ``bit_axis``. One number of ``pack_type`` holds as
    many elements as it has bits; the first element is the highest bit.
    """
    x, bits, kind = args[0], int(attrs["bits"]), str(attrs["pack_type"])
    if is_float(x.dtype) or not kind.startswith("uint"):
        message = f"expected integers and an unsigned pack_type, found {x.dtype} and {kind!r}"
        raise TypeMismatch(ctx.where(message))
    axis, width = ctx.axis(int(attrs["pack_axis"]), x.rank), int(kind.removeprefix("uint"))
    dim = x.dims[axis]
    ctx.solver.require_divides(
        i64(width), dim, ctx.where(f"the packed axis must be a multiple of {width}")
    )
    count = ctx.solver.simplify(tirx.floordiv(dim, i64(width)))
    apart = ctx.reshape(
        cast(ctx, x, "int64"), [*x.dims[:axis], count, i64(width), *x.dims[axis + 1 :]]
    )
    tail = [1] * (x.rank - axis - 1)
    places = np.left_shift(np.int64(1), np.arange(width - 1, -1, -1, dtype="int64"))
    weights = ctx.constant(places.reshape(width, *tail))
    planes = []
    for bit in range(bits):
        moved = apart >> bit
        ones = ctx.apply("bitwise_and", moved, 1)
        scaled = ones * weights
        whole = {"axis": axis + 1, "keepdims": False, "exclude": False}
        planes.append(cast(ctx, reduction(R.sum)(ctx, [scaled], whole), kind))
    place = ctx.axis(int(attrs["bit_axis"]), x.rank + 1)
    dims = planes[0].dims
    rows = [ctx.reshape(p, [*dims[:place], i64(1), *dims[place:]]) for p in planes]
    if len(rows) == 1:
        return rows[0]
    total = [*dims[:place], i64(bits), *dims[place:]]
    return ctx.emit(R.concat([ctx.expr(r) for r in rows], place), total, kind)


def _signed(ctx: Emitter, w: Tensor, attrs: Attrs) -> Tensor:
    """Return narrow weights as int32; bits of unipolar weights mean +1 and -1."""
    whole = cast(ctx, w, "int32")
    if not attrs["unipolar"]:
        return whole
    most = (1 << int(attrs["weight_bits"])) - 1
    twice = whole * 2
    return twice - most


def _require_unpacked(ctx: Emitter, w: Tensor, rank: int) -> None:
    if w.rank != rank:
        message = f"expected unpacked weights of rank {rank}, found rank {w.rank}"
        raise Unsupported(ctx.where(message))


def _bitserial_dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w = args
    _require_unpacked(ctx, w, 2)
    given = {"units": None, "out_dtype": "int32"}
    found = nn.LOWER["nn.dense"](ctx, [cast(ctx, x, "int32"), _signed(ctx, w, attrs)], given)
    return cast(ctx, found, str(attrs["out_dtype"]) or x.dtype)


def _bitserial_conv2d(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w = args
    _require_unpacked(ctx, w, 4)
    plain: dict[str, Any] = {k: attrs[k] for k in ("strides", "padding", "channels", "kernel_size")}
    plain.update({k: attrs[k] for k in ("data_layout", "kernel_layout")})
    plain.update(dilation=(1, 1), groups=1, out_layout="", out_dtype="int32")
    operands = [cast(ctx, x, "int32"), _signed(ctx, w, attrs)]
    found = window.LOWER["nn.conv2d"](ctx, operands, plain)
    return cast(ctx, found, str(attrs["out_dtype"]) or x.dtype)


# -- sparse weights ----------------------------------------------------------------------------


def _sparse_conv2d(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a 1 x 1 convolution as a matmul over the channels."""
    x, *compressed = args
    if tuple(attrs["kernel_size"]) != (1, 1):
        size = tuple(attrs["kernel_size"])
        raise Unsupported(
            ctx.where(f"expected a sparse 1 x 1 kernel, found {size}; pass the dense kernel")
        )
    name = str(attrs["layout"])
    if x.rank != 4 or name not in ("NHWC", "NCHW"):
        found = f"{name} and rank {x.rank}"
        raise Unsupported(ctx.where(f"expected data in NHWC or NCHW, of rank 4, found {found}"))
    last = permute(ctx, x, [name.index(c) for c in "NHWC"])
    pixels = ctx.reshape(last, [product(last.dims[:3]), last.dims[3]])
    found = sparse.LOWER["nn.sparse_dense"](ctx, [pixels, *compressed], {"sparse_lhs": False})
    result = ctx.reshape(found, [*last.dims[:3], found.dims[1]])
    return permute(ctx, result, ["NHWC".index(c) for c in name])


def _reshape_tensor(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    result: Tensor = run_time.LOWER["dyn.reshape"](ctx, args, {"allowzero": True})
    return result


LOWER: Mapping[str, Rule] = {
    "annotation.bitpack_end": identity,
    "annotation.bitpack_start": identity,
    "annotation.compiler_begin": identity,
    "annotation.compiler_end": identity,
    "nn.bitpack": _bitpack,
    "nn.bitserial_conv2d": _bitserial_conv2d,
    "nn.bitserial_dense": _bitserial_dense,
    "nn.contrib_conv2d_NCHWc": _blocked_conv,
    "nn.contrib_conv2d_winograd_weight_transform": _winograd_weights(2),
    "nn.contrib_conv2d_winograd_without_weight_transform": _winograd(2),
    "nn.contrib_conv3d_winograd_weight_transform": _winograd_weights(3),
    "nn.contrib_conv3d_winograd_without_weight_transform": _winograd(3),
    "nn.contrib_dense_pack": _blocked_dense,
    "nn.contrib_depthwise_conv2d_NCHWc": _blocked_conv,
    "nn.internal.sparse_dense_padded": sparse.LOWER["nn.sparse_dense"],
    "nn.sparse_conv2d": _sparse_conv2d,
    "vm.reshape_tensor": _reshape_tensor,
}
