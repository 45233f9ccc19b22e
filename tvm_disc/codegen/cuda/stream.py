"""The stream of a call, and error exits of driver calls."""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import op as O

from tvm_disc.codegen.cuda.calls import raise_status
from tvm_disc.codegen.host.abi import CUDA, i32
from tvm_disc.codegen.host.device import DEVICE_NUMBER
from tvm_disc.codegen.host.memory import bits_of
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Buffer, Expr


def stream(block: Block) -> Expr:
    """Return the current stream of this thread."""
    found = O.call_extern("handle", "TVMFFIEnvGetStream", i32(CUDA), i32(DEVICE_NUMBER))
    return block.bind("stream", bits_of(block.bind("stream", found)))


def refuse(block: Block, out: tuple[Buffer, int], status: Expr, what: str) -> None:
    """Emit an error exit if a status is a failure; the exit sets the word ``out`` to 1."""
    with block.when(tirx.NE(status, i64(0))):
        raise_status(block, what, status)
        block.store(out[0], out[1], i64(1))
        block.ret(i32(0))


__all__ = ["refuse", "stream"]
