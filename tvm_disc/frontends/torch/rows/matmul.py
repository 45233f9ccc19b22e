"""Converters of matmuls and attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import joined_dims
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.reduce import norm
from tvm_disc.frontends.torch.values import Dim, Value
from tvm_disc.relay.expr import Constant


def product(m: Maker, a: Value, b: Value, transpose_b: bool = False) -> Value:
    """Return the matmul of operands of rank 2 or more; leading axes are broadcast batch axes."""
    if a.dtype == "bool":
        raise Unsupported(
            "expected numbers as operands of a matrix product, found bool; cast them first"
        )
    columns = b.dims[-2] if transpose_b else b.dims[-1]
    batch = joined_dims([a.dims[:-2], b.dims[:-2]])
    name = "nn.matmul" if a.rank == b.rank == 2 else "nn.batch_matmul"
    attrs = {"units": None} if name == "nn.matmul" else {}
    made = m.call(name, a, b, transpose_a=False, transpose_b=transpose_b, **attrs)
    return Value(made, a.dtype, (*batch, a.dims[-2], columns))


def matmul(m: Maker, a: Value, b: Value) -> Value:
    """Return ``a @ b``; a vector is a row if it is ``a``, a column if it is ``b``."""
    row, column = a.rank == 1, b.rank == 1
    if a.rank > 2 and b.rank == 2:
        # The matrix b is shared, so that this is one matmul for the whole batch.
        return product(m, a, b)
    a = m.expand(a, 0) if row else a
    b = m.expand(b, 1) if column else b
    return m.squeeze(product(m, a, b), [-2] * row + [-1] * column)


def linear(m: Maker, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Return ``x @ weight.T + bias``."""
    if weight.rank == 1:
        made = matmul(m, x, weight)
        return made if bias is None else made + bias
    row = x.rank == 1
    x = m.expand(x, 0) if row else x
    made = Value(m.call("nn.dense", x, weight, units=None), x.dtype, (*x.dims[:-1], weight.dims[0]))
    if bias is not None:
        made = m.call_like("nn.bias_add", made, bias, axis=-1)
    return m.squeeze(made, [0]) if row else made


def _added(compute: Callable[[Maker, Value, Value], Value]) -> Row:
    """Return the converter of ``beta * x + alpha * compute(a, b)``."""

    def row(m: Maker, x: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> Value:
        made = compute(m, a, b)
        if alpha != 1:
            made = made * alpha
        if beta == 0:
            return made
        x = m.cast(x, made.dtype)
        return made + (x if beta == 1 else x * beta)

    return row


def _outer(m: Maker, a: Value, b: Value) -> Value:
    return m.expand(a, 1) * m.expand(b, 0)


def _shared_heads(m: Maker, x: Value, heads: Dim) -> Value:
    """Return keys or values with each head repeated, for ``heads`` heads in all."""
    own = x.dims[-3]
    if own == heads:
        return x
    times = m.quotient(heads, own)
    apart = m.expand(x, x.rank - 2)
    wide = m.broadcast(apart, (*x.dims[:-2], times, *x.dims[-2:]))
    return m.reshape(wide, (*x.dims[:-3], heads, *x.dims[-2:]))


def causal_mask(m: Maker, queries: Dim, keys: Dim) -> Value:
    """Return a causal mask ``[queries, keys]``: query i may attend to key j if j <= i."""
    return m.expand(m.arange(keys), 0) <= m.expand(m.arange(queries), 1)


def _sees_a_key(m: Maker, mask: Value) -> Value | None:
    """Return whether each query has a key whose mask is not -inf, or None if all have.

    If all keys of a query are masked by -inf, PyTorch's attention returns zeros, but a softmax
    would be NaN. NaN in the mask does not mask a key: the result is then NaN, as in PyTorch.
    """
    if isinstance(mask.expr, Constant):
        known = np.asarray(mask.expr.data, np.float64)
        if not np.isneginf(known).all(-1).any():
            return None
    return m.reduce("any", m.not_equal(mask, -math.inf), [-1], True)


def attention(
    m: Maker,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Return scaled dot-product attention; it is 0 for a query all of whose keys are masked."""
    if dropout_p:
        raise Unsupported("dropout in attention is not supported; call eval() on the module")
    if enable_gqa:
        key, value = (_shared_heads(m, t, query.dims[-3]) for t in (key, value))
    size = query.dims[-1]
    if scale is None:
        if isinstance(size, int):
            scaled = query * (1 / math.sqrt(size) if size else 1.0)
        else:
            root = m.sqrt(m.tensor(size, query.dtype))
            scaled = query / root
    else:
        scaled = query * float(scale)
    scores = product(m, scaled, key, transpose_b=True)
    mask = causal_mask(m, *scores.dims[-2:]) if is_causal else attn_mask
    seen = None
    if mask is not None and mask.dtype == "bool":
        scores = m.where(mask, scores, -math.inf)
        seen = None if is_causal else m.reduce("any", mask, [-1], True)
    elif mask is not None:
        scores = scores + m.cast(mask, scores.dtype)
        seen = _sees_a_key(m, mask)
    found = product(m, m.call_like("nn.softmax", scores, axis=-1), value)
    return found if seen is None else m.where(seen, found, 0.0)


def _flash(
    m: Maker,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
    **kwargs: object,
) -> tuple[object, ...]:
    """Convert a fused attention kernel; only its first result is supported.

    The other results are for gradients. Keys and values may have fewer heads than queries: PyTorch
    removes the flag ``enable_gqa`` when it selects such a kernel.
    """
    if any(m.used(k) for k in range(1, len(m.out))):
        raise Unsupported("only the first result of attention is supported; the module uses others")
    heads = query.dims[-3]
    key, value = (_shared_heads(m, t, heads) for t in (key, value))
    found = attention(m, query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    return (found, *[None] * (len(m.out) - 1))


def _grouped(
    m: Maker,
    x: Value,
    weight: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    *args: object,
    **kwargs: object,
) -> Value:
    """Return each row times the matrix of its group: ``[rows, k]`` and ``[groups, k, n]``.

    ``offs`` has the end of each group of rows; rows after the last end become 0. The gather of the
    matrices is fused into the sum of products, so that no matrix is copied.
    """
    if x.rank != 2 or weight.rank != 3 or offs is None or bias is not None:
        raise Unsupported(
            "expected a grouped product of operands of rank 2 and 3, with offs and without bias; "
            f"found ranks {x.rank} and {weight.rank}, {'no ' * (offs is None)}offs and "
            f"{'no ' * (bias is None)}bias"
        )
    places, ends = m.arange(x.dims[0]), m.cast(offs, "int64")
    found = m.call("searchsorted", ends, places, right=True, dtype="int64")
    group = Value(found, "int64", places.dims)
    last = m.tensor(weight.dims[0], "int64") - 1
    # Sums of bfloat16 and float16 are accumulated in float32 and rounded once.
    wide = x.dtype if x.dtype in ("float32", "float64") else "float32"
    own = m.cast(m.take(weight, m.minimum(group, last), 0), wide)
    made = m.reduce("sum", m.expand(m.cast(x, wide), 2) * own, [1])
    return m.cast(m.where(m.expand(group <= last, 1), made, 0.0), m.out_dtype)


def _cdist(m: Maker, a: Value, b: Value, p: float = 2.0, compute_mode: object = None) -> Value:
    gap = m.expand(a, a.rank - 1) - m.expand(b, b.rank - 2)
    return norm(m, gap, float(p), [gap.rank - 1], False)


def _pdist(m: Maker, x: Value, p: float = 2.0) -> Value:
    """Return the distances of all pairs of rows i < j, in row-major order."""
    rows = x.dims[0]
    if not isinstance(rows, int):
        raise Unsupported(f"expected a number of rows known at compile time, found the size {rows}")
    first, second = (m.literal(k, "int64") for k in np.triu_indices(rows, 1))
    gap = m.take(x, first, 0) - m.take(x, second, 0)
    return norm(m, gap, float(p), [1], False)


def _trilinear(
    m: Maker, a: Value, b: Value, c: Value, expand1: Sequence[int], expand2: Sequence[int],
    expand3: Sequence[int], sumdim: Sequence[int], unroll_dim: int = 1,
) -> Value:  # fmt: skip
    """Return the sum over ``sumdim`` of the product of three tensors with new axes, as in
    ``nn.Bilinear``.
    """
    wide = []
    for axes, x in ((expand1, a), (expand2, b), (expand3, c)):
        for axis in axes:
            x = m.expand(x, axis)
        wide.append(x)
    return m.reduce("sum", wide[0] * wide[1] * wide[2], list(sumdim))


ROWS: Mapping[str, Row] = {
    "_trilinear.default": _trilinear,
    **{f"{n}.default": matmul for n in ("mm", "bmm", "matmul", "mv", "dot", "vdot")},
    "linear.default": linear,
    "addmm.default": _added(matmul),
    "addmv.default": _added(matmul),
    "addr.default": _added(_outer),
    "baddbmm.default": _added(matmul),
    "addbmm.default": _added(lambda m, a, b: m.reduce("sum", product(m, a, b), [0])),
    "outer.default": _outer,
    "ger.default": _outer,
    "scaled_dot_product_attention.default": attention,
    "_scaled_dot_product_flash_attention_for_cpu.default": _flash,
    "_grouped_mm.default": _grouped,
    "transformers::grouped_mm_fallback.default": _grouped,
    "_cdist_forward.default": _cdist,
    "_pdist_forward.default": _pdist,
}
