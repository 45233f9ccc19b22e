"""What a decision tree costs at run time: instructions, counted in the assembly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tvm import tirx

from tvm_disc.codegen.target import resolve_target
from tvm_disc.errors import BadOption
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.choose import group_features
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.tree import Leaf, Split, Tree, depth
from tvm_disc.schedules.dispatch.variant import (
    MOST_VARIANTS,
    SERIAL,
    Choice,
    Knobs,
    Need,
    Plan,
    Variant,
)
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.calibrate import OF_PROCESSOR

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from dispatch import check_fitted, starting_models
from dispatch_cost import first_run, longest_path, tree_bench, tree_instructions

# 20 ns at 2.5 GHz, were every instruction to wait for the one before.
MOST_INSTRUCTIONS = 50


def group() -> Group:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    source = Node("param", (), (n, m), "float32")
    result = Node("relax.exp", (source,), (n, m), "float32")
    return Group("g", "loop", [result], [source], [result])


def variants(g: Group, needs: tuple[Need, ...] = ()) -> list[Variant]:
    n, m = g.symbols()
    plans = [
        Plan(i64(n), i64(n * m), lambda body: None, family=f"f{k}", knobs=Knobs())
        for k in range(MOST_VARIANTS)
    ]
    plans[-1].needs = needs
    return [Variant(p, SERIAL) for p in plans]


def full_tree(questions: int, features: int, first: int = 0, at: int = 0) -> Tree:
    """Every path asks as many questions, each of another quantity."""
    if questions == 0:
        return Leaf(first % MOST_VARIANTS)
    below = full_tree(questions - 1, features, 2 * first, at + 1)
    rest = full_tree(questions - 1, features, 2 * first + 1, at + 1)
    return Split(at % features, 7 * (first + at) + 3, below, rest)


def instructions(choice: Choice, g: Group) -> int:
    target = resolve_target(None)
    return tree_instructions(tree_bench(g, choice, Machine(isa_of(target), 2), target))


def test_the_largest_tree_is_within_its_budget() -> None:
    g = group()
    found = variants(g)
    features = group_features(g, found, Solver())
    tree = full_tree(6, len(features))
    assert depth(tree) == 6 and len(features) > 3
    assert 8 <= instructions(Choice(found, tree, features), g) <= MOST_INSTRUCTIONS


def test_a_need_is_a_question_too() -> None:
    g = group()
    n, m = g.symbols()
    features = [(n, "n")]
    tree = Split(0, 9, Leaf(0), Leaf(MOST_VARIANTS - 1))
    plain = instructions(Choice(variants(g), tree, features), g)
    need = Need("wide", m * n > i64(1000))
    assert plain < instructions(Choice(variants(g, (need,)), tree, features), g)
    assert plain >= 2 > instructions(Choice(variants(g), Leaf(0), features), g)


ASM = """
\t.globl\tf
f:
.Lfunc_begin0:
\t.cfi_startproc
\tcmpq\t$9, %rdi
\tjl\t.LBB0_2
# %bb.1:
\timulq\t%rsi, %rdi
\tcmpq\t$7, %rdi
\tjmp\tg@PLT
.LBB0_2:
\tcallq\th
\tretq
.Lfunc_end0:
\tnop
h:
\tnop
\tretq
"""


def test_the_longest_path_is_found() -> None:
    assert longest_path(ASM, "f") == 6
    assert longest_path(ASM, "f", apart=("h",)) == 5
    assert longest_path(ASM.replace("\tcallq\th\n", "\tcallq\th\n" * 3), "f") == 12


def test_a_function_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no function k"):
        longest_path(ASM, "k")


def test_one_variant_of_a_tree() -> None:
    tree = {"if": "n", "below": 4, "then": {"if": "m", "then": {"run": 1}}, "else": {"run": 2}}
    assert first_run(tree) == {"run": 1}


def test_constants_of_a_processor_are_not_written_for_a_level() -> None:
    check_fitted("x86-64-v4", processor=False)
    check_fitted("znver5", processor=True)
    with pytest.raises(BadOption, match=r"'znver5' measures this processor.*add --processor"):
        check_fitted("znver5", processor=False)
    with pytest.raises(BadOption, match="found the level 'x86-64-v4'"):
        check_fitted("x86-64-v4", processor=True)


def test_a_fit_for_a_level_starts_without_constants_of_processors() -> None:
    plain = CostModel()
    models = starting_models(plain, of_level=True)
    assert len(models) >= 4 and len({m.op_ns for m in models}) > 1
    for name in OF_PROCESSOR:
        assert {getattr(m, name) for m in models} == {getattr(plain, name)}
    assert len({m.near_bytes for m in starting_models(plain, of_level=False)}) > 1
