"""What each operator means, in NumPy: for tests, and for reading.

A row of the table names its reference, ``ref.erf`` or ``ref.unary.of(np.exp)``. The module that
defines it is imported by the first call, so that a compiler that starts does not read it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any


class Reference:
    """A function of a module of references, looked up when it is first called."""

    def __init__(self, module: str, name: str, made_of: tuple[Any, ...] | None = None) -> None:
        self._module, self._name, self._made_of = module, name, made_of

    def of(self, *parts: Any) -> Reference:
        """What the function makes of ``parts``: for those that make references."""
        return Reference(self._module, self._name, parts)

    def __call__(self, *arrays: Any, **attrs: Any) -> Any:
        """The operator's result, or results, on arrays."""
        return self.function(*arrays, **attrs)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] = getattr(import_module(self._module), self._name)
        if self._made_of is not None:
            found = found(*self._made_of)
        return found

    def __repr__(self) -> str:
        parts = "" if self._made_of is None else f".of{self._made_of!r}"
        return f"{self._module.rpartition('.')[2]}.{self._name}{parts}"


class References:
    """The references of one module, by name, unread."""

    def __init__(self, module: str) -> None:
        self._module = f"{__name__}.{module}"

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("__"):
            raise AttributeError(name)
        return Reference(self._module, name)


__all__ = ["Reference", "References"]
