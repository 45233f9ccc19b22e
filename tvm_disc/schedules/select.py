"""Which template takes a group: an ordered policy, the fallback last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from tvm_disc.errors import BadOption, Unsupported, WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.attention.template import plan_attention
from tvm_disc.schedules.conv.channel_window import plan_channel_window
from tvm_disc.schedules.conv.window import plan_window
from tvm_disc.schedules.conv.window_tile import plan_window_tile
from tvm_disc.schedules.conv.winograd import winograd_plans
from tvm_disc.schedules.cuda import handover
from tvm_disc.schedules.cuda.library import (
    LibraryProduct,
    emit_product,
    library_product,
)
from tvm_disc.schedules.cuda.policy import CUDA
from tvm_disc.schedules.dispatch.choose import Choice, analytic, moved_bytes
from tvm_disc.schedules.dispatch.learn import choose_measured, import_choice
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import LIBRARY, Variant, feasible, variants_of
from tvm_disc.schedules.gemm.plan import plan_conv, plan_dot, plan_pixels
from tvm_disc.schedules.gemm.vendor import FAMILY, plan_vendor
from tvm_disc.schedules.kernel import Group, Kernel, Machine, Plan, build_kernel
from tvm_disc.schedules.loops.fallback import plan_reduce
from tvm_disc.schedules.loops.template import plan_loop
from tvm_disc.schedules.multi_stage import staged_plans
from tvm_disc.schedules.opaque.scatter import plan_scatter
from tvm_disc.schedules.opaque.sorting import plan_search, plan_sort
from tvm_disc.schedules.opaque.table import plan_special
from tvm_disc.schedules.rows.template import plan_rows
from tvm_disc.schedules.transpose.interleave import plan_interleave
from tvm_disc.schedules.transpose.template import plan_transpose
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64

Template: TypeAlias = Callable[[Group, Solver, Machine], "Plan | list[Plan] | WhyNot"]

POLICY: dict[str, tuple[tuple[str, Template], ...]] = {
    "loop": (
        ("interleave", plan_interleave),
        ("transpose", plan_transpose),
        ("loop", plan_loop),
    ),
    "row": (("row", plan_rows),),
    "dot": (("gemm", plan_dot), ("reduce", plan_reduce)),
    "attention": (("attention", plan_attention),),
    "conv": (
        ("implicit gemm", plan_conv),
        ("channel window", plan_channel_window),
        ("pixel gemm", plan_pixels),
        ("window tile", plan_window_tile),
        ("window", plan_window),
        ("reduce", plan_reduce),
    ),
    "vendor": ((FAMILY, lambda group, solver, machine: plan_vendor(group, solver)),),
    "reduce": (("reduce", plan_reduce),),
    "opaque": (
        ("scatter", plan_scatter),
        ("sort", plan_sort),
        ("search", plan_search),
        ("special", plan_special),
    ),
}

# By kind of device; None is the processor.
POLICIES: dict[str | None, dict[str, tuple[tuple[str, Template], ...]]] = {
    None: POLICY,
    "cuda": CUDA,
}


def own_templates(
    pairs: Sequence[tuple[str, Template]],
) -> dict[str, tuple[tuple[str, Template], ...]]:
    """A user's templates by kind of group; the name of one is its function's.

    Raises:
        BadOption: a kind that no group is of.
    """
    found: dict[str, tuple[tuple[str, Template], ...]] = {}
    for kind, template in pairs:
        if kind not in POLICY:
            raise BadOption(f"templates: expected a kind of {', '.join(POLICY)}, found {kind!r}")
        name = getattr(template, "__name__", type(template).__name__)
        found[kind] = (*found.get(kind, ()), (name, _checked(name, template)))
    return found


def _checked(name: str, template: Template) -> Template:
    """The template, whose answers are looked at before anything rests on them."""

    def answers(group: Group, solver: Solver, machine: Machine) -> Plan | list[Plan] | WhyNot:
        answer = template(group, solver, machine)
        if isinstance(answer, WhyNot):
            return answer
        plans = answer if isinstance(answer, list) else [answer]
        if not plans or not all(isinstance(p, Plan) for p in plans):
            raise BadOption(
                f"template {name}: expected a Plan, a list of some, or WhyNot for {group.name}, "
                f"found {answer!r}"
            )
        if plans[0].needs:
            raise BadOption(
                f"template {name}: put a plan first that serves every shape; that for {group.name} "
                f"needs {', '.join(n.text for n in plans[0].needs)}"
            )
        return answer

    return answers


@dataclass
class Space:
    """Every variant of a group, and what was refused."""

    variants: list[Variant]
    refused: list[WhyNot]


def variant_space(group: Group, solver: Solver, machine: Machine) -> Space:
    """The variants of the first template that accepts the group.

    Raises:
        Unsupported: no template does.
    """
    refused: list[WhyNot] = []
    for name, template in _templates(group, solver, machine):
        answer = template(group, solver, machine)
        if isinstance(answer, WhyNot):
            refused.append(answer)
            continue
        plans = answer if isinstance(answer, list) else [answer]
        plans = [_complete(p, name, group) for p in plans]
        if machine.device is None:
            beside = _of_processor(group, plans, solver, machine)
            refused += [b for b in beside if isinstance(b, WhyNot)]
            plans += [b for b in beside if not isinstance(b, WhyNot)]
        kept, never = feasible(plans, solver)
        return Space(variants_of(kept, machine), [*refused, *never])
    reasons = "; ".join(str(w) for w in refused)
    raise Unsupported(f"{group.name}: no template takes this group ({reasons})")


def _of_processor(
    group: Group, plans: Sequence[Plan], solver: Solver, machine: Machine
) -> list[Plan | WhyNot]:
    """The ways beside a template's ``plans``: in stages, by minimal filtering, and by a library
    that is found at run time."""
    found: list[Plan | WhyNot] = []
    found += staged_plans(group, solver, machine, lambda p: _part_plan(p, solver, machine))
    if group.kind == "conv":
        made = winograd_plans(group, plans, machine)
        found += (
            [made] if isinstance(made, WhyNot) else [_complete(p, p.family, group) for p in made]
        )
    if group.kind == "dot" and isinstance(vendor := plan_vendor(group, solver), Plan):
        found.append(_complete(vendor, FAMILY, group))
    return found


def _templates(group: Group, solver: Solver, machine: Machine) -> tuple[tuple[str, Template], ...]:
    """In the order in which they are asked; a product of nothing is left to the last, which adds
    without packing anything."""
    kind = None if machine.device is None else machine.device.kind
    policy = (*machine.templates.get(group.kind, ()), *POLICIES[kind][group.kind])
    if group.kind in ("dot", "conv") and any(_is_empty(p, solver) for p in group.params):
        policy = policy[-1:]
    return (("empty", plan_empty), *policy)


def _is_empty(node: Node, solver: Solver) -> bool:
    return any(solver.const(d) == 0 for d in node.shape)


def plan_empty(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Nothing to do: no result has an element, whatever the inputs.

    It comes before all others, so that no template divides by an extent of zero.
    """
    if all(_is_empty(node, solver) for node in group.outputs):
        return Plan(i64(0), i64(0), lambda body: None)
    return WhyNot("empty", "a result may have elements")


def _complete(plan: Plan, name: str, group: Group) -> Plan:
    """The plan with what the template left to be filled in."""
    moved = moved_bytes(group) if isinstance(plan.moved, int) else plan.moved
    steps = plan.tasks if isinstance(plan.steps, int) else plan.steps
    return replace(plan, family=plan.family or name, moved=moved, steps=steps)


def _part_plan(part: Group, solver: Solver, machine: Machine) -> Plan:
    """The plan of one stage: the best guess of the first template that takes it.

    Raises:
        Unsupported: no template does.
    """
    for name, template in _templates(part, solver, machine):
        answer = template(part, solver, machine)
        if not isinstance(answer, WhyNot):
            return _complete(answer[0] if isinstance(answer, list) else answer, name, part)
    raise Unsupported(f"{part.name}: no template takes this part")


def make_kernel(group: Group, solver: Solver, machine: Machine) -> Kernel:
    """The kernel of the first template that accepts the group."""
    space = variant_space(group, solver, machine)
    choice = _choose(group, space.variants, solver, machine)
    notes = _notes(choice, space)
    ahead, given = None, None
    if machine.device is not None and group.kind == "dot":
        library = library_product(group, solver, machine)
        if isinstance(library, LibraryProduct):
            given = handover.handed_over(group, library, choice, space.variants, solver, machine)
            ahead = partial(emit_product, library, given)
            notes[LIBRARY] = handover.note(library, given)
        else:
            notes[f"not {library.subject}"] = library.reason
    kernel = build_kernel(group, choice, solver, machine, ahead)
    kernel.notes, kernel.library = notes, given
    return kernel


def _choose(group: Group, variants: list[Variant], solver: Solver, machine: Machine) -> Choice:
    """By a given tree, else by measured times where there are any, else by the model."""
    given = machine.trees.get(group_key(group)) if machine.trees else None
    if given is not None:
        return import_choice(group, variants, solver, given)
    if machine.records is not None:
        found = machine.records.group(group_key(group))
        choice = choose_measured(group, variants, solver, machine.model, found)
        if choice is not None:
            return choice
    return analytic(group, variants, solver, machine.model)


def _notes(choice: Choice, space: Space) -> dict[str, str]:
    """What ``explain`` says: the variants' own notes, the tree, and what was refused."""
    notes: dict[str, str] = {}
    families = dict.fromkeys(v.plan.family for v in choice.variants)
    notes["template"] = ", ".join(families)
    for variant in choice.variants:
        for key, value in variant.plan.notes.items():
            notes.setdefault(key, value)
    notes["runs"] = choice.text().replace("\n", "\n          ")
    for why in space.refused:
        notes[f"not {why.subject}"] = why.reason
    return notes
