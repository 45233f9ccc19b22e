"""Kernels whose output size is known only at run time: the first counts, the second writes."""

from __future__ import annotations

from typing import Any

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.positions import nonzero_plans
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Kernel, Machine, Plan, build_kernel, single
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr


def nonzero_kernels(
    rank: int, dtype: str, solver: Solver, machine: Machine
) -> tuple[Kernel, Kernel, list[Any], Any]:
    """Return (count, fill, symbols of the operand's dims, symbol of the count).

    ``count`` and ``fill`` are kernels. ``fill`` writes the indices of nonzero elements as int64
    ``[rank, count]``, in row-major order.
    """
    dims = [index_var(f"d{a}") for a in range(rank)]
    size = index_var("count")
    source = Node("param", (), tuple(dims), dtype)
    total = Node("count", (source,), (i64(1),), "int64")
    places = Node("positions", (source,), (i64(rank), size), "int64")
    # The place of an index in the result depends on all earlier elements, so there is one task.
    count = Plan(i64(1), i64(0), lambda body: _count(body, source))
    fill = Plan(i64(1), i64(0), lambda body: _fill(body, source, size))
    if machine.device is not None:
        count, fill = nonzero_plans(source, size)
    name = f"nonzero{rank}_{dtype}"
    kernels = [
        build_kernel(
            Group(f"{name}_{kind}", "opaque", [node], [source], [node]),
            single(plan),
            solver,
            machine,
        )
        for kind, node, plan in (("count", total, count), ("fill", places, fill))
    ]
    return kernels[0], kernels[1], dims, size


def _truth(body: Body, source: Node, t: Expr) -> Expr:
    return cast(body.low.load(body.buffers[source], t, source.dtype), "bool")


def _count(body: Body, source: Node) -> None:
    block = body.block
    block.store(body.outputs[0], 0, i64(0))
    with block.loop("t", product(source.shape)) as t, block.when(_truth(body, source, t)):
        block.store(body.outputs[0], 0, body.outputs[0][i64(0)] + 1)


def _fill(body: Body, source: Node, size: Expr) -> None:
    block, low = body.block, body.low
    at = block.alloc("at", 1, "int64")
    block.store(at, 0, i64(0))
    with low.loop("t", product(source.shape)) as t, block.when(_truth(body, source, t)):
        index = low.space.split(t, source.shape)
        low.resolve(index)
        for axis, i in enumerate(index):
            block.store(body.outputs[0], size * axis + at[i64(0)], i)
        block.store(at, 0, at[i64(0)] + 1)
