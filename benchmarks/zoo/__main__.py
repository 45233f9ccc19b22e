"""Run the zoo: ``python -m benchmarks.zoo [--match TEXT] [--path PATH] [--limit SECONDS]``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATHS = ("onnx", "torch", "compile")
GRACE = 5  # seconds after the limit in which a row can still report its own timeout


def main(argv: Sequence[str] | None = None) -> None:
    """Run rows that have no result yet, or print the table of existing results."""
    parser = argparse.ArgumentParser(prog="benchmarks.zoo", description=__doc__)
    parser.add_argument("--match", default="", help="rows whose names hold one of these, by comma")
    parser.add_argument("--path", choices=PATHS, help="one path only")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a row")
    parser.add_argument("--results", type=Path, default=Path("build/zoo.jsonl"))
    parser.add_argument("--again", nargs="?", const="all", help="run rows of this status again")
    parser.add_argument("--table", action="store_true", help="print what was measured")
    parser.add_argument("--write", action="store_true", help="put it into docs/models.md")
    parser.add_argument("--time", action="store_true", help="beside ONNX Runtime, right rows")
    options = parser.parse_args(argv)
    results = read(options.results)
    if options.table:
        from benchmarks.zoo.table import table

        print(table(list(results.values())))
        return
    if options.write:
        from benchmarks.zoo.table import write as put

        put(list(results.values()), Path("docs/models.md"))
        return
    if options.time:
        from benchmarks.zoo.timing import beside as work
    else:
        from benchmarks.zoo.check import check as work
    from benchmarks.zoo.check import warm
    from benchmarks.zoo.rows import ROWS

    warm()
    words = options.match.split(",")
    chosen = dict.fromkeys(n for w in words for n in ROWS if w in n)
    for name in chosen:
        for path in [options.path] if options.path else PATHS:
            old = results.get((name, path), {})
            if not _due(old, options):
                continue
            record = {
                **(old if options.time else {}),
                **in_child(work, ROWS[name], path, options.limit),
            }
            results[name, path] = record
            write(options.results, record)
            print(
                name, path, record["status"], _short(record), record.get("reason", ""), flush=True
            )


def _due(old: dict[str, Any], options: argparse.Namespace) -> bool:
    if options.time:
        return old.get("status") == "right" and ("ratio" not in old or bool(options.again))
    return not old or options.again in ("all", old["status"])


def _short(record: dict[str, Any]) -> str:
    told = {k: record[k] for k in ("exporter", "export_s", "build_s", "ratio") if k in record}
    return " ".join(f"{k}={v}" for k, v in told.items())


def in_child(work: Any, row: Any, path: str, limit: float) -> dict[str, Any]:
    """Return the record of a row, computed in a child process that may crash or never end."""
    start = time.perf_counter()
    fork = multiprocessing.get_context("fork")  # imports take longer than most rows
    receive, send = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: send.send(work(row, path, limit)))
    child.start()
    send.close()
    record: dict[str, Any] = {"row": row.name, "path": path}
    try:
        if receive.poll(limit + GRACE):
            record = receive.recv()
            child.kill()  # a build beyond its time limit may still run
        else:
            record |= {"status": "slow", "reason": f"not done in {limit:.0f} s"}
            child.kill()
    except EOFError:
        child.join()
        record |= {"status": "crash", "reason": f"exit {child.exitcode}"}
    child.join()
    return record | {"seconds": round(time.perf_counter() - start, 1)}


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the records of a file; the last record of each row and path counts."""
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {(r["row"], r["path"]): r for r in records}


def write(path: Path, record: dict[str, Any]) -> None:
    """Append a record to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
