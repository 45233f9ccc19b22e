"""Import of ONNX models as Relay modules; each operator has one row in a table."""

from __future__ import annotations

from tvm_disc.frontends.onnx.model import from_onnx

__all__ = ["from_onnx"]
