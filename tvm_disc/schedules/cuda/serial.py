"""CPU templates on a GPU: a thread per task.

These plans support every shape, but a template with one task runs on a single thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tvm_disc.errors import WhyNot
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.shape import Solver

Template: TypeAlias = Callable[[Group, Solver, Machine], "Plan | list[Plan] | WhyNot"]


def in_order(template: Template) -> Template:
    """Return a template that returns the first plan of a CPU template, with one thread per task."""

    def plan(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
        answer = template(group, solver, machine)
        if isinstance(answer, WhyNot):
            return answer
        first = answer[0] if isinstance(answer, list) else answer
        notes = {**first.notes, "threads": "one for each task, in order"}
        return replace(first, splits=False, cost=None, notes=notes)

    return plan
