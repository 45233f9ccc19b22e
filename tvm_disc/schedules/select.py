"""Which template takes a group: an ordered policy, the fallback last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tvm_disc.errors import Unsupported, WhyNot
from tvm_disc.schedules.attention import plan_attention
from tvm_disc.schedules.contract import plan_conv, plan_dot
from tvm_disc.schedules.kernel import Group, Kernel, Machine, Plan, build_kernel
from tvm_disc.schedules.loop import plan_loop
from tvm_disc.schedules.reduce import plan_reduce
from tvm_disc.schedules.rows import plan_rows
from tvm_disc.schedules.scatter import plan_scatter
from tvm_disc.schedules.sorting import plan_search, plan_sort
from tvm_disc.schedules.transpose import plan_transpose
from tvm_disc.schedules.window import plan_window
from tvm_disc.shape import Solver

Template: TypeAlias = Callable[[Group, Solver, Machine], "Plan | WhyNot"]

POLICY: dict[str, tuple[tuple[str, Template], ...]] = {
    "loop": (("transpose", plan_transpose), ("loop", plan_loop)),
    "row": (("row", plan_rows),),
    "dot": (("gemm", plan_dot), ("reduce", plan_reduce)),
    "attention": (("attention", plan_attention),),
    "conv": (("implicit gemm", plan_conv), ("window", plan_window), ("reduce", plan_reduce)),
    "reduce": (("reduce", plan_reduce),),
    "opaque": (("scatter", plan_scatter), ("sort", plan_sort), ("search", plan_search)),
}


def make_kernel(group: Group, solver: Solver, machine: Machine) -> Kernel:
    """The kernel of the first template that accepts the group."""
    refused: list[WhyNot] = []
    for name, template in POLICY[group.kind]:
        plan = template(group, solver, machine)
        if isinstance(plan, WhyNot):
            refused.append(plan)
            continue
        plan.notes = {"template": name, **plan.notes}
        for why in refused:
            plan.notes[f"not {why.subject}"] = why.reason
        return build_kernel(group, plan, solver, machine)
    reasons = "; ".join(str(w) for w in refused)
    raise Unsupported(f"{group.name}: no template takes this group ({reasons})")
