"""Many calls for a long time: no growth of memory, no drift of results, no deadlock.

    python -m tests.soak --minutes 60 --callers 3 --seed 0

Callers call recorded models and small random modules in random order, children of forks do so too,
and meanwhile new modules are built in the place of old ones. Every result must have the bits that
the first call with those inputs had. Memory is read once a minute; growth counts from the first
quarter of the time on, when everything has been seen once. Before, modules are built until the
compiler's bounded caches of functions are full.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "2")

import numpy as np

import tvm_disc
from tests.fuzz.maker import Maker
from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.errors import DiscError
from tvm_disc.options import Options

MODELS = ("bert", "cnn", "dlrm")
CACHED = 160  # builds of small modules fill the caches of functions, 512 and 1024 of them
SMALL = 12  # random modules that are there at any time
STILL_S = 180.0  # without a step a thread hangs
CHILD_CALLS = 5


@dataclass
class Served:
    """A program, sets of inputs, and the bits of their results."""

    exe: Any
    inputs: list[dict[str, np.ndarray]]
    bits: list[list[bytes]]

    def call(self, rng: random.Random) -> str | None:
        """Call it once; what is wrong with the result."""
        k = rng.randrange(len(self.inputs))
        self.exe.threads = rng.choice((1, 2, 2, 3))
        found = _bits(self.exe(**self.inputs[k]))
        return None if found == self.bits[k] else f"inputs {k}: other bits"


def _bits(out: Any) -> list[bytes]:
    if isinstance(out, tuple | list):
        return [b for o in out for b in _bits(o)]
    return [np.asarray(out if isinstance(out, np.ndarray) else np.from_dlpack(out)).tobytes()]


def recorded(name: str) -> Served:
    """A recorded model with its recorded inputs."""
    module = relay.parse((DATA / "models" / f"{name}.relay").read_text(encoding="utf-8"))
    exe = tvm_disc.build(module, options=Options(threads=3))
    data = np.load(DATA / "models" / f"{name}.npz")
    cases = sorted({k.split(".")[0] for k in data.files})
    inputs = [{n: data[f"{c}.{n}"] for n, _, _ in exe.signature} for c in cases]
    return Served(exe, inputs, [_bits(exe(**i)) for i in inputs])


def small(seed: int) -> Served | None:
    """A random module, if it is one that every call of is defined."""
    case = Maker(seed).make()
    try:
        exe = case.built()
        return Served(exe, case.worlds, [_bits(exe(**w)) for w in case.worlds])
    except (DiscError, MemoryError):
        return None


@dataclass
class Soak:
    """What runs, what it counts and what it found."""

    seed: int
    served: list[Served]
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    ticks: int = 0  # seconds that this process ran: it may have been stopped for a while
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def count(self, what: str) -> None:
        """One more of something, by this thread."""
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            self.steps[threading.current_thread().name] = self.ticks

    def told(self, problem: str | None) -> None:
        """Note what is wrong, if anything is."""
        if problem is not None:
            with self.lock:
                self.wrong.append(problem)

    def calls(self, seed: int) -> None:
        """A caller."""
        rng = random.Random(seed)
        while not self.stop.is_set():
            with self.lock:
                served = rng.choice(self.served)
            self.told(served.call(rng))
            self.count("calls")

    def forks(self, seed: int) -> None:
        """Children that call, one after the other."""
        rng = random.Random(seed)
        while not self.stop.wait(2.0):
            with self.lock:
                served = rng.choice(self.served)
            pid = os.fork()
            if pid == 0:
                problems = [served.call(rng) for _ in range(CHILD_CALLS)]
                os._exit(int(any(problems)))
            status = _waited(pid)
            self.told(None if status == 0 else f"a child of a fork ended with {status}")
            self.count("children")

    def builds(self, seed: int) -> None:
        """New modules in the place of old ones."""
        while not self.stop.is_set():
            seed += 1
            made = small(seed)
            self.count("builds")
            if made is not None:
                with self.lock:
                    self.served.append(made)
                    if len(self.served) > len(MODELS) + SMALL:
                        del self.served[len(MODELS)]
            self.stop.wait(1.0)


def _waited(pid: int) -> int:
    """The status of a child; -1 if it did not end."""
    for _ in range(int(STILL_S / 0.02)):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -1


def resident_bytes() -> int:
    """The memory of this process, what the allocator keeps for later left out."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(
    minutes: float,
    callers: int,
    seed: int,
    build: bool = True,
    tell: Callable[[str], None] = print,
    every_s: float = 60.0,
    before: int = 0,
) -> tuple[Soak, list[tuple[float, int]]]:
    """Run for some minutes after as many builds; what was found, (seconds, bytes) over time."""
    for number in range(before):
        small(seed + 5000 + number)
    begin = time.monotonic()
    made = [s for s in map(small, range(seed, seed + SMALL)) if s is not None]
    state = Soak(seed, [*map(recorded, MODELS), *made])
    works = [(f"caller {k}", state.calls, seed + k) for k in range(callers)]
    works.append(("forks", state.forks, seed + 100))
    if build:
        works.append(("builds", state.builds, seed + 1000))
    threads = [
        threading.Thread(target=work, args=(number,), name=name, daemon=True)
        for name, work, number in works
    ]
    for thread in threads:
        state.steps[thread.name] = 0
        thread.start()
    memory: list[tuple[float, int]] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and not state.wrong:
        _tick(state, min(every_s, max(end - time.monotonic(), 0.1)))
        memory.append((time.monotonic() - begin, resident_bytes()))
        tell(f"{memory[-1][0]:.0f} s, {memory[-1][1] / 1e6:.0f} MB, {state.counts}")
        if problem := _still(state, threads):
            state.wrong.append(problem)
            faulthandler.dump_traceback(all_threads=True)
    state.stop.set()
    for thread in threads:
        thread.join(STILL_S)
    return state, memory


def _tick(state: Soak, seconds: float) -> None:
    """Wait, and count the seconds in which this process was not stopped."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        state.stop.wait(min(1.0, left))
        state.ticks += 1


def _still(state: Soak, threads: Sequence[threading.Thread]) -> str | None:
    """The thread that hangs, or that an error has ended."""
    for thread in threads:
        quiet = state.ticks - state.steps[thread.name]
        if not thread.is_alive():
            return f"{thread.name} has ended with an error"
        if quiet > STILL_S:
            return f"{thread.name} hangs for {quiet} s"
    return None


def growth_bytes(memory: Sequence[tuple[float, int]]) -> int:
    """The least memory of the last quarter, less that of the second."""
    part = len(memory) // 4
    if not part:
        return 0
    return min(m for _, m in memory[-part:]) - min(m for _, m in memory[part : 2 * part])


def main(argv: Sequence[str] | None = None) -> int:
    """Soak from the command line; 1 if anything was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--callers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-builds", action="store_true", help="call what was built at first")
    parser.add_argument("--growth", type=float, default=64, metavar="MB", help="that is too much")
    args = parser.parse_args(argv)
    state, memory = soak(
        args.minutes,
        args.callers,
        args.seed,
        not args.no_builds,
        tell=lambda text: print(text, flush=True),
        every_s=min(60.0, 60 * args.minutes / 12),
        before=0 if args.no_builds else CACHED,
    )
    grown = growth_bytes(memory) / 1e6
    print(f"{state.counts}, grown by {grown:.1f} MB, wrong: {state.wrong[:5] or 'nothing'}")
    return int(bool(state.wrong) or grown > args.growth)


if __name__ == "__main__":
    sys.exit(main())
