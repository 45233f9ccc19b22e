"""Compile tensor programs of unknown shape into one native program, on Apache TVM."""

from __future__ import annotations

import os

# TVM asks the operating system for the number of processors at every parallel launch (several
# microseconds) unless this is set before it is loaded.
os.environ.setdefault("TVM_NUM_THREADS", str(os.cpu_count() or 1))
# TVM binds its workers to one core each, but not the caller, which may run on a worker's core: then
# the two take turns there however many cores are free.
os.environ.setdefault("TVM_BIND_THREADS", "0")
# An idle worker yields this often before it sleeps: about 15 ms, as long as OpenMP's. TVM's own
# number is 15 times as much, and takes that long from whatever runs on its core.
os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "20000")

from tvm_disc import relay, relay_passes
from tvm_disc.compile import build
from tvm_disc.errors import DiscError
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable, load
from tvm_disc.tune import tune

__version__ = "0.1.0"
__all__ = ["DiscError", "Executable", "Options", "build", "load", "relay", "relay_passes", "tune"]
