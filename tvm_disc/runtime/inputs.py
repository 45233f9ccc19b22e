"""What a call may be given: Python numbers and tensors of any library, and refusals by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.arrays import as_tensor, numpy_dtype

MOST = 2**63 - 1  # what programs count with
_NUMBERS = "biuf"  # kinds of NumPy's dtypes, each fits into those after it
_SAMPLE = 40  # characters of a value in a message
_LINE = 200  # of another library's error
Signature: TypeAlias = Sequence[tuple[str, Sequence[str], str]]  # name, dims, dtype of every input
# Types whose values are what they seem; others are looked at once.
PLAIN_TYPES: set[type] = {np.ndarray}


def checked_arguments(signature: Signature, args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a call, with arrays in place of numbers and lists of Python.

    Nothing else than tensors may reach a program: on its way there lists become arrays of TVM's, in
    a recursion that ends with the stack where a list contains itself.

    Raises:
        BadInput: there are more or fewer than inputs, one is a masked array, of which DLPack gives
            a part only, or no tensor.
    """
    if len(args) != len(signature):
        names = ", ".join(name for name, _, _ in signature)
        raise BadInput(f"expected {len(signature)} inputs ({names}), found {len(args)}")
    return tuple([_checked(n, t, a) for (n, _, t), a in zip(signature, args, strict=True)])


def _checked(name: str, dtype: str, value: Any) -> Any:
    if not is_tensor(value):
        return prepared(name, dtype, value)
    if isinstance(value, np.ma.MaskedArray):
        raise BadInput(
            f"input '{name}': expected a tensor, found a masked array, whose mask has no meaning "
            "here; give x.filled(value)"
        )
    PLAIN_TYPES.add(type(value))
    return value


def told_apart(names: Sequence[str]) -> list[str]:
    """Names by which inputs can be given, where some have the same: ``x``, ``x_1``, ``x_2``."""
    found: list[str] = []
    for name in names:
        unique, count = name, 0
        while unique in found or (count and unique in names):
            count += 1
            unique = f"{name}_{count}"
        found.append(unique)
    return found


def ordered(
    names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Inputs by position and by name in the order of ``names``.

    Raises:
        BadInput: one is unknown, given twice or missing.
    """
    if not args and len(kwargs) == len(names):
        try:
            return tuple([kwargs[name] for name in names])
        except KeyError:
            pass  # told below, by name
    unknown = [k for k in kwargs if k not in names]
    twice = [n for n in names[: len(args)] if n in kwargs]
    rest = names[len(args) :]
    missing = [n for n in rest if n not in kwargs]
    for problem, found in (("unknown", unknown), ("repeated", twice), ("missing", missing)):
        if found:
            expected = ", ".join(names)
            raise BadInput(f"{problem} input {', '.join(found)}; expected {expected}")
    return (*args, *(kwargs[n] for n in rest))


def prepared_inputs(signature: Signature, args: Sequence[Any]) -> list[Any]:
    """Arguments as a program takes them, copied where their own memory does not serve.

    Raises:
        BadInput: one is no tensor.
        MemoryError: there is no memory for a copy.
    """
    try:
        return [as_tensor(prepared(n, t, a)) for (n, _, t), a in zip(signature, args, strict=True)]
    except MemoryError:
        names = [name for name, _, _ in signature]
        raise MemoryError(f"out of memory for a copy of {described(names, args)}") from None


def prepared(name: str, dtype: str, value: Any) -> Any:
    """A tensor that programs can read, for whatever stands for one; itself if it can be read.

    Raises:
        BadInput: nothing does, or numbers do not fit ``dtype``.
    """
    # Asked of types alone: attributes of values may be code of the user's.
    kind, where = type(value), f"input '{name}'"
    if issubclass(kind, int | float | bool | list | tuple | np.generic):
        return _converted(name, dtype, value)
    if issubclass(kind, np.ndarray):
        return _compact(where, dtype, value)
    if not is_tensor(value):
        has_buffer = hasattr(kind, "__array__") or issubclass(kind, bytes | bytearray | memoryview)
        hint = "; numpy.asarray makes one of it" if has_buffer else ""
        raise BadInput(f"{where}: expected a tensor, found {kind.__name__}{hint}")
    if hasattr(kind, "contiguous") and hasattr(kind, "detach"):
        value = _dense(where, value)
    check_exported(where, value)
    return value


def _compact(where: str, dtype: str, array: np.ndarray) -> np.ndarray:
    """An array that DLPack gives, copied if it is read-only or not compact."""
    given = array.dtype
    # Neither swapped bytes, nor records, nor floats of more than 64 bits.
    known = (given.kind in "biuf" and given.itemsize <= 8) or given.kind == "c"
    if not given.isnative or not (known or given.name == "bfloat16"):
        raise BadInput(f"{where}: expected dtype {dtype}, found {given}")
    plain = array.flags.c_contiguous and array.flags.writeable
    return array if plain else np.array(array, order="C")


def _dense(where: str, tensor: Any) -> Any:
    """A tensor of PyTorch that is compact and needs no gradient."""
    try:
        return tensor.detach().contiguous()
    except RuntimeError as error:
        raise BadInput(f"{where}: expected a dense tensor: {first_line(error)}") from None


def is_tensor(value: Any) -> bool:
    """Whether a value says that it is a tensor, as the types of all libraries for arrays do."""
    return hasattr(type(value), "__dlpack__")


def check_exported(where: str, tensor: Any) -> None:
    """Stop unless a tensor's own library gives it by DLPack.

    Raises:
        BadInput: it does not: the tensor has no memory of its own, or elements of another kind.
    """
    error = _export_error(tensor)
    if error is not None:
        found = f"{type(tensor).__name__} ({type(error).__name__}: {first_line(error)})"
        raise BadInput(f"{where}: expected a tensor that DLPack gives, found {found}") from None


def is_exported(tensor: Any) -> bool:
    """Whether DLPack gives a tensor as it is."""
    return _export_error(tensor) is None


def _export_error(tensor: Any) -> Exception | None:
    try:
        tvm_ffi.from_dlpack(tensor)
    except Exception as error:  # of any class: it is the tensor's own
        return error
    return None


def first_line(error: Exception) -> str:
    """What an error of another library says, without its stack."""
    line = next(iter(str(error).splitlines()), "")
    return line if len(line) <= _LINE else line[:_LINE] + "..."


def _converted(name: str, dtype: str, value: Any) -> Any:
    """Numbers of Python as an array of ``dtype`` that holds the same ones."""
    try:
        given = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        given = np.asarray(None)
    if given.dtype.kind not in _NUMBERS and given.dtype.name != "bfloat16" and given.size:
        raise BadInput(
            f"input '{name}': expected {dtype} numbers in lists of equal lengths, "
            f"found {_shown(value)}"
        )
    target = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        array = given.astype(target, order="C")
    if given.size and not _fit(given, array):
        raise BadInput(
            f"input '{name}': expected {dtype} numbers, found {_shown(value)}, which would "
            "change; convert it yourself if that is meant"
        )
    return array


def _fit(given: np.ndarray, array: np.ndarray) -> bool:
    """Whether numbers are the same after a conversion, up to the rounding of floats."""
    kind = array.dtype.kind
    if kind not in "biu":
        return bool(np.isfinite(array)[np.isfinite(given)].all())
    least, most = (0, 1) if kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    whole = given.dtype.kind in "biu"
    return whole and least <= int(given.min()) and int(given.max()) <= most


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # ValueError: an integer of too many digits
        text = "..."
    return f"{type(value).__name__} {text[:_SAMPLE]}{'...' if len(text) > _SAMPLE else ''}"


def described(names: Sequence[str], args: Sequence[Any], outputs: Sequence[Any] = ()) -> str:
    """``x: float32[3, 4], y: int`` for messages."""
    named = [*zip(names, args, strict=True)]
    named += [(f"output {k}", tensor) for k, tensor in enumerate(outputs)]
    parts = []
    for name, value in named:
        try:
            dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            parts.append(f"{name}: {dtype}{list(getattr(value, 'shape', ()))}")
        except Exception:  # of any class: attributes may be code of the user's
            parts.append(f"{name}: {type(value).__name__}")
    return ", ".join(parts)


def sample_inputs(manifest: Mapping[str, Any], dims: Mapping[str, int]) -> list[np.ndarray]:
    """Inputs of the sizes of ``dims``: normal floats, integers 0 and 1, from a fixed seed.

    Raises:
        Unsupported: the program takes values of data types.
    """
    external = manifest.get("external") or {}
    if external.get("types") or external.get("inputs"):
        raise Unsupported("no inputs can be made up for a program that takes data types; give some")
    rng = np.random.default_rng(0)
    found = []
    for _, declared, dtype in manifest["inputs"]:
        shape = tuple(evaluate(dim, dims) for dim in declared)
        found.append(sample_array(rng, shape, dtype))
    return found


def sample_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Normal floats, or integers 0 and 1."""
    kind = numpy_dtype(dtype)
    floats = kind.kind == "f" or dtype == "bfloat16"
    try:
        values = rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)
        return np.asarray(values).astype(kind)
    except (MemoryError, ValueError):  # ValueError: more bytes than an address has bits for
        raise MemoryError(f"out of memory for a sample of {dtype}{list(shape)}") from None


def integer(what: str, value: Any, least: int, most: int) -> int:
    """``value`` as an integer of a range.

    Raises:
        BadInput: it is none.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise BadInput(f"{what}: expected an integer, found {_shown(value)}")
    if value < least:
        raise BadInput(f"{what}: expected at least {least}, found {value}")
    if value > most:
        raise BadInput(f"{what}: expected at most {most}, found {_shown(value)}")
    return int(value)


def bound_dims(signature: Signature, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The dims of a signature by name, from the shapes of inputs.

    Raises:
        BadInput: a shape is missing, unknown, of the wrong rank, or no sizes.
    """
    if not isinstance(shapes, Mapping):
        raise BadInput(f"shapes: expected a shape by input name, found {_shown(shapes)}")
    known = [name for name, _, _ in signature]
    if unknown := [str(name) for name in shapes if name not in known]:
        raise BadInput(f"shapes: unknown input {', '.join(unknown)}; expected {', '.join(known)}")
    dims: dict[str, int] = {}
    for name, declared, _ in signature:
        shape = shapes.get(name)
        fits = isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str)
        if shape is None or not fits or len(shape) != len(declared):
            found = "nothing" if shape is None else list(shape) if fits else _shown(shape)
            expected = ", ".join(declared)
            raise BadInput(f"shape of '{name}': expected [{expected}], found {found}")
        for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
            number = integer(f"shape of '{name}', axis {axis}", size, 0, MOST)
            if dim.isdecimal() and number != int(dim):
                raise BadInput(f"shape of '{name}': expected {dim} on axis {axis}, found {number}")
            dims.setdefault(dim, number)
    return dims
