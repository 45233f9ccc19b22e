"""Emit buffers that the iterations of a loop fill, and reads of sizes from data."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.nodes import Node
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay.kernel_ops import APPEND, BLANK, kernel_call
from tvm_disc.relay_passes.rewrite import Sequence_, operand_expr
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Var


def blank(out: Sequence_, shape: Sequence[Expr], dtype: str, number: int) -> Node:
    """Emit a buffer with undefined elements; calls with equal ``number`` may share one buffer."""
    return out.emit(kernel_call(BLANK, [], shape, dtype, number=number), shape, dtype)


def append(out: Sequence_, buffer: Node, rows: Node, begin: Expr) -> Node:
    """Emit the stores of rows to ``buffer[begin:]``, in place."""
    length = blank(out, [begin], "int8", 0)  # the kernel reads only its size, `begin`
    operands = [operand_expr(x) for x in (buffer, rows, length)]
    call = kernel_call(APPEND, operands, buffer.shape, buffer.dtype, axis=0)
    return out.emit(call, buffer.shape, buffer.dtype)


def read_sizes(out: Sequence_, scalars: Sequence[Node], names: Sequence[str]) -> list[Var]:
    """Emit reads of nonnegative int64 scalars as sizes; return the symbols of the sizes."""
    one, count = [i64(1)], len(scalars)
    parts = [out.emit(reshape_call(operand_expr(x), one), one, "int64") for x in scalars]
    whole = parts[0]
    if count > 1:
        joined = R.concat([operand_expr(p) for p in parts], 0)
        whole = out.emit(joined, [i64(count)], "int64")
    read = R.tensor_to_shape(operand_expr(whole))
    raw = relax.Var("numbers", relax.ShapeType(ndim=count))
    relax.expr._update_type(read, raw.ty)
    out.bindings.append(relax.VarBinding(raw, read))
    found = [out.solver.symbol(name, f"{name}, read from data") for name in names]
    known = relax.ShapeType(found)
    out.bindings.append(relax.MatchCast(relax.Var("sizes", known), raw, known))
    return found


__all__ = ["append", "blank", "read_sizes"]
