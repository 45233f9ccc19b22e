"""Layers with a state: every dim is free, the number of channels and the width of heads, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tests.frontends.onnx.helpers import F32, model, node, normal, same  # noqa: E402

pytestmark = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < 27, reason="this onnx does not have these operators"
)


@pytest.mark.parametrize("channels", ["c", 4])
@pytest.mark.parametrize("past", [False, True])
def test_convolution_of_the_past(past: bool, channels: Any) -> None:
    kernel: Any = 3 if channels == 4 else "k"
    inputs = {"x": (F32, ["b", channels, "t"]), "w": (F32, [channels, 1, kernel])}
    names = ["x", "w", "bias"]
    inputs["bias"] = (F32, [channels])
    if past:
        inputs["past"] = (F32, ["b", channels, "kept"])
        names.append("past")
    made = model(
        [node("CausalConvWithState", names, ["y", "state"], activation="silu")], inputs, opset=27
    )
    sizes = ((1, 1, 1, 1), (2, 3, 5, 2), (3, 7, 2, 4)) if channels == "c" else ()
    cases = []
    for b, c, t, k in sizes or ((1, 4, 1, 3), (2, 4, 7, 3)):
        case = [normal(b, c, t), normal(c, 1, k), normal(c)]
        cases.append([*case, normal(b, c, k - 1, seed=1)] if past else case)
    same(made, *cases)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule: str) -> None:
    heads, queries = 2, 4
    gated, delta = rule.startswith("gated"), rule.endswith("delta")
    given = {"q": True, "k": True, "v": True, "past": delta, "decay": gated, "beta": delta}
    inputs = {n: (F32, ["b", "t", f"{n}_width"]) for n, there in given.items() if there}
    if delta:
        inputs["past"] = (F32, ["b", heads, "k_width // 2", "v_width // 2"])
    made = model(
        [
            node(
                "LinearAttention",
                [n if there else "" for n, there in given.items()],
                ["y", "state"],
                q_num_heads=queries,
                kv_num_heads=heads,
                update_rule=rule,
            )
        ],
        inputs,
        opset=27,
    )
    cases = []
    for b, t, keys, values, wide in ((1, 1, 3, 2, False), (2, 5, 4, 3, True)):
        shapes = {
            "q": (b, t, queries * keys),
            "k": (b, t, heads * keys),
            "v": (b, t, heads * values),
            "past": (b, heads, keys, values),
            "decay": (b, t, heads * keys if wide else heads),
            "beta": (b, t, heads if wide else 1),
        }
        used = [shapes[n] for n, there in given.items() if there]
        cases.append([normal(*dims, seed=k) * np.float32(0.5) for k, dims in enumerate(used)])
    same(made, *cases, atol=1e-4)
