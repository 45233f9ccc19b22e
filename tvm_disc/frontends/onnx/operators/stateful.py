"""Converters of layers that return their state for the next call; every dim may be unknown.

ONNX also defines these operators by function bodies, but these require inputs with known dims.
"""

from __future__ import annotations

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Dim, Expr, op
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.attention import default_scale
from tvm_disc.frontends.onnx.table import Row

WIDE = "float32"  # dtype of accumulators


# -- causal convolution --------------------------------------------------------------------------


def _causal_conv(n: OnnxNode) -> list[Expr]:
    """Convert CausalConvWithState: a depthwise convolution over the past inputs and the input."""
    x, w, past = n[0], n[1], n.get(3)
    dtype, (channels, _, kernel) = n.dtype(x), n.sizes(w)
    reach = n.dim("subtract", kernel, 1)
    whole = n.pad(x, [(0, 0), (0, 0), (reach, 0)], 0) if past is None else n.concat([past, x], 2)
    y = _depthwise(n, whole, w, (channels, kernel), n.size(x, 2))
    y = y if n.get(2) is None else y + n.expand(n.cast(n[2], WIDE), 1)
    how = str(n.attr("activation", "none"))
    if how not in ("none", "silu", "swish"):
        raise Unsupported(f"activation: expected none, silu or swish, found {how!r}")
    y = n.cast(y, dtype)
    if how != "none":
        real = n.cast(y, WIDE)
        y = n.cast(real * n.sigmoid(real), dtype)
    return [y, n.slice(whole, 2, n.size(x, 2), None)]


def _depthwise(n: Calc, x: Expr, w: Expr, sizes: tuple[Dim, Dim], length: Dim) -> Expr:
    """Return a depthwise convolution; channels and kernel size may be unknown."""
    channels, kernel = sizes
    x, w = n.cast(x, WIDE), n.cast(w, WIDE)
    if isinstance(channels, int) and isinstance(kernel, int) and channels * kernel:
        return op("nn.conv1d", x, w, groups=channels)
    places = n.expand(n.arange(length), 1) + n.arange(kernel)
    return n.reduce("sum", n.take(x, places, 2) * w, [3])


# -- linear attention --------------------------------------------------------------------------


def _linear_attention(n: OnnxNode) -> list[Expr]:
    """Convert LinearAttention as a loop over tokens.

    The state is one matrix per head. For each token, the state is multiplied by the decay, and the
    outer product of key and value is added. The delta rules replace the value by its difference
    from ``state @ key``.
    """
    rule = str(n.attr("update_rule", "gated_delta"))
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise Unsupported(
            f"update_rule: expected linear, gated, delta or gated_delta, found {rule!r}"
        )
    heads, queries = int(n.required("kv_num_heads")), int(n.required("q_num_heads"))
    batch, length = n.size(n[0], 0), n.size(n[0], 1)
    keys, values = (n.dim("floor_divide", n.size(n[k], 2), heads) for k in (1, 2))
    group = queries // heads

    def laid(k: int, *dims: Dim) -> Expr:
        """Return an input reshaped to ``[length, batch, heads, *dims]``."""
        apart = n.reshape(n.cast(n[k], WIDE), [batch, length, heads, *dims])
        return n.transpose(apart, [1, 0, *range(2, 3 + len(dims))])

    query, key, value = laid(0, group, keys), laid(1, keys, 1), laid(2, 1, values)
    reads = [query * default_scale(n, query, n.attr("scale")), key, value]
    if rule.startswith("gated"):
        reads.append(n.exp(_decay(n, laid(4, -1), [length, batch, heads, keys])))
    if rule.endswith("delta"):
        reads.append(_rate(n, [batch, length, heads]))
    dims: list[Dim] = [batch, heads, keys, values]
    past = n.get(3)
    first = n.full(0, dims, WIDE) if past is None else n.reshape(n.cast(past, WIDE), dims)
    last, rows = counted(n, length, reads, [first], lambda *turn: _turn(n, rule, *turn))
    found = n.transpose(rows[0], [1, 0, 2, 3, 4])
    made = n.reshape(found, [batch, length, n.dim("multiply", values, queries)])
    kept = n.dtype(n[0]) if past is None else n.dtype(past)
    return [n.cast(made, n.dtype(n[0])), n.cast(last[0], kept)]


def _turn(
    n: Calc, rule: str, t: Expr, reads: list[Expr], now: list[Expr]
) -> tuple[list[Expr], list[Expr]]:
    """Return the state after a token, and the result of the token's queries."""
    query, key, value, *more = (n.take(x, t, 0) for x in reads)
    state = now[0]
    if rule.startswith("gated"):
        state = state * more[0]
    if rule.endswith("delta"):
        given = n.reduce("sum", state * key, [2], True)
        value = (value - given) * more[-1]
    state = state + key * value
    return [state], [n.matmul(query, state)]


def _decay(n: Calc, x: Expr, dims: list[Dim]) -> Expr:
    """Return the decay of each element of a key; the input may have one for each head."""
    return n.expand(n.broadcast(x, dims), 4)


def _rate(n: OnnxNode, dims: list[Dim]) -> Expr:
    """Return the update rate of each head; the input may have one for all heads."""
    wide: Expr = n.broadcast(n.cast(n[5], WIDE), dims)
    return n.expand(n.transpose(wide, [1, 0, 2]), 3, 2)


ROWS: tuple[Row, ...] = (
    Row("CausalConvWithState", _causal_conv),
    Row("LinearAttention", _linear_attention),
)
