"""``tvm-disc bench MODEL``: compare the program with other installed engines."""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import BadInput, Unsupported

Dims: TypeAlias = "Callable[[Sequence[str]], Mapping[str, Sequence[int]] | None]"
Compile: TypeAlias = "Callable[[argparse.Namespace, bool], Any]"

DIFFERS = 1  # exit code if results differ
PEERS = ("onnxruntime", "openvino", "torch", "torch.compile", "relax_vm")
READS: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": (".onnx", ".pt2"),
    "openvino": (".onnx", ".pt2"),
    "torch": (".pt2",),
    "torch.compile": (".pt2",),
}
"""Suffixes of the model files that a peer reads; other peers read all formats of tvm_disc."""


def add_dims(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the argument for values of dims."""
    parser.add_argument(
        "--dims", action="append", default=[], metavar="b=1,8 or s=1..512", help=text
    )


def measurement_arguments(parser: argparse.ArgumentParser, peers: Sequence[str]) -> None:
    """Add the arguments of a measurement; ``peers`` are the default engines."""
    add_dims(parser, "values of a dim, or a range to sample; repeat for more")
    parser.add_argument(
        "--points", type=int, default=6, metavar="N", help="number of values taken from a range"
    )
    parser.add_argument(
        "--values",
        action="append",
        default=[],
        metavar="INPUT=0..999",
        help="value range of an integer input, default: 0..1; repeat for more",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME[=PYTHON]",
        help=f"an engine to compare with ({', '.join(PEERS)}), and the Python in which it is "
        f"installed; may be repeated; default: {', '.join(peers)}; none for no comparison",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="measurements per engine and point"
    )
    parser.add_argument(
        "--turn", type=float, default=0.2, metavar="SECONDS", help="duration of a measurement"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="seconds to wait for an answer of another engine",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        metavar="T",
        help="accepted difference, relative to a result's largest element",
    )


def add(
    commands: Any,
    model_arguments: Callable[[argparse.ArgumentParser, str], None],
    dims: Dims,
    compile_model: Compile,
) -> None:
    """Add the command; model, dims and compilation arguments are shared with other commands."""
    bench = commands.add_parser("bench", help="compare a model with other engines over many shapes")
    model_arguments(bench, "an ONNX file, an exported PyTorch program (.pt2), Relay text or JSON")
    measurement_arguments(bench, PEERS)
    bench.add_argument(
        "--json", type=Path, metavar="FILE", help="write all data, including each measured time"
    )
    bench.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    bench.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="draw the times (.svg, .png, .pdf)"
    )

    def run(args: argparse.Namespace) -> None:
        bench_model(args, dims(args.dims) or {}, compile_model)

    bench.set_defaults(command=run)


def bench_model(
    args: argparse.Namespace, told: Mapping[str, Sequence[int]], compile_model: Compile
) -> None:
    """Compile, measure and report; the exit code is 1 if a result of tvm_disc is wrong.

    Raises:
        BadInput: an option is not valid; raised before anything is compiled.
    """
    from tvm_disc.bench.compare import OURS, ComparisonEffort, Engine, measure
    from tvm_disc.bench.points import cases_of, sweep_of
    from tvm_disc.bench.report import ComparisonReport
    from tvm_disc.codegen.machine import default_threads
    from tvm_disc.frontends.sources import read

    ranges, peers = value_ranges(args.values), peer_pythons(args.peer)
    check_arguments(args)
    note = busy_note()
    threads = args.threads or default_threads()
    module = read(args.model)
    start = time.perf_counter()
    exe = compile_model(with_arguments(args, model=module, threads=threads), False)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        exe.save(library)
        compiled_s = time.perf_counter() - start
        sweep = sweep_of(module, exe.signature, args.constraint)
        points = sweep.points(told, args.points)
        engines = [Engine(OURS), *(Engine(name) for name in peers)]
        files = {OURS: library, **dict.fromkeys(peers, args.model)}
        with opened(engines, files, peers, threads, args) as served:
            engines[0].load_s += compiled_s
            effort = ComparisonEffort(args.rounds, args.turn)
            cases = cases_of(sweep, points, ranges)
            rows = measure(served, cases, effort, progress(len(points)))
    about = {"threads": str(threads), "rounds": str(args.rounds), **machine(), **note}
    report = ComparisonReport(args.model.name, about, engines, rows, args.tolerance)
    print(report.text())
    for path, made in ((args.json, report.to_json), (args.markdown, report.markdown)):
        if path is not None:
            path.write_text(made(), encoding="utf-8")
    if args.plot is not None:
        report.plot(args.plot)
    if report.wrong:
        sys.exit(DIFFERS)


@contextmanager
def opened(
    engines: Sequence[Any],
    files: Mapping[str, Path],
    pythons: Mapping[str, str],
    threads: int,
    args: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """Yield the engines that started; ``reason`` of the others records why they did not start."""
    from tvm_disc.bench.compare import OURS
    from tvm_disc.bench.served import EngineRefused, Served

    served: dict[str, Served] = {}
    try:
        for engine in engines:
            name = engine.name
            try:
                if name != OURS and (reason := _unread(name, args)):
                    raise EngineRefused(reason)
                python = pythons.get(name, sys.executable)
                one = Served(name, files[name], threads, python, args.patience)
            except EngineRefused as error:
                engine.reason = str(error)
                if name == OURS:
                    raise Unsupported(
                        f"bench: the program of tvm_disc did not start: {error}"
                    ) from None
                continue
            served[name] = one
            engine.version, engine.load_s = one.version, one.load_s
        yield served
    finally:
        for one in served.values():
            one.close()


def _unread(peer: str, args: argparse.Namespace) -> str:
    """Return why a peer cannot read the model; "" if it can."""
    suffix = args.model.suffix
    if suffix not in READS.get(peer, (suffix,)):
        return f"reads {' and '.join(READS[peer])}, not {suffix}"
    return "does not support --params" if args.params is not None else ""


def peer_pythons(texts: Sequence[str], default: Sequence[str] = PEERS) -> dict[str, str]:
    """Parse ``["openvino", "torch=PYTHON"]`` to ``{"openvino": this Python, "torch": PYTHON}``."""
    found: dict[str, str] = {}
    for text in texts or default:
        name, _, python = text.partition("=")
        if name == "none":
            continue
        if name not in PEERS:
            raise BadInput(f"--peer: expected one of {', '.join(PEERS)} or none, found {name!r}")
        if python and not os.access(python, os.X_OK):
            raise BadInput(f"--peer: {name}: there is no executable file {python}")
        found[name] = python or sys.executable
    return found


def value_ranges(texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Parse ``["ids=0..999"]`` to ``{"ids": (0, 999)}``."""
    found = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        low, dots, high = rest.partition("..")
        if not (name and equals and dots and low.isdecimal() and high.isdecimal()):
            raise BadInput(f"--values: expected INPUT=0..999, found {text!r}")
        if int(low) > int(high):
            raise BadInput(f"--values: {name}: expected the smaller number first, found {rest!r}")
        found[name] = int(low), int(high)
    return found


def check_arguments(args: argparse.Namespace) -> None:
    """Check the suffix of the model and the numeric options, before anything is compiled.

    Raises:
        BadInput: an argument is not valid.
        Unsupported: a plot is requested, and matplotlib is not installed.
    """
    from tvm_disc.bench.report import FORMATS

    if args.model.suffix == ".so":
        raise BadInput(
            f"{args.model} is a compiled program, which other engines cannot "
            "read; pass the model that it was built from"
        )
    for name in ("points", "rounds", "threads"):
        count = getattr(args, name)
        if count is not None and count < 1:
            raise BadInput(f"--{name}: expected at least 1, found {count}")
    for name in ("turn", "patience", "tolerance"):
        if not getattr(args, name) > 0:
            raise BadInput(f"--{name}: expected more than 0, found {getattr(args, name)}")
    if args.plot is not None:
        if args.plot.suffix not in FORMATS:
            raise BadInput(f"--plot: expected a file ending in {', '.join(FORMATS)}, "
                           f"found {args.plot.name}")  # fmt: skip
        if importlib.util.find_spec("matplotlib") is None:
            raise Unsupported(
                "--plot needs the package 'matplotlib', which is not installed; "
                "pip install 'tvm_disc[plot]'"
            )


def with_arguments(args: argparse.Namespace, **changed: object) -> argparse.Namespace:
    """Return a copy of the arguments with some of them replaced."""
    made = copy.copy(args)
    vars(made).update(changed)
    return made


def progress(count: int) -> Callable[[object], None]:
    """Return a function that reports completed points on a terminal."""
    done = 0

    def tell(row: object) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            end = "\n" if done == count else ""
            print(
                f"\rbench: {done} of {count} sizes measured", end=end, file=sys.stderr, flush=True
            )

    return tell


def machine() -> dict[str, str]:
    """Return the properties of this machine that a report lists."""
    from tvm_disc.codegen.target import host_cpu

    return {"cpu": host_cpu()}


def busy_note() -> dict[str, str]:
    """Return a note if other processes compete for the cores."""
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= 0.75 * processors:
        return {}
    told = f"load {load:.1f} on {processors} processors before the start, times are unreliable"
    return {"note": told}


__all__ = [
    "DIFFERS",
    "PEERS",
    "Compile",
    "Dims",
    "add",
    "add_dims",
    "bench_model",
    "busy_note",
    "check_arguments",
    "machine",
    "measurement_arguments",
    "opened",
    "peer_pythons",
    "progress",
    "value_ranges",
    "with_arguments",
]
