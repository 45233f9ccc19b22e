"""Sizes and numbers at the edge of what PyTorch's operators take, beside eager PyTorch.

Where eager raises, the program is refused, by the build or by the call; elsewhere results are
equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402

F = torch.nn.functional
Function = Callable[[Any], Any]

# Of a tensor [n, 4]: exported at n = 6, called at n = 6, 3, 1 and 0.
SIZES: Mapping[str, Function] = {
    "topk": lambda x: x.topk(3, 0),
    "topk along a fixed axis": lambda x: x.topk(3, 1),
    "kthvalue": lambda x: x.kthvalue(2, 0),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "select": lambda x: x.select(0, 2),
    "select from the end": lambda x: x[-3],
    "slice": lambda x: x[2:],
    "slice from the end": lambda x: x[-2:],
    "unfold": lambda x: x.unfold(0, 3, 1),
    "unfold by 2": lambda x: x.unfold(0, 2, 1),
    "reflect by 1": lambda x: F.pad(x.T[None], (1, 1), mode="reflect"),
    "split": lambda x: x.split([2, x.shape[0] - 2]),
    "chunk of a fixed axis": lambda x: x.chunk(3, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin(0),
    "max": lambda x: x.max(0),
    "min of all": lambda x: x.min(),
    "argmax": lambda x: x.argmax(0),
    "argmin of all": lambda x: x.argmin(),
    "mean": lambda x: x.mean(0),
    "sum": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "var": lambda x: x.var(0),
    "std without correction": lambda x: x.std(0, correction=0),
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
    "median": lambda x: x.median(0),
    "any": lambda x: (x > 0).any(0),
    "all": lambda x: (x > 0).all(0),
    "norm": lambda x: x.norm(dim=0),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0),
    "cat": lambda x: torch.cat([x, x[:0], x]),
    "cat of nothing": lambda x: torch.cat([x[:0], x[:0]]),
    "stack": lambda x: torch.stack([x, x]),
    "matmul": lambda x: x.T @ x,
    "pad": lambda x: F.pad(x, (0, 0, 1, 2)),
    "negative pad": lambda x: F.pad(x, (0, 0, -1, -1)),
    "reflect": lambda x: F.pad(x.T[None], (2, 2), mode="reflect"),
    "conv": lambda x: F.conv1d(x.T[None], torch.ones(2, 4, 3)),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], (2, 1)),
    "avg_pool": lambda x: F.avg_pool1d(x.T[None], 2),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(2, 0),
    "diagonal": lambda x: x.diagonal(),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked": lambda x: x[x > 100.0],
}  # fmt: skip
# Known at the build, and never right.
NEVER: Mapping[str, Function] = {
    "topk of more than there are": lambda x: x.topk(9, 1),
    "split sizes that do not add up": lambda x: x.split([1, 2], 1),
    "narrow beyond the axis": lambda x: x.narrow(1, 3, 2),
    "unfold wider than the axis": lambda x: x.unfold(1, 5, 1),
    "chunks of none": lambda x: x.chunk(0, 1),
    "a negative repetition": lambda x: x.repeat_interleave(-1, 1),
    "a range that does not move": lambda x: x + torch.arange(0, 4, 0),
    "a range of the wrong direction": lambda x: x + torch.arange(4, 0, 1),
    "select beyond the axis": lambda x: x.select(1, 4),
    "fewer classes than one_hot has": lambda x: F.one_hot(torch.tensor([4]), 4) + x,
    "an axis that is not there": lambda x: x.sum(2),
}  # fmt: skip
INTEGERS: Mapping[str, Function] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "add": lambda x: x + x,
    "sub": lambda x: x - x.flip(0),
    "mul": lambda x: x * x,
    "pow 2": lambda x: x**2,
    "pow by itself": lambda x: x.clamp(-3, 3) ** x.clamp(-3, 3),
    "pow by a tensor": lambda x: (x - x.flip(0)) ** (x & 63),
    "pow by 64": lambda x: x**64,
    "pow of 3": lambda x: 3 ** (x & 63),
    "sum": lambda x: x.sum(),
    "cumsum": lambda x: x.cumsum(0),
    "floor by -1": lambda x: x // -1,
    "floor by 3": lambda x: x // 3,
    "floor by -3": lambda x: x // -3,
    "rest of 3": lambda x: x % 3,
    "rest of -3": lambda x: x % -3,
    "rest of -1": lambda x: x % -1,
    "true division": lambda x: x / 7,
    "max": lambda x: x.max(),
    "argmin": lambda x: x.argmin(),
    "to int8": lambda x: x.to(torch.int8),
    "to uint8": lambda x: x.to(torch.uint8),
    "to int32": lambda x: x.to(torch.int32),
    "to float32": lambda x: x.to(torch.float32),
    "to bool": lambda x: x.to(torch.bool),
    "shift left by 3": lambda x: x << 3,
    "shift right by 3": lambda x: x >> 3,
    "shift left by the width": lambda x: x << torch.iinfo(x.dtype).bits,
    "shift right by the width": lambda x: x >> torch.iinfo(x.dtype).bits,
    "shift left by a tensor": lambda x: x << x,
    "shift right by a tensor": lambda x: x >> x,
    "bitwise_not": torch.bitwise_not,
    "clamp": lambda x: x.clamp(-5, 5),
}  # fmt: skip
TIES: Mapping[str, Function] = {
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "stable sort": lambda x: x.sort(dim=1, stable=True),
    "stable descending sort": lambda x: x.sort(dim=1, stable=True, descending=True),
    "argsort": lambda x: x.argsort(dim=1, stable=True),
    "round": lambda x: (x / 2).round(),
    "median": lambda x: x.median(1).values,
    "mode of max_pool": lambda x: F.max_pool1d(x[None], 2, return_indices=True),
}  # fmt: skip


def module_of(function: Function) -> Any:
    """A function of one tensor as a module."""

    class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return function(x)

    return Function()


def plain(found: Any) -> list[np.ndarray]:
    """Results as arrays."""
    return [np.asarray(f) for f in (found if isinstance(found, list | tuple) else [found])]


def eager(function: Function, x: Any) -> list[np.ndarray] | None:
    """What PyTorch gives, or None where it raises."""
    try:
        return plain(function(x))
    except (IndexError, RuntimeError, ValueError):
        return None


def compared(exe: Any, function: Function, x: Any, what: str) -> bool:
    """Whether eager gives a result, which the program's must equal; else it must be refused."""
    want = eager(function, x)
    if want is None:
        with pytest.raises(tvm_disc.DiscError, match=r"\w+"):
            print(what, plain(exe(x)))
        return False
    for a, b in zip(plain(exe(x)), want, strict=True):
        assert a.shape == b.shape, (what, a.shape, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6, err_msg=what)
    return True


@pytest.mark.parametrize("name", SIZES)
def test_sizes_down_to_nothing(name: str) -> None:
    function = SIZES[name]
    exe = tvm_disc.build(module_of(function), example_inputs=(torch.rand(6, 4) - 0.5,))
    right = [
        compared(exe, function, torch.rand(n, 4) - 0.5, f"{name} at {n}") for n in (6, 3, 1, 0)
    ]
    assert right[0]


@pytest.mark.parametrize("name", NEVER)
def test_what_is_never_right_is_refused(name: str) -> None:
    x = torch.rand(6, 4)
    assert eager(NEVER[name], x) is None
    with pytest.raises(tvm_disc.DiscError, match=r"\w+"):
        tvm_disc.build(module_of(NEVER[name]), example_inputs=(x,))(x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_at_their_ends(dtype: str) -> None:
    kind = getattr(torch, dtype)
    ends = torch.iinfo(kind)
    x = torch.tensor([ends.min, ends.min + 1, 0, 1, 3, 7, ends.max - 1, ends.max], dtype=kind)
    wrong = []
    for name, function in INTEGERS.items():
        want = eager(function, x)
        if want is None:
            continue
        got = plain(tvm_disc.build(module_of(function), example_inputs=(x,))(x))
        for a, b in zip(got, want, strict=True):
            rtol = 1e-6 if a.dtype.kind == "f" else 0
            exact = a.shape == b.shape and a.dtype == b.dtype and (a == b).all()
            if not (exact or (rtol and np.allclose(a, b, rtol=rtol, atol=0))):
                wrong.append(f"{name}: {a} instead of {b}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", TIES)
def test_ties(name: str) -> None:
    x = torch.tensor([[1.0, 3.0, 3.0, 1.0], [5.0, 5.0, 5.0, 5.0], [-1.0, -0.0, 0.0, -3.0]])
    exe = tvm_disc.build(module_of(TIES[name]), example_inputs=(x,))
    assert compared(exe, TIES[name], x, name)
    wide = (torch.arange(3 * 130) % 7).reshape(3, 130).float()
    assert compared(exe, TIES[name], wide[:, :4], name)


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_casts_of_numbers_inside(dtype: str, to: str) -> None:
    """Fractions are cut off; what the type cannot hold is another row."""
    x = torch.tensor([0.0, -0.0, 0.5, 1.5, 99.9, 127.0], dtype=getattr(torch, dtype))

    def function(v: Any) -> Any:
        return v.to(getattr(torch, to))

    exe = tvm_disc.build(module_of(function), example_inputs=(x,))
    assert compared(exe, function, x, to)


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_casts_of_numbers_beyond(dtype: str, to: str) -> None:
    """The result is any number of the type, and the process goes on."""
    numbers = [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 3e9, 300.0, -1.0]
    x = torch.tensor(numbers, dtype=getattr(torch, dtype))
    exe = tvm_disc.build(module_of(lambda v: v.to(getattr(torch, to))), example_inputs=(x,))
    assert np.asarray(exe(x)).dtype == to


ZEROS: Mapping[str, Function] = {
    "0 * x": lambda x: 0.0 * x,
    "x * -0": lambda x: x * -0.0,
    "0 / x": lambda x: 0.0 / x,
    "x + 0": lambda x: x + 0.0,
    "x - -0": lambda x: x - -0.0,
    "0 * x + 1": lambda x: x * 0.0 + 1.0,
    "float64": lambda x: x.double() * 0.0,
    "float16": lambda x: x.half() * 0.0,
    "bfloat16": lambda x: (x.bfloat16() * 0.0).float(),
}  # fmt: skip


@pytest.mark.parametrize("name", ZEROS)
def test_literal_zeros(name: str) -> None:
    """IEEE's rules for NaN, infinities and -0.0, in whole vectors, their rest, and scalars."""

    def function(x: Any) -> Any:
        f, total = ZEROS[name], x.sum(0)
        return f(x), f(x @ torch.eye(2)[:, :1]), f(total), f(total)[None] * x, f(x[0, 0])

    exe = tvm_disc.build(module_of(function), example_inputs=(torch.ones(7, 2),))
    for special in (math.nan, math.inf, -math.inf, -0.0, 0.0, 2.0):
        for rows in (1, 2, 7, 40):
            x = torch.full((rows, 2), special)
            for got, want in zip(plain(exe(x)), plain(function(x)), strict=True):
                np.testing.assert_array_equal(got, want)
                number = ~np.isnan(want)
                np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
