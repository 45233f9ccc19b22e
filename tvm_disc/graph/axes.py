"""Axes of reductions and permutations, normalised."""

from __future__ import annotations

from tvm_disc.graph.nodes import Node, is_one


def permutation(node: Node) -> tuple[int, ...]:
    """Output axis -> input axis of a ``permute_dims`` node."""
    rank = len(node.shape)
    axes = node.attrs["axes"]
    return tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)


def concat_axis(node: Node) -> int:
    """The axis of a ``concat`` node, non-negative."""
    return int(node.attrs["axis"] or 0) % len(node.shape)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes a reduction removes, non-negative and in order."""
    rank = len(node.inputs[0].shape)
    axis = node.attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(sorted(a % rank for a in axes))


def is_contiguous(node: Node) -> bool:
    """Whether the reduced axes are neighbours, literal-one dims between them aside."""
    shape, axes = node.inputs[0].shape, reduced_axes(node)
    if not axes:
        return True
    return all(a in axes or is_one(shape[a]) for a in range(axes[0], axes[-1] + 1))
