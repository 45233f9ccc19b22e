"""Statements of device code: thread-local arrays, shared arrays, and barriers."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import stmt as S

from tvm_disc.tir.builder import STACK_LIMIT_BYTES, Block, i64
from tvm_disc.typing import Buffer, Expr, Stmt, Var


class DeviceBlock(Block):
    """A :class:`Block` whose arrays are thread-local."""

    def alloc(self, name: str, elems: int, dtype: str) -> Buffer:
        """Allocate a small thread-local array; with constant indices, it is kept in registers.

        Raises:
            ValueError: the array is larger than ``STACK_LIMIT_BYTES``.
        """
        size_bytes = elems * max(1, tvm.DataType(dtype).bits // 8)
        if size_bytes > STACK_LIMIT_BYTES:
            raise ValueError(f"{name}: {size_bytes} bytes do not fit the stack budget")
        return self._array(name, elems, dtype, "local")

    def shared(self, name: str, elems: int, dtype: str) -> Buffer:
        """Allocate an array in shared memory."""
        return self._array(name, elems, dtype, "shared")

    def barrier(self) -> None:
        """Emit a barrier of the thread block."""
        sync = tirx.call_intrin("void", "tirx.tvm_storage_sync", StringImm("shared"))
        self.eval(sync)

    def _array(self, name: str, elems: int, dtype: str, scope: str) -> Buffer:
        buffer = tirx.decl_buffer((i64(elems),), dtype, name=name, scope=scope)
        self.add(S.AllocBuffer(buffer))
        return buffer


def bound_to(body: Stmt, var: Var, tag: str, extent: Expr) -> Stmt:
    """Return a statement with ``var`` bound to the thread or block index along ``tag``."""
    return S.AttrStmt(tirx.IterVar(None, var, 1, tag), "thread_extent", extent, body)


__all__ = ["DeviceBlock", "bound_to"]
