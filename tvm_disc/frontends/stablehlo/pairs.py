"""The representation of complex tensors during conversion."""

from __future__ import annotations

from typing import TypeAlias

from tvm_disc.relay import expr as ast

# (real part, imaginary part). StableHLO's tuples are refused, so every tuple is a complex tensor.
ComplexPair: TypeAlias = ast.Tuple
