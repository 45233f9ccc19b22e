"""Recorded models and the operator table on a real GPU: ``python -m tests.cuda.on_gpu``.

Nothing is emulated: NVRTC compiles, the machine's driver runs. Exit code 1 if any result is wrong,
2 if there is no GPU, or no NVRTC. For NVIDIA's checkers:

    compute-sanitizer --tool memcheck python -m tests.cuda.on_gpu --match models/bert
    compute-sanitizer --tool racecheck python -m tests.cuda.on_gpu --match models/bert
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import tvm_disc
from tests.build.cases import COMPILED, make_case
from tests.cuda.operators import compared
from tests.cuda.recorded import RECORDED, Recorded, compare
from tests.models import mlp
from tvm_disc.errors import DeviceError, DiscError
from tvm_disc.relay.ops.row import OpRow

EVERY = 1 << 30


def checks() -> Iterator[tuple[str, Callable[[str], None]]]:
    """What there is to run, by name."""
    for recorded in RECORDED:
        yield recorded.name, _model(recorded)
    for row in COMPILED:
        yield f"operator {row.name}", _operator(row)


def _model(recorded: Recorded) -> Callable[[str], None]:
    def run(target: str) -> None:
        program = tvm_disc.build(recorded.module(), params=recorded.params(), target=target)
        compare(recorded, program, EVERY)

    return run


def _operator(row: OpRow) -> Callable[[str], None]:
    def run(target: str) -> None:
        compared(row, tvm_disc.build(make_case(row).function, target=target))

    return run


def missing(target: str) -> str:
    """Why nothing can run here; empty if something can."""
    import numpy as np

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
    options = parser.parse_args()
    if why := missing(options.target):
        print(f"nothing was run: {why}", file=sys.stderr)
        return 2
    wrong = 0
    for name, run in checks():
        if options.match not in name:
            continue
        try:
            run(options.target)
        except Exception as error:
            wrong += 1
            print(f"wrong  {name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        else:
            print(f"right  {name}", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
