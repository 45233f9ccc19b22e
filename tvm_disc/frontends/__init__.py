"""Models of other frameworks, each read by rows of one table per framework.

ONNX models become Relay modules; those of PyTorch and Relax, Relax modules.
"""

from __future__ import annotations

from tvm_disc.frontends.detect import read_model
from tvm_disc.frontends.onnx import from_onnx
from tvm_disc.frontends.relax import from_relax
from tvm_disc.frontends.torch import from_torch
from tvm_disc.relay import frontend

frontend.register("from_onnx", from_onnx)

__all__ = ["from_onnx", "from_relax", "from_torch", "read_model"]
