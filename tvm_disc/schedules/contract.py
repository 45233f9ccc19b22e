"""The *dot* and *convolution* templates: a fused group as one GEMM.

Operands are index lambdas, so head splits, transposes and im2col are changes of index inside the
packing or loading of a tile; the element-wise consumers run on the tile while it is in registers.
"""

from __future__ import annotations

from tvm_disc.errors import WhyNot
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.shape import Solver


def plan_dot(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """A matmul and its epilogue."""
    return WhyNot("gemm", "not yet")


def plan_conv(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """A convolution as an implicit GEMM."""
    return WhyNot("implicit gemm", "not yet")
