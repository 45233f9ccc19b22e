"""The parts of a kernel's entry function that are common to CPU and device.

if some element exists:
    if feature < at:  variant, if its needs are met, else one without needs
    else:             ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.tree import Leaf, Tree
from tvm_disc.schedules.dispatch.variant import Choice, Plan, Variant
from tvm_disc.schedules.group import Group
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, i64, pointer
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.typing import Expr


def emit_choice(
    block: Block, choice: Choice, some: Expr | None, run: Callable[[Variant], None]
) -> None:
    """Emit the decision tree as nested branches; ``run`` emits the code of a variant.

    Args:
        some: the condition that any result has an element; None if this always holds.
    """

    def branches(tree: Tree) -> None:
        if isinstance(tree, Leaf):
            guarded(choice.variants[tree.variant])
            return
        asked = Sizes(block).plain(i64(choice.features[tree.feature][0]))
        with block.when(asked < tree.at):
            branches(tree.below)
        with block.otherwise():
            branches(tree.rest)

    def guarded(variant: Variant) -> None:
        """Emit the variant if its needs hold at run time, and a variant without needs otherwise."""
        if variant.safe:
            run(variant)
            return
        needs = [need.cond for need in variant.plan.needs]
        met = Sizes(block).plain(tirx.all(*needs) if len(needs) > 1 else needs[0])
        with block.when(met):
            run(variant)
        with block.otherwise():
            run(choice.instead(variant))

    with nullcontext() if some is None else block.when(Sizes(block).plain(some)):
        branches(choice.tree)


def some_element(outputs: Sequence[Node], solver: Solver) -> Expr | None:
    """Return the condition that some result has an element, or None if this is known.

    Without this test, loops around an empty loop would run through all their iterations.
    """
    tests: list[Expr] = []
    for node in outputs:
        open_dims = [d for d in node.shape if not solver.known_le(1, d)]
        if not open_dims:
            return None
        tests.append(reduce(tirx.And, [i64(d) > 0 for d in dict.fromkeys(open_dims)]))
    return reduce(tirx.Or, tests)


def uses_scratch(plan: Plan) -> bool:
    """Return whether a plan needs scratch memory."""
    return not (isinstance(plan.scratch_elems, int) and plan.scratch_elems == 0)


def pointers(group: Group, plan: Plan) -> tuple[list[Any], list[Any], Any]:
    """Return variables for the addresses of inputs, results and scratch memory."""
    ins = [pointer(f"p{i}", plan.packed_dtypes.get(p, p.dtype)) for i, p in enumerate(group.params)]
    outs = [pointer(f"o{i}", o.dtype) for i, o in enumerate(group.outputs)]
    return ins, outs, pointer("scratch", plan.scratch_dtype)


__all__ = ["emit_choice", "pointers", "some_element", "uses_scratch"]
