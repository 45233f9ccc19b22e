"""The *loop* template: element-wise, broadcast and injective work over one domain.

The domain is flattened as far as every read allows: fully when all reads are contiguous, else
into rows of the shortest suffix of dims that needs no division in the inner loop, which LLVM then
vectorises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm_disc.relay_passes.graph import Node
from tvm_disc.schedules.emit import Block, Buffer, index_var, pointer, view
from tvm_disc.schedules.index import IndexSpace, add, mul, product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver

Expr: TypeAlias = Any


def plan_loop(group: Group, solver: Solver, machine: Machine) -> Plan:
    """One pass over the domain of the group's outputs."""
    domain = group.outputs[0].shape
    split = _best_split(group, solver)
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    inner = product(domain[split:])

    def emit(body: Body) -> None:
        if split == 0:
            with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
                _store_all(group, body.low, body.outputs, t, domain)
            return
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            base = body.block.bind("base", mul(r, inner))
            outer = body.low.space.split(r, domain[:split])
            with body.low.loop("j", inner) as j:
                index = [*outer, *body.low.space.split(j, domain[split:])]
                _store_all(group, body.low, body.outputs, add(base, j), domain, index)

    return Plan(
        tasks=product(domain[:split]) if split else product(domain),
        work=product(domain) * cost,
        emit=emit,
        notes={"loops": "flat" if split == 0 else f"rows of the last {len(domain) - split} dims"},
    )


def _store_all(
    group: Group,
    low: Lowering,
    outputs: Sequence[Buffer],
    flat: Expr,
    domain: Sequence[Any],
    index: Sequence[Expr] | None = None,
) -> None:
    for node, buffer in zip(group.outputs, outputs, strict=True):
        same = index is not None and low.solver.known_same_shape(node.shape, domain)
        at = index if same and index is not None else low.space.split(flat, node.shape)
        low.store(buffer, flat, low.at(node, at), node.dtype)


def _best_split(group: Group, solver: Solver) -> int:
    """The fewest outer dims for which the inner loop computes no division."""
    domain = group.outputs[0].shape
    for split in range(max(len(domain), 1)):
        if not _inner_divides(group, solver, split):
            return split
    return max(len(domain) - 1, 0)


def _inner_divides(group: Group, solver: Solver, split: int) -> bool:
    domain = group.outputs[0].shape
    block, space = Block(), IndexSpace(lambda a, b: bool(solver.known_eq(a, b)))
    low = Lowering(block, space, solver)
    for node in group.params:
        low.bind_buffer(node, _dummy(node))
    outputs = [_dummy(n) for n in group.outputs]
    r, j = index_var("r"), index_var("j")
    inner = product(domain[split:])
    if split == 0:
        _store_all(group, low, outputs, j, domain)
    else:
        index = [*space.split(r, domain[:split]), *space.split(j, domain[split:])]
        _store_all(group, low, outputs, add(mul(r, inner), j), domain, index)
    return any(space.depends_on(v, j) for v in low.defined)


def _dummy(node: Node) -> Buffer:
    return view("x", pointer("x", node.dtype), node.dtype)


