"""Measure the solver's queries in a deep encoder, or in any command that builds programs.

python benchmarks/shape_queries.py [layers]
python benchmarks/shape_queries.py --of MODULE [ARGUMENT...]

The second form runs a module as ``python -m`` does and prints its slowest queries, for example
``--of tvm_disc build model.onnx`` or ``--of pytest -n 0 tests/build``. Python's garbage collector
is off during a query, because its pauses depend on all objects of the process. If DISC_QUERIES is
the name of a file, every process, including forked children, appends its queries above 0.1 s to the
file; in pytest with the name of the test. Commands that fork, such as ``--of tests.fuzz``, require
it.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm import tirx

from tvm_disc.shape import Solver
from tvm_disc.shape.budget import Budget

SHOWN = 10
SLOW_S = 0.1


def main(layers: int) -> None:
    solver = Solver()
    b, s = solver.symbol("b"), solver.symbol("s")
    solver.assume("1 <= s <= 512", "user")
    times: list[float] = []

    def timed(question: object, *args: object) -> None:
        began = time.process_time()
        question(*args)  # type: ignore[operator]
        times.append(time.process_time() - began)

    began = time.process_time()
    for _ in range(layers):
        rows, heads = solver.symbol("rows"), solver.symbol("heads")
        timed(solver.assume_eq, rows, b * s, "flatten")
        timed(solver.assume_eq, heads, b * 12, "split")
        for _ in range(100):
            timed(solver.known_same_elements, [rows, 768], [b, s, 12, 64])
            timed(solver.known_same_elements, [heads, s, 64], [b, 12, s, 64])
            timed(solver.known_eq, rows * 768 // 768, b * s)
            timed(solver.known_le, tirx.min(s, 512), s)
            timed(solver.known_eq, s, b)
            timed(solver.simplify, heads * s * 64)
            timed(solver.known_divides, 64, rows * 768)
            timed(solver.range_of, tirx.min(s, 512))
    seconds = time.process_time() - began
    times.sort()
    print(
        f"{layers} layers: {len(times)} questions in {seconds:.2f} s of processor time; "
        f"median {1e6 * times[len(times) // 2]:.0f} us, "
        f"99 % {1e6 * times[int(len(times) * 0.99)]:.0f} us, worst {1e3 * times[-1]:.2f} ms; "
        f"{solver.steps} proof steps"
    )


class Queries:
    """The slowest outermost queries of this process: (CPU seconds, units, method)."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.slowest: list[tuple[float, int, str]] = []
        self._began: dict[Budget, float] = {}

    def watch(self) -> None:
        """Measure every query from now on."""
        enter, leave = Budget.__enter__, Budget.__exit__

        def begin(budget: Budget) -> Budget:
            if budget not in self._began:
                gc.disable()
                self._began[budget] = time.thread_time()
            return enter(budget)

        def end(budget: Budget, *error: Any) -> None:
            outermost, units = budget.outermost, budget.limit - budget.left
            leave(budget, *error)
            if outermost:
                method = sys._getframe(1).f_locals.get("method")
                self._add(time.thread_time() - self._began.pop(budget), units, method)
                gc.enable()

        Budget.__enter__, Budget.__exit__ = begin, end  # type: ignore[method-assign]

    def _add(self, seconds: float, units: int, method: Any) -> None:
        self.count += 1
        self.seconds += seconds
        row = seconds, units, str(getattr(method, "__name__", "?"))
        self.slowest = sorted([*self.slowest, row], reverse=True)[:SHOWN]
        if seconds > SLOW_S and "DISC_QUERIES" in os.environ:
            frames = traceback.extract_stack()[-14:-3]
            callers = " ".join(f"{Path(f.filename).stem}.{f.name}:{f.lineno}" for f in frames)
            line = (
                f"{seconds:.3f} {units} {row[2]} {os.environ.get('PYTEST_CURRENT_TEST')} {callers}"
            )
            with open(os.environ["DISC_QUERIES"], "a") as file:
                file.write(line + "\n")

    def report(self) -> None:
        """Print the totals and the slowest queries."""
        print(f"{self.count} queries in {self.seconds:.2f} s of processor time; the slowest:")
        for seconds, units, method in self.slowest:
            print(f"  {1e3 * seconds:7.2f} ms  {units:6d} units  {method}", flush=True)


def watched(module: str, arguments: Sequence[str]) -> None:
    """Run a module with its queries measured."""
    queries = Queries()
    queries.watch()
    atexit.register(queries.report)  # also after `sys.exit`
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of"]:
        watched(sys.argv[2], sys.argv[3:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
