"""Every recorded model and fixture, with the calls whose results were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tests.build.cases import assert_same
from tests.models import load
from tvm_disc import relay

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True)
class Recorded:
    """A program.

    Attributes:
        name: its file, below ``tests/data``.
        tolerance: of its results; 0 where they are whole numbers.
    """

    name: str
    tolerance: float = 1e-4

    @property
    def path(self) -> Path:
        """Its file."""
        return DATA / self.name

    def module(self) -> Any:
        """In Relay or Relax."""
        if self.name.startswith("relax"):
            return tvm.ir.load_json(self.path.read_text())
        return load(self.path)

    def params(self) -> dict[str, Any]:
        """Weights that lie beside it."""
        weights = self.path.with_suffix(".params")
        return relay.load_param_dict(weights.read_bytes()) if weights.exists() else {}

    def calls(self) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Inputs and results, the smallest first."""
        found = list(self._calls())
        return sorted(found, key=lambda call: sum(a.size for a in call[0]))

    def _calls(self) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
        if self.path.stem == "argwhere_gather":
            yield from _positions()
            return
        with np.load(self.path.with_suffix(".npz")) as file:
            arrays = dict(file)
        if self.path.stem == "qcnn":
            yield from _images(arrays)
            return
        # Keys are "3.in0", "3.name", "3.y", "3.out", "c3_in0" and "c3_out1".
        mark = "_" if self.path.parent.name == "printed" else "."
        for case in sorted({k.partition(mark)[0] for k in arrays}):
            own = {k.partition(mark)[2]: v for k, v in arrays.items() if k.startswith(case + mark)}
            results = [k for k in own if k.startswith("out") or k == "y"]
            yield [own[k] for k in own if k not in results], [own[k] for k in results]


def compare(recorded: Recorded, program: Any, most: int) -> None:
    """The smallest calls give what was recorded."""
    for inputs, wanted in recorded.calls()[:most]:
        out = program(*inputs)
        found = out if isinstance(out, tuple) else (out,)
        assert len(found) == len(wanted)
        for value, want in zip(found, wanted, strict=True):
            assert_same(value, want, recorded.name, recorded.tolerance)


def _images(arrays: dict[str, np.ndarray]) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Of the quantised network, whose inputs are a formula."""
    for k in range(sum(name.startswith("shape") for name in arrays)):
        shape = arrays[f"shape{k}"]
        image = np.arange(int(shape.prod())) * 7919 % 2003 / 1001.5 - 1
        results = [v for name, v in arrays.items() if name.startswith(f"out{k}_")]
        yield [image.astype("float32").reshape(shape)], results


def _positions() -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Of the positive elements of a matrix, which NumPy has."""
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (17, 5), (0, 3)):
        x = rng.uniform(-1, 1, shape).astype("float32")
        for value in (x, -np.abs(x)):
            yield [value], [np.argwhere(value > 0).astype("int32"), value[value > 0]]


RELAY = ("bert", "cnn", "dlrm")
PRINTED = ("argwhere_gather", "broadcast_any", "cnn_dyn_hw", "dense_bias_relu", "if_tuple",
           "encoder_layer_dyn", "lstm_while_dyn", "size_var", "while_concat")  # fmt: skip
RELAX = ("bert", "bert_torch", "cnn", "crnn", "gpt2", "t5", "vit", "vit_hw")
RECORDED = [
    *(Recorded(f"relay/models/{name}.relay") for name in RELAY),
    Recorded("relay/models/qcnn.relay", 0.0),
    *(Recorded(f"relay/printed/{name}.relay") for name in PRINTED),
    *(Recorded(f"relax/{name}.json") for name in RELAX),
]
