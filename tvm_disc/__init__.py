"""Compile a tensor program with dynamic shapes into one native program for all shapes, on Apache
TVM.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tvm_disc import paths

if TYPE_CHECKING:
    from tvm_disc import relay, relay_passes
    from tvm_disc.compile import build
    from tvm_disc.errors import DiscError
    from tvm_disc.language import language_model
    from tvm_disc.options import Options
    from tvm_disc.paths import cmake_dir
    from tvm_disc.quantization import quantize
    from tvm_disc.runtime.batches.ragged import Ragged
    from tvm_disc.runtime.executable import Executable
    from tvm_disc.runtime.loading import load
    from tvm_disc.runtime.text.generate import generate
    from tvm_disc.tuning.tune import tune

__version__ = "0.1.0"
__all__ = [
    "DiscError",
    "Executable",
    "Options",
    "Ragged",
    "build",
    "cmake_dir",
    "generate",
    "language_model",
    "load",
    "quantize",
    "relay",
    "relay_passes",
    "tune",
]

# Module of each public name. Names are imported on first access, so that a process that only loads
# a saved program imports neither the compiler nor TVM.
_PLACES = {
    "compile": "tvm_disc.compile",
    "errors": "tvm_disc.errors",
    "DiscError": "tvm_disc.errors",
    "Executable": "tvm_disc.runtime.executable",
    "Options": "tvm_disc.options",
    "Ragged": "tvm_disc.runtime.batches.ragged",
    "build": "tvm_disc.compile",
    "cmake_dir": "tvm_disc.paths",
    "generate": "tvm_disc.runtime.text.generate",
    "language_model": "tvm_disc.language",
    "load": "tvm_disc.runtime.loading",
    "quantize": "tvm_disc.quantization",
    "relay": "tvm_disc.relay",
    "relay_passes": "tvm_disc.relay_passes",
    "tune": "tvm_disc.tuning.tune",
}

paths.install()


def __getattr__(name: str) -> Any:
    """Import and return a public name, or a subpackage that is accessed as an attribute."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tvm":
            raise
        raise ImportError(
            f"tvm_disc.{name}: expected the package 'apache-tvm', which is not installed; install "
            "tvm_disc with its dependencies"
        ) from None
    value = module if place == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
