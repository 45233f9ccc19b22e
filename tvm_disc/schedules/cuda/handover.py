"""Choice between cuBLASLt and the generated kernels, by a decision tree over both.

The tree is fitted to measured times if the records have times of cuBLASLt, otherwise to the costs
of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import indent
from typing import Any

from tvm_disc.errors import BadInput
from tvm_disc.schedules.cuda.library import LibraryProduct
from tvm_disc.schedules.dispatch import tree as trees
from tvm_disc.schedules.dispatch.choose import analytic, prune_proved
from tvm_disc.schedules.dispatch.learn import Times, choose_inside, import_choice, outside_of
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.tree import Leaf, Split
from tvm_disc.schedules.dispatch.variant import SERIAL, Choice, Plan, Variant
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64

GIVEN = "library"  # key of the library's tree in the JSON of a group
OWN = Variant(Plan(i64(1), i64(1), lambda body: None, family="our kernels"), SERIAL)


def handed_over(
    group: Group,
    given: LibraryProduct,
    own: Choice,
    space: Sequence[Variant],
    solver: Solver,
    machine: Machine,
) -> Choice:
    """Return the choice between :data:`OWN` and cuBLASLt.

    The choice is a given tree, or else fitted to measured times, or else to the cost model.

    Args:
        own: the choice among generated kernels.
        space: all variants of generated kernels.

    Raises:
        BadInput: the given tree uses a feature that the group lacks.
    """
    asked = machine.trees.get(group_key(group), {}) if machine.trees else {}
    if GIVEN in asked:
        return _imported(group, given, space, solver, asked[GIVEN])
    outside = _by_model(group, given, own, solver, machine)
    if machine.records is None:
        return outside
    found = machine.records.group(group_key(group))
    return _by_times(group, given, own, outside, solver, machine, found) or outside


def forced(
    library: bool, variant: Mapping[str, object], given: LibraryProduct
) -> dict[str, object]:
    """Return the JSON of a group whose trees always select ``variant``, and the library or not."""
    chosen = given.variant if library else OWN
    return {"run": variant, GIVEN: {"run": chosen.to_json()}}


def note(given: LibraryProduct, choice: Choice) -> str:
    """Return the line of ``explain`` that says when cuBLASLt is used."""
    if choice.tree == Leaf(0) and not choice.variants[0].of_library:
        return f"never {given.what}"
    if choice.tree == Leaf(1):
        return f"always {given.what}, if it is installed"
    asked = [text for _, text in choice.features]
    named = [v.plan.family for v in choice.variants]
    said = indent(trees.show(choice.tree, asked, named), "  ")
    return f"{given.what}, if it is installed and this tree selects it:\n{said}"


def _by_model(
    group: Group, given: LibraryProduct, own: Choice, solver: Solver, machine: Machine
) -> Choice:
    variants = [*own.variants, given.variant]
    return _of_two(analytic(group, variants, solver, machine.model), given, solver)


def _of_two(choice: Choice, given: LibraryProduct, solver: Solver) -> Choice:
    """Return a choice among variants with every generated kernel replaced by :data:`OWN`."""
    numbers = {k: int(v.of_library) for k, v in enumerate(choice.variants)}
    tree = trees.merged(trees.renumber(choice.tree, numbers))
    tree = prune_proved(tree, choice.features, solver)
    return Choice([OWN, given.variant], tree, list(choice.features))


def _imported(
    group: Group, given: LibraryProduct, space: Sequence[Variant], solver: Solver, data: Any
) -> Choice:
    # The tree may use features of all variants, not only of these two.
    choice = import_choice(group, [OWN, given.variant, *space], solver, data)
    if any(v is not OWN and v is not given.variant for v in choice.variants):
        raise BadInput(
            f"dispatch of {group.name}: expected leaves that select the library or all generated "
            "kernels, found a leaf that selects one generated kernel"
        )
    return choice


def _by_times(
    group: Group,
    given: LibraryProduct,
    own: Choice,
    outside: Choice,
    solver: Solver,
    machine: Machine,
    found: Times,
) -> Choice | None:
    """Return a choice by measured times inside the measured box of dims, by the model outside.

    None if the records have no times of cuBLASLt: it was not installed where the times were
    measured, but it may be installed where the program runs.
    """
    if not any(given.variant.key in times for times in found.values()):
        return None
    variants = [*own.variants, given.variant]
    made = choose_inside(group, variants, solver, machine.model, found)
    if made is None:
        return None
    inside, dims = made
    numbers = {k: int(v.of_library) for k, v in enumerate(inside.variants)}
    tree, features = trees.merged(trees.renumber(inside.tree, numbers)), list(inside.features)
    if dims.shape[1]:
        low, high = dims.min(axis=0).astype(int), dims.max(axis=0).astype(int)
        border = outside_of(group.symbols(), low.tolist(), high.tolist())
        moved = trees.shift_features(outside.tree, len(features))
        features += [*outside.features, border]
        tree = Split(len(features) - 1, 1, tree, moved)
    return replace(outside, tree=prune_proved(tree, features, solver), features=features)


__all__ = ["OWN", "forced", "handed_over", "note"]
