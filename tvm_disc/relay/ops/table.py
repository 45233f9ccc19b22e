"""The operator table: all Relay operators by name."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tvm_disc.errors import ParseError
from tvm_disc.relay.attrs import AttrError, LegacyAttrs, complete_attrs, plain_value
from tvm_disc.relay.expr import Attrs, Expr, Op
from tvm_disc.relay.importer.rules import LOWER, VALUES
from tvm_disc.relay.inference.operands import OPERANDS
from tvm_disc.relay.ops import (
    algorithm,
    broadcast,
    dyn,
    indexing,
    layout,
    loss,
    misc,
    nn,
    qnn,
    qnn_elementwise,
    random,
    reduce,
    signal,
    sparse,
    tensor,
    transform,
    windows,
)
from tvm_disc.relay.ops.derived import checks, packed, special
from tvm_disc.relay.ops.vision import detection, image, region, sampling

from .row import USER_ROWS, OpRow

FAMILIES: tuple[tuple[OpRow, ...], ...] = (
    tensor.ROWS,
    special.ROWS,
    broadcast.ROWS,
    reduce.ROWS,
    transform.ROWS,
    indexing.ROWS,
    checks.ROWS,
    algorithm.ROWS,
    dyn.ROWS,
    nn.ROWS,
    windows.ROWS,
    image.ROWS,
    detection.ROWS,
    signal.ROWS,
    region.ROWS,
    random.ROWS,
    loss.ROWS,
    sampling.ROWS,
    layout.ROWS,
    sparse.ROWS,
    misc.ROWS,
    packed.ROWS,
    qnn.ROWS,
    qnn_elementwise.ROWS,
)


def _with_rules(row: OpRow) -> OpRow:
    """Return a table entry with its rules, which the importer and type inference define."""
    name = row.name
    lower, value, operands = LOWER.get(name), VALUES.get(name), OPERANDS.get(name)
    return replace(row, lower=lower, value=value, operands=operands)


def _build() -> Mapping[str, OpRow]:
    rows = {row.name: _with_rules(row) for family in FAMILIES for row in family}
    assert len(rows) == sum(map(len, FAMILIES)), "an operator has two rows"
    return MappingProxyType(ChainMap(USER_ROWS, rows))


OPS: Mapping[str, OpRow] = _build()


def call_attrs(op: Expr, given: Attrs) -> Attrs:
    """Return the full attributes of a call from any form in which a reader found them."""
    legacy = given.get("")
    values = dict(legacy.values) if isinstance(legacy, LegacyAttrs) else given
    if not isinstance(op, Op):
        return {k: plain_value(v) for k, v in values.items() if k}
    row = OPS.get(op.name)
    if row is None:
        raise ParseError(f"unknown operator {op.name}")
    try:
        return complete_attrs(row, values)
    except AttrError as error:
        raise ParseError(str(error)) from None
