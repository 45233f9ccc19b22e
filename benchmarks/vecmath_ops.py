"""Single ONNX operators that are dominated by vector math, compared to ONNX Runtime and PyTorch.

    python -m benchmarks.vecmath_ops --target x86-64-v3
    python -m benchmarks.vecmath_ops --names exp tanh --shapes 512x768 2048x1024

Every model is one operator over a matrix with two dynamic dims. All engines run on one thread, in
one process, on the same array, alternately (A B C A B C), in samples of a millisecond. Printed is
the least time of each other engine divided by the least time of tvm_disc. ``rel`` is the largest
difference from PyTorch's result ``y`` in float64, divided by ``1 + |y|``.

PyTorch runs eagerly and is limited to the target's instructions. ONNX Runtime cannot be limited: on
a processor with AVX-512 it uses AVX-512 for every target.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

from benchmarks import level

level.hold()
import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

import tvm_disc
from benchmarks.ort_session import ort_session

SHAPES = ((64, 257), (64, 768), (128, 1024), (512, 768), (512, 3072), (2048, 1024))
SAMPLE_S = 0.001

OPERATORS: dict[str, Callable[..., Any]] = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "gelu": F.gelu,
    "silu": F.silu,
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], torch.ones(x.shape[-1], dtype=x.dtype)),
}
NODES = {
    "exp": "Exp",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "erf": "Erf",
    "gelu": "Gelu",
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
}


def model_of(name: str) -> bytes:
    """Return the ONNX model of an operator; layer norm takes its scale as a second input."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "cols"])]
    if name == "silu":
        nodes = [
            helper.make_node("Sigmoid", ["x"], ["s"]),
            helper.make_node("Mul", ["x", "s"], ["y"]),
        ]
    elif name == "layer_norm":
        inputs.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, ["cols"]))
        nodes = [helper.make_node("LayerNormalization", ["x", "scale"], ["y"], axis=-1)]
    else:
        nodes = [helper.make_node(NODES[name], ["x"], ["y"])]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "cols"])
    graph = helper.make_graph(nodes, name, inputs, [out])
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def contestants(name: str, model: bytes) -> list[Callable[[np.ndarray], Callable[[], Any]]]:
    """Return functions that make a call from an array, for tvm_disc, ONNX Runtime and PyTorch."""
    exe = tvm_disc.build(onnx.load_from_string(model), constraints=_facts(name))
    session = ort_session(model)
    extra = name == "layer_norm"

    def ours(x: np.ndarray) -> Callable[[], Any]:
        args = (x, np.ones(x.shape[-1], x.dtype)) if extra else (x,)
        return lambda: exe(*args)

    def theirs(x: np.ndarray) -> Callable[[], Any]:
        feeds = {"x": x, **({"scale": np.ones(x.shape[-1], x.dtype)} if extra else {})}
        return lambda: session.run(None, feeds)[0]

    def eager(x: np.ndarray) -> Callable[[], Any]:
        tensor, fn = torch.from_numpy(x), OPERATORS[name]
        return lambda: fn(tensor)

    return [ours, theirs, eager]


def _facts(name: str) -> list[str]:
    return ["scale.0 == x.1"] if name == "layer_norm" else []


def seconds(fn: Callable[[], Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        fn()
    return (time.perf_counter() - begin) / count


def ratios(calls: Sequence[Callable[[], Any]], rounds: int) -> tuple[float, list[float]]:
    """Return the least time of the first call in microseconds, and the least times of the
    others relative to it.
    """
    counts = []
    for call in calls:
        for _ in range(3):
            call()
        counts.append(max(1, int(SAMPLE_S / max(1e-7, seconds(call, 2)))))
    rounded = [[seconds(c, n) for c, n in zip(calls, counts, strict=True)] for _ in range(rounds)]
    mine, *others = (min(times) for times in zip(*rounded, strict=True))
    return mine * 1e6, [other / mine for other in others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    level.add_option(parser)
    parser.add_argument("--names", nargs="+", default=list(OPERATORS), choices=list(OPERATORS))
    parser.add_argument("--shapes", nargs="+", default=[f"{r}x{c}" for r, c in SHAPES])
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(1)
    shapes = [tuple(int(v) for v in s.split("x")) for s in args.shapes]
    print(f"{'operator':12} {'shape':>10} {'us':>9} {'ORT':>6} {'torch':>6} {'rel':>8}")
    rng = np.random.default_rng(0)
    for name in args.names:
        makers = contestants(name, model_of(name))
        for rows, cols in shapes:
            x = rng.standard_normal((rows, cols), dtype=np.float32) * 2
            calls = [make(x) for make in makers]
            with torch.no_grad():
                want = OPERATORS[name](torch.from_numpy(x.astype(np.float64))).numpy()
                wrong = float(np.max(np.abs(np.asarray(calls[0]()) - want) / (1 + np.abs(want))))
                mine, others = ratios(calls, args.rounds)
            shape = f"{rows}x{cols}"
            text = " ".join(f"{r:6.2f}" for r in others)
            print(f"{name:12} {shape:>10} {mine:9.1f} {text} {wrong:8.1e}", flush=True)


if __name__ == "__main__":
    main()
