"""Recorded models and the operator table on a real GPU: ``python -m tests.cuda.on_gpu``.

Nothing is emulated: NVRTC compiles, the machine's driver runs. Free device memory is filled with
NaN before every call. Exit code 1 if any result is wrong, 2 if there is no GPU, or no NVRTC, 3 if a
failure has made the context unusable: then ``--after NAME`` continues in another process. For
NVIDIA's checkers:

    compute-sanitizer --tool memcheck python -m tests.cuda.on_gpu --match models/bert
    compute-sanitizer --tool racecheck python -m tests.cuda.on_gpu --match models/bert
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tvm_disc
from tests.build.cases import COMPILED, make_case
from tests.cuda.first_hour.poison import poison
from tests.cuda.operators import compared
from tests.cuda.recorded import RECORDED, Recorded, compare
from tests.models import mlp
from tvm_disc.errors import DeviceError, DiscError
from tvm_disc.relay.ops.row import OpRow

EVERY = 1 << 30
WRONG, NOTHING, BROKEN = 1, 2, 3


class Poisoned:
    """A program whose calls find the device's free memory full of NaN."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._main = program._main

    def __call__(self, *inputs: Any) -> Any:
        poison().fill()
        return self._program(*inputs)


def checks(calls: int) -> Iterator[tuple[str, Callable[[str], None]]]:
    """What there is to run, by name; of a recorded model as many calls, the smallest first."""
    for recorded in RECORDED:
        yield recorded.name, _model(recorded, calls)
    for row in COMPILED:
        yield f"operator {row.name}", _operator(row)


def _model(recorded: Recorded, calls: int) -> Callable[[str], None]:
    def run(target: str) -> None:
        program = tvm_disc.build(recorded.module(), params=recorded.params(), target=target)
        compare(recorded, Poisoned(program), calls)

    return run


def _operator(row: OpRow) -> Callable[[str], None]:
    def run(target: str) -> None:
        compared(row, Poisoned(tvm_disc.build(make_case(row).function, target=target)))

    return run


def missing(target: str) -> str:
    """Why nothing can run here; empty if something can."""
    try:
        tvm_disc.build(mlp(), target=target)(np.zeros((1, 16), "float32"))
    except (DeviceError, DiscError) as error:
        return str(error)
    return ""


def main() -> int:
    """Run all that match."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--match", default="", help="only what has this in its name")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth, from the Kth")
    parser.add_argument("--after", default="", help="begin after the one of this name")
    parser.add_argument("--calls", type=int, default=EVERY, help="of each recorded model")
    options = parser.parse_args()
    if why := missing(options.target):
        print(f"nothing was run: {why}", file=sys.stderr)
        return NOTHING
    part, parts = map(int, options.part.split("/"))
    named = [(n, run) for n, run in checks(options.calls) if options.match in n]
    mine = named[part - 1 :: parts]
    if options.after:
        mine = list(itertools.dropwhile(lambda c: c[0] != options.after, mine))[1:]
    wrong = 0
    for name, run in mine:
        print(f"begin  {name}", flush=True)
        try:
            run(options.target)
        except Exception as error:
            wrong += 1
            text = " ".join(str(error).split())[:1000]
            print(f"wrong  {name}: {type(error).__name__}: {text}", flush=True)
            if missing(options.target):
                return BROKEN
        else:
            print(f"right  {name}", flush=True)
    print(f"{wrong} wrong")
    return WRONG if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
