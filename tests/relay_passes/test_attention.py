"""Attention is found in the graphs of every front end, and refused where a value is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.relay_passes.propagate_helpers import load
from tvm_disc import relay
from tvm_disc.frontends.sources import read
from tvm_disc.relay_passes import DecomposeComposite, FuseDISC, MergeProducts, Simplify
from tvm_disc.relay_passes.versions import import_versions


def plan(source: Any, constraints: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """(kind of every kernel call in order, every refusal)."""
    imported = import_versions(read(source), None, constraints, several=False)[0]
    fuse = FuseDISC()
    mod = fuse(MergeProducts()(Simplify()(DecomposeComposite()(imported.mod))))
    calls = [b.value.op for block in mod["main"].body.blocks for b in block.bindings if is_call(b)]
    return [str(mod[gv].attrs["disc.kind"]) for gv in calls], [str(r) for r in fuse.refused]


def is_call(binding: Any) -> bool:
    """Whether a binding calls a group."""
    return hasattr(binding.value, "op") and isinstance(binding.value.op, relax.GlobalVar)


# model: (kernel calls before the first layer and after the last, kernel calls of a layer)
MODELS = {"bert": (3, 7), "bert_torch": (4, 7), "t5": (9, 6), "vit": (4, 7)}


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_of_a_recorded_model(name: str) -> None:
    around, layer = MODELS[name]
    kinds, _ = plan(load(name))
    found = Counter(kinds)
    assert found["attention"] == 2
    assert len(kinds) <= around + 2 * layer, kinds


def test_causal_attention_of_gpt2_reads_the_split_in_place() -> None:
    kinds, _ = plan(load("gpt2"))
    first = kinds.index("attention")
    # q, k, v in one product, the mask of all layers, attention, its output: no slices between.
    assert kinds[first - 2 : first + 2] == ["dot", "loop", "attention", "dot"]
    assert kinds.count("attention") == 2


def test_layers_share_one_kernel() -> None:
    imported = import_versions(read(load("bert")), None, (), several=False)[0]
    mod = FuseDISC()(MergeProducts()(Simplify()(DecomposeComposite()(imported.mod))))
    names = [b.value.op for block in mod["main"].body.blocks for b in block.bindings if is_call(b)]
    assert len({gv for gv in names if str(mod[gv].attrs["disc.kind"]) == "attention"}) == 1


# -- single attentions -----------------------------------------------------------------------------


def operands() -> list[Any]:
    """q, k, v of three dims."""
    return [relay.var(n, shape=(relay.Any(), relay.Any(), 8), dtype="float32") for n in "qkv"]


FACTS = ("k.0 == q.0", "v.0 == q.0", "v.1 == k.1")


def scores(q: Any, k: Any) -> Any:
    """q k^T."""
    return relay.nn.batch_matmul(q, k)


def weighted(weights: Any, v: Any) -> Any:
    """weights v."""
    return relay.nn.batch_matmul(weights, v, transpose_b=False)


def test_scores_without_a_chain() -> None:
    q, k, v = operands()
    kinds, refused = plan(
        relay.Function([q, k, v], weighted(relay.nn.softmax(scores(q, k)), v)), FACTS
    )
    assert (kinds, refused) == (["attention"], [])


def seen_scores(q: Any, k: Any, v: Any) -> Any:
    s = scores(q, k)
    return relay.Tuple([weighted(relay.nn.softmax(s), v), s])


def seen_weights(q: Any, k: Any, v: Any) -> Any:
    p = relay.nn.softmax(scores(q, k))
    return relay.Tuple([weighted(p, v), p])


def read_twice(q: Any, k: Any, v: Any) -> Any:
    s = scores(q, k)
    return weighted(relay.nn.softmax(s), v) + relay.sum(s, axis=[1, 2], keepdims=True)


def no_product(q: Any, k: Any, v: Any) -> Any:
    return weighted(relay.nn.softmax(relay.exp(k)), relay.transpose(v, (0, 2, 1)))


def two_products(q: Any, k: Any, v: Any) -> Any:
    both = scores(q, k) + scores(relay.exp(q), relay.exp(k))
    return weighted(relay.nn.softmax(both), v)


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "the scores are an output": (seen_scores, "is read by"),
    "the weights are an output": (seen_weights, "is read by"),
    "another kernel reads the scores": (read_twice, "is read by sum as well"),
    "no product": (no_product, "no chain of element-wise operators and views leads from a matmul"),
    "two products": (two_products, "several matmuls flow into one softmax"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_reason(case: str) -> None:
    make, reason = REFUSED[case]
    inputs = operands()
    kinds, refused = plan(relay.Function(inputs, make(*inputs)), FACTS)
    assert "attention" not in kinds
    assert any("as attention" in r and reason in r for r in refused), refused


def test_softmax_over_queries_is_no_attention() -> None:
    q, k, v = operands()
    body = weighted(relay.nn.softmax(scores(q, k), axis=1), v)
    kinds, refused = plan(relay.Function([q, k, v], body), FACTS)
    assert "attention" not in kinds
    assert not any("as attention" in r for r in refused)


def test_half_precision_is_fused_with_its_casts() -> None:
    inputs = operands()
    q, k, v = (relay.cast(x, "float16") for x in inputs)
    body = weighted(relay.nn.softmax(scores(q, k)), v)
    kinds, _ = plan(relay.Function(inputs, body), FACTS)
    assert kinds == ["attention"]


def test_parts_of_several_dtypes_are_refused() -> None:
    q, k, v = operands()
    narrow = scores(relay.cast(q, "float16"), relay.cast(k, "float16"))
    body = weighted(relay.nn.softmax(relay.cast(narrow, "float32")), v)
    kinds, refused = plan(relay.Function([q, k, v], body), FACTS)
    assert "attention" not in kinds
    assert any("the same dtype, one of float16, float32, float64" in r for r in refused)


def test_an_expensive_mask_is_computed_once_for_all_heads() -> None:
    q, k, v = operands()
    m = relay.var("m", shape=(1, relay.Any(), relay.Any()), dtype="float32")
    facts = (*FACTS, "m.1 == q.1", "m.2 == k.1")
    for mask, expected in ((relay.tanh(m), ["loop", "attention"]), (m + m, ["attention"])):
        body = weighted(relay.nn.softmax(scores(q, k) + mask), v)
        kinds, _ = plan(relay.Function([q, k, v, m], body), facts)
        assert kinds == expected


def test_a_field_of_a_known_tuple_is_the_field() -> None:
    x = relay.var("x", shape=(relay.Any(), 24), dtype="float32")
    parts = relay.split(x, 3, axis=1)
    body = relay.nn.relu(parts[0]) + relay.exp(parts[2])
    kinds, _ = plan(relay.Function([x], body))
    assert kinds == ["loop"]


def test_a_product_belongs_to_one_attention() -> None:
    """Softmaxes and products in turn: each product could end one attention and begin the next."""
    x = relay.var("x", shape=(relay.Any(), 16))
    y: Any = x
    for k in range(4):
        y = relay.nn.dense(relay.nn.softmax(y), relay.const(np.full((16, 16), k / 8, "float32")))
    kinds, refused = plan(relay.Function([x], y))
    assert kinds == ["row", "attention", "row", "attention"]
    assert any("is part of another attention" in text for text in refused)
