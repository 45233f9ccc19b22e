"""cuBLASLt, which is loaded when the device is opened, and called for matmuls.

find(state)                     loads the library and creates a handle, if it is installed
product(record, fields, out)    computes a matmul (``schedules/cuda/library.py``)

If a call fails, the generated kernels compute the matmul.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import op as O

from tvm_disc.abi.state import LIBRARY_CALLS, LIBRARY_CODES, LIBRARY_HANDLE
from tvm_disc.codegen.cuda.calls import call_code, cell_address
from tvm_disc.codegen.cuda.driver import FIND_LIBRARY
from tvm_disc.codegen.cuda.stream import stream
from tvm_disc.codegen.host.abi import as_pointer, i32
from tvm_disc.codegen.host.device import GRAPH, STATE, TAKEN
from tvm_disc.codegen.host.memory import bits_of, words
from tvm_disc.codegen.host.results import words_at
from tvm_disc.schedules.cuda.library import (
    ADDRESS,
    BATCH,
    BIAS,
    COLUMNS,
    COMPUTE,
    DEPTH,
    EPILOGUE,
    FIRST,
    LEADING,
    PRODUCT,
    RESULT,
    RESULT_TYPE,
    ROWS,
    SECOND,
    STEP,
    TRANS_FIRST,
    TRANS_SECOND,
    TYPE,
)
from tvm_disc.tir.builder import Block, i64, prim_func
from tvm_disc.typing import Buffer, Expr, GlobalVar, PrimFunc

LIBRARIES = tuple(f"libcublasLt.so.{major}" for major in (13, 12, 11))
_NOW = 2
# Numbers of cuBLASLt: attributes of a matmul and of a matrix layout, and the element type.
_OF_FIRST, _OF_SECOND, _OF_EPILOGUE, _OF_BIAS = 3, 4, 7, 8
_OF_BATCH, _OF_STEP = 5, 6
_FLOAT32 = 0
_ONE = 0x3F800000  # 1.0 as float32 bits


def library_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions of a program that may call the library."""
    return {FIND_LIBRARY: _find(), PRODUCT: _product()}


def _find() -> PrimFunc:
    """Return the function ``find(state)``, which loads cuBLASLt and creates a handle.

    The handle remains 0 if the library or one of its functions is missing.
    """
    state_ptr = words("state")
    block = Block()
    state = block.declare("s", state_ptr, "int64")
    found = block.alloc("found", 1, "int64")
    block.store(found, 0, i64(0))
    for name in LIBRARIES:
        with block.when(tirx.EQ(found[i64(0)], i64(0))):
            library = O.call_extern("handle", "dlopen", StringImm(name), i32(_NOW))
            block.store(found, 0, bits_of(block.bind("library", library)))
    with block.when(tirx.EQ(found[i64(0)], i64(0))):
        block.ret(i32(0))
    for k, name in enumerate(LIBRARY_CALLS):
        handle = as_pointer(found[i64(0)])
        code = O.call_extern("handle", "dlsym", handle, StringImm(name))
        code = block.bind("code", bits_of(block.bind("code", code)))
        with block.when(tirx.EQ(code, i64(0))):
            block.ret(i32(0))
        block.store(state, LIBRARY_CODES + k, code)
    cell = block.alloc("cell", 1, "int64")
    made = block.bind("made", _call(state, "cublasLtCreate", cell_address(cell)))
    with block.when(tirx.EQ(made, i64(0))):
        block.store(state, LIBRARY_HANDLE, cell[i64(0)])
    return prim_func([state_ptr], block.stmt())


def _call(state: Buffer, name: str, *args: Expr | int) -> Expr:
    return call_code(state[i64(LIBRARY_CODES + LIBRARY_CALLS.index(name))], *args)


class _Tries:
    """Emits library calls in sequence; after a failure the rest is skipped."""

    def __init__(self, block: Block, state: Buffer, out: Buffer) -> None:
        self.block, self.state, self.out = block, state, out
        block.store(out, 0, i64(1))

    def __call__(self, name: str, *args: Expr | int) -> None:
        """Emit one call."""
        with self.block.when(tirx.NE(self.out[i64(0)], i64(0))):
            status = self.block.bind("status", _call(self.state, name, *args))
            self.block.store(self.out, 0, tirx.Cast("int64", tirx.EQ(status, i64(0))))


def _product() -> PrimFunc:
    """Return ``product(record, fields, out)``, which computes a matmul. It does nothing without the
    library and in calls with a CUDA graph: the generated kernels then compute the matmul.
    """
    address, fields_ptr, out_ptr = tirx.Var("record", "int64"), words("fields"), words("out")
    block = Block()
    fields, out = (block.declare(n, p, "int64") for n, p in (("t", fields_ptr), ("o", out_ptr)))
    record = words_at(block, address)
    state = words_at(block, record[i64(STATE)])
    absent = tirx.EQ(state[i64(LIBRARY_HANDLE)], i64(0))
    with block.when(tirx.Or(absent, tirx.NE(record[i64(GRAPH)], i64(0)))):
        block.ret(i32(0))

    def at(word: int) -> Expr:
        return bits_of(fields_ptr) + 8 * word

    made = block.alloc("made", 4, "int64")  # the matmul's descriptor, and three matrix layouts
    for k in range(4):
        block.store(made, k, i64(0))
    attempt = _Tries(block, state, out)
    attempt("cublasLtMatmulDescCreate", bits_of(made.data), fields[i64(COMPUTE)], _FLOAT32)
    attributes = [(_OF_FIRST, TRANS_FIRST, 4), (_OF_SECOND, TRANS_SECOND, 4),
                  (_OF_EPILOGUE, EPILOGUE, 4)]  # fmt: skip
    for number, word, size in attributes:
        attempt("cublasLtMatmulDescSetAttribute", made[i64(0)], number, at(word), size)
    with block.when(tirx.NE(fields[i64(BIAS)], i64(0))):
        attempt("cublasLtMatmulDescSetAttribute", made[i64(0)], _OF_BIAS, at(BIAS), 8)
    for k, (operand, sides) in enumerate(_matrices(fields), start=1):
        place = bits_of(made.data) + 8 * k
        lead = fields[i64(operand + LEADING)]
        kind = fields[i64(RESULT_TYPE if operand == RESULT else TYPE)]
        attempt("cublasLtMatrixLayoutCreate", place, kind, *sides, lead)
        with block.when(fields[i64(BATCH)] > 1):
            for number, word, size in ((_OF_BATCH, BATCH, 4), (_OF_STEP, operand + STEP, 8)):
                attempt("cublasLtMatrixLayoutSetAttribute", made[i64(k)], number, at(word), size)
    scale = block.alloc("scale", 2, "int64")
    block.store(scale, 0, i64(_ONE))
    block.store(scale, 1, i64(0))
    one, none = bits_of(scale.data), bits_of(scale.data) + 8
    first, second, result = (fields[i64(x + ADDRESS)] for x in (FIRST, SECOND, RESULT))
    to = (result, made[i64(3)], result, made[i64(3)])
    attempt("cublasLtMatmul", state[i64(LIBRARY_HANDLE)], made[i64(0)], one, first, made[i64(1)],
            second, made[i64(2)], none, *to, 0, 0, 0, stream(block))  # fmt: skip
    block.store(record, TAKEN, out[i64(0)])
    for k in range(4):
        struct = "MatrixLayout" if k else "MatmulDesc"
        with block.when(tirx.NE(made[i64(k)], i64(0))):
            block.eval(_call(state, f"cublasLt{struct}Destroy", made[i64(k)]))
    return prim_func([address, fields_ptr, out_ptr], block.stmt())


def _matrices(fields: Buffer) -> list[tuple[int, tuple[Expr, Expr]]]:
    """Return the first field of each operand and of the result, with the rows and columns of its
    layout.
    """
    rows, columns, depth = (fields[i64(x)] for x in (ROWS, COLUMNS, DEPTH))

    def turned(flag: int, sides: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        other = tirx.NE(fields[i64(flag)], i64(0))
        first, second = sides
        return tirx.Select(other, second, first), tirx.Select(other, first, second)

    return [
        (FIRST, turned(TRANS_FIRST, (rows, depth))),
        (SECOND, turned(TRANS_SECOND, (depth, columns))),
        (RESULT, (rows, columns)),
    ]


__all__ = ["library_functions"]
