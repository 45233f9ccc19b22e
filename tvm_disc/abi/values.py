"""Values of data types in arguments and results of a compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvm_disc.errors import BadInput, shown


class ConstructorValue:
    """A constructor applied to values: ``ConstructorValue("Cons", head, tail)``.

    The constructor is a name, or an object with a ``name_hint``. Two values are equal if their
    constructors and fields are; tensors compare by element. Comparison is iterative, because lists
    may be long.
    """

    __match_args__ = ("constructor", "fields")
    __slots__ = ("constructor", "fields", "tag")

    def __init__(self, constructor: object, *fields: object, tag: int = -1) -> None:
        self.constructor = constructor
        self.fields: tuple[Any, ...] = fields
        self.tag = tag

    @property
    def name(self) -> str:
        """The name of the constructor."""
        return str(getattr(self.constructor, "name_hint", self.constructor))

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstructorValue):
            return NotImplemented
        stack: list[tuple[Any, Any]] = [(self, other)]
        while stack:
            a, b = stack.pop()
            pairs = _pairs(a, b)
            if pairs is None:
                return False
            stack.extend(pairs)
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return _text(self, depth=4)


def _pairs(a: object, b: object) -> list[tuple[object, object]] | None:
    """Return the pairs of parts that must be equal for ``a`` and ``b`` to be equal; None if ``a``
    and ``b`` already differ.
    """
    if isinstance(a, ConstructorValue) and isinstance(b, ConstructorValue):
        if a.name != b.name or len(a) != len(b):
            return None
        return list(zip(a.fields, b.fields, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return list(zip(a, b, strict=True)) if len(a) == len(b) else None
    if isinstance(a, ConstructorValue | tuple) or isinstance(b, ConstructorValue | tuple):
        return None
    return [] if np.array_equal(np.asarray(a), np.asarray(b)) else None


def _text(value: object, depth: int) -> str:
    if isinstance(value, ConstructorValue):
        if not value.fields:
            return value.name
        if depth == 0:
            return f"{value.name}(...)"
        return f"{value.name}({', '.join(_text(f, depth - 1) for f in value.fields)})"
    return repr(value)


def from_list(items: Sequence[object], cons: str = "Cons", nil: str = "Nil") -> ConstructorValue:
    """Return a Python sequence as a linked list."""
    if not isinstance(items, Sequence):
        raise BadInput(f"from_list: expected a sequence, found {shown(items)}")
    result = ConstructorValue(nil)
    for item in reversed(items):
        result = ConstructorValue(cons, item, result)
    return result


def to_list(value: ConstructorValue) -> list[object]:
    """Return the elements of a linked list, whose nodes have two fields: an element and the
    rest.
    """
    items: list[object] = []
    if not isinstance(value, ConstructorValue):
        raise BadInput(f"to_list: expected a ConstructorValue, found {shown(value)}")
    while len(value) == 2:
        items.append(value[0])
        value = value[1]
    return items
