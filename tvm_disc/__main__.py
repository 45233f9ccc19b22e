"""The command line: ``tvm-disc COMMAND MODEL``, also ``python -m tvm_disc``.

An error ends the command with one line, ``error: ...``, and exit code 1; ``--traceback`` shows a
traceback instead. Wrong usage gives argparse's exit code 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc.abi.artifact import check_place
from tvm_disc.abi.manifest import read_manifest, signature_text
from tvm_disc.bench import command as bench
from tvm_disc.bench import replay
from tvm_disc.bench.page import command as report
from tvm_disc.errors import BadInput, counted
from tvm_disc.options import POINTS, Options
from tvm_disc.runtime.code import level_lines, levels_in
from tvm_disc.support.console import outcome
from tvm_disc.support.debug import format_timings
from tvm_disc.typing import Argument, Array, TargetLike

COMMANDS = "build|run|explain|profile|signature|tune|bench|report|replay|peaks|cache"
_NOT_NUMPY = (ValueError, EOFError, zipfile.BadZipFile)
Spec = tuple[tuple[int, ...], str | None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], None] = args.command
    return outcome(lambda: command(args), args.traceback)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tvm-disc", description=tvm_disc.__doc__)
    parser.add_argument("--version", action="version", version=f"tvm-disc {tvm_disc.__version__}")
    commands = parser.add_subparsers(required=True, metavar=COMMANDS)

    build = commands.add_parser("build", help="compile a model and save it")
    _model_arguments(build, "Relay text or JSON, an ONNX file or an exported program")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.so")
    build.set_defaults(command=_build)

    run = commands.add_parser("run", help="run a model on given or random inputs")
    _model_arguments(run, "a model, or a program saved by `tvm-disc build` (.so)")
    _level_argument(run)
    _input_arguments(run)
    run.add_argument("--repeat", type=_positive, metavar="N", help="time N calls after the first")
    run.add_argument("--output", type=Path, metavar="FILE.npz", help="save the outputs")
    run.set_defaults(command=_run)

    explain = commands.add_parser("explain", help="describe kernels, fusion and guards")
    _model_arguments(explain, "a model, or a program saved by `tvm-disc build` (.so)")
    _level_argument(explain)
    explain.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=2x7,...",
        help="also show which variant runs at this shape",
    )
    explain.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw the kernel calls (.svg, .png, .pdf)"
    )
    explain.add_argument(
        "--dims", metavar="b=2,s=7", help="sizes of dims for the numbers shown; instead of --shape"
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help="write an HTML page")
    explain.add_argument("--profile", action="store_true", help="add measured times to the page")
    explain.add_argument(
        "--full",
        action="store_true",
        help="do not shorten lines and lists; print the workspace's formula, predicted speed-ups",
    )
    explain.set_defaults(command=_explain)

    profile = commands.add_parser("profile", help="time the kernels of a call")
    _model_arguments(profile, "a model, or a program saved by `tvm-disc build` (.so)")
    _level_argument(profile)
    _input_arguments(profile)
    profile.add_argument("--repeat", type=_positive, default=30, metavar="N", help="calls timed")
    profile.add_argument("--json", type=Path, metavar="FILE", help="also as JSON")
    profile.add_argument("--trace", type=Path, metavar="FILE", help="also as a Chrome trace")
    profile.set_defaults(command=_profile)

    signature = commands.add_parser("signature", help="print inputs and results of a saved program")
    signature.add_argument("model", type=Path, help="a program saved by `tvm-disc build` (.so)")
    signature.add_argument("--traceback", action="store_true", help="print a traceback on errors")
    signature.set_defaults(command=_signature)
    _tune_arguments(commands.add_parser("tune", help="measure kernel variants for selection"))
    bench.add(commands, _model_arguments, _dims, _compile)
    report.add(commands, _model_arguments, _dims, _compile)
    replay.add(commands, _model_arguments, _load)
    peaks = commands.add_parser("peaks", help="measure the limits of this machine for profiles")
    peaks.add_argument("--traceback", action="store_true", help="print a traceback on errors")
    peaks.set_defaults(command=_measure_peaks)
    cache = commands.add_parser("cache", help="show or clear the cache of compiled kernels")
    cache.add_argument(
        "--limit",
        type=_bytes,
        metavar="MB",
        help="evict the least recently used entries above this size",
    )
    cache.add_argument("--clear", action="store_true", help="remove all entries")
    cache.add_argument("--traceback", action="store_true", help="print a traceback on errors")
    cache.set_defaults(command=_cache)
    return parser


def _measure_peaks(args: argparse.Namespace) -> None:
    from tvm_disc.codegen.roofline import measured_peaks
    from tvm_disc.runtime.peaks import store_peaks
    from tvm_disc.support.store import store_of

    store = store_of(Options.from_env())
    found = measured_peaks(store)
    if store is not None:
        store_peaks(found, store)
    print(found)


def _cache(args: argparse.Namespace) -> None:
    from tvm_disc.support.store import store_of

    store = store_of(Options.from_env())
    if store is None:
        raise BadInput("cache: disabled by DISC_CACHE=off, or there is no home folder")
    removed = 0
    if args.clear or args.limit is not None:
        removed = store.prune(0 if args.clear else args.limit)
    entries = list(store.entries())
    size = sum(entry.size for entry in entries)
    count = counted(len(entries), "entry", "entries")
    print(f"{store.folder}: {count}, {size / 1e6:.1f} MB, {removed} removed")


def _bytes(text: str) -> int:
    try:
        if (value := float(text)) >= 0:
            return int(value * 1e6)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"expected a number of MB, at least 0, found {text!r}")


def _tune_arguments(tune: argparse.ArgumentParser) -> None:
    _model_arguments(tune, "Relay text or JSON, an ONNX file or an exported program")
    bench.add_dims(tune, "the values of a dim, or a range; repeat for more")
    tune.add_argument("--log", type=Path, metavar="FILE", help="file of recorded input shapes")
    tune.add_argument("--points", type=_positive, default=POINTS, help="shapes to measure")
    tune.add_argument("--budget", type=float, metavar="SECONDS", help="stop after this time")
    tune.add_argument(
        "--remote", metavar="HOST:PORT/KEY", help="measure on machines of TVM's RPC tracker"
    )
    tune.add_argument(
        "--machines", type=_positive, default=1, help="number of machines used at once"
    )
    tune.set_defaults(command=_tune)


def _model_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("model", type=Path, help=what)
    group = parser.add_argument_group("compilation")
    group.add_argument("--params", type=Path, metavar="FILE", help="weights by parameter name")
    group.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="TARGET",
        help="a TVM target or a CPU, default: this machine; repeat, or a,b,c, for several",
    )
    group.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar='"1 <= b <= 64"',
        help="a fact about dims that every call satisfies; repeat for more",
    )
    group.add_argument("--threads", type=int, metavar="N", help="threads to compile for")
    group.add_argument("--no-fuse", action="store_true", help="one kernel per operator")
    group.add_argument(
        "--no-versions",
        action="store_true",
        help="compile only the general version, not another for equal dims",
    )
    group.add_argument("--dump", type=Path, metavar="DIR", help="write every stage as text")
    group.add_argument(
        "--records", type=Path, metavar="FILE", help="measured times for the choice of variants"
    )
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="limit of the build")
    group.add_argument("--timings", action="store_true", help="print the time of each stage")
    parser.add_argument("--traceback", action="store_true", help="print a traceback on errors")


def _level_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--level", metavar="CPU", help="the target to run, if the program has code for several"
    )


def _input_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="one array; repeat"
    )
    parser.add_argument("--inputs", type=Path, metavar="FILE.npz", help="one array per input name")
    parser.add_argument(
        "--random",
        action="append",
        default=[],
        metavar="NAME=2x7[:DTYPE],...",
        help="random inputs: normally distributed floats, integers 0 and 1; the seed is fixed",
    )


def _positive(text: str) -> int:
    try:
        if (value := int(text)) >= 1:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected an integer of at least 1, found {text!r}")


# --- commands --------------------------------------------------------------------------------


def _build(args: argparse.Namespace) -> None:
    start = time.perf_counter()
    check_place(args.output)  # fail before compiling if the file cannot be written
    exe = _compile(args, load=False)
    exe.save(args.output)
    seconds = time.perf_counter() - start
    inputs = ", ".join(f"{name}: {dtype}[{', '.join(dims)}]" for name, dims, dtype in exe.signature)
    print(f"{args.output}: ({inputs}), {counted(len(exe.kernels), 'kernel')}, {seconds:.1f} s")


def _run(args: argparse.Namespace) -> None:
    exe = _load(args)
    inputs = _inputs(args, {name: dtype for name, _, dtype in exe.signature})
    outputs = _leaves(exe(**inputs))
    for name, array in inputs.items():
        print(f"input {name}: {_described(array)}")
    for i, array in enumerate(outputs):
        print(f"output {i}: {_described(array)}")
    if args.output is not None:
        np.savez(args.output, **{f"output_{i}": array for i, array in enumerate(outputs)})
    if args.repeat is not None:
        seconds = [_seconds(exe, inputs) for _ in range(args.repeat)]
        median, best = statistics.median(seconds) * 1e3, min(seconds) * 1e3
        print(f"time: median {median:.3f} ms, best {best:.3f} ms, {counted(args.repeat, 'call')}")


def _explain(args: argparse.Namespace) -> None:
    exe = _load(args)
    shapes = {name: shape for name, (shape, _) in _specs("--shape", args.shape).items()}
    dims = _sizes(args.dims)
    if args.html is not None:
        exe.explain_html(args.html, dims=dims, profile=args.profile)
        kernels, calls = counted(len(exe.kernels), "kernel"), counted(len(exe.launches), "call")
        print(f"wrote {args.html}: {kernels}, {calls}")
        return
    print(exe.explain(shapes or None, args.picture, dims=dims, full=args.full))


def _tune(args: argparse.Namespace) -> None:
    if args.records is None:
        raise BadInput("tune: expected --records FILE, the file to write")
    done = tvm_disc.tune(
        args.model,
        records=args.records,
        shapes=args.log or _dims(args.dims),
        params=args.params,
        target=_targets(args.target),
        constraints=tuple(args.constraint),
        options=Options(threads=args.threads, fuse=not args.no_fuse),
        points=args.points,
        budget_s=args.budget,
        progress=sys.stderr.isatty(),
        remote=None if args.remote is None else _remote(args.remote, args.machines),
    )
    print(done)


def _remote(text: str, machines: int) -> object:
    """Return the machines of an RPC tracker, from ``HOST:PORT/KEY``."""
    from tvm_disc.tuning.remote import Remote

    place, _, key = text.partition("/")
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not key:
        raise BadInput(f"--remote: expected HOST:PORT/KEY, found {text!r}")
    return Remote(host, int(port), key, machines)


def _sizes(text: str | None) -> dict[str, int] | None:
    """Parse ``"b=2,s=7"`` to ``{"b": 2, "s": 7}``."""
    if text is None:
        return None
    pairs = [_pair(item, "NAME=SIZE,...", "--dims: ") for item in text.split(",")]
    if wrong := [f"{name}={size}" for name, size in pairs if not size.isdecimal()]:
        raise BadInput(f"--dims: expected NAME=SIZE,..., found {wrong[0]!r}")
    return {name: int(size) for name, size in pairs}


def _dims(texts: Sequence[str]) -> dict[str, Sequence[int]] | None:
    """Parse ``["b=1,8", "s=1..512"]`` to ``{"b": [1, 8], "s": range(1, 513)}``."""
    found: dict[str, Sequence[int]] = {}
    for text in texts:
        form = "NAME=1,8 or NAME=1..512"
        name, values = _pair(text, form)
        low, dots, high = values.partition("..")
        numbers = [low, high] if dots else values.split(",")
        if not all(n.isdecimal() for n in numbers):
            raise BadInput(f"expected {form}, found {text!r}")
        sizes = [int(n) for n in numbers]
        found[name] = range(sizes[0], sizes[1] + 1) if dots else sizes
    return found or None


def _profile(args: argparse.Namespace) -> None:
    exe = _load(args)
    inputs = _inputs(args, {name: dtype for name, _, dtype in exe.signature})
    profile = exe.profile(repeat=args.repeat, **inputs)
    print(profile)
    for path, text in ((args.json, profile.to_json()), (args.trace, profile.to_chrome_trace())):
        if path is not None:
            path.write_text(text, encoding="utf-8")


def _signature(args: argparse.Namespace) -> None:
    manifest = read_manifest(args.model)
    print("\n".join([signature_text(manifest), *level_lines(levels_in(manifest))]))


# --- models ----------------------------------------------------------------------------------


def _compile(args: argparse.Namespace, load: bool) -> tvm_disc.Executable:
    options = Options(
        threads=args.threads,
        dump_dir=args.dump,
        fuse=not args.no_fuse,
        versions=not args.no_versions,
        records=args.records,
        load=load,
        level=getattr(args, "level", None),
        time_limit=args.time_limit,
    )
    exe = tvm_disc.build(
        args.model,
        params=args.params,
        target=_targets(args.target),
        constraints=tuple(args.constraint),
        options=Options.from_env(options),
    )
    if args.timings:
        print(format_timings(exe.timings))
    return exe


def _load(args: argparse.Namespace) -> tvm_disc.Executable:
    if args.model.suffix != ".so":
        return _compile(args, load=True)
    for name in (
        "params",
        "target",
        "constraint",
        "threads",
        "no_fuse",
        "no_versions",
        "dump",
        "records",
        "time_limit",
        "timings",
    ):
        if getattr(args, name):
            option = name.replace("_", "-")
            raise BadInput(f"--{option} has no effect on {args.model}, which is compiled already")
    if not args.model.is_file():
        raise FileNotFoundError(2, "No such file", str(args.model))
    return tvm_disc.load(args.model, args.level)


def _targets(texts: Sequence[str]) -> TargetLike:
    """Return several targets as a list, one as a string, and None if none is given; splits
    ``a,b``.
    """
    found: list[str] = []
    for text in texts:
        # Options inside a target may contain commas.
        found += [text] if " " in text or "{" in text else text.split(",")
    return found if len(found) > 1 else found[0] if found else None


# --- inputs and outputs ----------------------------------------------------------------------


def _inputs(args: argparse.Namespace, dtypes: Mapping[str, str]) -> dict[str, Any]:
    """Return the inputs from the command line; ``--input`` overrides ``--random``, which overrides
    ``--inputs``.
    """
    rng = np.random.default_rng(0)
    found: dict[str, object] = {}
    if args.inputs is not None:
        found.update({k: v for k, v in _arrays(args.inputs).items() if k in dtypes})
    for name, (shape, dtype) in _specs("--random", args.random).items():
        found[name] = _random(rng, shape, dtype or dtypes.get(name, "float32"))
    for item in args.input:
        name, path = _pair(item, "NAME=FILE.npy", "--input: ")
        found[name] = _array(Path(path))
    ordered = {name: found.pop(name) for name in dtypes if name in found}
    return {**ordered, **found}


def _array(path: Path) -> Array:
    try:
        array = np.load(path)
    except _NOT_NUMPY:
        raise BadInput(f"{path}: expected a NumPy array (.npy), found another format") from None
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{path}: expected one NumPy array (.npy), found several; see --inputs")
    return array


def _arrays(path: Path) -> dict[str, Array]:
    try:
        arrays = np.load(path)
    except _NOT_NUMPY:
        raise BadInput(
            f"{path}: expected a mapping from names to NumPy arrays (.npz), found another format"
        ) from None
    if isinstance(arrays, np.ndarray):
        raise BadInput(
            f"{path}: expected a mapping from names to arrays (.npz), found one array; see --input"
        )
    return dict(arrays)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise BadInput(f"expected a dtype such as float32 or int64, found {dtype!r}") from None
    values = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 2, shape)
    return np.asarray(values).astype(kind)


def _specs(option: str, texts: Sequence[str]) -> dict[str, Spec]:
    """Parse ``["ids=2x7:int64,mask=2x7"]`` to ``{"ids": ((2, 7), "int64"), "mask": ((2, 7),
    None)}``.

    A scalar has no dims: ``x=`` or ``x=:float32``.
    """
    found = {}
    for item in (item for text in texts for item in text.split(",")):
        form = "NAME=2x7 or NAME=2x7:DTYPE"
        name, rest = _pair(item, form, f"{option}: ")
        dims, _, dtype = rest.partition(":")
        sizes = dims.split("x") if dims else []
        if not all(size.isdecimal() for size in sizes):
            raise BadInput(f"{option}: expected {form}, found {item!r}")
        found[name] = (tuple(int(size) for size in sizes), dtype or None)
    return found


def _pair(item: str, form: str, where: str = "") -> tuple[str, str]:
    name, equals, rest = item.partition("=")
    if not name or not equals:
        raise BadInput(f"{where}expected {form}, found {item!r}")
    return name.strip(), rest.strip()


def _leaves(value: object) -> list[Any]:
    """Return the arrays of a result, with tuples flattened."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [np.asarray(value)]


def _described(array: Any) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _seconds(exe: tvm_disc.Executable, inputs: Mapping[str, Argument]) -> float:
    start = time.perf_counter()
    exe(**inputs)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
