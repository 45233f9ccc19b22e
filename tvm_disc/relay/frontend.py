"""``relay.frontend``: importers of other frameworks' models, as Relay had them.

The importers live in a room of their own, which registers them here; it is loaded when one of them
is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tvm_disc.errors import BadInput, shown

_IMPORTERS: dict[str, Callable[..., Any]] = {}


def register(name: str, importer: Callable[..., Any]) -> None:
    """Make an importer known as ``relay.frontend.<name>``.

    raises: BadInput for what is no name, one of the module's own, or nothing to call.
    """
    if not isinstance(name, str) or not name.isidentifier() or name in globals():
        raise BadInput(f"register: expected a new name for an importer, found {shown(name)}")
    if not callable(importer):
        raise BadInput(f"register: expected a function of models, found {shown(importer)}")
    _IMPORTERS[name] = importer


def __getattr__(name: str) -> Any:
    if name not in _IMPORTERS and not name.startswith("_"):
        import_module("tvm_disc.frontends")
    if name in _IMPORTERS:
        return _IMPORTERS[name]
    raise AttributeError(f"no importer {name!r}; there are {', '.join(sorted(_IMPORTERS))}")


__all__ = ["register"]
