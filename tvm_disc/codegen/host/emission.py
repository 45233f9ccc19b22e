"""State of one host function that is being emitted, shared by all emitters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from tvm import tirx

from tvm_disc.abi.state import HOME
from tvm_disc.codegen.host.abi import as_pointer
from tvm_disc.codegen.host.device import EVENT_WORDS, EVENTS_BEGIN, EVENTS_END, TAKEN, WAIT
from tvm_disc.codegen.host.memory import GIVE, TAKE
from tvm_disc.codegen.host.profile import NOW, RECORD, account_name, launch_work
from tvm_disc.codegen.plan.program import Launch
from tvm_disc.codegen.threads.glue import count_call
from tvm_disc.errors import Unsupported
from tvm_disc.tir.builder import Block, call, i64
from tvm_disc.typing import UNSET, Buffer, Expr


class Exits(Protocol):
    """Interface that emits the early exits of a host function."""

    def check(self, cond: Expr, message: str, kind: str = "ValueError") -> None:
        """Emit an error exit if ``cond`` is false; everything allocated is freed."""

    def check_numbers(self, cond: Expr, text: Sequence[Expr | str], kind: str) -> None:
        """Like :meth:`check`; the message is ``text``, with the values of its expressions."""

    def leave(self) -> None:
        """Emit an exit with the error in ``Reg.ERROR``."""


class EntryExits(Exits, Protocol):
    """Interface that emits the early exits of the entry function."""

    def fail(self) -> None:
        """Emit an exit with an error that was already raised; everything allocated is freed."""


class Allocator(Protocol):
    """Interface that emits allocations of run-time size."""

    def alloc(self, size_bytes: Expr) -> Expr:
        """Emit an allocation of ``size_bytes``; return the pointer."""

    def free(self, pointer: Expr) -> None:
        """Emit the release of an allocation."""


def _nowhere() -> None:
    raise Unsupported("functions on algebraic data types or closures do not run on a GPU")


class Emission:
    """The block of a host function, and values that all emitters use.

    Attributes:
        offsets: byte offsets of the constants from the address ``constants``.
        kernel_numbers: numbers of the kernels in records of timed calls, by name.
        inputs: addresses of the inputs' elements.
        outputs: addresses of the outputs that are allocated so far, by position.
        null: pointer passed to kernels that need no scratch memory.
        state: the program's state.
        own_threads: whether kernels run on the thread pool that all programs share.
        counted: expression for the address of the thread pool if the call is counted as one of its
            users, else 0; None in code that runs while the call is not counted.
        profile: address of the record of a timed call, or 0.
        device: whether tensors and kernels are on a GPU.
        record: for GPU calls, the record of the call (``host/device.py``), which launches receive.
        graph: whether the call has a CUDA graph that is not launched yet.
        fail: emits an exit with the error that was raised; the exit frees all allocations.
    """

    def __init__(self, offsets: Sequence[int], kernel_numbers: Mapping[str, int]) -> None:
        self.block = Block()
        self.offsets, self.kernel_numbers = offsets, kernel_numbers
        self.inputs: list[Expr] = []
        self.outputs: dict[int, Expr] = {}
        self.constants: Expr = UNSET
        self.null: Expr = UNSET
        self.state: Expr = UNSET
        self.own_threads = False
        self.counted: Expr | None = None
        self.profile: Expr = UNSET
        self.device = False
        self.record: Any = None
        self.graph = False
        self.fail: Callable[[], None] = _nowhere

    def count_call(self, change: int) -> None:
        """Emit a change of the number of active calls, if this call is counted."""
        if self.counted is not None:
            count_call(self.block, self.counted, change)

    def home(self) -> Expr:
        """Return the address of the thread pool."""
        words = self.block.declare("words", self.state, "int64")
        return self.block.bind("home", words[i64(HOME)])

    @contextmanager
    def timed(self, number: Expr, launch: Launch | None = None) -> Iterator[None]:
        """Emit timers around the code emitted inside; they run only in timed calls."""
        start = self.block.alloc("start", 1, "int64")
        by_events = self.device and launch is not None
        events = self.block.alloc("events", EVENT_WORDS, "int64") if by_events else None
        asked = tirx.NE(self.profile, i64(0))
        with self.block.when(asked):
            self.block.eval(call(NOW, start.data))
            if events is not None:
                self.block.eval(call(EVENTS_BEGIN, self.state, events.data))
                self.block.store(self.record, TAKEN, i64(0))
        yield
        with self.block.when(asked):
            if launch is not None and events is None:
                name = account_name(launch.kernel.name)
                times = self.profile, number, start[i64(0)]
                self.block.eval(call(name, *times, *launch.symbols))
            else:
                self._record_event(number, launch, start, events)

    def _record_event(
        self, number: Expr, launch: Launch | None, start: Buffer, events: Buffer | None
    ) -> None:
        """Emit the record of a whole call, or of a launch on a GPU."""
        end = self.block.alloc("end", 1, "int64")
        if events is not None:
            self.block.eval(call(EVENTS_END, self.state, events.data, start.data, end.data))
        else:
            if self.device:
                self.block.eval(call(WAIT, self.state))
            self.block.eval(call(NOW, end.data))
        variant, size, flops = [i64(0)] * 3 if launch is None else launch_work(self.block, launch)
        if launch is not None and launch.kernel.library is not None:
            taken = tirx.NE(self.record[i64(TAKEN)], i64(0))
            last = i64(len(launch.kernel.names) - 1)
            variant = tirx.Select(taken, last, variant)
        times = start[i64(0)], end[i64(0)]
        self.block.eval(call(RECORD, self.profile, number, variant, *times, size, flops))


class KeptMemory:
    """Allocator of blocks that the program caches between calls."""

    def __init__(self, host: Emission, exits: Exits) -> None:
        self.host, self.exits, self.block = host, exits, host.block

    def alloc(self, size_bytes: Expr) -> Expr:
        """Emit an allocation of ``size_bytes``; return the pointer."""
        found = self.block.alloc("found", 1, "int64")
        self.block.eval(call(TAKE, self.host.state, i64(size_bytes), found.data))
        self.exits.check(tirx.NE(found[i64(0)], i64(0)), "out of memory", "MemoryError")
        return self.block.bind("ws", as_pointer(found[i64(0)]))

    def free(self, pointer: Expr) -> None:
        """Emit the release of a block."""
        self.block.eval(call(GIVE, self.host.state, tirx.reinterpret("int64", pointer)))
