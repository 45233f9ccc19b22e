"""Whole models, decoders, solvers and training steps in JAX, with symbolic dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.frontends.stablehlo.programs import (
    BS,
    F32,
    HEADS,
    I32,
    WIDE,
    WORDS,
    N,
    Program,
    conv,
    encoder_layer,
    rms_norm,
    split_heads,
    weights,
)

HEAD = WIDE // HEADS
ROOMS = tuple({"b": b, "c": c} for b, c in ((2, 5), (1, 2), (3, 16), (1, 17), (4, 33)))
PAIRS = tuple(
    {"b": d["b"], "s": d["s"], "t": t} for d, t in zip(BS, (3, 1, 9, 1, 2, 5), strict=True)
)
HALVES = tuple({"b": b, "h": h, "w": w} for b, h, w in ((2, 4, 4), (1, 1, 1), (1, 5, 2), (3, 3, 8)))
EDGES = tuple({"n": n, "e": e} for n, e in ((4, 9), (1, 1), (7, 3), (16, 40), (33, 70)))
POINTS = tuple({"n": n, "m": m} for n, m in ((4, 3), (1, 1), (7, 2), (17, 11)))


# -- transformers ----------------------------------------------------------------------------------


def _bucket(distance: Any, both: bool) -> Any:
    """Return the bucket of T5 for relative positions: exact for small ones, else logarithmic."""
    count, most = (4, 20) if both else (8, 20)
    sign = (distance > 0) * count if both else 0
    size = jnp.abs(distance) if both else -jnp.minimum(distance, 0)
    near = count // 2
    far = jnp.log(jnp.maximum(size, 1) / near) / jnp.log(most / near) * (count - near)
    return sign + jnp.where(size < near, size, jnp.minimum(near + far.astype(jnp.int32), count - 1))


def _t5_attention(x: Any, memory: Any, seed: int, bias: Any = 0.0) -> Any:
    q = split_heads(x @ weights(WIDE, WIDE, seed=seed))
    k, v = (split_heads(memory @ weights(WIDE, WIDE, seed=seed + j)) for j in (1, 2))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias, -1)
    return jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape)


def _relative(length: Any, both: bool) -> Any:
    at = jnp.arange(length)
    found = weights(8, HEADS, seed=9)[_bucket(at[None, :] - at[:, None], both)]
    found = jnp.moveaxis(found, 2, 0)[None]
    return found if both else jnp.where(at[None, :] <= at[:, None], found, -1e9)


def t5(ids: Any, targets: Any) -> Any:
    one = jnp.ones(WIDE)

    def feed(x: Any) -> Any:
        y = rms_norm(x, one)
        gate = jax.nn.gelu(y @ weights(WIDE, 64, seed=20)) * (y @ weights(WIDE, 64, seed=21))
        return x + gate @ weights(64, WIDE, seed=22)

    x = weights(WORDS, WIDE)[ids]
    y = rms_norm(x, one)
    memory = rms_norm(feed(x + _t5_attention(y, y, 1, _relative(x.shape[1], True))), one)
    z = weights(WORDS, WIDE)[targets]
    y = rms_norm(z, one)
    z = z + _t5_attention(y, y, 4, _relative(z.shape[1], False))
    z = feed(z + _t5_attention(rms_norm(z, one), memory, 7))
    return rms_norm(z, one) @ weights(WORDS, WIDE).T


def decode_in_place(word: Any, keys: Any, values: Any, at: Any) -> Any:
    """One step of a decoder whose cache has a capacity; position ``at`` is written."""
    x = weights(WORDS, WIDE)[word][:, None]
    q, k, v = (split_heads(x @ weights(WIDE, WIDE, seed=j)) for j in range(3))
    keys = lax.dynamic_update_slice(keys, k, (0, at, 0, 0))
    values = lax.dynamic_update_slice(values, v, (0, at, 0, 0))
    seen = (jnp.arange(keys.shape[1]) <= at)[None, None, None, :]
    y = jax.nn.dot_product_attention(q, keys, values, mask=seen).reshape(x.shape)
    return (y + x)[:, 0] @ weights(WORDS, WIDE).T, keys, values


def decode_and_grow(word: Any, keys: Any, values: Any) -> Any:
    x = weights(WORDS, WIDE)[word][:, None]
    q, k, v = (split_heads(x @ weights(WIDE, WIDE, seed=j)) for j in range(3))
    keys, values = jnp.concatenate([keys, k], 1), jnp.concatenate([values, v], 1)
    y = jax.nn.dot_product_attention(q, keys, values).reshape(x.shape)
    return jnp.argmax((y + x)[:, 0] @ weights(WORDS, WIDE).T, -1), keys, values


def experts(x: Any) -> Any:
    """A mixture of four experts, of which each row uses two."""
    best, which = lax.top_k(x @ weights(WIDE, 4), 2)
    share = jax.nn.softmax(best, -1)[..., None] * jax.nn.one_hot(which, 4)
    hidden = jax.nn.relu(jnp.einsum("bsd,edf->bsef", x, weights(4, WIDE, 16, seed=1)))
    return jnp.einsum("bsef,efd,bske->bsd", hidden, weights(4, 16, WIDE, seed=2), share)


# -- images and sound ------------------------------------------------------------------------------


def group_norm(x: Any, groups: int) -> Any:
    y = x.reshape(*x.shape[:-1], groups, -1)
    mean = y.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(y - mean).mean((1, 2, 4), keepdims=True)
    return ((y - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)


def diffusion(x: Any, time: Any) -> Any:
    """A U-Net with a time embedding, group norm, and attention among the pixels."""
    angle = time[:, None] * jnp.exp(-jnp.arange(8) / 8)
    steps = jax.nn.silu(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], 1) @ weights(16, 16))

    def block(y: Any, wide: int, seed: int) -> Any:
        z = conv(jax.nn.silu(group_norm(y, 4)), weights(3, 3, y.shape[-1], wide, seed=seed))
        z = z + (steps @ weights(16, wide, seed=seed))[:, None, None]
        z = conv(jax.nn.silu(group_norm(z, 4)), weights(3, 3, wide, wide, seed=seed + 1))
        return z + y @ weights(y.shape[-1], wide, seed=seed + 2)

    first = block(conv(x, weights(3, 3, 3, 8)), 8, 1)
    low = block(conv(first, weights(3, 3, 8, 16, seed=4), 2), 16, 5)
    y = group_norm(low, 4).reshape(low.shape[0], -1, 16)
    q, k, v = (y @ weights(16, 16, seed=j) for j in (8, 9, 10))
    scores = jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2) / 4, -1)
    low = low + (scores @ v).reshape(low.shape)
    up = jnp.repeat(jnp.repeat(low, 2, 1), 2, 2)
    last = block(jnp.concatenate([up, first], -1), 8, 11)
    return conv(jax.nn.silu(group_norm(last, 4)), weights(3, 3, 8, 3, seed=14))


def wavenet(x: Any) -> Any:
    """Causal convolutions with growing dilation over (batch, time, 8)."""
    total = jnp.zeros_like(x)
    for k in range(3):
        step = 2**k
        y = lax.conv_general_dilated(
            x,
            weights(2, 8, 16, seed=k),
            (1,),
            [(step, 0)],
            rhs_dilation=(step,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        y = jnp.tanh(y[..., :8]) * jax.nn.sigmoid(y[..., 8:])
        total, x = total + y, x + y @ weights(8, 8, seed=k + 3)
    return total


# -- decoders --------------------------------------------------------------------------------------


def sample(key: Any, first: Any) -> Any:
    """Six words for each row, drawn among the three most probable."""
    table = weights(WORDS, WORDS) * 8

    def more(state: Any) -> Any:
        k, words, _ = state
        return (k < 6) & jnp.any(words[:, 0] >= 0)

    def step(state: Any) -> Any:
        k, words, key = state
        key, now = jax.random.split(key)
        word = lax.dynamic_index_in_dim(words, k, 1, keepdims=False)
        best, which = lax.top_k(table[word], 3)
        drawn = jax.random.categorical(now, best)
        new = jnp.take_along_axis(which, drawn[:, None], 1).astype(jnp.int32)
        return k + 1, lax.dynamic_update_slice(words, new, (0, k + 1)), key

    words = jnp.zeros((first.shape[0], 7), jnp.int32).at[:, 0].set(first)
    return lax.while_loop(more, step, (0, words, jax.random.wrap_key_data(key)))[1]


def beams(first: Any) -> Any:
    """Search with three beams for each row."""
    table = jax.nn.log_softmax(weights(WORDS, WORDS) * 8)

    def step(state: Any, _: Any) -> Any:
        words, score = state
        total = (score[..., None] + table[words]).reshape(words.shape[0], -1)
        score, best = lax.top_k(total, 3)
        return (best % WORDS, score), (best // WORDS, best % WORDS)

    score, words = lax.top_k(table[first], 3)
    return lax.scan(step, (words, score), None, length=4)


# -- graphs, equations and matrices ----------------------------------------------------------------


def graph_network(nodes: Any, edges: Any, senders: Any, receivers: Any) -> Any:
    """One layer on edges, nodes and the whole graph, with sums and softmax over the edges."""
    count = nodes.shape[0]
    both = jnp.concatenate([nodes[senders], nodes[receivers], edges], 1)
    edges = jax.nn.relu(both @ weights(20, 4))
    score = (edges @ weights(4, 1, seed=1))[:, 0]
    most = jax.ops.segment_max(score, receivers, num_segments=count)
    share = jnp.exp(score - most[receivers])
    share = share / jax.ops.segment_sum(share, receivers, num_segments=count)[receivers]
    total = jax.ops.segment_sum(edges * share[:, None], receivers, num_segments=count)
    nodes = jax.nn.relu(jnp.concatenate([nodes, total], 1) @ weights(12, 8, seed=2))
    whole = jnp.concatenate([nodes.mean(0), edges.sum(0)]) @ weights(12, 3, seed=3)
    return nodes, edges, whole


def runge_kutta(x: Any) -> Any:
    def slope(y: Any, t: Any) -> Any:
        return jnp.tanh(y @ weights(8, 8)) * jnp.cos(t) - 0.1 * y

    def step(y: Any, t: Any) -> Any:
        h = 0.1
        a = slope(y, t)
        b = slope(y + h / 2 * a, t + h / 2)
        c = slope(y + h / 2 * b, t + h / 2)
        d = slope(y + h * c, t + h)
        return y + h / 6 * (a + 2 * b + 2 * c + d), jnp.abs(y).max()

    return lax.scan(step, x, jnp.linspace(0.0, 1.0, 10))


def adaptive(x: Any) -> Any:
    """Integrate a pendulum; each row has steps of its own size."""

    def slope(y: Any) -> Any:
        return jnp.stack([y[:, 1], -jnp.sin(y[:, 0])], 1)

    def step(state: Any) -> Any:
        t, h, y = state
        a = slope(y)
        b = slope(y + h[:, None] * a)
        error = jnp.abs(h[:, None] * (b - a) / 2).max(1)
        good = error < 1e-2
        y = jnp.where(good[:, None], y + h[:, None] * (a + b) / 2, y)
        t = jnp.where(good, t + h, t)
        return t, jnp.minimum(jnp.where(good, h * 1.5, h / 2), 1 - t), y

    start = jnp.zeros(x.shape[0]), jnp.full(x.shape[0], 0.25), x
    return lax.while_loop(lambda s: jnp.any(s[0] < 1), step, start)[2]


def gaussian_process(x: Any, y: Any, at: Any) -> Any:
    """Mean, deviation and likelihood of a regression, by Cholesky factors."""

    def kernel(a: Any, b: Any) -> Any:
        return jnp.exp(-0.5 * jnp.square(a[:, None] - b[None]).sum(-1))

    lower = jnp.linalg.cholesky(kernel(x, x) + 0.1 * jnp.eye(x.shape[0]))
    alpha = jax.scipy.linalg.cho_solve((lower, True), y)
    cross = kernel(at, x)
    half = jax.scipy.linalg.solve_triangular(lower, cross.T, lower=True)
    spread = jnp.sqrt(jnp.maximum(1.1 - jnp.square(half).sum(0), 0))
    return cross @ alpha, spread, -0.5 * y @ alpha - jnp.log(jnp.diagonal(lower)).sum()


def kalman(x: Any) -> Any:
    """Filter observations (time, batch, 2) of a state of four numbers."""
    move = jnp.eye(4) + 0.1 * weights(4, 4)
    look = weights(2, 4, seed=1)

    def step(state: Any, seen: Any) -> Any:
        mean, spread = state
        mean, spread = mean @ move.T, move @ spread @ move.T + 0.1 * jnp.eye(4)
        known = look @ spread @ look.T + 0.5 * jnp.eye(2)
        gain = jnp.linalg.solve(known, look @ spread).mT
        mean = mean + (seen - mean @ look.T) @ gain.T
        return (mean, spread - gain @ look @ spread), mean

    start = jnp.zeros((x.shape[1], 4)), jnp.eye(4)
    (_, spread), means = lax.scan(step, start, x)
    return means, spread, jnp.linalg.slogdet(spread)[1]


# -- training steps --------------------------------------------------------------------------------


def _descended(loss: Any, params: Any, speed: Any) -> Any:
    """Return the loss, and parameters and velocities after one step with momentum."""
    value, gradient = jax.value_and_grad(loss)(params)
    speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, gradient)
    return value, jax.tree.map(lambda p, v: p - 0.01 * v, params, speed), speed


def _cross_entropy(scores: Any, wanted: Any) -> Any:
    made = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(made, wanted[..., None], -1).mean()


def train_transformer(w: Any, head: Any, vw: Any, vh: Any, ids: Any) -> Any:
    def loss(params: Any) -> Any:
        table, last = params
        x = encoder_layer(table[ids], causal=True)
        return _cross_entropy(x @ last, ids)

    return _descended(loss, (w, head), (vw, vh))


def train_images(w: Any, head: Any, vw: Any, vh: Any, x: Any, wanted: Any) -> Any:
    """A step with batch norm on the statistics of the batch, and pooling."""

    def loss(params: Any) -> Any:
        kernel, last = params
        y = conv(x, kernel)
        y = (y - y.mean((0, 1, 2))) * lax.rsqrt(y.var((0, 1, 2)) + 1e-3)
        y = lax.reduce_window(
            jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        return _cross_entropy(y.mean((1, 2)) @ last, wanted)

    return _descended(loss, (w, head), (vw, vh))


def train_recurrence(w: Any, u: Any, vw: Any, vu: Any, x: Any) -> Any:
    def loss(params: Any) -> Any:
        a, b = params

        def step(h: Any, t: Any) -> Any:
            h = jnp.tanh(t @ a + h @ b)
            return h, h

        _, rows = lax.scan(step, jnp.zeros((x.shape[1], 8)), x)
        return jnp.square(rows - x).mean()

    return _descended(loss, (w, u), (vw, vu))


_CACHE = f"b, c, {HEADS}, {HEAD}"

MODELS: Mapping[str, Program] = {
    "t5": Program(t5, (("b, s", I32), ("b, t", I32)), PAIRS, {0: WORDS, 1: WORDS}),
    "decode_in_place": Program(
        decode_in_place,
        (("b", I32), (_CACHE, F32), (_CACHE, F32), ("", I32)),
        ROOMS,
        {0: WORDS, 3: 2},
    ),
    "decode_and_grow": Program(
        decode_and_grow, (("b", I32), (_CACHE, F32), (_CACHE, F32)), ROOMS, {0: WORDS}
    ),
    "experts": Program(experts, ((f"b, s, {WIDE}", F32),), BS),
    "diffusion": Program(diffusion, (("b, 2*h, 2*w, 3", F32), ("b", F32)), HALVES),
    "wavenet": Program(wavenet, (("b, s, 8", F32),), BS),
    "sample": Program(sample, (("2", "uint32"), ("n", I32)), N, {0: 1 << 31, 1: WORDS}),
    "beams": Program(beams, (("n", I32),), N, {0: WORDS}),
    "graph_network": Program(
        graph_network,
        (("n, 8", F32), ("e, 4", F32), ("e", I32), ("e", I32)),
        EDGES,
        {2: "n", 3: "n"},
    ),
    "runge_kutta": Program(runge_kutta, (("n, 8", F32),), N),
    "adaptive": Program(adaptive, (("n, 2", F32),), N),
    "gaussian_process": Program(
        gaussian_process, (("n, 3", F32), ("n", F32), ("m, 3", F32)), POINTS
    ),
    "kalman": Program(kalman, (("s, b, 2", F32),), BS),
    "train_transformer": Program(
        train_transformer,
        (
            (f"{WORDS}, {WIDE}", F32),
            (f"{WIDE}, {WORDS}", F32),
            (f"{WORDS}, {WIDE}", F32),
            (f"{WIDE}, {WORDS}", F32),
            ("b, s", I32),
        ),
        BS,
        {4: WORDS},
    ),
    "train_images": Program(
        train_images,
        (("3, 3, 3, 8", F32), ("8, 5", F32)) * 2 + (("b, 2*h, 2*w, 3", F32), ("b", I32)),
        HALVES,
        {5: 5},
    ),
    "train_recurrence": Program(train_recurrence, (("8, 8", F32),) * 4 + (("s, b, 8", F32),), BS),
}
