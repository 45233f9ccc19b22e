"""Detectors: boxes and their scores, with and without non-maximum suppression."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.zoo.row import floats, row

IMAGES = ((1, 2, 2), (2, 3, 5), (3, 4, 3), (1, 7, 1), (5, 2, 3), (1, 1, 1))
ONE = tuple((h, w) for _, h, w in IMAGES)


def block(inner: int, outer: int, stride: int = 2) -> nn.Module:
    """Return a block of convolution, normalization and SiLU."""
    return nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1), nn.BatchNorm2d(outer), nn.SiLU())


class Yolo(nn.Module):
    """A detector with a backbone, two scales joined by upsampling, and decoding of boxes."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(block(3, 16), block(16, 32), block(32, 32))
        self.deep = block(32, 64)
        self.lift = nn.Conv2d(64, 32, 1)
        self.join = block(64, 32, 1)
        self.heads = nn.ModuleList([nn.Conv2d(32, 5 + classes, 1), nn.Conv2d(64, 5 + classes, 1)])

    def forward(self, pixels: Any) -> Any:
        fine = self.stem(pixels)
        coarse = self.deep(fine)
        lifted = nn.functional.interpolate(self.lift(coarse), scale_factor=2.0, mode="nearest")
        fine = self.join(torch.cat([fine, lifted], 1))
        made = [
            self.boxes(h(x), s)
            for h, x, s in zip(self.heads, (fine, coarse), (8, 16), strict=False)
        ]
        return torch.cat(made, 1)

    def boxes(self, x: Any, stride: int) -> Any:
        """Return centre and size in pixels, objectness and class scores of every cell."""
        _, _, h, w = x.shape
        x = x.permute(0, 2, 3, 1)
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([xs, ys], -1).to(x.dtype)
        centre = (x[..., :2].sigmoid() + grid) * stride
        size = x[..., 2:4].exp() * stride
        return torch.cat([centre, size, x[..., 4:].sigmoid()], -1).flatten(1, 2)


class YoloNms(nn.Module):
    """A detector that returns the detections of one image after non-maximum suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.yolo = Yolo()

    def forward(self, pixels: Any) -> Any:
        made = self.yolo(pixels)[0]
        centre, half = made[:, :2], made[:, 2:4] / 2
        boxes = torch.cat([centre - half, centre + half], 1)
        scores, label = (made[:, 5:] * made[:, 4:5]).max(1)
        kept = torch.ops.torchvision.nms(boxes + label[:, None] * 4096.0, scores, 0.5)
        return boxes[kept], scores[kept], label[kept]


class Ssd(nn.Module):
    """A detector with two scales and three boxes per cell, decoded from priors.

    ``suppress`` adds non-maximum suppression.
    """

    def __init__(self, suppress: bool, classes: int = 4) -> None:
        super().__init__()
        self.suppress, self.classes = suppress, classes
        self.stem = nn.Sequential(block(3, 16), block(16, 32), block(32, 32))
        self.deep = block(32, 32)
        self.place = nn.ModuleList([nn.Conv2d(32, 12, 3, 1, 1) for _ in range(2)])
        self.score = nn.ModuleList([nn.Conv2d(32, 3 * classes, 3, 1, 1) for _ in range(2)])
        self.register_buffer("sizes", torch.tensor([[0.1, 0.1], [0.2, 0.1], [0.1, 0.2]]))

    def priors(self, h: int, w: int, scale: float) -> Any:
        """Return centre and size of the boxes of every cell, relative to the image."""
        ys = (torch.arange(h) + 0.5) / h
        xs = (torch.arange(w) + 0.5) / w
        cy, cx = torch.meshgrid(ys, xs, indexing="ij")
        centre = torch.stack([cx, cy], -1)[:, :, None].expand(h, w, 3, 2)
        sizes = (self.sizes * scale).expand(h, w, 3, 2)
        return torch.cat([centre, sizes], -1).reshape(-1, 4)

    def forward(self, pixels: Any) -> Any:
        fine = self.stem(pixels)
        boxes, scores = [], []
        for k, x in enumerate((fine, self.deep(fine))):
            prior = self.priors(x.shape[2], x.shape[3], k + 1.0)
            offset = self.place[k](x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
            centre = prior[:, :2] + 0.1 * offset[..., :2] * prior[:, 2:]
            size = prior[:, 2:] * (0.2 * offset[..., 2:]).exp()
            boxes.append(torch.cat([centre - size / 2, centre + size / 2], -1))
            made = self.score[k](x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.classes)
            scores.append(made.softmax(-1))
        boxes, scores = torch.cat(boxes, 1), torch.cat(scores, 1)
        if not self.suppress:
            return boxes, scores
        best, label = scores[0].max(-1)
        kept = torch.ops.torchvision.nms(boxes[0], best, 0.45)
        return boxes[0][kept], best[kept], label[kept]


LIMITS = {"h": (1, 64), "w": (1, 64)}
row("yolo", Yolo, {"pixels": floats("b 3 16*h 16*w")}, "b h w", IMAGES, **LIMITS)
row("yolo_nms", YoloNms, {"pixels": floats("1 3 16*h 16*w")}, "h w", ONE, **LIMITS)
row("ssd", lambda: Ssd(False), {"pixels": floats("b 3 16*h 16*w")}, "b h w", IMAGES, **LIMITS)
row("ssd_nms", lambda: Ssd(True), {"pixels": floats("1 3 16*h 16*w")}, "h w", ONE, **LIMITS)
