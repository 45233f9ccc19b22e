"""Which programs are read as they are exported, and which PyTorch takes apart before."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import check, exported, tensors  # noqa: E402
from tvm_disc.frontends.torch.whole import is_whole  # noqa: E402

nn = torch.nn


class Written(nn.Module):  # type: ignore[misc, name-defined]
    """What is written into is read again, as it became."""

    def forward(self, x: Any) -> Any:
        y = x + 1
        return nn.functional.relu_(y) * 2 + y


class Dropped(nn.Module):  # type: ignore[misc, name-defined]
    """A dropout that does nothing gives its operand: what is written into has another name."""

    def forward(self, x: Any) -> Any:
        y = x * 3
        z = nn.functional.relu_(nn.functional.dropout(y, training=False))
        return z + y


class Viewed(nn.Module):  # type: ignore[misc, name-defined]
    """A part of what is read again is written into."""

    def forward(self, x: Any) -> Any:
        y = x - 1
        y[:, 0].mul_(2)
        return y


class Kept(nn.Module):  # type: ignore[misc, name-defined]
    """Any dropout that gives its operand, be it in a result."""

    def forward(self, x: Any) -> Any:
        y = x * 3
        same = nn.functional.dropout(y, p=0.0, training=True)
        nn.functional.relu_(y)
        return same


class Meshed(nn.Module):  # type: ignore[misc, name-defined]
    """A grid of one line is that line."""

    def forward(self, x: Any) -> Any:
        y = x[0] * 2
        torch.meshgrid(y, indexing="ij")[0].relu_()
        return x + y


def test_writing_into_what_nobody_reads_is_computing() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.Conv2d(8, 4, 1), nn.Hardtanh(inplace=True),
    )  # fmt: skip
    cases = [tensors((b, 3, h, w)) for b, h, w in ((2, 5, 7), (1, 1, 1), (3, 16, 4))]
    assert is_whole(exported(module, cases[0], "b _ h w"))
    check(module, cases, "b _ h w")


@pytest.mark.parametrize("module", [Written(), Viewed(), Dropped(), Kept(), Meshed()])
def test_writing_into_what_is_read_again(module: Any) -> None:
    check(module, [tensors(shape) for shape in ((3, 4), (1, 1), (7, 16))], "n m")


@pytest.mark.parametrize("module", [Dropped(), Viewed(), Meshed()])
def test_what_has_two_names_is_taken_apart(module: Any) -> None:
    assert not is_whole(exported(module, tensors((3, 4)), "n m"))


def test_a_batch_norm_that_trains_writes() -> None:
    class Training(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("var", torch.ones(3))

        def forward(self, x: Any) -> Any:
            return nn.functional.batch_norm(x, self.mean, self.var, training=True)

    assert not is_whole(exported(Training(), tensors((4, 3, 5)), "b _ s"))
