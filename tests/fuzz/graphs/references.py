"""What ONNX Runtime and ONNX's evaluator give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

Results = list[np.ndarray]


class Runtime:
    """ONNX Runtime without its optimizations; None for models and calls that it refuses."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session: Any = None
        self.why = ""
        try:
            self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        except Exception as error:  # classes of its own
            self.why = str(error)

    def __call__(self, inputs: dict[str, np.ndarray]) -> Results | None:
        if self.session is None:
            return None
        try:
            return [np.asarray(r) for r in self.session.run(None, inputs)]
        except Exception as error:
            self.why = str(error)
            return None


def run_reference(evaluator: ReferenceEvaluator, given: dict[str, Any]) -> Results | None:
    """Results of ONNX's evaluator, None if it raises."""
    try:
        return [np.asarray(r) for r in evaluator.run(None, given)]
    except Exception:  # of any class: operands do not fit
        return None
