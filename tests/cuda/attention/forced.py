"""Attention by one plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tvm_disc.schedules.cuda.attention import template
from tvm_disc.schedules.cuda.attention.template import QUERIES, TILES

PLANS = (*QUERIES, *TILES)


@contextmanager
def only_attention(plan: Any) -> Iterator[None]:
    """Attention one way: by a block per query, or in tiles of one size."""
    tiles, queries = ((plan,), ()) if plan in TILES else ((), (plan,))
    with (
        mock.patch.object(template, "TILES", tiles),
        mock.patch.object(template, "QUERIES", queries),
    ):
        yield


__all__ = ["PLANS", "only_attention"]
