"""The fallback template: one contraction of any kind, with an element-wise epilogue.

There is one accumulator per output element. If adjacent elements along the last output dim need no
guarded loads (no padding, only lane-wise operators), they are accumulated as vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.axes import permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay.kernel_ops import PACK
from tvm_disc.schedules.conv.contraction import Contraction, contraction
from tvm_disc.schedules.elements import cast, is_float, packed_row, reshape_index
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.rows.template import LANEWISE, LANEWISE_MOVES
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, is_nan, ramp, same_lanes
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Expr

if TYPE_CHECKING:
    from tvm_disc.schedules.lowering import Lowering


def plan_reduce(group: Group, solver: Solver, machine: Machine) -> Plan:
    """Return a plan with one task per row of outputs (all dims but the last).

    For argmax and argmin, there is one task per element.

    Raises:
        Unsupported: the group has no anchor.
    """
    anchor = group.anchor
    if anchor is None:
        raise Unsupported(
            f"{group.name}: expected a reduction, product or window to loop over, found none"
        )
    if anchor.op in ("relax.argmax", "relax.argmin"):
        return _plan_arg(group, anchor)
    spec = contraction(anchor)
    rows, cols = (anchor.shape[:-1], anchor.shape[-1]) if anchor.shape else ((), i64(1))
    width = machine.lanes * 2
    lanewise = _is_lanewise(group, anchor)

    def emit(body: Body) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            outer = body.low.space.split(r, rows)
            done: Expr = i64(0)
            if lanewise:
                full = body.block.bind("blocks", tirx.floordiv(i64(cols), i64(width)))
                with body.low.loop("jo", full) as jo:
                    start = body.block.bind("start", jo * width)
                    _vector(group, spec, body, r, outer, start, cols, width)
                done = body.block.bind("done", full * width)
            with body.low.loop("jt", i64(cols) - done, begin=done) as j:
                _scalar(group, spec, body, r, outer, j, cols)

    return Plan(
        tasks=product(rows),
        work=product([*anchor.shape, *spec.extents]) * 2,
        emit=emit,
        notes={"accumulators": f"vectors of {width} columns, then single columns"},
    )


def _is_lanewise(group: Group, anchor: Node) -> bool:
    """Return whether adjacent columns can be accumulated as one vector, without guarded loads."""
    if anchor.cls is OpClass.CONV:
        return not any(anchor.attrs["padding"]) and not anchor.attrs.get("ceil_mode")
    return all(n.cls in LANEWISE or n.op in LANEWISE_MOVES or n is anchor for n in group.nodes)


def _reduction_loops(stack: ExitStack, body: Body, extents: Sequence[Expr]) -> list[Expr]:
    return [
        i64(0) if static_dim(e) == 1 else stack.enter_context(body.low.loop(f"k{d}", e))
        for d, e in enumerate(extents)
    ]


def _index(group: Group, outer: Sequence[Expr], j: Expr) -> list[Expr]:
    assert group.anchor is not None
    return [*outer, j] if group.anchor.shape else []


def _vector(
    group: Group,
    spec: Contraction,
    body: Body,
    row: Expr,
    outer: Sequence[Expr],
    start: Expr,
    cols: Expr,
    width: int,
) -> None:
    block, low = body.block, body.low
    acc = block.alloc("acc", width, spec.dtype)
    lanes = ramp(i64(0), width)
    block.store(acc, lanes, tirx.Broadcast(spec.reducer.identity(spec.dtype), width))
    with ExitStack() as stack:
        k = _reduction_loops(stack, body, spec.extents)
        value = spec.element(low, _index(group, outer, ramp(start, width)), k)
        low.resolve([value])
        old, value = same_lanes(acc[lanes], value)
        block.store(acc, lanes, spec.reducer.combine(old, value))
    with low.loop("v", width) as v:
        _finish(group, spec, body, row, outer, start + v, cols, acc[v])


def _scalar(
    group: Group,
    spec: Contraction,
    body: Body,
    row: Expr,
    outer: Sequence[Expr],
    j: Expr,
    cols: Expr,
) -> None:
    block, low = body.block, body.low
    acc = block.alloc("acc", 1, spec.dtype)
    block.store(acc, 0, spec.reducer.identity(spec.dtype))
    with ExitStack() as stack:
        k = _reduction_loops(stack, body, spec.extents)
        value = spec.element(low, _index(group, outer, j), k)
        low.resolve([value])
        block.store(acc, 0, spec.reducer.combine(acc[i64(0)], value))
    _finish(group, spec, body, row, outer, j, cols, acc[i64(0)])


def _finish(
    group: Group,
    spec: Contraction,
    body: Body,
    row: Expr,
    outer: Sequence[Expr],
    j: Expr,
    cols: Expr,
    value: Expr,
) -> None:
    anchor, low = group.anchor, body.low
    assert anchor is not None
    index = _index(group, outer, j)
    with low.scope():
        result = low.settle("total", spec.finish(low, index, value))
        store_outputs(group, body, anchor, result, index, add(mul(row, cols), j))


def store_outputs(
    group: Group, body: Body, anchor: Node, value: Expr, index: Sequence[Expr], flat: Expr
) -> None:
    """Emit the stores of all outputs of a group, for the element ``index`` of ``anchor``.

    The element is ``value``, and its row-major offset ``flat``. Outputs are computed from the
    anchor by the operators that :func:`epilogue_index` names.
    """
    low = body.low
    low.bind_reader(anchor, lambda at: value)
    for node, buffer in zip(group.outputs, body.outputs, strict=True):
        with ExitStack() as stack:
            for begin, end in column_ranges(group, node):
                # A vector is never partly in the range, see ``whole_vectors``.
                first = index[-1].base if isinstance(index[-1], tirx.Ramp) else index[-1]
                stack.enter_context(low.block.when(tirx.And(first >= begin, first < end)))
                stack.enter_context(low.scope())
            at = epilogue_index(group, low, node, index, flat)
            low.store(buffer, low.space.join(at, node.shape), low.at(node, at), node.dtype)
    low.drop_reader(anchor)


def column_ranges(group: Group, node: Node) -> list[tuple[int, int]]:
    """Return the ranges of columns that the slices between the anchor and an output select."""
    return [
        (int(begin.value), int(end.value))
        for step in _chain(group, node)
        if step.op == "relax.strided_slice"
        for begin, end in zip(step.prims[1], step.prims[2], strict=True)
    ]


def whole_vectors(group: Group, lanes: int) -> bool:
    """Return whether no output's columns begin or end inside an aligned vector."""
    ranges = (r for node in group.outputs for r in column_ranges(group, node))
    return all(bound % lanes == 0 for r in ranges for bound in r)


def epilogue_index(
    group: Group, low: Lowering, node: Node, index: Sequence[Expr], flat: Expr
) -> list[Expr]:
    """Return the index in ``node`` of the anchor's element ``index``.

    Follows the chain of consumers from the anchor: views keep the flat offset, permutations permute
    the index, slices of columns shift its last entry, packing of ragged items joins its first two
    entries, and element-wise operators keep it.
    """
    at = list(index)
    for step in _chain(group, node):
        source = _towards_anchor(group, step)
        if step.cls is OpClass.VIEW:
            at = reshape_index(low, step.shape, source.shape, at)
        elif step.op == "relax.permute_dims":
            at = [at[a] for a in permutation(step)]
        elif step.op == PACK:
            at = [packed_row(low, step, at[0], at[1]), *at[2:]]
        elif step.op == "relax.strided_slice":
            at = [*at[:-1], add(at[-1], -step.prims[1][0])]
        elif len(step.shape) != len(at):
            at = [i64(0)] * (len(step.shape) - len(at)) + at
    return at


def _chain(group: Group, node: Node) -> list[Node]:
    """Return the chain of nodes from the anchor to one of its consumers."""
    chain: list[Node] = []
    while node is not group.anchor:
        chain.append(node)
        node = _towards_anchor(group, node)
    return chain[::-1]


def _towards_anchor(group: Group, node: Node) -> Node:
    reach = _reaches_anchor(group)
    return next(x for x in node.inputs if x in reach)


def _reaches_anchor(group: Group) -> set[Node]:
    assert group.anchor is not None
    reach = {group.anchor}
    for n in group.nodes:
        if any(x in reach for x in n.inputs):
            reach.add(n)
    return reach


def _plan_arg(group: Group, node: Node) -> Plan:
    """Return a plan of argmax or argmin: the first position of the maximum or minimum.

    If there is a NaN, the result is the position of the first NaN.
    """
    source = node.inputs[0]
    axes = reduced_axes(node)
    keep = bool(node.attrs["keepdims"])
    largest = node.op == "relax.argmax"

    def emit(body: Body) -> None:
        block, low = body.block, body.low
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            index = low.space.split(t, node.shape)
            best, where = block.alloc("best", 1, source.dtype), block.alloc("where", 1, "int64")
            extents = [source.shape[a] for a in axes]
            block.store(where, 0, i64(0))
            outer = [i for a, i in enumerate(index) if not (keep and a in axes)]

            def read(k: Expr) -> Expr:
                parts, rest = iter(low.space.split(k, extents)), iter(outer)
                at = [next(parts) if a in axes else next(rest) for a in range(len(source.shape))]
                value = low.at(source, at)
                low.resolve([value])
                return value

            with low.scope():
                first = read(i64(0))
                block.store(best, 0, first)
            with low.loop("k", product(extents) - 1, begin=1) as k:
                value = low.settle("value", read(k))
                old = best[i64(0)]
                better = value > old if largest else value < old
                if is_float(source.dtype):
                    better = tirx.And(tirx.Or(better, is_nan(value)), tirx.EQ(old, old))
                with block.when(better):
                    block.store(best, 0, value)
                    block.store(where, 0, k)
            result = low.settle("arg", cast(where[i64(0)], node.dtype))
            store_outputs(group, body, node, result, index, t)

    return Plan(product(node.shape), product(source.shape) * 2, emit)
