"""``MergeProducts``: merge matmuls that share an operand; Q, K and V become one wide GEMM.

    before   q = x @ Wq + bq;  k = x @ Wk + bk;  v = x @ Wv + bv
    after    m = x @ [Wq Wk Wv] + [bq bk bv];  q, k, v = slices of m

needs: the same left operand (one node after common subexpression elimination), literal right
operands, and a literal vector added to every result or to none. This is DISC's GEMM merging
(BladeDISC, SIGMOD'24) for weights that are known at compile time. The slices become index maps in
the kernels that read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, const_node, static_dim
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    bindings_of,
    drop_dead,
    is_call,
    map_functions,
    operand_expr,
    rewrite_function,
)
from tvm_disc.shape import Solver
from tvm_disc.support.literals import as_literal
from tvm_disc.typing import PassContext, TVMFunction


def MergeProducts(solver: Solver | None = None) -> object:
    """Return a module pass; run ``Simplify`` first, so that equal left operands are one value."""

    def merge(mod: object, ctx: PassContext) -> object:
        known = solver_of(mod, solver)

        def merged(func: TVMFunction) -> object:
            if not _share_an_operand(func):
                return func
            return rewrite_function(func, known, (), [merge_dots, drop_dead])

        return map_functions(mod, merged)

    return tvm.transform.module_pass(merge, opt_level=0, name="MergeProducts")


def _share_an_operand(func: TVMFunction) -> bool:
    """Return whether two matmuls with literal weights read the same value."""
    products = (b.value for b in bindings_of(func) if is_call(b.value, "matmul"))
    read = [p.args[0] for p in products if isinstance(p.args[1], tvm.ir.GenericConst)]
    return len(set(read)) < len(read)


def merge_dots(out: Sequence_) -> None:
    """Merge every family of matmuls in place."""
    families: dict[Node, list[Node]] = {}
    for node in out.nodes:
        if node.cls is OpClass.DOT and _literal_matrix(node.inputs[1]):
            families.setdefault(node.inputs[0], []).append(node)
    merged = [
        _merge(out, lhs, dots)
        for lhs, dots in families.items()
        if len(dots) > 1 and len({d.dtype for d in dots}) == 1
    ]
    if merged:
        _insert(out, merged)


@dataclass(frozen=True)
class _Merged:
    """Bindings to insert before the binding of ``at``, and the variables that they replace."""

    at: Any
    bindings: Sequence[Any]
    replaced: Mapping[Any, Any]


def _insert(out: Sequence_, merged: Sequence[_Merged]) -> None:
    """Insert all families in one walk: one walk per family would be quadratic in a model's
    layers.
    """
    before = {m.at: m.bindings for m in merged}
    out.bindings = [x for b in out.bindings for x in (*before.get(b.var, ()), b)]
    out.substitute({old: new for m in merged for old, new in m.replaced.items()})


def _literal_matrix(node: Node) -> bool:
    return node.value is not None and node.value.ndim == 2


def _bias(dot: Node) -> tuple[Node, Node] | None:
    """Return (the addition, its literal vector) if it is the only use of a matmul, else None."""
    if len(dot.users) != 1 or dot.is_output:
        return None
    add = dot.users[0]
    if add.op != "relax.add" or len(add.inputs) != 2:
        return None
    other = add.inputs[0] if add.inputs[1] is dot else add.inputs[1]
    width = static_dim(dot.shape[-1])
    if other.value is None or other.value.shape != (width,):
        return None
    return add, other


def _merge(out: Sequence_, lhs: Node, dots: Sequence[Node]) -> _Merged:
    weights = [d.inputs[1].value for d in dots]
    merged = np.concatenate([w for w in weights if w is not None], axis=1)
    biases = [_bias(d) for d in dots]
    with_bias = all(b is not None for b in biases)
    fresh = Sequence_(out.solver, out.lookup)
    width = tirx.IntImm("int64", merged.shape[1])
    shape = (*dots[0].shape[:-1], width)
    weight = const_node(as_literal(merged, dots[0].inputs[1].dtype))
    product = R.matmul(operand_expr(lhs), weight.expr, out_dtype=dots[0].dtype)
    value = fresh.emit(product, shape, dots[0].dtype, dots[0])
    finals = list(dots)
    if with_bias:
        vectors = [b[1].value for b in biases if b is not None and b[1].value is not None]
        vector = const_node(as_literal(np.concatenate(vectors), dots[0].dtype))
        value = fresh.emit(R.add(value.var, vector.expr), shape, dots[0].dtype, dots[0])
        finals = [b[0] for b in biases if b is not None]
    _replace_by_slices(out, fresh, value, finals)
    out.lookup.update({n.var: n for n in fresh.nodes})
    replaced = {old.var: new.var for old, new in fresh.renamed_nodes.items()}
    return _Merged(dots[0].var, fresh.bindings, replaced)


def _replace_by_slices(
    out: Sequence_, fresh: Sequence_, value: Node, finals: Sequence[Node]
) -> None:
    begin = 0
    axis = len(value.shape) - 1
    for final in finals:
        width = int(final.shape[-1].value)
        end = begin + width
        call = R.strided_slice(value.var, [axis], [begin], [end], [1], assume_inbound=True)
        fresh.renamed_nodes[final] = fresh.emit(call, final.shape, final.dtype, final)
        begin = end
