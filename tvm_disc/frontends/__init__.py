"""Import of models of other frameworks; each framework has one table of operator rows.

ONNX models and PyTorch programs become Relay modules; Relax modules are used unchanged.
"""

from __future__ import annotations

from tvm_disc.frontends.detect import read_model
from tvm_disc.frontends.onnx import from_onnx
from tvm_disc.frontends.relax import from_relax
from tvm_disc.frontends.torch import exported, from_pytorch

__all__ = ["exported", "from_onnx", "from_pytorch", "from_relax", "read_model"]
