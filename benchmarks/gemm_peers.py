"""Models of one MatMul in other libraries, for ``benchmarks/gemm.py``.

A peer is a function ``bind(feeds, out)`` that returns a call without arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Shape = list[Any]  # None for an unknown dim
Bind = Callable[[dict[str, np.ndarray], np.ndarray], Callable[[], Any]]


def onnx_peer(a_shape: Shape, b: Any, threads: int = 1) -> Bind | None:
    """Return an ONNX Runtime session of one MatMul; ``b`` is a constant, or the shape of an
    input.
    """
    try:
        import onnxruntime as ort
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    inputs = [helper.make_tensor_value_info("a", TensorProto.FLOAT, a_shape)]
    constants = []
    if isinstance(b, np.ndarray):
        constants.append(numpy_helper.from_array(b, "b"))
    else:
        inputs.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, b))
    out = helper.make_tensor_value_info("c", TensorProto.FLOAT, [None] * len(a_shape))
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "one", inputs, [out], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])

    def bind(feeds: dict[str, np.ndarray], out: np.ndarray) -> Callable[[], Any]:
        io = session.io_binding()
        for name, x in feeds.items():
            io.bind_input(name, "cpu", 0, np.float32, x.shape, x.ctypes.data)
        io.bind_output("c", "cpu", 0, np.float32, out.shape, out.ctypes.data)
        return lambda: session.run_with_iobinding(io)

    return bind


def openvino_peer(
    a_shape: Shape, b: Any, transposed: bool = False, threads: int = 1
) -> Bind | None:
    """Return an OpenVINO model of one MatMul; ``b`` is a constant, or the shape of an input."""
    try:
        import openvino as ov
        from openvino import opset13 as ops
    except ImportError:
        return None

    def parameter(shape: Shape) -> Any:
        return ops.parameter([-1 if d is None else d for d in shape], np.float32)

    inputs = [parameter(a_shape)]
    if isinstance(b, np.ndarray):
        right = ops.constant(b)
    else:
        right = parameter(b)
        inputs.append(right)
    model = ov.Model([ops.matmul(inputs[0], right, False, transposed)], inputs)
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    compiled = ov.Core().compile_model(model, "CPU", config)

    def bind(feeds: dict[str, np.ndarray], out: np.ndarray) -> Callable[[], Any]:
        request = compiled.create_infer_request()
        for place, x in enumerate(feeds.values()):
            request.set_input_tensor(place, ov.Tensor(x, shared_memory=True))
        request.set_output_tensor(0, ov.Tensor(out, shared_memory=True))
        return request.infer

    return bind


def torch_peer(b: np.ndarray | None, transposed: bool = False, threads: int = 1) -> Bind | None:
    """Return eager PyTorch, which writes into a given tensor; ``b`` is a constant, or None
    for an input.
    """
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    constant = None if b is None else torch.from_numpy(np.ascontiguousarray(b))

    def bind(feeds: dict[str, np.ndarray], out: np.ndarray) -> Callable[[], Any]:
        left, result = torch.from_numpy(feeds["a"]), torch.from_numpy(out)
        right = constant if constant is not None else torch.from_numpy(feeds["b"])
        if transposed:
            right = right.transpose(-1, -2)

        def call() -> None:
            with torch.inference_mode():
                torch.matmul(left, right, out=result)

        return call

    return bind


__all__ = ["onnx_peer", "openvino_peer", "torch_peer"]
