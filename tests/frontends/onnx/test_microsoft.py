"""ONNX Runtime's fused operators against what they stand for, and ONNX's own attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import Unsupported

from .helpers import BOOL, F32, I64, build, listed, model, node, normal, same

MICROSOFT = {"com.microsoft": 1}
SIZES = ((1, 1), (2, 3), (1, 7), (3, 16), (2, 33))


def fused(name: str, names: list[str], results: list[str], inputs: Any, **rest: Any) -> Any:
    attrs = rest.pop("attrs", {})
    made = node(name, names, results, domain="com.microsoft", **attrs)
    return model([made], inputs, domains=MICROSOFT, **rest)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: Any = 0) -> np.ndarray:
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias) @ v


def heads(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def flat(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def test_skip_layer_normalisation() -> None:
    made = fused(
        "SkipLayerNormalization", ["x", "s", "g", "b", "c"], ["y", "", "", "t"],
        {"x": (F32, ["b", "n", 8]), "s": (F32, ["b", "n", 8])}, attrs={"epsilon": 1e-5},
        g=normal(8), b=normal(8, seed=1), c=normal(8, seed=2),
    )  # fmt: skip

    def want(x: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
        t = x + s + normal(8, seed=2)
        centred = t - t.mean(-1, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return [y * normal(8) + normal(8, seed=1), t]

    same(
        made, *[[normal(b, n, 8), normal(b, n, 8, seed=3)] for b, n in SIZES], want=want, atol=1e-4
    )


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_by_one_product(causal: int) -> None:
    made = fused(
        "Attention", ["x", "w", "b", "m"], ["y"], {"x": (F32, ["b", "n", 8]), "m": (6, ["b", "n"])},
        attrs={"num_heads": 2, "unidirectional": causal}, w=normal(8, 24), b=normal(24),
    )  # fmt: skip
    cases = []
    for b, n in SIZES:
        mask = np.ones((b, n), "int32")
        mask[:, n // 2 + 1 :] = 0
        cases.append([normal(b, n, 8), mask])

    def want(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        q, k, v = (heads(p, 2) for p in np.split(x @ normal(8, 24) + normal(24), 3, 2))
        bias = np.where(mask[:, None, None] == 0, -10000.0, 0.0)
        if causal:
            n = x.shape[1]
            bias = np.where(np.tril(np.ones((n, n), bool)), bias, -1e30)
        return flat(attended(q, k, v, bias)).astype("float32")

    same(made, *cases, want=want, rtol=1e-3, atol=1e-4)


def test_shared_heads_with_a_cache_that_grows_from_nothing() -> None:
    """Grouped queries, rotary embeddings, and a past of any length, 0 included."""
    inputs = {
        "q": (F32, ["b", "n", 16]), "k": (F32, ["b", "n", 8]), "v": (F32, ["b", "n", 8]),
        "pk": (F32, ["b", 2, "past", 4]), "pv": (F32, ["b", 2, "past", 4]),
        "lens": (6, ["b"]), "total": (6, []),
    }  # fmt: skip
    angle = np.arange(64)[:, None] / 10.0 ** np.arange(2)
    made = fused(
        "GroupQueryAttention", ["q", "k", "v", "pk", "pv", "lens", "total", "cos", "sin"],
        ["y", "nk", "nv"], inputs, attrs={"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        cos=np.cos(angle).astype("float32"), sin=np.sin(angle).astype("float32"),
    )  # fmt: skip
    whole = [normal(2, 9, 16), normal(2, 9, 8, seed=1), normal(2, 9, 8, seed=2)]
    program = build(made)

    def call(parts: list[np.ndarray], past: list[np.ndarray]) -> list[np.ndarray]:
        n = past[0].shape[2] + parts[0].shape[1]
        lens = np.full(2, n - 1, "int32")
        return listed(program(*parts, *past, lens, np.array(n, "int32")))

    blank = [np.zeros((2, 2, 0, 4), "float32")] * 2
    at_once = call(whole, blank)
    past, found = blank, []
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        y, *past = call([np.ascontiguousarray(x[:, begin:end]) for x in whole], past)
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found, 1), at_once[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(past[0], at_once[1], rtol=1e-5, atol=1e-6)


def test_weights_of_four_bits() -> None:
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 255, (3, 2, 8)).astype("uint8")
    scales = rng.uniform(0.1, 1, (3, 2)).astype("float32")
    made = fused(
        "MatMulNBits", ["x", "w", "s"], ["y"], {"x": (F32, ["m", 32])},
        attrs={"K": 32, "N": 3, "bits": 4, "block_size": 16}, w=packed, s=scales.reshape(-1),
    )  # fmt: skip
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(3, 2, 16).astype("float32") - 8
    weights = (numbers * scales[..., None]).reshape(3, 32)
    same(
        made, *[[normal(m, 32)] for m in (1, 2, 7, 16, 33)], want=lambda x: x @ weights.T, atol=1e-3
    )


def test_onnx_attention_hides_keys() -> None:
    """A query that sees no key gives zeros, not numbers that are none."""
    made = model(
        [node("Attention", ["q", "k", "v", "m"], ["y"], q_num_heads=4, kv_num_heads=2)],
        {"q": (F32, ["b", "n", 16]), "k": (F32, ["b", "t", 8]), "v": (F32, ["b", "t", 8]),
         "m": (BOOL, ["n", "t"])}, opset=23,
    )  # fmt: skip
    cases = []
    for b, n, t in ((1, 1, 1), (2, 3, 5), (1, 7, 4), (3, 2, 16)):
        mask = np.random.default_rng(t).uniform(size=(n, t)) > 0.4
        mask[0] = False
        cases.append([normal(b, n, 16), normal(b, t, 8), normal(b, t, 8, seed=1), mask])
    same(made, *cases, rtol=1e-4, atol=1e-5)


def test_rotary_embedding_by_positions() -> None:
    made = model(
        [node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], num_heads=2)],
        {"x": (F32, ["b", "n", 8]), "p": (I64, ["b", "n"])}, opset=23,
        c=normal(20, 2), s=normal(20, 2, seed=1),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    same(made, *[[normal(b, n, 8), rng.integers(0, 20, (b, n))] for b, n in SIZES])


@pytest.mark.parametrize(
    ("name", "attrs", "words"),
    [
        (
            "MatMulNBits",
            {"K": 4, "N": 4, "block_size": 4},
            "B, scales and zero_points must be constants",
        ),
        ("Attention", {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
        ("MultiHeadAttention", {"num_heads": 2}, "packed into one input"),
        ("FusedConv", {"activation": "Best"}, "activation: .*found 'Best'"),
    ],
)
def test_what_is_not_computed_is_refused(name: str, attrs: dict[str, Any], words: str) -> None:
    shape = ["n", 2, "h", "w"] if name == "FusedConv" else ["b", "n", 4]
    names = ["x"] if name == "MultiHeadAttention" else ["x", "x", "x"]
    names = names[:2] if name == "FusedConv" else names
    with pytest.raises(Unsupported, match=f"ONNX {name} 'y': .*{words}"):
        build(fused(name, names, ["y"], {"x": (F32, shape)}, attrs=attrs))
