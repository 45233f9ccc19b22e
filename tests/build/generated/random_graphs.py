"""Random graphs of operators, compiled fused and unfused, against NumPy.

    python -m tests.build.generated.random_graphs --count 2000 --seed 0 --jobs 2

Graphs are made by :mod:`.random_steps`. A campaign runs in processes of its own, so that a program
that crashes is a wrong graph like any other. Every wrong graph is reported when it is found, and
progress once a minute.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

import tvm_disc
from tests.build.generated.random_steps import WORLDS, Graph, Maker
from tests.relay.helpers import run
from tvm_disc import relay
from tvm_disc.options import Options

TOL = 1e-4
GUARD_BYTES, GUARD = 4096, 0xA5
BATCH = 25  # graphs of one process
TELL_S = 60.0  # from one line of progress to the next
LIMIT_S = 600.0  # of one graph: a build that does not end is wrong as well


def check(graph: Graph, function: relay.Function, fuse: bool) -> str | None:
    """What is wrong with a function, compiled; None if nothing."""
    try:
        executable = tvm_disc.build(function, options=Options(fuse=fuse))
    except Exception as error:
        return f"build: {type(error).__name__}: {error}"
    for world in range(len(WORLDS)):
        given = graph.inputs(world)
        inputs = {p.name_hint: given[p.name_hint] for p in function.params}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                wanted = run(function, inputs)
            except (ValueError, IndexError, ZeroDivisionError):
                continue  # such as the maximum of nothing
        try:
            found = executable(**inputs)
        except Exception as error:
            return f"world {world}: {type(error).__name__}: {error}"
        problem = compare(found, wanted) or overrun(executable, inputs, found)
        if problem is not None:
            return f"world {world}: {problem}"
    return None


def compare(found: Any, wanted: Any) -> str | None:
    """How two results differ."""
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for k, (a, b) in enumerate(pairs):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        scale = max(1.0, float(np.nanmax(np.abs(b), initial=0.0))) if b.dtype.kind == "f" else 0
        if not np.allclose(a, b, rtol=TOL if scale else 0, atol=TOL * scale, equal_nan=True):
            worst = np.nanmax(np.abs(a.astype("float64") - b.astype("float64")))
            return f"result {k}: off by {worst}"
    return None


def overrun(executable: Any, inputs: dict[str, np.ndarray], found: Any) -> str | None:
    """The result beyond whose ends the program writes."""
    arrays = found if isinstance(found, tuple) else (found,)
    rooms = [np.full(a.nbytes + 2 * GUARD_BYTES, GUARD, np.uint8) for a in arrays]
    inner = [r[GUARD_BYTES : len(r) - GUARD_BYTES] for r in rooms]
    outs = [i.view(a.dtype).reshape(a.shape) for i, a in zip(inner, arrays, strict=True)]
    executable(**inputs, out=tuple(outs) if isinstance(found, tuple) else outs[0])
    for k, room in enumerate(rooms):
        if (room[:GUARD_BYTES] != GUARD).any() or (room[-GUARD_BYTES:] != GUARD).any():
            return f"result {k}: written beyond its {arrays[k].nbytes} bytes"
    return None


def failure(seed: int) -> str | None:
    """A report of what graph ``seed`` does wrong, made small; None if it is right."""
    graph = Maker(seed).make()
    for fuse in (True, False):
        problem = check(graph, graph.function(), fuse)
        if problem is not None:
            function, problem = smallest(graph, fuse, problem)
            text = relay.astext(function)
            again = f"python -m tests.build.generated.random_graphs --seed {seed} --count 1"
            return f"seed {seed}, fuse={fuse}: {problem}\n{text}\nworlds {WORLDS}\n{again}"
    return None


def smallest(graph: Graph, fuse: bool, problem: str) -> tuple[relay.Function, str]:
    """The first value that fails alone, else the first that fails beside another, else all."""
    computed = [v for v in graph.values if not isinstance(v.expr, relay.Var)]
    pairs = [[a, b] for k, b in enumerate(computed) for a in computed[:k]]
    for values in [*([v] for v in computed), *pairs[:40]]:
        function = graph.function(values)
        found = check(graph, function, fuse)
        if found is not None:
            return function, found
    return graph.function(), problem


# -- campaigns ---------------------------------------------------------------------------------


def work(seeds: Sequence[int], answers: Connection) -> None:
    """Tell the report of every seed, None if it is right."""
    for seed in seeds:
        answers.send((seed, failure(seed)))
    answers.close()


def crashed(seed: int, status: int | None) -> str:
    """The report of a graph whose program ended the process."""
    text = relay.astext(Maker(seed).make().function())
    again = f"python -m tests.build.generated.random_graphs --seed {seed} --count 1"
    limit = f", perhaps for its {LIMIT_S:.0f} s" if status == -9 else ""
    return f"seed {seed}: the process ended with {status}{limit}\n{text}\nworlds {WORLDS}\n{again}"


def campaign(seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, str | None]]:
    """(seed, report) of all graphs, as they are done."""
    todo = [list(seeds[k : k + BATCH]) for k in range(0, len(seeds), BATCH)][::-1]
    running: dict[Connection, tuple[Any, list[int]]] = {}
    heard: dict[Connection, float] = {}
    try:
        while todo or running:
            while todo and len(running) < jobs:
                batch = todo.pop()
                ours, theirs = multiprocessing.Pipe(duplex=False)
                process = multiprocessing.Process(target=work, args=(batch, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours], heard[ours] = (process, batch), time.monotonic()
            for answers in wait(list(running), TELL_S):
                assert isinstance(answers, Connection)
                process, batch = running[answers]
                heard[answers] = time.monotonic()
                try:
                    seed, report = answers.recv()
                    batch.remove(seed)
                    yield seed, report
                except EOFError:
                    process.join()
                    del running[answers]
                    if batch:
                        yield batch[0], crashed(batch[0], process.exitcode)
                        todo.append(batch[1:])
            for answers, (process, _) in running.items():
                if time.monotonic() - heard[answers] > LIMIT_S:
                    process.kill()
    finally:
        for process, _ in running.values():
            process.terminate()


def main() -> int:
    """A campaign from the command line; the exit status tells whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    begin, failures, done = time.monotonic(), 0, 0
    told = begin
    for _, report in campaign(range(options.seed, options.seed + options.count), options.jobs):
        done += 1
        if report is not None:
            failures += 1
            print(report, flush=True)
        now = time.monotonic()
        if now - told > TELL_S:
            told = now
            state = f"{done} of {options.count} graphs, {failures} wrong, {now - begin:.0f} s"
            print(state, file=sys.stderr, flush=True)
        if now - begin > options.seconds:
            break
    print(f"{done} graphs, {failures} wrong, {time.monotonic() - begin:.0f} s")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
