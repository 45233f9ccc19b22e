"""``relay.nn.*``: functions made from the operator table, and functions that select an operator or
have a different signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_disc.errors import refusing, shown
from tvm_disc.relay.builder import call, const
from tvm_disc.relay.expr import Call, ExprLike, TupleGetItem, TupleWrapper
from tvm_disc.relay_api import op

__path__: list[str] = []  # for imports of relay.op.nn.utils, which tvm_disc.paths resolves


def __getattr__(name: str) -> Any:
    return op.member("nn", name)


@refusing
def batch_norm(
    data: ExprLike,
    gamma: ExprLike,
    beta: ExprLike,
    moving_mean: ExprLike,
    moving_var: ExprLike,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """Return (normalized data, mean, variance)."""
    args = (data, gamma, beta, moving_mean, moving_var)
    out = call("nn.batch_norm", args, axis=axis, epsilon=epsilon, center=center, scale=scale)
    return TupleWrapper(out, 3)


@refusing
def dropout(data: ExprLike, rate: float = 0.5) -> TupleGetItem:
    """Return the data with dropout, which is the identity at inference."""
    return dropout_raw(data, rate)[0]


@refusing
def dropout_raw(data: ExprLike, rate: float = 0.5) -> TupleWrapper:
    """Return (data with dropout, mask)."""
    return TupleWrapper(call("nn.dropout", (data,), rate=rate), 2)


@refusing
def pad(data: ExprLike, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """Return ``nn.pad``, or ``dyn.nn.pad`` if the widths are an expression."""
    pad_width = op.known(pad_width)
    value = pad_value if op.is_expr(pad_value) else const(pad_value)
    if op.is_expr(pad_width):
        return call("dyn.nn.pad", (data, pad_width, value), pad_mode=pad_mode)
    return call("nn.pad", (data, value), pad_width=pad_width, pad_mode=pad_mode)


@refusing
def upsampling(
    data: ExprLike,
    scale_h: object = 1,
    scale_w: object = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Return ``nn.upsampling``, or its ``dyn`` form if a factor is an expression."""
    h, w = op.known(scale_h), op.known(scale_w)
    attrs = {"layout": layout, "method": method, "align_corners": align_corners}
    if op.is_expr(h) or op.is_expr(w):
        factors = [v if op.is_expr(v) else const(v, "float64") for v in (h, w)]
        return call("dyn.nn.upsampling", (data, *factors), **attrs)
    return call("nn.upsampling", (data,), scale_h=h, scale_w=w, **attrs)


@refusing
def upsampling3d(
    data: ExprLike,
    scale_d: object = 1,
    scale_h: object = 1,
    scale_w: object = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Return ``nn.upsampling3d``, or its ``dyn`` form if a factor is an expression."""
    scales = [op.known(s) for s in (scale_d, scale_h, scale_w)]
    mode = coordinate_transformation_mode
    attrs: dict[str, object] = {
        "layout": layout,
        "method": method,
        "coordinate_transformation_mode": mode,
    }
    if any(map(op.is_expr, scales)):
        factors = [v if op.is_expr(v) else const(v, "float64") for v in scales]
        return call("dyn.nn.upsampling3d", (data, *factors), **attrs)
    d, h, w = scales
    return call("nn.upsampling3d", (data,), scale_d=d, scale_h=h, scale_w=w, **attrs)


@refusing
def matmul(
    tensor_a: ExprLike,
    tensor_b: ExprLike,
    units: object = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Call:
    """Return ``nn.matmul``, or ``nn.dense`` if only the second operand is transposed."""
    if transpose_b and not transpose_a:
        return call("nn.dense", (tensor_a, tensor_b), units=units, out_dtype=out_dtype)
    sides = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return call("nn.matmul", (tensor_a, tensor_b), units=units, out_dtype=out_dtype, **sides)


@refusing
def sparse_dense(dense_mat: ExprLike, sparse_mat: object, sparse_lhs: bool = False) -> Call:
    """Return the matmul of a dense and a CSR matrix.

    The CSR matrix is a tuple (values, columns, row starts) or a SciPy matrix.
    """
    args = (dense_mat, *_compressed(sparse_mat))
    return call("nn.sparse_dense", args, sparse_lhs=sparse_lhs)


@refusing
def sparse_add(dense_mat: ExprLike, sparse_mat: object) -> Call:
    """Return the sum of a dense and a CSR matrix.

    The CSR matrix is a tuple (values, columns, row starts) or a SciPy matrix.
    """
    return call("nn.sparse_add", (dense_mat, *_compressed(sparse_mat)))


@refusing
def sparse_transpose(x: object) -> TupleWrapper:
    """Return (values, columns, row starts) of the transposed CSR matrix."""
    return TupleWrapper(call("nn.sparse_transpose", _compressed(x)), 3)


def _compressed(matrix: Any) -> tuple[ExprLike, ...]:
    parts = matrix
    if hasattr(matrix, "indptr"):
        parts = (matrix.data, matrix.indices, matrix.indptr)
    return tuple(p if op.is_expr(p) else const(p) for p in parts)


def _global_pool(kind: str, rank: int) -> Callable[..., Call]:
    dims = {1: "NCW", 3: "NCDHW"}[rank]

    @refusing
    def build(data: ExprLike, layout: str = dims, out_layout: str = "") -> Call:
        attrs: dict[str, object] = {"layout": layout, "out_layout": out_layout}
        name = f"nn.adaptive_{kind}_pool{rank}d"
        return call(name, (data,), output_size=(1,) * rank, **attrs)

    build.__name__ = build.__qualname__ = f"global_{kind}_pool{rank}d"
    build.__doc__ = f"Pooling of whole images: ``nn.adaptive_{kind}_pool{rank}d`` to size 1."
    return build


global_avg_pool1d = _global_pool("avg", 1)
global_avg_pool3d = _global_pool("avg", 3)
global_max_pool1d = _global_pool("max", 1)
global_max_pool3d = _global_pool("max", 3)


def _packed_conv(name: str) -> Callable[..., Call]:
    @refusing
    def build(
        data: ExprLike,
        kernel: ExprLike,
        strides: object = (1, 1),
        padding: object = (0, 0),
        dilation: object = (1, 1),
        groups: int = 1,
        channels: object = None,
        kernel_size: object = None,
        data_layout: str = "NCHW8c",
        kernel_layout: str = "OIHW",
        out_layout: str = "",
        out_dtype: str = "",
    ) -> Call:
        return call(
            f"nn.contrib_{name}_NCHWc",
            (data, kernel),
            strides=strides,
            padding=get_pad_tuple2d(padding),
            dilation=dilation,
            groups=groups,
            channels=channels,
            kernel_size=kernel_size,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_layout=out_layout,
            out_dtype=out_dtype,
        )

    build.__name__ = build.__qualname__ = f"contrib_{name}_nchwc"
    build.__doc__ = f"``nn.contrib_{name}_NCHWc``: channels in blocks."
    return build


contrib_conv2d_nchwc = _packed_conv("conv2d")
contrib_depthwise_conv2d_nchwc = _packed_conv("depthwise_conv2d")


def _pad_tuple(rank: int) -> Callable[[object], tuple[int, ...]]:
    @refusing
    def ends(padding: Any) -> tuple[int, ...]:
        many = (padding,) if isinstance(padding, int) else tuple(map(int, padding))
        both = many * (2 * rank) if len(many) == 1 else many * 2 if len(many) == rank else many
        if len(both) != 2 * rank:
            counts = "1 or 2" if rank == 1 else f"1, {rank} or {2 * rank}"
            message = f"padding: expected {counts} numbers, found {shown(padding)}"
            raise ValueError(message)
        return both

    ends.__name__ = ends.__qualname__ = f"get_pad_tuple{rank}d"
    ends.__doc__ = "The padding before every axis, then that behind, from one number or a list."
    return ends


get_pad_tuple1d = _pad_tuple(1)
get_pad_tuple2d = _pad_tuple(2)
get_pad_tuple3d = _pad_tuple(3)
