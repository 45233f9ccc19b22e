"""The loop that generates tokens, which programs of language models contain."""

from __future__ import annotations
