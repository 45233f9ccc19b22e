"""A compiled program: bind inputs, call, explain. No shape logic lives here."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi

from tvm_disc.codegen.export import export, read_manifest
from tvm_disc.codegen.formula import evaluate
from tvm_disc.codegen.host_abi import BIND
from tvm_disc.errors import ArtifactError, BadInput, GuardFailed
from tvm_disc.runtime.objects import Codec

Array: TypeAlias = Any


class Executable:
    """One native program that serves every shape.

    Attributes:
        signature: (name, dims as text, dtype) of every input.
        kernels: names of the kernels.
        timings: seconds per compile stage.
    """

    def __init__(
        self,
        module: Any,
        manifest: Mapping[str, Any],
        constants: np.ndarray | None = None,
        timings: Mapping[str, float] | None = None,
    ) -> None:
        self._module = module
        self._main: Callable[..., Any] = self._first_call
        self._manifest = dict(manifest)
        self._constants = constants
        self.timings = dict(timings or {})
        self._outputs: Any = manifest["outputs"]
        self._names: list[str] = [name for name, _, _ in self.signature]
        external = manifest.get("external") or {}
        boxed = bool(external) and bool(external["types"] or external["inputs"])
        self._codec = Codec(external, self._names) if boxed else None

    def _first_call(self, *args: Array) -> Any:
        """Bind the machine code, which a program for another machine never does."""
        try:
            main = self._module["main"]
        except Exception as error:
            raise ArtifactError(f"this program cannot run on this machine: {error}") from None
        if self._constants is not None:
            self._module[BIND](self._constants.ctypes.data)
        self._main = main
        return main(*args)

    @property
    def signature(self) -> list[tuple[str, tuple[str, ...], str]]:
        """(name, dims, dtype) of every input, in order."""
        return [(n, tuple(d), t) for n, d, t in self._manifest["inputs"]]

    @property
    def kernels(self) -> list[str]:
        """The names of the program's kernels."""
        return [k["name"] for k in self._manifest["kernels"]]

    @property
    def launches(self) -> list[str]:
        """The kernel calls of the program in order; a kernel may be called several times."""
        return list(self._manifest["launches"])

    def __call__(self, *args: Array, **kwargs: Array) -> Any:
        """Run on tensors (NumPy, DLPack or TVM), positional or by input name.

        Results are NumPy arrays if the first input is one, PyTorch tensors if it is one, else
        TVM tensors; always without a copy.

        Raises:
            BadInput: a missing or unknown input, a wrong rank, dtype or device.
            GuardFailed: shapes that the program was not compiled for.
        """
        if self._codec is not None:
            args, kwargs = self._codec.flatten(args, kwargs), {}
        if kwargs:
            args = self._ordered(args, kwargs)
        try:
            result = self._main(*args)
        except ArtifactError:
            raise
        except Exception as error:
            result = self._recover(args, error)
        convert = _CONVERTERS.get(type(args[0])) if args else None
        if convert is None:
            convert = _converter(args[0] if args else np.empty(0))
        if self._codec is not None:
            return self._codec.rebuild(lambda path: _at(result, path), convert)
        return _convert(result, self._outputs, convert)

    def _ordered(self, args: Sequence[Array], kwargs: Mapping[str, Array]) -> tuple[Array, ...]:
        if not args and len(kwargs) == len(self._names):
            try:
                return tuple([kwargs[name] for name in self._names])
            except KeyError:
                pass  # told below, by name
        unknown = [k for k in kwargs if k not in self._names]
        twice = [n for n in self._names[: len(args)] if n in kwargs]
        rest = self._names[len(args) :]
        missing = [n for n in rest if n not in kwargs]
        for problem, names in (("unknown", unknown), ("repeated", twice), ("missing", missing)):
            if names:
                expected = ", ".join(self._names)
                raise BadInput(f"{problem} input {', '.join(names)}; expected {expected}")
        return (*args, *(kwargs[n] for n in rest))

    def _recover(self, args: Sequence[Array], error: Exception) -> Any:
        """Second try with what the fast path does not take; else the error in the user's terms."""
        if len(args) != len(self._names):
            expected = ", ".join(self._names)
            raise BadInput(f"expected {len(self._names)} inputs ({expected}), found {len(args)}")
        if isinstance(error, MemoryError):
            raise MemoryError(f"out of memory for {self._found(args)}") from None
        prepared = [self._prepare(k, a) for k, a in enumerate(args)]
        if any(p is not a for p, a in zip(prepared, args, strict=True)):
            try:
                return self._main(*prepared)
            except Exception as again:
                error = again
        message = f"{error}; found {self._found(prepared)}"
        kind = BadInput if isinstance(error, TypeError) or "expected" in str(error) else GuardFailed
        raise kind(message) from None

    def _prepare(self, position: int, value: Array) -> Array:
        name, _, dtype = self.signature[position]
        if isinstance(value, int | float | bool | list | tuple | np.generic):
            return np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        if isinstance(value, np.ndarray):
            plain = value.flags.c_contiguous and value.flags.writeable
            return value if plain else np.array(value, order="C")
        if hasattr(value, "contiguous"):
            return value.detach().contiguous()
        if not hasattr(value, "__dlpack__"):
            raise BadInput(f"input '{name}': expected a tensor, found {type(value).__name__}")
        return value

    def _found(self, args: Sequence[Array]) -> str:
        parts = []
        for name, value in zip(self._names, args, strict=True):
            dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            parts.append(f"{name}: {dtype}{list(getattr(value, 'shape', ()))}")
        return ", ".join(parts)

    def workspace_bytes(self, shapes: Mapping[str, Sequence[int]]) -> int:
        """Bytes of temporary memory that one call needs for input shapes, without running.

        Loops and branches take more while they run, as their sizes come to be known.

        Raises:
            BadInput: a shape is missing or has the wrong rank.
        """
        return evaluate(self._manifest["workspace_bytes"], self._bind(shapes))

    def _bind(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        dims: dict[str, int] = {}
        for name, declared, _ in self.signature:
            if name not in shapes or len(shapes[name]) != len(declared):
                found = list(shapes[name]) if name in shapes else "nothing"
                expected = ", ".join(declared)
                raise BadInput(f"shape of '{name}': expected [{expected}], found {found}")
            for dim, size in zip(declared, shapes[name], strict=True):
                dims.setdefault(dim, int(size))
        return dims

    def explain(self, shapes: Mapping[str, Sequence[int]] | None = None) -> str:
        """What was fused and what was not, which facts were used, which guards remain.

        Args:
            shapes: input shapes for which to tell the memory needed.
        """
        counts = Counter(self.launches)
        lines = [f"{len(self.launches)} kernel calls, {len(self.kernels)} kernels", ""]
        lines += [f"workspace bytes: {self._manifest['workspace_bytes']}", ""]
        for k in self._manifest["kernels"]:
            lines.append(f"  {k['name']} ({k['kind']}, called {counts[k['name']]} times)")
            lines += textwrap.wrap(
                " + ".join(k["ops"]), 92, initial_indent="      ", subsequent_indent="      "
            )
            lines += [f"      {key}: {value}" for key, value in k["notes"].items()]
        refused = self._manifest["refused"]
        lines += ["", self._manifest["shapes"], "", "not fused"]
        lines += [f"  {r}" for r in refused] or ["  nothing was refused"]
        if shapes is not None:
            lines += ["", f"workspace: {self.workspace_bytes(shapes)} bytes for {dict(shapes)}"]
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write one shared library that needs only TVM's runtime.

        Raises:
            ArtifactError: this program was loaded, or nothing can link it.
        """
        if self._constants is None:
            raise ArtifactError("a loaded program cannot be saved again; copy its file")
        export(self._module, self._constants, self._manifest, Path(path))

    def source(self, kind: str = "ll") -> str:
        """The generated code: ``ll`` for LLVM IR, ``asm`` for assembly."""
        return str(self._module.inspect_source(kind))


# What turns a TVM tensor into the caller's kind of tensor, by the type of the first input.
_CONVERTERS: dict[type, Callable[[Any], Any]] = {np.ndarray: np.from_dlpack}


def _converter(first: Array) -> Callable[[Any], Any]:
    kind = type(first)
    if isinstance(first, np.ndarray | np.generic | int | float | list):
        _CONVERTERS[kind] = np.from_dlpack
    elif kind.__module__.partition(".")[0] == "torch":
        import torch

        _CONVERTERS[kind] = torch.from_dlpack
    else:
        _CONVERTERS[kind] = _unchanged
    return _CONVERTERS[kind]


def _unchanged(tensor: Any) -> Any:
    return tensor


_FIELD: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def _convert(result: Any, tree: Any, convert: Callable[[Any], Any]) -> Any:
    """Nested arrays of tensors as nested tuples; ``tree`` has one entry per field."""
    if isinstance(tree, int):
        return convert(result)
    # Iterating a TVM array costs microseconds per field; the accessor does not.
    return tuple([_convert(_FIELD(result, k), t, convert) for k, t in enumerate(tree)])


def _at(result: Any, path: Sequence[int]) -> Any:
    for k in path:
        result = _FIELD(result, k)
    return result


def load(path: str | Path) -> Executable:
    """Load a saved program.

    Raises:
        ArtifactError: the file is missing, not ours, or of another version.
    """
    manifest = read_manifest(Path(path))
    module = tvm.runtime.load_module(str(path))
    return Executable(module, manifest)
