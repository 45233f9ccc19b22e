"""JAX functions as programs that are compiled once and serve every shape.

    @tvm_disc.jax.jit(dynamic={"x": "b, s, 64"})
    def f(x, scale): ...

A function is exported with symbolic dims (``jax.export``) at its first call, and built into one
program. Arrays are passed to the program and back through DLPack, without copies.

In Python, a call only flattens the arguments, looks up the program by shapes and types, calls it,
and converts each array. After many calls at the same shapes XLA calls the program, as a custom
call, and converts the arrays in native code; see ``calls``.
"""

from __future__ import annotations

from tvm_disc.jax.compiled import Compiled
from tvm_disc.jax.function import compile, jit

__all__ = ["Compiled", "compile", "jit"]
