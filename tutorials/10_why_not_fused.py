# %% [markdown]
# # Why was this not fused?
#
# A kernel that is not fused writes its result to memory for the next one to read. The compiler
# fuses what it can prove to be safe and expects to pay, and records every refusal with its reason.
# This tutorial reads such reasons, and shows when a constraint changes the outcome and when nothing
# should.

# %%
import time

import numpy as np

import tvm_disc
from tvm_disc import relay

rng = np.random.default_rng(0)


def weight(*shape):
    return relay.const((rng.standard_normal(shape) / shape[-1] ** 0.5).astype("float32"))


def compiled(inputs, result, *constraints, versions=True):
    """A program, its kernel calls and its refusals printed."""
    options = tvm_disc.Options(threads=1, versions=versions)
    exe = tvm_disc.build(relay.Function(inputs, result), constraints=constraints, options=options)
    print("kernel calls:", *exe.launches)
    for why in exe.refused:
        print("not fused:", why)
    return exe


# %% [markdown]
# ## A relation that nobody told
#
# A residual is added to a dense layer. Both have a number of rows that is known only when the
# program runs, and each is a dim of its own. `versions=False` asks for one program for all legal
# calls.

# %%
x = relay.var("x", shape=(relay.Any("n"), 64), dtype="float32")
y = relay.var("y", shape=(relay.Any("m"), 64), dtype="float32")
added = relay.nn.dense(x, weight(64, 64)) + y
general = compiled([x, y], added, versions=False)

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0 loop_add_1
# not fused: ... cannot be fused as an epilogue: it is not element-wise
# ```
#
# Read it so: the sum, which is broadcast, was not taken into the kernel of the product. `n` and `m`
# may differ if one of them is 1, as in NumPy; then a tile of the product is added to many rows, or
# many tiles to one. A product's *epilogue* works on a tile while it is in registers, and needs one
# element of the residual for each.
#
# Say that they are equal, and the addition happens in registers. Calls that break the promise are
# refused by input and axis.

# %%
told = compiled([x, y], added, "n == m", versions=False)
try:
    told(np.ones((3, 64), "float32"), np.ones((1, 64), "float32"))
except tvm_disc.DiscError as error:
    print(error)
else:
    raise AssertionError("the constraint was not checked")

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0
# n == m must hold (n: input 'x' axis 0, m: input 'y' axis 0); found ...
# ```
#
# What that is worth: the general program writes the product and reads it again, and asks for each
# row whether there is one to add.

# %%


def best_us(exe, a, b, repeat=200):
    """The best of some calls, in microseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        exe(a, b)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


a, b = (rng.standard_normal((100, 64)).astype("float32") for _ in range(2))
np.testing.assert_allclose(general(a, b), told(a, b), rtol=1e-5, atol=1e-5)
print(f"general {best_us(general, a, b):.1f} us, told {best_us(told, a, b):.1f} us")

# %% [markdown]
# Without the constraint and without `versions=False`, the default, you get both: a *special
# version* for calls in which `n` equals `m`, chosen by one comparison, beside the general one.
# `explain()` names its premise, and under `would help` what to tell the compiler to be rid of the
# other.

# %%
both = compiled([x, y], added)
text = both.explain()
assert "special version, used if these conditions hold (1 comparison per call)" in text
print("would help" + text.partition("would help")[2].partition("\n\n")[0])
lonely = rng.standard_normal((1, 64)).astype("float32")
np.testing.assert_allclose(both(a, lonely), general(a, lonely), rtol=1e-5, atol=1e-5)

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0
# would help
#   input 'x' axis 0 equals input 'y' axis 0    [add: axis 0: no broadcast]
# ```
#
# ## Two walks that do not fit
#
# Softmax over rows and softmax over columns read the same tensor. One kernel would read it once.
# But a row's sum is complete after the row, a column's only after the last row.

# %%
compiled([x], relay.Tuple([relay.nn.softmax(x, axis=1), relay.nn.softmax(x, axis=0)]))

# %% [markdown]
# ```text
# kernel calls: row_max_0 row_max_1
# not fused: ... they reduce different axes
# ```
#
# No constraint helps here: it is the model.
#
# ## A value that several read
#
# `shared` is read by a product, by a softmax over columns and by one more operator. Each could
# compute it again for itself; that is done for values of a few operations, which cost less than
# reading them. This one is computed once, and stored.

# %%
shared = relay.tanh(relay.exp(x))
columns = relay.nn.softmax(relay.transpose(shared))
compiled([x], relay.Tuple([relay.nn.dense(shared, weight(64, 64)), columns, relay.exp(shared)]))
print("and with one reader:")
compiled([x], columns)

# %% [markdown]
# ```text
# kernel calls: loop_tanh_0 dot_matmul_1 row_max_2
# not fused: ... kernels read it
# ...
# and with one reader:
# kernel calls: row_max_0
# ```
#
# ## What to do with a reason
#
# - A relation is not known (`domains are not proved equal`, `broadcast_to ... does not follow`,
#   `not row-wise`): tell it, by the same name for both dims or by a constraint.
# - The model reads in two ways (`they reduce different axes`, `at other positions`, `a transposed
#   walk`): nothing can be told; another layout of the data may help, if it is yours to choose.
# - A bound was met (`kernels read it`, `would compute it again`, `too many tensors`): it pays in
#   general, and docs/fusion.md lists it. `Options(fuse=False)` shows what all fusion is worth.
#
# The same name is the shortest way of telling:

# %%
z = relay.var("z", shape=(relay.Any("n"), 64), dtype="float32")
compiled([x, z], relay.nn.dense(x, weight(64, 64)) + z)

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0
# ```
