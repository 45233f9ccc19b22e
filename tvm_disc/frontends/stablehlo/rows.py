"""Table of StableHLO operators: converters by name, and operators that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm_disc.frontends.stablehlo.operators import (
    calls,
    control,
    elementwise,
    index,
    linear,
    order,
    reduce,
    shape,
)
from tvm_disc.frontends.stablehlo.table import OperationRow

FAMILIES: Mapping[str, tuple[OperationRow, ...]] = {
    "elementwise": elementwise.ROWS,
    "shape": shape.ROWS,
    "reduce": reduce.ROWS,
    "linear": linear.ROWS,
    "index": index.ROWS,
    "order": order.ROWS,
    "control": control.ROWS,
    "calls": calls.ROWS,
}

ROWS: Mapping[str, OperationRow] = {
    name: replace(row, name=name)
    for rows in FAMILIES.values()
    for row in rows
    for name in row.name.split()
}

_MANY = "it exchanges data between processes, and a program runs in one"
_COMPLEX = "programs have no complex numbers"
_HOST = "a program has no channel to the host during a call"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute"),
        _MANY,
    ),
    **dict.fromkeys(("cross-replica-sum", "partition_id", "reduce_scatter", "replica_id"), _MANY),
    **dict.fromkeys(("complex", "fft", "imag", "real"), _COMPLEX),
    **dict.fromkeys(("after_all", "create_token", "infeed", "outfeed", "recv", "send"), _HOST),
    "rng_bit_generator": (
        "its bits depend on the implementation; use JAX's default generator, threefry"
    ),
    "rng": "its numbers depend on the implementation; use jax.random",
}

__all__ = ["FAMILIES", "REFUSED", "ROWS"]
