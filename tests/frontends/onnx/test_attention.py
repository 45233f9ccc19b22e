"""Attention and rotary embeddings of any dims: what their operator demands of them is guarded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tests.frontends.onnx.helpers import F32, I64, build, model, node, normal, same  # noqa: E402
from tvm_disc.errors import GuardFailed, TypeMismatch  # noqa: E402


def free(**ranks: int) -> dict[str, Any]:
    """Inputs of any dims by their ranks."""
    return {n: (F32, [f"{n}{k}" for k in range(r)]) for n, r in ranks.items()}


def angles(rows: int, half: int) -> list[np.ndarray]:
    turns = np.arange(rows)[:, None] / 10.0 ** np.arange(half)
    return [np.cos(turns).astype("float32"), np.sin(turns).astype("float32")]


SIZES = ((1, 1, 2), (2, 3, 8), (1, 7, 4), (3, 16, 64), (2, 5, 6))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embeddings_by_positions(interleaved: int) -> None:
    made_node = node(
        "RotaryEmbedding", ["x", "c", "s", "p"], ["y"], num_heads=2, interleaved=interleaved
    )
    inputs = {**free(x=3, c=2, s=2), "p": (I64, ["p0", "p1"])}
    cases = []
    for batch, length, width in SIZES:
        places = np.arange(batch * length).reshape(batch, length) % 17
        cases.append([normal(batch, length, 2 * width), *angles(17, width // 2), places])
    program = same(model([made_node], inputs, opset=23), *cases)
    x, cos, sin, places = cases[1]
    with pytest.raises(GuardFailed, match="'p' axis 1"):
        program(x, cos, sin, places[:, :2])
    with pytest.raises(GuardFailed, match="must equal"):
        program(x, *angles(17, 3), places)


def test_a_part_of_a_head_is_turned() -> None:
    made_node = node("RotaryEmbedding", ["x", "c", "s"], ["y"], rotary_embedding_dim=4)
    cases = []
    for batch, length, width in SIZES[1:]:
        tables = [np.stack([t] * batch) for t in angles(length, 2)]
        cases.append([normal(batch, 3, length, width), *tables])
    program = same(model([made_node], free(x=4, c=3, s=3), opset=23), *cases)
    with pytest.raises(GuardFailed):
        program(normal(1, 3, 1, 2), *(t[:1, :1] for t in cases[0][1:]))


def test_attention_with_a_past() -> None:
    names = ["q", "k", "v", "", "pk", "pv"]
    made_node = node("Attention", names, ["y", "present_key", "present_value"])
    made = model([made_node], free(q=4, k=4, v=4, pk=4, pv=4), opset=23)
    cases = []
    for batch, heads, shared, length, past in (
        (1, 1, 1, 1, 0), (2, 4, 2, 3, 5), (1, 6, 2, 7, 1), (3, 8, 8, 16, 16), (2, 2, 1, 5, 0),
    ):  # fmt: skip
        shapes = ((heads, length, 8), (shared, length, 8), (shared, length, 4))
        kept = ((shared, past, 8), (shared, past, 4))
        cases.append([normal(batch, *s, seed=k) for k, s in enumerate((*shapes, *kept))])
    program = same(made, *cases)
    q, k, v, *kept = cases[1]
    with pytest.raises(GuardFailed, match="'v' axis 2"):
        program(q, k, v[:, :, :2], *kept)
    with pytest.raises(GuardFailed):
        program(q[:, :3], k, v, *kept)


def test_ranks_are_told() -> None:
    made_node = node("Attention", ["q", "k", "v"], ["y"])
    with pytest.raises(TypeMismatch, match="Attention 'y': K: expected rank 4, found rank 3"):
        build(model([made_node], free(q=4, k=3, v=4), opset=23))
