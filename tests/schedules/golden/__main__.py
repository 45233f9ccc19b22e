"""``python -m tests.schedules.golden [--write]``: list the texts that differ, or write them."""

from __future__ import annotations

import argparse
import sys

from tests.schedules.golden.cases import CASES, FOLDER, path, text


def main() -> int:
    """Print what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write every text anew")
    args = parser.parse_args()
    known = {path(case): text(case) for case in CASES}
    gone = set(FOLDER.glob("*.tir")) - set(known)
    stale = {p for p, now in known.items() if not p.is_file() or p.read_text() != now}
    for file in sorted(stale | gone):
        print(file.relative_to(FOLDER))
        if not args.write:
            continue
        if file in gone:
            file.unlink()
        else:
            file.write_text(known[file])
    return int(bool(stale | gone) and not args.write)


if __name__ == "__main__":
    sys.exit(main())
