"""Derived ragged dims: the lengths of the results of windows, ``(s[b] - 1) // 2 + 1``, and of
joins, ``s[b] + 1``.

The program computes the lengths and the offsets of a derived dim from those of an input, before
all other operators:

    lengths2 = (lengths - 1) // 2 + 1;  offsets2 = offsets(lengths2);  t2 = offsets2[b]

Since the length of a result never falls as that of the input grows, its expression with the
largest length of the input is the largest length of the derived dim.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.axes import concat_axis
from tvm_disc.graph.nodes import Node
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay_passes.ragged.forms import RaggedDim
from tvm_disc.relay_passes.ragged.items import of_items
from tvm_disc.relay_passes.ragged.trend import trend
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr

WINDOWS = ("relax.nn.conv1d", "relax.nn.max_pool1d", "relax.nn.avg_pool1d")


def derive_dims(values: Values, nodes: Iterable[Node]) -> None:
    """Add the dims of the results of windows and joins whose length differs from that of their
    operand.
    """
    dims = values.dims
    for node in nodes:
        if node.op in WINDOWS:
            size, reason = node.shape[2], length_reason(values, node)
        elif node.op == "relax.concat":
            size = node.shape[concat_axis(node)]
            reason = None if _rises(values, size) else "its length does not rise"
        else:
            continue
        roots = dims.sizes_in([size])
        if len(roots) == 1 and dims.of(size) is None and reason is None:
            dims.dims.append(_derived(values, roots[0], size))


def _rises(values: Values, size: Expr) -> bool:
    roots = values.dims.sizes_in([size])
    return len(roots) == 1 and trend(size, roots[0].symbol, values.dims.solver) == 1


def length_reason(values: Values, node: Node) -> str | None:
    """Return why the length of a window's result cannot be that of a ragged dim, or None."""
    dims, size = values.dims, node.shape[2]
    if dims.of(size) is not None:
        return None
    if not _rises(values, size):
        return "the length of its result is not known to rise with that of its operand"
    empty = dims.solver.const(substitute(size, {dims.sizes_in([size])[0].symbol: i64(0)}))
    if empty is None or empty > 0:
        return "an item without elements would have a result"
    return None


def _derived(values: Values, root: RaggedDim, size: Expr) -> RaggedDim:
    """Emit the offsets and the number of rows of a dim of largest length ``size``."""
    out, name = values.out, root.inputs[0]
    lengths = of_items(values, root, size)
    assert lengths is not None
    # The size of the root orders the kernel behind the checks of its offsets.
    operands = [lengths, relax.ShapeExpr([root.size])]
    count = [root.items + 1]
    offsets = out.emit(kernel_call("disc.offsets", operands, count, "int64"), count, "int64")
    last = R.strided_slice(operand_expr(offsets), [0], [root.items], count, [1])
    read = R.tensor_to_shape(operand_expr(out.emit(last, [i64(1)], "int64")))
    raw = relax.Var(f"{name}_total", relax.ShapeType(ndim=1))
    relax.expr._update_type(read, raw.ty)
    out.bindings.append(relax.VarBinding(raw, read))
    rows = values.dims.solver.symbol(f"{name}_rows", f"rows of input '{name}' behind a window")
    ty = relax.ShapeType([rows])
    out.bindings.append(relax.MatchCast(relax.Var(f"{name}_totals", ty), raw, ty))
    return RaggedDim(root.items, size, rows, root.fewest, [], offsets, root=root)


__all__ = ["WINDOWS", "derive_dims", "length_reason"]
