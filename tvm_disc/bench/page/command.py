"""``tvm-disc report MODEL``: measure a model over each dim, and write one HTML page."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_disc.bench import command as bench

if TYPE_CHECKING:
    from tvm_disc.bench.page.curves import FreeDims, Measured
    from tvm_disc.bench.points import Point, Sweep
    from tvm_disc.runtime.profile import Profile

PEERS = ("onnxruntime", "openvino", "torch")
ROUNDS, TURN_S, CALLS = 3, 0.1, 10


def add(
    commands: Any,
    model_arguments: Callable[[argparse.ArgumentParser, str], None],
    dims: bench.Dims,
    compile_model: bench.Compile,
) -> None:
    """Add the command; model, dims and compilation arguments are shared with other commands."""
    report = commands.add_parser("report", help="write a page on how fast a model is, and why")
    model_arguments(report, "an ONNX file, an exported PyTorch program (.pt2), Relay text or JSON")
    bench.measurement_arguments(report, PEERS)
    report.add_argument(
        "-o", "--output", type=Path, metavar="FILE.html", help="default: MODEL.report.html"
    )
    report.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="s=64",
        help="size of a dim on the curves of the others, default: one in the middle; repeat",
    )
    report.set_defaults(rounds=ROUNDS, turn=TURN_S, plot=None)

    def run(args: argparse.Namespace) -> None:
        report_model(args, dims(args.dims) or {}, dims(args.at) or {}, compile_model)

    report.set_defaults(command=run)


def report_model(
    args: argparse.Namespace,
    told: Mapping[str, Sequence[int]],
    at: Mapping[str, Sequence[int]],
    compile_model: bench.Compile,
) -> None:
    """Compile, measure, and write the page; the exit code is 1 if a result of tvm_disc is wrong.

    Raises:
        BadInput: an option is not valid, or the file cannot be written.
    """
    from tvm_disc.bench.compare import OURS
    from tvm_disc.bench.page.advice import at_text, verdict
    from tvm_disc.bench.page.page import write_report
    from tvm_disc.errors import BadInput

    bench.check_arguments(args)
    path = args.output or Path(f"{args.model.stem}.report.html")
    if not path.parent.is_dir():
        raise BadInput(f"--output: there is no folder {path.parent}")
    found = _measured(args, told, _base(at), compile_model)
    write_report(path, found)
    print(verdict(found))
    print(f"wrote {path}")
    wrong = [r for r in found.rows.values() if not r.differences.get(OURS, 0) <= args.tolerance]
    if wrong:
        print(f"results differ at {at_text(wrong[0].point)}; see the page", file=sys.stderr)
        sys.exit(bench.DIFFERS)


def _base(at: Mapping[str, Sequence[int]]) -> dict[str, int]:
    from tvm_disc.errors import BadInput

    if wrong := [name for name, sizes in at.items() if len(sizes) != 1]:
        raise BadInput(f"--at: {wrong[0]}: expected one size, found {len(at[wrong[0]])}")
    return {name: sizes[0] for name, sizes in at.items()}


def _measured(
    args: argparse.Namespace,
    told: Mapping[str, Sequence[int]],
    at: Mapping[str, int],
    compile_model: bench.Compile,
) -> Measured:
    from tvm_disc.abi.manifest import read_manifest
    from tvm_disc.bench.compare import OURS, ComparisonEffort, Engine, measure
    from tvm_disc.bench.page.curves import Measured, curves_of, free_dims, key_of
    from tvm_disc.bench.points import cases_of, sweep_of
    from tvm_disc.codegen.machine import default_threads
    from tvm_disc.frontends.sources import read

    ranges, peers = bench.value_ranges(args.values), bench.peer_pythons(args.peer, PEERS)
    note, threads = bench.busy_note(), args.threads or default_threads()
    module, start = read(args.model), time.perf_counter()
    exe = compile_model(bench.with_arguments(args, model=module, threads=threads), True)
    sweep = sweep_of(module, exe.signature, args.constraint)
    engines = [Engine(OURS), *(Engine(name) for name in peers)]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        exe.save(library)
        ready_s = time.perf_counter() - start
        manifest = {**read_manifest(library), "model": args.model.name}
        dims = free_dims(manifest, sweep)
        base, curves = curves_of(dims, sweep, told, at, args.points)
        every = [base, *(p for c in curves for p in c.points)]
        points = list({key_of(p): p for p in every}.values())
        files = {OURS: library, **dict.fromkeys(peers, args.model)}
        with bench.opened(engines, files, peers, threads, args) as served:
            engines[0].load_s += ready_s
            effort = ComparisonEffort(args.rounds, args.turn)
            cases = cases_of(sweep, points, ranges)
            rows = measure(served, cases, effort, bench.progress(len(points)))
    about = {"threads": str(threads), "rounds": str(args.rounds), **bench.machine(), **note}
    by_point = {key_of(row.point): row for row in rows}
    found = Measured(manifest, about, base, curves, engines, by_point, args.tolerance, threads)
    _profile(found, dims, partial(_profiled, found, exe, sweep, ranges), points)
    return found


def _profiled(
    found: Measured,
    exe: Any,
    sweep: Sweep,
    ranges: Mapping[str, tuple[int, int]],
    point: Mapping[str, int],
) -> Profile | None:
    """Return a profile at a point; if the program refuses the point, record why and return None."""
    from tvm_disc.bench.page.curves import key_of
    from tvm_disc.bench.points import cases_of
    from tvm_disc.errors import DiscError

    (case,) = cases_of(sweep, [point], ranges)
    try:
        profile: Profile = exe.profile(*case.arrays.values(), repeat=CALLS)
    except DiscError as error:
        found.refused[key_of(point)] = str(error).splitlines()[0]
        return None
    return profile


def _profile(
    found: Measured,
    dims: FreeDims,
    profiled: Callable[[Mapping[str, int]], Profile | None],
    points: Sequence[Point],
) -> None:
    """Add a profile of every point, and the cliffs, to `found`."""
    from tvm_disc.bench.page.cliffs import cliffs_over
    from tvm_disc.bench.page.curves import key_of

    for point in points:
        if (profile := profiled(point)) is not None:
            found.profiles[key_of(point)] = profile
    for curve in found.curves:
        base = {c.dim: found.base[c.dim] for c in found.curves}
        span = min(curve.values), max(curve.values)
        complete = partial(_completed, dims, base, curve.dim)
        found.cliffs += cliffs_over(found.manifest, curve.dim, span, complete, profiled)


def _completed(dims: FreeDims, base: Mapping[str, int], dim: str, size: int) -> Point:
    return dims.complete({**base, dim: size})


__all__ = ["add", "report_model"]
