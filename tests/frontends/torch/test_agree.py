"""Guards that exclude a size of 1 although the module does the same there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tvm_disc.errors import DiscError, GuardFailed  # noqa: E402
from tvm_disc.frontends.torch.export import exported  # noqa: E402


class Applies(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, x: Any) -> Any:
        return self.function(x, self.weight)


def unused(x: Any, w: Any) -> Any:
    causal = x.shape[0] > 1 and w is None
    return x * w + (1 if causal else 0)


def whole_slice(x: Any, w: Any) -> Any:
    many = x.shape[0] > 1
    y = x * 2 if many or w is not None else x
    return y[:, :][: x.shape[0]] + w


def both_ways(x: Any, w: Any) -> Any:
    if x.shape[0] == 1:
        return (x + w).relu()
    return (x + w).relu()


def sizes_as_arguments(x: Any, w: Any) -> Any:
    many = x.shape[0] != 1
    index = torch.arange(x.shape[0])[:, None]
    return x.reshape(x.shape[0], 3, 1).sum(-1) * w + index if many is not None else x


def in_a_factor(x: Any, w: Any) -> Any:
    rows, one = x.shape[0], 1.0
    if rows > 1:
        one = 1.0
    return torch.ones(rows, 3) * one + x * w


def contiguous(x: Any, w: Any) -> Any:
    """The transposed tensor is contiguous if it has one row: PyTorch then omits the call."""
    y = (x * w).reshape(x.shape[0], 3, 1).transpose(0, 1).contiguous()
    return y.transpose(0, 1).reshape(x.shape[0], 3) + (1 if x.shape[0] > 1 and w is None else 0)


def contiguous_beside_a_write(x: Any, w: Any) -> Any:
    """The write goes to other memory than the copy."""
    other = torch.zeros(3)
    other.add_(w)
    return contiguous(x, w) + other


def detached_in_place(x: Any, w: Any) -> Any:
    """A constant tensor is detached in place, which writes no data."""
    return contiguous(x, w) + torch.tensor([1.0, 2.0, 3.0])


def slice_without_start(x: Any, w: Any) -> Any:
    """PyTorch writes None or 0 for the first position, as the second is a symbol or a number."""
    many = x.shape[0] > 1 and w is None
    return x * w + torch.arange(8.0)[: x.shape[0], None] + (1 if many else 0)


SAME = [
    unused, whole_slice, both_ways, sizes_as_arguments, in_a_factor, contiguous,
    contiguous_beside_a_write, detached_in_place, slice_without_start,
]  # fmt: skip


@pytest.mark.parametrize("function", SAME, ids=lambda f: f.__name__)
@pytest.mark.parametrize("named", [False, True], ids=["default", "dynamic_shapes"])
def test_a_size_of_one_is_taken(function: Callable[..., Any], named: bool) -> None:
    module = Applies(function).eval()
    example = (torch.randn(4, 3),)
    model = exported(module, example, ({0: torch.export.Dim("rows", max=8)},) if named else None)
    exe = tvm_disc.build(model)
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        np.testing.assert_allclose(exe(x.numpy()), module(x).detach().numpy(), rtol=1e-6)


class Two(torch.nn.Module):
    """Two inputs of one size; the decision may read either."""

    def __init__(self, read: int) -> None:
        super().__init__()
        self.read = read

    def forward(self, x: Any, y: Any) -> Any:
        many = (x, y)[self.read].shape[0] > 1 and x is None
        return x + y + (1 if many else 0)


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("named", [False, True], ids=["default", "dynamic_shapes"])
def test_sizes_that_are_equal_are_one_size(read: int, named: bool) -> None:
    module, axes = Two(read).eval(), {0: torch.export.Dim("rows")}
    example = (torch.randn(4, 3), torch.randn(4, 3))
    exe = tvm_disc.build(exported(module, example, (axes, axes) if named else None))
    for rows in (1, 2, 5):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        np.testing.assert_allclose(exe(x.numpy(), y.numpy()), module(x, y).numpy(), rtol=1e-6)
    with pytest.raises(DiscError, match=r"input .y. axis 0: expected"):
        exe(np.ones((2, 3), "float32"), np.ones((4, 3), "float32"))


def other_operator(x: Any, w: Any) -> Any:
    return x * w if x.shape[0] > 1 else x + w


def other_number(x: Any, w: Any) -> Any:
    return x * w * (2.0 if x.shape[0] > 1 else 3.0)


def other_constant(x: Any, w: Any) -> Any:
    return x * w + torch.tensor([2.0 if x.shape[0] > 1 else 3.0])


def other_axis(x: Any, w: Any) -> Any:
    return (x * w).sum(0 if x.shape[0] > 1 else 1, keepdim=True)[:, :1]


def other_operand(x: Any, w: Any) -> Any:
    a, b = x * w, x + w
    return a - b if x.shape[0] > 1 else b - a


def other_part(x: Any, w: Any) -> Any:
    return (x * w)[:, : 2 if x.shape[0] > 1 else 3]


def two_are_excluded(x: Any, w: Any) -> Any:
    if x.shape[0] > 2:
        return x * w
    return x * w


def writes_to_a_copy(x: Any, w: Any) -> Any:
    """For one row PyTorch does not copy: the write changes ``y``."""
    y = (x * w).transpose(0, 1)
    many = x.shape[0] > 1 and w is None
    y.contiguous().view(-1).mul_(2)
    return y.transpose(0, 1) + (1 if many else 0)


def writes_to_a_view_of_a_copy(x: Any, w: Any) -> Any:
    """The write goes to a part of a list of views."""
    y = (x * w).transpose(0, 1)
    many = x.shape[0] > 1 and w is None
    y.contiguous().split(2)[0].add_(1)
    return y.transpose(0, 1) + (1 if many else 0)


DIFFER = [
    other_operator, other_number, other_constant, other_axis, other_operand, other_part,
    two_are_excluded, writes_to_a_copy, writes_to_a_view_of_a_copy,
]  # fmt: skip


@pytest.mark.parametrize("function", DIFFER, ids=lambda f: f.__name__)
def test_a_size_of_one_is_refused(function: Callable[..., Any]) -> None:
    model = exported(Applies(function).eval(), (torch.randn(4, 3),))
    assert not model.settled
    exe = tvm_disc.build(model)
    with pytest.raises(GuardFailed, match=r"must hold .*input 'x' axis 0"):
        exe(np.zeros((1, 3), "float32"))


def even(x: Any, w: Any) -> Any:
    return x * w + (0 if x.shape[0] % 2 == 0 or x.shape[0] == 1 else 1)


def up_to_eight(x: Any, w: Any) -> Any:
    many = x.shape[0] > 1 and x.shape[0] * (9 - x.shape[0]) > 8
    return x * w + (0 if many or x.shape[0] == 1 else 1)


@pytest.mark.parametrize("function", [even, up_to_eight], ids=lambda f: f.__name__)
def test_a_guard_that_excludes_larger_sizes_remains(function: Callable[..., Any]) -> None:
    """The module is the same program for one row, but not for all sizes that fail the guard."""
    module = Applies(function).eval()
    exe = tvm_disc.build(exported(module, (torch.randn(4, 3),)))
    ran = 0
    for rows in range(12):
        x = torch.randn(rows, 3)
        try:
            made = exe(x.numpy())
        except GuardFailed:
            continue
        ran += 1
        np.testing.assert_allclose(made, module(x).detach().numpy(), rtol=1e-6)
    assert 0 < ran < 12
    with pytest.raises(GuardFailed, match=r"must hold .*input 'x' axis 0"):
        exe(np.zeros((9, 3), "float32"))


def other_for_nothing(x: Any, w: Any) -> Any:
    return (x * w).sum() + (0 if x.shape[0] > 1 or x.shape[0] == 1 else 1)


def fails_for_nothing(x: Any, w: Any) -> Any:
    many = x.shape[0] > 1 and w is None
    return x.reshape(x.shape[0], -1, 3).sum(1) * w + (1 if many else 0)


@pytest.mark.parametrize("function", [other_for_nothing, fails_for_nothing])
def test_size_zero_is_proved_apart_from_size_one(function: Callable[..., Any]) -> None:
    module = Applies(function).eval()
    exe = tvm_disc.build(exported(module, (torch.randn(4, 3),)))
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        np.testing.assert_allclose(exe(x.numpy()), module(x).detach().numpy(), rtol=1e-5)
    with pytest.raises(GuardFailed, match=r"x_0 >= 1 must hold .*input 'x' axis 0"):
        exe(np.zeros((0, 3), "float32"))


def test_size_zero_is_taken_if_the_program_is_the_same() -> None:
    module = Applies(unused_for_nothing).eval()
    exe = tvm_disc.build(exported(module, (torch.randn(4, 3),)))
    for rows in (0, 1, 2, 5):
        x = torch.randn(rows, 3)
        np.testing.assert_allclose(exe(x.numpy()), module(x).detach().numpy(), rtol=1e-6)


def unused_for_nothing(x: Any, w: Any) -> Any:
    many = x.shape[0] > 1
    return (x + w).relu() + (1 if many and w is None else 0)


def test_a_condition_of_size_one_alone_keeps_the_guard() -> None:
    """For one row the module requires an even number of columns, for more rows it does not."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if x.shape[0] > 1 or x.shape[1] % 2 == 0:
                return x * 2
            return x * 3

    model = exported(Module(), (torch.randn(4, 6),))
    assert not model.settled
    with pytest.raises(GuardFailed, match=r"must hold .*input 'x' axis 0"):
        tvm_disc.build(model)(np.zeros((1, 5), "float32"))


def of_two_sizes(last: float) -> Callable[..., Any]:
    """A function that decides on the columns only if there is one row."""

    def function(x: Any, w: Any) -> Any:
        few = x.shape[0] <= 1
        single = few and x.shape[1] <= 1
        return (x + w[1]) * (last if single else 2.0)

    return function


def test_two_sizes_of_one_are_compared_together() -> None:
    """The export for one row has a condition on the columns, and the reverse."""
    module = Applies(of_two_sizes(2.0)).eval()
    exe = tvm_disc.build(exported(module, (torch.randn(4, 5),)))
    for shape in ((1, 1), (1, 5), (5, 1), (4, 5), (2, 2)):
        x = torch.randn(shape)
        np.testing.assert_allclose(exe(x.numpy()), module(x).detach().numpy(), rtol=1e-6)


def test_two_sizes_of_one_that_differ_are_refused() -> None:
    exe = tvm_disc.build(exported(Applies(of_two_sizes(3.0)).eval(), (torch.randn(4, 5),)))
    with pytest.raises(GuardFailed, match=r"must hold .*input 'x' axis"):
        exe(np.zeros((1, 1), "float32"))


def test_explain_names_the_guard() -> None:
    exe = tvm_disc.build(exported(Applies(unused), (torch.randn(4, 3),)))
    assert "if the size is 1, the module computes the same program" in exe.explain()
