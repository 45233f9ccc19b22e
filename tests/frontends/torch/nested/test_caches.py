"""A language model of Transformers takes and returns its cache object."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed  # noqa: E402
from tvm_disc.frontends.torch.agree import narrowed_sizes  # noqa: E402

LAYERS, WIDTH = 2, 8
# Batch, tokens and length of the cache: prompts, single tokens, and an empty cache.
SIZES = ((2, 3, 5), (2, 5, 0), (1, 1, 4), (3, 1, 17), (2, 2, 1), (1, 7, 13), (2, 33, 64))


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=128,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def call(b: int, s: int, p: int) -> dict[str, Any]:
    """Tokens, a mask of both lengths with padding on the left, and a filled cache."""
    cache = transformers.DynamicCache()
    for layer in range(LAYERS):
        cache.update(*tensors((b, 2, p, WIDTH), (b, 2, p, WIDTH)), layer)
    mask = torch.ones(b, s + p, dtype=torch.int64)
    mask[0, : (s + p) // 3] = 0
    ids = torch.randint(3, 96, (b, s), generator=torch.Generator().manual_seed(s))
    return {"input_ids": ids, "attention_mask": mask, "past_key_values": cache, "use_cache": True}


@pytest.fixture(scope="module")
def built() -> tuple[Any, Any]:
    """A model and its program."""
    model = llama()
    return model, tvm_disc.build(model, example_inputs=call(2, 3, 5))


def test_one_program_serves_prompts_and_single_tokens(built: tuple[Any, Any]) -> None:
    model, exe = built
    for size in SIZES:
        given = call(*size)
        found = exe(**copy.deepcopy(given))
        with torch.no_grad():
            wanted = model(**given)
        assert type(found) is type(wanted)
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-4, atol=1e-5)
        kept, past = found.past_key_values, wanted.past_key_values
        assert type(kept) is type(past) and len(kept) == LAYERS
        for mine, layer in zip(kept.layers, past.layers, strict=True):
            torch.testing.assert_close(mine.keys, layer.keys, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(mine.values, layer.values, rtol=1e-4, atol=1e-5)


def test_the_returned_cache_is_the_next_input(built: tuple[Any, Any]) -> None:
    model, exe = built
    given = call(1, 4, 2)
    cache, ids, mask = given["past_key_values"], given["input_ids"], given["attention_mask"]
    state = copy.deepcopy(cache)
    for _ in range(5):
        out = exe(input_ids=ids, attention_mask=mask, past_key_values=state, use_cache=True)
        with torch.no_grad():
            wanted = model(ids, mask, past_key_values=cache)
        ids = wanted.logits[:, -1:].argmax(-1)
        assert torch.equal(out.logits[:, -1:].argmax(-1), ids)
        state, mask = out.past_key_values, torch.nn.functional.pad(mask, (0, 1), value=1)
    assert state.get_seq_length() == 2 + 4 + 4


def test_a_loaded_program_takes_the_cache(built: tuple[Any, Any], tmp_path: Path) -> None:
    _, exe = built
    exe.save(tmp_path / "llama.so")
    again = tvm_disc.load(tmp_path / "llama.so")
    given = call(2, 3, 5)
    assert torch.equal(again(**given).logits, exe(**given).logits)


def shorter_mask(given: dict[str, Any]) -> None:
    given["attention_mask"] = given["attention_mask"][:, :6]


def shorter_values(given: dict[str, Any]) -> None:
    layer = given["past_key_values"].layers[1]
    layer.values = layer.values[:, :, :3]


def fewer_heads(given: dict[str, Any]) -> None:
    layer = given["past_key_values"].layers[1]
    layer.keys = layer.keys[:, :1].contiguous()


def no_cache(given: dict[str, Any]) -> None:
    given["past_key_values"] = None


def fewer_layers(given: dict[str, Any]) -> None:
    given["past_key_values"] = transformers.DynamicCache()
    given["past_key_values"].update(*tensors((2, 2, 5, WIDTH), (2, 2, 5, WIDTH)), 0)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            shorter_mask,
            GuardFailed,
            r"past_key_values_key_cache_0_2 \+ input_ids_1 <= attention_mask_1 must hold .*"
            r"input 'past_key_values\.key_cache\[0\]' axis 2\); found .*"
            "input_ids_1 = 3, attention_mask_1 = 6, past_key_values_key_cache_0_2 = 5",
        ),
        (
            shorter_values,
            GuardFailed,
            r"input 'past_key_values\.value_cache\[1\]' axis 2.*"
            "attention_mask_1 = 8, input_ids_1 = 3, past_key_values_value_cache_1_2 = 3",
        ),
        (fewer_heads, BadInput, r"input 'past_key_values\.key_cache\[1\]' axis 1: expected 2; "),
        (no_cache, BadInput, r"DynamicCache \(key_cache: list.*found None"),
        (
            fewer_layers,
            BadInput,
            r"input 'past_key_values': expected the structure of the example.*"
            r"found DynamicCache \(key_cache: list \(a tensor\), value_cache: list \(a tensor\)\)",
        ),
    ],
)
def test_other_caches_are_refused(
    built: tuple[Any, Any], change: Callable[[dict[str, Any]], None], kind: Any, message: str
) -> None:
    given = call(2, 3, 5)
    change(given)
    with pytest.raises(kind, match=message):
        built[1](**given)


def test_an_example_is_narrowed_where_a_condition_requires_it() -> None:
    import sympy

    mask, past, tokens = sympy.symbols("mask past tokens", integer=True)
    example = {mask: 8, past: 5, tokens: 3}
    least, most = sympy.Le(past - mask + tokens, 0), sympy.Le(mask, past + tokens)
    assert narrowed_sizes(example, {tokens: 1}, [least, most]) == {mask: 6}
    assert narrowed_sizes(example, {tokens: 3}, [least, most]) == {}
    # A longer example cannot be had.
    assert narrowed_sizes(example, {mask: 9}, [sympy.Eq(mask, past + tokens)]) == {}
