"""Variants: alternative implementations of one group, as data.

A template ``(group, solver, machine)`` returns one :class:`Plan`, several, or a ``WhyNot``. A plan
is a body for one choice of :class:`Knobs`. A :class:`Variant` is a plan with a number of threads. A
kernel contains at most :data:`MOST_VARIANTS` bodies and a decision tree over the group's dims that
picks a variant per call. This is common to all templates.

To add variants to a template:

1. declare its knobs, a frozen dataclass of plain values; of plans with equal knobs only the first
   is used::

       @dataclass(frozen=True)
       class RowKnobs(Knobs):
           walk: str = "along"

2. return a list of plans, the best guess first. The first plan must have no ``needs``, so that it
   serves every shape. Omit plans that can never be fast (too many registers, too large for a
   cache), because tuning measures all plans::

       return [Plan(tasks, work, emit, knobs=RowKnobs(walk)) for walk in walks]

3. declare the facts that a plan requires as ``needs``, over the group's dims. Needs that the solver
   proves cost nothing. If the solver refutes a need, the plan is dropped. Other needs are tested at
   run time;
4. give ``cost``, the analytical model's time of the body (see :mod:`.cost`), and ``features``, the
   quantities over the group's dims on which the choice depends; dims, their products and ``work``
   are always considered;
5. plans may pack a weight differently. One kernel keeps plans of one :attr:`Plan.layout`, or of two
   or three layouts of different families if plans allow it with ``joins`` or ``joins_if_small``
   (:func:`layout_sets`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.dispatch import tree as trees
from tvm_disc.schedules.dispatch.sampling import Points, evaluate
from tvm_disc.schedules.dispatch.tree import Tree
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr

if TYPE_CHECKING:
    from tvm_disc.schedules.packing import Packing

MOST_VARIANTS = 8  # kept by a kernel; more would make its code too large
# (parameter, how it is packed, element type or None) of each packed parameter of a plan
Layout: TypeAlias = "frozenset[tuple[Node, Packing, str | None]]"
LIBRARY = "cublasLt"  # family of the plans that call a GPU library


@dataclass(frozen=True)
class Knobs:
    """The choices of a template; a subclass declares them as fields of plain types."""

    def to_json(self) -> dict[str, Any]:
        """Return the choices by name."""
        return asdict(self)

    def code(self) -> dict[str, object]:
        """Return the choices that determine the body's code; others determine the algorithm."""
        return self.to_json()


@dataclass(frozen=True)
class Run:
    """The number of parts in which a body's tasks run concurrently."""

    parts: int = 1

    def __str__(self) -> str:
        return "serial" if self.parts == 1 else f"{self.parts} threads"


SERIAL = Run()


@dataclass(frozen=True)
class Need:
    """A fact that a plan requires.

    ``cond`` is a condition over the group's dims, or over the process that runs the plan. A
    condition over the process cannot be proved; ``assumed`` is its value at sampled points, else
    None.
    """

    text: str
    cond: Expr
    assumed: bool | None = None

    def proved(self, solver: Solver) -> bool | None:
        """Return whether the fact holds for all values that the solver's facts allow.

        None if this is unknown, or if the fact is assumed.
        """
        return solver.known(self.cond) if self.assumed is None else None

    def at(self, points: Points) -> Any:
        """Return whether the fact holds, at each point."""
        return evaluate(self.cond, points) if self.assumed is None else np.bool_(self.assumed)


@dataclass(frozen=True)
class Grid:
    """Distribution of a plan's tasks over the threads of a device.

    Attributes:
        threads: number of threads of a block.
        shared: whether all threads of a block share one task; otherwise each thread runs its own
            task.
        room_bytes: bytes of dynamic shared memory of a block.
    """

    threads: int = 256
    shared: bool = False
    room_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Pass:
    """One of several kernels that a plan on a device runs in sequence.

    Attributes:
        tasks, emit, grid: as in :class:`Plan`.
        rounds: number of executions; ``body.round`` is the number of the current one. None is one
            execution.
    """

    tasks: Expr
    emit: Callable[[Body], None]
    grid: Grid = Grid()
    rounds: Expr | None = None


AT_BUILD, IN_CALL, IN_PLACE = "packed at build time", "packed in each call", "read in place"


@dataclass(frozen=True)
class Read:
    """One way in which a body reads an operand.

    Attributes:
        operand: its name, such as ``B`` or ``weights``.
        how: ``AT_BUILD``, ``IN_CALL`` or ``IN_PLACE``.
        when: the sizes for which the body reads it so; "" means all sizes.
    """

    operand: str
    how: str
    when: str = ""


@dataclass
class Plan:
    """A template's result for one group and one choice of knobs.

    Attributes:
        tasks: number of independent tasks, an expression over the group's symbols.
        work: approximate cost of the kernel in plain operations.
        emit: emits the code of the tasks ``[lo, hi)`` into a :class:`Body`.
        scratch_elems: elements of scratch of each concurrent part, which runs a range of tasks.
        packed: how to pack a constant parameter; parameters that are absent are not packed.
        skipped: number of elements of a packed parameter that precede this plan's layout.
        joins: whether a kernel may keep this plan's layout in addition to that of another family.
        joins_if_small: as ``joins``, if this layout has at most :attr:`Limits.copy_bytes` bytes.
        knobs: distinguish this plan from the template's other plans.
        needs: facts without which the body must not run.
        cost: a function (points, model) that returns the nanoseconds of one serial run at each
            point; if None, the model derives them from ``work`` and ``moved``.
        features: quantities over the group's dims on which the choice may depend.
        moved: bytes read and written; by default those of the group's operands and results.
        steps: number of units that cost ``row_ns`` each in the analytical model; by default the
            tasks.
        loops: number of loops along rows, which cost ``pass_ns`` each.
        strided: accesses that cost ``strided_ns`` each: elements of vectors that are not adjacent.
        units: numbers of other units of work, by the ``CostModel`` field with the cost of one unit;
            like ``work``, they overlap with the memory accesses.
        algorithm: the number of the algorithm that the body runs. Plans that differ only in this
            number share one body, which receives the number as an argument.
        contention: as ``cost``, for the nanoseconds that contention between threads costs.
        among: if the plan is a stage, the choice among plans that share its body; None if it is the
            only one.
        guessed: whether the analytical model may choose the plan; otherwise only measured times do.
        splits: whether tasks may be distributed over several threads.
        doubt: the name of the factor on the predicted time of a plan in stages: a field of
            ``CostModel``.
        stages: the parts of a plan that runs in stages (see ``schedules/multi_stage.py``); if there
            are stages, their ``emit``, ``cost`` and scratch are used instead of the plan's.
        grid: on a device, the distribution of tasks over threads; None is one thread per task.
        passes: on a device, kernels that run in sequence on common scratch; ``emit`` and ``grid``
            are then theirs.
        wide: on a device, the same work with wider accesses, which a launch uses if its ``needs``
            are met; it differs in tasks and code only.
        reads: how the body reads the operands of a product, for ``explain``.
    """

    tasks: Expr
    work: Expr
    emit: Callable[[Body], None]
    scratch_elems: Expr | int = 0
    scratch_dtype: str = "float32"
    packed: dict[Node, Packing] = field(default_factory=dict)
    packed_dtypes: dict[Node, str] = field(default_factory=dict)
    skipped: dict[Node, int] = field(default_factory=dict)
    joins: bool = False
    joins_if_small: bool = False
    notes: dict[str, str] = field(default_factory=dict)
    may_alias: bool = False  # its functions write scratch memory through another pointer
    family: str = ""
    knobs: Knobs = field(default_factory=Knobs)
    needs: tuple[Need, ...] = ()
    cost: Callable[..., Any] | None = None
    features: tuple[Expr, ...] = ()
    moved: Expr | int = 0
    steps: Expr | int = 0
    loops: Expr | int = 0
    strided: Expr | int = 0
    units: Mapping[str, Expr] = field(default_factory=dict)
    algorithm: int = 0
    contention: Callable[..., Any] | None = None
    among: Choice | None = None
    guessed: bool = True
    splits: bool = True
    doubt: str = ""
    stages: tuple[Stage, ...] = ()
    grid: Grid | None = None
    passes: tuple[Pass, ...] = ()
    wide: Plan | None = None
    reads: tuple[Read, ...] = ()

    @property
    def layout(self) -> Layout:
        """Return the packing of each packed parameter; equal layouts mean equal weights."""
        return frozenset((n, p, self.packed_dtypes.get(n)) for n, p in self.packed.items())

    @property
    def packed_bytes(self) -> int:
        """Return the size of the packed parameters, which must have literal shapes."""
        forms = [p.form(_literal(n), n.dtype) for n, p in self.packed.items()]
        return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in forms)

    @property
    def key(self) -> str:
        """Return family and knobs as text; plans with equal keys have equal code and algorithm."""
        return f"{self.family}{json.dumps(self.knobs.to_json(), sort_keys=True)}"

    @property
    def code(self) -> str:
        """Return family and the knobs that determine the body; equal texts mean a shared body."""
        return f"{self.family}{json.dumps(self.knobs.code(), sort_keys=True)}"

    @property
    def label(self) -> str:
        """Return family and knobs for users, such as ``row(rows_at_once=16)``."""
        knobs = ", ".join(f"{k}={v}" for k, v in self.knobs.to_json().items())
        return f"{self.family}({knobs})" if knobs else self.family


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a group that is computed before the next one starts.

    Attributes:
        group, plan: the part as a separate group, which consists of copies of the nodes, and its
            plan.
        sources, targets: the nodes of the complete group that correspond to the part's parameters
            and outputs.
    """

    group: Group
    plan: Plan
    sources: tuple[Node, ...]
    targets: tuple[Node, ...]

    @property
    def plans(self) -> list[Plan]:
        """The plans that the stage chooses among; they share one body."""
        among = self.plan.among
        return [self.plan] if among is None else [v.plan for v in among.variants]


@dataclass(frozen=True, eq=False)
class Variant:
    """A plan with a number of threads."""

    plan: Plan
    run: Run

    @property
    def safe(self) -> bool:
        """Return whether the variant serves every shape."""
        return not self.plan.needs

    def to_json(self) -> dict[str, Any]:
        """Return the variant as JSON-compatible values; equal values mean equal code."""
        plan = self.plan
        return {"family": plan.family, "knobs": plan.knobs.to_json(), "parts": self.run.parts}

    @property
    def key(self) -> str:
        """Return the JSON form as one line, as records contain it."""
        return json.dumps(self.to_json(), sort_keys=True)

    @property
    def of_library(self) -> bool:
        """Return whether the variant calls a library of the device (cuBLASLt)."""
        return self.plan.family == LIBRARY

    def __str__(self) -> str:
        return f"{self.plan.label}, {self.run}"


@dataclass
class Choice:
    """The variants that a kernel keeps and the tree that picks among them.

    Attributes:
        variants: the kept variants; a safe one runs if the needs of the selected one are not met
            (:meth:`instead`).
        tree: the decision tree; its splits are on indices of ``features``, its leaves indices of
            ``variants``.
        features: (expression, text) of each feature.
    """

    variants: list[Variant]
    tree: Tree
    features: list[tuple[Expr, str]] = field(default_factory=list)

    def instead(self, variant: Variant) -> Variant:
        """Return the fallback for ``variant`` if its needs are not met.

        The fallback is a safe variant, with the same number of threads if possible.
        """
        safe = [v for v in self.variants if v.safe]
        return next((v for v in safe if v.run == variant.run), safe[0])

    def text(self) -> str:
        """Return the tree as text, with if, elif and else."""
        return trees.show(self.tree, [t for _, t in self.features], [str(v) for v in self.variants])

    def to_json(self) -> dict[str, Any]:
        """Return the tree as JSON-compatible values."""
        names = [t for _, t in self.features]
        return trees.to_json(self.tree, names, [v.to_json() for v in self.variants])


def feasible(plans: Sequence[Plan], solver: Solver) -> tuple[list[Plan], list[WhyNot]]:
    """Return the plans whose needs are not refuted, and the reasons why the others are refused.

    Plans with equal keys are returned once, with those needs that are not proved.
    """
    kept: dict[str, Plan] = {}
    refused: list[WhyNot] = []
    for plan in plans:
        answers = [need.proved(solver) for need in plan.needs]
        false = [n.text for n, a in zip(plan.needs, answers, strict=True) if a is False]
        if false:
            refused.append(
                WhyNot(
                    plan.label,
                    f"it requires that {' and '.join(false)}, which is false for every call",
                )
            )
            continue
        open_needs = tuple(n for n, a in zip(plan.needs, answers, strict=True) if a is None)
        kept.setdefault(plan.key, replace(plan, needs=open_needs))
    return list(kept.values()), refused


def variants_of(plans: Sequence[Plan], machine: Machine) -> list[Variant]:
    """Return a serial and a threaded variant of each plan, in the order of the plans."""
    runs = [SERIAL] if machine.threads <= 1 else [SERIAL, Run(machine.threads)]
    return [Variant(p, run) for p in plans for run in (runs if p.splits else runs[:1])]


def layout_sets(plans: Sequence[Plan], copy_bytes: float = 0) -> list[frozenset[Layout]]:
    """Return the sets of layouts that one kernel may keep: single layouts, pairs, then triples.

    Any two layouts of a set may be kept together. ``copy_bytes`` is the largest size of the
    layouts of plans with ``joins_if_small``.
    """
    first: dict[Layout, Plan] = {}
    for plan in plans:
        first.setdefault(plan.layout, plan)
    several = [
        chosen
        for count in (2, 3)
        for chosen in combinations(first.values(), count)
        if all(_may_join(a, b, copy_bytes) for a, b in combinations(chosen, 2))
    ]
    alone = [frozenset((layout,)) for layout in first]
    return [*alone, *(frozenset(plan.layout for plan in chosen) for chosen in several)]


def _may_join(a: Plan, b: Plan, copy_bytes: float) -> bool:
    """Return whether a kernel may keep both plans' layouts.

    Both must pack the same parameters with the same element types, be of different families, and
    one of them must be marked as worth a second copy of the weights.
    """
    joins = any(p.joins or (p.joins_if_small and p.packed_bytes <= copy_bytes) for p in (a, b))
    if not a.packed or a.family == b.family or not joins:
        return False
    return a.packed.keys() == b.packed.keys() and a.packed_dtypes == b.packed_dtypes


def _literal(node: Node) -> tuple[int, ...]:
    """Return the shape of a node, whose dims must be literals."""
    return tuple(int(static_dim(d) or 0) for d in node.shape)


def joined(variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants with their plans adapted to weights that hold all layouts in sequence."""
    layouts: dict[Layout, Plan] = {}
    for variant in variants:
        layouts.setdefault(variant.plan.layout, variant.plan)
    if len(layouts) < 2:
        return list(variants)
    from tvm_disc.schedules.packing import Joined

    parts = list(layouts.values())
    packed = {n: Joined(tuple(p.packed[n] for p in parts)) for n in parts[0].packed}
    begins: dict[Layout, dict[Node, int]] = {}
    at = dict.fromkeys(packed, 0)
    for plan in parts:
        begins[plan.layout] = dict(at)
        for node, own in plan.packed.items():
            at[node] += math.prod(own.form(_literal(node), node.dtype)[0])
    made = {
        id(v.plan): replace(v.plan, packed=dict(packed), skipped=begins[v.plan.layout])
        for v in variants
    }
    return [replace(v, plan=made[id(v.plan)]) for v in variants]
