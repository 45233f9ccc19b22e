"""Complex numbers during conversion."""

from __future__ import annotations

from typing import TypeAlias

from tvm_disc.relay import expr as ast

# The real and the imaginary part. StableHLO's own tuples are refused, so no other value is one.
ComplexPair: TypeAlias = ast.Tuple
