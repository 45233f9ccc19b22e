"""Export tiny models with random weights from PyTorch, with reference inputs and outputs.

    python benchmarks/export_models.py tests/data/relax [model ...]

For each model the command writes `<name>.json`, the Relax module of TVM's importer (that of ONNX
with the repairs of `tvm_disc.frontends`), and `<name>.npz`, inputs and outputs for several shapes.
The tests read these files, so that they need neither PyTorch nor ONNX.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
import tvm
from torch import nn
from torch.export import Dim
from tvm.relax.frontend.torch import from_exported_program

from tvm_disc import relay
from tvm_disc.frontends import onnx as onnx_frontend

VOCABULARY, POSITIONS, WIDTH, HEADS, LAYERS = 80, 64, 32, 4, 2
TEXT_SHAPES = ((1, 1), (1, 7), (2, 16), (3, 33), (1, 64))
IMAGE_SHAPES = ((1, 32, 32), (2, 32, 48), (1, 48, 40))
VIT_SHAPES = ((1, 32, 32), (1, 37, 101), (3, 64, 24), (2, 48, 40), (1, 16, 16))


@dataclass(frozen=True)
class Model:
    """A PyTorch module, a generator of its inputs, and the shapes to record."""

    make: Callable[[], Any]
    inputs: Callable[[tuple[int, ...]], tuple[np.ndarray, ...]]
    names: tuple[str, ...]
    dynamic: tuple[dict[int, str], ...]  # per input: axis -> name of the dim
    shapes: tuple[tuple[int, ...], ...]
    limits: dict[str, tuple[int, int | None]]
    frontend: str = "onnx"


class Outputs(nn.Module):
    """A module that returns the first tensor of a transformers model's output."""

    def __init__(self, model: nn.Module, mask: bool = True, cache: bool = False) -> None:
        super().__init__()
        self.model, self.mask, self.cache = model, mask, cache

    def forward(self, ids: Any, mask: Any = None) -> Any:
        named = {"attention_mask": mask} if self.mask else {}
        if self.cache:
            named["use_cache"] = False
        return self.model(ids, **named)[0]


class Pixels(nn.Module):
    """A model of transformers over pixels (b, 3, h, w)."""

    def __init__(self, model: nn.Module, **named: Any) -> None:
        super().__init__()
        self.model, self.named = model, named

    def forward(self, pixels: Any) -> Any:
        return self.model(pixels, **self.named)[0]


def config(cls: Any, **sizes: Any) -> Any:
    """Return a configuration with eager attention."""
    made = cls(**sizes)
    made._attn_implementation = "eager"
    return made


def bert() -> nn.Module:
    cfg = config(
        transformers.BertConfig, vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=2 * WIDTH, max_position_embeddings=POSITIONS,
    )  # fmt: skip
    return Outputs(transformers.BertModel(cfg, add_pooling_layer=False))


def gpt2() -> nn.Module:
    cfg = config(
        transformers.GPT2Config, vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        n_positions=POSITIONS,
    )  # fmt: skip
    return Outputs(transformers.GPT2LMHeadModel(cfg), cache=True)


def t5() -> nn.Module:
    cfg = config(
        transformers.T5Config, vocab_size=VOCABULARY, d_model=WIDTH, d_kv=WIDTH // HEADS,
        d_ff=2 * WIDTH, num_layers=LAYERS, num_heads=HEADS,
    )  # fmt: skip
    return Outputs(transformers.T5EncoderModel(cfg))


def vit(**named: Any) -> nn.Module:
    cfg = config(
        transformers.ViTConfig, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=2 * WIDTH, image_size=32, patch_size=8,
    )  # fmt: skip
    return Pixels(transformers.ViTModel(cfg, add_pooling_layer=False), **named)


def vit_any_size() -> nn.Module:
    """Return a ViT whose position table is interpolated to the size of the image."""
    return vit(interpolate_pos_encoding=True)


class Cnn(nn.Module):
    """A network of convolutions, batch norms, pooling, a residual connection, and global
    pooling.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.body = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = torch.relu(x + self.body(x))
        return self.head(x.mean((2, 3)))


class Crnn(nn.Module):
    """Text recognition: convolutions, then a bidirectional LSTM over the columns of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(1, 8, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2),
            nn.Conv2d(8, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2, 2),
            nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d((2, 1), (2, 1)),
            nn.Conv2d(16, WIDTH, (4, 1)), nn.ReLU(),
        )  # fmt: skip
        self.lstm = nn.LSTM(WIDTH, 16, bidirectional=True)
        self.head = nn.Linear(32, 11)

    def forward(self, x: Any) -> Any:
        columns = self.convs(x).squeeze(2).permute(2, 0, 1)
        return self.head(self.lstm(columns)[0])


def text(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Return token ids, and a mask with a different length per item."""
    rng = np.random.default_rng(sum(shape))
    ids = rng.integers(0, VOCABULARY, shape).astype("int64")
    mask = np.ones(shape, "int64")
    mask[-1, 1 + shape[1] // 2 :] = 0
    return ids, mask


def image(channels: int) -> Callable[[tuple[int, ...]], tuple[np.ndarray, ...]]:
    """Return a generator of random pixels (b, channels, h, w)."""

    def make(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(sum(shape))
        return (rng.standard_normal((shape[0], channels, *shape[1:])).astype("float32"),)

    return make


def lines(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return image(1)((shape[0], 32, shape[1]))


TEXT = ({0: "b", 1: "s"}, {0: "b", 1: "s"})
BS = {"b": (1, None), "s": (1, POSITIONS)}
IMAGE = ({0: "b", 2: "h", 3: "w"},)
BHW = {"b": (1, None), "h": (8, 1024), "w": (8, 1024)}
VIT_LIMITS = {"b": (1, None), "h": (16, 512), "w": (16, 512)}
BATCH = ({0: "b"},)

MODELS = {
    "bert_torch": Model(bert, text, ("ids", "mask"), TEXT, TEXT_SHAPES, BS, "torch"),
    "bert": Model(bert, text, ("ids", "mask"), TEXT, TEXT_SHAPES, BS),
    "gpt2": Model(gpt2, text, ("ids", "mask"), TEXT, TEXT_SHAPES, BS),
    "gpt2_torch": Model(gpt2, text, ("ids", "mask"), TEXT, TEXT_SHAPES, BS, "torch"),
    "t5": Model(t5, text, ("ids", "mask"), TEXT, TEXT_SHAPES, {"b": (1, None), "s": (1, None)}),
    "t5_torch": Model(
        t5, text, ("ids", "mask"), TEXT, TEXT_SHAPES, {"b": (1, None), "s": (1, None)}, "torch"
    ),
    "vit": Model(
        vit, image(3), ("pixels",), BATCH, ((1, 32, 32), (2, 32, 32), (5, 32, 32)), {"b": (1, None)}
    ),
    "vit_torch": Model(
        vit, image(3), ("pixels",), BATCH, ((1, 32, 32), (2, 32, 32), (5, 32, 32)),
        {"b": (1, None)}, "torch",
    ),
    "vit_hw": Model(vit_any_size, image(3), ("pixels",), IMAGE, VIT_SHAPES, VIT_LIMITS),
    "cnn": Model(Cnn, image(3), ("image",), IMAGE, IMAGE_SHAPES, BHW),
    "cnn_torch": Model(Cnn, image(3), ("image",), IMAGE, IMAGE_SHAPES, BHW, "torch"),
    "crnn": Model(
        Crnn, lines, ("image",), ({0: "b", 3: "w"},), ((1, 16), (2, 40), (3, 100)),
        {"b": (1, None), "w": (8, 1024)},
    ),
}  # fmt: skip


def dynamic_shapes(model: Model) -> tuple[dict[int, Any], ...]:
    """Return the dims of every input for ``torch.export``."""
    dims = {name: Dim(name, min=lo, max=hi) for name, (lo, hi) in model.limits.items()}
    return tuple({axis: dims[name] for axis, name in axes.items()} for axes in model.dynamic)


def sample(model: Model) -> tuple[Any, ...]:
    """Return example inputs without dims of 0 or 1, on which torch.export would specialise."""
    shape = next(s for s in reversed(model.shapes) if s[0] > 1)
    return tuple(torch.from_numpy(x) for x in model.inputs(shape))


def seeded(name: str) -> Any:
    """Return the PyTorch model, with the same weights on every run."""
    torch.manual_seed(0)
    return MODELS[name].make().eval()


def exported(name: str, module: Any) -> Any:
    """Return the `torch.export` program."""
    model = MODELS[name]
    with torch.no_grad():
        return torch.export.export(module, sample(model), dynamic_shapes=dynamic_shapes(model))


def to_onnx(name: str, module: Any, path: Path) -> Any:
    """Return the ONNX model, which is also written to ``path``."""
    model = MODELS[name]
    if name == "crnn":  # torch.export would unroll the recurrence to a fixed length
        axes = dict(zip(model.names, model.dynamic, strict=True))
        torch.onnx.export(
            module, sample(model), str(path), input_names=list(model.names),
            output_names=["output"], dynamic_axes={**axes, "output": {0: "t", 1: "b"}},
            dynamo=False,
        )  # fmt: skip
        return onnx.load(str(path))
    with torch.no_grad():
        torch.onnx.export(
            module, sample(model), str(path), input_names=list(model.names),
            output_names=["output"], dynamic_shapes=dynamic_shapes(model), dynamo=True,
            external_data=False, verbose=False, optimize=True,
        )  # fmt: skip
    return onnx.load(str(path))


def export(name: str, folder: Path) -> None:
    """Write the files of one model."""
    model, module = MODELS[name], seeded(name)
    record: dict[str, np.ndarray] = {}
    start = time.perf_counter()
    if model.frontend == "torch":
        mod = from_exported_program(exported(name, module), unwrap_unit_return_tuple=True)
        session = None
    else:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model.onnx"
            proto = to_onnx(name, module, path)
            session = onnxruntime.InferenceSession(str(path))
        mod = relay.to_relax(onnx_frontend.from_onnx(proto))
    seconds = time.perf_counter() - start
    for k, shape in enumerate(model.shapes):
        inputs = model.inputs(shape)
        record.update({f"{k}.in{i}": x for i, x in enumerate(inputs)})
        if session is None:
            with torch.no_grad():
                record[f"{k}.out"] = module(*map(torch.from_numpy, inputs)).numpy()
        else:
            feeds = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=False)}
            record[f"{k}.out"] = np.asarray(session.run(None, feeds)[0])
    (folder / f"{name}.json").write_text(tvm.ir.save_json(mod))
    np.savez_compressed(folder / f"{name}.npz", **record)  # type: ignore[arg-type]
    size = (folder / f"{name}.json").stat().st_size / 1e3
    print(f"{name:12} {seconds:6.1f} s  {size:7.0f} kB", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Export the named models, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.models or MODELS:
        export(name, options.folder)


if __name__ == "__main__":
    main()
