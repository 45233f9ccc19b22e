"""Host functions on boxed values: arguments and results in registers, tail calls as loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import GlobalVar, StringImm
from tvm.tirx import stmt as S

from tvm_disc.codegen.host.abi import as_pointer, i32, void_pointer
from tvm_disc.codegen.host.emission import Emission
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.host.profile import kernel_numbers
from tvm_disc.codegen.host.regions import Regions
from tvm_disc.codegen.objects.code import DISPATCH, RAISE, Errors, ObjectCode, address_on_stack
from tvm_disc.codegen.objects.flat import io_functions
from tvm_disc.codegen.objects.heap import STACK_BYTES, TOO_DEEP, Reg, heap_functions, word_pointer
from tvm_disc.codegen.objects.refcount import Invoke, last_calls
from tvm_disc.codegen.plan.program import HostFunction, Program
from tvm_disc.tir.builder import Block, call, i64, prim_func
from tvm_disc.typing import Expr, PrimFunc


class FunctionEmitter:
    """Emits one :class:`HostFunction` as ``(heap) -> int32``."""

    def __init__(
        self,
        function: HostFunction,
        constant_offsets: Sequence[int],
        functions: Mapping[HostFunction, GlobalVar],
        errors: Errors,
        numbers: Mapping[str, int],
    ) -> None:
        self.source, self.host = function, Emission(constant_offsets, numbers)
        self.block = self.host.block
        self.regions = Regions(self.host, self)
        self.objects = ObjectCode(self.host, self.regions, self, functions, errors, self._jump)
        self.heap = tirx.Var("heap", word_pointer())
        self.objects.use_heap(self.heap)
        self.host.null = self.block.bind("null", tirx.reinterpret(void_pointer(), self.heap))
        self.params: list[Any] = []
        self.again: Any = None

    def leave(self) -> None:
        """Emit a return; the caller checks ``Reg.ERROR``."""
        self.block.ret(i32(0))

    def check(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Emit an error exit if ``cond`` is false."""
        with self.block.when(tirx.Not(cond)):
            self.objects.stop(self.objects.errors.code(kind, message))

    def check_numbers(self, cond: Expr, text: Sequence[Expr | str], kind: str) -> None:
        """Like :meth:`check`; the message has ``...`` in place of values, as the error is a
        code.
        """
        words = "".join(part if isinstance(part, str) else "..." for part in text)
        self.check(cond, words, kind)

    def function(self) -> PrimFunc:
        """Return the TIR function."""
        block = self.block
        here = address_on_stack(block)
        with block.when(tirx.GT(self.objects.regs[i64(Reg.STACK)] - here, i64(STACK_BYTES))):
            self.objects.stop(TOO_DEEP)
        self.host.constants = block.bind(
            "constants", as_pointer(self.objects.regs[i64(Reg.CONSTANTS)])
        )
        self.host.profile = block.bind("profile", self.objects.regs[i64(Reg.PROFILE)])
        state = tirx.reinterpret(word_pointer(), self.objects.regs[i64(Reg.STATE)])
        self.host.state = block.bind("state", state)
        args = [block.bind("arg", self.objects.regs[i64(Reg.ARGS + k)]) for k in self._positions()]
        if all(c.callee is not self.source for c in last_calls(self.source.region)):
            self.objects.boxes.update(zip(self.source.params, args, strict=True))
            self._body()
            return prim_func([self.heap], block.stmt())
        self.params = [block.alloc("param", 1, "int64") for _ in args]
        for cell, arg in zip(self.params, args, strict=True):
            block.store(cell, 0, arg)
        self.again = block.alloc("again", 1, "int64")
        block.store(self.again, 0, i64(1))
        with block.loop_while(tirx.NE(self.again[i64(0)], i64(0))):
            block.store(self.again, 0, i64(0))
            for box, cell in zip(self.source.params, self.params, strict=True):
                self.objects.boxes[box] = block.bind("now", cell[i64(0)])
            self._body()
        return prim_func([self.heap], block.stmt())

    def _body(self) -> None:
        for instruction in self.source.prologue:
            self.regions.instruction(instruction)
        self.regions.region(self.source.region)

    def _positions(self) -> range:
        return range(len(self.source.params))

    def _jump(self, instruction: Invoke) -> bool:
        """Emit a jump to the start of the function if the tail call calls this function; return
        whether it does.
        """
        if instruction.callee is not self.source:
            return False
        for cell, box in zip(self.params, instruction.args, strict=True):
            self.block.store(cell, 0, self.objects.boxes[box])
        self.block.store(self.again, 0, i64(1))
        return True


def object_functions(
    program: Program, constant_offsets: Sequence[int], errors: Errors
) -> tuple[dict[HostFunction, GlobalVar], dict[GlobalVar, PrimFunc]]:
    """Return the symbol of every host function, and all functions that boxed values need."""
    names = {f: GlobalVar(f"host_{f.name}") for f in program.functions}
    numbers = kernel_numbers(program.kernels)
    made: dict[GlobalVar, PrimFunc] = {**heap_functions(), **io_functions()}
    for f in program.functions:
        emitter = FunctionEmitter(f, constant_offsets, names, errors, numbers)
        made[names[f]] = emitter.function()
    made[DISPATCH] = _dispatch(names)
    return names, made


def _dispatch(names: Mapping[HostFunction, Expr]) -> PrimFunc:
    """Return the function ``(heap)``, which executes the call in ``Reg.NEXT``, then the tail call
    that the called function left there, until none is left.
    """
    heap = tirx.Var("heap", word_pointer())
    block = Block()
    regs = block.declare("regs", heap, "int64")
    with block.loop_while(tirx.NE(regs[i64(Reg.NEXT)], i64(0))):
        chosen = block.bind("chosen", regs[i64(Reg.NEXT)])
        block.store(regs, Reg.NEXT, i64(0))
        for function, gv in names.items():
            with block.when(tirx.EQ(chosen, i64(function.index))):
                block.eval(call(gv, heap))
    return prim_func([heap], block.stmt())


def raise_function(errors: Errors) -> PrimFunc:
    """Return the packed function ``(code)``, which raises the error of that code."""

    def emit(block: Block, args: Arguments) -> None:
        code = block.bind("code", args.integer(0))
        for number, kind, message in errors.rows:
            holds = tirx.NE(code, i64(number))
            block.add(S.AssertStmt(holds, StringImm(kind), [StringImm(message)]))

    return packed(str(RAISE.name_hint), emit)
