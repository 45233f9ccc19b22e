"""``relay.op.dyn.*``: the forms whose shape comes in a tensor, straight from the table."""

from __future__ import annotations

from typing import Any

from . import op
from .ops.table import OPS


def __getattr__(name: str) -> Any:
    if f"dyn.{name}" in OPS:
        return op.function(f"dyn.{name}")
    raise AttributeError(f"no operator dyn.{name}")
