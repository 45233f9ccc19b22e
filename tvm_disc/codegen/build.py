"""Assembly of a program's functions and constant section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType
from tvm.tirx import op as O

from tvm_disc.abi.entries import BIND, DIRECT, ENTRY, GENERATE, POOL
from tvm_disc.abi.state import LIMIT, RESULT_LIMIT
from tvm_disc.codegen.host.abi import STATE_SLOT, static_cell, void_pointer
from tvm_disc.codegen.host.entry import HostEmitter
from tvm_disc.codegen.host.functions import object_functions, raise_function
from tvm_disc.codegen.host.graph import key_dims
from tvm_disc.codegen.host.memory import TRIM, memory_functions, new_state, state_of
from tvm_disc.codegen.host.numpy_entry import direct_entry, takes_numpy
from tvm_disc.codegen.host.outputs import FEW
from tvm_disc.codegen.host.overlap import FAIL, OVERLAP, fail_function, overlap_function
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.host.profile import account_functions, profile_functions
from tvm_disc.codegen.host.raising import DECIMAL, decimal_function
from tvm_disc.codegen.host.results import result_functions
from tvm_disc.codegen.known import making_of
from tvm_disc.codegen.machine_code import Compiling
from tvm_disc.codegen.objects.code import RAISE, Errors
from tvm_disc.codegen.plan.memory import plan_region
from tvm_disc.codegen.plan.program import Program
from tvm_disc.codegen.section import layout_constants, shared
from tvm_disc.codegen.threads.glue import SHARE, share_function
from tvm_disc.codegen.units import Emitted, shared_units, unit_of_kernel
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.kernel import Kernel, Machine
from tvm_disc.support.late import Late
from tvm_disc.tir.builder import Block, call, prim_func
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr, PrimFunc

if TYPE_CHECKING:
    from tvm_disc.codegen.cuda.graphs import Graphs
    from tvm_disc.codegen.cuda.image import Placed

SLOT = GlobalVar(STATE_SLOT)
compile_source = Late("tvm_disc.codegen.cuda.nvrtc:compile_source")
SMALL = 16  # maximum elements of a small tensor


def emit_tir(versions: Sequence[Program], machine: Machine) -> tuple[Emitted, np.ndarray]:
    """Return the TIR of a program and its constant section.

    Args:
        versions: the general version; or a special version followed by the general one.
    """
    [emitted], section = emit_levels([(versions, machine)])
    return emitted, section


def emit_levels(
    levels: Sequence[tuple[Sequence[Program], Machine]],
) -> tuple[list[Emitted], np.ndarray]:
    """Return the TIR for each machine, and one constant section that all share."""
    arrays, places = shared([p.constants for versions, _ in levels for p in versions])
    section, offsets = layout_constants(arrays)
    section, placed = with_device_code(section, [machine for _, machine in levels])
    found = iter([[offsets[place] for place in own] for own in places])
    emitted = [
        _emit(programs, machine, [next(found) for _ in programs], placed)
        for programs, machine in levels
    ]
    return emitted, section


def with_device_code(
    section: np.ndarray, machines: Sequence[Machine]
) -> tuple[np.ndarray, Placed | None]:
    """Return the constants and None; for a GPU program, the constants followed by the GPU code, and
    the location of that code.
    """
    machine = machines[0]
    if machine.device is None:
        return section, None
    assert len(machines) == 1
    from tvm_disc.codegen.cuda.image import with_images
    from tvm_disc.codegen.cuda.source import device_source

    source = device_source(machine.code, machine.device)
    images = compile_source(source, machine.device.architectures)
    return with_images(section, machine.code, images)


def _emit(
    versions: Sequence[Program],
    machine: Machine,
    own: Sequence[Sequence[int]],
    placed: Placed | None,
) -> Emitted:
    """Return the functions of a program; ``own`` has the offsets of each version's constants."""
    kernels: dict[str, Any] = {}  # keyed by name: versions share kernels
    known: dict[Any, Any] = {}
    inlined: dict[Any, Any] = {}
    for program in versions:
        for region in (program.region, *(f.region for f in program.functions)):
            plan_region(region)
        for kernel in program.kernels:
            if is_small(kernel):
                inlined.update(kernel.funcs)
            elif kernel.symbol is not None:
                known[kernel.entry] = (kernel.symbol, partial(getattr, kernel, "funcs"))
            else:
                kernels[kernel.name] = kernel.funcs
    entry = {**inlined, **_entry(versions, machine, own)}
    accounts: Mapping[Any, Any] = {}
    if machine.device is None:
        accounts = account_functions({k.name: k for p in versions for k in p.kernels}.values())
    support = _support(machine.threads)
    if placed is not None:
        from tvm_disc.codegen.cuda.driver import open_functions
        from tvm_disc.codegen.cuda.launch import launch_functions

        graphs = graphs_of(versions)
        opened = open_functions(placed, graphs is not None)
        most = max((len(f.func.params) for f in machine.code), default=1)
        support = {**support, **launch_functions(SLOT, graphs, most), **opened}
    shared_functions = machine.micro.functions
    return Emitted(entry, support, list(kernels.values()), shared_functions, accounts, known)


def graphs_of(versions: Sequence[Program]) -> Graphs | None:
    """Return the CUDA graph cache of a program, keyed by version and dims; None if it keeps no
    graphs.
    """
    from tvm_disc.codegen.cuda.graphs import Graphs

    most = max(program.graphs for program in versions)
    return Graphs(most, 1 + len(key_dims(versions[-1].signature))) if most else None


def is_small(kernel: Kernel) -> bool:
    """Return whether all operands and results of a kernel have static shapes of at most ``SMALL``
    elements.

    Examples are loop counters and conditions. Their calls would take longer than their work, so
    these kernels are inlined into the calling code.
    """
    nodes = (*kernel.params, *kernel.outputs)
    sizes = [static_dim(product(node.shape)) for node in nodes]
    return all(size is not None and size <= SMALL for size in sizes)


def begin_kernel(compiling: Compiling, machine: Machine, kernel: Kernel) -> None:
    """Start to compile a kernel while later kernels are scheduled.

    Does nothing if the kernel is small (it is inlined into the calling code) or its code is cached.
    """
    if is_small(kernel):
        return
    making = None if compiling.idle else making_of(kernel, machine)
    if making is not None:
        kernel.symbol = compiling.known(making)
    if kernel.symbol is None:
        unit = unit_of_kernel(kernel.funcs, machine.micro.functions)
        compiling.begin(unit)
        if making is not None and unit.alone and len(unit.outside) == 1:
            compiling.tell(making, unit)


def begin_shared(compiling: Compiling, machine: Machine) -> None:
    """Start to compile the functions that kernels share, after all kernels have been generated."""
    for unit in shared_units(machine.micro.functions):
        compiling.begin(unit)


@cache
def _support(threads: int) -> dict[GlobalVar, PrimFunc]:
    """Return the support functions, which are equal for all programs with this number of
    threads.
    """
    return {
        SLOT: _slot_function(),
        **memory_functions(),
        **result_functions(),
        **profile_functions(),
        DECIMAL: decimal_function(),
        SHARE: share_function(),
        GlobalVar(BIND): _bind(SLOT, threads),
        GlobalVar(POOL): _pool(SLOT),
    }


def _entry(
    versions: Sequence[Program], machine: Machine, own: Sequence[Sequence[int]]
) -> dict[GlobalVar, PrimFunc]:
    """Return the entry points of a program, and its functions on boxed values."""
    functions: dict[GlobalVar, PrimFunc] = {}
    own_threads = uses_workers(versions, machine)
    errors = Errors()
    names: dict[Any, Any] = {}
    main = GlobalVar(ENTRY)
    heaped = any(program.heaped for program in versions)
    if heaped:
        # Programs with functions on boxed values have only one version.
        names, made = object_functions(versions[-1], own[-1], errors)
        functions.update(made)
    served = list(zip(versions, own, strict=True))
    device = machine.device is not None
    functions[main] = HostEmitter(served, SLOT, names, errors, own_threads, device).function()
    if len(versions[-1].inputs) > FEW:
        from tvm_disc.codegen.host.inputs import input_functions

        for name, function in input_functions(versions[-1], device).items():
            functions[GlobalVar(name)] = function
    if heaped:
        functions[RAISE] = raise_function(errors)
    if versions[-1].outputs:
        names_of_inputs = [name for name, _, _ in versions[-1].signature.inputs]
        functions[FAIL] = fail_function()
        functions[OVERLAP] = overlap_function(names_of_inputs, len(versions[-1].outputs))
    if takes_numpy(versions[-1]) and not device:
        functions[GlobalVar(DIRECT)] = direct_entry(versions[-1], main)
    if not device and sum(t == "int64" for _, _, t in versions[-1].signature.inputs) >= 3:
        from tvm_disc.codegen.generation.entry import generate_entry, generates

        if generates(versions[-1]):
            functions[GlobalVar(GENERATE)] = generate_entry()
    return functions


def uses_workers(versions: Sequence[Program], machine: Machine) -> bool:
    """Return whether kernels of a program use the thread pool of the process."""
    return machine.own_threads and any(k.parallel for p in versions for k in p.kernels)


def _slot_function() -> PrimFunc:
    """Return a function that writes the address of the program's static variable to ``out``."""
    out = tirx.Var("out", PointerType(PrimType("int64"), "global"))
    block = Block()
    buffer = block.declare("cell", out, "int64")
    address = O.call_intrin(void_pointer(), "tirx.tvm_static_handle")
    block.store(buffer, 0, tirx.reinterpret("int64", block.bind("static", address)))
    return prim_func([out], block.stmt())


def _bind(slot: object, threads: int) -> PrimFunc:
    """Return the function ``(address of constants, address of thread pool or 0) -> None``, which
    creates the program's state if there is none, and stores the addresses in it. The caller keeps
    both objects alive.
    """

    def emit(block: Block, args: Arguments) -> None:
        constants, home = (block.bind(n, args.integer(k)) for k, n in enumerate(("at", "home")))
        new_state(block, slot, constants, home, threads)

    return packed(BIND, emit)


def _pool(slot: object) -> PrimFunc:
    """Return the function ``(limit, results) -> address of the state``, which frees all cached
    memory and sets new limits.

    The limits, in bytes, are those of workspaces and of results. A negative limit changes nothing
    and frees nothing.
    """

    def emit(block: Block, args: Arguments) -> Expr:
        limit, results = (block.bind("limit", args.integer(k)) for k in range(2))
        state = state_of(block, static_cell(block, slot))
        with block.when(limit >= 0):
            block.store(state, LIMIT, limit)
            block.store(state, RESULT_LIMIT, results)
            block.eval(call(TRIM, state.data))
        return tirx.reinterpret("int64", state.data)

    return packed(POOL, emit)
