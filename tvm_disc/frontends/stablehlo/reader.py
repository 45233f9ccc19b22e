"""Reads StableHLO modules from exported JAX functions, their serialized bytes, bytecode or text."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import BadInput
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.stablehlo.attributes import checked_dtype
from tvm_disc.frontends.stablehlo.blocks import symbol_of

# A dim: a number, the text of an expression of symbols, or None for a dynamic dim without a name.
DimText: TypeAlias = "int | str | None"

BYTECODE = b"ML\xefR"  # first bytes of MLIR's bytecode
MOST_BYTES = 1 << 34  # maximum size of a file


@dataclass(frozen=True)
class FunctionArgument:
    """An input of the program.

    Attributes:
        name: the name in the source, or an empty string.
        dims: one dim for each axis.
        position: the position in the arguments of ``main``, or None if ``main`` does not take it.
    """

    name: str
    dims: tuple[DimText, ...]
    dtype: str
    position: int | None


@dataclass(frozen=True)
class Loaded:
    """A parsed module and its inputs.

    If ``arguments`` is None, the inputs are the arguments of ``main``.
    """

    module: Any
    arguments: tuple[FunctionArgument, ...] | None


def load(source: Any) -> Loaded:
    """Return the module of a ``jax.export.Exported``, bytes, text or a file.

    Raises:
        Unsupported: JAX is not installed, whose parser is required.
        BadInput: the source is not a StableHLO module; the message includes that of the parser.
    """
    require("jax", "jax", "a StableHLO module")
    if hasattr(source, "mlir_module_serialized"):
        return _exported(source)
    if _is_path(source):
        source = _read(Path(source))
    if isinstance(source, str):
        return Loaded(_parse(source), None)
    data = bytes(source)
    if data.startswith(BYTECODE):
        return Loaded(_bytecode(data), None)
    return _exported(_deserialized(data))


def _is_path(source: object) -> bool:
    return isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)


def _read(path: Path) -> bytes | str:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadInput(f"{str(path)!r}: expected a regular file")
        if size > MOST_BYTES:
            raise BadInput(
                f"{str(path)!r}: expected a file of at most {MOST_BYTES} bytes, found {size}"
            )
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}") from error
    if data.startswith(BYTECODE) or path.suffix not in (".mlir", ".stablehlo"):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{str(path)!r} is neither MLIR text nor bytecode: {error}") from error


def _deserialized(data: bytes) -> object:
    require("flatbuffers", "jax", "a serialized JAX function")
    from jax import export

    try:
        return export.deserialize(bytearray(data))
    except Exception as error:  # flatbuffers may raise any exception for damaged bytes
        raise BadInput(
            "expected StableHLO bytecode or the bytes of jax.export.Exported.serialize, found "
            f"{len(data)} bytes that JAX cannot read: {type(error).__name__}: {str(error)[:200]}"
        ) from error


def _context() -> Any:
    from jax.interpreters import mlir

    return mlir.make_ir_context()


def _parse(text: str) -> object:
    from jaxlib.mlir import ir

    with _context():
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            raise BadInput(f"expected a StableHLO module: {str(error)[:600]}") from None


def _bytecode(data: bytes) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = _context()
    with context:
        try:
            return stablehlo.deserialize_portable_artifact(context, data)
        except Exception as portable:  # the bytecode is not a portable artifact
            try:
                return ir.Module.parse(data)
            except ir.MLIRError as error:
                raise BadInput(f"expected StableHLO bytecode: {str(error)[:600]}") from portable


# -- exported JAX functions ------------------------------------------------------------------------


def _exported(exported: Any) -> Loaded:
    module = _bytecode(exported.mlir_module_serialized)
    kept = {flat: k for k, flat in enumerate(exported.module_kept_var_idx)}
    names = _names(module, len(kept))
    arguments = []
    for flat, aval in enumerate(exported.in_avals):
        at = kept.get(flat)
        dims = tuple(d if isinstance(d, int) else str(d) for d in aval.shape)
        name = "" if at is None else names[at]
        dtype = checked_dtype(str(aval.dtype), f"input {name or flat}")
        arguments.append(FunctionArgument(name, dims, dtype, at))
    return Loaded(module, tuple(arguments))


def _names(module: Any, count: int) -> Sequence[str]:
    """Return the names of the last ``count`` parameters of the exported function.

    If dims are symbolic, the parameters of ``main`` have no names. Then ``main`` calls another
    function, whose first parameters are the dims, and whose other parameters have the names.
    """
    functions = {symbol_of(f.attributes["sym_name"]): f for f in module.body}
    for name in ("_wrapped_jax_export_main", "main"):
        if name in functions:
            found = functions[name].regions[0].blocks[0].arguments
            return [name_of(a) for a in list(found)[len(found) - count :]]
    return [""] * count


def name_of(value: Any) -> str:
    """Return the name that the source location of a value has, or an empty string."""
    found = re.match(r'loc\("((?:[^"\\]|\\.)*)"', str(value.location))
    return found.group(1) if found else ""


__all__ = ["DimText", "FunctionArgument", "Loaded", "load", "name_of"]
