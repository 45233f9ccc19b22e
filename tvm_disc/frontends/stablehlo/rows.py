"""Table of StableHLO operators: converters by name, and operators that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm_disc.frontends.stablehlo.operators import (
    calls,
    complex_numbers,
    control,
    elementwise,
    factor,
    index,
    linear,
    order,
    reduce,
    shape,
    windows,
)
from tvm_disc.frontends.stablehlo.table import OperationRow

FAMILIES: Mapping[str, tuple[OperationRow, ...]] = {
    "elementwise": elementwise.ROWS,
    "shape": shape.ROWS,
    "reduce": reduce.ROWS,
    "windows": windows.ROWS,
    "linear": linear.ROWS,
    "factor": factor.ROWS,
    "index": index.ROWS,
    "order": order.ROWS,
    "control": control.ROWS,
    "calls": calls.ROWS,
    "complex": complex_numbers.ROWS,
}

ROWS: Mapping[str, OperationRow] = {
    name: replace(row, name=name)
    for rows in FAMILIES.values()
    for row in rows
    for name in row.name.split()
}

_MANY = "it exchanges data between processes, and a program runs in one"
_NUMBER = "it returns the number of a process, and a program runs in one"
_HOST = "a program has no channel to the host during a call"

_OLD = "it is deprecated, and not part of StableHLO's specification"

REFUSED: Mapping[str, str] = {
    name: reason
    for names, reason in (
        ("all_gather all_reduce all_to_all collective_broadcast collective_permute", _MANY),
        ("collective_reduce reduce_scatter", _MANY),
        ("partition_id replica_id", _NUMBER),
        ("async_start async_done", "a program runs its operations one after another"),
        ("after_all create_token infeed outfeed recv send", _HOST),
        ("get_tuple_element tuple", "values of a program are tensors; JAX emits no tuples"),
        ("uniform_quantize uniform_dequantize", "there are no tensors of quantized types"),
        ("cross-replica-sum einsum unary_einsum torch_index_select", _OLD),
        (
            "rng_bit_generator",
            "its bits depend on the implementation; use JAX's default generator, threefry",
        ),
        ("rng", "its numbers depend on the implementation; use jax.random"),
    )
    for name in names.split()
}

__all__ = ["FAMILIES", "REFUSED", "ROWS"]
