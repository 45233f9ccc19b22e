# %% [markdown]
# # A Hugging Face model as a library, in ten statements
#
# This tutorial compiles a model of `transformers` once, for every batch and every length, and saves
# it as one shared library. It needs PyTorch and transformers. The weights are random, so nothing is
# downloaded.

# %%
import tempfile
import time
from pathlib import Path

import torch
import transformers

import tvm_disc

torch.manual_seed(0)
torch.set_num_threads(1)

# %% [markdown]
# These are the ten statements. `example_inputs` are arguments of the model, by name and of any
# size.
# `dynamic_shapes` names the dynamic axes, in PyTorch's format.

# %%
config = transformers.BertConfig(
    vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=128, max_position_embeddings=128,
)  # fmt: skip
model = transformers.BertModel(config).eval()
ids = torch.randint(0, 1000, (2, 16))
inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("words", max=128)}
shapes = dict.fromkeys(inputs, axes)
exe = tvm_disc.build(model, example_inputs=inputs, dynamic_shapes=shapes)
folder = tempfile.TemporaryDirectory()
library = Path(folder.name) / "bert.so"
exe.save(library)

# %% [markdown]
# The inputs of the program have their names in the model, and the dims the names given above.

# %%
for name, dims, dtype in exe.signature:
    print(f"{name}: {dtype}[{', '.join(dims)}]")
print(f"{len(exe.launches)} kernel calls")

# %% [markdown]
# ```text
# input_ids: int64[batch, words]
# attention_mask: int64[batch, words]
# ... kernel calls
# ```
#
# `load` reads the library; the model is not needed. If the inputs are PyTorch tensors, the results
# are PyTorch tensors, without copies; if they are NumPy arrays, the results are NumPy arrays.
# Results have the names that the model gives them. The same code serves all lengths from 1 to 128.

# %%
served = tvm_disc.load(library)
for batch, words in ((1, 1), (2, 7), (3, 33), (1, 128)):
    ids = torch.randint(0, 1000, (batch, words))
    mask = torch.ones_like(ids)
    with torch.no_grad():
        wanted = model(ids, mask)
    result = served(input_ids=ids, attention_mask=mask)
    hidden, pooled = result["last_hidden_state"], result["pooler_output"]
    error = float((hidden - wanted.last_hidden_state).abs().max())
    assert error < 1e-5 and torch.allclose(pooled, wanted.pooler_output, atol=1e-5)
    print(f"{batch} x {words}: {tuple(hidden.shape)}, largest error below 1e-5")

# %% [markdown]
# ```text
# 1 x 1: (1, 1, 64), largest error below 1e-5
# 2 x 7: (2, 7, 64), largest error below 1e-5
# 3 x 33: (3, 33, 64), largest error below 1e-5
# 1 x 128: (1, 128, 64), largest error below 1e-5
# ```
#
# The model has a table of 128 positions. A call with more words is refused before any computation;
# the error names the input and the axis.

# %%
long = torch.zeros(1, 129, dtype=torch.int64)
try:
    served(input_ids=long, attention_mask=torch.ones_like(long))
except tvm_disc.DiscError as error:
    print(error)
else:
    raise AssertionError("a length beyond the table was not refused")

# %% [markdown]
# ```text
# words <= 128 must hold (words: input 'input_ids' axis 1); found input_ids: int64[1, 129]...
# ```
#
# The last part compares the time of a call with PyTorch. A call with a new shape compiles nothing.
# The speedup is largest for small models, because most of PyTorch's time is then spent between
# kernels.

# %%


def milliseconds(call, repeat=20):
    """Return the minimum time of some calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


ids = torch.randint(0, 1000, (1, 17))
mask = torch.ones_like(ids)
served.threads = 1
with torch.no_grad():
    theirs = milliseconds(lambda: model(ids, mask))
ours = milliseconds(lambda: served(ids, mask))
print(f"1 x 17 on one thread: {ours:.2f} ms, PyTorch {theirs:.2f} ms")
