"""Programs as custom calls of XLA.

XLA converts the arrays of a call in native code, which takes less than a microsecond per array;
DLPack takes three. The package ``jax-tvm-ffi`` registers a program as a handler of XLA's foreign
function interface. XLA passes the inputs to the handler, and memory for the results.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Protocol

import numpy as np

from tvm_disc.runtime.donation import Donating
from tvm_disc.runtime.executable import Executable

PACKAGE = "jax_tvm_ffi"


class _Typed(Protocol):
    """An array or a ``jax.ShapeDtypeStruct``."""

    @property
    def dtype(self) -> np.dtype: ...


@cache
def has_custom_calls() -> bool:
    """Return whether ``jax-tvm-ffi`` is installed, by which XLA calls programs."""
    return importlib.util.find_spec(PACKAGE) is not None


# The XLA name of each registered program. XLA may call a program until the process ends, so entries
# are never removed.
_TARGETS: dict[Executable, str] = {}


def custom_call(
    program: Executable, results: Sequence[_Typed], taken: Mapping[int, int] = MappingProxyType({})
) -> Callable[..., Sequence[object]] | None:
    """Return a function that emits a call of a program into a function that JAX traces.

    Args:
        program: the program.
        results: the shape and dtype of each result (``jax.ShapeDtypeStruct``).
        taken: the results that may have the memory of inputs, by the positions of the inputs.

    Returns:
        None if XLA cannot call the program: the package is missing, the program runs on a GPU or
        has observers, or JAX converts a result from 64 to 32 bits.
    """
    import jax

    narrow = not jax.config.jax_enable_x64
    if not results or (narrow and any(x.dtype.itemsize == 8 for x in results)):
        return None
    name = _target(program) if has_custom_calls() else None
    if name is None:
        return None
    found: Callable[..., Sequence[object]] = jax.ffi.ffi_call(
        name, list(results), input_output_aliases=dict(taken)
    )
    return found


def _target(program: Executable) -> str | None:
    """Return the name of a program in XLA, and register the program at the first call.

    Returns None if the program's entry point is not a native function, or if it has observers.
    """
    name = _TARGETS.get(program)
    if name is None:
        from tvm_ffi import Function

        register: Callable[..., object] = import_module(PACKAGE).register_ffi_target

        program.ready()
        main = program.entries()[0]
        main = main.main if isinstance(main, Donating) else main
        if program.observers or not isinstance(main, Function):
            return None
        name = f"tvm_disc_{len(_TARGETS)}"
        register(name, main, platform="cpu")
        _TARGETS[program] = name
    return name
