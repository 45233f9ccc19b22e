"""ONNX's own backend node tests, compiled and called, as given and with every input dim dynamic.

The modes: `given`; `dynamic`, where every dim of the inputs is any and nothing is said of results;
`declared`, the same but for the ranks of results: what does not pass as dynamic is run so too.

python -m tests.frontends.onnx.backend                     # cases without a result yet, both ways
python -m tests.frontends.onnx.backend --mode dynamic --match resize,topk --limit 60
python -m tests.frontends.onnx.backend --mode declared     # what does not pass as dynamic
python -m tests.frontends.onnx.backend --again refused     # those that were refused, again
python -m tests.frontends.onnx.backend --table             # what was found so far

Each case runs in a child process, with a limit of processor time, and leaves a line in
`build/onnx_backend.jsonl`: a run that was stopped goes on where it was. Cases that train or hold
text are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

from tests.frontends.onnx.backend.cases import MODES, collected, kind, left_out
from tests.frontends.onnx.backend.judge import judge, reason_class
from tests.fuzz.children import Child, Limits, start, wait
from tests.fuzz.warm import warm

USUAL = ("given", "dynamic")
STATUSES = ("passed", "refused", "wrong", "raw", "crash", "slow")
Records = dict[tuple[str, str], dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is due, and print the table; 1 if anything is wrong or ends in a raw error."""
    parser = argparse.ArgumentParser(
        prog="tests.frontends.onnx.backend",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mode", choices=MODES, help="one alone")
    parser.add_argument("--match", default="", help="names that hold one of these, by comma")
    parser.add_argument("--without", default="", metavar="TEXT", help="and hold none of these")
    parser.add_argument("--names", default="", help="just these, by comma")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th case")
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="of CPU, per stage")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("build/onnx_backend.jsonl"))
    parser.add_argument("--again", metavar="STATUS", help="run these again, or all")
    parser.add_argument("--table", action="store_true", help="run nothing")
    args = parser.parse_args(argv)
    cases = {n: c for n, c in sorted(collected().items()) if not left_out(c)}
    records = read(args.results)
    chosen = _chosen(args, list(cases))
    if not args.table:
        warm()
        due = [key for key in _both(args, chosen) if _due(records, key, args.again)]
        for (name, mode), record in run(cases, due, args.jobs, Limits(args.limit)):
            records[name, mode] = record | {"case": name, "mode": mode, "kind": kind(cases[name])}
            write(args.results, records[name, mode])
            print(name, mode, record["status"], record.get("reason", ""), flush=True)
    shown = {key: records[key] for key in _both(args, chosen) if key in records}
    print(table(shown))
    return int(any(r["status"] in ("wrong", "raw", "crash") for r in shown.values()))


def _chosen(args: argparse.Namespace, names: list[str]) -> list[str]:
    exact = [n for n in args.names.split(",") if n]
    words, not_these = args.match.split(","), [w for w in args.without.split(",") if w]
    names = [n for n in names if n in exact] if exact else names
    names = [n for n in names if any(w in n for w in words)]
    return [n for n in names if not any(w in n for w in not_these)][:: args.every]


def _both(args: argparse.Namespace, names: list[str]) -> list[tuple[str, str]]:
    return [(n, m) for m in ([args.mode] if args.mode else USUAL) for n in names]


def _due(records: Records, key: tuple[str, str], again: str | None) -> bool:
    """Whether there is no result yet, or one that is wanted again.

    A declared rank changes nothing of what passes without one.
    """
    (name, mode), old = key, records.get(key)
    if mode == "declared" and records.get((name, "dynamic"), {}).get("status") == "passed":
        return False
    return old is None or again == "all" or old["status"] in (again or "").split(",")


def run(
    cases: dict[str, Any], due: list[tuple[str, str]], jobs: int, limits: Limits
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """The records of cases, as they end."""
    todo, running = list(reversed(due)), dict[tuple[str, str], Child]()
    while todo or running:
        while todo and len(running) < jobs:
            name, mode = todo.pop()
            running[name, mode] = start(
                lambda tell, c=cases[name], m=mode: judge(c, m, tell), limits
            )
        wait(list(running.values()))
        for key, child in list(running.items()):
            if not child.look():
                del running[key]
                yield key, child.answer if child.done else _ended(child)


def _ended(child: Child) -> dict[str, Any]:
    slow = child.end.startswith("no end")
    return {"status": "slow" if slow else "crash", "reason": child.end}


def read(path: Path) -> Records:
    """The records of a file, the last of each case and mode."""
    if not path.exists():
        return {}
    found = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(r["case"], r["mode"]): r for r in found}


def write(path: Path, record: dict[str, Any]) -> None:
    """One record more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def table(records: Records) -> str:
    """How many cases of each kind have each status, and the reasons of those that do not pass."""
    head = ["mode", "cases of", "cases", *STATUSES, "passed %"]
    lines = [_line(head), _line(["---"] * len(head))]
    for mode in MODES:
        mine = [r for (_, m), r in records.items() if m == mode]
        kinds = sorted({r["kind"] for r in mine}, reverse=True)
        lines += [_line(_row(mode, k, [r for r in mine if r["kind"] == k])) for k in kinds]
        if len(kinds) > 1:
            lines.append(_line(_row(mode, "all", mine)))
    for mode in MODES:
        lines += _reasons(mode, records)
    return "\n".join(lines)


def _row(mode: str, what: str, records: list[dict[str, Any]]) -> list[str]:
    counts = Counter(r["status"] for r in records)
    share = 100 * counts["passed"] / max(len(records), 1)
    numbers = [len(records), *(counts[s] for s in STATUSES)]
    return [mode, what, *map(str, numbers), f"{share:.1f}"]


def _reasons(mode: str, records: Records) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for (name, m), r in records.items():
        if m == mode and r["status"] != "passed":
            found.setdefault((r["status"], reason_class(r)), []).append(name)
    if not found:
        return []
    lines = ["", _line([f"{mode}: status", "cases", "reason", "such as"]), _line(["---"] * 4)]
    for (status, reason), names in sorted(found.items(), key=lambda i: (-len(i[1]), i[0])):
        safe = reason.replace("|", "\\|").replace("<", "&lt;")
        lines.append(_line([status, str(len(names)), safe, ", ".join(names[:3])]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
