"""Calls of rows with one attribute, or the type of one operand, exchanged for another.

    python -m tests.fuzz.exchange            # every row; or the names of some

Attributes become others that may make sense, beside those of :mod:`tests.fuzz.attributes` that do
not. A call with them is refused by a ``DiscError``, or gives what the row's reference gives, in
a process of its own; where the reference has no answer, it must only end.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import tvm_disc
from tests.fuzz.attributes import contents, is_constant, module, report
from tests.fuzz.children import Limits, run
from tests.fuzz.rows import SEEN, is_parts
from tests.fuzz.warm import warm
from tests.quick_code import quick_target
from tests.relay.samples import Sample, samples_of
from tvm_disc.errors import DiscError
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.row import OpRow

LIMITS = Limits(cpu_s=30)
TYPES = ("float64", "float16", "int32", "int8", "int64", "bool", "uint8")
# Floats of other types round otherwise, and whole numbers that hang on it may be others.
TOLERANCE, FEW = {2: 1e-2, 4: 1e-3, 8: 1e-3}, 0.02
Change = tuple[Sample, Mapping[str, Any], Mapping[int, str]]


def others(name: str, value: Any) -> list[Any]:
    """Values that an attribute may have in the place of one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        found: list[Any] = [0, 1, 2, 3, 5, -1, -2]
    elif isinstance(value, float):
        found = [0.0, 1.0, -1.0, 0.5, 2.0]
    elif isinstance(value, str):
        found = [v for v in SEEN.get(name, []) if isinstance(v, str)]
    elif isinstance(value, tuple) and value:
        found = [value[:-1], value + value[-1:], value[::-1]]
        for k, item in enumerate(value[:3]):
            if not isinstance(item, str | tuple):
                found += [(*value[:k], o, *value[k + 1 :]) for o in others(name, item)]
    else:
        found = [0, 1, -1, (0,), (1,), (-1,)] if value in (None, ()) else []
    return [v for v in found if v != value]


def changes(row: OpRow) -> Iterator[Change]:
    """Samples with what is exchanged: attributes, or the types of operands by position."""
    seen = set()
    for sample in samples_of(row)[:3]:
        for name, value in {**row.attrs, **sample.attrs}.items():
            for other in others(name, value):
                # With the first sample, and once with another.
                key = (name, repr(other), sample is samples_of(row)[0])
                if key not in seen:
                    seen.add(key)
                    yield sample, {name: other}, {}
    for sample in samples_of(row)[:2]:
        for position, spec in enumerate(sample.inputs):
            if not is_parts(spec):
                yield from ((sample, {}, {position: t}) for t in TYPES if t != spec[-1])


def judge(row: OpRow, change: Change, tell: Any) -> str:
    """Build and call; how the results are not those of the reference, if they are not."""
    tell("make")
    sample, attrs, types = change
    data = [_typed(contents(row, sample, sizes), types) for sizes in _some(sample.sizes)]
    attrs = {**sample.attrs, **attrs}
    made = module(row, sample, attrs, data[0], types)
    if made is None:
        return ""
    inputs = [k for k in range(len(sample.inputs)) if not is_constant(sample, k, types)]
    tell("build")
    try:
        exe = tvm_disc.build(made)
    except DiscError:
        return ""
    for given in data if len(inputs) == len(sample.inputs) else data[:1]:
        tell("call")
        wanted = _meaning(row, given, complete_attrs(row, attrs))
        try:
            found = exe(*(a for k in inputs for a in _parts(given[k])))
        except DiscError:
            continue
        if wanted is not None:
            tell("compare")
            for got, want in zip(_parts(found), _parts(wanted), strict=True):
                if told := _difference(np.asarray(np.from_dlpack(got)), np.asarray(want)):
                    return told
    return ""


def _some(sizes: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys((sizes[min(1, len(sizes) - 1)], sizes[0], sizes[-1])))


def _typed(data: list[Any], types: Mapping[int, str]) -> list[Any]:
    for position, dtype in types.items():
        array = data[position]
        data[position] = (np.abs(array) if dtype == "uint8" else array).astype(dtype)
    return data


def _parts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else [value]


def _meaning(row: OpRow, given: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """What the reference says; None if it has no answer."""
    assert row.reference is not None
    try:
        with np.errstate(all="ignore"):
            return row.reference(*given, **attrs)
    except Exception:  # of any class: it was made for other operands
        return None


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    kinds = [f"{a.dtype}{a.shape}" for a in (found, wanted)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}, expected {kinds[1]}"
    if found.dtype.kind == "f":
        near = TOLERANCE[found.dtype.itemsize]
        wide = found.astype("float64"), wanted.astype("float64")
        same = np.allclose(*wide, rtol=near, atol=near, equal_nan=True)
    else:
        same = not found.size or (found != wanted).mean() <= FEW
    return "" if same else f"{found.reshape(-1)[:4]}, expected {wanted.reshape(-1)[:4]}"


def problems(row: OpRow) -> dict[str, str]:
    """What calls do beside giving what they should, and being refused."""
    found = {}
    for change in changes(row):
        child = run(lambda tell, change=change: judge(row, change, tell), LIMITS)
        if problem := child.end or child.answer:
            what = ", ".join(f"{k}={v}" for k, v in {**change[1], **change[2]}.items())
            found[f"{row.name} {what}"] = problem
    return found


def main(names: Sequence[str]) -> int:
    """Every row, or those of some names; 1 if anything was found."""
    os.environ["DISC_TARGET"] = quick_target()
    warnings.simplefilter("ignore")
    warm()
    return report(names, problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
