"""Which operators of Relay run, how dynamic, and as what: ``python -m tests.relay.ops.report``.

Every sample of every row of the operator table is built with all dims known, with some of them
open, and with all of them open, and run against the row's reference on at least five combinations
of dims, 1 and 0 among them where the operator is defined there. What was found is kept line by line
in a file, so that a run that was stopped continues; ``--write`` puts the table into
``docs/operators.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tvm_disc
from tests.build.cases import Shown, assert_same, environments, expected, is_symbol, make_case
from tests.build.cases import tensors as sample_tensors
from tests.relay.helpers import resolve
from tests.relay.samples import Sample, samples_of, symbols
from tests.sections import Section
from tvm_disc import relay
from tvm_disc.errors import DiscError
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay.ops.table import OPS

SECTION = Section("docs/operators.md", "tests.relay.ops.report", "operators")
DTYPES = ("float16", "float32", "float64", "bool", "int8", "uint8", "int16", "int32", "int64")
MODES = ("all", "data", "some", "none")
WORDS = {"all": "fully", "data": "fully, kernel known", "some": "partly", "none": "static"}
# Operands of which one dim must be known, in Relay too: there "some" are all that may be open.
KNOWN = {
    "dyn.sparse_to_dense": "rank",
    "nn.contrib_conv2d_winograd_weight_transform": "kernel",
    "nn.contrib_conv3d_winograd_weight_transform": "kernel",
    "sparse_fill_empty_rows": "rank",
    "sparse_to_dense": "rank",
}


def open_dims(mode: str) -> Shown:
    """What dims the types have: all open, those of the first operand and of symbols, or these."""

    def shown(position: int, dim: Any) -> Any:
        wide = mode == "all" or (mode == "data" and position == 0)
        return relay.Any() if wide or is_symbol(dim) else dim

    return shown


def run(row: OpRow, mode: str) -> int:
    """How many combinations of dims ran right; raises what went wrong."""
    every = combinations(row)
    if mode == "none":
        return sum(_static(row, choice) for choice in (every[0], every[-1]))
    executable = tvm_disc.build(make_case(row, open_dims(mode)).function)
    ran = sum(
        _compared(row, samples_of(row), executable, choice, k) for k, choice in enumerate(every)
    )
    return ran * _counted(row)


def combinations(row: OpRow) -> list[list[dict[str, int]]]:
    """Different dims of all samples at once; a sample without a meaning at some has its first."""
    sizes = [[*environments(s), *_larger(s)] for s in samples_of(row)]
    found: list[list[dict[str, int]]] = []
    for k in range(max(map(len, sizes))):
        choice = [c[min(k, len(c) - 1)] for c in sizes]
        pairs = zip(samples_of(row), choice, sizes, strict=True)
        choice = [env if _defined(row, s, env) else own[0] for s, env, own in pairs]
        if choice not in found and all(map(partial(_defined, row), samples_of(row), choice)):
            found.append(choice)
    return found


def _counted(row: OpRow) -> int:
    """How many combinations one run has: samples without a symbol are one each."""
    return 1 if any(map(symbols, samples_of(row))) else len(samples_of(row))


def _larger(sample: Sample) -> Iterator[dict[str, int]]:
    """Multiples of the sample's last dims, and other numbers of its first alone."""
    names, last = symbols(sample), sample.sizes[-1]
    for factor in (2, 3):
        yield {n: factor * v for n, v in zip(names, last, strict=False)}
    for entry in sample.sizes[:1]:
        yield dict(zip(names, [5 * v for v in entry], strict=False))


def _defined(row: OpRow, sample: Sample, env: Mapping[str, int]) -> bool:
    return expected(row, sample, sample_tensors(row, sample, env, 0)[0]) is not None


def _static(row: OpRow, choice: Sequence[Mapping[str, int]]) -> int:
    """One combination with every dim known."""
    for sample, env in zip(samples_of(row), choice, strict=True):
        case = make_case(row, partial(_known, env), (sample,))
        _compared(row, (sample,), tvm_disc.build(case.function), [env], 0)
    return 1


def _known(env: Mapping[str, int], position: int, dim: Any) -> Any:
    return resolve(dim, dict(env))


def _compared(
    row: OpRow,
    samples: Sequence[Sample],
    executable: Any,
    choices: Sequence[Mapping[str, int]],
    seed: int,
) -> int:
    """1 if every result is the reference's."""
    inputs: list[np.ndarray] = []
    wanted: list[np.ndarray] = []
    for sample, env in zip(samples, choices, strict=True):
        given, flat = sample_tensors(row, sample, env, seed)
        results = expected(row, sample, given)
        assert results is not None
        inputs += flat
        wanted += results
    out = executable(*inputs)
    found = list(out) if isinstance(out, (tuple, list)) else [out]
    for value, want in zip(found, wanted, strict=True):
        array = value if isinstance(value, np.ndarray) else np.from_dlpack(value)
        assert_same(array, want, f"{row.name} at {choices}")
    return 1


def accepted(row: OpRow) -> list[str]:
    """The element types of the first operand that the import rule takes."""
    first = samples_of(row)[0].inputs[0] if samples_of(row)[0].inputs else ()
    own = first[0][-1] if first and isinstance(first[0], tuple) else first[-1] if first else ""
    taken = []
    for dtype in DTYPES:
        if not own:
            break
        if dtype == own or _imports(row, own, dtype):
            taken.append(dtype)
    return taken


def _imports(row: OpRow, own: str, dtype: str) -> bool:
    def changed(spec: Any) -> Any:
        if isinstance(spec, tuple):
            return tuple(map(changed, spec))
        return dtype if spec == own else spec

    sample = samples_of(row)[0]
    other = replace(sample, inputs=changed(sample.inputs))
    try:
        function = make_case(row, samples=(other,)).function
        relay.to_relax(relay.IRModule.from_expr(function))
    except (DiscError, TypeError, ValueError, OverflowError):
        return False
    return True


def examined(row: OpRow, modes: Sequence[str] = MODES) -> Iterator[dict[str, Any]]:
    """What was found of an operator, mode by mode."""
    for mode in modes:
        try:
            found: dict[str, Any] = {"ran": run(row, mode)}
        except AssertionError as error:
            found = {"wrong": str(error)[:200]}
        except Exception as error:
            found = {"refused": f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"}
        yield {"name": row.name, "mode": mode, **found}


def compiled() -> list[OpRow]:
    """The operators that are not refused."""
    return [r for name, r in sorted(OPS.items()) if name not in REFUSED]


def read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What an earlier run found."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(r["name"], r["mode"]): r for r in map(json.loads, lines)}


def widest(row: OpRow) -> str:
    """The first mode in which the operator is imported, shapes and all, without code."""
    for mode in MODES[:-1]:
        try:
            function = make_case(row, open_dims(mode)).function
            relay.to_relax(relay.IRModule.from_expr(function))
        except DiscError:
            continue
        return mode
    return "none"


def verdict(found: Mapping[tuple[str, str], Mapping[str, Any]], name: str) -> str:
    """How dynamic an operator runs: with all dims open, those of the data, some, or none."""
    for mode in MODES:
        if found.get((name, mode), {}).get("ran", 0) > 0:
            return _words(name, mode)
    mode = found.get((name, "import"), {}).get("widest")
    return f"{_words(name, mode)} (imported)" if mode else "not run"


def _words(name: str, mode: str) -> str:
    return f"fully, {KNOWN[name]} known" if mode == "some" and name in KNOWN else WORDS[mode]


def rows_of(section: str) -> dict[str, str]:
    """Return the lines of the table of operators, by operator."""
    lines = (line for line in section.splitlines() if line.startswith("| "))
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def table(
    found: Mapping[tuple[str, str], Mapping[str, Any]], kept: Mapping[str, str] | None = None
) -> str:
    """Return the section of the document; ``kept`` has the lines of operators that did not run."""
    lines = ["", "| operator | dims | combinations | element types | fusion class |"]
    lines.append("|---|---|--:|---|---|")
    counts: dict[str, int] = {}
    for name, row in sorted(OPS.items()):
        group = row.pattern.name.lower().replace("_", " ")
        if name in REFUSED:
            counts["refused"] = counts.get("refused", 0) + 1
            lines.append(f"| {name} | refused: {REFUSED[name]} | | | {group} |")
            continue
        if kept and name in kept:
            how = kept[name].split(" | ")[1]
            counts[how] = counts.get(how, 0) + 1
            lines.append(kept[name])
            continue
        how = verdict(found, name)
        counts[how] = counts.get(how, 0) + 1
        ran = max((found.get((name, m), {}).get("ran", 0) for m in MODES), default=0)
        types = ", ".join(found.get((name, "types"), {}).get("types", []))
        lines.append(f"| {name} | {how} | {ran} | {types} | {group} |")
    summary = "; ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    return "\n".join([f"{len(OPS)} operators: {summary}.", *lines, "", ""])


def main() -> None:
    """Run what is missing, then show or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="lines found so far")
    parser.add_argument(
        "--modes", default=",".join(("import", *MODES, "types")), help="what to ask, in order"
    )
    parser.add_argument(
        "--match",
        default="",
        help="only operators with this in their name; others keep their lines",
    )
    parser.add_argument("--write", action="store_true", help="into docs/operators.md")
    options = parser.parse_args()
    found = read(options.results)
    record = _recorder(options.results, found)
    for row in compiled():
        if options.match in row.name:
            _complete(row, options.modes.split(","), found, record)
    shown = rows_of(SECTION.read()) if options.match else {}
    text = table(found, {name: r for name, r in shown.items() if options.match not in name})
    if options.write:
        SECTION.write(text.removesuffix("\n"))
    else:
        print(text)


def _recorder(path: Path, found: dict[Any, Any]) -> Callable[[dict[str, Any]], None]:
    def record(line: dict[str, Any]) -> None:
        found[line["name"], line["mode"]] = line
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    return record


def _complete(row: OpRow, modes: Sequence[str], found: Any, record: Any) -> None:
    if "import" in modes and (row.name, "import") not in found:
        record({"name": row.name, "mode": "import", "widest": widest(row)})
    if "types" in modes and (row.name, "types") not in found:
        record({"name": row.name, "mode": "types", "types": accepted(row)})
    for mode in (m for m in MODES if m in modes):
        # Operators that run with all dims open need not be asked with fewer.
        better = MODES[: MODES.index(mode)] if mode in ("data", "some") else ()
        if any(found.get((row.name, m), {}).get("ran", 0) > 0 for m in better):
            continue
        if (row.name, mode) not in found:
            for line in examined(row, [mode]):
                record(line)


if __name__ == "__main__":
    main()
