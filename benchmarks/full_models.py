"""Models of real size, compiled once each, compared to other engines.

    python benchmarks/full_models.py export FOLDER     # needs torchvision, transformers, onnxscript
    python benchmarks/full_models.py run FOLDER \\
        --peer onnxruntime=PYTHON --peer openvino=PYTHON --peer torch=PYTHON
    python benchmarks/full_models.py run FOLDER --peer before=CHECKOUT

BERT-base, GPT-2, ResNet-50 and convolutional networks of torchvision have random weights and are
exported to ONNX with dynamic axes. Every engine runs in a separate process (``tvm_disc.bench``),
started with the Python that its option names. `torch` is `torch.compile(dynamic=True)` of the
module that was exported. `before` is tvm_disc of another working tree, with the same Python. The
engines alternate on every shape; a turn is one call as warm-up, and the median of further calls.

Printed are seconds to load or compile, and milliseconds per call. The speed-ups are the least and
the geometric mean over each engine, and over the fastest engine at each shape. The last figure is
the largest difference between the results of tvm_disc and those of the first peer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

Shape = tuple[int, ...]
TEXT: tuple[Shape, ...] = ((1, 1), (1, 8), (1, 31), (1, 128), (1, 384), (4, 17), (4, 64), (8, 128))
IMAGES: tuple[Shape, ...] = (
    (1, 224, 224),
    (1, 160, 215),
    (1, 320, 256),
    (2, 192, 192),
    (4, 224, 224),
)
TORCHVISION = (
    "mobilenet_v2",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "squeezenet1_1",
    "googlenet",
    "densenet121",
    "convnext_tiny",
    "regnet_y_400mf",
)
TEXTS = ("bert", "gpt2")
SHAPES: Mapping[str, tuple[Shape, ...]] = dict.fromkeys(TEXTS, TEXT) | dict.fromkeys(
    ("resnet50", *TORCHVISION), IMAGES
)
TURN_S = 0.3  # seconds of a turn
TOLERANCE = 1e-4  # accepted difference, relative to the largest element of a result


def inputs_of(name: str, shape: Shape) -> list[np.ndarray]:
    """Return token ids and a mask, or pixels."""
    rng = np.random.default_rng(sum(shape))
    if name not in TEXTS:
        return [rng.standard_normal((shape[0], 3, *shape[1:])).astype("float32")]
    return [rng.integers(0, 30000, shape), np.ones(shape, "int64")]


# --- the models ----------------------------------------------------------------------------------


def module_of(name: str) -> Any:
    """Return the PyTorch module, with the same random weights in every process."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        own = {"bert": _bert, "gpt2": _gpt2, "resnet50": _resnet50}
        return (own[name]() if name in own else _torchvision(name)).eval()


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
    """Return ResNet-50 (He et al., 2016, table 1), with the stride in the 3x3 convolution."""
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


def _torchvision(name: str) -> Any:
    import torchvision

    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return torchvision.models.get_model(name, weights=None, **more)


def export(name: str, folder: Path) -> None:
    """Write ``folder/name.onnx``."""
    import torch
    from torch.export import Dim

    torch.no_grad().__enter__()
    if name not in TEXTS:
        axes: tuple[Any, ...] = ({0: Dim("b"), 2: Dim("h", min=32), 3: Dim("w", min=32)},)
        names, shape = ["pixels"], (2, 224, 192)
    else:
        limit = 512 if name == "bert" else 1024
        dims = {0: Dim("b"), 1: Dim("s", max=limit)}
        axes, names, shape = (dims, dims), ["ids", "mask"], (2, 16)
    sample = tuple(map(torch.from_numpy, inputs_of(name, shape)))
    path = str(folder / f"{name}.onnx")
    if name == "googlenet":  # torch.export fails on its pools with ceil_mode
        open_axes = {"pixels": {0: "b", 2: "h", 3: "w"}}
        torch.onnx.export(
            module_of(name), sample, path, input_names=names, output_names=["output"],
            dynamic_axes=open_axes, dynamo=False, verbose=False,
        )  # fmt: skip
        return
    torch.onnx.export(
        module_of(name), sample, path, input_names=names, output_names=["output"],
        dynamic_shapes=axes, dynamo=True, external_data=True, verbose=False,
    )  # fmt: skip


# --- the comparison ------------------------------------------------------------------------------


def compiled(path: str, threads: int) -> Any:
    """Open the engine `torch` of ``tvm_disc.bench``: the module under
    `torch.compile(dynamic=True)`.
    """
    import torch

    from __main__ import torch_call  # the server, which does not import tvm_disc

    torch.set_num_threads(threads)
    module = torch.compile(module_of(Path(path).stem), dynamic=True)
    return torch_call(torch, module), torch.__version__


def served(engine: str, where: str, path: Path, threads: int) -> Any:
    """Start an engine with its Python, or `before` with its working tree."""
    from tvm_disc.bench.served import Served

    if engine == "before":
        return Served("tvm_disc", path, threads, root=Path(where).resolve())
    name = f"{Path(__file__).resolve()}:compiled" if engine == "torch" else engine
    return Served(name, path, threads, where)


def compare(name: str, path: Path, pythons: Mapping[str, str], rounds: int, threads: int) -> None:
    """Print the tables of one model."""
    from tvm_disc.bench.compare import ComparisonEffort, Engine, measure
    from tvm_disc.bench.points import Case
    from tvm_disc.bench.report import ComparisonReport

    axes = ("batch", "words") if name in TEXTS else ("batch", "height", "width")
    names = ("ids", "mask") if name in TEXTS else ("pixels",)
    cases = (
        Case(
            dict(zip(axes, shape, strict=True)),
            dict(zip(names, inputs_of(name, shape), strict=True)),
        )
        for shape in SHAPES[name]
    )
    with ExitStack() as stack:
        engines = {
            engine: stack.enter_context(closing(served(engine, where, path, threads)))
            for engine, where in pythons.items()
        }
        ready = [Engine(e, s.version, s.load_s) for e, s in engines.items()]
        about = {"threads": str(threads), "rounds": str(rounds)}
        rows = measure(engines, cases, ComparisonEffort(rounds, TURN_S), lambda row: None)
    print(ComparisonReport(name, about, ready, rows, TOLERANCE).markdown(), flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Export or run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("export", "run"))
    parser.add_argument("words", nargs="+", help="FOLDER [MODEL ...]")
    parser.add_argument("--peer", action="append", default=[], metavar="ENGINE=PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
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
