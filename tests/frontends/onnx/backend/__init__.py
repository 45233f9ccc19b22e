"""ONNX's own backend node tests, which lie in the wheel of ``onnx``."""
