"""Conversion of ONNX operators to Relay expressions, by family."""
