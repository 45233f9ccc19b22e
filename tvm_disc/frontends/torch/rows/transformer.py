"""Converters of fused attention and encoder layers, which PyTorch calls if it needs no gradient."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.elementwise import gelu
from tvm_disc.frontends.torch.rows.matmul import attention, linear
from tvm_disc.frontends.torch.rows.norm import layer_norm
from tvm_disc.frontends.torch.values import Dim, Value

# PyTorch's mask types: a mask of (query, key), or of keys that are padding. For any other type the
# mask has all axes: batch, heads, queries and keys.
PAIRS, PADDING = 0, 1


def _hidden(m: Maker, mask: Value | None, kind: int | None) -> Value | None:
    """Return a mask of visible keys, ``[batch, heads, queries, keys]`` after broadcast, or None."""
    if mask is None:
        return None
    seen = ~m.cast(mask, "bool")
    if kind == PADDING:
        return m.expand(seen, 1, 2)
    return m.expand(seen, 0, 2) if kind == PAIRS else seen


def _heads(m: Maker, x: Value, count: Dim, width: Dim) -> Value:
    """Return ``[batch, length, heads * width]`` reshaped to ``[batch, heads, length, width]``."""
    apart = m.reshape(x, [x.dims[0], x.dims[1], count, width])
    return m.swap(apart, 1, 2)


def _multi_head(
    m: Maker,
    query: Value,
    key: Value,
    value: Value,
    embed_dim: int,
    num_head: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, None]:
    if m.node.target.__name__.startswith("_native_multi") and m.used(1) and need_weights:
        raise Unsupported(
            "attention does not return its weights; call the module with need_weights=False"
        )
    if query is key is value:
        whole = linear(m, query, qkv_weight, qkv_bias)
        parts = m.split(whole, [embed_dim] * 3, -1)
    else:
        weights, biases = (
            m.split(qkv_weight, [embed_dim] * 3, 0),
            m.split(qkv_bias, [embed_dim] * 3, 0),
        )
        parts = [
            linear(m, x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
        ]
    width = embed_dim // num_head
    q, k, v = (_heads(m, x, num_head, width) for x in parts)
    found = m.swap(attention(m, q, k, v, _hidden(m, mask, mask_type)), 1, 2)
    return linear(m, m.reshape(found, query.dims), proj_weight, proj_bias), None


def _encoder_layer(
    m: Maker,
    src: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    def first(x: Value) -> Value:
        return layer_norm(m, x, [embed_dim], norm_weight_1, norm_bias_1, eps)

    def second(x: Value) -> Value:
        return layer_norm(m, x, [embed_dim], norm_weight_2, norm_bias_2, eps)

    def attended(x: Value) -> Value:
        weights = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _multi_head(
            m, x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type
        )[0]

    def fed(x: Value) -> Value:
        wide = linear(m, x, ffn_weight_1, ffn_bias_1)
        return linear(
            m, gelu(m, wide) if use_gelu else m.apply("nn.relu", wide), ffn_weight_2, ffn_bias_2
        )

    if norm_first:
        x = src + attended(first(src))
        return x + fed(second(x))
    x = first(src + attended(src))
    return second(x + fed(x))


ROWS: Mapping[str, Row] = {
    "_native_multi_head_attention.default": _multi_head,
    "_transformer_encoder_layer_fwd.default": _encoder_layer,
}
