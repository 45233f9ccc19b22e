"""Encoder-decoder models: text to text, speech to text."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from transformers.cache_utils import EncoderDecoderCache

from benchmarks.zoo.decoders import cache_of, tensors_of
from benchmarks.zoo.encoders import HEADS, LAYERS, TEXT, WIDTH, Masked
from benchmarks.zoo.row import VOCABULARY, floats, ids, mask, row

PAIRS = ((1, 1, 1), (1, 7, 2), (2, 13, 5), (3, 31, 11), (1, 64, 3), (5, 17, 23), (2, 1, 7))
STEPS = ((1, 1, 0), (1, 7, 1), (2, 13, 5), (3, 31, 11), (1, 64, 3), (5, 17, 23), (2, 5, 0))
BART = {
    "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 2 * WIDTH,
    "decoder_ffn_dim": 2 * WIDTH, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "bos_token_id": 0,
}  # fmt: skip


class Decoder(nn.Module):
    """A decoder that returns the logits of target tokens, given the states of the encoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, states: Any, mask: Any) -> Any:
        return self.model(
            decoder_input_ids=ids, encoder_outputs=(states,), attention_mask=mask, use_cache=False
        ).logits


class DecoderStep(nn.Module):
    """A decoder step that returns the logits of the next token, over a cache of earlier tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, states: Any, k0: Any, v0: Any, k1: Any, v1: Any) -> Any:
        own = cache_of(k0, v0, k1, v1)
        cache = EncoderDecoderCache(own, transformers.DynamicCache())
        made = self.model(
            decoder_input_ids=ids, encoder_outputs=(states,), past_key_values=cache, use_cache=True
        )
        return made.logits, *tensors_of(own)


class Whole(nn.Module):
    """Encoder and decoder, which return the logits of target tokens for source tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any, target: Any) -> Any:
        return self.model(
            ids, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits


def text_to_text(name: str, model: str, config: str, sizes: dict[str, Any]) -> None:
    """Add rows for the encoder, the decoder, a step of the decoder, and the whole model."""

    def made() -> Any:
        torch.manual_seed(0)
        return getattr(transformers, model)(getattr(transformers, config)(**sizes))

    states, kept = floats(f"b s {WIDTH}"), floats(f"b {HEADS} p {WIDTH // HEADS}")
    row(
        f"{name}_encoder", lambda: Masked(made().get_encoder()),
        {"ids": ids("b s"), "mask": mask()}, "b s", TEXT, s=(1, 128),
    )  # fmt: skip
    row(
        f"{name}_decoder", lambda: Decoder(made()),
        {"ids": ids("b t"), "states": states, "mask": mask()}, "b s t", PAIRS,
        s=(1, 128), t=(1, 128),
    )  # fmt: skip
    row(
        f"{name}_step", lambda: DecoderStep(made()),
        {"ids": ids("b 1"), "states": states, "k0": kept, "v0": kept, "k1": kept, "v1": kept},
        "b s p", STEPS, s=(1, 128), p=(0, 127),
    )  # fmt: skip
    row(
        f"{name}_whole", lambda: Whole(made()),
        {"ids": ids("b s"), "mask": mask(), "target": ids("b t")}, "b s t", PAIRS,
        s=(1, 128), t=(1, 128),
    )  # fmt: skip


text_to_text(
    "t5", "T5ForConditionalGeneration", "T5Config",
    {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 2 * WIDTH,
         "num_layers": LAYERS, "num_heads": HEADS, "decoder_start_token_id": 0},
)  # fmt: skip
text_to_text(
    "bart", "BartForConditionalGeneration", "BartConfig", {**BART, "max_position_embeddings": 130}
)
text_to_text("marian", "MarianMTModel", "MarianConfig", {**BART, "max_position_embeddings": 130})

FRAMES = 32  # sound frames after the convolutions; fixed by Whisper's position table
WHISPER = {**BART, "num_mel_bins": 16, "max_source_positions": FRAMES, "max_target_positions": 64}


def whisper() -> Any:
    """Return a small Whisper."""
    torch.manual_seed(0)
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WHISPER))


class Sound(nn.Module):
    """The encoder of a speech model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, sound: Any) -> Any:
        return self.model(sound)[0]


class WhisperDecoder(Decoder):
    """A decoder without a mask over the sound."""

    def forward(self, ids: Any, states: Any) -> Any:  # type: ignore[override]
        made = self.model(decoder_input_ids=ids, encoder_outputs=(states,), use_cache=False)
        return made.logits


row(
    "whisper_encoder", lambda: Sound(whisper().get_encoder()),
    {"sound": floats(f"b 16 {2 * FRAMES}")}, "b", [(1,), (2,), (3,), (5,), (7,), (11,), (0,)],
)  # fmt: skip
row(
    "whisper_decoder", lambda: WhisperDecoder(whisper()),
    {"ids": ids("b t"), "states": floats(f"b {FRAMES} {WIDTH}")}, "b t",
    [(1, 1), (1, 7), (2, 5), (3, 11), (5, 31), (2, 1)], t=(1, 64),
)  # fmt: skip
whisper_kept = floats(f"b {HEADS} p {WIDTH // HEADS}")
row(
    "whisper_step", lambda: DecoderStep(whisper()),
    {"ids": ids("b 1"), "states": floats(f"b {FRAMES} {WIDTH}"), "k0": whisper_kept,
     "v0": whisper_kept, "k1": whisper_kept, "v1": whisper_kept}, "b p",
    [(1, 0), (1, 1), (2, 5), (3, 11), (5, 31), (2, 0)], p=(0, 63),
)  # fmt: skip
