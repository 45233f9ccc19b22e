"""Decoders of text: a whole prompt, and one step over a growing cache."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from transformers.cache_utils import DynamicCache, DynamicLayer

from benchmarks.zoo.encoders import COMMON, HEADS, LAYERS, POSITIONS, TEXT, WIDTH
from benchmarks.zoo.row import floats, ids, mask, row

STEPS = ((1, 0), (1, 1), (2, 7), (3, 31), (1, 64), (5, 13), (2, 2))


def cache_of(*tensors: Any) -> DynamicCache:
    """Return transformers' cache of keys and values, which are given layer by layer."""
    cache = DynamicCache()
    for keys, values in zip(tensors[::2], tensors[1::2], strict=True):
        layer = DynamicLayer()
        layer.dtype, layer.device = keys.dtype, keys.device
        layer.keys, layer.values, layer.is_initialized = keys, values, True
        cache.layers.append(layer)
    return cache


def tensors_of(cache: Any) -> list[Any]:
    """Return the keys and values of a cache."""
    return [t for layer in cache.layers for t in (layer.keys, layer.values)]


class Prefill(nn.Module):
    """A decoder over a prompt that returns the logits of every token, and the cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any) -> Any:
        made = self.model(ids, attention_mask=mask, use_cache=True)
        return made.logits, *tensors_of(made.past_key_values)


class Step(nn.Module):
    """A decoder step that returns the logits of the next token, and the grown cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any, k0: Any, v0: Any, k1: Any, v1: Any) -> Any:
        cache = cache_of(k0, v0, k1, v1)
        made = self.model(ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return made.logits, *tensors_of(made.past_key_values)


def decoder(name: str, model: str, config: str, heads: int = HEADS, **sizes: Any) -> None:
    """Add two rows for a decoder of transformers: the prompt and a step."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        settings = getattr(transformers, config)(**{**COMMON, **sizes})
        found: nn.Module = getattr(transformers, model)(settings)
        return found

    kept = floats(f"b {heads} p {sizes.get('head_dim', WIDTH // HEADS)}")
    row(
        f"{name}_prefill", lambda: Prefill(made()), {"ids": ids("b s"), "mask": mask()},
        "b s", TEXT, s=(1, POSITIONS),
    )  # fmt: skip
    row(
        f"{name}_step", lambda: Step(made()),
        {"ids": ids("b 1"), "mask": ones("b p+1"), "k0": kept, "v0": kept, "k1": kept,
         "v1": kept},
        "b p", STEPS, p=(0, POSITIONS - 1),
    )  # fmt: skip


def ones(axes: str) -> Any:
    """Return a mask without padding."""
    return ids(axes, high=2, low=1)


decoder(
    "gpt2", "GPT2LMHeadModel", "GPT2Config", n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
    n_positions=POSITIONS,
)  # fmt: skip
decoder("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig")
decoder("llama", "LlamaForCausalLM", "LlamaConfig", heads=2, num_key_value_heads=2)
decoder(
    "mistral", "MistralForCausalLM", "MistralConfig", heads=2, num_key_value_heads=2,
    head_dim=16, sliding_window=None,
)  # fmt: skip
decoder("qwen2", "Qwen2ForCausalLM", "Qwen2Config", heads=2, num_key_value_heads=2)
decoder("gemma", "GemmaForCausalLM", "GemmaConfig", heads=1, num_key_value_heads=1, head_dim=16)
decoder(
    "opt", "OPTForCausalLM", "OPTConfig", ffn_dim=2 * WIDTH, word_embed_proj_dim=WIDTH,
)  # fmt: skip
decoder("bloom", "BloomForCausalLM", "BloomConfig", n_layer=LAYERS, n_head=HEADS)
decoder("phi", "PhiForCausalLM", "PhiConfig")
