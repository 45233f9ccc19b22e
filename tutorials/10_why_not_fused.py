# %% [markdown]
# # Why was this not fused?
#
# A kernel that is not fused writes its result to memory, and the next kernel reads it. The compiler
# fuses operators if that is proved safe and expected to be faster. It records every refusal with
# its reason. This tutorial explains such reasons, and shows in which cases a constraint helps.

# %%
import time

import numpy as np

import tvm_disc
from tvm_disc import relay

rng = np.random.default_rng(0)


def weight(*shape):
    return relay.const((rng.standard_normal(shape) / shape[-1] ** 0.5).astype("float32"))


def compiled(inputs, result, *constraints, versions=True):
    """Build a program and print its kernel calls and refused fusions."""
    options = tvm_disc.Options(threads=1, versions=versions)
    exe = tvm_disc.build(relay.Function(inputs, result), constraints=constraints, options=options)
    print("kernel calls:", *exe.launches)
    for why in exe.refused:
        print("not fused:", why)
    return exe


# %% [markdown]
# ## An unknown relation
#
# This model adds a residual to a dense layer. Their numbers of rows are known only at run time, and
# are two independent dims. `versions=False` compiles one general version for all legal calls.

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
# The broadcast sum was not fused into the product. A product's *epilogue* works on a tile of the
# result in registers, and needs one element of the residual for each element of the tile. As in
# NumPy, `n` and `m` may differ if one of them is 1. If `n` is 1, each row of the residual is added
# to the same row of the product, so the sum has more elements than the product.
#
# With the constraint `n == m`, the addition happens in registers. Calls that violate the
# constraint are refused; the error names the input and the axis.

# %%
constrained = compiled([x, y], added, "n == m", versions=False)
try:
    constrained(np.ones((3, 64), "float32"), np.ones((1, 64), "float32"))
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
# The constrained program is faster: the general program writes the product to memory, reads it
# again, and computes for each row which row of the residual is added.

# %%


def best_us(exe, a, b, repeat=200):
    """Return the minimum time of some calls in microseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        exe(a, b)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


a, b = (rng.standard_normal((100, 64)).astype("float32") for _ in range(2))
np.testing.assert_allclose(general(a, b), constrained(a, b), rtol=1e-5, atol=1e-5)
print(f"general {best_us(general, a, b):.1f} us, constrained {best_us(constrained, a, b):.1f} us")

# %% [markdown]
# By default, without the constraint and `versions=False`, the program has both: a *special version*
# for calls in which `n` equals `m`, selected by one comparison, and the general version.
# `explain()` prints the condition. The constraint that makes the general version unnecessary is
# under the heading `constraints that would simplify the program`.

# %%
both = compiled([x, y], added)
text = both.explain()
assert "runs the special version if all of these hold (1 comparison)" in text
heading = "constraints that would simplify the program"
print(heading + text.partition(heading)[2].partition("\n\n")[0])
lonely = rng.standard_normal((1, 64)).astype("float32")
np.testing.assert_allclose(both(a, lonely), general(a, lonely), rtol=1e-5, atol=1e-5)

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0
# constraints that would simplify the program
#   input 'x' axis 0 equals input 'y' axis 0    [add: axis 0: no broadcast is then required]
# ```
#
# ## Incompatible iteration orders
#
# Softmax over rows and softmax over columns read the same tensor, which one kernel would read only
# once. However, the sum of a row is complete after this row, and the sum of a column only after the
# last row.

# %%
compiled([x], relay.Tuple([relay.nn.softmax(x, axis=1), relay.nn.softmax(x, axis=0)]))

# %% [markdown]
# ```text
# kernel calls: row_max_0 row_max_1
# not fused: ... they reduce different axes: [0] and [1]
# ```
#
# No constraint helps here: the model itself needs two iterations.
#
# ## A value with several users
#
# A product, a softmax over columns and one more operator read `shared`. Each of their kernels could
# recompute the value. The compiler recomputes only values that are cheaper to compute than to load.
# This value is computed once and stored.

# %%
shared = relay.tanh(relay.exp(x))
columns = relay.nn.softmax(relay.transpose(shared))
compiled([x], relay.Tuple([relay.nn.dense(shared, weight(64, 64)), columns, relay.exp(shared)]))
print("and with one reader:")
compiled([x], columns)

# %% [markdown]
# ```text
# kernel calls: loop_tanh_exp_0 dot_matmul_1 row_max_2
# not fused: ... kernels read it, so it is stored
# ...
# and with one reader:
# kernel calls: row_max_0
# ```
#
# ## What to do with a reason
#
# - A relation is not known (`iteration spaces ... are not proved equal`, `its shape ... is not
#   proved equal`): state it, with the same name for both dims or with a constraint.
# - The model reads a tensor in two orders (`they reduce different axes`, `one transposes the last
#   axis`): no constraint helps; another data layout may help.
# - A limit of the heuristics was reached (`kernels read it`, `would recompute it`, `one loop would
#   access ... tensors`): docs/fusion.md lists these limits. `Options(fuse=False)` shows the effect
#   of fusion.
#
# The shortest way to state that two dims are equal is to give them the same name:

# %%
z = relay.var("z", shape=(relay.Any("n"), 64), dtype="float32")
compiled([x, z], relay.nn.dense(x, weight(64, 64)) + z)

# %% [markdown]
# ```text
# kernel calls: dot_matmul_0
# ```
