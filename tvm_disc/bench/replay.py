"""``tvm-disc replay LIBRARY calls.npz``: run recorded calls, compare their results, time them."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import BadInput, counted
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.observed.comparison import check_tolerance, compared
from tvm_disc.runtime.observed.recording import RecordedCall, arrays_of, read_calls

Load: TypeAlias = "Callable[[argparse.Namespace], Executable]"

DIFFERS = 1  # exit code if results differ


def add(
    commands: Any, model_arguments: Callable[[argparse.ArgumentParser, str], None], load: Load
) -> None:
    """Add the command; model arguments and loading are shared with other commands."""
    replay = commands.add_parser("replay", help="run recorded calls, compare and time them")
    model_arguments(replay, "a program saved by `tvm-disc build` (.so), or a model")
    replay.add_argument("calls", type=Path, help="calls that Executable.record wrote (.npz)")
    replay.add_argument(
        "--level", metavar="CPU", help="the target to run, if the program has code for several"
    )
    replay.add_argument(
        "--repeat", type=int, default=5, metavar="N", help="timed calls, after one to warm up (5)"
    )
    replay.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        metavar="T",
        help="accepted difference, relative to the largest element (1e-4)",
    )
    replay.set_defaults(command=lambda args: _replay(args, load(args)))


def _replay(args: argparse.Namespace, exe: Executable) -> None:
    if args.repeat < 1:
        raise BadInput(f"--repeat: expected at least 1, found {args.repeat}")
    tolerance = check_tolerance(args.tolerance)
    wrong, recorded, now, count = 0, 0.0, 0.0, 0
    for number, call in enumerate(read_calls(args.calls)):
        _check_names(exe, call, args.calls)
        seconds = statistics.median(_times(exe, call, args.repeat))
        shapes = ", ".join(f"{n} {_shape(a.shape)}" for n, a in call.inputs.items())
        said = "results not recorded"
        if call.results is not None:
            found = compared("recorded", _results(exe, call), call.results, tolerance)
            wrong += not found.equal or found.error is None
            said = str(found).removeprefix("recorded: ")
        times = f"{1e6 * seconds:.1f} us, recorded {1e6 * call.seconds:.1f} us"
        print(f"call {number}: {shapes}: {said}; {times}")
        recorded, now, count = recorded + call.seconds, now + seconds, count + 1
    print(
        f"{counted(count, 'call')}, {wrong} with other results; {1e3 * now:.3f} ms, "
        f"recorded {1e3 * recorded:.3f} ms"
    )
    if wrong:
        sys.exit(DIFFERS)


def _check_names(exe: Executable, call: RecordedCall, path: Path) -> None:
    names = [name for name, _, _ in exe.signature]
    if list(call.inputs) != names:
        raise BadInput(
            f"{path}: expected calls with the inputs {', '.join(names)}, found "
            f"{', '.join(call.inputs)}; they were recorded from another program"
        )


def _results(exe: Executable, call: RecordedCall) -> list[Any]:
    return list(arrays_of(exe.on_tensors([a.copy() for a in call.inputs.values()])))


def _times(exe: Executable, call: RecordedCall, repeat: int) -> Iterator[float]:
    bound = exe.bind(**{n: a.copy() for n, a in call.inputs.items()})
    bound()
    for _ in range(repeat):
        start = time.perf_counter()
        bound()
        yield time.perf_counter() - start


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


__all__ = ["add"]
