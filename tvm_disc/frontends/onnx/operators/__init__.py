"""ONNX operators as Relay expressions, by family."""
