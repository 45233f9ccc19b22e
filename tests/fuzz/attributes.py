"""Attributes that no operator was made for: an import takes them, or refuses them in its own words.

    python -m tests.fuzz.attributes            # every row; or the names of some

Each attribute of a sample is exchanged for others of its type, the inputs' dims are unknown. Only
the importer is run; what it takes is judged by campaigns, as far as NumPy gives results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.build.cases import tensors
from tests.fuzz.children import Limits, run
from tests.fuzz.rows import ROWS, is_parts
from tests.relay.samples import Sample, samples_of, symbols
from tvm_disc import relay
from tvm_disc.errors import DiscError
from tvm_disc.relay.attrs import AttrError, complete_attrs
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay_passes.versions import import_versions

LIMITS = Limits(cpu_s=10)


def others(value: Any) -> list[Any]:
    """Values of the type of one, beyond what makes sense."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [0, -1, -7, value + 9, 1 << 31, 1 << 40]
    if isinstance(value, float):
        return [0.0, float("nan"), -1.0]
    if isinstance(value, str):
        return ["foo", ""]
    if isinstance(value, tuple) and value:
        inner = [] if isinstance(value[0], str) else others(value[0])
        return [value[:-1], value + value[-1:], *((o, *value[1:]) for o in inner)]
    return [-7, 9, (9,), (0, 0)] if value is None else []


def cases(row: OpRow) -> Iterator[tuple[Sample, str, Any]]:
    """(sample, attribute, another value) of a row, each value once."""
    seen = set()
    for sample in samples_of(row)[:3]:
        for name, value in {**row.attrs, **sample.attrs}.items():
            for other in others(value):
                if (name, repr(other)) not in seen:
                    seen.add((name, repr(other)))
                    yield sample, name, other


def contents(row: OpRow, sample: Sample, sizes: Sequence[int] = ()) -> list[Any]:
    """Arrays for the arguments of a sample, or tuples of them."""
    sizes = sizes or sample.sizes[min(1, len(sample.sizes) - 1)]
    return tensors(row, sample, dict(zip(symbols(sample), sizes, strict=False)), 1)[0]


def is_constant(sample: Sample, position: int, types: Collection[int] = ()) -> bool:
    """Whether an argument is one: the sample says what is in it, and its type is the sample's."""
    return position in sample.values and position not in types


def module(
    row: OpRow,
    sample: Sample,
    attrs: Mapping[str, Any],
    data: Sequence[Any],
    types: Collection[int] = (),
) -> Any:
    """A call of a sample with those attributes; None if it cannot be written."""
    params: list[Any] = []

    def operand(position: int, array: Any) -> Any:
        if is_constant(sample, position, types):
            return relay.const(array, str(array.dtype))
        shape = tuple(relay.Any() for _ in array.shape)
        params.append(relay.var(f"x{len(params)}", shape=shape, dtype=str(array.dtype)))
        return params[-1]

    args = []
    for position, spec in enumerate(sample.inputs):
        parts = data[position] if is_parts(spec) else [data[position]]
        made = [operand(position, a) for a in parts]
        args.append(relay.Tuple(made) if is_parts(spec) else made[0])
    try:
        call = relay.Call(relay.op.get(row.name), args, complete_attrs(row, {**attrs}))
        return relay.IRModule({"main": relay.Function(params, call)})
    except (AttrError, DiscError):
        return None


def problems(row: OpRow) -> dict[str, str]:
    """What the importer does to attributes of a row beside taking and refusing them."""
    found = {}
    for sample, name, other in cases(row):
        made = module(row, sample, {**sample.attrs, name: other}, contents(row, sample))
        if made is None:
            continue

        def imported(tell: Any, made: Any = made) -> None:
            tell("import")
            with suppress(DiscError):
                import_versions(made, None, (), False)

        child = run(imported, LIMITS)
        if child.end:
            found[f"{row.name} {name}={other!r}"] = child.end
    return found


def report(names: Sequence[str], problems: Callable[[OpRow], Mapping[str, str]]) -> int:
    """Tell what is wrong with every row, or with those of some names; 1 if anything is."""
    wrong = 0
    for row in ROWS:
        if not names or row.name in names:
            for case, problem in problems(row).items():
                wrong += 1
                print(f"{case}: {problem}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(report(sys.argv[1:], problems))
