"""Decoder models of text, each over a whole prompt, without a cache."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.zoo.encoders import COMMON, HEADS, LAYERS, POSITIONS, TEXT, WIDTH
from benchmarks.zoo.row import ids, mask, row

SHARED = {"num_key_value_heads": 2, "head_dim": 16}
EXPERTS = {
    **SHARED, "moe_intermediate_size": 32, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2,
}  # fmt: skip


# A padded sequence has at most 31 tokens, at least half of which are not padding. With this window
# every query attends to at least one token. Otherwise results would differ: an ONNX file computes
# the mean of all values, and PyTorch's attention returns 0.
WINDOW = 16


class Scores(nn.Module):
    """A decoder that returns the logits of every token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any) -> Any:
        return self.model(ids, attention_mask=mask, use_cache=False).logits


class Unmasked(nn.Module):
    """A decoder without a mask, which returns the logits of every token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(ids, use_cache=False).logits


def causal(name: str, model: str, config: str, length: int | None = None, **sizes: Any) -> None:
    """Add a row for a decoder of transformers. With a fixed ``length`` it takes no mask."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        settings = getattr(transformers, config)(**{**COMMON, "pad_token_id": 0, **sizes})
        found: nn.Module = getattr(transformers, model)(settings)
        return Scores(found) if length is None else Unmasked(found)

    if length is None:
        row(name, made, {"ids": ids("b s"), "mask": mask()}, "b s", TEXT, s=(1, POSITIONS))
    else:
        batches = [(2,), (3,), (1,), (5,), (7,), (4,)]
        row(name, made, {"ids": ids(f"b {length}")}, "b", batches, static=True)


causal("qwen3", "Qwen3ForCausalLM", "Qwen3Config", **SHARED)
causal("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", **EXPERTS)
causal(
    "gemma2", "Gemma2ForCausalLM", "Gemma2Config", **SHARED, sliding_window=WINDOW,
    query_pre_attn_scalar=16,
)  # fmt: skip
causal(
    "gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", **SHARED, sliding_window=WINDOW,
    query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"],
)  # fmt: skip
causal("mixtral", "MixtralForCausalLM", "MixtralConfig", **EXPERTS)
causal(
    "deepseek_v3", "DeepseekV3ForCausalLM", "DeepseekV3Config", moe_intermediate_size=32,
    n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=2, topk_group=1,
    kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16,
    first_k_dense_replace=1, num_key_value_heads=HEADS,
)  # fmt: skip
# Mamba's reference code is a Python loop over the positions, which exporters unroll.
causal(
    "mamba", "MambaForCausalLM", "MambaConfig", length=6, state_size=8, time_step_rank=4,
    n_layer=LAYERS,
)  # fmt: skip
causal("olmo2", "Olmo2ForCausalLM", "Olmo2Config", num_key_value_heads=2)
causal("phi3", "Phi3ForCausalLM", "Phi3Config", num_key_value_heads=2)
causal("cohere", "CohereForCausalLM", "CohereConfig", num_key_value_heads=2)
causal("granite", "GraniteForCausalLM", "GraniteConfig", num_key_value_heads=2)
causal("falcon", "FalconForCausalLM", "FalconConfig", multi_query=True, alibi=False)
causal("stablelm", "StableLmForCausalLM", "StableLmConfig", num_key_value_heads=2)
causal("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", num_key_value_heads=2)
causal("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", num_key_value_heads=2)
causal("glm4", "Glm4ForCausalLM", "Glm4Config", **SHARED)
causal("nemotron", "NemotronForCausalLM", "NemotronConfig", num_key_value_heads=2)
causal("gpt_oss", "GptOssForCausalLM", "GptOssConfig", **{**EXPERTS, "sliding_window": WINDOW})
causal(
    "gptj", "GPTJForCausalLM", "GPTJConfig", n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
    n_positions=POSITIONS, rotary_dim=8,
)  # fmt: skip
causal("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig", num_layers=LAYERS, num_heads=HEADS,
       attention_types=[[["global", "local"], 1]], window_size=8)  # fmt: skip
