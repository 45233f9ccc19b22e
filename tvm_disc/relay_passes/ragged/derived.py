"""Derived ragged dims: lengths of results that are computed from the lengths of an input.

Convolutions and pooling have results of a length such as ``(s[b] - 1) // 2 + 1``, concatenations of
a length such as ``s[b] + 1``.

The program computes the lengths and the offsets of a derived dim from those of an input, before
all other operators:

    lengths2 = (lengths - 1) // 2 + 1;  offsets2 = offsets(lengths2);  t2 = offsets2[b]

The length of a result must never fall as the length of the input grows. The largest length of the
derived dim therefore follows from the largest length of the input.
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
    """Add a dim for each convolution, pooling or concatenation that changes the length."""
    dims = values.dims
    for node in nodes:
        if node.op in WINDOWS:
            size, reason = node.shape[2], length_reason(values, node)
        elif node.op == "relax.concat":
            size = node.shape[concat_axis(node)]
            reason = (
                None
                if _rises(values, size)
                else "the length of its result does not increase with that of its operand"
            )
        else:
            continue
        roots = dims.sizes_in([size])
        if len(roots) == 1 and dims.of(size) is None and reason is None:
            dims.dims.append(_derived(values, roots[0], size))


def _rises(values: Values, size: Expr) -> bool:
    roots = values.dims.sizes_in([size])
    return len(roots) == 1 and trend(size, roots[0].symbol, values.dims.solver) == 1


def length_reason(values: Values, node: Node) -> str | None:
    """Return why the result of a convolution or pooling cannot have a ragged length, or None."""
    dims, size = values.dims, node.shape[2]
    if dims.of(size) is not None:
        return None
    if not _rises(values, size):
        return "the length of its result is not proved to increase with that of its operand"
    empty = dims.solver.const(substitute(size, {dims.sizes_in([size])[0].symbol: i64(0)}))
    if empty is None or empty > 0:
        return "its result for an item of length 0 is not empty"
    return None


def _derived(values: Values, root: RaggedDim, size: Expr) -> RaggedDim:
    """Return a derived dim of largest length ``size``; emit its offsets and number of rows."""
    out, name = values.out, root.inputs[0]
    lengths = of_items(values, root, size)
    assert lengths is not None
    # The operand `root.size` makes the kernel run after the checks of the offsets.
    operands = [lengths, relax.ShapeExpr([root.size])]
    count = [root.items + 1]
    offsets = out.emit(kernel_call("disc.offsets", operands, count, "int64"), count, "int64")
    last = R.strided_slice(operand_expr(offsets), [0], [root.items], count, [1])
    read = R.tensor_to_shape(operand_expr(out.emit(last, [i64(1)], "int64")))
    raw = relax.Var(f"{name}_total", relax.ShapeType(ndim=1))
    relax.expr._update_type(read, raw.ty)
    out.bindings.append(relax.VarBinding(raw, read))
    rows = values.dims.solver.symbol(f"{name}_rows", f"packed rows of a result of input '{name}'")
    ty = relax.ShapeType([rows])
    out.bindings.append(relax.MatchCast(relax.Var(f"{name}_totals", ty), raw, ty))
    return RaggedDim(root.items, size, rows, root.fewest, [], offsets, root=root)


__all__ = ["WINDOWS", "derive_dims", "length_reason"]
