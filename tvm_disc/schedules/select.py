"""Choice of the template for a group: an ordered policy, with the fallback last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from tvm_disc.errors import BadOption, Unsupported, WhyNot, shown
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.choose import analytic, moved_bytes
from tvm_disc.schedules.dispatch.learn import MEASURED, choose_measured, import_choice
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import (
    AT_BUILD,
    IN_CALL,
    IN_PLACE,
    LIBRARY,
    SERIAL,
    Choice,
    Read,
    Variant,
    feasible,
    variants_of,
)
from tvm_disc.schedules.gemm.plan import plan_dot
from tvm_disc.schedules.gemm.vendor import FAMILY, plan_vendor
from tvm_disc.schedules.kernel import Group, Kernel, Machine, Plan, build_kernel
from tvm_disc.schedules.loops.fallback import plan_reduce
from tvm_disc.schedules.loops.template import plan_loop
from tvm_disc.schedules.multi_stage import staged_plans
from tvm_disc.schedules.rows.template import plan_rows
from tvm_disc.shape import Solver
from tvm_disc.support.late import Late
from tvm_disc.tir.builder import i64

Template: TypeAlias = Callable[[Group, Solver, Machine], "Plan | list[Plan] | WhyNot"]

# Templates by kind of group, in the order in which they are tried. A ``Late`` template is imported
# when it is first tried, so that a build imports only the families that its groups may use.
POLICY: dict[str, tuple[tuple[str, Template], ...]] = {
    "loop": (
        ("interleave", Late("tvm_disc.schedules.transpose.interleave:plan_interleave")),
        ("transpose", Late("tvm_disc.schedules.transpose.template:plan_transpose")),
        ("loop", plan_loop),
    ),
    "row": (("row", plan_rows),),
    "dot": (("gemm", plan_dot), ("reduce", plan_reduce)),
    "attention": (("attention", Late("tvm_disc.schedules.attention.template:plan_attention")),),
    "conv": (
        ("implicit gemm", Late("tvm_disc.schedules.conv.plan:plan_conv")),
        ("channel window", Late("tvm_disc.schedules.conv.channel_window:plan_channel_window")),
        ("pixel gemm", Late("tvm_disc.schedules.conv.plan:plan_pixels")),
        ("winograd", Late("tvm_disc.schedules.conv.winograd:plan_winograd")),
        ("window tile", Late("tvm_disc.schedules.conv.window_tile:plan_window_tile")),
        ("window", Late("tvm_disc.schedules.conv.window:plan_window")),
        ("reduce", plan_reduce),
    ),
    "vendor": ((FAMILY, lambda group, solver, machine: plan_vendor(group, solver)),),
    "reduce": (("reduce", plan_reduce),),
    "opaque": (
        ("scatter", Late("tvm_disc.schedules.opaque.scatter:plan_scatter")),
        ("sort", Late("tvm_disc.schedules.opaque.sorting:plan_sort")),
        ("search", Late("tvm_disc.schedules.opaque.sorting:plan_search")),
        ("special", Late("tvm_disc.schedules.opaque.table:plan_special")),
    ),
}

# Templates whose plans compete if they accept the same group; their order only breaks ties. Of all
# other templates, only the first one that accepts the group is used.
COMPETING = ("implicit gemm", "channel window", "pixel gemm", "winograd", "window tile")


def policy_for(machine: Machine) -> dict[str, tuple[tuple[str, Template], ...]]:
    """Return the templates of a CPU or a GPU by kind of group."""
    if machine.device is None:
        return POLICY
    from tvm_disc.schedules.cuda.policy import CUDA

    return CUDA


def own_templates(
    pairs: Sequence[tuple[str, Template]],
) -> dict[str, tuple[tuple[str, Template], ...]]:
    """Return the user's templates by kind of group; each is named after its function.

    Raises:
        BadOption: the kind of group does not exist.
    """
    found: dict[str, tuple[tuple[str, Template], ...]] = {}
    for kind, template in pairs:
        if kind not in POLICY:
            raise BadOption(f"templates: expected one of {', '.join(POLICY)}, found {kind!r}")
        name = getattr(template, "__name__", type(template).__name__)
        found[kind] = (*found.get(kind, ()), (name, _checked(name, template)))
    return found


def _checked(name: str, template: Template) -> Template:
    """Return a template that calls the user's one and checks the plans that it returns."""

    def answers(group: Group, solver: Solver, machine: Machine) -> Plan | list[Plan] | WhyNot:
        answer = template(group, solver, machine)
        if isinstance(answer, WhyNot):
            return answer
        plans = answer if isinstance(answer, list) else [answer]
        if not plans or not all(isinstance(p, Plan) for p in plans):
            raise BadOption(
                f"template {name}: expected a Plan, a list of Plan, or WhyNot for {group.name}, "
                f"found {shown(answer)}"
            )
        if plans[0].needs:
            raise BadOption(
                f"template {name}: the first plan must serve every shape; the one for {group.name} "
                f"requires {', '.join(n.text for n in plans[0].needs)}"
            )
        return answer

    return answers


@dataclass
class Space:
    """All variants of a group, and why templates or their plans are not used."""

    variants: list[Variant]
    refused: list[WhyNot]


def variant_space(group: Group, solver: Solver, machine: Machine) -> Space:
    """Return the variants of the first template that accepts the group, and of its competitors.

    On a CPU, variants in stages and variants that call a library are added.

    Raises:
        Unsupported: no template accepts the group.
    """
    refused: list[WhyNot] = []
    plans: list[Plan] = []
    for name, template in _templates(group, solver, machine):
        if plans and name not in COMPETING:
            break
        answer = template(group, solver, machine)
        if isinstance(answer, WhyNot):
            refused.append(answer)
            continue
        found = answer if isinstance(answer, list) else [answer]
        plans += [_complete(p, name, group) for p in found]
        if name not in COMPETING:
            break
    if not plans:
        reasons = "; ".join(str(w) for w in refused)
        raise Unsupported(f"{group.name}: no template accepts this group ({reasons})")
    if machine.device is None:
        beside = _of_processor(group, plans, solver, machine)
        refused += [b for b in beside if isinstance(b, WhyNot)]
        plans += [b for b in beside if not isinstance(b, WhyNot)]
    kept, never = feasible(plans, solver)
    return Space(variants_of(kept, machine), [*refused, *never])


def _of_processor(
    group: Group, plans: Sequence[Plan], solver: Solver, machine: Machine
) -> list[Plan | WhyNot]:
    """Return further CPU plans: in stages, and by a library that is found at run time."""
    found: list[Plan | WhyNot] = []
    found += staged_plans(group, solver, machine, lambda p: _part_plan(p, solver, machine))
    if group.kind == "dot" and isinstance(vendor := plan_vendor(group, solver), Plan):
        found.append(_complete(vendor, FAMILY, group))
    return found


def _templates(group: Group, solver: Solver, machine: Machine) -> tuple[tuple[str, Template], ...]:
    """Return the templates in the order in which they are tried.

    If an operand of a matmul or convolution is empty, only the last template is tried, because it
    packs nothing.
    """
    policy = (*machine.templates.get(group.kind, ()), *policy_for(machine)[group.kind])
    if group.kind in ("dot", "conv") and any(_is_empty(p, solver) for p in group.params):
        policy = policy[-1:]
    # ``plan_empty`` is tried first, so that no other template divides by an extent of 0.
    empty = all(_is_empty(node, solver) for node in group.outputs)
    return (("empty", plan_empty), *policy) if empty else policy


def _is_empty(node: Node, solver: Solver) -> bool:
    return any(solver.const(d) == 0 for d in node.shape)


def plan_empty(group: Group, solver: Solver, machine: Machine) -> Plan:
    """Return a plan that does nothing, for a group whose results all have no elements."""
    return Plan(i64(0), i64(0), lambda body: None)


def _complete(plan: Plan, name: str, group: Group) -> Plan:
    """Return the plan with defaults for the fields that the template left out."""
    moved = moved_bytes(group) if isinstance(plan.moved, int) else plan.moved
    steps = plan.tasks if isinstance(plan.steps, int) else plan.steps
    return replace(plan, family=plan.family or name, moved=moved, steps=steps)


def _part_plan(part: Group, solver: Solver, machine: Machine) -> Plan:
    """Return the plan of one stage, from the first template that accepts it.

    Raises:
        Unsupported: no template accepts the stage.
    """
    for name, template in _templates(part, solver, machine):
        answer = template(part, solver, machine)
        if not isinstance(answer, WhyNot):
            plans = answer if isinstance(answer, list) else [answer]
            plans = [_complete(p, name, part) for p in plans if p.code == plans[0].code]
            return _chosen_among(plans, part, solver, machine)
    raise Unsupported(f"{part.name}: no template accepts this stage")


def _chosen_among(plans: list[Plan], part: Group, solver: Solver, machine: Machine) -> Plan:
    """Return the first plan; if several are feasible, with the cost model's choice among them."""
    able = feasible(plans, solver)[0]
    if len(able) < 2:
        return plans[0]
    choice = analytic(part, [Variant(p, SERIAL) for p in able], solver, machine.model)
    return replace(plans[0], among=choice)


def make_kernel(group: Group, solver: Solver, machine: Machine) -> Kernel:
    """Return the kernel of a group, which chooses among the variants of its templates.

    Raises:
        Unsupported: no template accepts the group.
    """
    space = variant_space(group, solver, machine)
    choice = _choose(group, space.variants, solver, machine)
    notes = _notes(group, choice, space)
    ahead, given = None, None
    if machine.device is not None and group.kind == "dot":
        from tvm_disc.schedules.cuda import handover
        from tvm_disc.schedules.cuda.library import LibraryProduct, emit_product, library_product

        library = library_product(group, solver, machine)
        if isinstance(library, LibraryProduct):
            given = handover.handed_over(group, library, choice, space.variants, solver, machine)
            ahead = partial(emit_product, library, given)
            notes[LIBRARY] = handover.note(library, given)
        else:
            notes[f"{library.subject} not used"] = library.reason
    kernel = build_kernel(group, choice, solver, machine, ahead)
    kernel.notes, kernel.library = notes, given
    return kernel


def _choose(group: Group, variants: list[Variant], solver: Solver, machine: Machine) -> Choice:
    """Return the choice of a variant: a given tree, else by measured times, else by the model."""
    given = machine.trees.get(group_key(group)) if machine.trees else None
    if given is not None:
        return import_choice(group, variants, solver, given)
    if machine.records is not None:
        found = machine.records.group(group_key(group))
        limits = replace(MEASURED, copy_bytes=machine.copy_bytes)
        choice = choose_measured(group, variants, solver, machine.model, found, limits)
        if choice is not None:
            return choice
    return analytic(group, variants, solver, machine.model)


def _notes(group: Group, choice: Choice, space: Space) -> dict[str, str]:
    """Return the kernel's lines in ``explain``: variants' notes, the tree, and refusals."""
    notes: dict[str, str] = {}
    families = dict.fromkeys(v.plan.family for v in choice.variants)
    notes["template"] = ", ".join(families)
    layouts = {tuple(v.plan.skipped.values()): v.plan.family for v in choice.variants}
    if len(layouts) > 1:
        notes["weights are packed for"] = " and ".join(layouts.values())
    for variant in choice.variants:
        for key, value in variant.plan.notes.items():
            notes.setdefault(key, value)
    notes |= _reads(group, [v.plan for v in choice.variants])
    notes["variant"] = choice.text()
    for why in space.refused:
        notes[f"{why.subject} not used"] = why.reason
    return notes


def _reads(group: Group, plans: Sequence[Plan]) -> dict[str, str]:
    """Return lines that list the operands that are packed at build time, those that are packed in
    each call, and those that are read in place.

    An operand that only some plans read in this way is followed by the names of these plans.
    """
    several = len({p.family for p in plans}) > 1
    reads = [(_name(p, several), found) for p in plans if (found := _reads_of(group, p))]
    notes = {}
    for how in (AT_BUILD, IN_CALL, IN_PLACE):
        listed = []
        for read in dict.fromkeys(r for _, found in reads for r in found if r.how == how):
            names = dict.fromkeys(name for name, found in reads if read in found)
            all_do = all(read in found for _, found in reads)
            facts = [read.when] * bool(read.when) + [_either(list(names))] * (not all_do)
            listed.append(f"{read.operand} ({'; '.join(facts)})" if facts else read.operand)
        if listed:
            notes[how] = ", ".join(listed)
    return notes


def _either(names: Sequence[str]) -> str:
    """Return ``algorithm=x or y`` for ``algorithm=x`` and ``algorithm=y``."""
    first, *rest = names
    prefix = first.rpartition("=")[0] + "="
    return " or ".join([first, *(name.removeprefix(prefix) for name in rest)])


def _reads_of(group: Group, plan: Plan) -> tuple[Read, ...]:
    """Return how a plan reads its operands.

    If the plan does not list this, its packed constants are called weights.
    """
    packs = any(node in group.constants for node in plan.packed)
    return plan.reads or ((Read("weights", AT_BUILD),) if packs else ())


def _name(plan: Plan, several: bool) -> str:
    """Return the family of a plan without algorithm, else its algorithm; both if ``several``."""
    algorithm = plan.knobs.to_json().get("algorithm")
    if algorithm is None:
        return plan.family
    return f"{plan.family}, algorithm={algorithm}" if several else f"algorithm={algorithm}"
