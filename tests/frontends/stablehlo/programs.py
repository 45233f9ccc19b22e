"""JAX functions with symbolic dims: models, recurrences, decoding, training and NumPy code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

Spec = tuple[str, str]  # shape and element type


@dataclass(frozen=True)
class Program:
    """A function and its inputs.

    Attributes:
        specs: the shape, in the language of ``jax.export.symbolic_shape``, and type of each input.
        dims: the values of the symbols, one mapping for each call.
        most: upper bounds of integer inputs, by position: a number or a symbol.
        kernels: the number of kernels, if it is pinned.
        constraints: what the symbols satisfy, for JAX.
    """

    function: Callable[..., Any]
    specs: tuple[Spec, ...]
    dims: tuple[Mapping[str, int], ...]
    most: Mapping[int, int | str] = field(default_factory=dict)
    kernels: int | None = None
    constraints: tuple[str, ...] = ()

    def arguments(self, dims: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
        """Return random inputs for some dims."""
        rng = np.random.default_rng(seed)
        found = []
        for k, (shape, dtype) in enumerate(self.specs):
            size = [int(eval(d, {}, dict(dims))) for d in shape.split(",") if d.strip()]
            most = self.most.get(k, 4)
            high = dims[most] if isinstance(most, str) else most
            if dtype == "bool":
                made = rng.random(size) < 0.5
            elif "int" in dtype:
                made = rng.integers(0, high, size).astype(dtype)
            else:
                made = rng.standard_normal(size).astype(dtype)
            found.append(np.asarray(made, dtype))
        return found


def exported(program: Program) -> export.Exported:
    """Return the function of a program, exported with its symbols."""
    shapes = [shape for shape, _ in program.specs]
    scope = export.SymbolicScope(program.constraints)
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), np.dtype(dtype))
        for shape, (_, dtype) in zip(shapes, program.specs, strict=True)
    ]
    return export.export(jax.jit(program.function))(*specs)


BS = tuple({"b": b, "s": s} for b, s in ((2, 5), (1, 1), (3, 16), (1, 17), (7, 4), (4, 33)))
N = tuple({"n": n} for n in (4, 1, 7, 16, 33))
HW = tuple({"b": b, "h": h, "w": w} for b, h, w in ((1, 8, 8), (2, 9, 12), (1, 17, 8), (3, 10, 31)))


def weights(*shape: int, seed: int = 0) -> Any:
    scale = 1 / np.sqrt(shape[0] if len(shape) < 4 else np.prod(shape[:3]))
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, jnp.float32)


# -- transformers ----------------------------------------------------------------------------------

WIDE, HEADS, WORDS = 32, 4, 50


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def split_heads(x: Any) -> Any:
    return x.reshape(*x.shape[:-1], HEADS, -1)


def attention(x: Any, memory: Any, mask: Any = None, causal: bool = False) -> Any:
    q, k, v = (
        split_heads(y @ weights(WIDE, WIDE, seed=j)) for j, y in enumerate((x, memory, memory))
    )
    made = jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal)
    return made.reshape(x.shape) @ weights(WIDE, WIDE, seed=3)


def encoder_layer(x: Any, mask: Any = None, causal: bool = False) -> Any:
    one, zero = jnp.ones(WIDE), jnp.zeros(WIDE)
    x = layer_norm(x + attention(x, x, mask, causal), one, zero)
    hidden = jax.nn.gelu(x @ weights(WIDE, 4 * WIDE, seed=4) + 0.1, approximate=False)
    return layer_norm(x + hidden @ weights(4 * WIDE, WIDE, seed=5), one, zero)


def bert(ids: Any, seen: Any) -> Any:
    x = weights(WORDS, WIDE)[ids] + weights(64, WIDE, seed=6)[jnp.arange(ids.shape[1])]
    mask = (seen > 0)[:, None, None, :]
    for _ in range(2):
        x = encoder_layer(x, mask)
    return x


def gpt(ids: Any) -> Any:
    x = weights(WORDS, WIDE)[ids] + weights(64, WIDE, seed=6)[jnp.arange(ids.shape[1])]
    x = encoder_layer(x, causal=True)
    return jax.nn.log_softmax(x @ weights(WORDS, WIDE).T, axis=-1)


def rotated(x: Any, theta: float = 10000.0) -> Any:
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] / theta ** (jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def llama(ids: Any) -> Any:
    x = weights(WORDS, WIDE)[ids]
    y = rms_norm(x, jnp.ones(WIDE))
    q = rotated(split_heads(y @ weights(WIDE, WIDE)))
    k, v = (
        (y @ weights(WIDE, WIDE // 2, seed=j)).reshape(*y.shape[:-1], HEADS // 2, -1)
        for j in (1, 2)
    )
    made = jax.nn.dot_product_attention(q, rotated(k), v, is_causal=True)
    x = x + made.reshape(x.shape) @ weights(WIDE, WIDE, seed=3)
    y = rms_norm(x, jnp.ones(WIDE))
    gate = jax.nn.silu(y @ weights(WIDE, 64, seed=4)) * (y @ weights(WIDE, 64, seed=5))
    return x + gate @ weights(64, WIDE, seed=6)


def vit(image: Any) -> Any:
    patches = lax.conv_general_dilated(
        image, weights(4, 4, 3, WIDE), (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = patches.reshape(image.shape[0], -1, WIDE)
    return encoder_layer(x).mean(1) @ weights(WIDE, 10)


def mixer(x: Any) -> Any:
    y = jnp.swapaxes(x, 1, 2) @ weights(16, 16)
    x = x + jnp.swapaxes(jax.nn.gelu(y), 1, 2)
    return x + jax.nn.relu(x @ weights(WIDE, WIDE, seed=1))


def cross(x: Any, memory: Any) -> Any:
    return attention(x, memory)


# -- images ----------------------------------------------------------------------------------------


def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def batch_norm(x: Any) -> Any:
    c = x.shape[-1]
    return (x - jnp.full(c, 0.1)) / jnp.sqrt(jnp.full(c, 2.0) + 1e-5) * jnp.ones(c) + 0.5


def resnet(x: Any) -> Any:
    x = jax.nn.relu(batch_norm(conv(x, weights(3, 3, 3, 8), 2)))
    y = jax.nn.relu(batch_norm(conv(x, weights(3, 3, 8, 8, seed=1))))
    x = jax.nn.relu(x + batch_norm(conv(y, weights(3, 3, 8, 8, seed=2))))
    return x.mean((1, 2)) @ weights(8, 5)


def pooled(x: Any) -> Any:
    largest = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    total = lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    return largest, total / 9


def unet(x: Any) -> Any:
    down = jax.nn.silu(conv(x, weights(3, 3, 3, 8), 2))
    up = jnp.repeat(jnp.repeat(down, 2, 1), 2, 2)[:, : x.shape[1], : x.shape[2]]
    return conv(jnp.concatenate([up, x], -1), weights(3, 3, 11, 3, seed=1))


def depthwise(x: Any) -> Any:
    return jax.nn.hard_swish(conv(conv(x, weights(3, 3, 1, 3), groups=3), weights(1, 1, 3, 8)))


# -- recurrences and decoding ----------------------------------------------------------------------


def lstm(x: Any) -> Any:
    w, u = weights(8, 64), weights(16, 64, seed=1)

    def step(state: Any, t: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(t @ w + h @ u, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], 16))
    (h, _), rows = lax.scan(step, (zero, zero), x)
    return h, rows


def gru(x: Any) -> Any:
    w, u = weights(8, 48), weights(16, 48, seed=1)

    def step(h: Any, t: Any) -> Any:
        a, b = jnp.split(t @ w, 3, -1), jnp.split(h @ u, 3, -1)
        z, r = jax.nn.sigmoid(a[0] + b[0]), jax.nn.sigmoid(a[1] + b[1])
        h = (1 - z) * h + z * jnp.tanh(a[2] + r * b[2])
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], 16)), x, reverse=True)[1]


def greedy(first: Any, table: Any) -> Any:
    def more(state: Any) -> Any:
        return (state[0] < 8) & (state[1][0] != 3)

    def step(state: Any) -> Any:
        k, word, total = state
        scores = table[word]
        best, at = lax.top_k(scores, 2)
        return k + 1, at[:, 0].astype(jnp.int32), total + best[:, 0]

    zero = jnp.zeros(first.shape[0], jnp.float32)
    return lax.while_loop(more, step, (jnp.int32(0), first, zero))


def newton(x: Any) -> Any:
    def step(_: Any, y: Any) -> Any:
        return y - (y * y - x) / (2 * y)

    x = jnp.abs(x) + 0.5
    return lax.fori_loop(0, 12, step, jnp.ones_like(x) + x)


def ode(x: Any) -> Any:
    def step(y: Any, t: Any) -> Any:
        k = jnp.tanh(y @ weights(8, 8)) * t
        return y + 0.1 * k, (y * y).sum()

    return lax.scan(step, x, jnp.linspace(0.0, 1.0, 10))


def branch(x: Any, c: Any) -> Any:
    y = lax.cond(c > 0, lambda v: v * 2, lambda v: jnp.sin(v), x)
    return lax.switch(c, [lambda v: v + 1, lambda v: v - 1, lambda v: v * v], y)


# -- NumPy code ------------------------------------------------------------------------------------


def segments(x: Any, where: Any) -> Any:
    total = jax.ops.segment_sum(x, where, num_segments=5)
    largest = jax.ops.segment_max(x, where, num_segments=5)
    return total, jnp.where(jnp.isfinite(largest), largest, 0.0)


def message_passing(x: Any, senders: Any, receivers: Any) -> Any:
    messages = jax.nn.relu(x[senders] @ weights(8, 8))
    return jnp.zeros_like(x).at[receivers].add(messages) + x


def orders(x: Any) -> Any:
    return jnp.sort(x, 1), jnp.argsort(-x, 1), jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.median(x, 1)


def running(x: Any) -> Any:
    return jnp.cumsum(x, 1), jnp.cumprod(jnp.tanh(x), 0), lax.cummax(x, 1), jnp.diff(x, axis=0)


def slices(x: Any, k: Any) -> Any:
    y = lax.dynamic_slice(x, (k, 0), (2, 3))
    z = lax.dynamic_update_slice(x, y * 10, (k + 1, 1))
    return y, z, x[::-1], x[1:, ::2], jnp.roll(x, 1, 0), jnp.flip(x, 1)


def pads(x: Any) -> Any:
    a = jnp.pad(x, ((1, 2), (0, 3)), constant_values=2.0)
    b = lax.pad(x, 1.0, ((0, -1, 0), (1, 1, 2)))
    return a, b, jnp.pad(x, ((1, 1), (2, 2)), mode="edge")


def products(a: Any, b: Any) -> Any:
    return (
        jnp.einsum("bsd,td->bst", a, b),
        jnp.einsum("bsd,bsd->bs", a, a),
        jnp.tensordot(a, b, ((2,), (1,))),
        jnp.outer(b[0], b[1]),
        jnp.vdot(a, a),
    )


def statistics(x: Any) -> Any:
    return (
        x.var(1, ddof=1),
        jnp.std(x),
        jax.nn.logsumexp(x, 1),
        jnp.linalg.norm(x, axis=1),
        jnp.clip(x, -0.5, 0.5),
        jnp.any(x > 1, 1),
        jnp.all(x < 3, 0),
        jnp.count_nonzero(x > 0, 1),
    )


def bits(x: Any) -> Any:
    return (x << 3) ^ (x >> 1), ~x & 0xFF, lax.population_count(x), lax.clz(x), x // 3, x % 3, -x


def functions(x: Any) -> Any:
    y = jnp.abs(x) + 0.1
    return (
        jnp.arctan2(x, y - 0.5), jnp.cbrt(x), jnp.log2(y), jnp.expm1(x), jnp.sinh(x),
        jax.scipy.special.erf(x), jnp.exp2(x), jnp.power(y, 1.7), jnp.sign(x), jnp.round(x * 3),
        jnp.hypot(x, y), jnp.floor(x), x % 0.7, jnp.arcsinh(x), lax.rsqrt(y),
    )  # fmt: skip


def random_numbers(key: Any) -> Any:
    key = jax.random.wrap_key_data(key)
    a, b = jax.random.split(key)
    return jax.random.uniform(a, (3, 4)), jax.random.normal(b, (5,)), jax.random.bits(key, (4,))


# -- training --------------------------------------------------------------------------------------


def adam(w: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.square(jnp.tanh(x @ w) - y).mean()

    value, g = jax.value_and_grad(loss)(w)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return value, w - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v


def attention_gradient(x: Any) -> Any:
    return jax.grad(lambda y: jnp.square(encoder_layer(y)).sum())(x)


def conv_gradient(x: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        y = jax.nn.relu(conv(x, w))
        return lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()

    return jax.grad(loss)(w)


def embedding_gradient(table: Any, ids: Any) -> Any:
    return jax.grad(lambda t: jnp.square(t[ids]).sum())(table)


F32, I32 = "float32", "int32"
PROGRAMS: Mapping[str, Program] = {
    "bert": Program(bert, (("b, s", I32), ("b, s", I32)), BS, {0: WORDS, 1: 2}),
    "gpt": Program(gpt, (("b, s", I32),), BS, {0: WORDS}),
    "llama": Program(llama, (("b, s", I32),), BS, {0: WORDS}),
    "vit": Program(vit, (("b, h, w, 3", F32),), HW, constraints=("h >= 4", "w >= 4")),
    "mixer": Program(mixer, (("b, 16, 32", F32),), BS),
    "cross": Program(
        cross, (("b, n, 32", F32), ("b, s, 32", F32)), tuple({"n": 3, **d} for d in BS)
    ),
    "resnet": Program(resnet, (("b, h, w, 3", F32),), HW),
    "pooled": Program(pooled, (("b, h, w, 3", F32),), HW),
    "unet": Program(unet, (("b, h, w, 3", F32),), HW),
    "depthwise": Program(depthwise, (("b, h, w, 3", F32),), HW),
    "lstm": Program(lstm, (("s, b, 8", F32),), BS),
    "gru": Program(gru, (("s, b, 8", F32),), BS),
    "greedy": Program(greedy, (("n", I32), ("9, 9", F32)), N, {0: 9}),
    "newton": Program(newton, (("b, s", F32),), BS),
    "ode": Program(ode, (("n, 8", F32),), N),
    "branch": Program(branch, (("n, 3", F32), ("", I32)), N, {1: 4}),
    "segments": Program(segments, (("n, 3", F32), ("n", I32)), N, {1: 5}),
    "message_passing": Program(
        message_passing,
        (("n, 8", F32), ("e", I32), ("e", I32)),
        tuple({"e": 3 * d["n"], **d} for d in N),
        {1: "n", 2: "n"},
    ),
    "orders": Program(orders, (("b, s", F32),), BS),
    "running": Program(running, (("b, s", F32),), BS),
    "slices": Program(
        slices,
        (("n, 5", F32), ("", I32)),
        tuple({"n": n + 2} for n in (1, 2, 7, 30)),
        constraints=("n >= 3",),
    ),
    "pads": Program(pads, (("b, s", F32),), BS),
    "products": Program(products, (("b, s, 8", F32), ("4, 8", F32)), BS),
    "statistics": Program(
        statistics, (("b, s", F32),), tuple({"b": b, "s": s} for b, s in ((2, 5), (1, 2), (9, 33)))
    ),
    "bits": Program(bits, (("n", I32),), N, {0: 1 << 30}),
    "functions": Program(functions, (("n", F32),), N),
    "random_numbers": Program(random_numbers, (("2", "uint32"),), ({},), {0: 1 << 31}),
    "adam": Program(
        adam, (("8, 4", F32), ("8, 4", F32), ("8, 4", F32), ("n, 8", F32), ("n, 4", F32)), N
    ),
    "attention_gradient": Program(attention_gradient, (("b, s, 32", F32),), BS),
    "conv_gradient": Program(conv_gradient, (("b, h, w, 3", F32), ("3, 3, 3, 4", F32)), HW),
    "embedding_gradient": Program(embedding_gradient, (("9, 4", F32), ("n", I32)), N, {1: 9}),
}
