"""Steps with a conditional or a loop, whose bodies read values of the graph around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.graphs import layers, steps
from tests.fuzz.graphs.draws import Unusable
from tests.fuzz.graphs.maker import Maker, proto
from tests.fuzz.graphs.world import WORLDS, Value, usable

INNER = [
    steps.unary, steps.binary, steps.integers, steps.reduction, steps.reshape, steps.transpose,
    steps.slices, steps.gather, steps.concat, steps.pad, layers.matmul, layers.norm, steps.sizes,
]  # fmt: skip


def condition(m: Maker) -> Value:
    """A scalar bool of a dim, of data, or an input."""
    draw = m.rng.random()
    if draw < 0.4:
        v = m.value("fiub", least=1)
        dim = steps.dims_of(m, v, int(m.rng.integers(v.rank)))
        size = m.emit("Squeeze", dim, m.const([0], "int64"))[0]
        return m.emit(
            m.pick(["Greater", "Less", "Equal"]), size, m.const(m.pick([0, 1, 4]), "int64")
        )[0]
    if draw < 0.7:
        v = m.value("f", exact=True)
        total = m.emit("ReduceMax", v, keepdims=0)[0]
        return m.emit("Greater", total, m.const(1, v.dtype))[0]
    return m.input([], "bool")


def conditional(m: Maker) -> None:
    cond = condition(m)
    nodes, values = m.nodes, list(m.values)
    m.nodes = []
    for _ in range(int(m.rng.integers(1, 4))):
        m.step(INNER)
    if not m.nodes:
        raise Unusable
    one = m.values[-1]
    if one in values:
        raise Unusable
    first = helper.make_graph(m.nodes, "then", [], [_info(one)])
    m.values = values + [v for v in m.values if v.name.startswith("x") and v not in values]
    m.nodes = []
    fits = [v for v in m.values if v.dtype == one.dtype and v.rank == one.rank]
    if fits and m.chance(0.5):
        base = m.pick(fits)
    else:
        base = m.input([d if m.chance(0.7) else m.dim() for d in one.dims], one.dtype)
    two = m.emit("Neg" if one.kind in "fi" and m.chance(0.5) else "Identity", base)[0]
    second = helper.make_graph(m.nodes, "else", [], [_info(two)])
    m.nodes = nodes
    m.values.remove(two)
    name = m.fresh()
    m.nodes.append(
        helper.make_node("If", [cond.name], [name], then_branch=first, else_branch=second)
    )
    arrays: list[np.ndarray | None] = []
    for c, a, b in zip(cond.arrays, one.arrays, two.arrays, strict=True):
        arrays.append(None if c is None else a if bool(c) else b)
    if not usable(arrays):
        raise Unusable
    m.used.append("If")
    m.values.append(Value(name, arrays))


def _info(v: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(v.name, proto(v.dtype), [None] * v.rank)


def _body(m: Maker, state: Value, extra: str | None, outer: list[Value]) -> tuple[list[Any], str]:
    """Nodes that compute the next state of the same shape, and its name."""
    nodes, name = [], "s"
    half = m.const(0.5, state.dtype)
    outer.append(half)

    def add(op: str, *ins: str) -> None:
        nonlocal name
        name = m.fresh("b")
        nodes.append(helper.make_node(op, list(ins), [name]))

    for _ in range(int(m.rng.integers(1, 4))):
        draw = m.rng.random()
        if draw < 0.25:
            add(m.pick(["Tanh", "Relu", "Neg", "Abs", "Sigmoid"]), name)
        elif draw < 0.5:
            add("Mul", name, half.name)
        elif extra is not None and draw < 0.75:
            add(m.pick(["Add", "Sub", "Max"]), name, extra)
        else:
            other = m.input(
                [d if m.chance(0.7) else (1,) * WORLDS for d in state.dims], state.dtype
            )
            outer.append(other)
            add(m.pick(["Add", "Sub", "Min"]), name, other.name)
    return nodes, name


def loop(m: Maker) -> None:
    state = m.value("f", dtypes=["float32", "float64"], most=3)
    outer: list[Value] = []
    nodes, name = _body(m, state, None, outer)
    grows = state.rank > 0 and m.chance(0.25)
    if grows:
        axis = int(m.rng.integers(state.rank))
        dims = list(state.dims)
        dims[axis] = m.pick([(1,) * WORLDS, m.basics[0]])
        part = m.input(dims, state.dtype)
        outer.append(part)
        nodes = [helper.make_node("Concat", ["s", part.name], ["grown"], axis=axis)]
        name = "grown"
    row = m.fresh("r")
    if m.chance(0.5):
        nodes.append(helper.make_node("ReduceSum", [name], [row], keepdims=0))
        row_rank = 0
    else:
        nodes.append(helper.make_node("Identity", [name], [row]))
        row_rank = -1 if grows else state.rank
    limit = m.const(int(m.rng.integers(0, 5)), "int64")
    outer.append(limit)
    if m.chance(0.5):
        nodes.append(helper.make_node("Less", ["i", limit.name], ["go"]))
    else:
        nodes.append(helper.make_node("Identity", ["c"], ["go"]))
    rows = row_rank >= 0 and m.chance(0.7)
    shape = [None] * state.rank
    outs = [
        helper.make_tensor_value_info("go", proto("bool"), []),
        helper.make_tensor_value_info(name, proto(state.dtype), shape),
    ]
    if rows:
        outs.append(helper.make_tensor_value_info(row, proto(state.dtype), [None] * row_rank))
    ins = [
        helper.make_tensor_value_info("i", proto("int64"), []),
        helper.make_tensor_value_info("c", proto("bool"), []),
        helper.make_tensor_value_info("s", proto(state.dtype), shape),
    ]
    body = helper.make_graph(nodes, "body", ins, outs)
    if m.chance(0.5):
        v = m.value("fiub", least=1)
        dim = steps.dims_of(m, v, int(m.rng.integers(v.rank)))
        if not dim.within(0, 20):
            raise Unusable
        count = m.emit("Squeeze", dim, m.const([0], "int64"))[0]
    else:
        count = m.const(int(m.rng.integers(0, 12)), "int64")
    cond = m.const(np.array(True)) if m.chance(0.7) else condition(m)
    m.emit("Loop", count, cond, state, outs=2 if rows else 1, captured=outer, body=body)


def scan(m: Maker) -> None:
    v = m.value("f", dtypes=["float32", "float64"], least=1, most=3)
    state = m.input(list(v.dims[1:]), v.dtype)
    outer: list[Value] = []
    nodes, name = _body(m, state, "x", outer)
    nodes.append(helper.make_node("Mul", [name, "x"], ["y"]))
    shape = [None] * state.rank
    info = helper.make_tensor_value_info
    kind = proto(v.dtype)
    body = helper.make_graph(
        nodes, "body", [info("s", kind, shape), info("x", kind, shape)],
        [info(name, kind, shape), info("y", kind, shape)],
    )  # fmt: skip
    m.emit("Scan", state, v, outs=2, captured=outer, body=body, num_scan_inputs=1)


STEPS = [*steps.STEPS, *layers.STEPS, *[conditional] * 4, *[loop] * 3, *[scan] * 2]
