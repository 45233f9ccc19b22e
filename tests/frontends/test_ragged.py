"""Transformers as ragged programs, from modules and from their ONNX export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.whisper.modeling_whisper import WhisperEncoder  # noqa: E402

import tvm_disc  # noqa: E402
from benchmarks.zoo import causal, encoders  # noqa: E402, F401
from benchmarks.zoo.row import ROWS, VOCABULARY, first_tensors  # noqa: E402
from tvm_disc.errors import GuardFailed, IndexOutside  # noqa: E402

LENGTHS = ([5, 2, 31, 2, 17], [3], [40] * 3)


def given(lengths: Sequence[int], masked: bool = True) -> list[list[np.ndarray]]:
    """The token ids and masks of a batch; every other mask ends with zeros."""
    rng = np.random.default_rng(len(lengths))
    ids = [rng.integers(3, VOCABULARY, n) for n in lengths]
    masks = [np.ones(n, np.int64) for n in lengths]
    for mask in masks[::2] if masked else []:
        mask[1 + len(mask) // 2 :] = 0
    return [ids, masks]


def check(exe: Any, model: Any) -> None:
    """Compare ragged batches with the module item by item."""
    for lengths in LENGTHS:
        batch = given(lengths)
        out = exe(*batch)
        outs = out if isinstance(out, tuple) else (out,)
        for k, item in enumerate(zip(*batch, strict=True)):
            with torch.no_grad():
                wanted = model(*(torch.from_numpy(x[None]) for x in item))
            for found, tensor in zip(outs, first_tensors(wanted), strict=True):
                np.testing.assert_allclose(found[k], tensor[0].numpy(), 1e-5, 1e-5)


class Sentences(torch.nn.Module):  # type: ignore[misc]
    """A sentence embedding: the mean of the last states where the mask is one, of length 1."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.BertConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=64,
        )  # fmt: skip
        self.model = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, ids: Any, mask: Any) -> Any:
        states = self.model(ids, attention_mask=mask).last_hidden_state
        wide = mask.unsqueeze(-1).expand(states.size()).float()
        mean = (states * wide).sum(1) / wide.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def sentences() -> Any:
    torch.manual_seed(0)
    return Sentences().eval()


@pytest.mark.parametrize("name", ["bert_classifier", "roberta", "qwen3"])
def test_modules(name: str) -> None:
    """A classifier that reads the first state, positions by prefix sums, and causal attention."""
    row = ROWS[name]
    torch.manual_seed(0)
    model = row.make().eval()
    exe = tvm_disc.build(model, example_inputs=row.at(row.example), ragged={"ids": 1, "mask": 1})
    check(exe, model)
    with pytest.raises(IndexOutside, match="embedding"):
        exe([np.asarray([3, VOCABULARY])], [np.ones(2, np.int64)])


class Patches(torch.nn.Module):  # type: ignore[misc]
    """A vision transformer over patches ``[b, s, 48]`` with positions, and a mean over them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(48, 32)
        self.positions = torch.nn.Parameter(torch.randn(1, 64, 32))
        config = transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
        )
        self.layers = transformers.ViTModel(config).layers
        self.head = torch.nn.Linear(32, 10)

    def forward(self, patches: Any) -> Any:
        rows = self.embed(patches) + self.positions[:, : patches.shape[1]]
        for layer in self.layers:
            rows = layer(rows)
        return self.head(rows.mean(1))


class Classifier(Patches):
    """The same with a token before the patches, whose last state is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Parameter(torch.randn(1, 1, 32))

    def forward(self, patches: Any) -> Any:
        rows = torch.cat([self.token.expand(patches.shape[0], -1, -1), self.embed(patches)], 1)
        rows = rows + self.positions[:, : rows.shape[1]]
        for layer in self.layers:
            rows = layer(rows)
        return self.head(rows[:, 0])


@pytest.mark.parametrize("kind", [Patches, Classifier])
def test_images_as_patches(kind: Any) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    exe = tvm_disc.build(model, example_inputs=(torch.randn(2, 8, 48),), ragged={"patches": 1})
    rng = np.random.default_rng(1)
    for lengths in LENGTHS:
        images = [rng.standard_normal((n, 48)).astype("float32") for n in lengths]
        for found, image in zip(exe(images), images, strict=True):
            with torch.no_grad():
                wanted = model(torch.from_numpy(image[None]))[0]
            np.testing.assert_allclose(found, wanted.numpy(), 1e-5, 1e-5)


class Spectrograms(torch.nn.Module):  # type: ignore[misc]
    """The encoder of Whisper over ``[b, s, mels]``: its second convolution halves the length."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.WhisperConfig(
            d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64,
            num_mel_bins=16, max_source_positions=48,
        )  # fmt: skip
        self.encoder = WhisperEncoder(config)

    def forward(self, mels: Any) -> Any:
        encoder, gelu = self.encoder, torch.nn.functional.gelu
        rows = gelu(encoder.conv2(gelu(encoder.conv1(mels.transpose(1, 2))))).transpose(1, 2)
        rows = rows + encoder.embed_positions.weight[: rows.shape[1]]
        for layer in encoder.layers:
            made = layer(rows, None)
            rows = made[0] if isinstance(made, tuple) else made
        return encoder.layer_norm(rows)


def test_spectrograms() -> None:
    """Results have their own lengths, half of those of the inputs."""
    torch.manual_seed(0)
    model = Spectrograms().eval()
    exe = tvm_disc.build(model, example_inputs=(torch.randn(2, 10, 16),), ragged={"mels": 1})
    rng = np.random.default_rng(2)
    for lengths in ([], [3], [96, 5, 4], [40] * 3, [7, 64, 3, 3, 31, 80]):
        mels = [rng.standard_normal((n, 16)).astype("float32") for n in lengths]
        out = exe(mels)
        assert list(out.lengths) == [(n + 1) // 2 for n in lengths]
        for found, item in zip(out, mels, strict=True):
            with torch.no_grad():
                wanted = model(torch.from_numpy(item[None]))[0]
            np.testing.assert_allclose(found, wanted.numpy(), 1e-5, 1e-5)
    with pytest.raises(GuardFailed, match="'mels' axis 1"):
        exe([np.zeros((5, 16), "float32"), np.zeros((97, 16), "float32")])


class Tagger(torch.nn.Module):  # type: ignore[misc]
    """Two bidirectional recurrent layers: a score of each token, and of the last states."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(VOCABULARY, 12)
        layer = getattr(torch.nn, kind)
        self.layer = layer(12, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.tags, self.whole = torch.nn.Linear(16, 5), torch.nn.Linear(32, 3)

    def forward(self, ids: Any) -> Any:
        each, last = self.layer(self.words(ids))
        last = last[0] if isinstance(last, tuple) else last
        return self.tags(each), self.whole(last.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_taggers(kind: str) -> None:
    model = Tagger(kind).eval()
    sample = (torch.zeros(2, 7, dtype=torch.int64),)
    exe = tvm_disc.build(model, example_inputs=sample, ragged={"ids": 1})
    rng = np.random.default_rng(3)
    drawn = [list(rng.integers(0, 60, rng.integers(1, 12))) for _ in range(6)]
    for lengths in (*LENGTHS, [], [0, 4, 0, 1], *drawn):
        items = [rng.integers(0, VOCABULARY, n) for n in lengths]
        tags, scores = exe(ids=items)
        for k, item in enumerate(items):
            if not len(item):
                continue
            with torch.no_grad():
                wanted = model(torch.from_numpy(item[None]))
            np.testing.assert_allclose(tags[k], wanted[0][0].numpy(), 1e-5, 1e-5)
            np.testing.assert_allclose(scores[k], wanted[1][0].numpy(), 1e-5, 1e-5)


def test_mean_pooling() -> None:
    model = sentences()
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in range(2))
    check(tvm_disc.build(model, example_inputs=example, ragged={"ids": 1, "mask": 1}), model)


def test_onnx_export(tmp_path: Path) -> None:
    """The exporter reads the mask at ``arange(b), arange(s)``."""
    pytest.importorskip("onnxscript")
    model = sentences()
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in range(2))
    dims = {0: torch.export.Dim("b"), 1: torch.export.Dim("s", max=64)}
    path = tmp_path / "sentences.onnx"
    torch.onnx.export(
        model, example, str(path), input_names=["ids", "mask"], dynamic_shapes=(dims, dims),
        dynamo=True, verbose=False,
    )  # fmt: skip
    check(tvm_disc.build(path, ragged={"ids": 1, "mask": 1}), model)
