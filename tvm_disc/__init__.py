"""Compile tensor programs of unknown shape into one native program, on Apache TVM."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_disc import relay, relay_passes
    from tvm_disc.compile import build
    from tvm_disc.errors import DiscError
    from tvm_disc.options import Options
    from tvm_disc.runtime.executable import Executable, load
    from tvm_disc.tuning.tune import tune

__version__ = "0.1.0"
__all__ = ["DiscError", "Executable", "Options", "build", "load", "relay", "relay_passes", "tune"]

# Where every name is from; imported when it is first asked for, so that who loads a saved program
# waits neither for the compiler nor for TVM.
_PLACES = {
    "compile": "tvm_disc.compile",
    "errors": "tvm_disc.errors",
    "DiscError": "tvm_disc.errors",
    "Executable": "tvm_disc.runtime.executable",
    "Options": "tvm_disc.options",
    "build": "tvm_disc.compile",
    "load": "tvm_disc.runtime.executable",
    "relay": "tvm_disc.relay",
    "relay_passes": "tvm_disc.relay_passes",
    "tune": "tvm_disc.tuning.tune",
}


def __getattr__(name: str) -> Any:
    """A public name, or one of the rooms that are asked for through the package."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(place)
    value = module if place == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
