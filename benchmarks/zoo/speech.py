"""Models of speech: recognition and synthesis."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.zoo.row import VOCABULARY, floats, ids, mask, row

WIDTH = 64
SOUND = ((1, 400), (2, 801), (3, 1601), (1, 1999), (5, 997), (2, 640))


class Conformer(nn.Module):
    """Subsampling, then Conformer blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU()
        )
        self.inner = nn.Linear(8 * 4, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x: Any) -> Any:
        x = self.subsample(x[:, None])
        x = self.inner(x.permute(0, 2, 1, 3).flatten(2))
        for b in self.blocks:
            x = b(x)
        return x


class Block(nn.Module):
    """A Conformer block: half feed-forward, attention, convolution, half feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = self.feed(), self.feed()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.wide = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.deep = nn.Conv1d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.batch = nn.BatchNorm1d(WIDTH)
        self.narrow = nn.Conv1d(WIDTH, WIDTH, 1)

    def feed(self) -> nn.Module:
        """Return the layers of a feed-forward half step."""
        return nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Any) -> Any:
        x = x + 0.5 * self.before(x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = nn.functional.glu(self.wide(self.norms[1](x).transpose(1, 2)), 1)
        y = self.narrow(nn.functional.silu(self.batch(self.deep(y)))).transpose(1, 2)
        return self.norms[2](x + y + 0.5 * self.after(x + y))


class FastSpeech(nn.Module):
    """Speech synthesis: each phoneme is repeated by its duration, so that data determine the
    length.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, phonemes: Any, durations: Any) -> Any:
        x = self.embed(phonemes)
        x = x + self.conv(x.transpose(1, 2)).relu().transpose(1, 2)
        ends = durations.cumsum(1)
        length = ends.max().item()
        torch._check(length >= 0)  # torch.export requires this of data-dependent sizes
        time = torch.arange(length)
        owner = (time[None, :, None] >= ends[:, None, :]).sum(-1)
        inside = owner < x.shape[1]
        index = owner.clamp(max=x.shape[1] - 1)[..., None].expand(-1, -1, WIDTH)
        return self.head(torch.gather(x, 1, index) * inside[..., None])


class Repeated(nn.Module):
    """The length regulator for one sentence, by ``repeat_interleave``."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, phonemes: Any, durations: Any) -> Any:
        return self.head(torch.repeat_interleave(self.embed(phonemes), durations, 0))


def wav2vec2(**named: Any) -> Any:
    """Return a small wav2vec 2.0."""
    config = transformers.Wav2Vec2Config(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, vocab_size=32, **named,
    )  # fmt: skip
    return transformers.Wav2Vec2ForCTC(config)


class Plain(nn.Module):
    """A model from sound to scores."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, sound: Any) -> Any:
        return self.model(sound).logits


class WithMask(Plain):
    """A model from sound to scores with a mask, because some sound is padding."""

    def forward(self, sound: Any, mask: Any) -> Any:  # type: ignore[override]
        return self.model(sound, attention_mask=mask).logits


row(
    "conformer", Conformer, {"sound": floats("b t 20")}, "b t",
    [(1, 7), (1, 16), (2, 31), (3, 64), (1, 101), (5, 23), (0, 16)], t=(7, 4096),
)  # fmt: skip
TEXT = ((1, 1), (1, 7), (2, 13), (3, 31), (1, 64), (5, 17))
row(
    "fastspeech", FastSpeech,
    {"phonemes": ids("b s"), "durations": ids("b s", high=5, low=1)}, "b s", TEXT,
)  # fmt: skip
row(
    "length_regulator", Repeated, {"phonemes": ids("s"), "durations": ids("s", high=5, low=0)},
    "s", [(1,), (2,), (7,), (13,), (31,), (64,)],
)  # fmt: skip
LONG = (400, 100000)
row("wav2vec2", lambda: Plain(wav2vec2()), {"sound": floats("b t")}, "b t", SOUND, t=LONG)
row(
    "wav2vec2_stable",
    lambda: Plain(wav2vec2(do_stable_layer_norm=True, feat_extract_norm="layer")),
    {"sound": floats("b t")}, "b t", SOUND, t=LONG,
)  # fmt: skip
row(
    "wav2vec2_mask", lambda: WithMask(wav2vec2()), {"sound": floats("b t"), "mask": mask("b t")},
    "b t", SOUND, t=LONG,
)  # fmt: skip
