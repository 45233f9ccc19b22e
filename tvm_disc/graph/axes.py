"""Normalized axes of reductions and permutations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tvm_ffi
from tvm import tirx

from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr, Var


def permutation(node: Node) -> tuple[int, ...]:
    """Return the map from output axis to input axis of a ``permute_dims`` node."""
    rank = len(node.shape)
    axes = node.attrs["axes"]
    return tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)


def concat_axis(node: Node) -> int:
    """Return the non-negative axis of a ``concat`` node."""
    return int(node.attrs["axis"] or 0) % len(node.shape)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes that a reduction removes, non-negative and in order."""
    rank = len(node.inputs[0].shape)
    axis = node.attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(sorted(a % rank for a in axes))


def is_contiguous(node: Node) -> bool:
    """Return whether the reduced axes are adjacent; literal dims of 1 between them are ignored."""
    shape, axes = node.inputs[0].shape, reduced_axes(node)
    if not axes:
        return True
    return all(a in axes or is_one(shape[a]) for a in range(axes[0], axes[-1] + 1))


def cofactor(size: Expr, symbols: Sequence[Var], solver: Solver) -> Expr | None:
    """Return an expression c without ``symbols``, such that ``size`` is c times their product; None
    if there is no such c.
    """
    one = tirx.IntImm("int64", 1)

    def without(v: Var) -> Expr:
        return one if any(v.same_as(s) for s in symbols) else v

    found: Expr = solver.simplify(tvm_ffi.structural_map(size, (tirx.Var, without), order="post"))
    return found if solver.known_eq(size, prod(symbols, start=found)) else None
