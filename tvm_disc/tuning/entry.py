"""Compiles variants as separate packed functions, so that each can be timed.

The arguments of a function are (params..., outputs..., scratch, dims...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import GlobalVar

from tvm_disc.codegen.gauge import NAME, gauge_function
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import level_of, resolve_target, triple_of
from tvm_disc.codegen.threads.glue import USE_WORKERS, use_workers_function
from tvm_disc.codegen.threads.home import THREADS
from tvm_disc.codegen.threads.module import thread_functions
from tvm_disc.errors import WrongProcessor
from tvm_disc.schedules.dispatch.tree import Leaf
from tvm_disc.schedules.dispatch.variant import Choice, Variant
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.kernel import Kernel, build_kernel
from tvm_disc.shape import Solver
from tvm_disc.support.processor import best_of
from tvm_disc.tir.builder import Block, call
from tvm_disc.tuning.core_contention import Gauge
from tvm_disc.typing import Expr, PrimFunc, Target


@dataclass
class Bench:
    """The compiled variants of a group: ``module[names[k]]`` runs variant k.

    The module also contains the contention measurement for ``machine``'s cores.
    """

    group: Group
    variants: list[Variant]
    kernels: list[Kernel]
    names: list[str]
    machine: Machine
    target: Target
    module: Any = None

    def gauge(self, module: object, device: object) -> Gauge:
        """Return the contention measurement, in this process or on another machine."""
        return Gauge(module, device, self.machine.isa, self.machine.threads)


def build_bench(
    spaces: Sequence[tuple[Group, Sequence[Variant | Choice]]],
    solver: Solver,
    machine: Machine,
    target: Target,
    library: Path | None = None,
) -> list[Bench]:
    """Compile each variant, or choice of variants, of each group as a separate kernel.

    Functions that groups share, such as GEMM micro-kernels, are compiled once. If ``library`` is
    given, the code is stored there, and loaded from there if the file exists: the file name must
    identify its contents.
    """
    benches: list[Bench] = []
    functions: dict[GlobalVar, PrimFunc] = {}
    for number, (group, wanted) in enumerate(spaces):
        kernels, names = [], []
        choices = [c if isinstance(c, Choice) else _always(c) for c in wanted]
        for k, choice in enumerate(choices):
            named = replace(group, name=f"{group.name}_{number}_{k}")
            kernel = build_kernel(named, choice, solver, machine)
            kernels.append(kernel)
            names.append(f"g{number}_v{k}")
            functions.update(kernel.funcs)
            functions[GlobalVar(names[-1])] = _entry(kernel, names[-1])
        first = [c.variants[0] if isinstance(c, Choice) else c for c in wanted]
        benches.append(Bench(group, first, kernels, names, machine, target))
    functions.update(machine.micro.functions)
    if has_workers(machine):
        # The library includes the code of the worker threads, since another machine may load it
        # with only TVM's runtime.
        functions.update(thread_functions(triple_of(target.attrs)))
        functions[GlobalVar(USE_WORKERS)] = use_workers_function()
    functions[GlobalVar(NAME)] = gauge_function(machine.isa)
    if library is not None and library.is_file():
        module = tvm.runtime.load_module(str(library))
    else:
        module = compile_tir(tvm.IRModule(functions), target)
        if library is not None:
            library.parent.mkdir(parents=True, exist_ok=True)
            module.export_library(str(library))
    return [replace(b, module=module) for b in benches]


def has_workers(machine: Machine) -> bool:
    """Return whether variants run on this package's worker threads."""
    return machine.own_threads and machine.threads > 1


def use_workers(module: Any) -> None:
    """Make the parallel variants of a module run on the worker threads of its process."""
    module[USE_WORKERS](module[THREADS]())


def _always(variant: Variant) -> Choice:
    """Return a choice that always runs ``variant``; the caller has checked its conditions."""
    return Choice([replace(variant, plan=replace(variant.plan, needs=()))], Leaf(0))


def _entry(kernel: Kernel, name: str) -> PrimFunc:
    def emit(block: Block, arguments: Arguments) -> None:
        values: list[Expr] = []
        for node in (*kernel.params, *kernel.outputs):
            values.append(arguments.data(len(values), node.dtype))
        values.append(arguments.data(len(values), "float32"))
        for _ in kernel.symbols:
            values.append(arguments.integer(len(values)))
        values.append(tirx.max_value("int64"))  # no limit on the number of threads
        block.eval(call(kernel.entry, *values))

    return packed(name, emit)


def require_machine(target: Target, remote_cpu: str | None) -> None:
    """Check that the machines that measure can run code for ``target``.

    ``remote_cpu`` is LLVM's name of their processor; None means this machine.

    Raises:
        WrongProcessor: the processor lacks instruction sets that the code uses.
    """
    level = level_of(target)
    if remote_cpu is None:
        best_of([level])
        return
    own = {k: target.attrs[k] for k in ("mtriple",) if k in target.attrs}
    theirs = level_of(resolve_target({"kind": "llvm", "mcpu": remote_cpu, **own}))
    absent = [name for name in level.sets if name not in theirs.sets]
    if absent:
        raise WrongProcessor(
            f"the machines' processor, {remote_cpu}, lacks {', '.join(absent)} (for {level.name}); "
            f'tune with target="llvm -mcpu={remote_cpu}"'
        )
