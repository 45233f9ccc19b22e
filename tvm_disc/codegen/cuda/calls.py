"""Calls of addresses, as imported LLVM code: the driver is found when a program runs.

All arguments are words: on x86-64 and AArch64 a function reads of a register, or of a place on the
stack, as much as its parameter has.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import op as O

from tvm_disc.abi.state import CALLS, DRIVER_CALLS, GRAPH_CALLS
from tvm_disc.codegen.host.abi import void_pointer
from tvm_disc.tir.builder import Block, Buffer, i64
from tvm_disc.tir.imports import provide

Expr: TypeAlias = Any

FEW, MANY = 5, 11
_NAMES = DRIVER_CALLS + GRAPH_CALLS
ERROR, OUT_OF_MEMORY = "DeviceError", 2
RELEASE_NAME = "tvm_disc_release_result"


def _text(count: int) -> str:
    params = ", ".join(f"i64 %a{k}" for k in range(count))
    return f"""
define linkonce_odr i64 @disc.driver{count}(i64 %f, {params}) {{
  %p = inttoptr i64 %f to ptr
  %status = call i32 %p({params})
  %wide = sext i32 %status to i64
  ret i64 %wide
}}
"""


provide(_text(FEW))
provide(_text(MANY))
# Its address is taken where it is defined, in the support code of a program.
RELEASE_TEXT = f"""
declare i32 @{RELEASE_NAME}(ptr)
define linkonce_odr i64 @disc.release_code() {{
  %code = ptrtoint ptr @{RELEASE_NAME} to i64
  ret i64 %code
}}
"""


def driver(state: Buffer, name: str, *args: Expr | int) -> Expr:
    """A call of the driver's function; its status, 0 if all went well."""
    count = FEW if len(args) <= FEW else MANY
    given = [i64(a) for a in args]
    given += [i64(0)] * (count - len(given))
    code = state[i64(CALLS + _NAMES.index(name))]
    return O.call_extern("int64", f"disc.driver{count}", code, *given)


def text_address(text: str) -> Expr:
    """Where a text lies, as a number."""
    return tirx.reinterpret("int64", tirx.reinterpret(void_pointer(), StringImm(text)))


def cell_address(cell: Buffer) -> Expr:
    """Where a variable lies, as a number."""
    return tirx.reinterpret("int64", cell.data)


def raise_error(block: Block, kind: str, parts: list[Expr | str]) -> None:
    """Raise an error whose message is made of texts and of addresses of texts."""
    given = block.alloc("parts", len(parts), "int64")
    for k, part in enumerate(parts):
        block.store(given, k, text_address(part) if isinstance(part, str) else part)
    count = tirx.IntImm("int32", len(parts))
    call = O.call_extern(
        "int32", "TVMFFIErrorSetRaisedFromCStrParts", StringImm(kind), given.data, count
    )
    block.eval(call)


def raise_status(block: Block, what: str, status: Expr) -> None:
    """Raise what a status of the driver means to the user, who wanted ``what``."""
    with block.when(tirx.EQ(status, i64(OUT_OF_MEMORY))):
        raise_error(block, "MemoryError", [f"out of memory on the GPU, to {what}"])
    with block.otherwise():
        said = f"the GPU's driver could not {what}: status "
        raise_error(block, ERROR, [said, digits(block, status)])


def digits(block: Block, number: Expr) -> Expr:
    """The address of a number from 0 to 999 as text."""
    cell = block.alloc("digits", 1, "int64")
    number = block.bind("number", tirx.max(tirx.min(number, i64(999)), i64(0)))
    parts = [tirx.truncdiv(number, i64(d)) for d in (100, 10, 1)]
    signs = [block.bind("sign", tirx.truncmod(p, i64(10)) + ord("0")) for p in parts]

    def word(kept: list[Expr]) -> Expr:
        total: Expr = i64(0)
        for k, sign in enumerate(kept):
            total = total + sign * (1 << (8 * k))
        return total

    block.store(cell, 0, word(signs[2:]))
    with block.when(number >= 10):
        block.store(cell, 0, word(signs[1:]))
    with block.when(number >= 100):
        block.store(cell, 0, word(signs))
    return cell_address(cell)


__all__ = [
    "ERROR",
    "RELEASE_NAME",
    "RELEASE_TEXT",
    "cell_address",
    "digits",
    "driver",
    "raise_error",
    "raise_status",
    "text_address",
]
