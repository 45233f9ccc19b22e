"""Host code for boxed values: allocation, reference counts, branches, calls, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tvm import tirx
from tvm.ir import GlobalVar
from tvm.tirx import op as O

from tvm_disc.codegen.host.abi import as_pointer, element_bytes
from tvm_disc.codegen.host.emission import Emission, Exits
from tvm_disc.codegen.host.regions import Regions
from tvm_disc.codegen.objects.flat import DECODE, ENCODE, MEASURE
from tvm_disc.codegen.objects.heap import (
    ALLOC,
    BASE_ERRORS,
    FREE,
    NO_ERROR,
    RELEASE,
    START,
    TENSOR_FLAG,
    Reg,
    Word,
    data_offset,
    is_block,
    word_pointer,
    words,
)
from tvm_disc.codegen.objects.refcount import (
    BoxCopy,
    BoxView,
    Choose,
    Decode,
    Drop,
    Dup,
    Encode,
    Fail,
    GetField,
    HasTag,
    Invoke,
    MakeClosure,
    MakeNode,
    Measure,
    Return,
    SetField,
    Unbox,
    last_calls,
)
from tvm_disc.codegen.plan.program import (
    Box,
    Home,
    HostFunction,
    Region,
    Storage,
    StoredTensor,
)
from tvm_disc.tir.builder import Block, byte_offset, call, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import UNSET, Buffer, Expr

DISPATCH, RAISE = GlobalVar("tvm_disc_dispatch"), GlobalVar("tvm_disc_raise")
BLOCK_HEADER_BYTES = 64


class Errors:
    """Run-time errors by code."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, str]] = list(BASE_ERRORS)

    def code(self, kind: str, message: str) -> int:
        """Return the code of an error, allocating one for a new message."""
        for code, k, m in self.rows:
            if (k, m) == (kind, message):
                return code
        self.rows.append((len(self.rows) + 1, kind, message))
        return len(self.rows)


class ObjectCode:
    """Emits instructions on boxed values. ``heap`` is None while the emitted code has no heap.

    Args:
        functions: the global variables of host functions.
        jumps: emits a tail call as a jump if possible; returns whether it did.
    """

    def __init__(
        self,
        host: Emission,
        regions: Regions,
        exits: Exits,
        functions: Mapping[HostFunction, object],
        errors: Errors,
        jumps: Callable[[Invoke], bool] = lambda instruction: False,
    ) -> None:
        self.host, self.regions, self.exits, self.block = host, regions, exits, host.block
        self.host_functions, self.errors, self._jumps = functions, errors, jumps
        self.heap: object = None
        self.regs: Buffer = UNSET
        self.boxes: dict[Box, Expr] = {}
        self._kept = regions.memory
        emitters: dict[type, Callable[[Any], None]] = {
            Unbox: self._unbox,
            BoxView: self._view,
            BoxCopy: self._box_copy,
            MakeNode: lambda i: self._new_node(i.target, i.tag, i.fields),
            MakeClosure: lambda i: self._closure(i),
            GetField: self._get_field,
            SetField: self._set_field,
            Choose: self._choose,
            Invoke: self._invoke,
            Return: self._return,
            Fail: lambda i: self.stop(self.errors.code("ValueError", i.message)),
            Dup: lambda i: self._dup(self.boxes[i.box], i.box.value is not None),
            Drop: lambda i: self._drop(self.boxes[i.box], i.box.value is not None),
            Decode: self._decode,
            Measure: self._measure,
            Encode: self._encode,
        }
        regions.emitters.update(emitters)
        regions.settlers[Home.BOX] = self._settle

    # -- the heap of the entry function --------------------------------------------------------

    def start_heap(self) -> None:
        """Emit the creation of the heap of a call."""
        cell = self.block.alloc("heap_cell", 1, "int64")
        self.block.eval(call(START, self.host.state, cell.data))
        address = self.block.bind("heap_at", cell[i64(0)])
        self.exits.check(tirx.NE(address, i64(0)), "out of memory", "MemoryError")
        self.use_heap(self.block.bind("heap", tirx.reinterpret(word_pointer(), address)))
        self.block.store(self.regs, Reg.STACK, address_on_stack(self.block))
        self.block.store(self.regs, Reg.CONSTANTS, tirx.reinterpret("int64", self.host.constants))
        self.block.store(self.regs, Reg.PROFILE, self.host.profile)

    def use_heap(self, heap: Expr) -> None:
        """Emit all further allocations from this heap."""
        self.heap, self.regs = heap, self.block.declare("regs", heap, "int64")
        self.regions.memory = self

    def release_heap(self) -> None:
        """Emit the release of all blocks of the heap."""
        self.block.eval(call(RELEASE, self.heap))

    def stop_heap(self, verify: bool) -> None:
        """Emit the release of the heap; with ``verify``, after a check that all blocks were
        freed.
        """
        live = self.block.bind("live", self.regs[i64(Reg.LIVE)])
        self.release_heap()
        self.heap, self.regions.memory = None, self._kept
        if verify:
            self.exits.check(tirx.EQ(live, i64(0)), "blocks are left at the end of the call")

    # -- errors --------------------------------------------------------------------------------

    def stop(self, code: int) -> None:
        """Emit an exit from the function with an error."""
        self.block.store(self.regs, Reg.ERROR, i64(code))
        self.exits.leave()

    def _check_error(self) -> None:
        with self.block.when(tirx.NE(self.regs[i64(Reg.ERROR)], i64(NO_ERROR))):
            self.exits.leave()

    # -- memory --------------------------------------------------------------------------------

    def _block(self, size_bytes: Expr) -> Expr:
        out = self.block.alloc("out", 1, "int64")
        self.block.eval(call(ALLOC, self.heap, i64(size_bytes), out.data))
        made = self.block.bind("block", out[i64(0)])
        with self.block.when(tirx.EQ(made, i64(0))):
            self.exits.leave()
        return made

    def alloc(self, size_bytes: Expr) -> Expr:
        """Return a pointer to ``size_bytes`` bytes of the heap."""
        made = self._block(i64(size_bytes) + BLOCK_HEADER_BYTES)
        return self.block.bind("ws", as_pointer(made + BLOCK_HEADER_BYTES))

    def free(self, pointer: Expr) -> None:
        """Free a block."""
        address = tirx.reinterpret("int64", pointer) - BLOCK_HEADER_BYTES
        self.block.eval(call(FREE, self.heap, address))

    def _settle(self, storage: Storage) -> None:
        if storage not in self.regions.places:
            assert storage.box is not None and storage.box.value is not None
            self._tensor(storage.box, storage.box.value, storage)

    def _tensor(self, box: Box, value: StoredTensor, storage: Storage) -> None:
        """Emit the allocation of a block for a tensor whose elements are written later."""
        size = mul(product(value.shape), element_bytes(value.dtype))
        start = data_offset(len(value.shape))
        made = self._block(i64(size) + start)
        data = self.block.bind("elements", made + start)
        self._header(made, value, 0, i64(0), data)
        self.boxes[box] = made
        self.regions.places[storage] = self.block.bind(storage.name, as_pointer(data))

    def _header(
        self, made: Expr, value: StoredTensor, children: int, owner: Expr, data: Expr
    ) -> None:
        fields = words(self.block, made)
        tag = TENSOR_FLAG + element_bytes(value.dtype) * 256 + len(value.shape)
        rows = [(Word.TAG, i64(tag)), (Word.CHILDREN, i64(children)), (Word.OWNER, owner)]
        rows += [(Word.DATA, data)]
        rows += [(Word.DIMS + a, i64(d)) for a, d in enumerate(value.shape)]
        for word, content in rows:
            self.block.store(fields, word, content)

    # -- instructions --------------------------------------------------------------------------

    def _unbox(self, instruction: Unbox) -> None:
        fields = words(self.block, self.boxes[instruction.box])
        for axis, symbol in enumerate(instruction.binds):
            if symbol is not None:
                self.block.define(symbol, fields[i64(Word.DIMS + axis)])
        data = self.block.bind("data", as_pointer(fields[i64(Word.DATA)]))
        self.regions.places[instruction.value.storage] = data

    def _view(self, instruction: BoxView) -> None:
        value, owner = instruction.value, instruction.owner
        at = self.block.bind("at", tirx.reinterpret("int64", self.regions.place(value.storage)))
        made = self._block(i64((Word.DIMS + len(value.shape)) * 8))
        held = i64(0) if owner is None else self.boxes[owner]
        self._header(made, value, 0 if owner is None else 1, held, at)
        self.boxes[instruction.target] = made

    def _box_copy(self, instruction: BoxCopy) -> None:
        value = instruction.value
        copy = Storage(Home.BOX, i64(0), "copy", box=instruction.target)
        self._tensor(instruction.target, value, copy)
        source = self.block.declare("from", self.regions.typed(value.storage, "int8"), "int8")
        target = self.block.declare("to", byte_offset(self.regions.places[copy], 0, "int8"), "int8")
        size = mul(product(value.shape), element_bytes(value.dtype))
        with self.block.loop("b", i64(size)) as b:
            self.block.store(target, b, source[b])

    def _new_node(self, target: Box, tag: int, fields: Sequence[Box]) -> None:
        if not fields:
            self.boxes[target] = i64(2 * tag + 1)
            return
        made = self._block(i64((Word.FIRST + len(fields)) * 8))
        inner = words(self.block, made)
        self.block.store(inner, Word.TAG, i64(tag))
        self.block.store(inner, Word.CHILDREN, i64(len(fields)))
        for k, child in enumerate(fields):
            self.block.store(inner, Word.FIRST + k, self.boxes[child])
        self.boxes[target] = made

    def _closure(self, instruction: MakeClosure) -> None:
        self._new_node(instruction.target, instruction.function.index, instruction.captures)

    def _get_field(self, instruction: GetField) -> None:
        fields = words(self.block, self.boxes[instruction.source])
        child = self.block.bind("child", fields[i64(Word.FIRST + instruction.index)])
        self.boxes[instruction.target] = child
        self._dup(child, instruction.target.value is not None)

    def _set_field(self, instruction: SetField) -> None:
        fields = words(self.block, self.boxes[instruction.source])
        old = self.block.bind("old", fields[i64(Word.FIRST)])
        self.block.store(fields, Word.FIRST, self.boxes[instruction.value])
        self._drop(old)

    def _dup(self, address: Expr, tensor: bool = False) -> None:
        """Emit an increment of the reference count of the box at ``address``.

        Only blocks have a count: the code first tests for a block. With ``tensor``, the box holds a
        tensor, which is always a block, and the test is omitted.
        """
        if isinstance(address, tirx.IntImm):
            return
        with nullcontext() if tensor else self.block.when(is_block(address)):
            fields = words(self.block, address)
            self.block.store(fields, Word.COUNT, fields[i64(Word.COUNT)] + 1)

    def _drop(self, address: Expr, tensor: bool = False) -> None:
        if isinstance(address, tirx.IntImm):
            return
        with nullcontext() if tensor else self.block.when(is_block(address)):
            fields = words(self.block, address)
            left = self.block.bind("left", fields[i64(Word.COUNT)] - 1)
            self.block.store(fields, Word.COUNT, left)
            with self.block.when(tirx.EQ(left, i64(0))):
                self.block.eval(call(FREE, self.heap, address))

    # -- branches ------------------------------------------------------------------------------

    def _choose(self, instruction: Choose) -> None:
        cells = [self.block.alloc("chosen", 1, "int64") for _ in instruction.outcomes]
        taken = self._taken(instruction.cond)
        with self.block.when(taken):
            self._chosen(instruction.then_region, cells)
        with self.block.otherwise():
            self._chosen(instruction.else_region, cells)
        for box, cell in zip(instruction.outcomes, cells, strict=True):
            self.boxes[box] = self.block.bind("outcome", cell[i64(0)])

    def _taken(self, cond: Storage | HasTag) -> Expr:
        if isinstance(cond, Storage):
            return self.regions.condition(cond)
        address = self.boxes[cond.box]
        if cond.plain:
            return self.block.bind("taken", tirx.EQ(address, i64(2 * cond.tag + 1)))
        cell = self.block.alloc("tag", 1, "int64")
        self.block.store(cell, 0, i64(-1))
        with self.block.when(is_block(address)):
            self.block.store(cell, 0, words(self.block, address)[i64(Word.TAG)])
        return self.block.bind("taken", tirx.EQ(cell[i64(0)], i64(cond.tag)))

    def _chosen(self, region: Region, cells: Sequence[Buffer]) -> None:
        self.regions.open_region(region)
        self.regions.run(region)
        if region.instructions and isinstance(region.instructions[-1], Fail):
            self.regions.drop_region()
            return
        for box, cell in zip(region.boxes, cells, strict=True):
            self.block.store(cell, 0, self.boxes[box])
        self.regions.close_region()

    # -- calls ---------------------------------------------------------------------------------

    def _push(self, instruction: Invoke) -> int:
        """Emit stores of the arguments to the argument registers; return the number of
        arguments.
        """
        for k, box in enumerate(instruction.args):
            self.block.store(self.regs, Reg.ARGS + k, self.boxes[box])
        count = len(instruction.args)
        if isinstance(instruction.callee, Box):
            address = self.boxes[instruction.callee]
            self._push_captures(address, count)
        return count

    def _push_captures(self, address: Expr, count: int) -> None:
        """Emit code that appends a closure's captures to the arguments and stores the index of its
        function in ``Reg.NEXT``.
        """
        next_ = Reg.NEXT
        self.block.store(self.regs, next_, tirx.shift_right(address, i64(1)))
        with self.block.when(is_block(address)):
            fields = words(self.block, address)
            self.block.store(self.regs, next_, fields[i64(Word.TAG)])
            with self.block.loop("k", fields[i64(Word.CHILDREN)]) as k:
                child = self.block.bind("child", fields[Word.FIRST + k])
                self._dup(child)
                self.block.store(self.regs, Reg.ARGS + count + k, child)
        self._drop(address)

    def _invoke(self, instruction: Invoke) -> None:
        callee = instruction.callee
        if instruction.last and self._jumps(instruction):
            return
        self._push(instruction)
        if instruction.last:
            # The caller of this function makes the call (a trampoline).
            if isinstance(callee, HostFunction):
                self.block.store(self.regs, Reg.NEXT, i64(callee.index))
            return
        if isinstance(callee, HostFunction):
            self.block.eval(call(self.host_functions[callee], self.heap))
            if any(c.callee is not callee for c in last_calls(callee.region)):
                with self.block.when(tirx.NE(self.regs[i64(Reg.NEXT)], i64(0))):
                    self.block.eval(call(DISPATCH, self.heap))
        else:
            self.block.eval(call(DISPATCH, self.heap))
        self._check_error()
        for k, box in enumerate(instruction.results):
            self.boxes[box] = self.block.bind("got", self.regs[i64(Reg.RESULTS + k)])

    def _return(self, instruction: Return) -> None:
        for k, box in enumerate(instruction.boxes):
            self.block.store(self.regs, Reg.RESULTS + k, self.boxes[box])

    # -- inputs and results --------------------------------------------------------------------

    def _decode(self, instruction: Decode) -> None:
        out = self.block.alloc("out", 1, "int64")
        codes = self.regions.typed(instruction.codes.storage, "int64")
        blob = tirx.reinterpret("int64", self.regions.place(instruction.blob.storage))
        self.block.eval(call(DECODE, self.heap, codes, blob, out.data))
        self._check_error()
        self.boxes[instruction.target] = self.block.bind("input", out[i64(0)])

    def _measure(self, instruction: Measure) -> None:
        out = self.block.alloc("sizes", 2, "int64")
        self.block.eval(call(MEASURE, self.heap, self.boxes[instruction.source], out.data))
        self._check_error()
        self.block.define(instruction.words, out[i64(0)])
        self.block.define(instruction.blob_bytes, out[i64(1)])

    def _encode(self, instruction: Encode) -> None:
        codes = self.regions.typed(instruction.codes.storage, "int64")
        blob = self.regions.typed(instruction.blob.storage, "int8")
        root = self.boxes[instruction.source]
        self.block.eval(call(ENCODE, self.heap, root, codes, blob))


def raised(code: Expr, null: Expr) -> Expr:
    """Return a call that raises the error of a code: the calling function returns with this
    error.
    """
    return O.call_cpacked(str(RAISE.name_hint), code, null)


def address_on_stack(block: Block) -> Expr:
    """Return the approximate stack pointer."""
    probe = block.alloc("probe", 1, "int64")
    block.store(probe, 0, i64(0))
    return block.bind("here", tirx.reinterpret("int64", O.address_of(probe[i64(0)])))
