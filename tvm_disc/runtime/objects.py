"""Conversion of boxed values between Python objects and the program's flat form.

The form is described in ``codegen/objects/flat.py``; the manifest contains the types of a program's
inputs and result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvm_disc.abi.formula import rounded
from tvm_disc.abi.values import ConstructorValue
from tvm_disc.errors import BadInput, counted, shown
from tvm_disc.runtime.arrays import as_array, as_tensor

_FIELD: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")


class Codec:
    """Flattens the arguments of a program and rebuilds its results.

    Args:
        external: the manifest's entry about boxed values.
        names: the program's flat inputs.
    """

    def __init__(self, external: Mapping[str, Any], names: Sequence[str]) -> None:
        self.types: Mapping[str, Any] = external["types"]
        self.inputs: Mapping[str, Any] = external["inputs"]
        self.result: Any = external["result"]
        self.names = list(dict.fromkeys(self._user_name(n) for n in names))

    def _user_name(self, name: str) -> str:
        for suffix in (".codes", ".blob"):
            if name.removesuffix(suffix) in self.inputs:
                return name.removesuffix(suffix)
        return name

    def flatten(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Any, ...]:
        """Return the flat arguments of a call.

        Raises:
            BadInput: an input is missing, unknown or given twice, or a value does not have its
                declared type; the message names the input.
        """
        given = dict(zip(self.names, args, strict=False))
        twice = [n for n in kwargs if n in given or n not in self.names]
        given.update(kwargs)
        if len(args) > len(self.names) or twice or len(given) != len(self.names):
            raise BadInput(
                f"expected inputs {', '.join(self.names)}, found {len(args)} by position and "
                f"{sorted(kwargs)} by name"
            )
        flat: list[Any] = []
        for name in self.names:
            if name in self.inputs:
                flat += _Encoder(self.types, f"input '{name}'").flat(given[name], self.inputs[name])
            else:
                flat.append(given[name])
        return tuple(flat)

    def rebuild(self, result: object, convert: Callable[[object], object]) -> Any:
        """Return the Python result of a call from its flat form."""
        return self._value(self.result, result, convert)

    def _value(
        self,
        form: Sequence[Sequence[str] | str | None] | None,
        flat: Any,
        convert: Callable[[Any], Any],
    ) -> Any:
        if form is None:
            return convert(flat)
        if form and isinstance(form[0], str):
            codes, blob = (np.from_dlpack(_FIELD(flat, k)) for k in (0, 1))
            return _decode(codes, blob, form, self.types, convert)
        return tuple(self._value(f, _FIELD(flat, k), convert) for k, f in enumerate(form))


class _Encoder:
    """Encodes one value. The encoder is iterative, because recursion over a long list would
    overflow the stack.
    """

    def __init__(self, types: Mapping[str, Any], where: str) -> None:
        self.types, self.where = types, where
        self.records: list[list[int]] = []
        self.known: dict[tuple[int, str], int] = {}
        self.todo: list[tuple[int, Any, Any]] = []
        self.arrays: list[tuple[int, np.ndarray]] = []
        self.kept: list[Any] = []
        self.size = 0

    def flat(self, value: Any, form: Any) -> list[np.ndarray]:
        root = self._reference(value, form)
        while self.todo:
            at, inner, kind = self.todo.pop()
            self.records[at] = self._record(inner, kind)
        codes = [root, len(self.records)]
        for record in self.records:
            codes += record
        blob = np.empty(self.size, np.uint8)
        for at, array in self.arrays:
            blob[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
        return [np.array(codes, np.int64), blob]

    def _reference(self, value: Any, form: Any) -> int:
        if form[0] == "data":
            if not isinstance(value, ConstructorValue):
                value = self._converted(value, form[1])
            if not value.fields:
                return -1 - self._constructor(value, form[1])[0]
        key = (id(value), form[0])
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = len(self.records)
            self.records.append([])
            self.todo.append((known, value, form))
        return known

    def _converted(self, value: Any, name: str) -> ConstructorValue:
        """Convert a Python list to a linked list, or a tuple that begins with a constructor's name
        to a value of that constructor.
        """
        made = None
        if isinstance(value, list):
            made = self._linked(value, self.types[name], name)
        elif isinstance(value, tuple) and value and isinstance(value[0], str):
            made = ConstructorValue(value[0], *value[1:])
        if made is None:
            options = ", ".join(ctor for ctor, _ in self.types[name])
            found = type(value).__name__
            raise BadInput(
                f"{self.where}: expected a value of the data type {name} (constructors: "
                f"{options}), found {found}"
            )
        self.kept.append(made)  # keeps the object alive: `known` is keyed by id
        return made

    def _constructor(self, value: ConstructorValue, name: str) -> tuple[int, list[object]]:
        """Return the tag of a value's constructor, and the types of its fields."""
        for tag, (ctor, fields) in enumerate(self.types[name]):
            if ctor == value.name:
                if len(fields) == len(value.fields):
                    return tag, fields
                raise BadInput(
                    f"{self.where}: constructor {ctor} of {name}: expected "
                    f"{counted(len(fields), 'field')}, found {len(value.fields)}"
                )
        options = ", ".join(ctor for ctor, _ in self.types[name])
        raise BadInput(
            f"{self.where}: expected a value of the data type {name} (constructors: {options}), "
            f"found constructor {value.name}"
        )

    def _linked(self, items: list[object], rows: Any, name: str) -> ConstructorValue:
        plain = [ctor for ctor, fields in rows if not fields]
        pairs = [ctor for ctor, fields in rows if len(fields) == 2 and fields[1] == ["data", name]]
        if len(rows) != 2 or len(plain) != 1 or len(pairs) != 1:
            raise BadInput(
                f"{self.where}: a Python list cannot be converted to the data type {name}; pass a "
                "ConstructorValue"
            )
        result = ConstructorValue(plain[0])
        for item in reversed(items):
            result = ConstructorValue(pairs[0], item, result)
        return result

    def _record(self, value: Any, form: Any) -> list[int]:
        if form[0] == "tensor":
            return self._tensor(value, form[1], form[2])
        if form[0] == "data":
            tag, fields = self._constructor(value, form[1])
            children = value.fields
        else:
            tag, fields, children = 0, form[1], value
            if not isinstance(value, tuple | list) or len(value) != len(fields):
                raise BadInput(
                    f"{self.where}: expected a tuple of {counted(len(fields), 'value')}, found "
                    f"{shown(value)}"
                )
        refs = [self._reference(c, f) for c, f in zip(children, fields, strict=True)]
        return [tag, len(refs), *refs]

    def _tensor(self, value: Any, dims: list[int | None], dtype: str) -> list[int]:
        array = value
        if not isinstance(value, np.ndarray):
            if hasattr(value, "__dlpack__"):
                value = as_array(value)
            plain = isinstance(value, int | float | bool)
            array = np.asarray(value, dtype if plain else None)
        if not array.flags.c_contiguous:
            array = np.array(array, order="C")
        shape = array.shape
        fits = array.dtype == dtype and len(shape) == len(dims)
        if not fits or any(d is not None and d != n for d, n in zip(dims, shape, strict=True)):
            expected = ", ".join("?" if d is None else str(d) for d in dims)
            found = f"{array.dtype}{list(shape)}" if array.dtype.kind in "biufcV" else shown(value)
            raise BadInput(
                f"{self.where}: expected a tensor {dtype}[{expected}] as a field, found {found}"
            )
        at = rounded(self.size)
        self.size = at + array.nbytes
        self.arrays.append((at, array))
        return [-array.itemsize, len(shape), at, *shape]


def _decode(
    codes: np.ndarray,
    blob: np.ndarray,
    form: Any,
    types: Mapping[str, Any],
    convert: Callable[[Any], Any],
) -> Any:
    items = codes.tolist()
    starts, at = [], 2
    for _ in range(items[1]):
        starts.append(at)
        at += 3 + items[at + 1] if items[at] < 0 else 2 + items[at + 1]
    made: dict[int, object] = {}
    root = (items[0], form)
    stack = [root]
    while stack:
        ref, kind = stack[-1]
        if ref < 0 or ref in made:
            stack.pop()
            continue
        start = starts[ref]
        if kind[0] == "tensor":
            made[ref] = _tensor(items, start, blob, kind, convert)
            continue
        fields = kind[1] if kind[0] == "tuple" else types[kind[1]][items[start]][1]
        pairs = list(zip(items[start + 2 : start + 2 + len(fields)], fields, strict=True))
        waiting = [p for p in pairs if p[0] >= 0 and p[0] not in made]
        if waiting:
            stack.extend(waiting)
            continue
        children = [_child(r, k, made, types) for r, k in pairs]
        if kind[0] == "tuple":
            made[ref] = tuple(children)
        else:
            tag = items[start]
            made[ref] = ConstructorValue(types[kind[1]][tag][0], *children, tag=tag)
    return _child(*root, made, types)


def _child(ref: int, kind: Any, made: Mapping[int, object], types: Mapping[str, Any]) -> object:
    if ref >= 0:
        return made[ref]
    if kind[0] == "tuple":
        return ()
    return ConstructorValue(types[kind[1]][-1 - ref][0], tag=-1 - ref)


def _tensor(
    items: Sequence[int],
    start: int,
    blob: np.ndarray,
    kind: Any,
    convert: Callable[[object], object],
) -> object:
    each, rank, offset = -items[start], items[start + 1], items[start + 2]
    dims = items[start + 3 : start + 3 + rank]
    size = each * int(np.prod(dims, dtype=np.int64))
    array = blob[offset : offset + size].view(kind[2]).reshape(dims)
    if convert is as_array:
        return array
    tensor = as_tensor(array)
    return convert(tvm_ffi.from_dlpack(array) if tensor is array else tensor)
