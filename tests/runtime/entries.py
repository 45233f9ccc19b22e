"""The functions that a saved program exports, and a script that calls them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

X = np.ones((3, 16), "float32")
# Everything a library exports, called without a word of tvm_disc.
CALLS = """
import sys
import numpy as np, tvm_ffi, tvm.runtime
module = tvm.runtime.load_module(sys.argv[1])
assert "tvm_disc" not in sys.modules
for name in sys.argv[2:]:
    try:
        module[name](np.ones((3, 16), "float32"))
        print(name, "ran")
    except RuntimeError as error:
        print(name, error)
"""


def entries(path: Path) -> list[str]:
    """The functions that a library exports under TVM's convention."""
    done = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [line.split()[-1] for line in done.stdout.splitlines() if " T " in line]
    assert all(name.startswith("__tvm_ffi_") for name in names)
    return [name.removeprefix("__tvm_ffi_") for name in names]
