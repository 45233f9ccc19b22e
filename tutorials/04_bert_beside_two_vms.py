# %% [markdown]
# # A dynamic BERT compared with two virtual machines
#
# This tutorial compares the times of three compilers on the same Relay text: `tvm_disc`, which
# compiles it to one native program; TVM's default pipeline for the Relax VM; and, for smaller
# models, TVM 0.19 for the Relay VM, which is based on Nimble. TVM 0.19 needs a separate
# environment, which `make relay-vm` creates. Without this environment, the last part is skipped.

# %%
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import numpy as np
import tvm
from tvm import relax

import tvm_disc
from tvm_disc import relay

try:
    root = Path(__file__).resolve().parents[1]
except NameError:  # in a notebook
    root = Path.cwd()
model = root / "tests" / "data" / "relay" / "models" / "bert.relay"
module = relay.parse(model.read_text(encoding="utf-8"))

# %% [markdown]
# Both dims of both inputs are `?`. Each compiler compiles the model once.

# %%
exe = tvm_disc.build(module)
print(exe.signature)
print(f"{len(exe.kernels)} kernels, compiled in {sum(exe.timings.values()):.1f} s")

target = tvm.target.Target(
    {"kind": "llvm", "mcpu": tvm.get_global_func("target.llvm_get_system_cpu")()}
)
imported = relay.to_relax(module)
library = relax.build(imported, target, relax_pipeline=relax.get_default_pipeline(target))
vm = relax.VirtualMachine(library, tvm.cpu())["main"]

# %% [markdown]
# The lengths include sizes just below and above multiples of the tile size. The calls of the two
# programs alternate, so that load on the machine affects both. Each time is a median.

# %%
rng = np.random.default_rng(0)
lengths = (1, 7, 16, 31, 32, 33, 64)
rounds = 10
cases = {
    n: {
        "ids": rng.integers(1, 100, (1, n)),
        "mask": np.ones((1, n), "int64"),
    }
    for n in lengths
}


def seconds(program, args):
    start = time.perf_counter()
    program(*args)
    return time.perf_counter() - start


def leaves(value):
    return [value.numpy()] if hasattr(value, "numpy") else [a for v in value for a in leaves(v)]


names = [p.name_hint for p in module["main"].params]
times = {"tvm_disc": {}, "Relax VM": {}}
expected = {}
for n, case in cases.items():
    args = [tvm.runtime.tensor(case[name]) for name in names]
    expected[n] = leaves(exe(*args))
    for ours, theirs in zip(expected[n], leaves(vm(*args)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    pairs = [(seconds(exe, args), seconds(vm, args)) for _ in range(rounds)]
    for name, samples in zip(times, zip(*pairs, strict=True), strict=True):
        times[name][n] = statistics.median(samples)

# %%
print("length", *(f"{name:>12s}" for name in times), "  (ms)")
for n in lengths:
    print(f"{n:6d}", *(f"{by_length[n] * 1e3:12.3f}" for by_length in times.values()))

# %% [markdown]
# Plot latency by length if matplotlib is installed (`pip install '.[plot]'`).

# %%
try:
    import matplotlib
except ImportError:
    print("no plot: matplotlib is not installed")
else:
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name, by_length in times.items():
        axes.plot(lengths, [by_length[n] * 1e3 for n in lengths], marker="o", label=name)
    axes.set(xlabel="sequence length, batch 1", ylabel="ms per call", yscale="log")
    axes.legend()
    plot = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()) / "bert_latency.png"
    figure.savefig(plot, dpi=120)
    print("plot:", plot)

# %% [markdown]
# The Relay VM of TVM 0.19 does not compile this BERT, because `erf` has no shape function there. It
# runs smaller models instead, from the same text, in its own process, with the same inputs.

# %%
texts = root / "tests" / "data" / "relay"
small = {
    "dense_bias_relu": (texts / "printed" / "dense_bias_relu.relay", [{"x": (1, 16)}]),
    "lstm_while": (
        texts / "printed" / "lstm_while_dyn.relay",
        [{"xs": (n, 1, 6)} for n in (1, 25)],
    ),
    "dlrm": (texts / "models" / "dlrm.relay", [{"d": (n, 13), "c": (n, 4)} for n in (1, 64)]),
}


def random_inputs(program, shapes):
    dtypes = {name: dtype for name, _, dtype in program.signature}
    floats = {n: rng.standard_normal(s).astype("float32") for n, s in shapes.items()}
    return {
        n: x if dtypes[n] == "float32" else (x > 0).astype(dtypes[n]) for n, x in floats.items()
    }


def relay_vm(model, cases):
    """Return seconds and outputs of every case on the Relay VM; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **{f"{i}.{k}": v for i, case in enumerate(cases) for k, v in case.items()})
        script = root / "benchmarks" / "relay_vm.py"
        argv = [str(python), str(script), str(model), str(inputs), "50"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            print("the Relay VM ended:", (done.stderr.strip().splitlines() or ["no message"])[-1])
            return None
        seconds_of = json.loads(done.stdout.splitlines()[-1])["seconds"]
        with np.load(inputs.with_suffix(".out.npz")) as arrays:
            outputs = {key: arrays[key] for key in arrays.files}
    return seconds_of, outputs


python = root / ".venv-relay" / "bin" / "python"
if not python.exists():
    print("no Relay VM here: `make relay-vm` creates its environment")
for name, (text, shapes) in small.items() if python.exists() else ():
    program = tvm_disc.build(relay.parse(text.read_text(encoding="utf-8")))
    cases = [random_inputs(program, shape) for shape in shapes]
    found = relay_vm(text, cases)
    if found is None:
        continue
    for i, case in enumerate(cases):
        args = [tvm.runtime.tensor(array) for array in case.values()]
        for k, value in enumerate(leaves(program(*args))):
            np.testing.assert_allclose(value, found[1][f"{i}.{k}"], rtol=1e-4, atol=1e-5)
        ours = statistics.median(seconds(program, args) for _ in range(50))
        theirs = found[0][str(i)]
        shape = ", ".join("x".join(map(str, a.shape)) for a in case.values())
        print(f"{name} {shape}: {ours * 1e6:.1f} us, Relay VM {theirs * 1e6:.1f} us")
