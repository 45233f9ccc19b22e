"""Graph passes over Relax modules with symbolic shapes; each also works alone in any pipeline.

A pass is imported on first access, so that a build imports only the passes that it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_disc.relay_passes.bfloat16 import WidenBFloat16
    from tvm_disc.relay_passes.decompose import DecomposeComposite
    from tvm_disc.relay_passes.dot_merge import MergeProducts
    from tvm_disc.relay_passes.fuse import FuseDISC
    from tvm_disc.relay_passes.hoist import HoistProducts
    from tvm_disc.relay_passes.integer_products import IntegerProducts
    from tvm_disc.relay_passes.layout import ChannelsLast
    from tvm_disc.relay_passes.narrow_weights import NarrowWeights
    from tvm_disc.relay_passes.own_state import OwnState
    from tvm_disc.relay_passes.propagation.propagate import PropagateShapeConstraints
    from tvm_disc.relay_passes.simplify import Simplify

__all__ = [
    "ChannelsLast",
    "DecomposeComposite",
    "FuseDISC",
    "HoistProducts",
    "IntegerProducts",
    "MergeProducts",
    "NarrowWeights",
    "OwnState",
    "PropagateShapeConstraints",
    "Simplify",
    "WidenBFloat16",
]

_FILES = {
    "ChannelsLast": "layout",
    "DecomposeComposite": "decompose",
    "FuseDISC": "fuse",
    "HoistProducts": "hoist",
    "IntegerProducts": "integer_products",
    "MergeProducts": "dot_merge",
    "NarrowWeights": "narrow_weights",
    "OwnState": "own_state",
    "PropagateShapeConstraints": "propagation.propagate",
    "Simplify": "simplify",
    "WidenBFloat16": "bfloat16",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
