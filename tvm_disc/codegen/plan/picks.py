"""Guards of kernels that read tensors by computed indices.

A read by index requires that the axis has elements. The guard is placed before the launch, so that
a call that skips the launch is not refused. If the program checks indices, a second guard compares
the smallest and the largest index with the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from tvm import tirx

from tvm_disc.codegen.plan.program import GuardExit
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, Var


def pick_guards(
    nodes: list[Node], given: Mapping[Var, Expr], solver: Solver
) -> Iterator[GuardExit]:
    """Yield the guards of a launch with the dims ``given``; ``nodes`` are the kernel's
    operators.
    """
    for node in nodes:
        for axis in _picked_axes(node):
            # Not simplified: a fact may equate the dim with symbols that are bound later.
            dim = _at(node.inputs[0].shape[axis], given)
            if solver.known_le(i64(1), dim):
                continue
            wanted = [_at(d, given) for d in node.shape]
            nothing = [tirx.EQ(d, i64(0)) for d in wanted if not solver.known_le(i64(1), d)]
            text = (
                f"{node.op.rpartition('.')[2]}: axis {axis} is indexed but empty: "
                f"{solver.name_of(dim)} is 0"
            )
            yield GuardExit(reduce(tirx.Or, nothing, dim >= 1), text)


def range_guard(attrs: Any, found: Sequence[Expr], limits: Sequence[Expr]) -> GuardExit:
    """Return the guard of a ``disc.checked``.

    Args:
        found: the smallest and the largest index; for a check of divisors only one number, which is
            compared with the upper limit.
        limits: the smallest valid index, and the largest plus one.
    """
    least, greatest = found[0], found[-1]
    low, high = limits
    what, kind = str(attrs["what"]), str(attrs["kind"])
    inside = tirx.And(least >= low, greatest < high)
    if len(found) == 1:
        text = f"{what}: expected a divisor other than 0, found 0"
        return GuardExit(greatest < high, text, (), kind)
    wrong = tirx.Select(least < low, least, greatest)
    text = f"{what}: expected "
    parts = (low, " <= index < ", high, ", found ", wrong)
    return GuardExit(inside, text, parts, kind)


def result_shapes(nodes: list[Node], given: Mapping[Var, Expr]) -> Iterator[tuple[list[Expr], str]]:
    """Yield the result shape of each node of dynamic shape, with the dims ``given`` inserted, and
    the node's operator, for messages.
    """
    for node in nodes:
        if any(not isinstance(d, int | tirx.IntImm) for d in node.shape):
            named = node.var is not None and node.var.span is not None
            operator = node.label if named else node.op.rpartition(".")[2]
            yield [_at(d, given) for d in node.shape], operator


def _picked_axes(node: Node) -> list[int]:
    """Return the axes of the first operand that a node reads by index."""
    if node.op == "relax.gather_nd":
        batch, depth = int(node.attrs["batch_dims"]), static_dim(node.inputs[1].shape[-1])
        return list(range(batch, batch + (depth or 0)))
    if node.op in ("relax.take", "relax.gather_elements"):
        axis, rank = node.attrs["axis"], len(node.inputs[0].shape)
        return list(range(rank)) if axis is None else [int(axis) % rank]
    if node.op == "disc.sample":
        return [*([0] if len(node.inputs) > 2 else []), *range(2, len(node.inputs[0].shape))]
    return []


def _at(dim: Expr, given: Mapping[Var, Expr]) -> Expr:
    """Return a dim of a kernel in terms of the caller's dims."""
    return substitute(i64(dim), given)
