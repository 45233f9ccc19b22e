"""Graph passes over Relax modules with symbolic shapes; each also works alone in any pipeline."""

from __future__ import annotations

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
