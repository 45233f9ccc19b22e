# %% [markdown]
# # Compile a dynamic model
#
# `tvm_disc` compiles a model only once, even if its batch and length change with each request. This
# tutorial builds a small encoder block with Relay's builder, compiles it, runs it on several
# shapes, and prints its kernels.

# %%
import tempfile
from pathlib import Path

import numpy as np

import tvm_disc
from tvm_disc import relay

rng = np.random.default_rng(0)
hidden, heads = 32, 4


def weight(*shape):
    return relay.const((rng.standard_normal(shape) / shape[-1] ** 0.5).astype("float32"))


# %% [markdown]
# `relay.Any()` is a dim whose size is known only when the program runs. Dims with the same name are
# equal: here every `relay.Any("s")` is the same length.

# %%
x = relay.var("x", shape=(relay.Any("b"), relay.Any("s"), hidden), dtype="float32")
flat = relay.reshape(x, newshape=(-1, hidden))


def project():
    """One head projection: dense, bias, split into heads."""
    y = relay.nn.bias_add(relay.nn.dense(flat, weight(hidden, hidden)), weight(hidden))
    y = relay.reshape_like(y, x)
    y = relay.reshape(y, newshape=(0, 0, heads, hidden // heads))
    return relay.reshape(relay.transpose(y, axes=(0, 2, 1, 3)), newshape=(-3, -2))


q, k, v = project(), project(), project()
scores = relay.nn.batch_matmul(q, k, transpose_b=True)
scores = relay.multiply(scores, relay.const((hidden / heads) ** -0.5, "float32"))
mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
mixed = relay.reshape(mixed, newshape=(-4, -1, heads, -2))
mixed = relay.reshape(relay.transpose(mixed, axes=(0, 2, 1, 3)), newshape=(-1, hidden))
out = relay.reshape_like(relay.nn.dense(mixed, weight(hidden, hidden)), x)
y = relay.nn.layer_norm(relay.add(x, out), weight(hidden), weight(hidden))

# %% [markdown]
# One call compiles the model: it propagates shapes, fuses operators, generates kernels, and
# compiles the code between the kernels into one native function.

# %%
exe = tvm_disc.build(relay.Function([x], y))
print(exe.signature)
print(f"{len(exe.launches)} kernel calls, compiled in {sum(exe.timings.values()):.1f} s")

# %% [markdown]
# The same program serves every shape, including an empty batch.

# %%
for shape in ((1, 1), (2, 7), (3, 64), (0, 5)):
    value = rng.standard_normal((*shape, hidden)).astype("float32")
    result = exe(value)
    print(shape, "->", result.shape)
    assert result.shape == value.shape and np.isfinite(result).all()

# %% [markdown]
# Q, K and V share their operand, so their products were merged into one wide matrix product.
# Scores, softmax and the product with V are one attention kernel. Layer norm is fused with the
# residual addition. Splitting and merging heads only changes index computations inside the
# products.

# %%
print(exe.launches)
assert sum(name.startswith("attention") for name in exe.launches) == 1
assert len(exe.launches) == 4
print(exe.explain({"x": (2, 7, hidden)}).split("not fused")[0])

# %% [markdown]
# A saved program is one shared library that needs only TVM's runtime.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "block.so"
    exe.save(path)
    again = tvm_disc.load(path)
    value = rng.standard_normal((2, 9, hidden)).astype("float32")
    np.testing.assert_array_equal(again(value), exe(value))
    print(f"{path.name}: {path.stat().st_size // 1024} KiB, {again.signature[0]}")
