"""Generation of text: words from scores, and models that keep what they have read."""

from __future__ import annotations
