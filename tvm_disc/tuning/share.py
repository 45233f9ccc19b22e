"""Distributes jobs over machines, one job at a time for each machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Machine = TypeVar("Machine")
Job = TypeVar("Job")
Result = TypeVar("Result")


def shared_out(
    jobs: Sequence[Job],
    machines: Sequence[Machine],
    run: Callable[[Machine, Job], Result],
    late: Callable[[], bool],
) -> Iterator[tuple[Job, Result]]:
    """Yield (job, result) in the order in which jobs finish.

    No job is started after ``late()`` has returned True.
    """
    if len(machines) == 1:
        for job in jobs:
            if late():
                return
            yield job, run(machines[0], job)
        return
    waiting, free = list(reversed(jobs)), list(machines)
    running: dict[Future[Result], tuple[Job, Machine]] = {}
    with ThreadPoolExecutor(len(machines)) as pool:
        while running or (waiting and not late()):
            while waiting and free and not late():
                job, machine = waiting.pop(), free.pop()
                running[pool.submit(run, machine, job)] = (job, machine)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, machine = running.pop(future)
                free.append(machine)
                yield job, future.result()


__all__ = ["shared_out"]
