# %% [markdown]
# # Requests of different lengths in one batch
#
# A server receives requests of different lengths. Engines for dense tensors pad the requests to the
# length of the longest, or run them one by one. A *ragged* program reads the rows of all requests
# from one packed array, and its kernels compute no padding. It is compiled once for all numbers of
# requests and all lengths.

# %%
import time

import numpy as np

import tvm_disc
from tvm_disc import relay

WORDS, WIDTH, HEADS = 500, 64, 4
rng = np.random.default_rng(0)


def weight(*shape):
    return relay.const((rng.standard_normal(shape) / shape[-1] ** 0.5).astype("float32"))


# %% [markdown]
# ## The model
#
# The model is written for a dense batch `[b, s]`: an embedding, an attention layer with a residual,
# and a layer norm. It does not mention ragged batches.


# %%
def heads(x):
    """Return ``x[b, s, WIDTH]`` as ``[b * HEADS, s, WIDTH / HEADS]``."""
    parts = relay.reshape(x, (0, 0, HEADS, WIDTH // HEADS))
    return relay.reshape(relay.transpose(parts, (0, 2, 1, 3)), (-3, 0, 0))


def layer(x):
    q, k, v = (heads(relay.nn.dense(x, weight(WIDTH, WIDTH))) for _ in range(3))
    scores = relay.nn.batch_matmul(q, k) * relay.const(np.float32((WIDTH // HEADS) ** -0.5))
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), relay.transpose(v, (0, 2, 1)))
    split = relay.transpose(relay.reshape(mixed, (-4, -1, HEADS, 0, 0)), (0, 2, 1, 3))
    joined = x + relay.nn.dense(relay.reshape(split, (0, 0, WIDTH)), weight(WIDTH, WIDTH))
    return relay.nn.layer_norm(joined, weight(WIDTH), weight(WIDTH))


ids = relay.var("ids", shape=(relay.Any("b"), relay.Any("s")), dtype="int64")
rows = layer(relay.take(weight(WORDS, WIDTH), ids, axis=0))
model = relay.Function([ids], relay.Tuple([rows, relay.mean(rows, axis=1)]))

# %% [markdown]
# ## Build and call
#
# `ragged={"ids": 1}` states that axis 1 of the input `ids` has a different size in each item. A
# call passes a list of arrays of any lengths. A result that has the ragged axis is a `Ragged`, a
# sequence of one array per item; a result without this axis is a tensor.

# %%
exe = tvm_disc.build(model, ragged={"ids": 1})
requests = [rng.integers(0, WORDS, n) for n in (5, 90, 1, 17)]
states, embeddings = exe(ids=requests)
print(states)
print("lengths:", *states.lengths)
print("rows of the second request:", states[1].shape, "embeddings:", embeddings.shape)

# %% [markdown]
# ```text
# Ragged(4 items, float32[113, 64])
# lengths: 5 90 1 17
# rows of the second request: (90, 64) embeddings: (4, 64)
# ```
#
# The result of each request is that of the model on this request alone. A dense program of the same
# model computes them one by one:

# %%
dense = tvm_disc.build(model)
for request, found, embedding in zip(requests, states, embeddings, strict=True):
    wanted, mean = dense(request[None])
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(embedding, mean[0], rtol=1e-5, atol=1e-5)
print("equal to calls one by one")

# %% [markdown]
# ```text
# equal to calls one by one
# ```
#
# ## Packed rows without a copy
#
# A call with a list copies the arrays into one packed array. `Ragged(values, offsets)` passes an
# array that is already packed: request i is `values[offsets[i] : offsets[i + 1]]`. The program
# checks the offsets.

# %%
packed = tvm_disc.Ragged(np.concatenate(requests), [0, 5, 95, 96, 113])
again, _ = exe(ids=packed)
np.testing.assert_array_equal(again.values, states.values)
try:
    exe(ids=tvm_disc.Ragged(packed.values, [0, 95, 5, 96, 113]))
except tvm_disc.DiscError as error:
    print(error)

# %% [markdown]
# ```text
# the offsets of 'ids' must begin with 0, must not decrease, ...
# ```
#
# ## Derived lengths
#
# A convolution with a stride changes the length of each item. The program computes the lengths and
# offsets of these results. The convolution pads each item with zeros, as if the item were alone.

# %%
x = relay.var("x", shape=(relay.Any("b"), relay.Any("s"), 16), dtype="float32")
kernel = weight(32, 16, 3)
half = relay.nn.conv1d(
    relay.transpose(x, (0, 2, 1)), kernel, strides=2, padding=(1, 1), kernel_size=3
)
audio = tvm_disc.build(relay.Function([x], relay.transpose(half, (0, 2, 1))), ragged={"x": 1})
items = [rng.standard_normal((n, 16)).astype("float32") for n in (9, 0, 4)]
print("lengths:", *audio(x=items).lengths)

# %% [markdown]
# ```text
# lengths: 5 0 2
# ```
#
# ## What is refused
#
# An operator that combines different items, or that has no rule for items of different lengths, is
# refused at build with the operator and the reason (docs/ragged.md lists the rules).

# %%
for result in (relay.sum(x, axis=0), relay.sort(x, axis=1)):
    try:
        tvm_disc.build(relay.Function([x], result), ragged={"x": 1})
    except tvm_disc.DiscError as error:
        print(str(error).splitlines()[0])

# %% [markdown]
# ```text
# ragged: sum...: it combines elements of different items
# ragged: ...: it is not supported on items of different lengths
# ```
#
# ## Time
#
# The last part measures 32 requests with lengths from 4 to 256. For the dense program, each request
# is padded to the largest length.

# %%
many = [rng.integers(0, WORDS, n) for n in np.clip(rng.lognormal(3.5, 1, 32), 4, 256).astype(int)]
longest = max(map(len, many))
padded = np.stack([np.pad(x, (0, longest - len(x))) for x in many])
packed = tvm_disc.Ragged.pack(many)


def best_ms(call):
    """Return the minimum time of some calls in milliseconds."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


mine, theirs = best_ms(lambda: exe(ids=packed)), best_ms(lambda: dense(padded))
print(f"{len(packed.values)} rows, not {padded.size}: {mine:.2f} ms, not {theirs:.2f} ms")

# %% [markdown]
# ```text
# ... rows, not ...: ... ms, not ... ms
# ```
#
# `examples/ragged_server.py` is a server that calls a ragged program with all waiting requests. It
# has a queue, limits, and a log of throughput and latency.
