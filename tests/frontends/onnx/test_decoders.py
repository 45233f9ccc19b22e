"""Decoders as the builder of ONNX Runtime GenAI writes them, with caches in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.helpers import F32, I32, I64, build, listed, model, node

ort = pytest.importorskip("onnxruntime")

from tvm_disc import Options  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

WORDS, WIDTH, HEADS, GROUPS, LAYERS, BLOCK = 64, 64, 4, 2, 2, 32
DEPTH, INNER, POSITIONS = WIDTH // HEADS, 96, 64
FUSED = {
    "GroupQueryAttention", "MatMulNBits", "RotaryEmbedding", "SkipSimplifiedLayerNormalization",
}  # fmt: skip
FORMS = {
    "rotary in attention": {},
    "packed": {"packed": True},
    "rotary before attention": {"rotary_first": True},
    "window": {"local_window_size": 5},
    "softcap and scale": {"softcap": 3.0, "scale": 0.3},
    "interleaved": {"rotary_interleaved": 1},
}


class Builder:
    """Nodes and literals of a decoder."""

    def __init__(self, packed: bool = False, rotary_first: bool = False, **attrs: Any) -> None:
        self.rng = np.random.default_rng(0)
        self.packed, self.rotary_first = packed, rotary_first
        self.attrs = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attrs}
        if not rotary_first:
            self.attrs["do_rotary"] = 1
        angles = np.arange(POSITIONS)[:, None] / 100.0 ** np.linspace(0, 1, DEPTH // 2)
        self.nodes: list[Any] = []
        self.literals: dict[str, Any] = {
            "table": self.random(WORDS, WIDTH),
            "one": np.array(1, "int64"),
            "axis": np.array([1], "int64"),
            "cos": np.cos(angles).astype("float32"),
            "sin": np.sin(angles).astype("float32"),
        }

    def random(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.rng.standard_normal(shape).astype("float32")

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> str:
        ours = op in ("GroupQueryAttention", "MatMulNBits", "RotaryEmbedding") or op.startswith(
            "Skip"
        )
        domain = {"domain": "com.microsoft"} if ours else {}
        self.nodes.append(node(op, list(inputs), list(outputs), **domain, **attrs))
        return outputs[0]

    def linear(self, name: str, x: str, inner: int, outer: int) -> str:
        """A product with weights of four bits."""
        blocks = inner // BLOCK
        self.literals[f"{name}.w"] = self.rng.integers(0, 256, (outer, blocks, BLOCK // 2), "uint8")
        self.literals[f"{name}.s"] = 0.05 * self.rng.random(outer * blocks, "float32")
        how = {"K": inner, "N": outer, "bits": 4, "block_size": BLOCK}
        return self.add("MatMulNBits", [x, f"{name}.w", f"{name}.s"], [name], **how)

    def gamma(self, name: str) -> str:
        self.literals[name] = 1 + 0.1 * self.random(WIDTH)
        return name

    def attention(self, k: int, x: str) -> str:
        """Queries, keys and values, and their attention."""
        kv = GROUPS * DEPTH
        if self.packed:
            names = [self.linear(f"qkv{k}", x, WIDTH, WIDTH + 2 * kv), "", ""]
        else:
            names = [
                self.linear(f"{part}{k}", x, WIDTH, WIDTH if part == "q" else kv) for part in "qkv"
            ]
        if self.rotary_first:
            names[:2] = [
                self.add("RotaryEmbedding", [n, "position_ids", "cos", "sin"], [f"{n}.turned"])
                for n in names[:2]
            ]
        past = [f"past_key_values.{k}.{part}" for part in ("key", "value")]
        present = [f"present.{k}.{part}" for part in ("key", "value")]
        inputs = [*names, *past, "lengths", "total"]
        inputs += [] if self.rotary_first else ["cos", "sin"]
        return self.add("GroupQueryAttention", inputs, [f"mixed{k}", *present], **self.attrs)

    def model(self) -> Any:
        """The whole model."""
        self.add("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0)
        self.add("Sub", ["sum", "one"], ["last"])
        self.add("Cast", ["last"], ["lengths"], to=I32)
        self.add("Shape", ["attention_mask"], ["shape"])
        self.add("Gather", ["shape", "one"], ["count"])
        self.add("Cast", ["count"], ["total"], to=I32)
        x = self.add("Gather", ["table", "input_ids"], ["embedded"])
        how = {"epsilon": 1e-5}
        y = self.add(
            "SimplifiedLayerNormalization", [x, self.gamma("g")], ["first"], axis=-1, **how
        )
        for k in range(LAYERS):
            mixed = self.linear(f"o{k}", self.attention(k, y), WIDTH, WIDTH)
            skip = [x, mixed, self.gamma(f"g{k}")]
            sums = [f"mid{k}", "", "", f"x{k}.mid"]
            y = self.add("SkipSimplifiedLayerNormalization", skip, sums, **how)
            gate, up = (self.linear(f"{n}{k}", y, WIDTH, INNER) for n in ("gate", "up"))
            self.add("Sigmoid", [gate], [f"s{k}"])
            self.add("Mul", [gate, f"s{k}"], [f"silu{k}"])
            self.add("Mul", [f"silu{k}", up], [f"unit{k}"])
            down = self.linear(f"down{k}", f"unit{k}", INNER, WIDTH)
            skip, x = [f"x{k}.mid", down, self.gamma(f"h{k}")], f"x{k}.out"
            sums = [f"out{k}", "", "", x] if k < LAYERS - 1 else [f"out{k}"]
            y = self.add("SkipSimplifiedLayerNormalization", skip, sums, **how)
        self.linear("logits", y, WIDTH, WORDS)
        cache = (F32, ["batch", GROUPS, "past", DEPTH])
        inputs = {"input_ids": (I64, ["batch", "words"]), "attention_mask": (I64, ["batch", "all"])}
        if self.rotary_first:
            inputs["position_ids"] = (I64, ["batch", "words"])
        parts = [f"{k}.{part}" for k in range(LAYERS) for part in ("key", "value")]
        inputs |= {f"past_key_values.{name}": cache for name in parts}
        results = ["logits", *(f"present.{name}" for name in parts)]
        made = {"domains": {"com.microsoft": 1}, "results": results}
        return model(self.nodes, inputs, **made, **self.literals)


def inputs_of(ids: np.ndarray[Any, Any], past: int, rotary_first: bool) -> dict[str, Any]:
    batch, words = ids.shape
    found = {"input_ids": ids, "attention_mask": np.ones((batch, past + words), "int64")}
    if rotary_first:
        place = np.arange(past, past + words)[None].repeat(batch, 0)
        found["position_ids"] = np.ascontiguousarray(place)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_prompt_and_steps(form: str) -> None:
    """A prompt, one word at a time, and several words: caches copied, and extended in place."""
    made = Builder(**FORMS[form]).model()
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    copied = build(made)
    owned = build(made, options=Options(state=["past_key_values.*"]))
    assert len(owned.results) == 1
    rotary_first = "rotary_first" in FORMS[form]
    names = [n for n in copied.inputs if n.startswith("past")]
    rng = np.random.default_rng(1)
    for batch, lengths in ((1, (7, 1, 1)), (2, (1, 1, 1)), (3, (12, 1, 1))):
        cache = [np.zeros((batch, GROUPS, 0, DEPTH), "float32") for _ in names]
        theirs, past, state = cache, 0, owned.state(batch=batch)
        for words in lengths:
            given = inputs_of(rng.integers(0, WORDS, (batch, words)), past, rotary_first)
            want, *theirs = session.run(None, {**given, **dict(zip(names, theirs, strict=True))})
            found, *cache = listed(copied(**given, **dict(zip(names, cache, strict=True))))
            scale = np.abs(want).max()
            np.testing.assert_allclose(found, want, rtol=0, atol=2e-5 * scale)
            np.testing.assert_allclose(state(**given), want, rtol=0, atol=2e-5 * scale)
            for ours, other in zip(cache, theirs, strict=True):
                np.testing.assert_allclose(ours, other, rtol=0, atol=2e-5 * np.abs(other).max())
            past += words
        assert state.length == past
        for name, one in zip(names, cache, strict=True):
            np.testing.assert_allclose(state.cache(name), one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "more", "message"),
    [
        ({"smooth_softmax": 1}, {}, "smooth_softmax is not supported"),
        ({"causal": 0}, {}, "causal is not supported"),
        ({}, {"head_sink": 11}, "head_sink is not supported"),
        ({"kv_cache_bit_width": 8}, {"k_scale": 12, "v_scale": 13}, "k_scale, v_scale, kv_cache_"),
    ],
)
def test_forms_of_attention_that_are_refused(
    attrs: dict[str, int], more: dict[str, int], message: str
) -> None:
    names = ["q", "k", "v", "pk", "pv", "lengths", "total", *[""] * 10]
    for name, place in more.items():
        names[place] = name
    made = node("GroupQueryAttention", names, ["y"], domain="com.microsoft",
                num_heads=4, kv_num_heads=2, **attrs)  # fmt: skip
    inputs: dict[str, Any] = {
        "q": (F32, ["b", "n", 16]), "k": (F32, ["b", "n", 8]), "v": (F32, ["b", "n", 8]),
        "pk": (F32, ["b", 2, "p", 4]), "pv": (F32, ["b", 2, "p", 4]), "lengths": (I32, ["b"]),
        "total": (I32, []), **{name: (F32, [4]) for name in more},
    }  # fmt: skip
    with pytest.raises(Unsupported, match=message):
        build(model([made], inputs, domains={"com.microsoft": 1}))
