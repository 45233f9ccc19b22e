"""PyTorch's own transformer modules, which are fused where no gradient is kept."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import check, tensors  # noqa: E402

SHAPES = [(2, 5, 16), (1, 1, 16), (3, 7, 16), (1, 33, 16), (4, 64, 16)]


def layer(**kwargs: Any) -> Any:
    torch.manual_seed(1)
    return torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **kwargs).eval()


def padding(b: int, s: int) -> Any:
    """The last keys of every second sequence are padding."""
    lengths = torch.tensor([s if k % 2 else max(1, s // 2) for k in range(b)])
    return torch.arange(s)[None] >= lengths[:, None]


@pytest.mark.parametrize("kwargs", [{}, {"norm_first": True, "activation": "gelu"}])
def test_encoder_layer(kwargs: Any) -> None:
    check(layer(**kwargs), [tensors(s, seed=k) for k, s in enumerate(SHAPES)], "b s _")


def test_encoder_layer_with_padding() -> None:
    module = layer()

    class Padded(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = module

        def forward(self, x: Any, mask: Any) -> Any:
            # Positions of padding are left to nobody.
            return self.layer(x, src_key_padding_mask=mask).masked_fill(mask[..., None], 0.0)

    cases = [(*tensors(s, seed=k), padding(*s[:2])) for k, s in enumerate(SHAPES)]
    check(Padded().eval(), cases, "b s _", "b s")


def test_attention_under_a_mask() -> None:
    torch.manual_seed(1)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()

    class Causal(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention = module

        def forward(self, x: Any, mask: Any) -> Any:
            return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]

    cases = [
        (*tensors(s, seed=k), torch.ones(s[1], s[1]).triu(1).bool()) for k, s in enumerate(SHAPES)
    ]
    check(Causal().eval(), cases, "b s _", "s s")
