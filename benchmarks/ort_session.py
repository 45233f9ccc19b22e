"""ONNX Runtime's CPU sessions for benchmarks."""

from __future__ import annotations

from typing import Any


def ort_session(model: str | bytes, threads: int = 1) -> Any:
    """Return a session of a model or its path that uses ``threads`` threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


__all__ = ["ort_session"]
