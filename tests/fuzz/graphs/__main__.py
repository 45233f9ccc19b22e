"""Random ONNX graphs with dynamic dims, compiled once each, against ONNX's evaluator and Runtime.

python -m tests.fuzz.graphs --graphs 500 --seed 0 --time 600
python -m tests.fuzz.graphs --show 17       # one graph as text, and what is wrong with it
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

import onnx

os.environ.setdefault("TVM_NUM_THREADS", "2")

from tests.fuzz.children import Limits, run
from tests.fuzz.graphs import shrink
from tests.fuzz.graphs.control import STEPS
from tests.fuzz.graphs.draws import campaign
from tests.fuzz.graphs.judge import judge
from tests.fuzz.graphs.maker import Case, Maker
from tests.fuzz.graphs.shrink import smallest
from tests.fuzz.warm import warm
from tests.quick_code import quick_target

LIMITS = Limits(cpu_s=120)


def main() -> int:
    """Judge graphs of some seeds; 1 if anything was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=float, default=1e9)
    parser.add_argument("--length", type=int)
    parser.add_argument("--show", type=int)
    parser.add_argument("--small", type=int, nargs="+", metavar="SEED", help="make these small")
    parser.add_argument("--full", action="store_true", help="with LLVM's optimizations")
    args = parser.parse_args()
    if not args.full:
        os.environ["DISC_TARGET"] = quick_target()
    warm()
    if args.show is not None:
        case = Maker(args.show).make(STEPS, args.length)
        print(onnx.printer.to_text(case.model))
        print(judged(case))
        return 0
    if args.small is not None:
        for seed in args.small:
            case = Maker(seed).make(STEPS, args.length)
            found = judged(case)
            if found is not None:
                case = smallest(case, lambda c, kind=found[0]: (judged(c) or [""])[0] == kind)
                print(f"seed {seed}\n{shrink.text(case)}")
            print(judged(case), flush=True)
        return 0
    used: Counter[str] = Counter()

    def one(seed: int) -> tuple[str, str] | None:
        case = Maker(seed).make(STEPS, args.length)
        used.update(case.log)
        return judged(case)

    kinds = campaign(range(args.seed, args.seed + args.graphs), args.time, "graphs", one)
    print(sorted(used.items(), key=lambda item: item[1]))
    return int(set(kinds) != {"right"})


def judged(case: Case) -> tuple[str, str] | None:
    """What is wrong with a case, found in a process of its own."""
    child = run(lambda tell: judge(case, tell), LIMITS)
    if child.end:
        return child.end, f"while: {child.stage}"
    return tuple(child.answer) if child.answer else None


if __name__ == "__main__":
    sys.exit(main())
