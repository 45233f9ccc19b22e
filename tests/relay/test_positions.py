"""Gathers at positions that count: read in order they are a view, otherwise they stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.relay.importer.module import ImportedModule, import_module
from tvm_disc.shape import special_version


def counter(size: Any) -> Any:
    return relay.arange(relay.const(0, "int64"), size, relay.const(1, "int64"), dtype="int64")


def size_of(x: Any, axis: int) -> Any:
    return relay.take(relay.shape_of(x, dtype="int64"), relay.const(axis, "int64"), axis=0)


def program(offset: int = 0, stride_axis: int = 1, wrap: bool = True) -> Any:
    """`table[arange(rows of x) * columns + arange(columns)]`, as exporters index by batch."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    table = relay.var("table", shape=(relay.Any(), relay.Any()), dtype="float32")
    rows = relay.expand_dims(counter(size_of(x, 0)), axis=1)
    columns = relay.expand_dims(counter(size_of(table, 1)), axis=0)
    places = relay.add(relay.multiply(rows, size_of(table, stride_axis)), columns)
    places = relay.add(places, relay.const(offset, "int64"))
    flat = relay.reshape(table, newshape=[-1])
    if wrap:
        count = relay.take(relay.shape_of(flat, dtype="int64"), relay.const(0, "int64"), axis=0)
        negative = relay.less(places, relay.const(0, "int64"))
        places = relay.where(negative, relay.add(places, count), places)
    picked = relay.take(flat, places, axis=0)
    return relay.Function([x, table], relay.multiply(picked, relay.sum(x, axis=1, keepdims=True)))


def operators(imported: ImportedModule) -> list[str]:
    bindings = [b for block in imported.mod["main"].body.blocks for b in block.bindings]
    calls = [b.value for b in bindings if isinstance(b.value, tvm.ir.Call)]
    return [str(c.op.name).removeprefix("relax.") for c in calls]


def special(function: Any) -> Any:
    module = relay.IRModule.from_expr(function)
    return special_version(lambda p: import_module(module, premises=p), import_module(module))


@pytest.mark.parametrize("wrap", [True, False])
def test_a_gather_in_order_is_a_view(wrap: bool) -> None:
    version, premises = special(program(wrap=wrap))
    assert [p.text for p in premises] == ["x_0 == table_0"]
    assert "take" not in operators(version) and "less" not in operators(version)


@pytest.mark.parametrize(("offset", "stride_axis"), [(1, 1), (-1, 1), (0, 0)])
def test_other_positions_stay_a_gather(offset: int, stride_axis: int) -> None:
    function = program(offset, stride_axis)
    assert special(function) is None
    assert "take" in operators(import_module(relay.IRModule.from_expr(function)))


def test_the_same_row_everywhere_is_read_once() -> None:
    x = relay.var("x", shape=(relay.Any(), 3), dtype="float32")
    table = np.arange(12, dtype="float32").reshape(4, 3)
    places = relay.broadcast_to(relay.const(np.array([2])), relay.shape_of(relay.sum(x, axis=1)))
    row = relay.take(relay.const(table), places, axis=0)
    function = relay.Function([x], relay.add(x, row))
    assert "take" not in operators(import_module(relay.IRModule.from_expr(function)))
    exe = tvm_disc.build(function)
    for n in (1, 7, 15, 16, 200, 0):
        given = np.full((n, 3), 0.5, "float32")
        np.testing.assert_array_equal(exe(given), given + table[2])


@pytest.mark.parametrize("wrap", [True, False])
def test_numbers(wrap: bool) -> None:
    exe = tvm_disc.build(program(wrap=wrap))
    rng = np.random.default_rng(0)
    for rows, have, columns in ((2, 2, 3), (2, 5, 3), (1, 1, 1), (7, 7, 13), (0, 4, 2), (3, 3, 0)):
        x = rng.standard_normal((rows, 4)).astype("float32")
        table = rng.standard_normal((have, columns)).astype("float32")
        expected = table[:rows] * x.sum(1, keepdims=True)
        np.testing.assert_allclose(exe(x, table), expected, rtol=1e-5, atol=1e-6)


def test_positions_within_their_dim_need_no_test() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    places = counter(size_of(x, 0))
    inside = relay.logical_and(
        relay.less(places, size_of(x, 0)),
        relay.greater_equal(places, relay.const(0, "int64")),
    )
    column = relay.expand_dims(inside, axis=1)
    function = relay.Function([x], relay.where(column, relay.exp(x), relay.const(0.0)))
    left = operators(import_module(relay.IRModule.from_expr(function)))
    assert not {"less", "greater_equal", "logical_and", "where"} & set(left)
    exe = tvm_disc.build(function)
    given = np.ones((3, 2), "float32")
    np.testing.assert_allclose(exe(given), np.exp(given), rtol=1e-6)


def test_an_index_at_its_own_positions_is_a_view_and_broadcast() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    rows = relay.reshape(counter(size_of(x, 0)), newshape=(-1, 1, 1))
    columns = relay.reshape(counter(size_of(x, 1)), newshape=(1, 1, -1))
    again = relay.add(rows, relay.const(np.zeros((1, 2, 1)), "int64"))
    function = relay.Function([x], relay.adv_index([x, again, columns]))
    assert "gather_nd" not in operators(import_module(relay.IRModule.from_expr(function)))
    exe = tvm_disc.build(function)
    for shape in ((2, 3), (1, 1), (0, 3)):
        given = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        np.testing.assert_array_equal(exe(given), np.repeat(given[:, None], 2, 1))
