"""Divisors and counts of integers in PyTorch programs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported  # noqa: E402
from tvm_disc.errors import IndexOutside  # noqa: E402


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_common_divisors(dtype: str) -> None:
    limits = torch.iinfo(getattr(torch, dtype))
    low, high = max(limits.min + 1, -limits.max), limits.max
    a = torch.tensor([[12, 18, 0, 7, high, low, 5], [0, 3, 0, 7, low, low, 1]])
    b = torch.tensor([[18, 12, 0, 21, 2, 6, 0], [5, 9, 4, 0, low, high, 1]])
    x, y = (t.to(getattr(torch, dtype)) for t in (a, b))
    cases = [(x, y), (x[:1], y[:1]), (x[:, :1], y[:, :1]), (x[:0], y[:0]), (x[:, :0], y[:, :0])]
    check(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), cases, "n k", "n k")


def test_common_divisors_broadcast() -> None:
    x = torch.arange(-12, 12).reshape(4, 6)
    cases = [(x, x[0] * 3), (x[:1], x[0]), (x[:0, :1], x[0, :1])]
    check(lambda x, y: (torch.gcd(x, y), torch.lcm(y, x)), cases, "n k", "k")


def test_common_divisors_of_the_least_integer() -> None:
    """The absolute value of the least integer is itself, as in PyTorch's kernel."""
    least = -(1 << 31)
    x, y = torch.tensor([[least, least, 0, 5], [least, 0, least, least]], dtype=torch.int32)
    check(lambda x, y: torch.gcd(x, y), [(x, y)], "n", "n")


def counted(x: Any, w: Any) -> Any:
    return (
        torch.bincount(x), torch.bincount(x, minlength=5), torch.bincount(x, w, minlength=4),
        torch.bincount(x, w.double()), torch.bincount(x, x),
    )  # fmt: skip


def test_bincount() -> None:
    lists = ([3, 1, 1], [0], [7, 0, 2, 2, 7, 100], [0] * 70, list(range(300)))
    cases = [(torch.tensor(t), torch.linspace(-1, 1, len(t))) for t in lists]
    check(counted, cases, "n", "n")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_bincount_of_nothing(dtype: str) -> None:
    cases = [(torch.tensor(t, dtype=getattr(torch, dtype)),) for t in ([3, 1], [], [0])]
    check(lambda x: (torch.bincount(x), torch.bincount(x, minlength=3)), cases, "n")


def test_bincount_feeds_other_operators() -> None:
    lists = ([3, 1, 1], [0], [], [9])
    cases = [(torch.tensor(t, dtype=torch.int64),) for t in lists]
    check(lambda x: torch.bincount(x, minlength=2).cumsum(0) * 2, cases, "n")


def test_bincount_refuses_negative_elements() -> None:
    exe = tvm_disc.build(exported(torch.bincount, (torch.tensor([3, 1]),), "n"))
    with pytest.raises(IndexOutside, match=r"bincount at .*: input '.*': .*found -2"):
        exe(torch.tensor([1, -2, 3]))
