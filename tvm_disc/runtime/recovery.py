"""Failed calls: they are retried with converted inputs, or reported with the user's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tvm_disc.errors import (
    BadInput,
    DeviceError,
    DivisionByZero,
    GuardFailed,
    IndexOutside,
)
from tvm_disc.runtime.arrays import as_tensor
from tvm_disc.runtime.device import OnDevice, is_of_device
from tvm_disc.runtime.inputs import (
    Signature,
    check_exported,
    described,
    is_exported,
    prepared_inputs,
)


def recovered(
    main: Callable[..., object],
    signature: Signature,
    args: Sequence[object],
    outputs: Sequence[Any],
    error: Exception,
) -> object:
    """Retry a failed call with contiguous copies of the inputs, if that may help; return its
    result.

    Raises:
        BadInput, GuardFailed, DeviceError, MemoryError: the error with the names of inputs and
            dims.
        IndexOutside, DivisionByZero: the program computed an index outside of a tensor, or
            divided an integer by zero.
        Exception: ``error`` unchanged if neither the program nor a tensor raised it, but, for
            instance, a signal handler.
    """
    names = [name for name, _, _ in signature]
    _raise_for_all(error, names, args)
    if not _is_of_program(error) and all(map(is_exported, (*args, *outputs))):
        raise error
    converted = prepared_inputs(signature, args, isinstance(main, OnDevice))
    written = [_written(k, tensor) for k, tensor in enumerate(outputs)]
    pairs = zip((*converted, *written), (*args, *outputs), strict=True)
    if any(p is not a for p, a in pairs):
        try:
            return main(*converted, *written)
        except Exception as again:
            error = again
            _raise_for_all(error, names, args)
    if not _is_of_program(error):
        raise error
    if isinstance(error, IndexError):
        raise IndexOutside(str(error)) from None
    # TVM raises errors of unknown kinds as RuntimeError.
    if getattr(getattr(error, "__tvm_ffi_error__", None), "kind", "") == "ZeroDivisionError":
        raise DivisionByZero(str(error)) from None
    found = _found(str(error), names, converted, outputs)
    message = f"{error}; found {found}{_values(str(error), signature, converted)}"
    bad = isinstance(error, TypeError | BufferError) or "expected" in str(error)
    kind = BadInput if bad or "shares memory" in str(error) else GuardFailed
    raise kind(message) from None


_EXPECTED = re.compile(r"input '(.*)' axis (\d+): expected (\w+)")
# Messages name a dim in two forms: "n: input 'x' axis 0" and "input 'x' axis 0 (n)".
_DIM = re.compile(r"(?:(\w+): )?input '([^']*)' axis (\d+)(?: \((\w+)\))?")
_LISTED = 8  # with more inputs, a message describes only those that the error names


def _found(
    text: str, names: Sequence[str], args: Sequence[object], outputs: Sequence[object]
) -> str:
    """Return a description of the inputs with their types; if there are many inputs, only of those
    that the error names.
    """
    chosen = [k for k, name in enumerate(names) if f"'{name}'" in text]
    if len(names) <= _LISTED or not chosen:
        return described(names, args, outputs)
    listed = described([names[k] for k in chosen], [args[k] for k in chosen], outputs)
    others = len(names) - len(chosen)
    return f"{listed}, and {others} other input{'' if others == 1 else 's'}"


def _values(text: str, signature: Signature, args: Sequence[object]) -> str:
    """Return the values of the dims in a message.

    For a dim that differs between two inputs, the text has both values; for a condition, the value
    of each of its dims.
    """
    match = _EXPECTED.fullmatch(text)
    shapes = {n: getattr(a, "shape", ()) for (n, _, _), a in zip(signature, args, strict=True)}
    if " must hold (" in text or " must equal " in text:
        found = [
            f"{before or after} = {shapes[name][int(axis)]}"
            for before, name, axis, after in _DIM.findall(text)
            if (before or after) and int(axis) < len(shapes.get(name, ()))
        ]
        return f"; {', '.join(found)}" if found else ""
    if match is None or int(match[2]) >= len(shapes.get(match[1], ())):
        return ""
    name, axis, expected = match[1], int(match[2]), match[3]
    for other, dims, _ in signature:
        for k, dim in enumerate(dims):
            if str(dim) == expected and not expected.isdigit() and (other, k) != (name, axis):
                value = f"{expected} is {shapes[other][k]} in input '{other}' axis {k}"
                return f"; {value}, but {shapes[name][axis]} in input '{name}'"
    return ""


def _raise_for_all(error: Exception, names: Sequence[str], args: Sequence[object]) -> None:
    """Raise the error in the form for the user, if converted inputs cannot avoid it."""
    if is_of_device(error):
        raise DeviceError(str(error)) from None
    if isinstance(error, MemoryError) and _is_of_program(error):
        raise MemoryError(f"out of memory for {described(names, args)}") from None


def _is_of_program(error: Exception) -> bool:
    """Return whether an error was raised by compiled code, through TVM's FFI."""
    return hasattr(error, "__tvm_ffi_error__")


def _written(position: int, tensor: object) -> object:
    given = as_tensor(tensor)
    check_exported(f"output {position}", given)
    return given


__all__ = ["recovered"]
