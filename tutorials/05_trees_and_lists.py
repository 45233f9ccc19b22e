# %% [markdown]
# # A Tree-LSTM over a data type
#
# Relay has data types, `match` and recursion. They are compiled to native code: a value of a data
# type is a reference-counted block of memory, and a recursive function is a native function. Each
# call has a separate heap, which is freed as a whole when the call ends. This tutorial compiles a
# Tree-LSTM, compares it with NumPy, and measures its time.

# %%
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np

import tvm_disc
from tvm_disc import relay

try:
    root = Path(__file__).resolve().parents[1]
except NameError:  # in a notebook
    root = Path.cwd()

# %% [markdown]
# Every node of the tree holds a word vector and a list of subtrees. The states of the children are
# summed, and every child has its own forget gate. `@children` is tail-recursive and becomes a loop.
# `@forward` is recursive; the stack limits its depth.

# %%
WORD, HIDDEN = 16, 32
TEXT = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
type Tree[A] { Rose(A, List[Tree[A]]), }

def @children(%trees: List[Tree[Tensor[(1, WORD), float32]]],
              %forget: Tensor[(1, HIDDEN), float32],
              %h: Tensor[(1, HIDDEN), float32], %c: Tensor[(1, HIDDEN), float32],
              %wf: Tensor[(HIDDEN, HIDDEN), float32],
              %wx: Tensor[(FOUR, WORD), float32], %wh: Tensor[(THREE, HIDDEN), float32])
    -> (Tensor[(1, HIDDEN), float32], Tensor[(1, HIDDEN), float32]) {
  match (%trees) {
    Cons(%first, %rest) => {
      let %state = @forward(%first, %wf, %wx, %wh);
      let %gate = sigmoid(add(%forget, nn.dense(%state.0, %wf, units=None)));
      @children(%rest, %forget, add(%h, %state.0), add(%c, multiply(%gate, %state.1)),
                %wf, %wx, %wh)
    },
    Nil => { (%h, %c) },
  }
}

def @forward(%tree: Tree[Tensor[(1, WORD), float32]],
             %wf: Tensor[(HIDDEN, HIDDEN), float32],
             %wx: Tensor[(FOUR, WORD), float32], %wh: Tensor[(THREE, HIDDEN), float32])
    -> (Tensor[(1, HIDDEN), float32], Tensor[(1, HIDDEN), float32]) {
  match (%tree) {
    Rose(%word, %kids) => {
      let %x = split(nn.dense(%word, %wx, units=None), indices_or_sections=4, axis=1);
      let %zero = zeros(shape=[1, HIDDEN], dtype="float32");
      let %sum = @children(%kids, %x.3, %zero, %zero, %wf, %wx, %wh);
      let %g = split(nn.dense(%sum.0, %wh, units=None), indices_or_sections=3, axis=1);
      let %i = sigmoid(add(%x.0, %g.0));
      let %o = sigmoid(add(%x.1, %g.1));
      let %u = tanh(add(%x.2, %g.2));
      let %cell = add(multiply(%i, %u), %sum.1);
      (multiply(%o, tanh(%cell)), %cell)
    },
  }
}

def @main(%tree: Tree[Tensor[(1, WORD), float32]],
          %wf: Tensor[(HIDDEN, HIDDEN), float32],
          %wx: Tensor[(FOUR, WORD), float32], %wh: Tensor[(THREE, HIDDEN), float32]) {
  @forward(%tree, %wf, %wx, %wh)
}
"""
for name, size in (("WORD", WORD), ("FOUR", 4 * HIDDEN), ("THREE", 3 * HIDDEN), ("HIDDEN", HIDDEN)):
    TEXT = TEXT.replace(name, str(size))

# %% [markdown]
# The weights are passed to `build`, so they become constants of the program. The build copies them
# to the layouts that the kernels read.

# %%
rng = np.random.default_rng(0)
shapes = {"wf": (HIDDEN, HIDDEN), "wx": (4 * HIDDEN, WORD), "wh": (3 * HIDDEN, HIDDEN)}
params = {k: (rng.standard_normal(s) * 0.2).astype("float32") for k, s in shapes.items()}
exe = tvm_disc.build(TEXT, params=params)
print(f"{len(exe.kernels)} kernels, compiled in {sum(exe.timings.values()):.1f} s")

# %% [markdown]
# In Python, a value of a data type is a `relay.ConstructorValue`. A Python list is converted to a
# linked list, and a tuple `(name, field, ...)` to a value of the constructor `name`. Results of a
# data type are `ConstructorValue`s.


# %%
def random_tree(nodes):
    """Return (parent of every node, word of every node); parents precede their children."""
    parents = [0, *(int(rng.integers(0, k)) for k in range(1, nodes))]
    return np.array(parents), rng.standard_normal((nodes, 1, WORD)).astype("float32")


def as_value(parents, words):
    """Return the same tree as a value of the data type."""
    kids = [[] for _ in parents]
    for node in range(len(parents) - 1, 0, -1):
        kids[parents[node]].insert(0, relay.ConstructorValue("Rose", words[node], kids[node]))
    return relay.ConstructorValue("Rose", words[0], kids[0])


def in_numpy(value):
    """Return the reference result, computed with NumPy."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    word, kids = value.fields
    states = [in_numpy(k) for k in kids]
    x = np.split(word @ params["wx"].T, 4, axis=1)
    g = np.split(sum((h for h, _ in states), np.zeros((1, HIDDEN))) @ params["wh"].T, 3, axis=1)
    cell = sigmoid(x[0] + g[0]) * np.tanh(x[2] + g[2])
    for h, c in states:
        cell = cell + sigmoid(x[3] + h @ params["wf"].T) * c
    return sigmoid(x[1] + g[1]) * np.tanh(cell), cell


trees = {n: random_tree(n) for n in (1, 2, 7, 19, 50)}
for n, tree in trees.items():
    value = as_value(*tree)
    found, wanted = exe(value), in_numpy(value)
    error = max(float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))
    assert error < 1e-5, error
    print(f"{n:3} nodes, largest error {error:.1e}")

# %% [markdown]
# A call has two parts: Python converts the tree to tensors, and the program runs. For the Relay VM,
# the tree is also converted before the time is measured. Therefore, only the second part is
# compared: `exe.bind` converts the tree once, and the loop measures calls of the program.

# %%
ours = {}
for n, tree in trees.items():
    call = exe.bind(as_value(*tree))
    times = []
    for _ in range(200):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    ours[n] = statistics.median(times)

theirs = {}
python = Path(os.environ.get("RELAY_VM_PYTHON", root / ".venv-relay" / "bin" / "python"))
if python.exists():
    with tempfile.TemporaryDirectory() as folder:
        model, inputs = Path(folder) / "tree.relay", Path(folder) / "trees.npz"
        fixed = relay.parse(TEXT)
        main = fixed["main"]
        values = [relay.const(params[p.name_hint]) for p in main.params[1:]]
        call = relay.Call(main.body.op, [main.params[0], *values])
        fixed["main"] = relay.Function([main.params[0]], call)
        model.write_text(relay.astext(fixed), encoding="utf-8")
        arrays = {f"{n}.parents": t[0] for n, t in trees.items()}
        np.savez(inputs, **arrays, **{f"{n}.words": t[1] for n, t in trees.items()})
        script = root / "benchmarks" / "relay_vm_trees.py"
        args = [str(python), str(script), str(model), str(inputs), "200"]
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(args, capture_output=True, text=True, env=env, check=False)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
        else:
            seconds = json.loads(done.stdout.splitlines()[-1])["seconds"]
            theirs = {int(k): v for k, v in seconds.items()}

print("\n| nodes | us per call | us per node | Relay VM, us per node |")
print("|---|---|---|---|")
for n, seconds in ours.items():
    other = f"{theirs[n] / n * 1e6:.1f}" if n in theirs else "not installed"
    print(f"| {n} | {seconds * 1e6:.1f} | {seconds / n * 1e6:.1f} | {other} |")
