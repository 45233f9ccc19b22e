"""Variants: the ways to compute one group, as data.

A template ``(group, solver, machine)`` returns one :class:`Plan`, several, or a ``WhyNot``. A plan
is a body for a choice of :class:`Knobs`; the same body run serially or on several threads gives
several :class:`Variant`. A kernel holds at most :data:`MOST_VARIANTS` of them and a decision tree
over the group's dims that picks one per call; all of that is common to every template.

To add variants to a template:

1. declare its knobs, a frozen dataclass of plain values; two plans with equal knobs are one::

       @dataclass(frozen=True)
       class RowKnobs(Knobs):
           walk: str = "along"

2. return a list of plans, the best guess first. The first plan must have no ``needs``, so that it
   serves every shape. Leave out what can never be good (registers, cache): the space is measured::

       return [Plan(tasks, work, emit, knobs=RowKnobs(walk)) for walk in walks]

3. say what a plan rests on with ``needs``: facts over the group's dims. What the solver proves
   costs nothing, what it refutes drops the plan, the rest is tested at run time;
4. give ``cost``, the analytical model's time of the body (see :mod:`.cost`), and
   as ``features`` the quantities, over the group's dims, on which the choice depends; dims, their
   products and ``work`` are always considered;
5. plans that want the same weight packed differently say so in ``layout``: one kernel keeps
   plans of one layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.sampling import Points, evaluate
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.packing import Packing
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

MOST_VARIANTS = 8  # kept in one kernel: code size is a cost
LIBRARY = "cublasLt"  # the family of what a device's library computes


@dataclass(frozen=True)
class Knobs:
    """The choices of a template; a subclass declares them as fields of plain values."""

    def to_json(self) -> dict[str, Any]:
        """The choices by name."""
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """How a body's tasks are run: in how many parts at once."""

    parts: int = 1

    def __str__(self) -> str:
        return "serial" if self.parts == 1 else f"{self.parts} threads"


SERIAL = Run()


@dataclass(frozen=True)
class Need:
    """A fact that a plan rests on, over the group's dims; or about the process that runs it, of
    which nothing can be proved: ``assumed`` is what sampled points take it for."""

    text: str
    cond: Expr
    assumed: bool | None = None

    def proved(self, solver: Solver) -> bool | None:
        """Whether it holds for every value that the facts allow."""
        return solver.known(self.cond) if self.assumed is None else None

    def at(self, points: Points) -> Any:
        """Whether it holds, at each point."""
        return evaluate(self.cond, points) if self.assumed is None else np.bool_(self.assumed)


@dataclass(frozen=True)
class Grid:
    """How threads of a device share the tasks of a plan.

    Attributes:
        threads: of a block.
        shared: whether a block does a task together; else every thread does its own.
    """

    threads: int = 256
    shared: bool = False


@dataclass(frozen=True, eq=False)
class Pass:
    """One of several kernels that a plan on a device runs one after the other.

    Attributes:
        tasks, emit, grid: as those of a plan.
        rounds: how often it runs; ``body.round`` counts.
    """

    tasks: Expr
    emit: Callable[[Body], None]
    grid: Grid = Grid()
    rounds: Expr | None = None


@dataclass
class Plan:
    """A template's answer for one group and one choice of knobs.

    Attributes:
        tasks: number of independent tasks, an expression over the group's symbols.
        work: rough cost of the whole kernel in plain operations.
        emit: fills in a body that runs tasks ``[lo, hi)``.
        scratch_elems: elements of scratch per concurrent task.
        packed: how to pack a constant parameter; plans of one kernel agree on it by ``layout``.
        knobs: what sets this plan apart from the template's others.
        needs: facts without which the body must not run.
        cost: nanoseconds of one serial run at each sampled point; None derives it from ``work``.
        features: quantities over the group's dims on which the choice may depend.
        moved: bytes read and written; the group's operands and results unless given.
        steps: what takes the time of entering a row each, for the analytical model; the tasks
            unless given.
        guessed: whether the analytical model may choose it; else only measured times do.
        splits: whether parts of the tasks may run at once.
        doubt: how much better than others stages must look before they are believed.
        stages: the parts of a plan that is run in stages (see ``schedules/multi_stage.py``);
            ``emit``, ``cost`` and scratch are then theirs.
        grid: on a device, how its threads share the tasks; None is a thread for each.
        passes: on a device, kernels that run one after the other on scratch that is common to
            all of their tasks; ``emit`` and ``grid`` are then theirs.
        wide: on a device, the same work with wider accesses, which a launch takes instead where
            its ``needs`` are met; in all else than tasks and code as this plan.
    """

    tasks: Expr
    work: Expr
    emit: Callable[[Body], None]
    scratch_elems: Expr | int = 0
    scratch_dtype: str = "float32"
    packed: dict[Node, Packing] = field(default_factory=dict)
    packed_dtypes: dict[Node, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    may_alias: bool = False  # the body's callees write its scratch under another name
    family: str = ""
    knobs: Knobs = field(default_factory=Knobs)
    needs: tuple[Need, ...] = ()
    cost: Callable[..., Any] | None = None
    features: tuple[Expr, ...] = ()
    layout: str = ""
    moved: Expr | int = 0
    steps: Expr | int = 0
    guessed: bool = True
    splits: bool = True
    doubt: float = 1.0
    stages: tuple[Stage, ...] = ()
    grid: Grid | None = None
    passes: tuple[Pass, ...] = ()
    wide: Plan | None = None

    @property
    def key(self) -> str:
        """Family and knobs as text; equal texts are equal code."""
        return f"{self.family}{json.dumps(self.knobs.to_json(), sort_keys=True)}"


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a group that is computed before the next one begins.

    Attributes:
        group, plan: the part as a group of its own, on copies of the nodes.
        sources, targets: the nodes of the whole group that its parameters and outputs are.
    """

    group: Group
    plan: Plan
    sources: tuple[Node, ...]
    targets: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Variant:
    """A plan and how its tasks are run."""

    plan: Plan
    run: Run

    @property
    def safe(self) -> bool:
        """Whether it serves every shape."""
        return not self.plan.needs

    def to_json(self) -> dict[str, Any]:
        """The variant as plain values; equal values are equal code."""
        plan = self.plan
        return {"family": plan.family, "knobs": plan.knobs.to_json(), "parts": self.run.parts}

    @property
    def key(self) -> str:
        """The JSON form as one line, which records carry."""
        return json.dumps(self.to_json(), sort_keys=True)

    @property
    def of_library(self) -> bool:
        """Whether a library of the device computes it, and no kernel of ours."""
        return self.plan.family == LIBRARY

    def __str__(self) -> str:
        knobs = ", ".join(f"{k}={v}" for k, v in self.plan.knobs.to_json().items())
        return f"{self.plan.family}({knobs}), {self.run}"


def feasible(plans: Sequence[Plan], solver: Solver) -> tuple[list[Plan], list[WhyNot]]:
    """The plans that can ever run, each once, with only the needs that are not proved."""
    kept: dict[str, Plan] = {}
    refused: list[WhyNot] = []
    for plan in plans:
        answers = [need.proved(solver) for need in plan.needs]
        false = [n.text for n, a in zip(plan.needs, answers, strict=True) if a is False]
        if false:
            refused.append(WhyNot(plan.key, f"never: {', '.join(false)}"))
            continue
        open_needs = tuple(n for n, a in zip(plan.needs, answers, strict=True) if a is None)
        kept.setdefault(plan.key, replace(plan, needs=open_needs))
    return list(kept.values()), refused


def variants_of(plans: Sequence[Plan], machine: Machine) -> list[Variant]:
    """Every way to run the plans; the serial run of the first plan comes first."""
    runs = [SERIAL] if machine.threads <= 1 else [SERIAL, Run(machine.threads)]
    return [Variant(p, run) for p in plans for run in (runs if p.splits else runs[:1])]
