"""Run-time errors of the host program whose message contains numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir import GlobalVar, StringImm
from tvm.tirx import op as O

from tvm_disc.codegen.host.abi import i32
from tvm_disc.codegen.host.memory import text_address, words
from tvm_disc.tir.builder import Block, byte_offset, call, i64, prim_func
from tvm_disc.typing import Expr, PrimFunc

DECIMAL = GlobalVar("tvm_disc_decimal")
# Bytes of the text of an int64 (a sign, 19 digits and a terminating zero byte, rounded up), and the
# position of the last byte.
DIGITS, LAST = 24, 23
ZERO, MINUS = ord("0"), ord("-")


def decimal_function() -> PrimFunc:
    """Return ``decimal(value, out)``, which formats an integer as a C string.

    The first word of ``out`` receives the offset of the string's first byte in the ``DIGITS`` bytes
    after it.
    """
    value, out_ptr = tirx.Var("value", "int64"), words("out")
    block = Block()
    out = block.declare("o", out_ptr, "int64")
    text = block.declare("text", byte_offset(out_ptr, 8, "int8"), "int8")
    rest, place = block.alloc("rest", 1, "int64"), block.alloc("place", 1, "int64")
    block.store(rest, 0, value)
    block.store(place, 0, i64(LAST))
    block.store(text, LAST, tirx.IntImm("int8", 0))

    def put(byte: Expr) -> None:
        block.store(place, 0, place[i64(0)] - 1)
        block.store(text, place[i64(0)], tirx.Cast("int8", byte))

    def put_digit() -> None:
        # Negate each digit, not the number: the smallest int64 has no positive counterpart.
        digit = block.bind("digit", tirx.truncmod(rest[i64(0)], i64(10)))
        put(tirx.Select(digit < 0, i64(0) - digit, digit) + ZERO)
        block.store(rest, 0, tirx.truncdiv(rest[i64(0)], i64(10)))

    put_digit()
    with block.loop_while(tirx.NE(rest[i64(0)], i64(0))):
        put_digit()
    with block.when(value < 0):
        put(i64(MINUS))
    block.store(out, 0, place[i64(0)])
    return prim_func([value, out_ptr], block.stmt())


def raise_text(block: Block, kind: str, text: Sequence[Expr | str]) -> None:
    """Emit an error; the caller must emit the exit from the function.

    Args:
        kind: the Python name of the error's class.
        text: the parts of the message: strings, and int64 expressions.
    """
    parts = block.alloc("parts", len(text), "int64")
    for k, part in enumerate(text):
        if isinstance(part, str):
            block.store(parts, k, text_address(part))
            continue
        digits = block.alloc("digits", 1 + DIGITS // 8, "int64")
        block.eval(call(DECIMAL, i64(part), digits.data))
        address = tirx.reinterpret("int64", digits.data)
        block.store(parts, k, address + 8 + digits[i64(0)])
    raised = "TVMFFIErrorSetRaisedFromCStrParts"
    block.eval(O.call_extern("int32", raised, StringImm(kind), parts.data, i32(len(text))))
