"""What a call may be given: Python numbers and tensors of any library, and refusals by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.abi.formula import evaluate
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.runtime.arrays import numpy_dtype

MOST = 2**63 - 1  # what programs count with
_NUMBERS = "biuf"  # kinds of NumPy's dtypes, each fits into those after it
_SAMPLE = 40  # characters of a value in a message
# Types whose values are what they seem; others are looked at once.
PLAIN_TYPES: set[type] = {np.ndarray}


def check_arguments(names: Sequence[str], args: Sequence[Any]) -> None:
    """Refuse another number of inputs, and arrays of which DLPack gives a part only.

    Raises:
        BadInput: there are more or fewer, or one is a masked array.
    """
    if len(args) != len(names):
        raise BadInput(f"expected {len(names)} inputs ({', '.join(names)}), found {len(args)}")
    for name, value in zip(names, args, strict=True):
        if isinstance(value, np.ma.MaskedArray):
            raise BadInput(
                f"input '{name}': expected a tensor, found a masked array, whose mask has no "
                "meaning here; give x.filled(value)"
            )
        PLAIN_TYPES.add(type(value))


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


def prepared(name: str, dtype: str, value: Any) -> Any:
    """A tensor that programs can read, for whatever stands for one.

    Raises:
        BadInput: nothing does, or numbers do not fit ``dtype``.
    """
    if isinstance(value, int | float | bool | list | tuple | np.generic):
        return _converted(name, dtype, value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufcV":
            raise BadInput(f"input '{name}': expected dtype {dtype}, found {value.dtype}")
        plain = value.flags.c_contiguous and value.flags.writeable
        return value if plain else np.array(value, order="C")
    if callable(getattr(value, "contiguous", None)) and hasattr(value, "detach"):
        try:
            return value.detach().contiguous()
        except RuntimeError as error:
            raise BadInput(f"input '{name}': expected a dense tensor: {error}") from None
    if not hasattr(value, "__dlpack__"):
        hint = "; numpy.asarray makes one of it" if _has_buffer(value) else ""
        raise BadInput(f"input '{name}': expected a tensor, found {type(value).__name__}{hint}")
    return value


def _has_buffer(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) or hasattr(value, "__array__")


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
        dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
        parts.append(f"{name}: {dtype}{list(getattr(value, 'shape', ()))}")
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
    values = rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)
    return np.asarray(values).astype(kind)


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


def bound_dims(
    signature: Sequence[tuple[str, Sequence[str], str]], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
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
