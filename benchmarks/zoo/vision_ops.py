"""Substitutes for torchvision's operators if its library does not fit the PyTorch build."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def make_available() -> None:
    """Load or define torchvision's operators.

    Call this before the first import of torchvision, which transformers imports, too: the import
    fails without operators of these names.
    """
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return
    for library in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))
            return
        except OSError:  # for example a library that is linked against CUDA
            pass
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", SCHEMA)
    torch.library.impl("torchvision::nms", "CPU", nms)


def nms(boxes: Any, scores: Any, threshold: float) -> Any:
    """Return the indices of the boxes to keep, best score first.

    A box is removed if it overlaps a better one by more than ``threshold``.
    """
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
