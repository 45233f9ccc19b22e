"""Table of ONNX operators: converters by domain, name and opset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from tvm_disc.frontends.onnx.operators import (
    activation,
    attention,
    classic,
    control,
    convolution,
    elementwise,
    generate,
    image,
    index,
    layout,
    linear,
    microsoft,
    normalize,
    order,
    pool,
    quantized,
    recurrent,
    reduce,
    sequence,
    shape,
    signal,
    slices,
    stateful,
    windows,
)
from tvm_disc.frontends.onnx.table import Row, normal

FAMILIES: Mapping[str, tuple[Row, ...]] = {
    "elementwise": elementwise.ROWS,
    "activation": activation.ROWS,
    "shape": shape.ROWS,
    "layout": layout.ROWS,
    "slices": slices.ROWS,
    "index": index.ROWS,
    "order": order.ROWS,
    "reduce": reduce.ROWS,
    "linear": linear.ROWS,
    "normalize": normalize.ROWS,
    "convolution": convolution.ROWS,
    "pool": pool.ROWS,
    "windows": windows.ROWS,
    "image": image.ROWS,
    "attention": attention.ROWS,
    "recurrent": recurrent.ROWS,
    "stateful": stateful.ROWS,
    "control": control.ROWS,
    "sequence": sequence.ROWS,
    "quantized": quantized.ROWS,
    "generate": generate.ROWS,
    "signal": signal.ROWS,
    "classic": classic.ROWS,
    "microsoft": microsoft.ROWS,
}

Table = Mapping[tuple[str, str], tuple[Row, ...]]


def joined(families: Iterable[Iterable[Row]]) -> Table:
    """Return the rows of each operator, sorted by opset; the key is (domain, name)."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in (row for family in families for row in family):
        for name in row.name.split():
            found.setdefault((row.domain, name), []).append(replace(row, name=name))
    for (_, name), rows in found.items():
        rows.sort(key=lambda r: r.since)
        for a, b in pairwise(rows):
            assert a.since < b.since, f"{name} has two rows since opset {a.since}"
    return {key: tuple(rows) for key, rows in sorted(found.items())}


ROWS: Table = joined(FAMILIES.values())


def find(domain: str, name: str, opset: int, table: Table = ROWS) -> Row | None:
    """Return the row of an operator for an opset, or None if there is none."""
    rows = [r for r in table.get((normal(domain), name), ()) if r.since <= opset]
    valid = [r for r in rows if r.until is None or opset <= r.until]
    return valid[-1] if valid else None


__all__ = ["FAMILIES", "ROWS", "find", "joined"]
