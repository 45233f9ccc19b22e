"""Models of many kinds, exported from PyTorch, compiled once and run on many dims."""

from __future__ import annotations

from benchmarks.zoo.vision_ops import make_available

make_available()
