"""Programs as custom calls of XLA.

XLA's own dispatch converts the arrays of a call in native code, which takes less than a microsecond
an array; DLPack takes three. The package ``jax-tvm-ffi`` calls a program as a handler of XLA's
foreign function interface: with its inputs and with memory for its results.
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
    """An array, or the description of one."""

    @property
    def dtype(self) -> np.dtype: ...


@cache
def has_custom_calls() -> bool:
    """Return whether the package by which XLA calls programs is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


# Names of the programs that XLA can call, which it may do until the process ends.
_TARGETS: dict[Executable, str] = {}


def custom_call(
    program: Executable, results: Sequence[_Typed], taken: Mapping[int, int] = MappingProxyType({})
) -> Callable[..., Sequence[object]] | None:
    """Return the call of a program as an operator of JAX, for use in a traced function.

    Args:
        results: the shape and type of each result (``jax.ShapeDtypeStruct``).
        taken: the results that may have the memory of inputs, by the positions of the inputs.

    Returns:
        None if XLA cannot call the program: the package is missing, the program runs on a GPU or is
        observed, or JAX narrows the type of a result.
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
    """Return the name by which XLA knows a program; None if its entry is not machine code."""
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
