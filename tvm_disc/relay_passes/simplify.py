"""``Simplify``: algebraic rules on core operators that use shape facts; each row names its law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm.relax import op as R

from tvm_disc.graph.axes import permutation
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, const_node, is_one, static_dim
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay.ops.literals import literal
from tvm_disc.relay_passes.broadcasts import (
    broadcast_of_broadcast,
    neutral_operand,
    operator_before_broadcast,
    operator_of_broadcast,
    operator_of_views,
    permutation_of_view,
    reduction_of_broadcast,
    reduction_of_view,
)
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    drop_dead,
    map_functions,
    operand_expr,
    rewrite_function,
    same_dims,
    with_operands,
)
from tvm_disc.shape import Solver
from tvm_disc.support.limits import MOST_FOLDED
from tvm_disc.support.literals import as_literal
from tvm_disc.typing import Expr, TVMModule

Rule: TypeAlias = Callable[[Sequence_, Node], "Node | None"]


def _same_shape(out: Sequence_, a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(
        bool(out.solver.known_eq(x, y)) for x, y in zip(a, b, strict=True)
    )


def _identity(out: Sequence_, node: Node) -> Node | None:
    """x.reshape(x.shape), x.astype(x.dtype), broadcast_to(x, x.shape), permute(x, id),
    pad(x, 0) -> x.
    """
    if len(node.inputs) != 1 or node.op not in _IDENTITIES:
        return None
    source = node.inputs[0]
    if node.dtype != source.dtype or not _same_shape(out, node.shape, source.shape):
        return None
    if node.op == "relax.permute_dims" and not _keeps_order(node):
        return None
    # Equal shapes do not suffice: a negative width may compensate for a positive one.
    if node.op == "relax.nn.pad" and any(int(w) for w in node.attrs["pad_width"]):
        return None
    return source if same_dims(node.shape, source.shape) else None


_IDENTITIES = (
    "relax.reshape",
    "relax.expand_dims",
    "relax.squeeze",
    "relax.flatten",
    "relax.astype",
    "relax.broadcast_to",
    "relax.permute_dims",
    "relax.nn.pad",
)


def _keeps_order(node: Node) -> bool:
    """Return whether a permutation moves only dims of 1."""
    wide = [a for a in permutation(node) if not is_one(node.inputs[0].shape[a])]
    return wide == sorted(wide)


def _permute_ones(out: Sequence_, node: Node) -> Node | None:
    """permute(x) -> reshape(x), if only dims of 1 move."""
    if node.op != "relax.permute_dims" or not _keeps_order(node):
        return None
    return _reshape(out, node.inputs[0], node)


def _reshape(out: Sequence_, source: Node, like: Node) -> Node:
    call = reshape_call(operand_expr(source), like.shape)
    return out.emit(call, like.shape, like.dtype, like)


def _view_of_view(out: Sequence_, node: Node) -> Node | None:
    """reshape(reshape(x)) -> reshape(x)."""
    if node.cls is not OpClass.VIEW or node.inputs[0].cls is not OpClass.VIEW:
        return None
    source = node.inputs[0].inputs[0]
    if same_dims(node.shape, source.shape):
        return source
    return _reshape(out, source, node)


def _permute_of_permute(out: Sequence_, node: Node) -> Node | None:
    """permute(permute(x, p), q) -> permute(x, p[q])."""
    if node.op != "relax.permute_dims" or node.inputs[0].op != "relax.permute_dims":
        return None
    inner = node.inputs[0]
    first = permutation(inner)
    order = [first[a] for a in permutation(node)]
    source = inner.inputs[0]
    if order == sorted(order):
        return source
    call = R.permute_dims(operand_expr(source), order)
    return out.emit(call, node.shape, node.dtype, node)


def _bias_before_view(out: Sequence_, node: Node) -> Node | None:
    """op(reshape(y), c) -> reshape(op(y, c)), for a matmul y and a reshape that keeps the last dim.

    The literal c must be a scalar or a vector along the last dim. The operator then directly
    follows the matmul, without an index map in between.
    """
    if node.cls is not OpClass.ELEMWISE or len(node.inputs) != 2:
        return None
    for k, view in enumerate(node.inputs):
        other = node.inputs[1 - k]
        if view.cls is not OpClass.VIEW or other is view or other.op != "const":
            continue
        source = view.inputs[0]
        if source.cls is not OpClass.DOT or not source.shape or not view.shape:
            continue
        along = len(other.shape) == 0 or (
            len(other.shape) == 1 and bool(out.solver.known_eq(other.shape[0], node.shape[-1]))
        )
        last = bool(out.solver.known_eq(source.shape[-1], view.shape[-1]))
        if not (along and last and _same_shape(out, node.shape, view.shape)):
            continue
        args = [operand_expr(source if x is view else x) for x in node.inputs]
        moved = out.emit(with_operands(node, args), source.shape, node.dtype, node)
        return _reshape(out, moved, node)
    return None


def _op_before_view(out: Sequence_, node: Node) -> Node | None:
    """op(reshape(x), reshape(y), scalar) -> reshape(op(x, y, scalar)) if x and y have equal shapes.

    The operator can then join the kernel that computes x, and the view is free. Integer operators
    are excluded: most of them compute indices of a gather, and the shape of the indices determines
    the loops of the kernel that gathers.
    """
    if node.cls is not OpClass.ELEMWISE or "float" not in node.dtype:
        return None
    wide = [x for x in node.inputs if not x.is_scalar_const]
    if not wide or any(x.cls is not OpClass.VIEW or x.is_output for x in wide):
        return None
    if not all(same_dims(x.shape, node.shape) for x in wide):
        return None
    sources = [x.inputs[0] for x in wide]
    if any(s.row is None or not same_dims(s.shape, sources[0].shape) for s in sources):
        return None
    if any(x.value is not None and x.shape for x in node.inputs):
        return None  # a literal of shape (1,) could broadcast a source of rank 0
    inner = dict(zip(wide, sources, strict=True))
    args = [operand_expr(inner.get(x, x)) for x in node.inputs]
    call = with_operands(node, args)
    return _reshape(out, out.emit(call, sources[0].shape, node.dtype, node), node)


def _scale_of_first(out: Sequence_, node: Node) -> Node | None:
    """matmul(x, y * s) -> matmul(x * s, y) for a scalar s, seen through views and permutations.

    In attention over a cache there are many keys and few queries, so scaling the queries is
    cheaper, and the kernel reads the keys directly from the cache.
    """
    if node.cls is not OpClass.DOT or node.dtype not in ("float32", "float64"):
        return None
    moves, scaled = [], node.inputs[1]
    while scaled.cls is OpClass.VIEW or scaled.op == "relax.permute_dims":
        moves.append(scaled)
        scaled = scaled.inputs[0]
    if (
        scaled.row is None
        or not scaled.row.scales
        or {x.dtype for x in node.inputs} != {node.dtype}
    ):
        return None
    factor = next((x for x in scaled.inputs if x.is_scalar_const and not x.shape), None)
    source = next((x for x in scaled.inputs if x is not factor), None)
    if factor is None or source is None or source.value is not None:
        return None
    for move in reversed(moves):
        args = [operand_expr(source), *move.expr.args[1:]]
        call = tvm.ir.Call(move.expr.op, args, move.expr.attrs, move.expr.ty_args)
        source = out.emit(call, move.shape, move.dtype, move)
    first = node.inputs[0]
    product = tvm.ir.Call(scaled.expr.op, [operand_expr(first), factor.expr])
    queries = out.emit(product, first.shape, first.dtype, first)
    args = [queries.var, operand_expr(source)]
    call = tvm.ir.Call(node.expr.op, args, node.expr.attrs, node.expr.ty_args)
    return out.emit(call, node.shape, node.dtype, node)


# -- literals ----------------------------------------------------------------------------------


def _fold(out: Sequence_, node: Node) -> Node | None:
    """op(literals) -> literal."""
    values = [x.value for x in node.inputs if x.value is not None]
    if not values or len(values) < len(node.inputs) or any(x.size > MOST_FOLDED for x in values):
        return None
    shape = [d for d in map(static_dim, node.shape) if d is not None]
    sizes = prod(shape), sum(x.size for x in values)
    if len(shape) < len(node.shape) or not out.folding.allows(*sizes):
        return None
    value = _literal(node, values)
    if value is None:
        return None
    out.folding.spend(*sizes)
    value = np.ascontiguousarray(value.astype(node.dtype)).reshape(shape)
    return const_node(as_literal(value, node.dtype))


def _literal(node: Node, values: Sequence[np.ndarray]) -> np.ndarray | None:
    if node.cls is OpClass.VIEW:
        return values[0]
    if node.op == "relax.permute_dims":
        return literal("transpose", values, {"axes": permutation(node)}, MOST_FOLDED)
    if node.op == "relax.astype":
        return literal("cast", values, {"dtype": node.dtype}, MOST_FOLDED)
    name = node.op.removeprefix("relax.") if node.cls is OpClass.ELEMWISE else ""
    return literal(name, values, {}, MOST_FOLDED)


RULES: tuple[tuple[str, Rule], ...] = (
    ("op(literals) -> literal", _fold),
    ("identity(x) -> x", _identity),
    ("x * 1, max(x, -inf) -> x", neutral_operand),
    ("broadcast_to(broadcast_to(x)) -> broadcast_to(x)", broadcast_of_broadcast),
    ("op(broadcast_to(x), y) -> op(x, y)", operator_of_broadcast),
    ("op(broadcast_to(x)) -> broadcast_to(op(x))", operator_before_broadcast),
    ("reshape(reshape(x)) -> reshape(x)", _view_of_view),
    ("permute(permute(x)) -> permute(x)", _permute_of_permute),
    ("permute of ones -> reshape", _permute_ones),
    ("matmul(x, y * s) -> matmul(x * s, y)", _scale_of_first),
    ("op(reshape(y), c) -> reshape(op(y, c))", _bias_before_view),
    ("op(reshape(x), reshape(y)) -> reshape(op(x, y))", _op_before_view),
    ("op(reshape(x)) -> reshape(op(x)), without axes of 1", operator_of_views),
    ("reduce(reshape(x)) -> reshape(reduce(x))", reduction_of_view),
    ("reduce(broadcast_to(x)) -> broadcast_to(reduce(x))", reduction_of_broadcast),
    ("permute(reshape(x)) -> reshape(permute(x))", permutation_of_view),
)


class _SameExpression:
    """Common subexpression elimination: the second of two equal calls -> the first one."""

    def __init__(self) -> None:
        self.seen: dict[int, list[Node]] = {}

    def __call__(self, out: Sequence_, node: Node) -> Node | None:
        key = hash((node.op, *(id(x) for x in node.inputs), node.dtype, len(node.shape)))
        for other in self.seen.get(key, []):
            if out.lookup.get(other.var) is other and _equal(node, other):
                return other
        self.seen.setdefault(key, []).append(node)
        return None


def _equal(a: Node, b: Node) -> bool:
    return (
        a.op == b.op
        and all(x is y or _same_literal(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
        and dict(a.attrs) == dict(b.attrs)
        and same_dims(a.shape, b.shape)
        and bool(tvm_ffi.structural_equal(_prims(a), _prims(b)))
    )


def _same_literal(a: Node, b: Node) -> bool:
    return (
        a.is_scalar_const
        and b.is_scalar_const
        and a.dtype == b.dtype
        and bool(np.array_equal(np.asarray(a.value), np.asarray(b.value)))
    )


def _prims(node: Node) -> list[object]:
    flat: list[Any] = []
    for p in node.prims:
        flat.extend(p if isinstance(p, tuple) else (p,))
    return flat


def Simplify(solver: Solver | None = None) -> object:
    """Return a module pass that applies ``RULES``; ``solver`` has facts about the module's symbols.

    By default the solver is the module's own, which ``PropagateShapeConstraints`` attaches.
    """

    def simplify(mod: TVMModule, ctx: object) -> object:
        known = solver_of(mod, solver)

        def simple(func: object) -> object:
            rules = [*(rule for _, rule in RULES), _SameExpression()]
            return rewrite_function(func, known, rules, [drop_dead])

        return map_functions(mod, simple)

    return tvm.transform.module_pass(simplify, opt_level=0, name="Simplify")
