"""``generate()`` of transformers under ``torch.compile(backend="tvm_disc")``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tvm_disc import dynamo  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=128,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("cache", [None, "static"], ids=["dynamic", "static"])
def test_generate(cache: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Few programs serve prompts and steps of all batches and lengths above 1."""
    model = llama()
    settings = {"do_sample": False, "max_new_tokens": 6, "min_new_tokens": 6,
                "disable_compile": True}  # fmt: skip
    if cache is not None:
        settings["cache_implementation"] = cache
    prompts = []
    for batch, length in ((2, 7), (3, 11), (2, 5)):
        torch.manual_seed(length)
        ids = torch.randint(3, 96, (batch, length))
        mask = torch.ones_like(ids)
        mask[0, :2] = 0  # padding on the left
        prompts.append((ids, mask))
    wanted = [model.generate(i, attention_mask=m, **settings) for i, m in prompts]
    model.forward = torch.compile(model.forward, backend=dynamo.backend, dynamic=True)
    with (
        caplog.at_level(logging.WARNING, "tvm_disc"),
        compile_counter() as compilations,
        dynamo.reporting() as report,
    ):
        for (ids, mask), want in zip(prompts, wanted, strict=True):
            found = model.generate(ids, attention_mask=mask, **settings)
            assert torch.equal(found, want)
    assert report.share >= 0.95, report
    assert report.fallbacks == 0 and report.compiled > 1000
    assert compilations[0] == report.programs <= 4
