"""Causal language models of transformers: greedy words beside those of its ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tvm_disc  # noqa: E402
from tvm_disc.errors import BadInput, BadOption, TypeMismatch, Unsupported  # noqa: E402
from tvm_disc.runtime.text.language import padded  # noqa: E402

WORDS, POSITIONS = 96, 64
PLAIN = {
    "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": POSITIONS, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
GROUPED = {**PLAIN, "num_key_value_heads": 2}
WINDOW = {**GROUPED, "head_dim": 8, "sliding_window": 6}
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
# Class of the model, without "ForCausalLM" and "Config", and the fields of its config.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "Qwen2": GROUPED,
    "Qwen3": {**GROUPED, "head_dim": 8},
    "Mistral": WINDOW,
    "GPT2": {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4,
             "n_positions": POSITIONS},
    "GPTNeoX": PLAIN,
    "Phi": PLAIN,
    "Gemma": {**PLAIN, "num_key_value_heads": 1, "head_dim": 8},
    "OPT": {**PLAIN, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "Mixtral": {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    # every second layer has a sliding window
    "Gemma3": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    # biases of attention that depend on the distance of words, no positions
    "Bloom": {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    # a state space model
    "Mamba": {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    "Mamba2": {
        "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
        "num_heads": 4, "head_dim": 16, "n_groups": 1,
    },
    # a gated delta net, then attention, and a mixture of experts
    "Qwen3Next": {
        **GROUPED, **MIXTURE, "head_dim": 8, "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 16, "decoder_sparse_step": 1,
        "layer_types": ["linear_attention", "full_attention"],
    },
    # a short convolution, then attention
    "Lfm2": {**GROUPED, "layer_types": ["conv", "full_attention"]},
}  # fmt: skip
RECURRENT = {"Mamba", "Mamba2", "Qwen3Next", "Lfm2"}
CONFIGS = {"Gemma3": "Gemma3TextConfig"}


def model_of(name: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, CONFIGS.get(name, f"{name}Config"))(**ARCHITECTURES[name])
    config.initializer_range = 0.3  # otherwise scores are nearly equal
    config.tie_word_embeddings = False  # otherwise a word is followed by itself
    head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    model = getattr(transformers, name + head)(config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def prompts_of(*lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(sum(lengths))
    return [rng.integers(3, WORDS, n).tolist() for n in lengths]


def words_of(lm: Any, prompt: Any, most: int, **how: Any) -> Any:
    return np.stack(list(tvm_disc.generate(lm, prompt, most, **how)), axis=1)


def greedy(model: Any, prompt: list[int], most: int) -> list[int]:
    """The words that transformers generates for one prompt."""
    made = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=most)
    return made[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_words(name: str) -> None:
    """One program: prompts of one and several words, batches of prompts of different lengths."""
    model = model_of(name)
    lm = tvm_disc.language_model(model)
    assert lm.one_by_one == (name in RECURRENT)
    assert lm.vocabulary == WORDS
    for lengths in ((1,), (3, 11, 7)):
        prompts = prompts_of(*lengths)
        want = [greedy(model, p, 12) for p in prompts]
        assert words_of(lm, prompts, 12).tolist() == want
    assert len({w for row in want for w in row}) > 2
    _, scores = lm.read(*padded(prompts, None))
    for prompt, found in zip(prompts, scores, strict=True):
        with torch.no_grad():
            exact = model(torch.tensor([prompt])).logits[0, -1].numpy()
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("kept", [None, "int8"])
def test_words_outside_of_the_window_are_dropped(kept: str | None) -> None:
    """Caches hold the window however many words are read, in prompts of any length."""
    model = model_of("Mistral")
    lm = tvm_disc.language_model(model, options=tvm_disc.Options(state_dtype=kept))
    for chunk in (0, 4):
        ids, mask = padded(prompts_of(9, 25), None)
        state, scores = lm.read(ids, mask, chunk)
        plain = [list(row[m > 0]) for row, m in zip(ids, mask, strict=True)]
        for _ in range(15):
            for words, found in zip(plain, scores, strict=True):
                with torch.no_grad():
                    exact = model(torch.tensor([words])).logits[0, -1].numpy()
                near = 1e-4 if kept is None else 0.1
                assert np.abs(found - exact).max() <= near * np.abs(exact).max()
                words.append(int(exact.argmax()))
            scores = state(np.array([[words[-1]] for words in plain]))
        assert state._call.length == WINDOW["sliding_window"]
        assert state._call.capacity <= 4 * (WINDOW["sliding_window"] + 1)


def test_layers_with_and_without_a_window_keep_all_words() -> None:
    lm = tvm_disc.language_model(model_of("Gemma3"))
    state, _ = lm.read(*padded(prompts_of(25), None))
    assert state._call.length == 25


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of("Llama")


@pytest.fixture(scope="module")
def lm(model: Any) -> Any:
    return tvm_disc.language_model(model)


def test_one_call_for_the_prompt_and_one_for_each_word(lm: Any) -> None:
    """Caches are extended in place, and only the last word is scored."""
    assert lm.program.results == [(("b", str(WORDS)), "float32")]
    caches = [n for n in lm.program.inputs if n.startswith("past_") and "length" not in n]
    assert len(caches) == 5  # the mask, and keys and values of two layers
    assert sum("append" in name for name in lm.program.launches) == len(caches)
    state, scores = lm.read(np.ones((2, 5), int), np.ones((2, 5), int))
    assert scores.shape == (2, WORDS) and state(np.ones((2, 1), int)).shape == (2, WORDS)
    assert repr(lm) == "<tvm_disc language model of 96 tokens, 64 positions>"


@pytest.mark.parametrize("chunk", [1, 4, 7, 50])
def test_prompts_in_parts(model: Any, lm: Any, chunk: int) -> None:
    prompts = prompts_of(3, 14)
    want = [greedy(model, p, 8) for p in prompts]
    assert words_of(lm, prompts, 8, chunk=chunk).tolist() == want


def test_a_mask_of_the_tokenizer(model: Any, lm: Any) -> None:
    """Words under a mask of 0 are not read, whatever they are."""
    prompts = prompts_of(2, 6)
    ids, mask = np.full((2, 6), 10**6), np.ones((2, 6), "int32")
    mask[0, :4] = 0
    ids[0, 4:], ids[1] = prompts[0], prompts[1]
    want = [greedy(model, p, 8) for p in prompts]
    assert words_of(lm, ids, 8, mask=mask).tolist() == want
    given = torch.from_numpy(ids), torch.from_numpy(mask).bool()
    assert words_of(lm, given[0], 8, mask=given[1]).tolist() == want


def test_words_arrive_one_by_one_until_each_row_has_ended(model: Any, lm: Any) -> None:
    prompts = prompts_of(5, 9)
    rows = [greedy(model, p, 12) for p in prompts]
    stop = [rows[0][2], rows[1][5]]
    ends = [next(k for k, w in enumerate(r) if w in stop) for r in rows]
    words = tvm_disc.generate(lm, prompts, 12, stop=stop)
    assert next(words).tolist() == [r[0] for r in rows]
    assert len(list(words)) == max(ends)


def test_two_generations_do_not_share_a_state(model: Any, lm: Any) -> None:
    prompts = prompts_of(4, 6)
    pair = [tvm_disc.generate(lm, [p], 6) for p in prompts]
    found = [[int(a[0]), int(b[0])] for a, b in zip(*pair, strict=True)]
    assert np.transpose(found).tolist() == [greedy(model, p, 6) for p in prompts]


def test_padding_does_not_count_as_words_that_occurred(model: Any, lm: Any) -> None:
    prompts = prompts_of(2, 13)
    how = {"repetition_penalty": 1.5}
    alone = [words_of(lm, [p], 10, **how)[0].tolist() for p in prompts]
    assert words_of(lm, prompts, 10, **how).tolist() == alone
    ids = torch.tensor([prompts[1]])
    made = model.generate(ids, do_sample=False, max_new_tokens=10, **how)
    assert alone[1] == made[0, 13:].tolist()


def test_sampled_words_depend_on_the_seed(lm: Any) -> None:
    prompts = prompts_of(4)
    how = {"temperature": 1.5, "top_k": 20, "top_p": 0.9}
    one, same, other = (words_of(lm, prompts, 12, seed=s, **how).tolist() for s in (1, 1, 2))
    assert one == same != other


def test_saved_models(model: Any, lm: Any, tmp_path: Any) -> None:
    lm.program.save(tmp_path / "lm.so")
    again = tvm_disc.language_model(tvm_disc.load(tmp_path / "lm.so"), positions=POSITIONS)
    prompts = prompts_of(3, 4)
    assert words_of(again, prompts, 5).tolist() == [greedy(model, p, 5) for p in prompts]


def test_the_model_is_not_changed(model: Any, lm: Any) -> None:
    ids = torch.tensor(prompts_of(5))
    with torch.no_grad():
        assert model(ids).logits.shape == (1, 5, WORDS)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    """Weights and caches have the type of the model, scores are float32."""
    model = model_of("Llama").to(getattr(torch, dtype))
    lm = tvm_disc.language_model(model)
    assert lm.program.signature[4][2] == dtype and lm.program.results[0][1] == "float32"
    prompts = prompts_of(3, 11)
    state, scores = lm.read(*padded(prompts, None))
    assert np.isfinite(state(np.array([[5], [6]]))).all()
    for prompt, found in zip(prompts, scores, strict=True):
        with torch.no_grad():
            want = model(torch.tensor([prompt])).logits[0, -1].float().numpy()
        np.testing.assert_allclose(found, want, rtol=0, atol=0.03 * np.abs(want).max())


def test_weights_of_eight_bits() -> None:
    """Options of a build apply: results are near, and matrices are stored as bytes."""
    torch.manual_seed(0)
    sizes = {**GROUPED, "hidden_size": 256, "intermediate_size": 512}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    lm = tvm_disc.language_model(model, options=tvm_disc.Options(weights="int8"))
    ids = np.array(prompts_of(9))
    _, found = lm.read(ids, np.ones_like(ids))
    with torch.no_grad():
        want = model(torch.from_numpy(ids)).logits[:, -1].numpy()
    assert 0 < np.abs(found - want).max() < 0.02 * np.abs(want).max()


@pytest.mark.parametrize(
    ("prompt", "how", "message"),
    [
        ([], {}, None),
        ([[]], {}, "prompt: row 0: expected a list of one or more token ids, found []"),
        ([[1], [2.5]], {}, "prompt: row 1: expected a list of one or more token ids, found [2.5]"),
        ([1, 2], {}, "prompt: row 0: expected a list of one or more token ids, found 1"),
        ([["a"]], {}, "prompt: row 0: expected a list of one or more token ids, found ['a']"),
        ("text", {}, "prompt: expected an array or a list of prompts, found 'text'"),
        (np.array([1, 2]), {}, "prompt: expected integers [batch, length >= 1], found int64[2]: "),
        (np.ones((1, 2)), {}, "prompt: expected integers [batch, length >= 1], found float64[1"),
        (np.ones((1, 0), int), {}, "prompt: expected integers [batch, length >= 1], found int64[1"),
        ([[1, 96]], {}, "prompt: expected token ids 0 .. 95, the vocabulary"),
        ([[1, -1]], {}, "prompt: expected token ids 0 .. 95, the vocabulary"),
        ([[1] * 61], {}, "prompt: the model has 64 positions; found 61"),
        ([[1, 2]], {"mask": np.ones((1, 3), int)}, "mask: expected integers of the prompt's shape"),
        ([[1, 2]], {"mask": np.ones((1, 2))}, "mask: expected integers of the prompt's shape"),
        ([[1, 2]], {"mask": np.array([[1, 0]])}, "mask: row 0: expected zeros (padding)"),
        ([[1, 2]], {"mask": np.array([[0, 0]])}, "mask: row 0: expected zeros (padding)"),
        ([[1, 2]], {"chunk": -1}, "chunk: expected at least 0, found -1"),
    ],
)  # fmt: skip
def test_prompts_that_are_refused(lm: Any, prompt: Any, how: Any, message: str | None) -> None:
    if message is None:
        assert list(tvm_disc.generate(lm, prompt, 5)) == []
        return
    with pytest.raises(BadInput) as failed:
        tvm_disc.generate(lm, prompt, 5, **how)
    assert str(failed.value).startswith(message)


def test_the_last_position(model: Any, lm: Any) -> None:
    """The last word is not read, so that it needs no position."""
    (prompt,) = prompts_of(POSITIONS - 4)
    assert words_of(lm, [prompt], 5).shape == (1, 5)


def bert() -> Any:
    sizes = {k: v for k, v in PLAIN.items() if k not in ("bos_token_id", "eos_token_id")}
    return transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).eval()


def t5() -> Any:
    config = transformers.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=32, num_layers=1,
                                   num_heads=4, decoder_start_token_id=0)  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def step() -> Any:
    return tvm_disc.build(tvm_disc.relay.Function([], tvm_disc.relay.const(np.float32(1))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (bert, "language_model: expected a causal language model, found BertForMaskedLM, which"),
        (t5, "language_model: expected a causal language model, found T5ForConditional"),
        (lambda: torch.nn.Linear(2, 2), "language_model: expected a causal language model of tran"),
        (lambda: "model.onnx", "language_model: expected a causal language model of transformers"),
        (lambda: model_of("Llama").train(), "language_model: LlamaForCausalLM is in training mode"),
        (step, "language_model: expected a program with the inputs ids, mask, positions, past_* "),
    ],
)  # fmt: skip
def test_models_that_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeMismatch, BadInput)) as failed:
        tvm_disc.language_model(make())
    assert str(failed.value).startswith(message)


def test_a_cache_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm_disc.frontends.torch import language

    monkeypatch.delitem(language.LAYERS, "DynamicLayer")
    with pytest.raises(Unsupported, match="layer 0 of the cache is a DynamicLayer; expected"):
        tvm_disc.language_model(model_of("Llama"))


def test_options_that_are_refused(model: Any) -> None:
    with pytest.raises(BadOption, match="state: language_model chooses the caches; leave it out"):
        tvm_disc.language_model(model, options=tvm_disc.Options(state=["past_*"]))
