"""Compile tensor programs of unknown shape into one native program, on Apache TVM."""

from __future__ import annotations

from tvm_disc import relay, relay_passes
from tvm_disc.compile import build
from tvm_disc.errors import DiscError
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable, load
from tvm_disc.tune import tune

__version__ = "0.1.0"
__all__ = ["DiscError", "Executable", "Options", "build", "load", "relay", "relay_passes", "tune"]
