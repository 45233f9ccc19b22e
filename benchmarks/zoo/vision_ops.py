"""torchvision's operators, where its own library does not fit the build of PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def make_available() -> None:
    """Before the first import of torchvision (transformers imports it, too): without operators
    of these names it cannot be imported."""
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))
            return
        except OSError:  # for instance one that was linked against CUDA
            pass
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", SCHEMA)
    torch.library.impl("torchvision::nms", "CPU", nms)


def nms(boxes: Any, scores: Any, threshold: float) -> Any:
    """The boxes to keep, the best first: none overlaps a better one by more than the threshold."""
    order = torch.argsort(scores, descending=True, stable=True)
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    overlap = common / (area[:, None] + area[None] - common)
    kept: list[int] = []
    for k in order.tolist():
        if all(overlap[k, j] <= threshold for j in kept):
            kept.append(k)
    return torch.tensor(kept, dtype=torch.int64)


__all__ = ["make_available"]
