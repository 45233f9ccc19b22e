# %% [markdown]
# # A schedule of your own, and how to read a dispatch tree
#
# A *template* turns a group of fused operators into a kernel for every shape. It may do so in
# several ways: each is a *variant*, and a decision tree over the dims picks one per call. This
# tutorial writes a template for element-wise work with two variants, looks at the tree that a cost
# model grows, measures, and looks again.

# %%
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import WhyNot
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.kernel import Plan
from tvm_disc.tir.builder import i64, ramp
from tvm_disc.tir.index import product

rng = np.random.default_rng(0)

# %% [markdown]
# Three things make a template: a test whether it takes the group, the number of independent *tasks*
# (ours are blocks of 1024 elements; threads share them), and a body that computes tasks `lo` to
# `hi`.
#
# `group.nodes` are the operators, `group.params` what is read and `group.outputs` what is written;
# every node has a `shape`, whose dims may be symbols. `solver` answers what is known about them. A
# template that does not fit says so as a value, `WhyNot`: the next one is asked.
#
# In the body, `low.at(node, index)` is the value of a node at a position: it follows the graph down
# to loads, so a template never names an operator. A position may be a whole vector (`ramp`:
# consecutive ones), and then the value is one. What is left over after whole vectors is done one by
# one.

# %%
BLOCK = 1024


@dataclass(frozen=True)
class Steps(Knobs):
    """How many vector registers one step of the loop fills."""

    vectors: int


def flat(group, solver, machine):
    """One pass over tensors that all have the same shape."""
    shape = tuple(group.outputs[0].shape)
    if not all(solver.known_same_shape(n.shape, shape) for n in (*group.params, *group.nodes)):
        return WhyNot("flat", "not everything has the same shape")
    elements = product(shape)

    def body_of(vectors):
        wide = machine.lanes * vectors

        def body(body):
            block, low = body.block, body.low

            def store(at):
                index = low.space.split(at, shape)
                for node, buffer in zip(group.outputs, body.outputs, strict=True):
                    low.store(buffer, at, low.at(node, index), node.dtype)

            begin = block.bind("begin", body.lo * BLOCK)
            end = block.bind("end", tirx.min(body.hi * BLOCK, elements))
            steps = block.bind("steps", tirx.truncdiv(end - begin, i64(wide)))
            with low.loop("step", steps) as step:
                store(ramp(begin + step * wide, wide))
            rest = block.bind("rest", begin + steps * wide)
            with low.loop("k", end - rest, begin=rest) as k:
                store(k)

        return body

    operations = sum(n.row.cost for n in group.nodes)
    return [
        Plan(
            tasks=tirx.floordiv(elements + (BLOCK - 1), i64(BLOCK)),
            work=elements * operations,
            emit=body_of(vectors),
            knobs=Steps(vectors),
            notes={"wide": f"blocks of {BLOCK}"},
        )
        for vectors in (1, 4)
    ]


# %% [markdown]
# `Options(templates=...)` puts it before ours, for groups of the kind `loop`. The kinds are those
# that `explain()` names beside every kernel.

# %%
x = relay.var("x", shape=(relay.Any("rows"), relay.Any("columns")), dtype="float32")
y = relay.var("y", shape=(relay.Any("rows"), relay.Any("columns")), dtype="float32")
model = relay.Function([x, y], relay.sigmoid(x) * relay.sqrt(relay.exp(y)))
options = tvm_disc.Options(templates=[("loop", flat)], threads=2)
exe = tvm_disc.build(model, options=options)
for shape in ((1, 1), (3, 7), (64, 33), (500, 100), (0, 5)):
    a, b = (rng.standard_normal(shape).astype("float32") for _ in range(2))
    np.testing.assert_allclose(exe(a, b), np.exp(b) ** 0.5 / (1 + np.exp(-a)), rtol=1e-5)
print("right:", exe.kernels)

# %% [markdown]
# ```text
# right: ['loop_multiply_0']
# ```
#
# Each plan runs on one thread or on two, so there are four variants. Which are kept, and which of
# them a call takes, is the *dispatch tree*. `explain()` prints it behind `runs:`,
# `Executable.dispatch` has it as plain values: a question about the dims of the call, what follows
# if the answer is yes, what if it is no; a leaf is the variant that runs, by its template, knobs
# and threads.

# %%


def show(tree, indent=""):
    """A dispatch tree as nested questions."""
    if "run" in tree:
        run = tree["run"]
        return f"{indent}{run['family']} {run['knobs']} on {run['parts']} threads"
    lines = [f"{indent}if {tree['if']} < {tree['below']}:", show(tree["then"], indent + "  ")]
    return "\n".join([*lines, f"{indent}else:", show(tree["else"], indent + "  ")])


for found in exe.dispatch.values():
    print(show(found))

# %% [markdown]
# ```text
# if ... < ...:
#   flat {'vectors': 1} on 1 threads
# else:
#   flat {'vectors': 1} on 2 threads
# ```
#
# So far nothing was measured. The cost model takes `work`, `tasks` and the bytes moved, which are
# the same for both plans: it asks only whether there is work enough to wake a second thread, and
# keeps the plan that stands first. (A plan may give a `cost` of its own.)
#
# `tune` measures every variant at some shapes. From the times a tree is grown that loses the least
# against the best variant at each shape.

# %%
folder = tempfile.TemporaryDirectory()
records = Path(folder.name) / "here.jsonl"
shapes = {"rows": [1, 16, 256], "columns": range(1, 513)}
measured = tvm_disc.tune(
    model, records=records, shapes=shapes, options=options, points=6, budget_s=20, progress=False
)
tuned = tvm_disc.build(
    model,
    options=tvm_disc.Options(templates=[("loop", flat)], threads=2, records=records),
)
print(f"{len(records.read_text().splitlines())} lines of times")
for found in tuned.dispatch.values():
    print(show(found))

# %% [markdown]
# ```text
# ... lines of times
# ```
#
# On most machines the tree now names `vectors=4` (four vectors in flight hide the latency of the
# arithmetic), perhaps beside `vectors=1` for few elements. It is in the program, as branches:
# nothing is looked up when a call comes.
#
# A group that does not fit goes to the template that stands next, ours. Here the bias has fewer
# elements than the sum, and the reason is among the kernel's notes.

# %%
bias = relay.const(rng.standard_normal(8).astype("float32"))
z = relay.var("z", shape=(relay.Any("rows"), 8), dtype="float32")
other = tvm_disc.build(relay.Function([z], relay.tanh(z + bias)), options=options)
print(next(line.strip() for line in other.explain().splitlines() if "not flat" in line))
assert "template: loop" in other.explain()

# %% [markdown]
# ```text
# not flat: not everything has the same shape
# ```
#
# Our templates are written the same way: `tvm_disc/schedules/select.py` has them in order, by kind.
# `tvm_disc/schedules/dispatch/variant.py` says what else a plan may hold: facts it `needs`, scratch
# memory, weights that are packed when the program is compiled, stages.
