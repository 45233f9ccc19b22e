# %% [markdown]
# # The passes in your own pipeline, compared with Relax's VM
#
# All graph passes are ordinary `tvm.transform` passes. They accept Relay modules as well as Relax
# modules. This tutorial adds a custom pass to a pipeline and to `build`, and compares the results
# with those of TVM's virtual machine for the same module.

# %%
import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import is_op, rewrite_call, wildcard

import tvm_disc
from tvm_disc import relay, relay_passes

rng = np.random.default_rng(0)
x = relay.var("x", shape=(relay.Any(), 32), dtype="float32")
w = relay.const(rng.standard_normal((64, 32)).astype("float32"))
module = relay.IRModule.from_expr(
    relay.Function([x], relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, w))))
)
imported = relay.to_relax(module)
print(imported.script())

# %% [markdown]
# TVM's own pipeline compiles the imported module into bytecode for its VM.

# %%
target = tvm.target.Target("llvm")
vm = relax.VirtualMachine(relax.build(imported, target), tvm.cpu())
exe = tvm_disc.build(module)
for n in (1, 7, 100):
    value = rng.standard_normal((n, 32)).astype("float32")
    expected = vm["main"](tvm.runtime.tensor(value)).numpy()
    np.testing.assert_allclose(exe(value), expected, rtol=1e-4, atol=1e-6)

# %% [markdown]
# The custom pass runs before and after fusion. `PropagateShapeConstraints` must be first: it
# translates the Relay module to Relax, and attaches the facts about dims to the Relax module.

# %%


@tvm.transform.module_pass(opt_level=0, name="CountFunctions")
def count_functions(mod, ctx):
    print("functions:", sorted(str(gv.name_hint) for gv in mod.get_global_vars()))
    return mod


propagate = relay_passes.PropagateShapeConstraints(constraints=["x_0 <= 4096"])
pipeline = tvm.transform.Sequential(
    [
        propagate,
        relay_passes.DecomposeComposite(),
        relay_passes.NarrowWeights(),
        relay_passes.Simplify(),
        relay_passes.MergeProducts(),
        relay_passes.ChannelsLast(),
        count_functions,
        relay_passes.FuseDISC(),
        count_functions,
    ]
)
fused = pipeline(module)
assert len(fused.get_global_vars()) == 3
print(propagate.solver.describe())

# %% [markdown]
# `build` runs these passes and others, and runs your passes before or after any of them.
# `tvm_disc.compile.STAGES` lists the names. `exe.timings` has an entry for each of your passes.

# %%
exe = tvm_disc.build(module, passes={"after simplify": count_functions})
assert "after simplify" in exe.timings
print(exe(rng.standard_normal((7, 32)).astype("float32")).shape)

# %% [markdown]
# A pass may also change the program. This one replaces every relu by relu6, which quantized
# networks use. TVM's pattern language finds the calls. The new module keeps the facts about dims,
# and the clip is still fused with the product.

# %%


@tvm.transform.module_pass(opt_level=0, name="CutRelu")
def cut_relu(mod, ctx):
    operand = wildcard()
    relu = is_op("relax.nn.relu")(operand)
    main = rewrite_call(relu, lambda call, found: relax.op.clip(found[operand], 0, 6), mod["main"])
    mod = mod.clone()
    mod["main"] = main
    return mod


x = relay.var("x", shape=(relay.Any("n"), 32), dtype="float32")
function = relay.Function([x], relay.nn.relu(relay.nn.dense(x, w)))
plain = tvm_disc.build(function)
cut = tvm_disc.build(function, passes={"after simplify": cut_relu})
value = 4 * rng.standard_normal((9, 32)).astype("float32")
assert plain(value).max() > 6
np.testing.assert_allclose(cut(value), np.minimum(plain(value), 6), rtol=1e-5)
print("largest:", cut(value).max(), "- kernel calls:", cut.launches)

# %% [markdown]
# ```text
# largest: 6.0 - kernel calls: ['dot_matmul_0']
# ```
#
# The result of a pass is checked: a module without `main`, or one that is not well formed, ends the
# build with an error that names the stage. `tvm-disc build --dump DIR` writes the module after
# every stage, including your passes.
