"""Quantize values by their ranges in sample calls."""

from __future__ import annotations
