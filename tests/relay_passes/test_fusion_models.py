"""Kernel counts of recorded models, with and without fusion."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import tvm

from tvm_disc import relay
from tvm_disc.relay_passes import DecomposeComposite, FuseDISC, MergeProducts, Simplify
from tvm_disc.relay_passes.versions import import_versions, kernel_calls

DATA = Path(__file__).resolve().parents[1] / "data"

# Most kernels a program may have, and the least share of kernels that fusion must save.
MODELS = {
    "relay/models/bert.relay": (17, 0.8),
    "relay/models/cnn.relay": (7, 0.65),
    "relay/models/dlrm.relay": (7, 0.75),
    "relax/bert.json": (16, 0.8),
    "relax/bert_torch.json": (17, 0.8),
    "relax/gpt2.json": (17, 0.8),
    "relax/t5.json": (18, 0.8),
    "relax/vit.json": (16, 0.8),
    "relax/crnn.json": (17, 0.5),  # its recurrent loops are functions of their own
}


def module(name: str) -> Any:
    text = (DATA / name).read_text()
    return tvm.ir.load_json(text) if name.endswith(".json") else relay.parse(text)


@functools.cache
def fused(name: str, fuse: bool) -> tuple[Any, tuple[str, ...]]:
    """The outlined module and the refusals; nothing is compiled."""
    version = import_versions(module(name), None, (), False)[0]
    mod = MergeProducts()(Simplify()(DecomposeComposite()(version.mod)))
    outline = FuseDISC(enabled=fuse)
    return outline(mod), tuple(str(r) for r in outline.refused)


def kinds(name: str) -> list[str]:
    mod, _ = fused(name, True)
    calls = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    groups = [mod[c.op] for c in calls if isinstance(getattr(c, "op", None), tvm.ir.GlobalVar)]
    return [str(g.attrs["disc.kind"]) for g in groups if "disc.kind" in (g.attrs or {})]


@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_models(name: str) -> None:
    most, saved = MODELS[name]
    with_fusion, without = (kernel_calls(fused(name, fuse)[0]) for fuse in (True, False))
    print(f"{name:24} {without:4} -> {with_fusion:3}  {1 - with_fusion / without:.0%} fewer")
    assert with_fusion <= most
    assert 1 - with_fusion / without >= saved


@pytest.mark.parametrize("name", ["relay/models/bert.relay", "relax/bert.json"])
def test_a_layer_of_bert_takes_few_kernels(name: str) -> None:
    """Q, K and V at once, attention, its output, two feed-forward products, two layer norms."""
    found = kinds(name)
    outside = 3  # the embeddings' layer norm and the mask
    assert (len(found) - outside) / 2 <= 7, found
    assert found.count("attention") == 2
    assert found.count("dot") == 8  # per layer: Q, K and V; output; two of feed-forward


def test_without_a_fact_less_is_fused() -> None:
    """Every refusal names an operator, a group and a reason."""
    for name in MODELS:
        for refusal in fused(name, True)[1]:
            subject, _, reason = refusal.partition(": ")
            assert subject and len(reason) > 8, refusal
