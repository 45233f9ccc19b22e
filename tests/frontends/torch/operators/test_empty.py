"""Sizes that PyTorch's operators refuse: a program refuses them too, and names the operator.

Each function runs with all sizes from 0 to 3 of two axes. A call gives what PyTorch gives. If
PyTorch refuses a call, so does the program.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import module_of  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed  # noqa: E402

Program = Callable[[Any], Any]

# For each operator: the function, and the text that a message contains.
NAMED: dict[str, tuple[Program, str]] = {
    "argmax": (lambda x: x.argmax(0), "along axis 0"),
    "argmin of all": (lambda x: x.argmin(), "along axis 1"),
    "amax": (lambda x: x.amax((0, 1)), "along axis 1"),
    "median": (lambda x: x.median(1).values, "along axis 1"),
    "nanmedian": (lambda x: x.nanmedian(1).values, "along axis 1"),
    "mode": (lambda x: x.mode(1).values, "along axis 1"),
    "linalg_vector_norm": (
        lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), "along axis 1"
    ),
    "linalg_vector_norm of -1": (lambda x: torch.linalg.vector_norm(x, -1, dim=0), "along axis 0"),
    "select": (lambda x: x[:, 0], "along axis 1"),
    "select from the end": (lambda x: x[-1], "along axis 0"),
    "select_scatter": (
        lambda x: torch.select_scatter(x, x[:, 0] * 0, 1, 1), "2 elements along axis 1"
    ),
    "constant_pad_nd": (lambda x: F.pad(x, (-1, 2)), "along axis 1"),
    "replication_pad1d": (lambda x: F.pad(x, (1, 1), mode="replicate"), "along axis 1"),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[None], 2, padding=1), "along axis 2"),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x[None], 3), "along axis 2"),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x[None, None], 2), "along axis 3"),
    "conv1d": (lambda x: F.conv1d(x[:, None], torch.ones(2, 1, 3), padding=1), "along axis 2"),
    "conv1d without columns": (
        lambda x: F.conv1d(x[:, None], torch.ones(2, 1, 1), padding=1), "along axis 2"
    ),
    "conv_transpose1d of batches": (
        lambda x: F.conv_transpose1d(x[:, None], torch.ones(1, 2, 3)), "along axis 2"
    ),
    "conv_transpose1d": (
        lambda x: F.conv_transpose1d(x.sum(0)[None, None], torch.ones(1, 2, 3)), "along axis 2"
    ),
    "upsample_nearest2d": (lambda x: F.interpolate(x[None, None], size=(3, 4)), "along axis 3"),
    "grid_sampler": (
        lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
        "along axis 3",
    ),
}  # fmt: skip
# The exporter narrows the sizes of these, so that messages name the input and axis only.
ELSEWHERE: dict[str, Program] = {
    "topk": lambda x: x.topk(3, 1).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "narrow": lambda x: x.narrow(1, 1, 2) + 1,
    "narrow to the end": lambda x: x.narrow(1, -3, 3) + 1,
    "reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "convolution": lambda x: F.conv1d(x[:, None], torch.ones(2, 1, 3)),
    "split": lambda x: x.split([2, x.shape[1] - 2], 1)[1],
    "unfold": lambda x: x.unfold(1, 3, 2),
}
# PyTorch accepts every size.
ACCEPTED: dict[str, Program] = {
    "sum": lambda x: (x.sum(0), x.mean(1), x.prod(1), x.softmax(1), x.logsumexp(1)),
    "flatten": lambda x: x.flatten() + 1,
    "cummax": lambda x: x.cummax(1).values,
    "norm of a scalar": lambda x: torch.linalg.vector_norm(x.sum(), float("inf"), dim=0),
    "adaptive average of channels": lambda x: F.adaptive_avg_pool1d(x[:, :, None], 1),
    "adaptive average of all": lambda x: F.adaptive_avg_pool2d(x[None], 1),
    "adaptive maximum of no rows": lambda x: F.adaptive_max_pool1d(x[:, :, None].sum(1), 1),
    "median of all": lambda x: (x.median(), x.nanmedian()),
}
# Operators of tensors of more axes, with the sizes of some calls.
SHAPED: dict[str, tuple[Program, tuple[tuple[int, ...], ...]]] = {
    "unfold": (
        lambda x: F.unfold(x, 2),
        ((2, 3, 4, 5), (2, 3, 1, 4), (2, 3, 4, 1), (2, 0, 4, 4), (1, 1, 2, 2), (2, 3, 0, 4)),
    ),
    "unfold of padding": (
        lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 1)),
        ((3, 4, 5), (3, 1, 4), (3, 0, 4), (3, 2, 2), (0, 4, 4), (1, 5, 3)),
    ),
    "adaptive_avg_pool3d": (
        lambda x: F.adaptive_avg_pool3d(x, 2),
        ((2, 3, 4, 4, 5), (2, 0, 4, 4, 4), (0, 2, 4, 4, 4), (2, 3, 0, 4, 4)),
    ),
}


def outcome(function: Program, x: Any) -> Any:
    """What the module gives; None if PyTorch refuses the call."""
    try:
        return function(x)
    except (RuntimeError, ValueError, IndexError):
        return None


def built(function: Program) -> Any:
    return tvm_disc.build(module_of(function), example_inputs=(torch.rand(5, 7),))


def refusals(function: Program) -> list[str]:
    """The messages of the calls that are refused; the others equal PyTorch's."""
    return refused_by(built(function), function, itertools.product(range(4), repeat=2))


def refused_by(exe: Any, function: Program, shapes: Iterable[tuple[int, ...]]) -> list[str]:
    """The messages of the calls of these shapes that are refused."""
    found = []
    for sizes in shapes:
        x = torch.rand(sizes)
        want = outcome(function, x)
        if want is None:
            with pytest.raises((GuardFailed, BadInput), match="input '") as refused:
                exe(x)
            found.append(str(refused.value))
        else:
            torch.testing.assert_close(exe(x), want, equal_nan=True, check_stride=False)
    return found


@pytest.mark.parametrize("name", NAMED)
def test_messages(name: str) -> None:
    function, text = NAMED[name]
    operator = re.escape(name.split()[0])
    pattern = rf"^{operator} at \w+ \(\w+\.py:\d+\).*: expected at least .*{text}, whose size is "
    messages = refusals(function)
    assert any(re.search(pattern, message) for message in messages), messages


@pytest.mark.parametrize("name", ELSEWHERE)
def test_refused(name: str) -> None:
    assert refusals(ELSEWHERE[name])


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    assert not refusals(ACCEPTED[name])


@pytest.mark.parametrize("name", SHAPED)
def test_tensors_of_more_axes(name: str) -> None:
    function, shapes = SHAPED[name]
    example = torch.rand([7, 6, 8, 5, 9][: len(shapes[0])])
    exe = tvm_disc.build(module_of(function), example_inputs=(example,))
    assert refused_by(exe, function, shapes)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_medians_of_special_numbers(name: str) -> None:
    nan, inf = float("nan"), float("inf")
    exe = built(lambda x: getattr(x, name)())
    rows: list[list[float]] = [
        [], [nan], [nan, nan], [1, nan, 3], [inf, -inf], [inf, nan, -inf, 2], [3, 1, 2, 5], [-0.0],
    ]  # fmt: skip
    for row in rows:
        x = torch.tensor([row], dtype=torch.float32)
        torch.testing.assert_close(exe(x), getattr(x, name)(), equal_nan=True)


def test_the_median_of_no_integers_is_refused() -> None:
    """PyTorch converts NaN to an integer, which gives other numbers on other processors."""
    exe = built(lambda x: x.int().median())
    assert exe(torch.ones(1, 3)) == 1
    with pytest.raises(BadInput, match=r"^median at .*: expected at least 1 element"):
        exe(torch.ones(0, 3))


def test_a_negative_start_that_reaches_the_end() -> None:
    exe = built(lambda x: x.narrow(1, -2, 2) * 1.0)
    x = torch.rand(3, 6)
    torch.testing.assert_close(exe(x), x[:, -2:])
