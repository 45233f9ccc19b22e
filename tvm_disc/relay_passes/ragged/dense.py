"""Values that do not depend on a ragged input, but have its length as a dim.

The program computes these values for the largest length. Element i along a dim of the length must
therefore not depend on the length. This holds for a position table, ``arange`` and a causal mask.
It does not hold for ``flip``, a sum along the dim, or the length as a number; these are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tvm_disc.graph.axes import concat_axis, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.relay_passes.ragged.forms import RaggedDims
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

Test = Callable[[Node, RaggedDims], "str | None"]

_NUMBER = "it computes with the length of an item, which differs between items"
_ALONG = "it combines elements along an axis that is padded to the largest length"


def dense_reason(node: Node, dims: RaggedDims) -> str | None:
    """Return why the elements of a dense value depend on a length, or None."""
    shapes = [node.shape, *(x.shape for x in node.inputs)]
    if not any(dims.sizes_in(s) for s in shapes) and not dims.sizes_in(_prims(node)):
        return None
    for shape in shapes:
        for axis in dims.axes_of(shape):
            if not any(dims.solver.known_eq(shape[axis], d.size) for d in dims.dims):
                return f"axis {axis} has a size computed from the length of an item"
    if node.cls is OpClass.ELEMWISE:
        return _NUMBER if dims.sizes_in(_prims(node)) else None
    if node.cls is OpClass.VIEW:
        return _view_reason(node, dims)
    if node.cls is OpClass.REDUCE:
        return _along(node.inputs[0].shape, reduced_axes(node), dims)
    test = TESTS.get(node.op)
    return "its elements may depend on the length of an item" if test is None else test(node, dims)


def _prims(node: Node) -> list[object]:
    return [x for p in node.prims for x in (p if isinstance(p, tuple) else (p,))]


def _along(shape: Sequence[Expr], axes: Sequence[int], dims: RaggedDims) -> str | None:
    return _ALONG if any(dims.sizes_in([shape[a]]) for a in axes) else None


def _view_reason(node: Node, dims: RaggedDims) -> str | None:
    """Return why a view mixes a ragged axis with others, or None.

    A view is accepted if it keeps the numbers of elements before and after each ragged axis.
    """
    source, target = node.inputs[0].shape, node.shape
    before, after = dims.axes_of(source), dims.axes_of(target)
    same = len(before) == len(after)
    for (a, b), (c, d) in zip(
        pairwise([-1, *before, len(source)]), pairwise([-1, *after, len(target)]), strict=False
    ):
        same = same and bool(
            dims.solver.known_eq(product(source[a + 1 : b]), product(target[c + 1 : d]))
        )
    return (
        None if same else "it merges an axis that is padded to the largest length with other axes"
    )


def _anywhere(node: Node, dims: RaggedDims) -> str | None:
    return None


def _arange(node: Node, dims: RaggedDims) -> str | None:
    begin, _, step = node.prims
    return _NUMBER if dims.sizes_in([begin, step]) else None


def _slice(node: Node, dims: RaggedDims) -> str | None:
    begin, strides = node.prims[1], node.prims[3:]
    return _NUMBER if dims.sizes_in([*begin, *(x for s in strides for x in s)]) else None


def _take(node: Node, dims: RaggedDims) -> str | None:
    data, axis = node.inputs[0], node.attrs["axis"]
    axes = range(len(data.shape)) if axis is None else [int(axis) % len(data.shape)]
    return _along(data.shape, list(axes), dims)


def _concat(node: Node, dims: RaggedDims) -> str | None:
    return _along(node.shape, [concat_axis(node)], dims)


def _matmul(node: Node, dims: RaggedDims) -> str | None:
    shape = node.inputs[0].shape
    return _along(shape, [len(shape) - 1], dims)


def _filled(node: Node, dims: RaggedDims) -> str | None:
    return _NUMBER if dims.sizes_in(_prims(node)[len(node.shape) :]) else None


def _triangle(node: Node, dims: RaggedDims) -> str | None:
    return _NUMBER if dims.sizes_in(_prims(node)) else None


TESTS: Mapping[str, Test] = {
    "relax.arange": _arange,
    "relax.broadcast_to": _anywhere,
    "relax.concat": _concat,
    "relax.full": _filled,
    "relax.matmul": _matmul,
    "relax.ones": _anywhere,
    "relax.one_hot": _anywhere,
    "relax.permute_dims": _anywhere,
    "relax.strided_slice": _slice,
    "relax.take": _take,
    "relax.tril": _triangle,
    "relax.triu": _triangle,
    "relax.zeros": _anywhere,
}

__all__ = ["dense_reason"]
