"""The operator table: all Relay operators by name, imported by family on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module

from tvm_disc.errors import ParseError
from tvm_disc.relay.attrs import AttrError, LegacyAttrs, complete_attrs, plain_value
from tvm_disc.relay.expr import Attrs, Expr, Op
from tvm_disc.relay.importer.values import VALUES

from .row import USER_ROWS, LowerRule, OpRow

_ROWS, _RULES = "tvm_disc.relay.ops", "tvm_disc.relay.importer.lowering"


@dataclass(frozen=True)
class Family:
    """The operators whose rows are in one module.

    Attributes:
        module: the module of the rows, in ``relay/ops``.
        rules: the modules of their import rules, in ``relay/importer/lowering``, in the order in
            which they are searched.
    """

    module: str
    rules: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> Mapping[str, OpRow]:
        """Return the rows by name, without rules."""
        rows: tuple[OpRow, ...] = import_module(f"{_ROWS}.{self.module}").ROWS
        return {row.name: row for row in rows}

    def row(self, name: str) -> OpRow:
        """Return a row with its rules, which the importer defines."""
        return replace(self.rows[name], lower=self._rule(name), value=VALUES.get(name))

    def _rule(self, name: str) -> LowerRule | None:
        for module in self.rules:
            rules: Mapping[str, LowerRule] = import_module(f"{_RULES}.{module}").LOWER
            if name in rules:
                return rules[name]
        return None


# Families in the order in which a look-up searches them: common ones first.
FAMILIES: tuple[Family, ...] = (
    Family("nn", ("nn", "transform", "window", "image")),
    Family("tensor", ("tensor",)),
    Family("broadcast", ("tensor",)),
    Family("reduce", ("tensor",)),
    Family("transform", ("transform", "tensor", "einsum", "index", "order")),
    Family("indexing", ("index", "slice", "tensor", "transform", "order", "run_time")),
    Family("windows", ("window", "transposed")),
    Family("derived.special", ("tensor",)),
    Family("dyn", ("transform", "tensor", "index", "run_time", "order", "window", "image")),
    Family("derived.checks", ("checks",)),
    Family("derived.slices", ("slice",)),
    Family("algorithm", ("order",)),
    Family("layout", ("layout", "index")),
    Family("vision.image", ("image",)),
    Family("vision.detection", ("detect",)),
    Family("vision.region", ("region",)),
    Family("vision.sampling", ("sample",)),
    Family("signal", ("signal",)),
    Family("random", ("random",)),
    Family("loss", ("loss",)),
    Family("sparse", ("sparse",)),
    Family("misc", ("tensor",)),
    Family("derived.packed", ("packed",)),
    Family("qnn", ("qnn",)),
    Family("qnn_elementwise", ("qnn", "quantize")),
)


class OperatorTable(Mapping[str, OpRow]):
    """All operators by name, with those that users registered.

    A look-up imports the families in order until one has the operator; an iteration imports all.
    """

    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = families
        self._found: dict[str, OpRow] = {}

    def __getitem__(self, name: str) -> OpRow:
        row = USER_ROWS.get(name) or self._found.get(name)
        if row is None:
            family = next((f for f in self._families if name in f.rows), None)
            if family is None:
                raise KeyError(name)
            row = self._found[name] = family.row(name)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter({name: None for rows in self._all() for name in rows})

    def __len__(self) -> int:
        return len(set().union(*self._all()))

    def _all(self) -> list[Mapping[str, OpRow]]:
        return [*(family.rows for family in self._families), USER_ROWS]


OPS: Mapping[str, OpRow] = OperatorTable(FAMILIES)


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
