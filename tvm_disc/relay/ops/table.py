"""The one operator table: every Relay operator by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import (
    algorithm,
    broadcast,
    conv,
    dyn,
    image_vision,
    indexing,
    misc,
    nn,
    pool,
    qnn,
    reduce,
    tensor,
    transform,
)
from .row import OpRow

FAMILIES: tuple[tuple[OpRow, ...], ...] = (
    tensor.ROWS,
    broadcast.ROWS,
    reduce.ROWS,
    transform.ROWS,
    indexing.ROWS,
    algorithm.ROWS,
    dyn.ROWS,
    nn.ROWS,
    conv.ROWS,
    pool.ROWS,
    image_vision.ROWS,
    misc.ROWS,
    qnn.ROWS,
)


def _build() -> Mapping[str, OpRow]:
    rows = {row.name: row for family in FAMILIES for row in family}
    assert len(rows) == sum(map(len, FAMILIES)), "an operator has two rows"
    return MappingProxyType(rows)


OPS: Mapping[str, OpRow] = _build()
