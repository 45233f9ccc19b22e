"""ONNX models as Relay modules: one row of a table for each operator."""

from __future__ import annotations

from tvm_disc.frontends.onnx.model import from_onnx

__all__ = ["from_onnx"]
