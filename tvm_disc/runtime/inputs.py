"""Conversion and checks of a call's arguments: Python numbers and tensors of any library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.arrays import as_tensor, numpy_dtype
from tvm_disc.typing import RuntimeTensor

MOST = 2**63 - 1  # largest int64, the type of sizes in programs
_NUMBERS = "biuf"  # kinds of NumPy dtypes: bool, signed, unsigned, float
_SAMPLE = 40  # characters of a value in a message
_LINE = 200  # characters of another library's error in a message
Signature: TypeAlias = Sequence[tuple[str, Sequence[str], str]]  # name, dims, dtype of every input
# Types whose values were checked once and need no conversion.
PLAIN_TYPES: set[type] = {np.ndarray}


def checked_arguments(signature: Signature, args: Sequence[object]) -> tuple[Any, ...]:
    """Return the arguments of a call, with Python numbers and lists converted to arrays.

    Only tensors may reach a program: TVM would convert lists recursively and overflow the stack if
    a list contains itself.

    Raises:
        BadInput: the number of arguments is wrong, or an argument is not a tensor. Masked arrays
            are refused because DLPack drops the mask.
    """
    if len(args) != len(signature):
        names = ", ".join(name for name, _, _ in signature) or "none"
        expected = "1 input" if len(signature) == 1 else f"{len(signature)} inputs"
        raise BadInput(f"expected {expected} ({names}), found {len(args)}")
    return tuple([_checked(n, t, a) for (n, _, t), a in zip(signature, args, strict=True)])


def _checked(name: str, dtype: str, value: object) -> object:
    if not is_tensor(value):
        return prepared(name, dtype, value)
    if isinstance(value, np.ma.MaskedArray):
        raise BadInput(
            f"input '{name}': expected a tensor, found a masked array, whose mask would be ignored "
            "here; pass x.filled(value)"
        )
    PLAIN_TYPES.add(type(value))
    return value


def unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names of inputs; repeated names get suffixes: ``x``, ``x_1``, ``x_2``."""
    found: list[str] = []
    for name in names:
        unique, count = name, 0
        while unique in found or (count and unique in names):
            count += 1
            unique = f"{name}_{count}"
        found.append(unique)
    return found


def ordered(
    names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Any, ...]:
    """Return positional and named inputs in the order of ``names``.

    Raises:
        BadInput: an input is unknown, given twice or missing.
    """
    if not args and len(kwargs) == len(names):
        try:
            return tuple([kwargs[name] for name in names])
        except KeyError:
            pass  # reported below
    unknown = [k for k in kwargs if k not in names]
    twice = [n for n in names[: len(args)] if n in kwargs]
    rest = names[len(args) :]
    missing = [n for n in rest if n not in kwargs]
    for problem, found in (("unknown", unknown), ("repeated", twice), ("missing", missing)):
        if found:
            expected = ", ".join(names) or "no inputs"
            inputs = "input" if len(found) == 1 else "inputs"
            raise BadInput(f"{problem} {inputs} {', '.join(found)}; expected {expected}")
    return (*args, *(kwargs[n] for n in rest))


def prepared_inputs(
    signature: Signature, args: Sequence[object], on_device: bool = False
) -> list[Any]:
    """Return the arguments in a form that a program accepts, copied where necessary.

    Args:
        on_device: whether the program runs on a GPU; NumPy arrays are then not converted here,
            because the entry copies them.

    Raises:
        BadInput: an argument is not a tensor.
        MemoryError: memory is exhausted while an argument is copied.
    """
    try:
        found = [prepared(n, t, a) for (n, _, t), a in zip(signature, args, strict=True)]
        return found if on_device else [as_tensor(a) for a in found]
    except MemoryError:
        names = [name for name, _, _ in signature]
        raise MemoryError(f"out of memory for a copy of {described(names, args)}") from None


def prepared(name: str, dtype: str, value: Any) -> object:
    """Return ``value`` as a tensor that programs can read; unchanged if it is one already.

    Raises:
        BadInput: the value cannot be converted, or its numbers do not fit ``dtype``.
    """
    # Only the type is inspected: attributes of the value may run user code.
    kind, where = type(value), f"input '{name}'"
    if issubclass(kind, int | float | bool | list | tuple | np.generic):
        return _converted(name, dtype, value)
    if issubclass(kind, np.ndarray):
        return _compact(where, dtype, value)
    if not is_tensor(value):
        hint = ""
        if issubclass(kind, bytes | bytearray):
            hint = "; convert it with numpy.frombuffer"
        elif hasattr(kind, "__array__") or issubclass(kind, memoryview):
            hint = "; convert it with numpy.asarray"
        raise BadInput(f"{where}: expected a tensor, found {kind.__name__}{hint}")
    if hasattr(kind, "contiguous") and hasattr(kind, "detach"):
        value = _dense(where, value)
    check_exported(where, value)
    return value


def _compact(where: str, dtype: str, array: np.ndarray) -> np.ndarray:
    """Return the array, or a copy if it is read-only or not contiguous."""
    given = array.dtype
    # DLPack supports neither swapped bytes, nor records, nor floats of more than 64 bits.
    known = (given.kind in "biuf" and given.itemsize <= 8) or given.kind == "c"
    if not given.isnative or not (known or given.name == "bfloat16"):
        raise BadInput(f"{where}: expected dtype {dtype}, found {given}")
    plain = array.flags.c_contiguous and array.flags.writeable
    return array if plain else np.array(array, order="C")


def _dense(where: str, tensor: RuntimeTensor) -> Any:
    """Return a PyTorch tensor as a contiguous tensor that does not require a gradient."""
    try:
        return tensor.detach().contiguous()
    except RuntimeError as error:
        raise BadInput(f"{where}: expected a dense tensor: {first_line(error)}") from None


def is_tensor(value: Any) -> bool:
    """Return whether the value's type supports DLPack."""
    return hasattr(type(value), "__dlpack__")


def check_exported(where: str, tensor: object) -> None:
    """Check that a tensor can be exported by DLPack.

    Raises:
        BadInput: the tensor has no memory, or its element type is not supported.
    """
    error = _export_error(tensor)
    if error is not None:
        found = f"{type(tensor).__name__} ({type(error).__name__}: {first_line(error)})"
        raise BadInput(f"{where}: expected a tensor with DLPack export, found {found}") from None


def is_exported(tensor: RuntimeTensor) -> bool:
    """Return whether a tensor can be exported by DLPack."""
    return _export_error(tensor) is None


def _export_error(tensor: object) -> Exception | None:
    try:
        tvm_ffi.from_dlpack(tensor)
    except Exception as error:  # the tensor's library may raise any class
        return error
    return None


def first_line(error: Exception) -> str:
    """Return the first line of another library's error, shortened."""
    line = next(iter(str(error).splitlines()), "")
    return line if len(line) <= _LINE else line[:_LINE] + "..."


def _converted(name: str, dtype: str, value: object) -> object:
    """Return Python numbers as an array of ``dtype`` with the same values."""
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
        floats = given.dtype.kind not in "biu" and target.kind in "biu"
        reason = "floats are not converted" if floats else f"a number does not fit {dtype}"
        raise BadInput(
            f"input '{name}': expected {dtype} numbers, found {_shown(value)}: {reason}; to "
            f"convert it anyway, pass numpy.asarray(value).astype('{dtype}')"
        )
    return array


def _fit(given: np.ndarray, array: np.ndarray) -> bool:
    """Return whether a conversion kept all numbers, up to rounding of floats."""
    kind = array.dtype.kind
    if kind not in "biu":
        return bool(np.isfinite(array)[np.isfinite(given)].all())
    least, most = (0, 1) if kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    whole = given.dtype.kind in "biu"
    return whole and least <= int(given.min()) and int(given.max()) <= most


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # ValueError: an integer has too many digits
        text = "..."
    return f"{type(value).__name__} {text[:_SAMPLE]}{'...' if len(text) > _SAMPLE else ''}"


def described(names: Sequence[str], args: Sequence[object], outputs: Sequence[object] = ()) -> str:
    """Return a string like ``x: float32[3, 4], y: int`` for messages."""
    named = [*zip(names, args, strict=True)]
    named += [(f"output {k}", tensor) for k, tensor in enumerate(outputs)]
    parts = []
    for name, value in named:
        try:
            dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            parts.append(f"{name}: {dtype}{list(getattr(value, 'shape', ()))}")
        except Exception:  # attributes may run user code, which may raise any class
            parts.append(f"{name}: {type(value).__name__}")
    return ", ".join(parts)


def sample_inputs(manifest: Mapping[str, Any], dims: Mapping[str, int]) -> list[np.ndarray]:
    """Return random inputs for the sizes ``dims``: normal floats, integers 0 and 1, with a fixed
    seed.

    Raises:
        Unsupported: the program takes values of data types.
    """
    external = manifest.get("external") or {}
    if external.get("types") or external.get("inputs"):
        raise Unsupported(
            "random inputs are not supported for a program that takes or returns data types; pass "
            "inputs"
        )
    rng = np.random.default_rng(0)
    found = []
    rows = {n: declared[0] for n, declared, _ in manifest["inputs"] if declared}
    packed = {o: rows[n] for n, o in manifest.get("ragged", {}).get("inputs", {}).items()}
    for name, declared, dtype in manifest["inputs"]:
        shape = tuple(evaluate(dim, dims) for dim in declared)
        if name in packed:  # offsets of packed items of nearly equal lengths
            ends = np.linspace(0, evaluate(packed[name], dims), shape[0])
            found.append(np.rint(ends).astype(np.int64))
        else:
            found.append(sample_array(rng, shape, dtype))
    return found


def sample_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return normal floats, or integers 0 and 1."""
    kind = numpy_dtype(dtype)
    floats = kind.kind == "f" or dtype == "bfloat16"
    try:
        values = rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)
        return np.asarray(values).astype(kind)
    except (MemoryError, ValueError):  # ValueError: larger than the address space
        raise MemoryError(f"out of memory for a sample of {dtype}{list(shape)}") from None


def integer(what: str, value: object, least: int, most: int) -> int:
    """Return ``value`` as an integer between ``least`` and ``most``.

    Raises:
        BadInput: it is not an integer in that range.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise BadInput(f"{what}: expected an integer, found {_shown(value)}")
    if value < least:
        raise BadInput(f"{what}: expected at least {least}, found {value}")
    if value > most:
        raise BadInput(f"{what}: expected at most {most}, found {_shown(value)}")
    return int(value)


def boolean(name: str, value: object) -> bool:
    """Return the value of an option if it is a bool; otherwise raise BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{name}: expected True or False, found {_shown(value)}")
    return value


def refuse_device(what: str, manifest: Mapping[str, object]) -> None:
    """Raise Unsupported if the program runs on a GPU."""
    if manifest.get("device"):
        raise Unsupported(f"{what}: expected a program for a CPU, found one for a GPU")


def bound_dims(signature: Signature, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the dims of a signature by name, from the shapes of inputs.

    Raises:
        BadInput: a shape is missing, unknown, not a sequence of sizes, or has a wrong rank or a
            wrong size of a static dim.
    """
    if not isinstance(shapes, Mapping):
        raise BadInput(
            f"shapes: expected a mapping from input names to shapes, found {_shown(shapes)}"
        )
    known = [name for name, _, _ in signature]
    if unknown := [str(name) for name in shapes if name not in known]:
        raise BadInput(
            f"shapes: unknown input {', '.join(unknown)}; expected {', '.join(known) or 'none'}"
        )
    dims: dict[str, int] = {}
    for name, declared, _ in signature:
        shape = shapes.get(name)
        fits = isinstance(shape, tuple | list) or (  # the fast test comes first
            isinstance(shape, Sequence | np.ndarray) and not isinstance(shape, str)
        )
        if shape is None or not fits or len(shape) != len(declared):
            sizes = f"[{', '.join(map(str, shape))}]" if shape is not None and fits else ""
            found = sizes or ("no shape" if shape is None else _shown(shape))
            expected = ", ".join(declared)
            raise BadInput(f"shape of '{name}': expected [{expected}], found {found}")
        for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
            number = integer(f"shape of '{name}', axis {axis}", size, 0, MOST)
            if dim.isdecimal() and number != int(dim):
                raise BadInput(f"shape of '{name}': expected {dim} on axis {axis}, found {number}")
            dims.setdefault(dim, number)
    return dims
