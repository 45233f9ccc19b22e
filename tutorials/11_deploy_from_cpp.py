# %% [markdown]
# # From Python to a C++ program
#
# A saved program is a shared library. A C++ program also needs one header of tvm_disc and two
# libraries of TVM's runtime, but neither Python nor the compiler. This tutorial saves a model,
# builds the program in `examples/cpp` with CMake and runs it on several shapes. Without CMake
# or `g++`, it ends before the program is built.

# %%
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tvm_disc
from tvm_disc import relay

try:
    root = Path(__file__).resolve().parents[1]
except NameError:  # in a notebook
    root = Path.cwd()

# %% [markdown]
# The model is a layer with softmax, for any number of rows. To compile for another machine, pass
# its processor as `target=`. If `target` is a list of x86-64 levels, the library contains code for
# each of them, and selects the best supported level when it is loaded.

# %%
rng = np.random.default_rng(0)
weight = (rng.standard_normal((10, 16)) / 4).astype("float32")
x = relay.var("x", shape=(relay.Any("rows"), 16), dtype="float32")
exe = tvm_disc.build(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, relay.const(weight)))))
folder = tempfile.TemporaryDirectory()
library = Path(folder.name) / "layer.so"
exe.save(library)
print(f"saved {library.name}, {library.stat().st_size // 1024} KiB")

# %% [markdown]
# The signature can be read without running the program, in Python or by `tvm-disc signature
# layer.so`. In C++, `program.signature()` returns the same text.

# %%
command = [sys.executable, "-m", "tvm_disc", "signature", str(library)]
print(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout.strip())

# %% [markdown]
# ```text
# (x: float32[rows, 16]) -> (float32[rows, 10])...
# ```
#
# The C++ code below is from `examples/cpp/run_program.cc`. A tensor is a view of memory that the
# caller owns (DLPack's `DLTensor`), so nothing is copied. If the call passes only inputs, the
# program allocates its results. If the call passes additional tensors, one per result, the program
# writes the results into them.
#
# ```cpp
# tvm_disc::Program program("layer.so");
# DLTensor x = View(&data, shape);
# auto y = program(&x).cast<tvm::ffi::Tensor>();  // or: program(&x, &out);
# ```
#
# A shape that the program does not accept raises a C++ exception. Its text is the message in
# Python without the values found.

# %%
missing = [tool for tool in ("cmake", "g++") if shutil.which(tool) is None]
if missing:
    print(f"stops here: no {' and no '.join(missing)} to build the C++ program with")
    sys.exit()


def run(*words):
    """Run a command and return its output; fail with its messages."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


built = Path(folder.name) / "build"
python = f"-DPython3_EXECUTABLE={sys.executable}"  # the one whose packages hold TVM's runtime
run("cmake", "-S", root / "examples" / "cpp", "-B", built, python)
run("cmake", "--build", built)

# %% [markdown]
# `run_program MODEL.so COLUMNS ROWS...` fills a matrix, calls the program, and prints the shape and
# the sum of the result. The sum of each row of a softmax is 1, so the total must be the number of
# rows.

# %%
lines = run(built / "run_program", library, 16, 1, 7, 64, 1000).splitlines()
print("\n".join(lines))
for rows, line in zip((1, 7, 64, 1000), lines[1:], strict=True):
    assert line.startswith(f"{rows}x16 -> {rows} 10, sum ")
    assert abs(float(line.rpartition(" ")[2]) - rows) < 1e-3 * rows

# %% [markdown]
# ```text
# (x: float32[rows, 16]) -> (float32[rows, 10])
# 1x16 -> 1 10, sum 1
# 7x16 -> 7 10, sum 7
# 64x16 -> 64 10, sum 64
# 1000x16 -> 1000 10, sum 1000
# ```
#
# The machine that runs the program needs `layer.so`, `libtvm_runtime.so` and `libtvm_ffi.so`.
# docs/runtime.md describes threads, memory, processors and the header's functions.
