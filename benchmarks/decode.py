"""One step of a decoder over a growing cache, compared to other engines.

    python benchmarks/decode.py export FOLDER [MODEL ...]   # needs torch, transformers, onnxscript
    python benchmarks/decode.py run FOLDER [MODEL ...] \\
        --peer onnxruntime=PYTHON --peer openvino=PYTHON
    python benchmarks/decode.py host FOLDER                 # microseconds outside of kernels

The models have random weights and are exported by PyTorch to ONNX. `gpt2` has 124 million weights.
`llama` has 12 layers of width 768, 12 query heads, 4 key and value heads, rotary embeddings and RMS
norm. Inputs are token ids, a mask, and the keys and values of every layer; results are logits and
the grown cache. `tiny` is GPT-2 of 12 layers of width 32, which spends most of its time outside of
kernels. Engines and tables are those of ``full_models.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

LAYERS, TURN_S, TOLERANCE = 12, 0.3, 1e-4
WIDTHS = {"gpt2": 768, "llama": 768, "tiny": 32}
HEADS = {"gpt2": (12, 64), "llama": (4, 64), "tiny": (2, 16)}  # (key and value heads, head size)
POINTS = tuple((b, past) for b in (1, 4) for past in (1, 16, 128, 1024))


def inputs_of(name: str, batch: int, past: int) -> dict[str, np.ndarray]:
    """Return token ids, a mask, and the cache."""
    rng = np.random.default_rng(batch + past)
    heads, depth = HEADS[name]
    shape = (batch, heads, past, depth)
    words = rng.integers(0, 1000, (batch, 1))
    found = {"ids": words, "mask": np.ones((batch, past + 1), "int64")}
    for layer in range(LAYERS):
        for part in "kv":
            found[f"{part}{layer}"] = rng.standard_normal(shape).astype("float32")
    return found


def module_of(name: str) -> Any:
    """Return the PyTorch module of a step."""
    import torch
    import transformers
    from torch import nn

    from benchmarks.zoo.decoders import cache_of, tensors_of

    torch.manual_seed(0)
    width = WIDTHS[name]
    if name == "llama":
        model: Any = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=32000, hidden_size=width, intermediate_size=2048,
                num_hidden_layers=LAYERS, num_attention_heads=12, num_key_value_heads=4,
                max_position_embeddings=2048,
            )
        )  # fmt: skip
    else:
        vocabulary = 1000 if name == "tiny" else 50257
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=vocabulary, n_embd=width, n_layer=LAYERS, n_head=HEADS[name][0],
                n_positions=2048,
            )
        )  # fmt: skip

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any, *cache: Any) -> Any:
            made = self.model(
                ids, attention_mask=mask, past_key_values=cache_of(*cache), use_cache=True
            )
            return made.logits, *tensors_of(made.past_key_values)

    return Step().eval()


def export(name: str, folder: Path) -> None:
    """Write ``folder/name_step.onnx``."""
    import torch
    from torch.export import Dim

    given = {n: torch.from_numpy(x) for n, x in inputs_of(name, 2, 7).items()}
    batch, past = Dim("b"), Dim("p", max=2046)
    ids, mask, *cache = given.values()
    kept = {0: batch, 2: past}
    with torch.no_grad():
        torch.onnx.export(
            module_of(name), (ids, mask, *cache), str(folder / f"{name}_step.onnx"),
            input_names=list(given),
            dynamic_shapes=({0: batch}, {0: batch, 1: past + 1}, tuple(kept for _ in cache)),
            dynamo=True, external_data=True, verbose=False,
        )  # fmt: skip


def compare(name: str, path: Path, pythons: dict[str, str], rounds: int, points: Any) -> None:
    """Print the table of one model."""
    from benchmarks.full_models import served
    from tvm_disc.bench.compare import ComparisonEffort, Engine, measure
    from tvm_disc.bench.points import Case
    from tvm_disc.bench.report import ComparisonReport

    cases = (Case({"batch": b, "past": past}, inputs_of(name, b, past)) for b, past in points)
    with ExitStack() as stack:
        engines = {
            engine: stack.enter_context(closing(served(engine, where, path, 1)))
            for engine, where in pythons.items()
        }
        ready = [Engine(e, s.version, s.load_s) for e, s in engines.items()]
        rows = measure(engines, cases, ComparisonEffort(rounds, TURN_S), lambda row: None)
    about = {"threads": "1", "rounds": str(rounds)}
    print(ComparisonReport(f"{name} step", about, ready, rows, TOLERANCE).markdown(), flush=True)


def host(path: Path) -> None:
    """Print the times of a step inside and outside of kernels."""
    import tvm_disc

    exe = tvm_disc.build(str(path), options=tvm_disc.Options(threads=1))
    for batch, past in ((1, 1), (1, 16), (4, 128)):
        given = list(inputs_of("tiny", batch, past).values())
        profile = exe.profile(*given, repeat=300)
        print(f"batch {batch}, past {past}: {len(exe.launches)} launches")
        print(profile)


def main(argv: Sequence[str] | None = None) -> None:
    """Export, run, or measure the host's part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("export", "run", "host"))
    parser.add_argument("words", nargs="+", help="FOLDER [MODEL ...]")
    parser.add_argument("--peer", action="append", default=[], metavar="ENGINE=PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    folder = Path(options.words[0])
    names = options.words[1:] or list(WIDTHS)
    if options.action == "host":
        host(folder / "tiny_step.onnx")
        return
    pythons = {"tvm_disc": sys.executable} | dict(p.split("=", 1) for p in options.peer)
    for name in names:
        if options.action == "export":
            folder.mkdir(parents=True, exist_ok=True)
            export(name, folder)
        else:
            compare(name, folder / f"{name}_step.onnx", pythons, options.rounds, POINTS)


if __name__ == "__main__":
    main()
