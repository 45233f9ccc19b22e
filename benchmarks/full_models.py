"""Models of real size, compiled once each, beside the engines that one would use instead.

    python benchmarks/full_models.py export FOLDER     # needs torch, transformers, onnx, onnxscript
    python benchmarks/full_models.py run FOLDER \\
        --peer onnxruntime=PYTHON --peer openvino=PYTHON --peer torch=PYTHON
    python benchmarks/full_models.py run FOLDER --peer before=CHECKOUT

BERT-base, GPT-2 and ResNet-50 of random weights, exported to ONNX with dynamic axes. Every engine
serves in a process of its own, started with the Python that is named; `torch` is
`torch.compile(dynamic=True)` of the module that was exported. The engines take turns on every
shape; a turn is a call to warm up, and the median of some more. Printed are seconds to load or
compile, milliseconds, the least and the geometric mean of what we gain over each engine and over
the best at each shape, and the largest difference between our results and ONNX Runtime's. `before`
is tvm_disc of another working tree, by the same Python.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

Shape = tuple[int, ...]
Call = Callable[[], Any]
TEXT: tuple[Shape, ...] = ((1, 1), (1, 8), (1, 31), (1, 128), (1, 384), (4, 17), (4, 64), (8, 128))
IMAGES: tuple[Shape, ...] = (
    (1, 224, 224),
    (1, 160, 215),
    (1, 320, 256),
    (2, 192, 192),
    (4, 224, 224),
)
SHAPES: Mapping[str, tuple[Shape, ...]] = {"bert": TEXT, "gpt2": TEXT, "resnet50": IMAGES}
TURN_S = 0.3  # what a turn may take


def inputs_of(name: str, shape: Shape) -> list[np.ndarray]:
    """Token ids and a mask, or pixels."""
    rng = np.random.default_rng(sum(shape))
    if name == "resnet50":
        return [rng.standard_normal((shape[0], 3, *shape[1:])).astype("float32")]
    return [rng.integers(0, 30000, shape), np.ones(shape, "int64")]


# --- the models ----------------------------------------------------------------------------------


def module_of(name: str) -> Any:
    """The PyTorch module, of the same random weights in every process."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        return {"bert": _bert, "gpt2": _gpt2, "resnet50": _resnet50}[name]().eval()


def _bert() -> Any:
    import transformers

    from benchmarks.export_models import Outputs, config

    cfg = config(transformers.BertConfig)
    return Outputs(transformers.BertModel(cfg, add_pooling_layer=False))


def _gpt2() -> Any:
    import transformers

    from benchmarks.export_models import Outputs, config

    return Outputs(transformers.GPT2LMHeadModel(config(transformers.GPT2Config)), cache=True)


def _resnet50() -> Any:
    """He et al., 2016, table 1, with the stride in the 3x3 convolution."""
    from torch import nn

    def conv(cin: int, cout: int, size: int, stride: int = 1) -> list[Any]:
        made = nn.Conv2d(cin, cout, size, stride, size // 2, bias=False)
        return [made, nn.BatchNorm2d(cout)]

    class Block(nn.Module):
        def __init__(self, cin: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *conv(cin, width, 1), nn.ReLU(),
                *conv(width, width, 3, stride), nn.ReLU(),
                *conv(width, 4 * width, 1),
            )  # fmt: skip
            same = stride == 1 and cin == 4 * width
            self.skip = nn.Identity() if same else nn.Sequential(*conv(cin, 4 * width, 1, stride))
            self.last = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.last(self.body(x) + self.skip(x))

    layers: list[Any] = [*conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(depth):
            layers.append(Block(channels, width, stride if k == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def export(name: str, folder: Path) -> None:
    """Write ``folder/name.onnx``."""
    import torch
    from torch.export import Dim

    torch.no_grad().__enter__()
    if name == "resnet50":
        axes: tuple[Any, ...] = ({0: Dim("b"), 2: Dim("h", min=32), 3: Dim("w", min=32)},)
        names, shape = ["pixels"], (2, 224, 192)
    else:
        limit = 512 if name == "bert" else 1024
        dims = {0: Dim("b"), 1: Dim("s", max=limit)}
        axes, names, shape = (dims, dims), ["ids", "mask"], (2, 16)
    sample = tuple(map(torch.from_numpy, inputs_of(name, shape)))
    torch.onnx.export(
        module_of(name), sample, str(folder / f"{name}.onnx"), input_names=names,
        output_names=["output"], dynamic_shapes=axes, dynamo=True, external_data=True,
        verbose=False,
    )  # fmt: skip


# --- engines: each gives a function from inputs to a call ----------------------------------------

Engine = Callable[[list[np.ndarray]], Call]


def _tvm_disc(path: Path, threads: int) -> Engine:
    import tvm_disc

    exe = tvm_disc.build(str(path), options=tvm_disc.Options(threads=threads))
    return lambda arrays: lambda: exe(*arrays)


def _onnxruntime(path: Path, threads: int) -> Engine:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def bind(arrays: list[np.ndarray]) -> Call:
        feeds = dict(zip(names, arrays, strict=False))
        return lambda: session.run(None, feeds)[0]

    return bind


def _openvino(path: Path, threads: int) -> Engine:
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    model = openvino.Core().compile_model(str(path), "CPU", config)
    request = model.create_infer_request()
    return lambda arrays: lambda: request.infer(arrays, share_inputs=True, share_outputs=True)[0]


def _torch(path: Path, threads: int) -> Engine:
    import torch

    torch.set_num_threads(threads)
    torch.no_grad().__enter__()
    module = torch.compile(module_of(path.stem), dynamic=True)

    def bind(arrays: list[np.ndarray]) -> Call:
        tensors = [torch.from_numpy(a) for a in arrays]
        return lambda: module(*tensors).numpy()

    return bind


ENGINES: Mapping[str, Callable[[Path, int], Engine]] = {
    "tvm_disc": _tvm_disc,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "torch": _torch,
}


def serve(engine: str, path: Path, threads: int) -> None:
    """Answer requests, a line of JSON each, until the input ends."""
    begin = time.perf_counter()
    bind = ENGINES[engine](path, threads)
    calls: dict[Shape, Call] = {}
    _answer({"seconds": time.perf_counter() - begin})
    for line in sys.stdin:
        request = json.loads(line)
        shape = tuple(request["shape"])
        call = calls.setdefault(shape, bind(inputs_of(path.stem, shape)))
        if "result" in request:
            np.save(request["result"], np.asarray(call()))
            _answer({})
        else:
            _answer({"seconds": _turn(call)})


def _turn(call: Call) -> float:
    times: list[float] = []
    call()
    begin = time.perf_counter()
    while not times or (len(times) < 50 and time.perf_counter() - begin < TURN_S):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _answer(fields: Mapping[str, Any]) -> None:
    print("\n@" + json.dumps(fields), flush=True)


class Served:
    """An engine in its own process."""

    def __init__(self, engine: str, python: str, path: Path, threads: int) -> None:
        self.name = engine
        env = dict(os.environ, TVM_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        root = ROOT
        if engine == "before":
            engine, python, root = "tvm_disc", sys.executable, Path(python).resolve()
        env["PYTHONPATH"] = str(root)
        script = root / "benchmarks" / "full_models.py"
        command = [python, str(script), "serve", engine, str(path.resolve()), str(threads)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        self.load_s = self._read()["seconds"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request and its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                return dict(json.loads(line[1:]))
        raise RuntimeError(f"{self.name} ended with {self.process.wait()}")

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# --- the comparison ------------------------------------------------------------------------------


def compare(name: str, path: Path, pythons: Mapping[str, str], rounds: int, threads: int) -> None:
    """One model's table."""
    served = [Served(engine, python, path, threads) for engine, python in pythons.items()]
    loads = ", ".join(f"{s.name} {s.load_s:.1f} s" for s in served)
    print(f"\n{name}, {threads} threads; ready after: {loads}\n", flush=True)
    peers = [s.name for s in served[1:]]
    print("| shape | " + " | ".join(s.name for s in served) + " | over the best | difference |")
    print("|" + "---|" * (len(served) + 3), flush=True)
    gains: list[dict[str, float]] = []
    for shape in SHAPES[name]:
        times = _paired(served, shape, rounds)
        ours, theirs = times[0], times[1:]
        gains.append(dict(zip(peers, (t / ours for t in theirs), strict=True)))
        cells = " | ".join(f"{1e3 * t:.2f}" for t in times)
        best = f"{min(theirs) / ours:.2f}" if theirs else "-"
        text = "x".join(map(str, shape))
        print(f"| {text} | {cells} | {best} | {_difference(served, shape)} |", flush=True)
    for s in served:
        s.close()
    print()
    for label, values in _summaries(peers, gains):
        print(f"{label}: geometric mean {statistics.geometric_mean(values):.2f}, "
              f"least {min(values):.2f}")  # fmt: skip


def _summaries(
    peers: Sequence[str], gains: Sequence[Mapping[str, float]]
) -> Iterator[tuple[str, list[float]]]:
    for peer in peers:
        yield f"over {peer}", [g[peer] for g in gains]
    if peers:
        yield "over the best at each shape", [min(g.values()) for g in gains]


def _paired(served: Sequence[Served], shape: Shape, rounds: int) -> list[float]:
    turns = [[s.ask(shape=shape)["seconds"] for s in served] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*turns, strict=True)]


def _difference(served: Sequence[Served], shape: Shape) -> str:
    """Between our result and ONNX Runtime's, relative to the largest element."""
    by_name = {s.name: s for s in served}
    if "onnxruntime" not in by_name:
        return "-"
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for engine in ("tvm_disc", "onnxruntime"):
            file = str(Path(folder) / f"{engine}.npy")
            by_name[engine].ask(shape=shape, result=file)
            found.append(np.load(file))
    return f"{np.abs(found[0] - found[1]).max() / np.abs(found[1]).max():.1e}"


def main(argv: Sequence[str] | None = None) -> None:
    """Export, run, or serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("export", "run", "serve"))
    parser.add_argument("words", nargs="+", help="FOLDER [MODEL ...]")
    parser.add_argument("--peer", action="append", default=[], metavar="ENGINE=PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    if options.action == "serve":
        engine, path, threads = options.words
        serve(engine, Path(path), int(threads))
        return
    folder, names = Path(options.words[0]), options.words[1:] or list(SHAPES)
    pythons = {"tvm_disc": sys.executable} | dict(p.split("=", 1) for p in options.peer)
    for name in names:
        if options.action == "export":
            folder.mkdir(parents=True, exist_ok=True)
            export(name, folder)
        else:
            compare(name, folder / f"{name}.onnx", pythons, options.rounds, options.threads)


if __name__ == "__main__":
    main()
