"""Cost of several variants per kernel: instructions of a decision tree, and bytes of the
library.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import StringImm

from tvm_disc import Options, build
from tvm_disc.schedules.dispatch.tree import Leaf
from tvm_disc.schedules.dispatch.variant import SERIAL, Choice, Variant
from tvm_disc.schedules.gemm import vendor
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.entry import Bench, build_bench
from tvm_disc.tuning.measure import local_session

ROUNDS, CALLS = 41, 4000


# -- the tree alone ------------------------------------------------------------------------------


def hollow(choice: Choice) -> Choice:
    """Return the choice with empty bodies: the tree and the tests of the variants remain."""
    made = []
    for k, variant in enumerate(choice.variants):
        plan = replace(
            variant.plan,
            tasks=i64(1),
            emit=_nothing(k, calls_vendor(variant.plan)),
            scratch_elems=0,
            stages=(),
            packed={},
            family=f"variant {k}",
        )
        made.append(Variant(plan, SERIAL))
    return replace(choice, variants=made)


def _nothing(number: int, asks_for_library: bool) -> Any:
    name = f"disc.nothing.{number}"
    # A separate function that LLVM can neither inline nor merge with another one.
    code = (
        f"define linkonce_odr i32 @{name}() noinline {{\n"
        f'  call void asm sideeffect "", "r"(i32 {number})\n  ret i32 0\n}}'
    )
    if asks_for_library:  # the variant tests whether a library is present
        code = f"{code}\n{vendor._library('s')}"

    def emit(body: Body) -> None:
        call = tirx.Evaluate(tirx.call_extern("int32", name))
        body.block.add(
            tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", StringImm(code), call)
        )

    return emit


def tree_bench(group: Group, choice: Choice, machine: Machine, target: Any) -> Bench:
    """Return two kernels without work: one calls the empty body directly, one through the tree."""
    tree = hollow(choice)
    safe = next((v for v in tree.variants if v.safe), tree.variants[0])
    at_once = Choice([replace(safe, plan=replace(safe.plan, needs=()))], Leaf(0))
    return build_bench([(group, [at_once, tree])], Solver(), machine, target)[0]


def tree_instructions(bench: Bench) -> int:
    """Return the number of instructions that the tree adds on the longest path to a variant."""
    text = bench.module.inspect_source("asm")
    at_once, tree = (longest_path(text, f"__tvm_ffi_{name}") for name in bench.names)
    return tree - at_once


def tree_ns(bench: Bench, dims: Sequence[int]) -> float:
    """Return the nanoseconds that the tree adds at one shape: least times of alternating rounds."""
    points = {s: np.float64(d) for s, d in zip(bench.group.symbols(), dims, strict=True)}
    tensors = local_session(bench).arguments(points)
    timers = [
        bench.module.time_evaluator(n, tvm.cpu(0), number=CALLS, repeat=1) for n in bench.names
    ]
    rounds = [
        [t(*tensors(k), *dims).mean * 1e9 for k, t in enumerate(timers)] for _ in range(ROUNDS)
    ]
    at_once, tree = np.min(rounds, axis=0)
    return float(tree - at_once)


# -- assembly ------------------------------------------------------------------------------------

_LABEL = re.compile(r"^([.\w][\w.$]*):")
_INSTRUCTION = re.compile(r"^\s+([a-z]\w*)(?:\s+(\S+))?")
APART = ("disc.nothing.", ".look")  # not counted: variants, and code that runs once per process


@dataclass
class _Code:
    """Assembly code: pairs (instruction, operand), and the position of every label."""

    lines: list[tuple[str, str]]
    labels: dict[str, int]

    @staticmethod
    def of(text: str) -> _Code:
        code = _Code([], {})
        for line in text.splitlines():
            if label := _LABEL.match(line):
                code.labels[label[1]] = len(code.lines)
            elif found := _INSTRUCTION.match(line):
                code.lines.append((found[1], (found[2] or "").removesuffix("@PLT")))
        return code


def longest_path(text: str, name: str, apart: Sequence[str] = APART) -> int:
    """Return the largest number of instructions that one call of a loop-free function can execute.

    Callees are included, except those with an element of ``apart`` in their names.

    Raises:
        ValueError: there is no such function.
    """
    code = _Code.of(text)
    if name not in code.labels:
        raise ValueError(f"no function {name} in the assembly")

    @cache
    def after(at: int) -> int:
        if at >= len(code.lines):
            return 0
        word, target = code.lines[at]
        if word.startswith("ret"):
            return 1
        there = 0
        if target in code.labels and not any(a in target for a in apart):
            if word.startswith("call"):
                return 1 + after(code.labels[target]) + after(at + 1)
            there = after(code.labels[target]) if word.startswith("j") else 0
        return 1 + (there if word == "jmp" else max(there, after(at + 1)))

    return after(code.labels[name])


# -- bytes of the library ------------------------------------------------------------------------


def first_run(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first variant in a tree in JSON, as a tree of this variant alone."""
    return {"run": tree["run"]} if "run" in tree else first_run(tree["then"])


def growth(source: Any, options: Options | None = None) -> tuple[int, int, int, int]:
    """Return (kernels, variants, bytes, bytes with one variant per kernel) of a saved program."""
    options = options or Options()
    several = build(source, options=options)
    only = {key: first_run(tree) for key, tree in several.dispatch.items() if tree}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.json"
        path.write_text(json.dumps(only))
        one = build(source, options=replace(options, records=None, dispatch=path))
        sizes = [_code_bytes(exe, Path(folder) / "program.so") for exe in (several, one)]
    variants = sum(_runs(tree) for tree in several.dispatch.values())
    return len(several.kernels), variants, sizes[0], sizes[1]


def _runs(tree: Mapping[str, Any]) -> int:
    if not tree:
        return 1
    texts = {json.dumps(t, sort_keys=True) for t in _leaves(tree)}
    return len(texts)


def _leaves(tree: Mapping[str, Any]) -> list[Any]:
    return [tree["run"]] if "run" in tree else [*_leaves(tree["then"]), *_leaves(tree["else"])]


def _code_bytes(exe: Any, path: Path) -> int:
    """Return the bytes of a saved program; the weights are equal in all programs compared."""
    exe.save(path)
    return path.stat().st_size


__all__ = ["Bench", "growth", "longest_path", "tree_bench", "tree_instructions", "tree_ns"]
