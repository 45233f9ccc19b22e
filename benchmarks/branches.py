"""Cost of a run-time branch inside a kernel body, compared to separate variants without the branch.

    python benchmarks/branches.py

The kernels are those of "Other decisions by size" in docs/dispatch.md in which the branches share
the surrounding code. For each kernel the benchmark prints the bytes of the library and the build
time in seconds, first with one body that contains all branches, then with one body per branch, as
separate variants would have. For each branch it prints the time of a call at one shape, with the
branch and without it; the two programs are called alternately.
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
    """One of the branches: the patches that select it at build time, and a shape at which to
    run.
    """

    name: str
    patches: Sequence[Patch]
    shape: tuple[int, ...]
    constraints: Sequence[str] = ()


@dataclass
class Place:
    """A source file whose kernel contains a branch, a program with this kernel, and its
    branches.
    """

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
    """Return a patch that replaces a method by one that returns ``answer``."""
    return kind, method, lambda *args, **kwargs: answer


def _at_once(registers: int) -> Callable[..., None]:
    """Return an emitter of rows that fit into ``registers`` vector registers, without a branch."""
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
    """Return the microseconds of a call of each program: medians of alternating rounds."""
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
    """Return the bytes and the build seconds of a program that does almost nothing."""
    x = _var("x", 1)
    exe, seconds = _build(Place("", lambda: relay.Function([x], relay.nn.relu(x)), list, []), ())
    return _bytes(exe), seconds


def report(place: Place) -> None:
    """Print the lines of one kernel."""
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
    """Measure all kernels, or those whose file name contains a text."""
    parser = argparse.ArgumentParser(prog="python benchmarks/branches.py")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for place in PLACES:
        if args.only in place.file:
            report(place)


if __name__ == "__main__":
    main()
