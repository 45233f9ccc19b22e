"""Recognition of attention: two matmuls with a softmax between them.

    scores  = matmul(Q, K^T)
    masked  = any element-wise chain over the scores (scale, bias, masks)
    weights = softmax(masked), as core operators over the last axis; NaN may be replaced by 0
    result  = matmul(weights, V)

The parts are recognized by their operators and data flow, for all front ends. Views that keep the
last two axes may occur anywhere, and operands of the chain may be broadcast. Operators outside of
the attention must not use its intermediate values, because the kernel never stores them completely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import BFLOAT16, OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.shape import Solver

DTYPES = ("float16", "float32", "float64")
# Only exp is accepted: the kernel's running maximum relies on exp(a - c) = exp(a - b) * exp(b - c).
_QUOTIENT, _PRODUCT, _EXP, _SHIFT, _MAX, _SUM = (
    f"relax.{n}" for n in ("divide", "multiply", "exp", "subtract", "max", "sum")
)


@dataclass(frozen=True)
class Attention:
    """The parts of one attention.

    Attributes:
        scores: the matmul of queries and keys.
        masked: the softmax's operand; ``scores`` itself if ``chain`` is empty.
        chain: the nodes after ``scores`` up to and including ``masked``, in program order.
        softmax: the nodes of the softmax, the maximum first.
        views: the views between the softmax and ``result``, and roundings to bfloat16.
        guard: nodes that replace NaN weights by 0, as in attention exported by PyTorch: rows whose
            keys are all masked become zeros. Empty if there are none.
        result: the matmul of weights and values.
    """

    scores: Node
    masked: Node
    chain: tuple[Node, ...]
    softmax: tuple[Node, ...]
    views: tuple[Node, ...]
    result: Node
    guard: tuple[Node, ...] = ()

    def nodes(self) -> list[Node]:
        """Return every part, in program order."""
        parts = (self.scores, *self.chain, *self.softmax, *self.guard, *self.views, self.result)
        return sorted(dict.fromkeys(parts), key=lambda n: n.index)


def find_attention(result: Node, solver: Solver) -> Attention | WhyNot | None:
    """Return the attention whose last matmul is ``result``; None if the first operand of ``result``
    is not a softmax; a WhyNot if the softmax is not part of a supported attention.
    """
    views: list[Node] = []
    guard: tuple[Node, ...] = ()
    weights = result.inputs[0]
    while weights.cls is OpClass.VIEW or _rounds(weights) or (not guard and _guards(weights)):
        if _guards(weights):
            guard = (weights.inputs[0], weights)
            weights = weights.inputs[2]
        else:
            views.append(weights)
            weights = weights.inputs[0]
    softmax = _softmax(weights)
    if softmax is None:
        return None
    masked = softmax[0].inputs[0]
    path = _path(masked, solver)
    if isinstance(path, str):
        return WhyNot(f"{result.label} as attention", path)
    scores, chain = path
    found = Attention(scores, masked, tuple(chain), softmax, tuple(views), result, guard)
    reason = _refusal(found, solver)
    return found if reason is None else WhyNot(f"{result.label} as attention", reason)


def _rounds(node: Node) -> bool:
    """Return whether a node only rounds to bfloat16. The attention kernel omits this rounding."""
    return node.op == "relax.astype" and node.dtype == BFLOAT16


def _guards(node: Node) -> bool:
    """Return whether a node is ``where(isnan(x), 0, x)``."""
    if node.op != "relax.where" or node.inputs[0].op != "relax.isnan":
        return False
    test, zero, x = node.inputs
    same = test.inputs[0] is x and len(x.shape) == len(node.shape)
    return same and zero.is_scalar_const and not np.any(zero.value)


def _softmax(weights: Node) -> tuple[Node, ...] | None:
    """Return the nodes of a softmax over the last axis, from its maximum to ``weights``, in program
    order; None if ``weights`` is not a softmax.
    """
    parts = _normalised(weights)
    if parts is None:
        return None
    top, total, scaling = parts
    if top.op != _EXP or total.op != _SUM or total.inputs[0] is not top:
        return None
    shifted = top.inputs[0]
    if shifted.op != _SHIFT:
        return None
    x, peak = shifted.inputs
    if peak.op != _MAX or peak.inputs[0] is not x:
        return None
    last = (len(x.shape) - 1,)
    if reduced_axes(peak) != last or reduced_axes(total) != last:
        return None
    return peak, shifted, top, total, *scaling


def _normalised(weights: Node) -> tuple[Node, Node, tuple[Node, ...]] | None:
    """Return (dividend, divisor, nodes of the division) if the node is ``a / b`` or
    ``a * (1 / b)``, else None.
    """
    if weights.op == _QUOTIENT:
        return weights.inputs[0], weights.inputs[1], (weights,)
    if weights.op != _PRODUCT:
        return None
    for top, inverse in (weights.inputs, weights.inputs[::-1]):
        if inverse.op == _QUOTIENT and _is_one(inverse.inputs[0]):
            return top, inverse.inputs[1], (inverse, weights)
    return None


def _is_one(node: Node) -> bool:
    return node.is_scalar_const and node.value is not None and float(node.value.item()) == 1.0


def _path(masked: Node, solver: Solver) -> tuple[Node, list[Node]] | str:
    """Return the matmul from which an element-wise chain leads to ``masked``, and the nodes of the
    chain. If there is not exactly one, return the reason as text.
    """
    ends: dict[Node, None] = {}
    reaches: dict[Node, bool] = {}

    def visit(node: Node) -> bool:
        if node not in reaches:
            reaches[node] = False
            if node.cls is OpClass.DOT:
                ends[node] = None
                reaches[node] = True
            elif node.cls in (OpClass.ELEMWISE, OpClass.VIEW):
                answers = [visit(x) for x in node.inputs if same_matrix(x, node, solver)]
                reaches[node] = any(answers)
        return reaches[node]

    visit(masked)
    if not ends:
        return "no chain of element-wise operators and views leads from a matmul to the softmax"
    if len(ends) > 1:
        return "several matmuls flow into one softmax"
    chain = [n for n, yes in reaches.items() if yes and n.cls is not OpClass.DOT]
    return next(iter(ends)), sorted(chain, key=lambda n: n.index)


def same_matrix(source: Node, node: Node, solver: Solver) -> bool:
    """Return whether each element of ``source`` has the same index in the last two axes of
    ``node``, and the same linear index over the batch axes.
    """
    if min(len(source.shape), len(node.shape)) < 2:
        return False
    last = zip(source.shape[-2:], node.shape[-2:], strict=True)
    return all(solver.known_eq(a, b) for a, b in last) and bool(
        solver.known_same_elements(list(source.shape[:-2]), list(node.shape[:-2]))
    )


def _refusal(found: Attention, solver: Solver) -> str | None:
    parts = found.nodes()
    typed = [n for n in parts if n not in found.guard[:1]]
    kinds = {n.dtype for n in typed if n.dtype != BFLOAT16 or n is found.result}
    if kinds != {found.result.dtype} or not kinds <= set(DTYPES):
        return f"its operators do not all have the same dtype, one of {', '.join(DTYPES)}"
    if any(len(x.shape) < 2 for m in (found.scores, found.result) for x in m.inputs):
        return "it requires matrices: an operand is a vector"
    if not all(same_matrix(v.inputs[0], v, solver) for v in found.views):
        return "a view regroups the rows of the softmax"
    for node in parts:
        if node is found.result:
            continue
        if node.is_output:
            return f"{node.name} is an output"
        outside = next((u for u in node.users if u not in parts), None)
        if outside is not None:
            return f"{node.name} is read by {outside.name} as well"
    return None


def feeds_scores(found: Attention, node: Node, inside: Callable[[Node], bool]) -> bool:
    """Return whether ``node`` reaches the element-wise chain or the softmax without passing a
    matmul.

    Args:
        inside: condition that the nodes between ``node`` and the chain must satisfy.
    """
    work: list[Node] = [node]
    seen: set[Node] = set()
    while work:
        n = work.pop()
        for user in n.users:
            if user in found.chain or user in found.softmax:
                return True
            if inside(user) and user not in seen and user.cls is not OpClass.DOT:
                seen.add(user)
                work.append(user)
    return False


def is_lanewise(node: Node) -> bool:
    """Return whether an element-wise node can be computed with vectors of which some lanes are out
    of bounds.
    """
    if node.cls is not OpClass.ELEMWISE:
        return False
    if node.dtype == "bool":
        return node.op == "relax.astype" or all(x.dtype == "bool" for x in node.inputs)
    return node.dtype in (*DTYPES, BFLOAT16)


def operands(found: Attention) -> Sequence[Node]:
    """Return Q, K transposed, and V."""
    return (*found.scores.inputs, found.result.inputs[1])


__all__ = ["Attention", "feeds_scores", "find_attention", "is_lanewise", "operands", "same_matrix"]
