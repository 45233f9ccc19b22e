"""BERT in JAX has as many kernels as the same model in PyTorch, and no broadcast of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.stablehlo.programs import (  # noqa: E402
    HEADS,
    PROGRAMS,
    WIDE,
    WORDS,
    exported,
    weights,
)


def matrix(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.array(weights(*shape, seed=seed)))


class Bert(torch.nn.Module):
    """The model of ``programs.bert``."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = matrix(WORDS, WIDE), matrix(64, WIDE, seed=6)
        self.projections = [matrix(WIDE, WIDE, seed=k) for k in range(4)]
        self.wide, self.narrow = matrix(WIDE, 4 * WIDE, seed=4), matrix(4 * WIDE, WIDE, seed=5)
        self.one, self.zero = torch.ones(WIDE), torch.zeros(WIDE)

    def attention(self, x: Any, mask: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = ((x @ w).view(b, s, HEADS, -1).transpose(1, 2) for w in self.projections[:3])
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return made.transpose(1, 2).reshape(b, s, WIDE) @ self.projections[3]

    def norm(self, x: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (WIDE,), self.one, self.zero, 1e-5)

    def forward(self, ids: Any, seen: Any) -> Any:
        x = self.words[ids] + self.places[torch.arange(ids.shape[1])]
        mask = (seen > 0)[:, None, None, :]
        for _ in range(2):
            x = self.norm(x + self.attention(x, mask))
            x = self.norm(x + torch.nn.functional.gelu(x @ self.wide + 0.1) @ self.narrow)
        return x


def test_bert_has_the_kernels_of_pytorch() -> None:
    program = PROGRAMS["bert"]
    given = program.arguments({"b": 3, "s": 16})
    ids = tuple(torch.from_numpy(x).long() for x in given)
    b, s = torch.export.Dim("b"), torch.export.Dim("s", max=64)
    theirs = tvm_disc.build(torch.export.export(Bert(), ids, dynamic_shapes=({0: b, 1: s},) * 2))
    ours = tvm_disc.build(exported(program))
    np.testing.assert_allclose(ours(*given), theirs(*ids).numpy(), rtol=1e-4, atol=1e-5)
    assert len(ours.launches) <= len(theirs.launches)
    assert len(ours.kernels) <= len(theirs.kernels)
    for kind in ("dot", "attention"):
        counts = [sum(k.startswith(kind) for k in exe.launches) for exe in (ours, theirs)]
        assert counts[0] == counts[1]
    assert not [r for r in ours.refused if r.startswith(("broadcast", "dyn.broadcast"))]
