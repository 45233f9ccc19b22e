"""Natural numbers as a data type: conversion to and from values and expressions."""

from __future__ import annotations

from typing import Any

from tvm_disc.abi.values import ConstructorValue
from tvm_disc.errors import BadInput, refusing, shown
from tvm_disc.relay.expr import Call
from tvm_disc.relay_api.prelude import Prelude


def get_type(prelude: Prelude, name: str) -> Any:
    """Return a data type and its constructors: ``nat, z, s = get_type(p, "nat")``."""
    return prelude.mod.get_type(name)


@refusing
def count(prelude: Prelude, n: ConstructorValue) -> int:
    """Return a value of ``nat`` as a number.

    Raises:
        BadInput: ``n`` is not a value of ``nat``.
    """
    found = 0
    while True:
        name = getattr(n, "name", None)
        if name == "z":
            return found
        if name != "s":
            raise BadInput(f"count: expected a value of the data type nat, found {shown(n)}")
        found, n = found + 1, n.fields[0]


@refusing
def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """Return a number as a value of ``nat``."""
    _, zero, after = get_type(prelude, "nat")
    value = ConstructorValue(zero, tag=zero.tag)
    for _ in range(n):
        value = ConstructorValue(after, value, tag=after.tag)
    return value


@refusing
def make_nat_expr(prelude: Prelude, n: int) -> Call:
    """Return a number as an expression of ``nat``.

    Raises:
        BadInput: ``n`` is negative.
    """
    if n < 0:
        raise BadInput(f"make_nat_expr: expected at least 0, found {n}")
    _, zero, after = get_type(prelude, "nat")
    expr = Call(zero, ())
    for _ in range(n):
        expr = Call(after, (expr,))
    return expr


__all__ = ["count", "get_type", "make_nat_expr", "make_nat_value"]
