"""What a question that a kernel's body asks costs, against variants that are asked for once.

    python benchmarks/branches.py

For each place of "Other decisions by size" in docs/dispatch.md whose ways share what stands around
them: bytes of the library and seconds of its build with all ways in one body, and with a body for
each, as variants would have them; and at a shape for each way how long a call takes where the
question is asked and where it is not, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.attention.body import AttentionBody
from tvm_disc.schedules.loops.template import _Loop
from tvm_disc.schedules.rows import template as rows_template
from tvm_disc.schedules.rows.groups import RowGroups
from tvm_disc.schedules.rows.short import WIDTHS
from tvm_disc.tir.builder import const

ROUNDS = 9
YES, NO = const(True, "bool"), const(False, "bool")
Patch = tuple[Any, str, Any]


@dataclass
class Way:
    """One of the ways: what is taken for granted of it, and a shape at which it runs."""

    name: str
    patches: Sequence[Patch]
    shape: tuple[int, ...]
    constraints: Sequence[str] = ()


@dataclass
class Place:
    """A file whose kernel asks, a program of it, and the ways between which it chooses."""

    file: str
    program: Callable[[], Any]
    inputs: Callable[..., list[tuple[int, ...]]]
    ways: Sequence[Way]
    constraints: Sequence[str] = field(default_factory=tuple)


def _var(name: str, *dims: Any) -> Any:
    shape = tuple(relay.Any(d) if isinstance(d, str) else d for d in dims)
    return relay.var(name, shape=shape, dtype="float32")


def _attention() -> Any:
    q, k, v = _var("q", "b", "s", 64), _var("k", "b", "t", 64), _var("v", "b", "t", 64)
    mask = _var("mask", 1, "s", "t")
    scores = relay.nn.batch_matmul(q, k, transpose_b=True)
    scores = relay.add(relay.multiply(scores, relay.const(np.float32(0.125))), mask)
    made = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    return relay.Function([q, k, v, mask], made)


def _softmax() -> Any:
    x = _var("x", "n", "m")
    return relay.Function([x], relay.nn.softmax(x))


def _add() -> Any:
    x, y = _var("x", "n", "m"), _var("y", "k", "m")
    return relay.Function([x, y], relay.add(x, y))


def _always(kind: Any, method: str, answer: Any) -> Patch:
    """A method that answers without asking."""
    return kind, method, lambda *args, **kwargs: answer


def _at_once(registers: int) -> Callable[..., None]:
    """Rows of at most so many registers alone."""
    return lambda self, short=(): self._all_rows(registers * self.work.lanes)


def _with_mask(b: int, s: int, t: int) -> list[tuple[int, ...]]:
    return [(b, s, 64), (b, t, 64), (b, t, 64), (1, s, t)]


PLACES = [
    Place("attention/body.py", _attention, _with_mask, [
        Way("in place", [_always(AttentionBody, "_keys_in_place", YES)], (12, 1, 300)),
        Way("packed", [_always(AttentionBody, "_keys_in_place", NO)], (12, 64, 64)),
    ], ["k.1 == v.1"]),
    Place("rows/groups.py", _softmax, lambda n, m: [(n, m)], [
        *(Way(f"{k} registers", [(RowGroups, "emit", _at_once(k))], (64, 16 * k)) for k in WIDTHS),
        Way("walked", [(rows_template, "short_widths", lambda work, solver: [])], (64, 768)),
    ]),
    Place("loops/template.py", _add, lambda n, m, k: [(n, m), (k, m)], [
        Way("equal dims", [], (64, 768, 64), ["x.0 == y.0"]),
        Way("broadcast", [(_Loop, "_versions", lambda self, body, walk: walk(body, False))],
            (64, 768, 1)),
    ]),
]  # fmt: skip


@contextlib.contextmanager
def _patched(patches: Sequence[Patch]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for where, name, new in patches:
            stack.enter_context(mock.patch.object(where, name, new))
        yield


def _build(place: Place, patches: Sequence[Patch], more: Sequence[str] = ()) -> tuple[Any, float]:
    options = tvm_disc.Options(cache=False, versions=False, progress=False)
    seconds = []
    with _patched(patches):
        for _ in range(3):
            begin = time.process_time()
            constraints = [*place.constraints, *more]
            exe = tvm_disc.build(place.program(), constraints=constraints, options=options)
            seconds.append(time.process_time() - begin)
    return exe, min(seconds)


def _bytes(exe: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        exe.save(f"{folder}/made.so")
        return Path(f"{folder}/made.so").stat().st_size


def _turns(pair: Sequence[Any], tensors: Sequence[Any]) -> list[float]:
    """Microseconds of a call of each, in turn: medians of rounds."""
    found: list[list[float]] = [[] for _ in pair]
    for exe in pair:
        exe(*tensors)
    for _ in range(ROUNDS):
        for exe, times in zip(pair, found, strict=True):
            begin = time.perf_counter()
            count = 0
            while time.perf_counter() - begin < 0.01:
                exe(*tensors)
                count += 1
            times.append((time.perf_counter() - begin) / count * 1e6)
    return [statistics.median(times) for times in found]


@cache
def _common() -> tuple[int, float]:
    """Bytes and seconds of a program with next to nothing in it."""
    x = _var("x", 1)
    exe, seconds = _build(Place("", lambda: relay.Function([x], relay.nn.relu(x)), list, []), ())
    return _bytes(exe), seconds


def report(place: Place) -> None:
    """The lines of one place."""
    whole, seconds = _build(place, ())
    size, lines = _bytes(whole), []
    apart, apart_s = _common()
    for way in place.ways:
        alone, alone_s = _build(place, way.patches, way.constraints)
        apart, apart_s = apart + _bytes(alone) - _common()[0], apart_s + alone_s - _common()[1]
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(s, dtype="f4") for s in place.inputs(*way.shape)]
        asked, not_asked = _turns([whole, alone], [tvm.runtime.tensor(a) for a in arrays])
        shape = "x".join(map(str, way.shape))
        lines.append(f"    {way.name} at {shape}: {asked:.2f} us asked, {not_asked:.2f} us not")
    print(
        f"{place.file}: one body {size} bytes, {seconds:.2f} s;",
        f"{len(place.ways)} bodies {apart} bytes, {apart_s:.2f} s",
    )
    print("\n".join(lines), flush=True)


def main() -> None:
    """Every place, or those with a text in their names."""
    parser = argparse.ArgumentParser(prog="python benchmarks/branches.py")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for place in PLACES:
        if args.only in place.file:
            report(place)


if __name__ == "__main__":
    main()
