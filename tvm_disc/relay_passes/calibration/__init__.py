"""Quantization of values by the ranges that they have in sample calls."""

from __future__ import annotations
