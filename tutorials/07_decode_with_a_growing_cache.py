# %% [markdown]
# # Decoding with a growing key-value cache
#
# A decoder computes the keys and values of every token once and caches them. The shapes of its
# inputs therefore change with every step: the cache is empty at first and grows by one token per
# step. This tutorial compiles a small PyTorch decoder once. The same program processes a prompt of
# any length with an empty cache, and then one token at a time.

# %%
import time

import torch
from torch import nn
from torch.nn import functional

import tvm_disc
from tvm_disc.compile import compile_counter

VOCABULARY, WIDTH, HEADS, LAYERS, POSITIONS = 200, 64, 4, 2, 256
torch.manual_seed(0)
torch.set_num_threads(1)

# %% [markdown]
# The decoder takes `tokens` new tokens and the keys and values of `past` earlier ones; both may
# have any size. A query attends to the past and to the new tokens up to its own position.


# %%
class Block(nn.Module):
    """Attention over past and new tokens, and a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, visible, keys, values):
        batch, tokens, _ = x.shape
        split = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        mixed = functional.scaled_dot_product_attention(q, keys, values, attn_mask=visible)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        x = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return x, keys, values


class Decoder(nn.Module):
    """Scores of the next token at every position, and the cache extended by the new tokens."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, *cache):
        past, tokens = cache[0].shape[2], ids.shape[1]
        place = torch.arange(past, past + tokens)
        visible = torch.arange(past + tokens)[None, :] <= place[:, None]
        x = self.words(ids) + self.places(place)
        grown = []
        for block, keys, values in zip(self.blocks, cache[::2], cache[1::2], strict=True):
            x, *kept = block(x, visible, keys, values)
            grown += kept
        return self.head(self.norm(x)), *grown


model = Decoder().eval()

# %% [markdown]
# Build once. `batch`, `tokens` and `past` are symbolic dims; the sum of the last two is the length
# of the resulting cache.

# %%
batch, tokens, past = (torch.export.Dim(n) for n in ("batch", "tokens", "past"))
ids = torch.randint(0, VOCABULARY, (2, 5))
cache = [torch.randn(2, HEADS, 3, WIDTH // HEADS) for _ in range(2 * LAYERS)]
shapes = {"ids": {0: batch, 1: tokens}, "cache": ({0: batch, 2: past},) * len(cache)}
with compile_counter() as compiled:
    exe = tvm_disc.build(model, example_inputs=(ids, *cache), dynamic_shapes=shapes)
exe.threads = 1
for name, dims, dtype in exe.signature[:2]:
    print(f"{name}: {dtype}[{', '.join(dims)}]")

# %% [markdown]
# ```text
# ids: int64[batch, tokens]
# cache_0: float32[batch, 4, past, 16]
# ```
#
# In the decoding loop, the first step passes the whole prompt and an empty cache of length 0. Each
# later step passes one token and the cache that the previous step returned. Tensors are passed and
# returned without copies.

# %%
prompt = torch.randint(0, VOCABULARY, (1, 6))
text, lengths, times = prompt, [], []
new, cache = prompt, [torch.zeros(1, HEADS, 0, WIDTH // HEADS)] * (2 * LAYERS)
for _ in range(40):
    lengths.append(cache[0].shape[2])
    start = time.perf_counter()
    scores, *cache = exe(new, *cache)
    times.append(time.perf_counter() - start)
    new = scores[:, -1:].argmax(-1)
    text = torch.cat([text, new], dim=1)
print("cache before each step:", *lengths[:5], "...", lengths[-1])
print("tokens:", text.shape[1], "- compiled", compiled[0], "time")

# %% [markdown]
# ```text
# cache before each step: 0 6 7 8 9 ... 44
# tokens: 46 - compiled 1 time
# ```
#
# Check the result: PyTorch processes the whole text at once, without a cache. It must compute the
# scores of the last step, and choose the same token as the loop at every position.

# %%
with torch.no_grad():
    nothing = [torch.zeros(1, HEADS, 0, WIDTH // HEADS)] * (2 * LAYERS)
    wanted, *_ = model(text[:, :-1], *nothing)
error = float((scores[:, -1] - wanted[:, -1]).abs().max())
assert error < 1e-4 and torch.equal(wanted[:, 5:].argmax(-1), text[:, 6:])
print("the same text; largest error of the last scores below 1e-4")

# %% [markdown]
# ```text
# the same text; largest error of the last scores below 1e-4
# ```
#
# The same program also processes several tokens with a cache that is not empty, which speculative
# decoding and chunked prefill require, and batches of several sequences.

# %%
for rows, pieces in ((1, (10, 10, 3)), (3, (1, 7, 1, 20))):
    whole = torch.randint(0, VOCABULARY, (rows, sum(pieces)))
    cache, at = [torch.zeros(rows, HEADS, 0, WIDTH // HEADS)] * (2 * LAYERS), 0
    for length in pieces:
        scores, *cache = exe(whole[:, at : at + length], *cache)
        at += length
    with torch.no_grad():
        empty = [torch.zeros(rows, HEADS, 0, WIDTH // HEADS)] * (2 * LAYERS)
        wanted, *_ = model(whole, *empty)
    assert torch.allclose(scores, wanted[:, -pieces[-1] :], atol=1e-4)
    print(f"{rows} x {pieces}: as in one piece")

# %% [markdown]
# ```text
# 1 x (10, 10, 3): as in one piece
# 3 x (1, 7, 1, 20): as in one piece
# ```
#
# Each step above copies the whole cache to extend it. `Options(state=...)` names the inputs that
# are caches. The program then extends the caches in place, in memory of the object `state`
# (docs/state.md). `truncate` removes the last tokens, for example rejected drafts of speculative
# decoding. `fork` returns an independent state with the same tokens.

# %%
with_state = tvm_disc.Options(state=["cache_*"])
owned = tvm_disc.build(
    model, example_inputs=(ids, *cache), dynamic_shapes=shapes, options=with_state
)
state = owned.state(batch=1)
new, again = prompt, prompt
for _ in range(40):
    new = state(ids=new)[:, -1:].argmax(-1)
    again = torch.cat([again, new], dim=1)
assert torch.equal(again, text)
other = state.fork()
other.truncate(prompt.shape[1])
print(f"the same text; caches of {state.length} and {other.length} rows")

# %% [markdown]
# ```text
# the same text; caches of 45 and 6 rows
# ```
#
# The last part compares the time of a step with PyTorch, on one thread and with caches of about the
# same lengths.

# %%
cache, theirs = [torch.zeros(1, HEADS, 0, WIDTH // HEADS)] * (2 * LAYERS), []
with torch.no_grad():
    for k in range(text.shape[1]):
        start = time.perf_counter()
        _, *cache = model(text[:, k : k + 1], *cache)
        theirs.append(time.perf_counter() - start)
middle = sorted(times)[len(times) // 2], sorted(theirs)[len(theirs) // 2]
print(f"a step: {1e3 * middle[0]:.2f} ms, PyTorch {1e3 * middle[1]:.2f} ms")
