# %% [markdown]
# # A JAX encoder and its training, compiled once
#
# `jax.jit` compiles a function again for each shape of its arguments. `tvm_disc.jax.jit` exports
# the function once with symbolic dims, and compiles one program for all shapes. This tutorial
# compiles an encoder like Flax's BERT, and a training step over batches of different sizes.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import tvm_disc.jax
from tvm_disc.compile import compile_counter
from tvm_disc.errors import GuardFailed

WORDS, WIDE, HEADS, LAYERS = 100, 32, 4, 2

# %% [markdown]
# Parameters are a tree of arrays, as in Flax.


# %%
def parameters(seed: int) -> dict:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal((rows, columns)) / rows**0.5, jnp.float32)

    layers = [
        {
            "qkv": matrix(WIDE, 3 * WIDE),
            "out": matrix(WIDE, WIDE),
            "up": matrix(WIDE, 4 * WIDE),
            "down": matrix(4 * WIDE, WIDE),
            "scale": jnp.ones((2, WIDE)),
        }
        for _ in range(LAYERS)
    ]
    return {"words": matrix(WORDS, WIDE), "places": matrix(64, WIDE), "layers": layers}


def norm(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def encode(params, ids, mask):
    """Return one vector for each word: float32[b, s, WIDE]."""
    x = params["words"][ids] + params["places"][jnp.arange(ids.shape[1])]
    for p in params["layers"]:
        q, k, v = jnp.split((x @ p["qkv"]).reshape(*ids.shape, 3 * HEADS, -1), 3, 2)
        y = jax.nn.dot_product_attention(q, k, v, mask=mask[:, None, None, :])
        x = norm(x + y.reshape(x.shape) @ p["out"], p["scale"][0])
        x = norm(x + jax.nn.gelu(x @ p["up"]) @ p["down"], p["scale"][1])
    return x


# %% [markdown]
# ## Inference
#
# `dynamic` gives the shapes of arguments by name; `b` and `s` are symbols for sizes of at least 1.
# Calls with other numbers of sentences and words run the same program. Results are JAX arrays.

# %%
params = parameters(0)
shapes = {"ids": "b, s", "mask": "b, s"}
encoder = tvm_disc.jax.jit(encode, dynamic=shapes, constraints=["s <= 64"])
rng = np.random.default_rng(0)

with compile_counter() as compiled:
    for b, s in ((2, 7), (1, 1), (5, 30), (3, 64)):
        ids = jnp.asarray(rng.integers(0, WORDS, (b, s)), jnp.int32)
        mask = jnp.arange(s) < jnp.asarray(rng.integers(1, s + 1, (b, 1)))
        found = encoder(params, ids, mask)
        assert jnp.allclose(found, encode(params, ids, mask), atol=1e-4)
        print(f"{b} sentences of {s} words: float32{list(found.shape)}")
print(f"programs compiled: {compiled[0]}")

# %% [markdown]
# ```text
# 2 sentences of 7 words: float32[2, 7, 32]
# 1 sentences of 1 words: float32[1, 1, 32]
# 5 sentences of 30 words: float32[5, 30, 32]
# 3 sentences of 64 words: float32[3, 64, 32]
# programs compiled: 1
# ```
#
# The table of positions has 64 rows, so the constraint is `s <= 64`. A call with more words is
# refused before anything is computed.

# %%
try:
    encoder(params, jnp.zeros((1, 65), jnp.int32), jnp.ones((1, 65), bool))
except GuardFailed as error:
    print(str(error).partition(";")[0])

# %% [markdown]
# ```text
# s <= 64 must hold (s: input 'ids' axis 1)
# ```
#
# ## Training
#
# A training step, with gradients and an optimizer, is also a function that can be compiled. Here
# the model learns to predict hidden words. Sentences have different lengths, so batches have
# different shapes.


# %%
def loss(params, ids, hidden, mask):
    x = encode(params, jnp.where(hidden, 0, ids), mask)
    scores = jax.nn.log_softmax(x @ params["words"].T)
    found = jnp.take_along_axis(scores, ids[..., None], -1)[..., 0]
    wanted = hidden & mask
    return -(found * wanted).sum() / jnp.maximum(wanted.sum(), 1)


def step(params, state, ids, hidden, mask):
    """Return the loss, and parameters and state after a step of Adam."""
    value, gradient = jax.value_and_grad(loss)(params, ids, hidden, mask)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradient)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["square"], gradient)
    params = jax.tree.map(lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-6), params, mean, square)
    return value, params, {"mean": mean, "square": square}


batch = {"ids": "b, s", "hidden": "b, s", "mask": "b, s"}
train = tvm_disc.jax.jit(step, dynamic=batch, donate_argnums=(0, 1))


# %% [markdown]
# In this data, a sentence repeats one word, so the visible words determine the hidden ones.


# %%
def ragged_batch(rng):
    lengths = rng.integers(4, 20, rng.integers(2, 9))
    s = lengths.max()
    ids = np.repeat(rng.integers(1, WORDS, (len(lengths), 1)), s, 1).astype("int32")
    mask = np.arange(s) < lengths[:, None]
    return ids, rng.random(ids.shape) < 0.2, mask


zeros = jax.tree.map(jnp.zeros_like, params)
state = {"mean": zeros, "square": jax.tree.map(jnp.copy, zeros)}
params = jax.tree.map(jnp.copy, params)
shapes, losses = set(), []
with compile_counter() as compiled:
    for _ in range(200):
        ids, hidden, mask = ragged_batch(rng)
        value, params, state = train(params, state, ids, hidden, mask)
        shapes.add(ids.shape)
        losses.append(float(value))
print(f"programs compiled for {len(shapes)} shapes: {compiled[0]}")
first, last = np.mean(losses[:20]), np.mean(losses[-20:])
print("the loss fell by more than a fifth:", bool(last < 0.8 * first))

# %% [markdown]
# ```text
# programs compiled for ... shapes: 1
# the loss fell by more than a fifth: True
# ```
#
# ## Without JAX
#
# A saved program is a library that needs neither JAX nor the compiler. Its inputs are the leaves of
# the arguments, in JAX's order.

# %%
encoder.program(params, ids, mask).save("encoder.so")
print(tvm_disc.load("encoder.so").inputs[-2:])

# %% [markdown]
# ```text
# ['ids', 'mask']
# ```
