"""Runs of equal elements, modes and bilinear layers of PyTorch programs."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, module_of, tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed, Unsupported  # noqa: E402

LINES = ([1, 1, 2, 2, 2, 1], [3], [], [0, 1, 2, 3], [5] * 70)


def runs(x: Any) -> Any:
    full = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    return (torch.unique_consecutive(x), *full)


def test_runs_of_integers() -> None:
    check(runs, [(torch.tensor(t, dtype=torch.int64),) for t in LINES], "n")


def test_runs_of_floats() -> None:
    nan, inf = math.nan, math.inf
    lists = ([nan, nan, 1.0, 1.0], [0.0, -0.0, inf, inf, -inf], [nan], [2.0] * 33, [])
    check(runs, [(torch.tensor(t),) for t in lists], "n")


def test_runs_of_a_matrix() -> None:
    """The elements are a line, and the index of each run has the shape of the operand."""
    cases = [((torch.arange(n * k) // 3).reshape(n, k),) for n, k in ((4, 5), (1, 1), (0, 3))]
    check(runs, cases, "n k")


def test_runs_along_an_axis_are_refused() -> None:
    program = exported(lambda x: torch.unique_consecutive(x, dim=0), tensors((4, 3)), "n _")
    with pytest.raises(Unsupported, match="unique_consecutive along an axis is not supported"):
        tvm_disc.build(program)


def modes(x: Any) -> Any:
    return (*x.mode(1), *x.mode(0), x.mode(-1, keepdim=True).values)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_modes(dtype: str) -> None:
    torch.manual_seed(0)
    sizes = ((5, 7), (1, 1), (2, 12), (12, 3))
    cases = [(torch.randint(0, 4, s).to(getattr(torch, dtype)),) for s in sizes]
    check(modes, cases, "n k")


def test_modes_of_special_values() -> None:
    """The order of NaN in PyTorch's sort depends on their places, so that few are compared."""
    nan, inf = math.nan, math.inf
    rows = [[nan, nan, nan, 1.0, 1.0], [inf, inf, -inf, -inf, 0.0], [0.0, -0.0, 1.0, 1.0, 1.0]]
    check(lambda x: x.mode(1).values, [(torch.tensor(rows),)], "n k")


def test_modes_of_an_empty_axis() -> None:
    exe = tvm_disc.build(module_of(lambda x: x.mode(1).values), example_inputs=tensors((5, 7)))
    assert tuple(exe(torch.zeros(0, 3)).shape) == (0,)
    with pytest.raises((GuardFailed, BadInput), match=r"mode at .*at least 1 element along axis 1"):
        exe(torch.zeros(3, 0))


def test_bilinear() -> None:
    layer = torch.nn.Bilinear(4, 3, 5).eval()
    cases = [tensors((n, 4), (n, 3)) for n in (6, 1, 0, 33)]
    check(lambda x, y: torch.nn.functional.bilinear(x, y, layer.weight, layer.bias), cases, "n _",
          "n _")  # fmt: skip
