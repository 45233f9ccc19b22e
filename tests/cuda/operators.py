"""Which operators run on a GPU: ``python -m tests.cuda.operators [--part K/N] [--write]``.

Every row of the operator table that compiles for the processor is compiled for a GPU, with the
samples of ``tests/build/test_op_table.py``, and run in the emulator on the same sizes, with threads
in two orders. Where NVRTC is installed, it compiles the same code. What was found is kept line by
line, so that a run that was stopped continues, and one that crashed names the operator;
``--write`` puts the counts into ``docs/cuda.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tvm_disc
from tests.build.cases import COMPILED, calls, check_results, make_case
from tests.cuda import emulator
from tests.sections import Section
from tvm_disc.codegen.cuda import nvrtc
from tvm_disc.errors import DiscError
from tvm_disc.relay.ops.row import OpRow

SECTION = Section("docs/cuda.md", "tests.cuda.operators", "operators")
ORDERS = (0, 5)
ARCHITECTURE = "sm_80"


def run(row: OpRow) -> int:
    """How many combinations of sizes ran right in the emulator; raises what went wrong."""
    with emulator.emulated() as gpu:
        program = tvm_disc.build(make_case(row).function, target="cuda")
        counts = []
        for order in ORDERS:
            gpu.emulated_order(order)
            counts.append(compared(row, program))
        return counts[0]


def compared(row: OpRow, program: Any) -> int:
    """How many combinations of sizes a program of a row ran right; raises what went wrong."""
    count = 0
    for inputs, wanted in calls(row):
        check_results(_here(program, program(*inputs)), wanted)
        count += 1
    return count


def _here(program: Any, out: Any) -> list[Any]:
    """The results of a call; those of one without inputs are still on the device."""
    found = list(out) if isinstance(out, (tuple, list)) else [out]
    fetched = program._main.fetched
    return [v if isinstance(v, np.ndarray) else np.from_dlpack(fetched(v)) for v in found]


def examined(row: OpRow) -> dict[str, Any]:
    """What was found of an operator."""
    begin = time.perf_counter()
    try:
        found: dict[str, Any] = {"ran": run(row)}
        if nvrtc.is_there():
            for source in emulator.sources():
                nvrtc.compile_for(source, ARCHITECTURE)
    except AssertionError as error:
        found = {"wrong": " ".join(str(error).split())[:300]}
    except DiscError as error:
        found = {"refused": str(error)[:300]}
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"[:300]}
    return {"name": row.name, **found, "seconds": round(time.perf_counter() - begin, 2)}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """What an earlier run found; of an operator that was begun and not ended, that it crashed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {r["name"]: r for r in map(json.loads, lines)}


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The section of the document."""
    names = [row.name for row in COMPILED]
    right = [n for n in names if "ran" in found.get(n, {})]
    share = 100 * len(right) / len(names)
    lines = [
        "",
        f"Of {len(names)} operators that compile for the processor, {len(right)} ({share:.1f} %) "
        "run on the emulated GPU with the same samples.",
        "",
    ]
    others = [n for n in found if n in names and n not in right]
    if others:
        lines += ["| operator | what it gives |", "|---|---|"]
        lines += [f"| {n} | {_words(found.get(n, {}))} |" for n in others]
        lines.append("")
    return "\n".join(lines)


def _words(found: Mapping[str, Any]) -> str:
    for kind in ("refused", "wrong", "failed", "crashed"):
        if kind in found:
            return f"{kind}: {found[kind]}".replace("\n", " ").replace("|", "/")
    return "not run"


def missing(rows: Sequence[OpRow], found: Mapping[str, Any]) -> Iterator[OpRow]:
    """What has not been run."""
    return (row for row in rows if row.name not in found)


def _child(rows: Sequence[OpRow], path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        for row in missing(rows, read(path)):
            file.write(json.dumps({"name": row.name, "crashed": "the process ended"}) + "\n")
            file.flush()
            file.write(json.dumps(examined(row)) + "\n")
            file.flush()


def main() -> int:
    """Run what is missing, then show or write the counts; 1 if any result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("build/cuda_operators.jsonl"))
    parser.add_argument("--part", default="1/1", help="K/N: every Nth operator, from the Kth")
    parser.add_argument("--match", default="", help="only operators with this in their name")
    parser.add_argument("--write", action="store_true", help="into docs/cuda.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    rows = [r for r in COMPILED[part - 1 :: parts] if options.match in r.name]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    if options.child:
        _child(rows, options.results)
        return 0
    command = [sys.executable, "-m", "tests.cuda.operators", "--child", *sys.argv[1:]]
    while any(missing(rows, read(options.results))):
        subprocess.run(command, check=False)  # a crash ends the child, not the run
    found = read(options.results)
    text = table(found)
    if options.write:
        SECTION.write(text.removesuffix("\n"))
    else:
        print(text)
    return int(any(k in found[r.name] for r in rows for k in ("wrong", "failed", "crashed")))


if __name__ == "__main__":
    sys.exit(main())
