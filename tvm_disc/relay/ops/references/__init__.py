"""NumPy semantics of each operator, for tests, constant folding and reading.

A table entry names its reference, such as ``ref.erf`` or ``ref.unary.of(np.exp)``. The module that
defines a reference is imported at the first call, so that compiler startup does not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any


class Reference:
    """A function of a reference module, imported at its first call."""

    def __init__(self, module: str, name: str, made_of: tuple[object, ...] | None = None) -> None:
        self._module, self._name, self._made_of = module, name, made_of

    def of(self, *parts: Any) -> Reference:
        """Return the reference that a factory function builds from ``parts``."""
        return Reference(self._module, self._name, parts)

    def __call__(self, *arrays: object, **attrs: object) -> Any:
        """Return the operator's result, or results, on arrays."""
        return self.function(*arrays, **attrs)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The NumPy function; its module is imported at the first access."""
        found: Callable[..., Any] = getattr(import_module(self._module), self._name)
        if self._made_of is not None:
            found = found(*self._made_of)
        return found

    def __repr__(self) -> str:
        parts = "" if self._made_of is None else f".of{self._made_of!r}"
        return f"{self._module.rpartition('.')[2]}.{self._name}{parts}"


class References:
    """The references of one module by name; the module is not imported."""

    def __init__(self, module: str) -> None:
        self._module = f"{__name__}.{module}"

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("__"):
            raise AttributeError(name)
        return Reference(self._module, name)


__all__ = ["Reference", "References"]
