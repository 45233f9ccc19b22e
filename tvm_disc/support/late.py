"""Functions whose module is imported by the first call."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Late:
    """A function named by ``"module:name"``; the first call imports the module."""

    place: str

    def function(self) -> Any:
        """Import the module and return the function."""
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the function, such as its signature for ``inspect``."""
        if name == "__signature__":
            return inspect.signature(self.function())
        raise AttributeError(name)

    def __call__(self, *args: object, **named: object) -> Any:
        return self.function()(*args, **named)


__all__ = ["Late"]
