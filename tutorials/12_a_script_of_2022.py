# %% [markdown]
# # A script of 2022, with three names changed
#
# Relay was removed from TVM in 2025. A script that built a model with Relay's builder, bound
# parameters and ran it on Relay's virtual machine needs three other names: `from tvm_disc import
# relay` for `from tvm import relay`, `relay.IRModule` for `tvm.IRModule`, and
# `relay.vm.VirtualMachine` for `tvm.runtime.vm.VirtualMachine`. (docs/migration.md lists the
# changes of other scripts.) These are the imports:

# %%
import numpy as np
import tvm

from tvm_disc import relay  # was: from tvm import relay

# %% [markdown]
# The model has two dense layers, for any number of rows, as in the original script. Weights are
# named inputs.

# %%
data = relay.var("data", shape=(relay.Any(), 16), dtype="float32")
first = relay.var("w1", shape=(32, 16), dtype="float32")
bias = relay.var("b1", shape=(32,), dtype="float32")
second = relay.var("w2", shape=(10, 32), dtype="float32")
hidden = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(data, first), bias))
out = relay.nn.softmax(relay.nn.dense(hidden, second))
# was: tvm.IRModule.from_expr
mod = relay.IRModule.from_expr(relay.Function([data, first, bias, second], out))
print(relay.pretty_print(mod))

# %% [markdown]
# ```text
# def @main(%data: Tensor[(?, 16), float32], %w1: Tensor[(32, 16), float32], ...
#   %0 = nn.dense(%data, %w1, units=None);
#   %1 = nn.bias_add(%0, %b1);
#   %2 = nn.relu(%1);
#   %3 = nn.dense(%2, %w2, units=None);
#   nn.softmax(%3)
# }
# ```
#
# The inputs that `params` names become constants. The program accepts batches of any size. Relay's
# virtual machine interpreted bytecode; here the same calls run one native function, which is
# compiled once.

# %%
rng = np.random.default_rng(0)
params = {
    p.name_hint: rng.standard_normal([int(d) for d in p.type_annotation.shape]).astype("float32")
    for p in (first, bias, second)
}
dev = tvm.cpu(0)
exe = relay.vm.compile(mod, target="llvm", params=params)
vm = relay.vm.VirtualMachine(exe, dev)  # was: tvm.runtime.vm.VirtualMachine


def expected(x):
    y = np.maximum(x @ params["w1"].T + params["b1"], 0) @ params["w2"].T
    y = np.exp(y - y.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


for batch in (1, 3, 8, 64):
    x = rng.standard_normal((batch, 16)).astype("float32")
    result = vm.run(x)
    np.testing.assert_allclose(result.numpy(), expected(x), rtol=1e-4)
    print(f"batch {batch}: {result.shape}")

# %% [markdown]
# ```text
# batch 1: (1, 10)
# batch 3: (3, 10)
# batch 8: (8, 10)
# batch 64: (64, 10)
# ```
#
# `create_executor`, `relay.build` with a `GraphModule`, and `tvm_disc.build` are other interfaces
# to the same program. `explain()` replaces Relay's bytecode listing.

# %%
run = relay.create_executor("graph", mod, dev, "llvm", params).evaluate()
np.testing.assert_allclose(run(x).numpy(), expected(x), rtol=1e-4)
print(exe.program.explain().splitlines()[0])

# %% [markdown]
# ```text
# Program, compiled for ... (tvm_disc ..., TVM ...)
# ```
#
# A module can be saved as JSON, which is exact, or as text. Relay printed floats with six digits,
# so texts of 2022 are not exact.

# %%
again = relay.load_json(relay.save_json(mod))
assert relay.structural_equal(again, mod) and relay.structural_equal(relay.parse(mod.astext()), mod)
