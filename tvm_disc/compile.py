"""``build``: the compiler, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_disc.build_key import build_key
from tvm_disc.codegen.build import begin_kernel, begin_shared, emit_levels, uses_workers
from tvm_disc.codegen.cuda.card import card_of_records
from tvm_disc.codegen.cuda.target import refuse_on_device, split_target
from tvm_disc.codegen.export import export
from tvm_disc.codegen.kept import Keeping, Kept, kept
from tvm_disc.codegen.machine_code import Compiling, compile_program
from tvm_disc.codegen.manifest import describe
from tvm_disc.codegen.plan.capture import keep_graphs
from tvm_disc.codegen.plan.kernels import KernelLibrary
from tvm_disc.codegen.plan.lower import lower_program
from tvm_disc.codegen.plan.program import Program
from tvm_disc.codegen.plan.tail_recursion import program_launches
from tvm_disc.codegen.target import (
    has_threads,
    level_of,
    resolve_target,
    resolve_targets,
    runs_here,
    triple_of,
)
from tvm_disc.codegen.threads.module import home_of_process
from tvm_disc.codegen.units import Emitted
from tvm_disc.deadline import entered, within
from tvm_disc.debug import CODE, FACTS, SUMMARY, Trace
from tvm_disc.errors import BadInput, BadOption, TypeMismatch, Unsupported
from tvm_disc.faults import machine_faults
from tvm_disc.frontends import exported, read_model
from tvm_disc.handlers import handled, with_handlers
from tvm_disc.options import Options, threads_of_pool
from tvm_disc.processor import cores
from tvm_disc.progress import shown
from tvm_disc.relay import expr as ast
from tvm_disc.relay.files import as_module, is_file_name, load_file, load_params
from tvm_disc.relay.importer.inputs import check_params
from tvm_disc.relay.importer.module import Imported
from tvm_disc.relay.json.reader import load_json
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.object_ops import uses_boxes
from tvm_disc.relay.text.parser import parse
from tvm_disc.relay_passes import (
    ChannelsLast,
    DecomposeComposite,
    FuseDISC,
    HoistProducts,
    MergeProducts,
    NarrowWeights,
    PropagateShapeConstraints,
    Simplify,
    WidenBFloat16,
)
from tvm_disc.relay_passes.hooks import Hooks, read_hooks, run_hook
from tvm_disc.runtime.code import Code, number_of
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.dispatch.records import (
    Context,
    Records,
    cpu_name,
    records_path,
    warned_records,
)
from tvm_disc.schedules.dispatch.shipped import memory_for, model_for
from tvm_disc.schedules.dispatch.signature import template_hash
from tvm_disc.schedules.dispatch.tree import read_trees
from tvm_disc.schedules.kernel import Machine
from tvm_disc.schedules.select import own_templates
from tvm_disc.shape import Solver, special_version
from tvm_disc.shape.constraints import check_constraints
from tvm_disc.store import Store, store_of
from tvm_disc.target.device import Device
from tvm_disc.target.isa import Isa
from tvm_disc.target.processor import processor_of

Source: TypeAlias = Any
Params: TypeAlias = Mapping[str, np.ndarray] | str | os.PathLike[str] | None
VERSION = "0.1.0"


@dataclass(frozen=True)
class Told:
    """What the passes over the graph are told from outside of the module."""

    params: Mapping[str, Any]
    constraints: Sequence[str]
    options: Options
    premises: Sequence[str] = ()

    def propagate(self) -> Any:
        """The first pass; guards are left for the host program."""
        told: Any = {"params": self.params, "check_indices": self.options.check_indices}
        return PropagateShapeConstraints(
            self.constraints, portable=False, premises=self.premises, **told
        )


# Whether images lie channels last between convolutions; comparisons switch it off.
CHANNELS_LAST = True

# Every pass over the graph, in order, and what stands between it and another place. The names are
# for users: their own passes go before or after one, and dumps, timings and errors speak of them.
PASSES: tuple[tuple[str, Callable[[Told], Any]], ...] = (
    # First: all others ask for the shape of every value, and for facts about dims. It alone takes
    # Relay, and runs once more for every special version.
    ("propagate", lambda told: told.propagate()),
    # Before composite operators come apart: of bfloat16 they are to round their result alone.
    ("bfloat16", lambda told: WidenBFloat16()),
    # Before simplification and fusion, which know core operators only.
    ("decompose", lambda told: DecomposeComposite()),
    # After that, for it too may leave casts and scales; before simplification, which would fold
    # weights of a byte as literals of four.
    ("narrow-weights", lambda told: NarrowWeights()),
    # Before merging: operands that are computed twice become one value.
    ("simplify", lambda told: Simplify()),
    # Before hoisting: the gates of a recurrent cell leave their loop as one product.
    ("merge", lambda told: MergeProducts()),
    ("hoist", lambda told: HoistProducts()),
    # Products that left several loops over the same rows share them now.
    ("merge-hoisted", lambda told: MergeProducts()),
    # After all that moves convolutions, or folds what follows them, for an island of images is
    # converted as a whole; before fusion, so that what is left of permutations joins a kernel.
    ("layout", lambda told: ChannelsLast(enabled=CHANNELS_LAST)),
    # Last: no buffer exists before it, and groups are closed functions after it.
    ("fuse", lambda told: FuseDISC(enabled=told.options.fuse)),
)
STAGES = tuple(name for name, _ in PASSES)


# Lists whose element every compilation of this process increments.
_counters: list[list[int]] = []


def build(
    source: Source,
    *,
    params: Params = None,
    target: Any = None,
    constraints: Sequence[str] = (),
    options: Options | None = None,
    passes: Mapping[str, Any] | None = None,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
) -> Executable:
    """Compile a program of unknown shape into one native program.

    Args:
        source: a Relay module, function, text or JSON, or the path of such a file; a Relax module;
            an ONNX model or its path; a ``torch.export.ExportedProgram``, or a ``torch.nn.Module``
            with ``example_inputs``.
        params: inputs of ``main``, by name, that become constants; or the path of a parameter file.
        target: a TVM CPU target; this machine by default. Several, as a list, make one program
            for all of them, which runs the best that the processor has where it is loaded.
        constraints: facts about input dims, such as ``"1 <= b <= 64"`` or ``"ids.1 == mask.1"``.
        options: see :class:`Options`.
        passes: passes of your own, by their places: ``{"after simplify": mine}``. A place is
            ``before`` or ``after`` and one of ``STAGES``; a pass, or a list of them, takes a
            module and gives one. Each runs once for every version of the program.
        example_inputs: of a ``torch.nn.Module``, what to export it with: a tuple of inputs, or a
            mapping of them by name.
        dynamic_shapes: which of their dims may change, as ``torch.export.export`` takes it; by
            default all that the module does not fix.

    Raises:
        BadInput: an argument that is none; the message lists what is accepted.
        ParseError, TypeMismatch, ShapeConflict, Unsupported: with the place in the source.
        BuildTimeout: it took longer than ``options.time_limit``.
        OutOfResources: no memory, threads or disk is left; what signal handlers raise, as it is.
    """
    options = Options.from_env(options)

    def work() -> Executable:
        given = source
        if example_inputs is not None or dynamic_shapes is not None:
            given = exported(source, example_inputs, dynamic_shapes)
        run = partial(_build, given, params, target, constraints, options, passes)
        if options.time_limit is None:
            return run()
        context = tvm.transform.PassContext.current()

        def inside() -> Executable:
            with context:
                return run()

        return within(options.time_limit, inside)

    with shown(options):
        return with_handlers(machine_faults()(work))


def _build(
    source: Source,
    params: Params,
    target: Any,
    constraints: Sequence[str],
    options: Options,
    passes: Mapping[str, Any] | None,
) -> Executable:
    """:func:`build`, however long it takes."""
    trace = Trace(options.debug, options.dump_dir)
    device, target = split_target(target)
    options = options.placed(on_device=device is not None)
    targets = resolve_targets(target)
    if device is None and options.cuda_graphs:
        raise BadOption('cuda_graphs: expected target="cuda", found a program for a processor')
    if device is not None and len(targets) > 1:
        raise Unsupported("target: a program for a GPU has one host, found a list of several")
    number = number_of([level_of(t) for t in targets], options.level)
    store = store_of(options)

    def compiled(key: str | None) -> Kept:
        graph = fused_graph(source, params, constraints, options, trace, passes)
        return _compiled(graph, targets, device, options, store, key, trace)

    def name() -> str | None:
        told = (CHANNELS_LAST, options.threads or default_threads(), device)
        return build_key(source, params, targets, constraints, options, passes, told)

    program = compiled(None) if store is None else _found_or(compiled, store, name, targets, trace)
    home = partial(home_of_process, store) if program.manifest["threads"] else int
    code = Code(program.levels, program.manifest, options.level, saved=False)
    exe = Executable(code, program.constants, home=home, export=partial(export, store=store))
    if options.load and runs_here(targets[number]):
        # LLVM generates code when it is first asked for; a first call should not wait for it.
        with trace.stage("load"):
            exe.ready()
    exe.timings = dict(trace.finish())
    return exe


def _found_or(
    compiled: Callable[[str | None], Kept],
    store: Store,
    name: Callable[[], str | None],
    targets: Sequence[Any],
    trace: Trace,
) -> Kept:
    """A program that was kept under the name of this build; else the compiled one, kept."""

    def emitted(number: int) -> Emitted:
        if name() != key:
            raise BadInput("source: the program's file is no longer what it was built from")
        return compiled(None).levels[number].emitted()

    with trace.stage("find"):
        key = name()
        found = None if key is None else kept(store, key, targets, emitted)
    return compiled(key) if found is None else found


def _compiled(
    graph: Fused,
    targets: Sequence[Any],
    device: Device | None,
    options: Options,
    store: Store | None,
    key: str | None,
    trace: Trace,
) -> Kept:
    """The program of a graph, kept under the name of its build if that has one."""
    with ExitStack() as begun:
        say = partial(trace.say, SUMMARY)
        # LLVM is at the first kernels while the last ones are made.
        compiling = [begun.enter_context(Compiling(t, store, say)) for t in targets]
        fronts = [
            with_kernels(graph, t, options, trace, device, c)
            for t, c in zip(targets, compiling, strict=True)
        ]
        # The memory plan needs every launch in its final order.
        with trace.stage("host program"):
            emitted, constants = emit_levels([(f.programs, f.machine) for f in fronts])
            trace.say(SUMMARY, f"constants: {constants.nbytes} bytes")
            for program in emitted:
                trace.show("program.tir.py", program)
        keeping = begun.enter_context(Keeping(store, key, constants))
        with trace.stage("machine code"):
            levels = [
                compile_program(e, f.target, store, c)
                for e, f, c in zip(emitted, fronts, compiling, strict=True)
            ]
        trace.say(CODE, lambda: "\n".join(level.source("ll") for level in levels))
        for count in _counters:
            count[0] += 1
        entered("description")
        manifest = describe_levels(fronts)
        with trace.stage("keep"):
            keeping.finish(levels, manifest)
    return Kept(levels, manifest, constants)


@dataclass
class Prepared:
    """A program whose kernels are chosen, before it becomes machine code."""

    programs: Sequence[Program]  # the special version first, the general one last
    versions: Sequence[Imported]
    library: KernelLibrary
    machine: Machine
    target: Any
    refused: Sequence[Any]


def prepare(
    source: Source,
    params: Params,
    target: Any,
    constraints: Sequence[str],
    options: Options,
    trace: Trace,
) -> Prepared:
    """The first half of :func:`build` for one target: from the source to a program of kernels."""
    device, host = split_target(target)
    options = options.placed(on_device=device is not None)
    resolved = resolve_target(host)
    graph = fused_graph(source, params, constraints, options, trace)
    return with_kernels(graph, resolved, options, trace, device)


@dataclass
class Fused:
    """A program whose groups are planned, before anything of a target is known."""

    versions: Sequence[Imported]  # the special version first, the general one last
    refused: Sequence[Any]


def fused_graph(
    source: Source,
    params: Params,
    constraints: Sequence[str],
    options: Options,
    trace: Trace,
    passes: Mapping[str, Any] | None = None,
) -> Fused:
    """``PASSES`` over the graph, for each version of the program."""
    told = Told(_params(params), check_constraints(constraints), options)
    hooks = read_hooks({} if passes is None else passes, STAGES)
    with trace.stage("read"):
        module = read(source)
    (first, _), *others = PASSES
    module = _hooked(trace, f"before {first}", hooks, module)
    with trace.stage(first):
        versions = _versions(module, told)
        for version in versions:
            _report(trace, first, version.mod, options)
            trace.say(FACTS, version.solver.describe)
    fused, refused = [], []
    for version in versions:
        mod = _hooked(trace, f"after {first}", hooks, version.mod)
        reasons: list[Any] = []
        for name, make in others:
            mod = _hooked(trace, f"before {name}", hooks, mod)
            with trace.stage(name):
                run = make(told)
                mod = run(mod)
                _report(trace, name, mod, options)
            reasons += getattr(run, "refused", ())
            mod = _hooked(trace, f"after {name}", hooks, mod)
        fused.append(replace(version, mod=mod))
        refused.append(reasons)
    # Kernels choose between equal and broadcast dims themselves: a version must save a kernel.
    if kernel_calls(fused[0].mod) >= kernel_calls(fused[-1].mod):
        fused, refused = fused[-1:], refused[-1:]
    return Fused(fused, refused[0])


def _params(params: Params) -> Mapping[str, Any]:
    """The values of inputs by name."""
    named = load_params(params) if isinstance(params, str | os.PathLike) else params
    return check_params(named or {})


def with_kernels(
    graph: Fused,
    target: Any,
    options: Options,
    trace: Trace,
    device: Device | None = None,
    compiling: Compiling | None = None,
) -> Prepared:
    """The kernels of a program for a resolved target, and perhaps a device beside it.

    Args:
        compiling: where machine code for the processor is made meanwhile.
    """
    machine = machine_of(target, options) if device is None else device_machine(device, options)
    if compiling is None or device is not None:
        compiling = Compiling(target, None)
    library = KernelLibrary(Solver, machine, {}, partial(begin_kernel, compiling, machine))
    library.expected = sum(map(_groups, graph.versions))
    with trace.stage("kernels"):
        # The special version first: the kernels that both need get its names.
        programs = [lower_program(v.mod, v.solver, library) for v in graph.versions]
        begin_shared(compiling, machine)
        for program in programs:
            program.verify = options.verify
            if device is not None:
                program.on_device = True
                refuse_on_device(program)
                if options.cuda_graphs:
                    keep_graphs(program, options.cuda_graphs)
        trace.say(
            SUMMARY,
            f"kernels: {len(library.kernels())}, calls in the program: "
            f"{len(program_launches(programs[0]))}",
        )
    return Prepared(programs, graph.versions, library, machine, target, graph.refused)


def machine_of(target: Any, options: Options) -> Machine:
    """What templates and the choice among their variants need to know of a target."""
    records = None
    mcpu = str(target.attrs.get("mcpu", ""))
    if options.records is not None:
        path = records_path(options.records)
        # A remote machine of the target names itself by its ``mcpu``.
        records = warned_records(path, context_of(target), context_of(target, mcpu))
    trees = {} if options.dispatch is None else read_trees(Path(options.dispatch))
    threads = options.threads or default_threads()
    processor = processor_of(target, here=runs_here(target))
    return Machine(
        processor.isa,
        threads,
        model_for(processor),
        records=records,
        trees=trees,
        own_threads=has_threads(target),
        memory=memory_for(processor),
        templates=own_templates(options.templates),
        winograd=options.winograd,
    )


def device_machine(device: Device, options: Options) -> Machine:
    """What templates for a device need to know of it: code is for one thread of many."""
    trees = {} if options.dispatch is None else read_trees(Path(options.dispatch))
    records = _device_records(device, options)
    isa = Isa(lanes_f32=1, registers=255, fma=True, device=True)
    templates = own_templates(options.templates)
    return Machine(
        isa, 1, records=records, trees=trees, templates=templates, device=device, tf32=options.tf32
    )


def _device_records(device: Device, options: Options) -> Records | None:
    """The times of one GPU that runs code for the device."""
    if options.records is None:
        return None
    path = records_path(options.records)
    return warned_records(path, card_context(card_of_records(path, device)))


def card_context(key: str) -> Context:
    """What a time that was measured on a GPU holds for."""
    return Context(key, VERSION, template_hash())


def context_of(target: Any, cpu: str | None = None) -> Context:
    """What a measured time must agree on with a build to count for it.

    A remote machine's ``cpu`` is what LLVM calls it, so that its times count for any build for
    that target.
    """
    mcpu = str(target.attrs.get("mcpu", ""))
    return Context(f"{cpu or cpu_name()}; {mcpu}", VERSION, template_hash())


def _hooked(trace: Trace, place: str, hooks: Hooks, mod: Any) -> Any:
    """A module after the user's own passes of one place."""
    for run in hooks.get(place, ()):
        with trace.stage(place):
            mod = run_hook(place, run, mod)
            handled()
            trace.show(f"{place.replace(' ', '_')}.relax.py", mod)
    return mod


def _report(trace: Trace, name: str, mod: Any, options: Options) -> None:
    """What every graph stage leaves behind: a line, a dump, and on request a check."""
    trace.show(f"{name}.relax.py", mod)
    trace.say(SUMMARY, lambda: f"{name}: {_count_bindings(mod)} bindings")
    if options.verify:
        relax.analysis.well_formed(mod, check_ty=False)


def _count_bindings(mod: Any) -> int:
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return sum(len(block.bindings) for f in functions for block in f.body.blocks)


def kernel_calls(mod: Any) -> int:
    """How many groups the functions of a fused module call, each call once."""
    functions = dict(mod.functions_items())
    plain = [f for f in functions.values() if isinstance(f, relax.Function) and not _kernel(f)]
    calls = [b.value for f in plain for block in f.body.blocks for b in block.bindings]
    called = [functions.get(getattr(c, "op", None)) for c in calls]
    return sum(f is not None and _kernel(f) for f in called)


def _groups(version: Imported) -> int:
    return sum(_kernel(f) for _, f in version.mod.functions_items())


def _kernel(func: Any) -> bool:
    return func.attrs is not None and "disc.kind" in func.attrs


def default_threads() -> int:
    """As many threads as this process has cores, or as TVM's pool is told to have."""
    return threads_of_pool() or cores()


def read(source: Source) -> Any:
    """Any accepted source as a Relay module or, from other frameworks, a Relax module."""
    if isinstance(source, IRModule):
        return source
    if isinstance(source, ast.Function):
        return IRModule.from_expr(source)
    if isinstance(source, ast.Expr):
        return IRModule.from_expr(source)
    model = read_model(source)
    if model is not None:
        return model
    if is_file_name(source):
        return load_file(source)
    if isinstance(source, str):
        return as_module(load_json(source)) if source.lstrip().startswith("{") else parse(source)
    raise TypeMismatch(
        "source: expected a Relay module, function, text, JSON or file, a Relax module, an ONNX "
        f"model or file, or a torch.export.ExportedProgram, found {type(source).__name__}"
    )


def import_versions(
    module: Any, params: Mapping[str, np.ndarray] | None, constraints: Sequence[str], several: bool
) -> list[Imported]:
    """The Relax module and its symbols, under the user's constraints.

    Where dims of inputs that need not agree would make it simpler if they did: the program for
    that case, then the one for every case.
    """
    return _versions(module, Told(params or {}, constraints, Options(versions=several)))


def _versions(module: Any, told: Told) -> list[Imported]:
    def read(premises: Sequence[str]) -> Imported:
        propagate = PASSES[0][1](replace(told, premises=premises))
        mod = propagate.transform_module(module, None)
        return Imported(mod, propagate.solver, external=propagate.external)

    general = read(())
    # Boxed values hide the dims that a special version would be chosen by.
    several = told.options.versions and not uses_boxes(general.mod)
    special = special_version(read, general) if several else None
    if special is None:
        return [general]
    return [replace(special[0], premises=special[1]), general]


def describe_levels(fronts: Sequence[Prepared]) -> dict[str, Any]:
    """What the program for the last target tells, and of each target what differs from it."""
    found = [describe(f.programs, f.versions, f.library, f.refused) for f in fronts]
    common = found[-1]
    levels = [
        {**level_of(f.target)._asdict(), **{k: v for k, v in own.items() if v != common[k]}}
        for f, own in zip(fronts, found, strict=True)
    ]
    own_threads = any(uses_workers(f.programs, f.machine) for f in fronts)
    threads = triple_of(fronts[-1].target.attrs) if own_threads else ""
    return {**common, "levels": levels, "threads": threads}


@contextmanager
def compile_counter() -> Iterator[list[int]]:
    """Yield a list whose one element counts the compilations since the block began."""
    count = [0]
    _counters.append(count)
    try:
        yield count
    finally:
        _counters[:] = [c for c in _counters if c is not count]


__all__ = ["PASSES", "STAGES", "build", "compile_counter", "prepare"]
