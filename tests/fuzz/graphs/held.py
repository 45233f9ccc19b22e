"""Random programs with caches, which states hold or calls donate, beside numpy.

python -m tests.fuzz.graphs.held --programs 200 --seed 0 --time 600

Each program is compiled twice: with caches in states, and with donated caches. Random walks then
call both. All numbers are small integers, so that results must be equal.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tvm_disc
from tests.fuzz.children import Limits, run
from tests.fuzz.graphs.draws import Draws, campaign
from tests.fuzz.judge import place
from tests.fuzz.warm import warm
from tests.quick_code import quick_target
from tvm_disc import relay
from tvm_disc.errors import DiscError

LIMITS = Limits(cpu_s=240)
SIZES = (0, 1, 1, 1, 2, 3, 7, 33, 130)
LIMIT = 50  # a call is refused if the element of its input ``check`` is not below
Array = np.ndarray[Any, Any]

# For each step on new rows: in Relay, and in numpy.
STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "negative": (relay.negative, np.negative),
    "abs": (relay.abs, np.abs),
    "twice": (lambda x: relay.add(x, x), lambda x: x + x),
    "square": (lambda x: relay.multiply(x, x), lambda x: x * x),
}
READERS = ("sum", "all", "part", "old")


@dataclass
class Cache:
    """A cache, its update, and what the program returns of it."""

    name: str
    dims: list[int]
    axis: int
    dtype: str
    slots: int  # 0 if the cache grows
    how: str
    steps: list[str]
    readers: list[str]

    @property
    def empty(self) -> Array:
        dims = list(self.dims)
        dims[self.axis] = self.slots
        return np.zeros(dims, self.dtype)

    def updated(self, past: Array, new: Array, at: Array | None) -> Array:
        for step in self.steps:
            new = STEPS[step][1](new).astype(self.dtype)
        if at is None:
            return np.concatenate([past, new], self.axis)
        now = np.moveaxis(past.copy(), self.axis, 0)
        rows = np.moveaxis(new, self.axis, 0)
        for row, places in zip(rows, np.moveaxis(at, self.axis, 0), strict=True):
            for rest in np.ndindex(*row.shape):
                target = (int(places[rest]), *rest)
                now[target] = row[rest] + (now[target] if self.how == "add" else 0)
        return np.moveaxis(now, 0, self.axis)

    def read(self, past: Array, now: Array) -> list[Array]:
        part = np.take(now, range(now.shape[self.axis])[-2:], self.axis)
        found = {
            "sum": now.sum(self.axis, dtype=self.dtype),
            "all": now + np.ones((), self.dtype),
            "part": part,
            "old": past.sum(self.axis, dtype=self.dtype),
        }
        return [found[r] for r in self.readers]


@dataclass
class Program:
    """Some caches; the last result of a program tests the input ``check``."""

    draws: Draws
    caches: list[Cache] = field(default_factory=list)

    def relay(self) -> relay.Function:
        params, results, nows = [], [], []
        check = relay.var("check", shape=(relay.Any(),), dtype="int64")
        total = relay.sum(check)
        limits = relay.const(0, "int64"), relay.const(LIMIT, "int64")
        inside = relay.op.get("assert_inside")
        attrs = {"what": "check", "default": True, "always": True}
        results.append(relay.Call(inside, [total, *limits], attrs=attrs))
        for c in self.caches:
            shape: list[Any] = list(c.dims)
            shape[c.axis] = relay.Any()
            fixed = list(c.dims)
            fixed[c.axis] = c.slots
            past = relay.var(f"past_{c.name}", shape=fixed if c.slots else shape, dtype=c.dtype)
            new = relay.var(f"new_{c.name}", shape=shape, dtype=c.dtype)
            rows = new
            for step in c.steps:
                rows = STEPS[step][0](rows)
            params += [past, new]
            if c.slots:
                at = relay.var(f"at_{c.name}", shape=shape, dtype="int64")
                params.append(at)
                now = relay.scatter_elements(past, at, rows, axis=c.axis, reduction=c.how)
            else:
                now = relay.concatenate([past, rows], axis=c.axis)
            last = {"begin": [-2], "end": [2**31 - 1], "strides": [1], "axes": [c.axis]}
            made = {
                "sum": lambda c=c, now=now: relay.sum(now, axis=c.axis),
                "all": lambda c=c, now=now: relay.add(now, relay.const(1, c.dtype)),
                "part": lambda now=now, last=last: relay.strided_slice(now, **last),
                "old": lambda c=c, past=past: relay.sum(past, axis=c.axis),
            }
            results += [made[r]() for r in c.readers]
            nows.append(now)
        return relay.Function([check, *params], relay.Tuple([*results, *nows]))

    def given(self, draws: Draws) -> dict[str, Array]:
        """Inputs of a call other than the caches; some are views or shared."""
        found = {"check": draws.rng.integers(0, 5, 3)}
        for c in self.caches:
            dims = list(c.dims)
            dims[c.axis] = count = draws.pick(SIZES)
            new = draws.rng.integers(-3, 4, dims).astype(c.dtype)
            kind = draws.rng.integers(5)
            if kind == 0:  # not contiguous
                new = np.repeat(new, 2, -1)[..., ::2]
            elif kind == 1:  # read backwards
                new = new[::-1]
            same = [v for n, v in found.items() if n[:3] == "new" and v.dtype == new.dtype]
            same = [v for v in same if v.shape == new.shape]
            found[f"new_{c.name}"] = same[0] if same and kind == 2 else new
            if c.slots:
                line = draws.rng.permutation(c.slots)
                line = draws.rng.integers(0, c.slots, count) if count > c.slots else line[:count]
                shape = [1] * len(dims)
                shape[c.axis] = count
                found[f"at_{c.name}"] = np.broadcast_to(line.reshape(shape), dims)
        return found

    def wanted(self, pasts: list[Array], given: dict[str, Array]) -> tuple[list[Array], ...]:
        results, nows = [np.array(given["check"].sum())], []
        for c, past in zip(self.caches, pasts, strict=True):
            now = c.updated(past, given[f"new_{c.name}"], given.get(f"at_{c.name}"))
            results += c.read(past, now)
            nows.append(now)
        return results, nows


def make(seed: int) -> Program:
    """The program of a seed."""
    draws = Draws(seed)
    program = Program(draws)
    for k in range(int(draws.rng.integers(1, 4))):
        rank = int(draws.rng.integers(1, 4))
        fixed = draws.chance(0.4)
        slots = draws.pick((1, 5, 37)) if fixed else 0
        # A view of all rows would be the updated cache, which may be returned only once.
        refused = {0: (), 1: ("old", "part")}.get(slots, ("old",))
        readers = [r for r in READERS if draws.chance(0.5) and r not in refused]
        program.caches.append(
            Cache(
                name=f"c{k}",
                dims=[draws.pick((1, 2, 3, 5)) for _ in range(rank)],
                axis=int(draws.rng.integers(rank)),
                dtype=draws.pick(("float32", "int64", "int32")),
                slots=slots,
                how=draws.pick(("update", "add")),
                steps=[draws.pick(list(STEPS)) for _ in range(int(draws.rng.integers(3)))],
                readers=readers,
            )
        )
    return program


class Wrong(Exception):
    """A result, a cache or an array of the caller differs from numpy's."""


def expect(found: Any, wanted: Array, what: str) -> None:
    found = np.asarray(found)
    if found.shape != wanted.shape or not np.array_equal(found, wanted):
        raise Wrong(f"{what}: found {found.dtype}{found.shape}, expected {wanted.shape}")


def broken(draws: Draws, given: dict[str, Array]) -> dict[str, Array]:
    """The inputs of a call that is refused: by the check of numbers, a rank or a dtype."""
    kind, name = draws.rng.integers(3), draws.pick(list(given))
    if kind == 0:
        return {**given, "check": np.full(3, LIMIT)}
    if kind == 1:
        return {**given, name: given[name][None]}
    return {**given, name: given[name].astype("complex64")}


def listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


class Kept:
    """Arrays that later calls must not change, with copies of them."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Array]] = []

    def add(self, arrays: list[Any]) -> None:
        self.pairs = [*self.pairs, *((a, np.array(a)) for a in arrays)][-30:]

    def check(self, donated: Sequence[Array] = ()) -> None:
        """Compare all that share no memory with arrays that the last call might write."""
        written = [a for a in donated if isinstance(a, np.ndarray)]
        self.pairs = [
            (a, b) for a, b in self.pairs if not any(np.shares_memory(a, w) for w in written)
        ]
        for array, copy in self.pairs:
            expect(array, copy, "an array of an earlier call")


def walk_states(program: Program, exe: Any, seed: int, steps: int) -> None:
    """Call, fork, cut and reset states at random, beside numpy."""
    draws, kept = Draws(seed), Kept()
    pairs = [(exe.state(), [c.empty for c in program.caches])]
    for _ in range(steps):
        at = int(draws.rng.integers(len(pairs)))
        state, pasts = pairs[at]
        action = draws.rng.random()
        given = program.given(draws)
        if action < 0.6:
            wanted, nows = program.wanted(pasts, given)
            copies = [a.copy() for a in given.values()]
            found = listed(state(**given))
            for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
                expect(a, b, f"result {k}")
            for a, b in zip(given.values(), copies, strict=True):
                expect(a, b, "an input")
            pairs[at] = state, nows
            kept.add(found)
        elif action < 0.75:
            try:
                state(**broken(draws, given))
            except DiscError:
                pass
            else:
                raise Wrong("a call of wrong inputs was accepted")
        elif action < 0.85 and len(pairs) < 4:
            pairs.append((state.fork(), list(pasts)))
        elif action < 0.9:
            state.reset()
            pairs[at] = state, [c.empty for c in program.caches]
        elif len(pairs) > 1:
            del pairs[at]
        for state, pasts in pairs:
            for c, past in zip(program.caches, pasts, strict=True):
                expect(state.cache(f"past_{c.name}"), past, f"past_{c.name}")
        kept.check()


def walk_donations(program: Program, exe: Any, seed: int, steps: int) -> None:
    """Donate new arrays, results of calls, views and arrays of other inputs, beside numpy."""
    draws, kept = Draws(seed), Kept()
    arrays = [c.empty for c in program.caches]
    for _ in range(steps):
        given = program.given(draws)
        for k, a in enumerate(arrays):
            kind = draws.rng.integers(8)
            c = program.caches[k]
            if kind == 0:
                arrays[k] = np.array(a)
            elif kind == 1:
                arrays[k] = np.repeat(a, 2, -1)[..., ::2]
            elif kind == 2:
                arrays[k] = np.array(a)
                arrays[k].flags.writeable = False
            elif kind == 3 and not c.slots:
                arrays[k] = np.ascontiguousarray(np.take(a, range(a.shape[c.axis])[:3], c.axis))
            elif kind == 4:
                whole = np.zeros((3, *a.shape), a.dtype)
                whole[1] = a
                arrays[k] = whole[1]
            elif kind == 5 and not c.slots and np.abs(a).max(initial=0) <= 3:
                given[f"new_{c.name}"] = a  # the new rows are the donated array
            elif kind == 6:
                same = [b for b in arrays if b.shape == a.shape and b.dtype == a.dtype]
                arrays[k] = draws.pick(same)
        names = [f"past_{c.name}" for c in program.caches]
        pasts = [np.array(a) for a in arrays]
        copies = {n: np.array(a) for n, a in given.items()}
        wanted, nows = program.wanted(pasts, copies)
        refused = draws.chance(0.15)
        inputs = broken(draws, given) if refused else given
        try:
            found = listed(exe(**inputs, **dict(zip(names, arrays, strict=True))))
        except DiscError as error:
            shared = "memory" in str(error)
            if not refused and not shared:
                raise
            kept.check(arrays)
            arrays = pasts
            continue
        if refused:
            raise Wrong("a call of wrong inputs was accepted")
        for k, (a, b) in enumerate(zip(found, [*wanted, *nows], strict=True)):
            expect(a, b, f"result {k}")
        kept.check(arrays)
        kept.add(found)
        arrays = [np.asarray(a) for a in found[len(wanted) :]]
        if any(a.size > 20_000 for a in arrays):
            arrays = [c.empty for c in program.caches]


def judge(seed: int, tell: Callable[[str], None], steps: int = 40) -> tuple[str, str] | None:
    """What is wrong with the program of a seed, as its class and details; None if nothing is."""
    program = make(seed)
    donate = [f"past_{c.name}" for c in program.caches if program.draws.chance(0.8)]
    walks = (
        ("state", {"state": ["past_*"]}, walk_states),
        ("donate", {"donate": donate}, walk_donations),
    )
    for what, options, walk in walks:
        tell(f"build with {what}")
        try:
            exe = tvm_disc.build(program.relay(), options=tvm_disc.Options(**options))
        except DiscError as error:
            return f"{what} refused", f"{error}\n{program.caches}"
        try:
            tell(f"walk with {what}")
            walk(program, exe, seed, steps)
            tell(f"threads with {what}")
            with ThreadPoolExecutor(2) as pool:
                both = [pool.submit(walk, program, exe, seed + k, steps) for k in (1, 2)]
            for one in both:
                one.result()
        except Wrong as error:
            return f"{what}: wrong", f"{error}\n{program.caches}"
        except Exception as error:
            return f"{what} raised {place(error)}", f"{error}\n{program.caches}"
    return None


def judged(seed: int) -> tuple[str, str] | None:
    """What is wrong with the program of a seed, found in a process of its own."""
    child = run(lambda tell: judge(seed, tell), LIMITS)
    if child.end:
        return child.end, f"while: {child.stage}; {make(seed).caches}"
    return tuple(child.answer) if child.answer else None


def main() -> int:
    """Judge programs of some seeds; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=float, default=1e9)
    args = parser.parse_args()
    os.environ["DISC_TARGET"] = quick_target()
    warm()
    kinds = campaign(range(args.seed, args.seed + args.programs), args.time, "programs", judged)
    return int(set(kinds) != {"right"})


if __name__ == "__main__":
    sys.exit(main())
