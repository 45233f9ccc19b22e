"""Import of StableHLO modules, among them exported JAX functions; one converter per operator."""

from __future__ import annotations

from tvm_disc.frontends.stablehlo.model import from_stablehlo

__all__ = ["from_stablehlo"]
