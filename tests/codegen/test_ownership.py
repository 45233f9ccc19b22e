"""Where references are dropped: in an order that depends on the program alone."""

from __future__ import annotations

from tvm_disc.codegen.objects.refcount import Choose, Drop, HasTag, MakeNode, Return
from tvm_disc.codegen.plan.ownership import place_counts
from tvm_disc.codegen.plan.program import Box, Region


def boxes(count: int) -> list[Box]:
    return [Box(f"b{k}") for k in range(count)]


def dropped(region: Region) -> list[str]:
    return [i.box.name for i in region.instructions if isinstance(i, Drop)]


def test_unused_arguments_are_dropped_in_order() -> None:
    params = boxes(40)
    region = Region(instructions=[Return([params[7]])])
    place_counts(region, params)
    assert dropped(region) == [p.name for p in params if p is not params[7]]


def test_a_branch_drops_what_the_other_uses_in_order_of_use() -> None:
    params = boxes(40)
    made = Box("made")
    used = list(reversed(params[1:]))
    then = Region(instructions=[MakeNode(made, 0, used), Return([made])])
    otherwise = Region(instructions=[Return([])])
    choose = Choose(HasTag(params[0], 1, True), then, otherwise)
    whole = Region(instructions=[choose])
    place_counts(whole, params)
    assert dropped(whole) == []
    assert dropped(otherwise) == [p.name for p in (*used, params[0])]
    assert dropped(then) == [params[0].name]
