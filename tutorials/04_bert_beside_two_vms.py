# %% [markdown]
# # A dynamic BERT beside two virtual machines
#
# The same Relay text, compiled three ways: by `tvm_disc` into one native program, by TVM's default
# pipeline for the Relax VM, and by TVM 0.19 for the Relay VM, which descends from Nimble. The last
# one needs an environment of its own, which `make relay-vm` creates; it is left out where there is
# none.

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
# Both dims of both inputs are `?`. Each way compiles once.

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
# Lengths on both sides of tile borders. Times of the two programs are taken in turn, so that a busy
# machine slows both; a time is a median.

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

# %% [markdown]
# The Relay VM gets the same text and the same inputs, in its own process.

# %%
python = root / ".venv-relay" / "bin" / "python"
if python.exists():
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **{f"{n}.{k}": v for n, case in cases.items() for k, v in case.items()})
        script = root / "benchmarks" / "relay_vm.py"
        argv = [str(python), str(script), str(model), str(inputs), str(rounds)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            print("the Relay VM ended:", (done.stderr.strip().splitlines() or ["no message"])[-1])
        else:
            report = json.loads(done.stdout.splitlines()[-1])
            with np.load(inputs.with_suffix(".out.npz")) as outputs:
                for key in outputs.files:
                    n, i = map(int, key.split("."))
                    np.testing.assert_allclose(expected[n][i], outputs[key], rtol=1e-4, atol=1e-4)
            times["Relay VM"] = {int(n): value for n, value in report["seconds"].items()}
            print(f"the Relay VM's compiler took {report['compile_s']:.1f} s")
else:
    print("no Relay VM here: `make relay-vm` creates its environment")

# %%
print("length", *(f"{name:>12s}" for name in times), "  (ms)")
for n in lengths:
    print(f"{n:6d}", *(f"{by_length[n] * 1e3:12.3f}" for by_length in times.values()))

# %% [markdown]
# Latency against length, where matplotlib is installed (`pip install '.[plot]'`).

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
