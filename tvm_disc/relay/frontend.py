"""``relay.frontend``: importers of models of other frameworks, under Relay's names.

The importers are in ``tvm_disc.frontends``, which registers them here. That package is imported
on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tvm_disc.errors import BadInput, shown

_IMPORTERS: dict[str, Callable[..., Any]] = {}


def register(name: str, importer: Callable[..., Any]) -> None:
    """Register an importer as ``relay.frontend.<name>``.

    Raises:
        BadInput: ``name`` is not an identifier or already a member of this module, or ``importer``
            is not callable.
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
