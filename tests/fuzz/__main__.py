"""Random modules of the whole operator table, compiled and called, against NumPy.

python -m tests.fuzz --modules 2000 --seed 0 --jobs 2 --keep findings
python -m tests.fuzz --show 17             # one module as text, and what is wrong with it
python -m tests.fuzz --replay findings     # kept cases again
python -m tests.fuzz --mutants             # what campaigns find where a mending is taken out
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", "2")

from tests.fuzz import campaign, mutants
from tests.fuzz.case import kept
from tests.fuzz.children import Limits
from tests.fuzz.maker import Maker
from tests.fuzz.rows import ROWS
from tests.fuzz.warm import warm
from tests.quick_code import quick_target
from tvm_disc.relay.ops.row import OpRow


def main(argv: Sequence[str] | None = None) -> int:
    """A campaign, or one of its parts; 1 if anything was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first module")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time", type=float, default=1e9, metavar="S", help="start none later")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write small cases of findings")
    parser.add_argument("--ops", nargs="+", metavar="NAME", help="of these operators alone")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="of CPU, per stage")
    parser.add_argument("--first", action="store_true", help="stop there, tell it as JSON")
    parser.add_argument("--refused", action="store_true", help="tell which variations are refused")
    parser.add_argument("--quick", action="store_true", help="code that LLVM does not optimise")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--replay", type=Path, metavar="DIR")
    parser.add_argument("--mutants", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    table = [r for r in ROWS if args.ops is None or r.name in args.ops]
    limits = Limits(args.limit)
    if args.quick:
        os.environ["DISC_TARGET"] = quick_target()
    warm()
    if args.replay is not None:
        return replay(args.replay)
    if args.show is not None:
        case = Maker(args.show, table).make()
        print(case.text, case.constraints, case.options)
        print(campaign.judged(case, limits))
        return 0
    if args.mutants is not None:
        return mutants.main(args.mutants, args.seed, args.modules, limits)
    seeds = range(args.seed, args.seed + args.modules)
    if args.first:
        return first(seeds, table, limits)
    report = campaign.collect(
        seeds, args.jobs, args.time, args.keep, lambda t: print(t, flush=True), table, limits
    )
    print(report)
    if args.refused:
        print(report.refused())
    unused = sorted({r.name for r in table} - set(report.operators))
    print(f"operators in no module: {', '.join(unused) or 'none'}")
    return int(bool(report.findings))


def first(seeds: Sequence[int], table: Sequence[OpRow], limits: Limits) -> int:
    """The first finding, and the seed of its module."""
    seed = seeds[0]
    for seed, finding, _ in campaign.campaign(seeds, 1, table, limits):
        if finding is not None and finding.counts:
            print(json.dumps({"seed": seed, "kind": finding.kind}))
            return 1
    print(json.dumps({"seed": seed, "kind": None}))
    return 0


def replay(folder: Path) -> int:
    """Judge every kept case."""
    wrong = 0
    for name, case in kept(folder).items():
        finding = campaign.judged(case)
        bad = finding is not None and finding.counts
        wrong += bad
        print(f"{name}: {finding if bad else 'right'}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
