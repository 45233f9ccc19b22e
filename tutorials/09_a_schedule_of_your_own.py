# %% [markdown]
# # Write your own schedule, and read a dispatch tree
#
# A *template* generates the kernel of a group of fused operators, for every shape. It may return
# several implementations, the *plans*. A plan with a number of threads is a *variant*. A decision
# tree over the dims selects one variant per call. This tutorial writes a template for element-wise
# operators with two plans, prints the tree that the cost model selects, measures the variants, and
# prints the tree again.

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
# A template is a function. It tests whether it accepts the group, and returns the number of
# independent *tasks* (here blocks of 1024 elements, which are distributed over threads), and a body
# that computes tasks `lo` to `hi`.
#
# `group.nodes` are the operators, `group.params` the inputs and `group.outputs` the results. Every
# node has a `shape`, whose dims may be symbolic; `solver` proves relations between them. A template
# that does not accept the group returns a `WhyNot`, and the next template is tried.
#
# In the body, `low.at(node, index)` returns the value of a node at an index, as an expression of
# loads and arithmetic. A template therefore contains no code for particular operators. If the index
# is a vector (`ramp`: consecutive indices), the value is a vector. The tail after the full vectors
# is computed element by element.

# %%
BLOCK = 1024


@dataclass(frozen=True)
class Steps(Knobs):
    """Number of vector registers that one iteration computes."""

    vectors: int


def flat(group, solver, machine):
    """Plan one loop over tensors that all have the same shape."""
    shape = tuple(group.outputs[0].shape)
    if not all(solver.known_same_shape(n.shape, shape) for n in (*group.params, *group.nodes)):
        return WhyNot("flat", "its tensors do not all have the same shape")
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
# With `Options(templates=...)`, the compiler tries this template before the built-in ones, for
# groups of the kind `loop`. `explain()` prints the kind of every kernel.

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
# Each plan runs on one thread or on two, so there are four variants. The *dispatch tree* selects
# one of these variants per call. `explain()` prints it after `variant:`, and
# `Executable.dispatch` returns it as plain values: an inner node compares an expression of the
# call's dims and has a subtree for each outcome; a leaf is the variant, given by template, knobs
# and threads.

# %%


def show(tree, indent=""):
    """Return a dispatch tree as nested conditions."""
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
# Nothing has been measured so far. The cost model uses `work`, `tasks` and the bytes moved, which
# are the same for both plans. It therefore keeps the first plan, and decides only whether the work
# justifies a second thread. (A plan may define a separate `cost`.)
#
# `tune` measures every variant at some shapes. The tree is then learned from these times: it
# minimizes the time that is lost compared with the best variant at each shape.

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
# On most machines the tree now selects `vectors=4` (four independent vectors hide the latency of
# the arithmetic), perhaps with `vectors=1` for few elements. The tree is compiled into the program
# as branches.
#
# If the template refuses a group, the compiler tries the next one, here a built-in template. In
# this model, the bias has fewer elements than the sum, so `flat` refuses. `explain()` prints the
# reason.

# %%
bias = relay.const(rng.standard_normal(8).astype("float32"))
z = relay.var("z", shape=(relay.Any("rows"), 8), dtype="float32")
other = tvm_disc.build(relay.Function([z], relay.tanh(z + bias)), options=options)
print(next(line.strip() for line in other.explain().splitlines() if "flat not used" in line))
assert "template: loop" in other.explain()

# %% [markdown]
# ```text
# flat not used: its tensors do not all have the same shape
# ```
#
# The built-in templates are written in the same way; `tvm_disc/schedules/select.py` lists them in
# order, by kind. `tvm_disc/schedules/dispatch/variant.py` documents the other fields of a plan:
# facts that it `needs`, scratch memory, weights packed at compile time, stages.
