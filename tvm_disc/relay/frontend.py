"""``relay.frontend``: importers of other frameworks' models, as Relay had them.

The importers live in a room of their own, which registers them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_IMPORTERS: dict[str, Callable[..., Any]] = {}


def register(name: str, importer: Callable[..., Any]) -> None:
    """Make an importer known as ``relay.frontend.<name>``."""
    _IMPORTERS[name] = importer


def __getattr__(name: str) -> Any:
    if name in _IMPORTERS:
        return _IMPORTERS[name]
    raise AttributeError(f"no importer {name!r}; there are {', '.join(sorted(_IMPORTERS))}")


__all__ = ["register"]
