"""Converters of ONNX operators to Relay expressions, one module per family of operators."""
