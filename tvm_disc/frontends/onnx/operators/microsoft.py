"""Converters of fused operators that ONNX Runtime's optimizer and exporters emit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.activation import gelu
from tvm_disc.frontends.onnx.operators.attention import (
    Heads,
    causal,
    default_scale,
    hidden,
    joined_heads,
    repeated,
    rotated,
    scores,
    split_heads,
    weighted,
)
from tvm_disc.frontends.onnx.operators.convolution import convolved
from tvm_disc.frontends.onnx.operators.linear import gemm
from tvm_disc.frontends.onnx.operators.normalize import layer_norm, rms_norm
from tvm_disc.frontends.onnx.table import MICROSOFT, Row

# -- normalisation -----------------------------------------------------------------------------


def _skip_layer_norm(n: OnnxNode) -> list[object]:
    total = n.plus(n[0] + n[1], 4)
    epsilon = float(n.attr("epsilon", 1e-12))
    return [layer_norm(n, total, n[2], n.get(3), -1, epsilon), None, None, total]


def _skip_rms_norm(n: OnnxNode) -> list[object]:
    total = n.plus(n[0] + n[1], 3)
    return [rms_norm(n, total, n[2], -1, float(n.attr("epsilon", 1e-12)))[0], None, None, total]


def _rms(n: OnnxNode) -> list[Expr] | Expr:
    y, inverse = rms_norm(n, n[0], n[1], int(n.attr("axis", -1)), float(n.attr("epsilon", 1e-5)))
    return [y, inverse] if len(n.outputs) > 1 else y


def _embed(n: OnnxNode) -> list[object]:
    """Convert EmbedLayerNormalization: the normalized sum of token, position and segment
    embeddings.
    """
    ids, segments, place = n[0], n.get(1), n.get(8)
    if place is None:
        place = n.expand(n.arange(n.size(ids, 1)), 0)
    total = n.take(n[2], ids, 0) + n.take(n[3], place, 0)
    if segments is not None:
        total = total + n.take(n[4], segments, 0)
    y = layer_norm(n, total, n[5], n[6], -1, float(n.attr("epsilon", 1e-12)))
    mask = n.get(7)
    count = None
    if n.wants(1):
        if mask is None:
            count = n.full(0, [n.size(ids, 0)], "int32")
        else:
            count = n.reduce("sum", n.cast(mask, "int32"), [1])
    return [y, count, total]


# -- attention ---------------------------------------------------------------------------------


def _attention(n: OnnxNode) -> list[object]:
    """Convert Attention: one matmul computes the queries, keys and values of the input."""
    heads = int(n.required("num_heads"))
    if n.attr("do_rotary", 0):
        raise Unsupported("do_rotary: expected 0, found 1")
    joined = n.plus(n.matmul(n[0], n[1]), 2)
    third = n.dim("floor_divide", n.size(joined, 2), 3)
    lengths: list[Dim] = [*n.ints("qkv_hidden_sizes")] or [third] * 3
    query, key, value = (split_heads(n, x, heads) for x in n.split(joined, lengths, 2))
    present = None
    if n.get(4) is not None:
        past = [n.pick(n[4], 0, k) for k in range(2)]
        key, value = (n.concat([p, x], 2) for p, x in zip(past, (key, value), strict=True))
    if n.wants(1):
        present = n.stack([key, value], 0)
    return [_attended(n, Heads(query, key, value), mask=n.get(3)), present]


def _attended(n: OnnxNode, heads: Heads, mask: Expr | None) -> Expr:
    """Return the attention result, ``[batch, length, heads * width]``.

    Input 5, if present, is added to the scores.
    """
    query, key, value = heads.query, heads.key, heads.value
    found = n.plus(scores(n, heads, default_scale(n, query, n.attr("scale"))), 5)
    if mask is not None:
        found = _masked(n, found, mask, n.size(key, 2))
    if n.attr("unidirectional", 0):
        rows, columns = n.size(query, 2), n.size(key, 2)
        before = n.scalar(n.dim("subtract", columns, rows))
        found = hidden(n, found, causal(n, rows, columns, before))
    return joined_heads(n, weighted(n, found, value))


def _masked(n: OnnxNode, found: Expr, mask: Expr, columns: Dim) -> Expr:
    """Return the scores plus a large negative number wherever the mask is 0.

    A mask of rank 1 has the number of visible keys of each batch entry.
    """
    low = float(n.attr("mask_filter_value", -10000.0))
    rank = n.rank(mask)
    if rank == 1:
        wide = n.cast(n.expand(mask, 1), "int64")
        seen = n.arange(columns) < wide
        seen = n.expand(seen, 1, 2)
    elif rank in (2, 3):
        seen = n.not_equal(n.expand(mask, 1, 4 - rank), 0)
    elif rank == 4:
        seen = n.not_equal(mask, 0)
    else:
        raise Unsupported(f"expected a mask of rank 1 to 4, found rank {rank}")
    return found + n.where(seen, n.like(0.0, found), low)


def _multi_head(n: OnnxNode) -> list[object]:
    heads = int(n.required("num_heads"))
    query, key, value, bias = n[0], n.get(1), n.get(2), n.get(3)
    if key is None or value is None:
        raise Unsupported("queries, keys and values packed into one input are not supported")
    if bias is not None:
        widths = [n.size(x, 2) if n.rank(x) == 3 else None for x in (query, key, value)]
        if None in widths:
            raise Unsupported("a bias requires keys and values of rank 3, found rank 4")
        biases = n.split(bias, [w for w in widths if w is not None], 0)
        query, key, value = (x + b for x, b in zip((query, key, value), biases, strict=True))
    query = split_heads(n, query, heads)
    key, value = (split_heads(n, x, heads) if n.rank(x) == 3 else x for x in (key, value))
    if n.get(6) is not None:
        key, value = (n.concat([p, x], 2) for p, x in ((n[6], key), (n[7], value)))
    return [_attended(n, Heads(query, key, value), mask=n.get(4)), key, value]


# Unsupported optional inputs of GroupQueryAttention by position, and unsupported attributes, each
# with the value that has no effect.
_NO_INPUTS = {
    11: "head_sink",
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
    15: "k_norm_weight",
    16: "query_seqlens",
}
_NO_ATTRS = {
    "smooth_softmax": 0,
    "causal": 1,
    "sliding_window_cache": 0,
    "kv_cache_bit_width": 0,
    "qk_output": 0,
}


def _group_query(n: OnnxNode) -> list[object]:
    """Convert GroupQueryAttention: several query heads share each head of keys and values.

    The new keys and values are appended to the cache, as in ONNX Runtime without shared buffers.
    All entries of a batch have the same length, the size of the cache's axis.
    """
    given = [name for k, name in _NO_INPUTS.items() if n.get(k) is not None]
    given += [name for name, none in _NO_ATTRS.items() if int(n.attr(name, none)) != none]
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise Unsupported(f"{', '.join(given)} {verb} not supported")
    heads, groups = int(n.required("num_heads")), int(n.required("kv_num_heads"))
    query, key, value = _queries(n, heads, groups)
    rows = n.size(query, 2)
    past: Dim = 0 if n.get(3) is None else n.size(n[3], 2)
    if n.attr("do_rotary", 0):
        place = n.expand(n.arange(rows) + n.scalar(past), 0) if n.get(9) is None else n[9]
        cos, sin = (n.expand(n.take(n[k], place, 0), 1) for k in (7, 8))
        turn = bool(n.attr("rotary_interleaved", 0))
        query, key = (rotated(n, x, cos, sin, turn) for x in (query, key))
    if n.get(3) is not None:
        key, value = (n.concat([p, x], 2) for p, x in ((n[3], key), (n[4], value)))
    times = heads // groups
    wide = Heads(query, repeated(n, key, times), repeated(n, value, times))
    scale = default_scale(n, query, n.attr("scale"))
    found = n.plus(scores(n, wide, scale, float(n.attr("softcap", 0.0))), 10)
    columns, before = n.size(key, 2), n.scalar(past)
    seen = causal(n, rows, columns, before)
    window = int(n.attr("local_window_size", -1))
    if window > 0:
        place = n.expand(n.arange(rows), 1) + before
        seen = n.apply("logical_and", seen, place - n.arange(columns) < window, dtype="bool")
    found = hidden(n, found, seen)
    return [joined_heads(n, weighted(n, found, wide.value)), key, value]


def _queries(n: OnnxNode, heads: int, groups: int) -> list[Expr]:
    """Return queries, keys and values ``[batch, heads, length, width]``.

    The inputs are three tensors, or one that has all of them.
    """
    if n.get(1) is not None:
        return [split_heads(n, n[0], heads), *(split_heads(n, n[k], groups) for k in (1, 2))]
    every = split_heads(n, n[0], heads + 2 * groups)
    return n.split(every, [heads, groups, groups], 1)


def _rotary(n: OnnxNode) -> Expr:
    x, place, cos, sin = n[0], n[1], n[2], n[3]
    flat = n.rank(x) == 3
    if flat:
        heads = int(n.attr("num_heads", 0))
        if not heads:
            width = n.literals(cos)[-1]
            whole = n.literals(x)[-1]
            if width is None or whole is None:
                raise Unsupported(
                    "attribute 'num_heads' is missing; it is optional only if the last dims of "
                    "the input and of cos_cache are known at compile time"
                )
            heads = whole // (2 * width)
        x = split_heads(n, x, heads)
    if n.rank(place) == 1:
        rows = n.arange(n.size(x, 2))
        place = n.expand(n.expand(rows, 0), 0) + n.expand(n.cast(place, "int64"), 0, 1)
        place = n.pick(place, 0, 0)
    cos, sin = (n.expand(n.take(c, place, 0), 1) for c in (cos, sin))
    made = rotated(n, x, cos, sin, bool(n.attr("interleaved", 0)))
    return joined_heads(n, made) if flat else made


# -- matmuls -----------------------------------------------------------------------------------


def _matmul_bits(n: OnnxNode) -> Expr:
    """Convert MatMulNBits, whose weights of 2, 4 or 8 bits are unpacked at import."""
    bits, block = int(n.attr("bits", 4)), int(n.required("block_size"))
    inner, outer = int(n.required("K")), int(n.required("N"))
    packed, scales = n.known(n[1]), n.known(n[2])
    zeros = n.known(n.get(3))
    if packed is None or scales is None or (n.get(3) is not None and zeros is None):
        raise Unsupported("B, scales and zero_points must be constants")
    if n.get(4) is not None:
        raise Unsupported("input g_idx is not supported")
    if bits not in (2, 4, 8):
        raise Unsupported(f"bits: expected 2, 4 or 8, found {bits}")
    numbers, origin, factor = unpacked(packed, scales, zeros, (bits, block, outer, inner))
    if n.dtype(n[0]) == "float32" and inner % block == 0:
        # Emit the dequantization, so that a kernel may read the 8-bit weights. A later pass decides
        # whether this is faster.
        wide = n.cast(const(numbers), "float32") - const(origin[:, :, None])
        real = n.reshape(wide * const(factor[:, :, None]), [outer, inner])
    else:
        weight = (numbers.astype("float32") - origin[:, :, None]) * factor[:, :, None]
        weight = weight.reshape(outer, -1)[:, :inner]
        real = const(np.ascontiguousarray(weight).astype(n.dtype(n[0])))
    return n.plus(op("nn.dense", n[0], real, units=None), 5)


def unpacked(
    packed: np.ndarray,
    scales: np.ndarray,
    zeros: np.ndarray | None,
    form: tuple[int, int, int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers ``[outer, blocks, block]``, zero points and scales of packed weights.

    Each byte of ``packed`` has several numbers, lowest bits first. Zero points and scales are
    ``[outer, blocks]``. ``form`` is (bits of a number, block, outer, inner).
    """
    bits, block, outer, inner = form
    count = -(-inner // block)
    numbers = _spread(packed.reshape(outer, count, -1), bits)[:, :, :block]
    if zeros is None:
        origin: np.ndarray = np.full((outer, count), 1 << (bits - 1), "float32")
    elif zeros.dtype.kind == "f":
        origin = zeros.reshape(outer, count).astype("float32")
    else:
        origin = _spread(zeros.reshape(outer, -1), bits)[:, :count].astype("float32")
    factor = scales.reshape(outer, count).astype("float32")
    return np.ascontiguousarray(numbers), origin, factor


def _spread(x: np.ndarray, bits: int) -> np.ndarray:
    """Return numbers that are packed into bytes, lowest bits first, as one byte each."""
    shifts = np.arange(0, 8, bits, dtype="uint8")
    parts = (x[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(parts.reshape(*x.shape[:-1], -1))


def _fused_conv(n: OnnxNode) -> Expr:
    made = n.biased(convolved(n, n[0], n[1], "nn.conv{}d"), 2)
    return _activated(n, n.plus(made, 3))


# Activation functions by the attribute `activation`; the last operand is `activation_params`.
_ACTIVATIONS: Mapping[str, Callable[[OnnxNode, Expr, Sequence[float]], Expr]] = {
    "": lambda n, x, params: x,
    "None": lambda n, x, params: x,
    "Relu": lambda n, x, params: op("nn.relu", x),
    "Sigmoid": lambda n, x, params: n.sigmoid(x),
    "Tanh": lambda n, x, params: n.tanh(x),
    "LeakyRelu": lambda n, x, params: op("nn.leaky_relu", x, alpha=float(params[0])),
    "Clip": lambda n, x, params: n.clip(x, float(params[0]), float(params[1])),
}


def _activated(n: OnnxNode, x: Expr) -> Expr:
    name = str(n.attr("activation", ""))
    if name not in _ACTIVATIONS:
        known = ", ".join(k for k in _ACTIVATIONS if k)
        raise Unsupported(f"activation: expected one of {known}, found {name!r}")
    return _ACTIVATIONS[name](n, x, n.attr("activation_params") or ())


def _bias_split_gelu(n: OnnxNode) -> Expr:
    total = n[0] + n[1]
    half = n.dim("floor_divide", n.size(total, 2), 2)
    left, right = n.split(total, [half, half], 2)
    return left * gelu(n, right)


ROWS: tuple[Row, ...] = (
    Row("SkipLayerNormalization", _skip_layer_norm, domain=MICROSOFT),
    Row("SkipSimplifiedLayerNormalization", _skip_rms_norm, domain=MICROSOFT),
    Row("SimplifiedLayerNormalization", _rms, domain=MICROSOFT),
    Row("EmbedLayerNormalization", _embed, domain=MICROSOFT),
    Row("Attention", _attention, domain=MICROSOFT),
    Row("MultiHeadAttention", _multi_head, domain=MICROSOFT),
    Row("GroupQueryAttention", _group_query, domain=MICROSOFT),
    Row("RotaryEmbedding", _rotary, domain=MICROSOFT),
    Row("MatMulNBits", _matmul_bits, domain=MICROSOFT),
    Row("FusedConv", _fused_conv, domain=MICROSOFT),
    Row("FusedGemm", lambda n: _activated(n, gemm(n)), domain=MICROSOFT),
    Row("BiasSplitGelu", _bias_split_gelu, domain=MICROSOFT),
    Row("BiasAdd", lambda n: n[0] + n[1] + n[2], domain=MICROSOFT),
)
