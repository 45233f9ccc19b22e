"""Calls of functions by address, as imported LLVM code: the driver is loaded at run time.

All arguments are passed as 64-bit words. This is valid on x86-64 and AArch64, where a function with
a narrower parameter reads only the low part of the register or stack slot.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import op as O

from tvm_disc.abi.state import CALLS, DRIVER_CALLS, GRAPH_CALLS
from tvm_disc.codegen.host.abi import void_pointer
from tvm_disc.tir.builder import Block, i64
from tvm_disc.tir.imports import provide
from tvm_disc.typing import Buffer, Expr

SIZES = (5, 11, 16)  # numbers of arguments for which a function is generated
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


for _size in SIZES:
    provide(_text(_size))
# The address of the function is taken in the unit that defines it, the program's support code.
RELEASE_TEXT = f"""
declare i32 @{RELEASE_NAME}(ptr)
define linkonce_odr i64 @disc.release_code() {{
  %code = ptrtoint ptr @{RELEASE_NAME} to i64
  ret i64 %code
}}
"""


def driver(state: Buffer, name: str, *args: Expr | int) -> Expr:
    """Return a call of a driver function; the value is the driver's status, 0 for success."""
    return call_code(state[i64(CALLS + _NAMES.index(name))], *args)


def call_code(code: Expr, *args: Expr | int) -> Expr:
    """Return a call of a function by its address; its value is the status."""
    count = next(size for size in SIZES if len(args) <= size)
    given = [i64(a) for a in args]
    given += [i64(0)] * (count - len(given))
    return O.call_extern("int64", f"disc.driver{count}", code, *given)


def text_address(text: str) -> Expr:
    """Return the address of a string as an integer."""
    return tirx.reinterpret("int64", tirx.reinterpret(void_pointer(), StringImm(text)))


def cell_address(cell: Buffer) -> Expr:
    """Return the address of a variable as an integer."""
    return tirx.reinterpret("int64", cell.data)


def raise_error(block: Block, kind: str, parts: list[Expr | str]) -> None:
    """Emit an error; the parts of its message are strings and addresses of C strings."""
    given = block.alloc("parts", len(parts), "int64")
    for k, part in enumerate(parts):
        block.store(given, k, text_address(part) if isinstance(part, str) else part)
    count = tirx.IntImm("int32", len(parts))
    call = O.call_extern(
        "int32", "TVMFFIErrorSetRaisedFromCStrParts", StringImm(kind), given.data, count
    )
    block.eval(call)


def raise_status(block: Block, what: str, status: Expr) -> None:
    """Emit the error for a failed driver call; ``what`` describes the operation to the user."""
    with block.when(tirx.EQ(status, i64(OUT_OF_MEMORY))):
        raise_error(block, "MemoryError", [f"out of memory on the GPU: cannot {what}"])
    with block.otherwise():
        said = f"the GPU's driver could not {what}: status "
        raise_error(block, ERROR, [said, digits(block, status)])


def digits(block: Block, number: Expr) -> Expr:
    """Return the address of the decimal text of a number from 0 to 999."""
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
    "call_code",
    "cell_address",
    "digits",
    "driver",
    "raise_error",
    "raise_status",
    "text_address",
]
