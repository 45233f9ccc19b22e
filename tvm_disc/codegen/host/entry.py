"""The host program as one TIR function: entry checks, dims, guards, memory, calls, outputs.

It uses TVM's packed calling convention directly, so that the compiled library needs only TVM's
runtime, and no interpreter runs between the caller and the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.ir import PrimType, StringImm
from tvm.tirx import op as O
from tvm.tirx import stmt as S

from tvm_disc.abi.entries import ENTRY
from tvm_disc.abi.record import WHOLE_CALL
from tvm_disc.abi.state import CONSTANTS, DEVICE_CONSTANTS
from tvm_disc.codegen.host.abi import (
    ANY_TYPE,
    ANY_VALUE,
    INTEGER,
    as_pointer,
    element_bytes,
    i32,
    plain_dim,
    static_cell,
    void_pointer,
)
from tvm_disc.codegen.host.device import OPEN, RECORD_WORDS
from tvm_disc.codegen.host.emission import Emission
from tvm_disc.codegen.host.graph import GraphCapture, key_dims
from tvm_disc.codegen.host.memory import LEAVE_CALL, state_of
from tvm_disc.codegen.host.outputs import FEW, CallerTensors
from tvm_disc.codegen.host.overlap import failed
from tvm_disc.codegen.host.profile import kernel_numbers
from tvm_disc.codegen.host.raising import raise_text
from tvm_disc.codegen.host.regions import Regions
from tvm_disc.codegen.objects.code import Errors, ObjectCode, raised
from tvm_disc.codegen.objects.heap import Reg
from tvm_disc.codegen.plan.program import AllocOutput, Copy, Define, HostFunction, Program
from tvm_disc.codegen.threads.glue import install_launch
from tvm_disc.tir.builder import call, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

# A call is counted as a user of the thread pool if its inputs have more bytes than this, or if it
# needs a large workspace: such a call runs long enough to share threads with concurrent calls.
COUNTED_BYTES = 16 << 10


class HostEmitter:
    """Emits a :class:`Program` or its versions; a call runs the first version whose checks it
    passes.

    Args:
        versions: each program with the offsets of its constants; the last one handles every call.
        own_threads: whether kernels run on the thread pool of ``codegen.threads``.
        device: whether kernels and all tensors are on a GPU.
    """

    def __init__(
        self,
        versions: Sequence[tuple[Program, Sequence[int]]],
        slot_gv: object,
        functions: Mapping[HostFunction, object],
        errors: Errors,
        own_threads: bool = False,
        device: bool = False,
    ) -> None:
        program, offsets = versions[-1]
        self.host = Emission(offsets, kernel_numbers(program.kernels))
        self.host.own_threads, self.block = own_threads, self.host.block
        self.host.device, self.host.fail = device, self.fail
        self.tensors = CallerTensors(self.host, self, program)
        self.regions = Regions(self.host, self)
        self.memory = self.regions.memory
        self.regions.emitters[AllocOutput] = self.tensors.alloc_output
        self.objects = ObjectCode(self.host, self.regions, self, functions, errors)
        self.versions = versions
        self.slot_gv = slot_gv
        self.self_handle = tirx.Var("self_handle", void_pointer())
        self.num_args = tirx.Var("num_args", "int32")
        self.host.null = self.tensors.args

    def function(self) -> tirx.PrimFunc:
        """Return the packed entry function."""
        self._read_arity()
        self._read_inputs()
        for program, offsets in self.versions[:-1]:
            # All comparisons are combined into one branch, as every call evaluates them.
            with self.block.when(reduce(tirx.And, [c for c, _ in self._checks(program)])):
                self._serve(program, offsets)
        program, offsets = self.versions[-1]
        # Checks come before any allocation, so that a refused call has nothing to free.
        for cond, message in self._checks(program):
            self.check(cond, message)
        self._serve(program, offsets)
        func = tirx.PrimFunc(
            [self.self_handle, self.tensors.args, self.num_args, self.tensors.result],
            self.block.stmt(),
            PrimType("int32"),
        )
        attrs = {
            "calling_conv": 1,
            "global_symbol": f"__tvm_ffi_{ENTRY}",
            "tirx.is_entry_func": True,
        }
        for key, value in attrs.items():
            func = func.with_attr(key, value)
        return func

    def _serve(self, program: Program, offsets: Sequence[int]) -> None:
        self.tensors.program, self.host.offsets = program, offsets
        self.regions.memory = self.memory
        self._load_state()
        self.tensors.prepare()
        with self.host.timed(i64(WHOLE_CALL)):
            if program.heaped:
                self.objects.start_heap()
            if program.graphs:
                self._begin_graph(program)
            self.regions.open_region(program.region)
            self._begin(program)
            self._run(program)
            self.host.count_call(-1)
            self.host.counted = None
            self.regions.close_region()
            if program.heaped:
                self.objects.stop_heap(program.verify)
        self.tensors.give()
        self.block.ret(i32(0))
        # The next version has neither outputs nor allocations when its own checks fail.
        self.host.outputs, self.tensors.allocated = {}, []

    def _begin_graph(self, program: Program) -> None:
        """Begin a CUDA graph; launches depend only on the version and the dims of its inputs."""
        dims = [self.tensors.input_dims[k][axis] for k, axis in key_dims(program.signature)]
        version = [p for p, _ in self.versions].index(program)
        self.graph = self.regions.memory = GraphCapture(self.host, self)
        self.graph.begin([i64(version), *dims])

    def _run(self, program: Program) -> None:
        """Emit the program; its CUDA graph is launched before the first copy, or at the end."""
        for step in program.region.instructions:
            if self.host.graph and isinstance(step, Copy):
                self.graph.end()
            self.regions.instruction(step)
        if self.host.graph:
            self.graph.end()

    def _begin(self, program: Program) -> None:
        """Count the call, if the program has parallel kernels and enough data."""
        if not (self.host.own_threads and any(k.parallel for k in program.kernels)):
            return
        install_launch(self.block, self.host.home())
        read = [
            product(dims) * element_bytes(dtype)
            for (_, _, dtype), dims in zip(
                program.signature.inputs, self.tensors.input_dims, strict=True
            )
        ]
        large = self.regions.open[-1].large
        much = reduce(tirx.Add, read, i64(0)) > COUNTED_BYTES
        much = much if large is None else tirx.Or(large, much)
        home = tirx.Select(much, self.host.home(), i64(0))
        self.host.counted = self.block.bind("counted", home)
        self.host.count_call(1)

    # -- exits ---------------------------------------------------------------------------------

    def check(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Emit an error exit if ``cond`` is false; everything allocated is freed."""
        held = self.regions.holds or self.tensors.allocated or self.host.graph
        if not held and self.host.counted is None:
            self.block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))
            return
        cond = self.block.bind("holds", cond)
        with self.block.when(tirx.Not(cond)):
            self._abandon()
            self.block.add(S.AssertStmt(cond, StringImm(kind), [StringImm(message)]))

    def check_numbers(self, cond: Expr, text: Sequence[Expr | str], kind: str) -> None:
        """Like :meth:`check`; the message is ``text``, with the values of its expressions."""
        with self.block.when(tirx.Not(cond)):
            raise_text(self.block, kind, text)
            self.fail()

    def leave(self) -> None:
        """Emit an exit with the error in ``Reg.ERROR``."""
        code = self.block.bind("code", self.objects.regs[i64(Reg.ERROR)])
        self._abandon()
        self.block.eval(raised(code, self.host.null))

    def fail(self) -> None:
        """Emit an exit with the error that was raised; everything allocated is freed."""
        self._abandon()
        self.block.eval(failed(self.host.null))

    def _abandon(self) -> None:
        """Emit the release of everything that the call holds."""
        if self.regions.memory is self.memory:
            counted = i64(0) if self.host.counted is None else self.host.counted
            self.block.eval(call(LEAVE_CALL, self.host.state, self.regions.newest(), counted))
        else:
            if self.objects.heap is None:
                self.regions.give_back()
            else:
                self.objects.release_heap()
            self.host.count_call(-1)
        if self.host.graph:
            self.graph.leave()
        if self.tensors.allocated:
            self.tensors.abandon()

    # -- entry ---------------------------------------------------------------------------------

    def _read_arity(self) -> None:
        """Emit code that reads the number of arguments: the inputs, then all outputs or none, then
        optionally the address of a profile record.
        """
        inputs, outputs = len(self.tensors.program.inputs), len(self.tensors.program.outputs)
        block = self.block
        names = ", ".join(n for n, _, _ in self.tensors.program.signature.inputs)
        last = tirx.max(self.num_args - 1, i32(0))
        kind = block.alloc("kind", 1, "int32")
        block.store(kind, 0, i32(0))
        with block.when(self.num_args > inputs):
            block.store(kind, 0, O.tvm_struct_get(self.tensors.args, last, i32(ANY_TYPE), "int32"))
        profiled = block.bind("profiled", tirx.EQ(kind[i64(0)], i32(INTEGER)))
        tensors = block.bind("tensors", self.num_args - tirx.Cast("int32", profiled))
        self.tensors.into = block.bind("into", tirx.EQ(tensors, i32(inputs + max(1, outputs))))
        fits = tirx.Or(tirx.EQ(tensors, i32(inputs)), self.tensors.into)
        expected = "1 input" if inputs == 1 else f"{inputs} inputs"
        self.check(fits, f"expected {expected} ({names or 'none'})", "TypeError")
        self._find_profile(profiled, last)

    def _find_profile(self, profiled: Expr, last: Expr) -> None:
        address = self.block.alloc("profile", 1, "int64")
        self.block.store(address, 0, i64(0))
        with self.block.when(profiled):
            value = O.tvm_struct_get(self.tensors.args, last, i32(ANY_VALUE), "int64")
            self.block.store(address, 0, value)
        self.host.profile = self.block.bind("profile", address[i64(0)])

    def _read_inputs(self) -> None:
        """Check all inputs; bind their addresses and dims."""
        program, tensors = self.tensors.program, self.tensors
        if len(program.inputs) > FEW:
            from tvm_disc.codegen.host.inputs import read_inputs

            self.host.inputs, tensors.input_dims = read_inputs(self.block, tensors.args, program)
            return
        for position in range(len(program.inputs)):
            data, dims = tensors.read(position)
            self.host.inputs.append(self.block.bind(f"data{position}", data))
            tensors.input_dims.append(dims)

    def _checks(self, program: Program) -> list[tuple[Expr, str]]:
        """Bind the symbols of the input dims, and the symbols computed from them; return the
        conditions of a call with their error messages.
        """
        known: set[Any] = set()
        pending: list[tuple[Expr, Expr, str]] = []
        for (name, shape, _), dims in zip(
            program.signature.inputs, self.tensors.input_dims, strict=True
        ):
            for axis, (declared, actual) in enumerate(zip(shape, dims, strict=True)):
                if isinstance(declared, tirx.Var) and declared not in known:
                    known.add(declared)
                    self.block.define(declared, actual)
                else:
                    pending.append((declared, actual, f"input '{name}' axis {axis}"))
        checks: list[tuple[Expr, str]] = [
            (tirx.EQ(actual, i64(declared)), f"{where}: expected {plain_dim(declared)}")
            for declared, actual, where in pending
        ]
        for step in program.region.take_leading():
            if isinstance(step, Define):
                self.regions.instruction(step)
            else:
                checks.append((step.cond, step.message))
        return checks

    def _load_state(self) -> None:
        cell = static_cell(self.block, self.slot_gv)
        self.check(
            tirx.NE(cell[i64(0)], i64(0)),
            "the program is not initialised: load it with tvm_disc.load",
            "RuntimeError",
        )
        state = state_of(self.block, cell)
        self.host.state = state.data
        place = DEVICE_CONSTANTS if self.host.device else CONSTANTS
        if self.host.device:
            record = self.host.record = self.block.alloc("record", RECORD_WORDS, "int64")
            self.block.store(record, 0, tirx.reinterpret("int64", state.data))
            for word in range(1, RECORD_WORDS):
                self.block.store(record, word, i64(0))
            opened = self.block.alloc("opened", 1, "int64")
            self.block.eval(call(OPEN, state.data, opened.data))
            with self.block.when(tirx.NE(opened[i64(0)], i64(0))):
                self.fail()
        self.host.constants = self.block.bind("constants", as_pointer(state[i64(place)]))
