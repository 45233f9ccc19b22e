"""Import of StableHLO modules, such as exported JAX functions; each operator has a converter."""

from __future__ import annotations

from tvm_disc.frontends.stablehlo.model import from_stablehlo

__all__ = ["from_stablehlo"]
