"""Quantized ONNX models (QDQ), compared to the float models and ONNX Runtime.

    python -m benchmarks.quantized resnet50.onnx --sizes 1x224 4x224
    python -m benchmarks.quantized bert.onnx --sizes 1x32 8x64

A size is the batch, and the value of the other unknown dims. Models are quantized by ONNX Runtime
with random inputs: int8 weights with a scale for each channel, uint8 activations. Printed are
medians of the processor time of alternating calls on one thread, in ms.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import quantization

os.environ.setdefault("TVM_NUM_THREADS", "1")

import tvm_disc
from benchmarks.ort_session import ort_session

ROUNDS = 9
Feed = dict[str, np.ndarray]


class Inputs(quantization.CalibrationDataReader):
    """Random inputs of a model, from which ONNX Runtime determines the ranges of values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.inputs = [(i.name, i.type.tensor_type) for i in model.graph.input]
        self.left = iter([(1, 32), (1, 32), (1, 32)] if self.words() else [(1, 224)] * 3)

    def words(self) -> bool:
        """Whether the model has integer inputs."""
        return any(t.elem_type != onnx.TensorProto.FLOAT for _, t in self.inputs)

    def of(self, batch: int, size: int, rng: np.random.Generator) -> Feed:
        """Return inputs with the given sizes of unknown dims."""
        feed: Feed = {}
        for name, kind in self.inputs:
            dims = [d.dim_value or (size if k else batch) for k, d in enumerate(kind.shape.dim)]
            if kind.elem_type == onnx.TensorProto.FLOAT:
                feed[name] = rng.standard_normal(dims).astype("float32")
            else:
                ones = "mask" in name
                feed[name] = np.ones(dims, "int64") if ones else rng.integers(0, 2, dims)
        return feed

    def get_next(self) -> Feed | None:
        """Return the next inputs; ONNX Runtime calls this method."""
        size = next(self.left, None)
        return None if size is None else self.of(*size, np.random.default_rng(0))


def quantize(path: Path, to: Path) -> None:
    """Write the quantized model."""
    quantization.quantize_static(
        str(path),
        str(to),
        Inputs(onnx.load(path)),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,  # ONNX Runtime is slow with int8
        per_channel=True,
    )


def session(path: Path) -> Callable[[Feed], Any]:
    """Return a call of ONNX Runtime on one thread."""
    made = ort_session(str(path))
    return lambda feed: made.run(None, feed)


def programs(path: Path, quantized: Path, target: str | None) -> Iterator[Callable[[Feed], Any]]:
    """Yield calls of tvm_disc and ONNX Runtime for the float model and the quantized model."""
    for model in (path, quantized):
        exe = tvm_disc.build(model, target=target)
        yield lambda feed, exe=exe: exe(**feed)
        yield session(model)


def medians(calls: list[Callable[[Feed], Any]], feed: Feed) -> list[float]:
    """Return the median processor time of each call in ms, of alternating runs."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS + 1):
        for call, own in zip(calls, times, strict=True):
            begin = time.process_time()
            call(feed)
            if turn:
                own.append(time.process_time() - begin)
    return [float(np.median(own)) * 1e3 for own in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["1x224", "4x224"])
    parser.add_argument("--target", help="a TVM target; this machine by default")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        quantized = Path(folder) / "quantized.onnx"
        quantize(args.model, quantized)
        calls = list(programs(args.model, quantized, args.target))
        print(
            "| size | float32 | ONNX Runtime | quantized | ONNX Runtime | over float | over ORT |"
        )
        print("|---|---|---|---|---|---|---|")
        for text in args.sizes:
            batch, size = map(int, text.split("x"))
            feed = Inputs(onnx.load(args.model)).of(batch, size, np.random.default_rng(1))
            ours, peer, whole, other = medians(calls, feed)
            row = f"{ours:.1f} | {peer:.1f} | {whole:.1f} | {other:.1f}"
            print(f"| {text} | {row} | {ours / whole:.2f} | {other / whole:.2f} |", flush=True)


if __name__ == "__main__":
    main()
