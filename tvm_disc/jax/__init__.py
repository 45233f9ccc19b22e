"""JAX functions as programs that are compiled once and serve every shape.

    @tvm_disc.jax.jit(dynamic={"x": "b, s, 64"})
    def f(x, scale): ...

A function is exported with symbolic dims (``jax.export``) at its first call, and built into one
program. Arrays are passed to the program and back through DLPack, without copies.

A call does little in Python: one flattening of the arguments, one lookup of the program by shapes
and types, the program, and one conversion of each array. After many calls at the same shapes these
conversions are left to XLA, for which the program is a custom call (``calls``).
"""

from __future__ import annotations

from tvm_disc.jax.compiled import Compiled
from tvm_disc.jax.function import compile, jit

__all__ = ["Compiled", "compile", "jit"]
