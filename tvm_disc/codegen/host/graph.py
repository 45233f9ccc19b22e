"""Host code for the CUDA graph of a call; the called functions are in
``codegen/cuda/graphs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.codegen.host.abi import as_pointer
from tvm_disc.codegen.host.device import (
    FAILED,
    GIVE_FOR,
    GRAPH,
    GRAPH_BEGIN,
    GRAPH_END,
    LEAVE,
    TAKE_FOR,
)
from tvm_disc.codegen.host.emission import Emission, EntryExits
from tvm_disc.codegen.host.memory import bits_of
from tvm_disc.codegen.host.results import words_at
from tvm_disc.codegen.plan.program import Signature
from tvm_disc.tir.builder import call, i64
from tvm_disc.typing import Expr


def key_dims(signature: Signature) -> list[tuple[int, int]]:
    """Return (input, axis) of the dynamic dims."""
    return [
        (k, axis)
        for k, (_, shape, _) in enumerate(signature.inputs)
        for axis, dim in enumerate(shape)
        if not isinstance(dim, tirx.IntImm)
    ]


class GraphCapture:
    """Emits the begin and the end of a graph; workspaces between them are allocated for the
    graph.
    """

    def __init__(self, host: Emission, exits: EntryExits) -> None:
        self.host, self.exits, self.block = host, exits, host.block

    def begin(self, key: Sequence[Expr]) -> None:
        """Emit the begin of a graph: further launches become its nodes, except in timed calls."""
        place = self.block.stack("key", 8 * len(key), 8)
        numbers = words_at(self.block, bits_of(place.data))
        for k, number in enumerate(key):
            self.block.store(numbers, k, i64(number))
        with self.block.when(tirx.EQ(self.host.profile, i64(0))):
            self.block.eval(call(GRAPH_BEGIN, self._record(), numbers.data))
        self.host.graph = True

    def end(self) -> None:
        """Emit the launch of the graph."""
        with self.block.when(self._has_graph()):
            self.block.eval(call(GRAPH_END, self._record()))
        with self.block.when(tirx.NE(self.host.record[i64(FAILED)], i64(0))):
            self.exits.fail()
        self.host.graph = False

    def leave(self) -> None:
        """Emit the cleanup of the graph after an error."""
        with self.block.when(self._has_graph()):
            self.block.eval(call(LEAVE, self._record()))

    def alloc(self, size_bytes: Expr) -> Expr:
        """Emit the allocation of a workspace; return the pointer."""
        found = self.block.alloc("found", 1, "int64")
        self.block.eval(call(TAKE_FOR, self._record(), i64(size_bytes), found.data))
        self.exits.check(tirx.NE(found[i64(0)], i64(0)), "out of memory", "MemoryError")
        return self.block.bind("ws", as_pointer(found[i64(0)]))

    def free(self, pointer: Expr) -> None:
        """Emit the release of a workspace, unless a graph owns it."""
        self.block.eval(call(GIVE_FOR, self._record(), tirx.reinterpret("int64", pointer)))

    def _record(self) -> Expr:
        return tirx.reinterpret("int64", self.host.record.data)

    def _has_graph(self) -> Expr:
        return tirx.NE(self.host.record[i64(GRAPH)], i64(0))
