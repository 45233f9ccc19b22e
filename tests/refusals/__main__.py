"""Calls every public function with arguments that it cannot take, and prints what it says.

python -m tests.refusals            # a line of JSON for each, as they are called
python -m tests.refusals --write    # what the test expects from now on
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.refusals.entries import table

KEPT = Path(__file__).with_name("table.json")


def main() -> int:
    """Write or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="functions whose name contains this")
    args = parser.parse_args()
    sys.modules["torch"] = None  # type: ignore[assignment]  # also where it is installed
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # for what writes somewhere
        for label, told in table(args.only):
            found[label] = told
            if not args.write:
                print(json.dumps([label, told]), flush=True)
        os.chdir("/")
    if args.write:
        KEPT.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    raw = [(n, c, m) for n, told in found.items() for c, m in told.items() if m.startswith("RAW")]
    for row in raw:
        print(*row, sep=" | ", file=sys.stderr)
    print(
        f"{len(found)} functions, {sum(map(len, found.values()))} cases, {len(raw)} errors that are"
        " not the package's",
        file=sys.stderr,
    )
    return int(bool(raw))


if __name__ == "__main__":
    sys.exit(main())
