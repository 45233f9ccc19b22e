"""Python operators on tensors: the current builder emits the calls of ``x * x + 4``.

The tensor types of import rules, decompositions and front ends are subclasses of :class:`Algebra`.
``building`` sets the current builder while one operator is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias, TypeVar

Number: TypeAlias = "int | float | bool"
T = TypeVar("T", bound="Algebra")


class Builder(Protocol):
    """Emits element-wise operators on operands that broadcast."""

    def apply(self, name: str, *operands: Any, dtype: str = "") -> Any:
        """Return a call of Relay's operator ``name``.

        Numbers among the operands are converted to the element type of the last tensor. The element
        type of the result is ``dtype``, by default the type of the last operand.
        """


_CURRENT: ContextVar[Builder | None] = ContextVar("builder", default=None)


@contextmanager
def building(builder: Builder) -> Iterator[None]:
    """Set the current builder."""
    token = _CURRENT.set(builder)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current(default: Builder | None = None) -> Builder:
    """Return the current builder, or the default."""
    found = _CURRENT.get()
    builder = default if found is None else found  # a builder of no inputs has length 0
    if builder is None:
        raise RuntimeError("no builder is current: operators on tensors need `building(...)`")
    return builder


def _unary(name: str) -> Callable[[T], T]:
    def method(self: T) -> T:
        found: T = self._builder().apply(name, self)
        return found

    return method


def _binary(name: str, dtype: str = "") -> Callable[[T, T | Number], T]:
    def method(self: T, other: T | Number) -> T:
        found: T = self._builder().apply(name, self, other, dtype=dtype)
        return found

    return method


def _reflected(name: str) -> Callable[[T, Number], T]:
    def method(self: T, other: Number) -> T:
        found: T = self._builder().apply(name, other, self)
        return found

    return method


class Algebra:
    """A tensor with operators. ``==`` compares identity; :meth:`equal` compares elements."""

    __array_ufunc__ = None  # makes NumPy numbers defer to the tensor's operator

    def _builder(self) -> Builder:
        return current()

    __add__ = _binary("add")
    __radd__ = _reflected("add")
    __sub__ = _binary("subtract")
    __rsub__ = _reflected("subtract")
    __mul__ = _binary("multiply")
    __rmul__ = _reflected("multiply")
    __truediv__ = _binary("divide")
    __rtruediv__ = _reflected("divide")
    __floordiv__ = _binary("floor_divide")
    __rfloordiv__ = _reflected("floor_divide")
    __mod__ = _binary("floor_mod")
    __rmod__ = _reflected("floor_mod")
    __pow__ = _binary("power")
    __rpow__ = _reflected("power")
    __lshift__ = _binary("left_shift")
    __rlshift__ = _reflected("left_shift")
    __rshift__ = _binary("right_shift")
    __and__ = _binary("logical_and")
    __or__ = _binary("logical_or")
    __invert__ = _unary("logical_not")
    __neg__ = _unary("negative")
    __lt__ = _binary("less", "bool")
    __le__ = _binary("less_equal", "bool")
    __gt__ = _binary("greater", "bool")
    __ge__ = _binary("greater_equal", "bool")
    equal = _binary("equal", "bool")
    not_equal = _binary("not_equal", "bool")


def maximum(a: T, b: T | Number) -> T:
    """Return the element-wise maximum."""
    found: T = current().apply("maximum", a, b)
    return found


def minimum(a: T, b: T | Number) -> T:
    """Return the element-wise minimum."""
    found: T = current().apply("minimum", a, b)
    return found


def clip(x: T, low: T | Number, high: T | Number) -> T:
    """Return ``x`` clamped to ``low`` and then to ``high``."""
    return minimum(maximum(x, low), high)


def where(cond: T, a: T | Number, b: T | Number) -> T:
    """Return ``a`` where the condition holds, else ``b``."""
    found: T = current().apply("where", cond, a, b)
    return found
