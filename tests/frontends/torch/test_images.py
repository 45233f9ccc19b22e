"""Convolutions, pooling, resizing and sampling of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, tensors  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

F = torch.nn.functional
IMAGES = ((2, 9, 8), (2, 6, 6), (3, 13, 7), (1, 33, 17), (2, 64, 41))


def images(channels: int = 4) -> list[tuple[Any, ...]]:
    return [tensors((b, channels, h, w)) for b, h, w in IMAGES]


def test_convolutions() -> None:
    w, b = tensors((6, 4, 3, 3), (6,))
    g, d, t = tensors((6, 2, 3, 3), (4, 1, 3, 3), (4, 3, 3, 2), seed=1)

    def many(x: Any) -> Any:
        return (
            F.conv2d(x, w, b, padding=1), F.conv2d(x, w, stride=2, dilation=2, padding=2),
            F.conv2d(x, g, groups=2), F.conv2d(x, d, groups=4, padding="same"),
            F.conv_transpose2d(x, t, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x, w.transpose(0, 1)[:, :2], groups=2, padding=3),
        )  # fmt: skip

    check(many, images(), "b _ ? ?", tolerance=1e-4)


def test_convolutions_of_lines_and_volumes() -> None:
    w, t, v = tensors((5, 4, 3), (4, 3, 4), (3, 1, 2, 3, 2))

    def many(x: Any) -> Any:
        return (
            F.conv1d(x, w, stride=2, padding=1), F.conv_transpose1d(x, t, stride=3),
            F.conv3d(x.unsqueeze(1).unsqueeze(-1).expand(-1, -1, -1, -1, 3), v),
        )  # fmt: skip

    cases = [tensors((b, 4, n)) for b, n in ((2, 9), (2, 5), (3, 17), (1, 64), (2, 129))]
    check(many, cases, "b _ ?", tolerance=1e-4)


def test_pooling() -> None:
    def many(x: Any) -> Any:
        return (
            F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.max_pool2d(x, 2, dilation=2), *F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, 2, divisor_override=3), F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, (2, 3)),
            F.adaptive_avg_pool2d(x, (None, 1)), F.lp_pool2d(x, 2, 2),
        )  # fmt: skip

    check(many, images(), "b _ ? ?", tolerance=5e-5)


def test_pooling_of_lines() -> None:
    """PyTorch fixes the length of what it pools by ``max_pool1d``."""

    def many(x: Any) -> Any:
        return (F.max_pool1d(x, 3, 2), F.avg_pool1d(x, 3, 2, 1), F.adaptive_avg_pool1d(x, 3),
                F.adaptive_max_pool1d(x, 2), F.max_pool1d(x, 2, ceil_mode=True))  # fmt: skip

    check(many, [tensors((b, 4, 9)) for b in (2, 3, 5, 17, 64)], "b _ _", tolerance=5e-5)


def test_resizing() -> None:
    def many(x: Any) -> Any:
        return (
            F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 7)),
            F.interpolate(x, scale_factor=1.5), F.interpolate(x, (5, 7), mode="nearest-exact"),
            F.interpolate(x, (5, 7), mode="bilinear"),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
            F.interpolate(x, (6, 9), mode="bicubic"),
            F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True),
            F.interpolate(x[:, :, 0], 5, mode="linear"), F.pixel_shuffle(x, 2),
            F.interpolate(x, size=(x.shape[2] + 1, x.shape[3])),
        )  # fmt: skip

    check(many, images(), "b _ ? ?", tolerance=2e-4)


@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
def test_sampling(border: str) -> None:
    def many(x: Any, grid: Any) -> Any:
        kinds = ("bilinear", "nearest", "bicubic")
        return tuple(
            F.grid_sample(x, grid, mode=kind, padding_mode=border, align_corners=corners)
            for kind, corners in zip(kinds, (False, True, False), strict=True)
        )

    def given(b: int, h: int, w: int) -> tuple[Any, ...]:
        x, grid = tensors((b, 4, h, w), (b, 5, 3, 2))
        return x, grid * 0.6

    check(many, [given(*s) for s in IMAGES], "b _ ? ?", "b _ _ _", tolerance=2e-4)


def test_windows_as_columns() -> None:
    def many(x: Any) -> Any:
        return F.unfold(x, 3, padding=1), F.unfold(x, 2, stride=2)

    check(many, images(), "b _ ? ?")


def test_pooling_to_an_unknown_size_is_refused() -> None:
    def pooled(x: Any, y: Any) -> Any:
        return F.adaptive_avg_pool2d(x, (y.shape[0], 2))

    program = exported(pooled, tensors((2, 3, 8, 8), (3,)), "_ _ h _", "n")
    with pytest.raises(Unsupported, match="a size of adaptive pooling that is known at compile"):
        tvm_disc.build(program)
