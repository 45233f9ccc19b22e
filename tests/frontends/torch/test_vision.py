"""torchvision's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import check  # noqa: E402

_KEEP: list[Any] = []  # a library's definitions go with it


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    """torchvision's operator, where torchvision itself is missing."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl("nms", suppressed, "CPU")
        torch.library.register_fake("torchvision::nms", shaped, lib=library)
        _KEEP.append(library)


def shaped(boxes: Any, scores: Any, threshold: float) -> Any:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def suppressed(boxes: Any, scores: Any, threshold: float) -> Any:
    kept: list[int] = []
    for k in torch.argsort(scores, descending=True, stable=True).tolist():
        low = torch.maximum(boxes[k, :2], boxes[kept, :2])
        high = torch.minimum(boxes[k, 2:], boxes[kept, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        if (common <= threshold * (area[k] + area[kept] - common)).all():
            kept.append(k)
    return torch.tensor(kept, dtype=torch.int64)


def detections(count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(count)
    corner, size = rng.random((count, 2)) * 4, 0.5 + rng.random((count, 2)) * 2
    boxes = np.concatenate([corner, corner + size], 1).astype("float32")
    return torch.from_numpy(boxes), torch.from_numpy(rng.random(count).astype("float32"))


def test_suppression_of_overlapping_boxes() -> None:
    def best(boxes: Any, scores: Any) -> Any:
        kept = torch.ops.torchvision.nms(boxes, scores, 0.3)
        return boxes[kept], kept

    check(best, [detections(n) for n in (7, 1, 33, 64, 2)], "n _", "n")
