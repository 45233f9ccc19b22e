"""Mendings taken out: a campaign must find each of them again.

A mutant is a copy of the package with a few lines as they were before a class of defects was
mended. The campaign in it makes modules of the operators of that class (and of some to combine
them with), until it finds something.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.children import Limits

ROOT = Path(__file__).resolve().parents[2]
AROUND = ("add", "concatenate", "reshape", "exp", "argmax", "transpose", "strided_slice")


@dataclass(frozen=True)
class Mutant:
    """``edits`` are (file of the package, text, what it was); ``ops`` operators of the class."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    ops: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """The package and what the campaign needs of the tests, mutated."""
        shutil.copytree(ROOT / "tvm_disc", folder / "tvm_disc")
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("data"))
        for name, text, was in self.edits:
            path = folder / "tvm_disc" / name
            path.write_text(replaced(path.read_text(encoding="utf-8"), text, was), encoding="utf-8")


def replaced(source: str, text: str, was: str) -> str:
    """``source`` with a text that it has once as it was."""
    assert source.count(text) == 1, f"{source.count(text)} places for {text!r}"
    return source.replace(text, was)


# Quotients that a kernel writes, as TVM has them: they are calls however they are written.
AS_TVM = (
    "tir/integers.py",
    "    return tvm_ffi.structural_map(body, (",
    "    return body\n    tvm_ffi.structural_map(body, (",
)
# Neither the importer nor the launch of a kernel asks whether an axis has elements.
ANY_AXIS = (
    (
        "relay/importer/context.py",
        "        if any(self.literal(d) == 0 for d in wanted):\n            return\n",
        "        return\n",
    ),
    (
        "codegen/plan/picks.py",
        "            if solver.known_le(i64(1), dim):\n                continue\n",
        "            continue\n",
    ),
)
PICKS = ("take", "gather", "gather_nd", "adv_index", "argmax")
MUTANTS = (
    Mutant(
        "an empty axis is read",
        ANY_AXIS,
        PICKS,
    ),
    Mutant(
        "a position modulo an empty axis traps",
        (
            *ANY_AXIS,
            (
                "schedules/elements.py",
                "return integers.floor_mod(position, extent)",
                "return tirx.floormod(position, extent)",
            ),
            AS_TVM,
        ),
        ("take",),
    ),
    Mutant(
        "positions are taken as they are",
        (
            (
                "schedules/elements.py",
                "    return tirx.max(tirx.min(position, last), zero)\n",
                "    return position\n",
            ),
        ),
        PICKS,
    ),
    Mutant(
        "negative positions of mode fast are not counted from the end",
        (
            (
                "schedules/elements.py",
                '    if mode != "clip":\n        position',
                '    if mode == "fast":\n        return position\n'
                '    if mode != "clip":\n        position',
            ),
        ),
        ("take",),
    ),
    Mutant(
        "integers divide as TVM writes it",
        (
            ("schedules/scalars.py", "integers.floor_mod", "tirx.floormod"),
            ("schedules/scalars.py", "integers.floor_divide", "tirx.floordiv"),
            AS_TVM,
        ),
        ("floor_mod", "floor_divide"),
    ),
    Mutant(
        "a sort counts its runs by floor division",
        (
            ("schedules/opaque/sorting.py", "runs = tirx.truncdiv(", "runs = tirx.floordiv("),
            ("schedules/opaque/sorting.py", 'self.block.number("runs"', 'self.block.bind("runs"'),
            AS_TVM,
        ),
        ("sort", "argsort", "topk"),
    ),
    Mutant(
        "sizes read from data may overflow",
        (
            (
                "relay/importer/context.py",
                "        if not self._read or not dims:\n            return\n",
                "        return\n",
            ),
        ),
        ("dyn.full", "dyn.zeros", "dyn.tile", "dyn.nn.pad"),
    ),
    Mutant(
        "a panel narrower than a line is fetched ahead",
        (
            (
                "schedules/conv/macro_kernel.py",
                "if lines and channels <= outs",
                "if channels <= outs",
            ),
        ),
        ("nn.conv2d", "nn.relu", "nn.conv1d"),
    ),
    Mutant(
        "a result is computed into a tensor whose dims are not bound",
        (
            (
                "codegen/plan/lower_objects.py",
                "        return symbols_of(value) <= bound\n",
                "        return True\n",
            ),
        ),
        ("dyn.reshape", "reshape", "exp", "unique"),
    ),
    Mutant(
        "a product of nothing is planned",
        (
            ("schedules/select.py", "if empty else policy", "if False else policy"),
            (
                "schedules/select.py",
                '    if group.kind in ("dot", "conv") and any(',
                "    if False and any(",
            ),
        ),
        ("nn.dense", "nn.matmul", "nn.batch_matmul"),
    ),
    Mutant(
        "a reshape takes a dim of 0 for a code",
        (
            (
                "relay/importer/context.py",
                '    op = tvm.ir.Op.get("relax.reshape")\n'
                "    return tvm.ir.Call(op, [x, relax.ShapeExpr(list(dims))])\n",
                "    return R.reshape(x, relax.ShapeExpr(list(dims)))\n",
            ),
        ),
        ("reshape", "expand_dims", "squeeze", "nn.batch_flatten"),
    ),
    Mutant(
        "shape arithmetic divides by zero",
        (
            (
                "relay/importer/values.py",
                "as_expr(0) if zero else meaning(a, b)",
                "meaning(a, b)",
            ),
        ),
        ("floor_divide", "floor_mod", "shape_of", "take"),
    ),
    Mutant(
        "float64 asks LLVM for an intrinsic that it has not",
        (
            (
                "schedules/math/functions.py",
                '_apply("asin", x, _t.asin, libm("asin"))',
                '_apply("asin", x, _t.asin, tirx.asin)',
            ),
            (
                "schedules/math/functions.py",
                '_apply("sinh", x, _e.sinh, libm("sinh"))',
                '_apply("sinh", x, _e.sinh, tirx.sinh)',
            ),
            (
                "schedules/math/functions.py",
                '_apply("erf", x, _e.erf, libm("erf"))',
                '_apply("erf", x, _e.erf, tirx.erf)',
            ),
        ),
        ("asin", "sinh", "erf"),
    ),
    Mutant(
        "a slice by length wraps its begin twice",
        (
            (
                "relay/importer/lowering/slice.py",
                "    low, high = (_clamped(ctx, p, i64(0), dim) for p in (first, last))\n",
                "    first = tirx.Select(first < 0, first + dim, first)\n"
                "    low, high = (_clamped(ctx, p, i64(0), dim) for p in (first, last))\n",
            ),
        ),
        ("dyn.strided_slice", "strided_slice"),
    ),
    Mutant(
        "bits are shifted by as many as there are",
        (("schedules/scalars.py", '"left_shift": _left_shift', '"left_shift": tirx.shift_left'),),
        ("left_shift", "right_shift"),
    ),
    Mutant(
        "truth values are added as numbers",
        (
            (
                "schedules/scalars.py",
                '"add": _either(tirx.Or, _sum)',
                '"add": _sum',
            ),
        ),
        ("add", "logical_and", "less"),
    ),
    Mutant(
        "a choice between two known sizes is an int32",
        (
            (
                "tir/builder.py",
                "    if element_dtype(value) != INDEX:\n",
                "    if False:\n",
            ),
            (
                "schedules/gemm/partition.py",
                "    return tirx.Select(condition, i64(x), i64(y))\n",
                "    return tirx.Select(condition, x, y)\n",
            ),
        ),
        ("nn.dense", "nn.matmul", "nn.batch_matmul"),
    ),
)


def trial(mutant: Mutant, seed: int, modules: int, limits: Limits) -> tuple[str | None, int]:
    """(what a campaign finds first that the package has not, after how many modules)."""
    end = seed + modules
    with tempfile.TemporaryDirectory() as folder:
        mutant.write(Path(folder))
        at = seed
        while at < end:
            told = first(mutant, Path(folder), at, end - at, limits)
            at = int(str(told["seed"])) + 1
            if told["kind"] is None:
                break
            if first(mutant, ROOT, at - 1, 1, limits)["kind"] != told["kind"]:
                return str(told["kind"]), at - seed
    return None, at - seed


def first(mutant: Mutant, root: Path, seed: int, modules: int, limits: Limits) -> dict[str, object]:
    """What a campaign in a copy of the package finds first, and the seed."""
    command = [sys.executable, "-m", "tests.fuzz", "--first", "--modules", str(modules)]
    command += ["--seed", str(seed), "--limit", str(limits.cpu_s), "--ops"]
    command += dict.fromkeys([*mutant.ops, *AROUND])
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    try:
        told = json.loads(lines[-1])
    except (IndexError, ValueError):
        told = {"seed": seed, "kind": f"the campaign failed: {done.stderr[-300:]}"}
    assert isinstance(told, dict)
    return told


def main(names: Sequence[str], seed: int, modules: int, limits: Limits) -> int:
    """Try mutants, all of them without names; 1 if one is not found."""
    missed = 0
    for mutant in MUTANTS:
        if names and not any(n in mutant.name for n in names):
            continue
        begin = time.monotonic()
        found, count = trial(mutant, seed, modules, limits)
        missed += found is None
        seconds = time.monotonic() - begin
        told = f"{found or 'NOT FOUND'} after {count} modules, {seconds:.0f} s"
        print(f"{mutant.name}: {told}", flush=True)
    return int(missed > 0)
