"""Recurrent models, and temporal convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.zoo.row import VOCABULARY, floats, ids, row

SEQUENCES = ((1, 1), (1, 7), (2, 13), (3, 31), (1, 64), (5, 17), (2, 1))
WIDTH = 32


class Recurrent(nn.Module):
    """Recurrent layers, and a linear layer that returns scores."""

    def __init__(self, kind: Callable[..., nn.Module], **named: Any) -> None:
        super().__init__()
        self.layers = kind(16, WIDTH, batch_first=True, **named)
        self.head = nn.Linear(WIDTH * (2 if named.get("bidirectional") else 1), 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x)[0])


class Packed(nn.Module):
    """A bidirectional LSTM over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, WIDTH, batch_first=True, bidirectional=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        made, (hidden, _) = self.lstm(packed)
        return pad_packed_sequence(made, batch_first=True)[0], hidden


class Seq2Seq(nn.Module):
    """A GRU encoder, and a GRU decoder with attention over the encoder's states."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, WIDTH)
        self.target = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(2 * WIDTH, VOCABULARY)

    def forward(self, source: Any, target: Any) -> Any:
        read, state = self.encoder(self.source(source))
        written, _ = self.decoder(self.target(target), state)
        weights = (written @ read.transpose(1, 2)).softmax(-1)
        return self.head(torch.cat([written, weights @ read], -1))


class Crnn(nn.Module):
    """Text recognition: convolutions, then a bidirectional LSTM over the columns of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(1, 8, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(8, 16, 3, 1, 1),
            nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(16, 16, 3, 1, 1),
            nn.ReLU(), nn.MaxPool2d((2, 1), (2, 1)), nn.Conv2d(16, 16, (4, 1)), nn.ReLU(),
        )  # fmt: skip
        self.lstm = nn.LSTM(16, WIDTH, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, 11)

    def forward(self, pixels: Any) -> Any:
        columns = self.convs(pixels).squeeze(2).permute(2, 0, 1)
        return self.head(self.lstm(columns)[0]).log_softmax(-1)


class Causal(nn.Module):
    """A residual block of causal dilated convolutions."""

    def __init__(self, inner: int, outer: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.first = nn.Conv1d(inner, outer, 3, padding=self.pad, dilation=dilation)
        self.second = nn.Conv1d(outer, outer, 3, padding=self.pad, dilation=dilation)
        self.through = nn.Conv1d(inner, outer, 1)

    def forward(self, x: Any) -> Any:
        made = self.first(x)[..., : -self.pad].relu()
        made = self.second(made)[..., : -self.pad].relu()
        return (made + self.through(x)).relu()


def tcn() -> nn.Module:
    """Return a temporal convolutional network."""
    return nn.Sequential(Causal(16, WIDTH, 1), Causal(WIDTH, WIDTH, 2), Causal(WIDTH, WIDTH, 4))


class Captured(nn.Module):
    """PyTorch's encoder layers, computed as in training, without the nested-tensor fast path."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=True)
        self.model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.model(x)


def recurrent(name: str, make: Callable[[], nn.Module]) -> None:
    """Add a row with an input (batch, time, 16)."""
    row(name, make, {"x": floats("b s 16")}, "b s", SEQUENCES, legacy=True)


recurrent("lstm", lambda: Recurrent(nn.LSTM, num_layers=2))
recurrent("lstm_bidirectional", lambda: Recurrent(nn.LSTM, bidirectional=True))
recurrent("gru", lambda: Recurrent(nn.GRU, num_layers=2))
recurrent("gru_bidirectional", lambda: Recurrent(nn.GRU, bidirectional=True))
recurrent("rnn_tanh", lambda: Recurrent(nn.RNN))


class Lengths(Packed):
    """A packed LSTM whose lengths follow from the batch: each is one shorter than the one
    before, at least 1.
    """

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        b, s = x.shape[0], x.shape[1]
        return super().forward(x, (s - torch.arange(b)).clamp(min=1))


recurrent("lstm_packed", Lengths)
row(
    "seq2seq", Seq2Seq, {"source": ids("b s"), "target": ids("b t")}, "b s t",
    [(1, 1, 1), (1, 7, 2), (2, 13, 5), (3, 31, 11), (1, 64, 3), (5, 17, 23)], legacy=True,
)  # fmt: skip
row(
    "crnn", Crnn, {"pixels": floats("b 1 32 w")}, "b w",
    [(1, 16), (2, 40), (3, 100), (1, 4), (5, 33), (1, 129)], legacy=True, w=(4, 1024),
)  # fmt: skip
row("tcn", tcn, {"x": floats("b 16 s")}, "b s", SEQUENCES)
row("transformer_encoder", Captured, {"x": floats("b s 32")}, "b s", (*SEQUENCES, (0, 3)))
