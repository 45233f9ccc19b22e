"""Source lines of nodes of PyTorch programs."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_disc

torch = pytest.importorskip("torch")


class Normed(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.gelu(self.norm(self.dense(x)))


def test_the_line_is_the_users() -> None:
    """A layer of torch.nn has the line that calls it, not that of its own ``forward``."""
    text = tvm_disc.build(Normed(), example_inputs=(torch.zeros(3, 8),)).explain()
    line = Normed.forward.__code__.co_firstlineno + 1
    assert f"(layer_norm (test_places.py:{line}))" in text
    assert f"(linear (test_places.py:{line}))" in text
    assert "normalization.py" not in text
