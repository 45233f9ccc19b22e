"""Arguments and results of Relay's executors: TVM tensors, tuples, values of data types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi import values
from tvm_disc.relay.expr import Constant, Constructor
from tvm_disc.runtime.arrays import as_tensor
from tvm_disc.typing import Argument

Made: TypeAlias = Any


class ADT(tuple[Any, ...]):
    """A tuple as a result: indexable, with a length and the tag 0, like TVM's ``ADT``."""

    __slots__ = ()
    tag = 0

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields as a plain tuple."""
        return tuple(self)


class ConstructorValue(values.ConstructorValue):
    """A value of a data type: ``tag``, ``fields``, and the ``constructor`` with its name."""

    __slots__ = ()

    def __init__(self, tag: int, fields: Any, constructor: Constructor | str) -> None:
        super().__init__(constructor, *fields, tag=int(tag))


def argument(value: Argument) -> Argument:
    """Return an argument with each Relay ``Constant`` replaced by its array."""
    if isinstance(value, Constant):
        return value.data
    if isinstance(value, tuple):
        return tuple(map(argument, value))
    return value


def tensor(value: object) -> Any:
    """Return an array as a TVM tensor that shares its memory."""
    if isinstance(value, np.ndarray):
        value = as_tensor(value)
        return tvm_ffi.from_dlpack(value) if isinstance(value, np.ndarray) else value
    return value


def results(
    root: object,
    constructors: Mapping[str, Constructor],
    tuples: Callable[[list[Any]], object] = ADT,
) -> Any:
    """Return a program's result as TVM tensors, tuples and :class:`ConstructorValue` objects.

    Conversion is iterative, because lists may be long.

    Args:
        constructors: constructors of the module, by name.
        tuples: function from the fields of a tuple to the returned object.
    """
    made: dict[int, Made] = {}
    stack = [(root, False)]
    while stack:
        value, ready = stack.pop()
        inner = _inside(value)
        if inner is None:
            made[id(value)] = tensor(value)
        elif not ready:
            stack.append((value, True))
            stack.extend((v, False) for v in inner if id(v) not in made)
        elif isinstance(value, values.ConstructorValue):
            fields = [made[id(v)] for v in inner]
            constructor = constructors.get(value.name, value.name)
            made[id(value)] = ConstructorValue(value.tag, fields, constructor)
        else:
            made[id(value)] = tuples([made[id(v)] for v in inner])
    return made[id(root)]


def _inside(value: object) -> tuple[object, ...] | None:
    """Return the fields of a tuple or of a data type's value; None for a tensor."""
    if isinstance(value, values.ConstructorValue):
        return value.fields
    return value if isinstance(value, tuple) else None


__all__ = ["ADT", "ConstructorValue", "argument", "results", "tensor"]
