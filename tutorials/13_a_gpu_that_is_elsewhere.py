# %% [markdown]
# # Compile on a laptop, run on a GPU
#
# A program for an NVIDIA GPU can be compiled on a machine without a GPU and without a driver. TVM
# generates CUDA C, and NVIDIA's run-time compiler (`pip install 'tvm_disc[cuda]'`) compiles it to
# machine code. One library contains this code and the compiled host program. The machine with the
# GPU needs TVM's runtime and NVIDIA's driver. If the run-time compiler or a GPU is missing, this
# tutorial ends with a message at the step that needs it.

# %%
import tempfile
from pathlib import Path

import numpy as np

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import DeviceError, Unsupported

# %% [markdown]
# The model is the same as for any other target: dynamic dims, and no device annotations.

# %%
rng = np.random.default_rng(0)
weight = (rng.standard_normal((512, 64)) / 8).astype("float32")
x = relay.var("x", shape=(relay.Any("rows"), 64), dtype="float32")
model = relay.Function([x], relay.nn.softmax(relay.nn.dense(x, relay.const(weight))))

# %% [markdown]
# `target="cuda"` generates machine code for `sm_80` and `sm_90`, and portable code (PTX) for newer
# GPUs. Other architectures are selected as in `"cuda -arch=sm_86,sm_89"`.

# %%
try:
    exe = tvm_disc.build(model, target="cuda -arch=sm_80,sm_90")
except Unsupported as error:
    print(f"stops here: {error}")
    raise SystemExit(0) from None
print(exe)

# %% [markdown]
# ```text
# <tvm_disc program (x: float32[rows, 64]) -> (float32[rows, 512])>
# ```
#
# Kernels have variants, and a decision tree selects one per call, as on a CPU. Here a product of
# few rows is computed element by element, and one of many rows in tiles, or by cuBLASLt if it is
# installed.

# %%
text = str(exe.explain())
print(text[text.index("dot_") :])

# %% [markdown]
# ```text
# dot_...
# ...
#       template: product
# ...
# ```
#
# The saved program contains code for all selected architectures. The first call loads the code for
# the device. If the program has no code for the device, the error names the device and a target
# that would work.

# %%
folder = tempfile.TemporaryDirectory()
library = Path(folder.name) / "layer.so"
exe.save(library)
print(f"saved {library.name}")

# %% [markdown]
# ```text
# saved layer.so
# ```
#
# On the machine with the GPU, `tvm_disc.load` loads the file. NumPy arrays are copied to the device
# and results back. Device tensors are used without a copy (DLPack); a call is enqueued on PyTorch's
# current stream and does not synchronize:
#
# ```python
# import torch, tvm_ffi
# exe = tvm_disc.load("layer.so")
# x = torch.randn(1000, 64, device="cuda")
# with tvm_ffi.use_torch_stream():
#     y = torch.from_dlpack(exe(x))
# ```

# %%
loaded = tvm_disc.load(library)
rows = rng.standard_normal((1000, 64)).astype("float32")
try:
    found = loaded(rows)
except DeviceError as error:
    print(f"stops here: {error}")
else:
    wanted = np.exp(rows @ weight.T)
    wanted /= wanted.sum(-1, keepdims=True)
    print("largest difference:", float(np.abs(found - wanted).max()))
