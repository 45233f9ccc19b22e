"""GGUF files beside models of transformers with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("gguf", reason="needs the package gguf")

import tvm_disc  # noqa: E402
from tests.frontends.language.gguf_files import TinyModel  # noqa: E402

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def model_of(tiny: TinyModel) -> Any:
    """The model of transformers with the weights of a file."""
    config = getattr(transformers, f"{CLASSES[tiny.name]}Config")(
        vocab_size=tiny.words, hidden_size=tiny.width, intermediate_size=tiny.inner,
        num_hidden_layers=tiny.layers, num_attention_heads=tiny.heads,
        num_key_value_heads=tiny.groups, head_dim=tiny.width // tiny.heads, rms_norm_eps=1e-5,
        max_position_embeddings=tiny.positions, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": tiny.base},
    )  # fmt: skip
    model = getattr(transformers, f"{CLASSES[tiny.name]}ForCausalLM")(config).eval()
    weights = {}
    for name, value in tiny.real.items():
        stem, _, end = name.rpartition(".")
        parts = stem.split(".")
        at = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        if tiny.name == "llama" and parts[-1] in ("attn_q", "attn_k"):
            # llama.cpp's converter places the two halves of each head alternately.
            heads = tiny.heads if parts[-1] == "attn_q" else tiny.groups
            pairs = value.reshape(heads, -1, 2, tiny.width)
            value = pairs.swapaxes(1, 2).reshape(-1, tiny.width)
        weights[f"{at}{NAMES[parts[-1]]}.{end}"] = torch.from_numpy(np.ascontiguousarray(value))
    model.load_state_dict(weights)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


@pytest.mark.parametrize("name", CLASSES)
def test_words_of_transformers(name: str, tmp_path: Path) -> None:
    tiny = TinyModel(name=name, kind="Q8_0", base=5e4)
    model = model_of(tiny)
    lm = tvm_disc.language_model(tiny.write(tmp_path / "tiny.gguf"))
    prompts = [[3, 141, 59, 26, 5], [35, 8]]
    found = np.stack(list(tvm_disc.generate(lm, prompts, 10)), axis=1)
    for prompt, words in zip(prompts, found.tolist(), strict=True):
        made = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=10)
        assert words == made[0, len(prompt) :].tolist()
        _, scores = lm.read(np.array([prompt]), np.ones((1, len(prompt)), int))
        with torch.no_grad():
            want = model(torch.tensor([prompt])).logits[0, -1].numpy()
        np.testing.assert_allclose(scores[0], want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_rows_rounded_to_eight_bits(tmp_path: Path) -> None:
    """Weights of four bits times rows of eight bits: scores are near."""
    tiny = TinyModel(kind="Q4_0")
    options = tvm_disc.Options(int8_activations=True)
    lm = tvm_disc.language_model(tiny.write(tmp_path / "tiny.gguf"), options=options)
    prompt = [3, 141, 59, 26, 5]
    _, scores = lm.read(np.array([prompt]), np.ones((1, 5), int))
    want = tiny.scores(prompt)[-1]
    assert 1e-4 < np.abs(scores[0] - want).max() / np.abs(want).max() < 0.03
