"""Entry for NumPy arrays in CPython's layout, without conversion between caller and program.

    direct(layout, inputs, outputs) -> 0, or 1 if the call failed or needs the general entry

All arguments are addresses. ``layout`` is the address of two words about the interpreter: NumPy's
array type, and the offset of a tuple's items, which differs between versions of CPython. ``inputs``
and ``outputs`` are the addresses of tuples of arrays. The entry reads fields whose layout is part
of the ABI of CPython and NumPy, builds DLTensors that refer to the arrays' shapes and data, and
calls the program. The caller has checked the layout, and keeps the objects alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tvm import tirx
from tvm.ir import PointerType, PrimType
from tvm.tirx import op as O

from tvm_disc.abi.entries import DIRECT, DL_TENSOR, TENSOR_WORDS, dtype_fields
from tvm_disc.abi.numpy_layout import (
    ARRAY_TYPE,
    CONTIGUOUS_AND_ALIGNED,
    DATA,
    DTYPE,
    DTYPE_NUMBER,
    DTYPE_ORDER,
    FLAGS,
    ITEMS,
    LENGTH,
    NATIVE_ORDERS,
    NDIM,
    OBJECT_TYPE,
    SHAPE,
    TYPE_NUMBERS,
)
from tvm_disc.codegen.host.abi import (
    ANY_PADDING,
    ANY_TYPE,
    ANY_VALUE,
    INT64_ELEM,
    INTEGER,
    i32,
    void_pointer,
)
from tvm_disc.codegen.host.packed import Entry
from tvm_disc.codegen.plan.program import Program
from tvm_disc.tir.builder import Block, call, i64
from tvm_disc.typing import Buffer, Expr, GlobalVar, PrimFunc

# Length of a run from which a loop reads it: LLVM takes quadratic time for straight code.
LOOPED = 16


@dataclass
class ArrayRun:
    """Consecutive arrays of a tuple with the same dtype.

    Attributes:
        place: the address of the tuple item that refers to the first array.
        first: the position of the first array among the program's arguments.
        objects: variables with the arrays' addresses; empty for a run that is read by a loop.
    """

    place: Expr
    first: int
    count: int
    dtype: str
    objects: Sequence[Expr] = ()

    @property
    def looped(self) -> bool:
        """Return whether the run is too long for straight code."""
        return self.count >= LOOPED


def takes_numpy(program: Program) -> bool:
    """Return whether a program can have a direct entry for NumPy arrays.

    It must have inputs and results, all of NumPy's dtypes; the dims of the inputs must determine
    all result shapes, and no input may be donated.
    """
    if program.donations:
        return False
    inputs, outputs = program.signature.inputs, program.outputs
    known = {d for _, shape, _ in inputs for d in shape if isinstance(d, tirx.Var)}
    dims = [i64(d) for value in outputs for d in value.shape]
    free = {v for d in dims for v in tirx.analysis.undefined_vars(d)}
    dtypes = [*(t for _, _, t in inputs), *(value.dtype for value in outputs)]
    return bool(inputs) and bool(outputs) and free <= known and set(dtypes) <= set(TYPE_NUMBERS)


def direct_entry(program: Program, main: GlobalVar) -> PrimFunc:
    """Return the entry as a packed function; ``main`` is the program's function."""
    entry = Entry()
    block, result = entry.block, entry.result
    dtypes = (
        [dtype for _, _, dtype in program.signature.inputs],
        [value.dtype for value in program.outputs],
    )
    layout, inputs, outputs = (block.bind("at", _argument(entry.args, k)) for k in range(3))
    kind, begin = (block.bind("field", _word(layout, offset)) for offset in (ARRAY_TYPE, ITEMS))
    counts = len(program.signature.inputs), len(program.outputs)
    arrays = tirx.And(
        tirx.EQ(_word(inputs, LENGTH), i64(counts[0])),
        tirx.EQ(_word(outputs, LENGTH), i64(counts[1])),
    )
    _answer(block, result, i64(1))
    # TIR `And` does not short-circuit: the types are tested before fields are read.
    with block.when(block.bind("tuples", arrays)):
        runs = [
            *_runs(block, inputs + begin, 0, dtypes[0]),
            *_runs(block, outputs + begin, counts[0], dtypes[1]),
        ]
        _call_on_arrays(block, main, [entry.self_handle, kind, runs, result])
    return entry.function(DIRECT)


def _runs(block: Block, items: Expr, first: int, dtypes: Sequence[str]) -> list[ArrayRun]:
    """Split the arrays of a tuple, whose items begin at `items`, into runs of the same dtype."""
    found = []
    begin = 0
    for dtype, same in groupby(dtypes):
        run = ArrayRun(items + 8 * begin, first + begin, len(list(same)), dtype)
        if not run.looped:
            places = range(begin, begin + run.count)
            run.objects = [block.bind("object", _word(items, 8 * k)) for k in places]
        found.append(run)
        begin += run.count
    return found


def _argument(args: Expr, k: int) -> Expr:
    return O.tvm_struct_get(args, i32(k), i32(ANY_VALUE), "int64")


def _answer(block: Block, result: Expr, value: Expr, kind: int = INTEGER) -> None:
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_TYPE), i32(kind)))
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_PADDING), i32(0)))
    block.eval(O.tvm_struct_set(result, i32(0), i32(ANY_VALUE), value))


def _word(address: Expr, offset: int) -> Expr:
    """Return the eight bytes at ``address + offset``."""
    pointer = tirx.reinterpret(PointerType(PrimType("int64"), "global"), address + offset)
    return O.tvm_struct_get(pointer, i32(0), i32(INT64_ELEM), "int64")


def _call_on_arrays(block: Block, main: GlobalVar, parts: Sequence[Any]) -> None:
    self_handle, kind, runs, result = parts
    arrays = _each(block, runs, lambda at, _: tirx.EQ(_word(at, OBJECT_TYPE), kind))
    with block.when(block.bind("arrays", arrays)):
        fits = _each(block, runs, _readable)
        with block.when(block.bind("fits", fits)):
            _call(block, main, [self_handle, runs, result])


def _each(block: Block, runs: Sequence[ArrayRun], test: Callable[[Expr, str], Expr]) -> Expr:
    """Return an expression for whether ``test(address, dtype)`` holds for all arrays."""
    conditions = []
    for run in runs:
        if not run.looped:
            conditions += [test(at, run.dtype) for at in run.objects]
            continue
        flag = block.alloc("flag", 1, "int64")
        block.store(flag, 0, i64(1))
        with block.loop("k", run.count) as k:
            at = block.bind("object", _word(run.place + k * 8, 0))
            holds = tirx.Cast("int64", test(at, run.dtype))
            block.store(flag, 0, tirx.bitwise_and(flag[i64(0)], holds))
        conditions.append(tirx.NE(block.bind("all", flag[i64(0)]), i64(0)))
    return _all(conditions)


def _all(conditions: Sequence[Expr]) -> Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = tirx.And(result, condition)
    return result


def _call(block: Block, main: GlobalVar, parts: Sequence[Any]) -> None:
    self_handle, runs, result = parts
    length = sum(run.count for run in runs)
    anys = block.bind("anys", O.tvm_stack_alloca("tvm_ffi_any", length))
    for run in runs:
        if run.looped:
            room = block.stack("room", run.count * TENSOR_WORDS * 8, 8)
            words = tirx.reinterpret(PointerType(PrimType("int64"), "global"), room.data)
            tensors = block.declare("tensors", block.bind("t", words), "int64")
            with block.loop("k", run.count) as i:
                at = block.bind("object", _word(run.place + i * 8, 0))
                _borrow(block, (tensors, i * TENSOR_WORDS), anys, run.first + i, at, run.dtype)
        for k, at in enumerate(run.objects, run.first):
            tensor = block.alloc(f"tensor{k}", TENSOR_WORDS, "int64")
            _borrow(block, (tensor, i64(0)), anys, i64(k), at, run.dtype)
    answer = block.bind("answer", O.tvm_stack_alloca("tvm_ffi_any", 1))
    _answer(block, answer, i64(0), kind=0)
    count = i32(length)
    status = block.bind("status", call(main, self_handle, anys, count, answer))
    # If the call failed, the caller repeats it through the general entry, which reports the error.
    _answer(block, result, tirx.Cast("int64", tirx.NE(status, i32(0))))


def _readable(at: Expr, dtype: str) -> Expr:
    """Return whether the array has the dtype and the layout that the program reads."""
    flags = tirx.bitwise_and(_word(at, FLAGS), i64(CONTIGUOUS_AND_ALIGNED))
    plain = tirx.EQ(flags, i64(CONTIGUOUS_AND_ALIGNED))
    numbers = _word(_word(at, DTYPE), DTYPE_NUMBER - 4)
    number = tirx.shift_right(numbers, i64(32))
    order = tirx.bitwise_and(tirx.shift_right(numbers, i64(8 * (DTYPE_ORDER - 24))), i64(255))
    known = _any_of(number, TYPE_NUMBERS[dtype])
    return tirx.And(plain, tirx.And(known, _any_of(order, NATIVE_ORDERS)))


def _any_of(value: Expr, choices: tuple[int, ...]) -> Expr:
    found: Expr = tirx.EQ(value, i64(choices[0]))
    for choice in choices[1:]:
        found = tirx.Or(found, tirx.EQ(value, i64(choice)))
    return found


def _borrow(
    block: Block, place: tuple[Buffer, Expr], anys: Expr, k: Expr, at: Expr, dtype: str
) -> None:
    """Emit a DLTensor at `place` that refers to the array, and store it as argument `k`."""
    tensor, begin = place
    code, bits = dtype_fields(dtype)
    ndim = tirx.bitwise_and(_word(at, NDIM), i64(0xFFFFFFFF))
    fields = (
        _word(at, DATA),
        i64(1),
        tirx.bitwise_or(ndim, i64((code | bits << 8 | 1 << 16) << 32)),
        _word(at, SHAPE),
        i64(0),
        i64(0),
    )
    for j, value in enumerate(fields):
        block.store(tensor, begin + j, value)
    number = i32(int(k)) if isinstance(k, tirx.IntImm) else tirx.Cast("int32", k)
    block.eval(O.tvm_struct_set(anys, number, i32(ANY_TYPE), i32(DL_TENSOR)))
    block.eval(O.tvm_struct_set(anys, number, i32(ANY_PADDING), i32(0)))
    pointer = tirx.reinterpret(void_pointer(), tensor.data)
    if not isinstance(k, tirx.IntImm):
        pointer = O.handle_add_byte_offset(pointer, begin * 8)
    block.eval(O.tvm_struct_set(anys, number, i32(ANY_VALUE), pointer))
