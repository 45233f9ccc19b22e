# %% [markdown]
# # `torch.compile` with the tvm_disc backend
#
# `torch.compile` captures the graphs of tensor operators in a model, and passes each graph to a
# backend. `backend="tvm_disc"` compiles each graph to one program for all sizes. Operators that
# cannot be compiled run in PyTorch, and the log gives the reason. The model is not changed. This
# tutorial needs PyTorch.

# %%
import logging
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from tvm_disc.compile import compile_counter

torch.manual_seed(0)
torch.set_num_threads(1)
logging.basicConfig(stream=sys.stdout, format="log: %(message)s")

# %% [markdown]
# The model computes scores of nine tags for each word: a convolution over the sentence, a gate, a
# norm and a linear layer.


# %%
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, 48)
        self.window = nn.Conv1d(48, 96, 3, padding=1)
        self.norm, self.tags = nn.LayerNorm(48), nn.Linear(48, 9)

    def forward(self, ids):
        x = self.words(ids)
        near, gate = self.window(x.transpose(1, 2)).transpose(1, 2).chunk(2, dim=-1)
        x = self.norm(x + near * torch.sigmoid(gate))
        return functional.log_softmax(self.tags(x), dim=-1)


model = Tagger().eval()
fast = torch.compile(model, backend="tvm_disc", dynamic=True)

# %% [markdown]
# The backend is registered under its name when tvm_disc is installed. `dynamic=True` makes all
# sizes dynamic from the start. Only the first call compiles. Programs are for inference and need
# `torch.no_grad()`; PyTorch computes gradients.

# %%
with torch.no_grad(), compile_counter() as compiled:
    for batch, words in ((2, 9), (3, 17), (8, 64), (5, 2), (2, 200)):
        ids = torch.randint(0, 500, (batch, words))
        torch.testing.assert_close(fast(ids), model(ids), rtol=1e-4, atol=1e-5)
        print(f"{batch} x {words}: as PyTorch")
print("compiled", compiled[0], "time")

# %% [markdown]
# ```text
# 2 x 9: as PyTorch
# 3 x 17: as PyTorch
# 8 x 64: as PyTorch
# 5 x 2: as PyTorch
# 2 x 200: as PyTorch
# compiled 1 time
# ```
#
# PyTorch captures another graph for a size of 1, and another one for a call in which two sizes
# differ that were equal before. Each graph is compiled. `tvm_disc.build` compiles one program for
# all of these cases.

# %%
with torch.no_grad(), compile_counter() as compiled:
    one = torch.randint(0, 500, (1, 12))
    torch.testing.assert_close(fast(one), model(one), rtol=1e-4, atol=1e-5)
print("for a batch of 1: compiled", compiled[0], "time")

# %% [markdown]
# ```text
# for a batch of 1: compiled 1 time
# ```
#
# An unsupported operator is not an error. This model draws random numbers, which `tvm_disc` does
# not support. Only this node runs in PyTorch; the log names the node and its line. All other nodes
# are compiled.


# %%
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.tagger = model

    def forward(self, ids):
        scores = self.tagger(ids)
        return scores + torch.randn_like(scores)


with torch.no_grad():
    noisy = torch.compile(Noisy().eval(), backend="tvm_disc", dynamic=True)
    print("noisy:", tuple(noisy(torch.randint(0, 500, (2, 9))).shape))

# %% [markdown]
# ```text
# log: torch.compile: 1 of 16 nodes runs in PyTorch: 1 node of the PyTorch program cannot be ...
# ...
# noisy: (2, 9, 9)
# ```
#
# Tensors are passed and returned without copies. A call still evaluates PyTorch's guards, which
# take most of the time of a small model. A program of `tvm_disc.build` has no such guards
# (tutorial 6).

# %%
ids = torch.randint(0, 500, (4, 31))


def milliseconds(call, repeat=20):
    """Return the minimum time of some calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call(ids)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


with torch.no_grad():
    print(f"4 x 31: {milliseconds(fast):.2f} ms, PyTorch {milliseconds(model):.2f} ms")
