"""Models of other frameworks as Relax modules, through TVM's own importers.

What the importers lose of dynamic shapes is recovered by `PropagateShapeConstraints`; only what it
cannot see any more is repaired here.
"""

from __future__ import annotations

from tvm_disc.frontends.detect import read_model
from tvm_disc.frontends.onnx import from_onnx
from tvm_disc.frontends.relax import from_relax
from tvm_disc.frontends.torch import from_torch

__all__ = ["from_onnx", "from_relax", "from_torch", "read_model"]
