"""Operators as ``torch.compile`` takes them apart, where flags of the original call are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.dynamo import backend  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], cases: list[list[tuple[int, ...]]]) -> list[int]:
    """Compare a function with PyTorch on inputs of several shapes; return the compilations."""
    fast = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad(), compile_counter() as count:
        for k, shapes in enumerate(cases):
            given = tensors(*shapes, seed=k)
            torch.testing.assert_close(fast(*given), function(*given), rtol=2e-5, atol=2e-5)
    return count


def grouped(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def grouped_causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def grouped_masked(q: Any, k: Any, v: Any) -> Any:
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5, enable_gqa=True)


@pytest.mark.parametrize("attention", [grouped, grouped_causal, grouped_masked])
@pytest.mark.parametrize(("heads", "shared"), [(4, 2), (6, 2), (8, 1), (3, 3)])
def test_heads_of_keys_are_shared(attention: Any, heads: int, shared: int) -> None:
    """PyTorch drops ``enable_gqa``; a kernel sees the two numbers of heads."""
    cases = [
        [(b, heads, s, 8), (b, shared, s, 8), (b, shared, s, 8)]
        for b, s in ((3, 5), (5, 7), (7, 2))
    ]
    assert compiled(attention, cases)[0] >= 1


@pytest.mark.parametrize(
    ("function", "cases"),
    [
        (lambda x: F.pixel_shuffle(x, 2), [[(2, 8, 3, 5)], [(3, 12, 2, 4)]]),
        (lambda x: F.pixel_unshuffle(x, 2), [[(2, 3, 4, 6)], [(3, 5, 8, 2)]]),
        (lambda x: F.channel_shuffle(x, 3), [[(2, 6, 3, 5)], [(3, 9, 2, 4)]]),
        (lambda x: F.group_norm(x, 3), [[(2, 6, 3, 5)], [(4, 9, 2, 7)]]),
        (lambda x: F.glu(x, 1), [[(2, 6, 5)], [(3, 4, 7)]]),
    ],
    ids=["pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "group_norm", "glu"],
)
def test_a_dynamic_dim_is_divided(function: Any, cases: Any) -> None:
    assert compiled(function, cases)[0] >= 1


def test_heads_that_do_not_divide_are_refused() -> None:
    """PyTorch's own check stays in force."""
    q, k = tensors((2, 4, 5, 8), (2, 3, 5, 8))
    fast = torch.compile(grouped, backend=backend, dynamic=True)
    with torch.no_grad(), pytest.raises(Exception, match=r"[Nn]umber of heads"):
        fast(q, k, k)
