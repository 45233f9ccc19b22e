"""Token-generation loop that is compiled into language-model programs."""

from __future__ import annotations
