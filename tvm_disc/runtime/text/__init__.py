"""Generation of text: choice of tokens from logits, and language models with caches."""

from __future__ import annotations
