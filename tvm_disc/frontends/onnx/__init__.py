"""Import of ONNX models as Relay modules; a table has one converter per operator."""

from __future__ import annotations

from tvm_disc.frontends.onnx.model import from_onnx

__all__ = ["from_onnx"]
