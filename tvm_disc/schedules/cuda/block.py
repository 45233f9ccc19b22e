"""Statements of device code: what a thread keeps, what a block shares, and barriers."""

from __future__ import annotations

from typing import Any, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import stmt as S

from tvm_disc.tir.builder import STACK_LIMIT_BYTES, Block, Buffer, Stmt, i64

Expr: TypeAlias = Any


class DeviceBlock(Block):
    """A :class:`Block` whose arrays are a thread's own."""

    def alloc(self, name: str, elems: int, dtype: str) -> Buffer:
        """A small array of this thread, in registers if its indices are known."""
        size_bytes = elems * max(1, tvm.DataType(dtype).bits // 8)
        if size_bytes > STACK_LIMIT_BYTES:
            raise ValueError(f"{name}: {size_bytes} bytes do not fit the stack budget")
        return self._array(name, elems, dtype, "local")

    def shared(self, name: str, elems: int, dtype: str) -> Buffer:
        """An array of this block of threads."""
        return self._array(name, elems, dtype, "shared")

    def barrier(self) -> None:
        """All threads of the block come here before one goes on."""
        sync = tirx.call_intrin("void", "tirx.tvm_storage_sync", StringImm("shared"))
        self.eval(sync)

    def _array(self, name: str, elems: int, dtype: str, scope: str) -> Buffer:
        buffer = tirx.decl_buffer((i64(elems),), dtype, name=name, scope=scope)
        self.add(S.AllocBuffer(buffer))
        return buffer


def bound_to(body: Stmt, var: Any, tag: str, extent: Expr) -> Stmt:
    """A statement that every thread runs, with its number along ``tag`` in ``var``."""
    return S.AttrStmt(tirx.IterVar(None, var, 1, tag), "thread_extent", extent, body)


__all__ = ["DeviceBlock", "bound_to"]
