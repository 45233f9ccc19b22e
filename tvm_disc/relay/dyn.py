"""``relay.op.dyn.*``: the forms whose shape comes in a tensor, straight from the table."""

from __future__ import annotations

from typing import Any

from . import op


def __getattr__(name: str) -> Any:
    return op.member("dyn", name)
