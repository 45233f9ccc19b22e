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
from tvm_disc.codegen.device_target import refuse_on_device, split_target
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
    """Arguments of the graph passes that are not part of the module."""

    params: Mapping[str, Any]
    constraints: Sequence[str]
    options: Options
    premises: Sequence[str] = ()

    def propagate(self) -> Any:
        """Return a new pass `propagate`; its remaining guards are checked by the host program."""
        told: Any = {"params": self.params, "check_indices": self.options.check_indices}
        return PropagateShapeConstraints(
            self.constraints, portable=False, premises=self.premises, **told
        )


# Whether convolutions use the NHWC layout; benchmarks set this to False to compare.
CHANNELS_LAST = True

# Every graph pass in order, with the reason for its position. The names are part of the interface:
# `passes` of `build`, dumps, timings and errors use them.
PASSES: tuple[tuple[str, Callable[[Told], Any]], ...] = (
    # First: all others use the types and facts about dims that it infers. It alone reads Relay, and
    # it runs once more for the special version.
    ("propagate", lambda told: told.propagate()),
    # Before decomposition: a bfloat16 composite rounds only its result, its parts would each round.
    ("bfloat16", lambda told: WidenBFloat16()),
    # Before simplification and fusion, which know only core operators.
    ("decompose", lambda told: DecomposeComposite()),
    # After decomposition, which may produce casts and scales of weights. Before simplification,
    # which would fold int8 weights into float32 literals, four times as large.
    ("narrow-weights", lambda told: NarrowWeights()),
    # Before merging: products of equal operands must refer to one value.
    ("simplify", lambda told: Simplify()),
    # Before hoisting: the gates of a recurrent cell are then hoisted out of it as one product.
    ("merge", lambda told: MergeProducts()),
    ("hoist", lambda told: HoistProducts()),
    # After hoisting: products from several loops may now share their rows.
    ("merge-hoisted", lambda told: MergeProducts()),
    # After all passes that move convolutions or fold operators into them, as a connected region is
    # converted to NHWC as a whole. Before fusion, so that remaining permutations are fused.
    ("layout", lambda told: ChannelsLast(enabled=CHANNELS_LAST)),
    # Last: afterwards groups are closed functions, and buffers are allocated per group.
    ("fuse", lambda told: FuseDISC(enabled=told.options.fuse)),
)
STAGES = tuple(name for name, _ in PASSES)


# Active counters of `compile_counter`; each compilation increments the element of each list.
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
    """Compile a program with dynamic shapes into one native program.

    Args:
        source: a Relay module, function, text or JSON, or the path of one of these files; a Relax
            module; an ONNX model or its path; a ``torch.export.ExportedProgram``; or a
            ``torch.nn.Module`` with ``example_inputs``.
        params: values of inputs of ``main`` by name, which become constants; or a parameter file.
        target: a TVM CPU target; this machine by default. A program for a list of targets contains
            code for each; loading it selects the best that the processor supports.
        constraints: facts about input dims, such as ``"1 <= b <= 64"`` or ``"ids.1 == mask.1"``.
        options: see :class:`Options`.
        passes: user passes by position: ``{"after simplify": mine}``. A position is ``before`` or
            ``after`` and one of ``STAGES``; a pass, or a list of passes, maps a module to a module.
            Each runs once for every version of the program.
        example_inputs: inputs to export a ``torch.nn.Module`` with: a tuple, or a mapping by name.
        dynamic_shapes: their dynamic dims, in the format of ``torch.export.export``; by default all
            dims that the module does not require to be constant.

    Raises:
        BadInput: an argument is not valid; the message lists the accepted kinds.
        ParseError, TypeMismatch, ShapeConflict, Unsupported: with the place in the source.
        BuildTimeout: the build took longer than ``options.time_limit``.
        OutOfResources: memory, threads or disk space ran out. Exceptions of signal handlers are
            raised unchanged.
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
    """Return what :func:`build` returns, without time limit, progress line and signal handling."""
    trace = Trace(options.debug, options.dump_dir)
    device, target = split_target(target)
    options = options.placed(on_device=device is not None)
    targets = resolve_targets(target)
    if device is None and options.cuda_graphs:
        raise BadOption('cuda_graphs: expected target="cuda", found a CPU target')
    if device is not None and len(targets) > 1:
        raise Unsupported("target: a GPU program has one host, found a list of several")
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
        # otherwise LLVM would generate code during the first call
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
    """Return the program from the cache, or compile it and add it to the cache."""

    def emitted(number: int) -> Emitted:
        if name() != key:
            raise BadInput("source: the model's file has changed since the program was built")
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
    """Compile a fused graph to machine code; cache the program if ``key`` is not None."""
    with ExitStack() as begun:
        say = partial(trace.say, SUMMARY)
        # LLVM compiles the first kernels while later kernels are still being scheduled.
        compiling = [begun.enter_context(Compiling(t, store, say)) for t in targets]
        fronts = [
            with_kernels(graph, t, options, trace, device, c)
            for t, c in zip(targets, compiling, strict=True)
        ]
        # The memory plan requires all launches in their final order.
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
    """A program whose kernels are selected and which has no machine code yet."""

    # special version first, general version last
    programs: Sequence[Program]
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
    """Run the first half of :func:`build` for one target, up to the selected kernels."""
    device, host = split_target(target)
    options = options.placed(on_device=device is not None)
    resolved = resolve_target(host)
    graph = fused_graph(source, params, constraints, options, trace)
    return with_kernels(graph, resolved, options, trace, device)


@dataclass
class Fused:
    """A program after the graph passes, with fusion groups; nothing depends on the target."""

    # special version first, general version last
    versions: Sequence[Imported]
    refused: Sequence[Any]


def fused_graph(
    source: Source,
    params: Params,
    constraints: Sequence[str],
    options: Options,
    trace: Trace,
    passes: Mapping[str, Any] | None = None,
) -> Fused:
    """Run ``PASSES`` and the user's passes on each version of the program."""
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
    # Kernels dispatch between equal and broadcast dims: a special version must save a kernel call.
    if kernel_calls(fused[0].mod) >= kernel_calls(fused[-1].mod):
        fused, refused = fused[-1:], refused[-1:]
    return Fused(fused, refused[0])


def _params(params: Params) -> Mapping[str, Any]:
    """Return the parameters by input name, read from a file if a path is given."""
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
    """Select and generate the kernels of a program for a resolved host target and optionally a GPU.

    Args:
        compiling: compiles the kernels to host machine code concurrently.
    """
    machine = machine_of(target, options) if device is None else device_machine(device, options)
    if compiling is None or device is not None:
        compiling = Compiling(target, None)
    library = KernelLibrary(Solver, machine, {}, partial(begin_kernel, compiling, machine))
    library.expected = sum(map(_groups, graph.versions))
    with trace.stage("kernels"):
        # The special version first: kernels that both versions use are named after its groups.
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
    """Return the target properties that templates and the choice of variants depend on."""
    records = None
    mcpu = str(target.attrs.get("mcpu", ""))
    if options.records is not None:
        path = records_path(options.records)
        # Records that were measured on a remote machine carry its ``mcpu`` instead of a CPU name.
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
    """Return the GPU's properties for templates; the ISA is that of one GPU thread."""
    trees = {} if options.dispatch is None else read_trees(Path(options.dispatch))
    records = _device_records(device, options)
    isa = Isa(lanes_f32=1, registers=255, fma=True, device=True)
    templates = own_templates(options.templates)
    return Machine(
        isa, 1, records=records, trees=trees, templates=templates, device=device, tf32=options.tf32
    )


def _device_records(device: Device, options: Options) -> Records | None:
    """Return the records of one GPU that runs code for this device; None without a file."""
    if options.records is None:
        return None
    from tvm_disc.codegen.cuda.card import card_of_records

    path = records_path(options.records)
    return warned_records(path, card_context(card_of_records(path, device)))


def card_context(key: str) -> Context:
    """Return the context that records measured on a GPU must match; ``key`` identifies the GPU."""
    return Context(key, VERSION, template_hash())


def context_of(target: Any, cpu: str | None = None) -> Context:
    """Return the context that a record must match to be used by a build.

    A remote machine's ``cpu`` is LLVM's name of it: its records count for any build for that
    target.
    """
    mcpu = str(target.attrs.get("mcpu", ""))
    return Context(f"{cpu or cpu_name()}; {mcpu}", VERSION, template_hash())


def _hooked(trace: Trace, place: str, hooks: Hooks, mod: Any) -> Any:
    """Return a module after the user's passes for one position."""
    for run in hooks.get(place, ()):
        with trace.stage(place):
            mod = run_hook(place, run, mod)
            handled()
            trace.show(f"{place.replace(' ', '_')}.relax.py", mod)
    return mod


def _report(trace: Trace, name: str, mod: Any, options: Options) -> None:
    """Dump the module after a pass and print its size; check it if ``verify`` is set."""
    trace.show(f"{name}.relax.py", mod)
    trace.say(SUMMARY, lambda: f"{name}: {_count_bindings(mod)} bindings")
    if options.verify:
        relax.analysis.well_formed(mod, check_ty=False)


def _count_bindings(mod: Any) -> int:
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return sum(len(block.bindings) for f in functions for block in f.body.blocks)


def kernel_calls(mod: Any) -> int:
    """Return the number of kernel calls in a fused module, counting loop bodies once."""
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
    """Return TVM's configured number of pool threads, or the number of cores of this process."""
    return threads_of_pool() or cores()


def read(source: Source) -> Any:
    """Return an accepted source as a Relay module, or as a Relax module for other front ends."""
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
    if isinstance(source, str) and source.lstrip().startswith("{"):
        from tvm_disc.relay.json.reader import load_json

        return as_module(load_json(source))
    if isinstance(source, str):
        return parse(source)
    raise TypeMismatch(
        "source: expected a Relay module, function, text, JSON or file, a Relax module, an ONNX "
        f"model or file, or a torch.export.ExportedProgram, found {type(source).__name__}"
    )


def import_versions(
    module: Any, params: Mapping[str, np.ndarray] | None, constraints: Sequence[str], several: bool
) -> list[Imported]:
    """Return the versions of a Relax module, the general one last.

    If ``several`` is set and the program is simpler when certain input dims are equal, a special
    version for that case comes first.
    """
    return _versions(module, Told(params or {}, constraints, Options(versions=several)))


def _versions(module: Any, told: Told) -> list[Imported]:
    def read(premises: Sequence[str]) -> Imported:
        propagate = PASSES[0][1](replace(told, premises=premises))
        mod = propagate.transform_module(module, None)
        return Imported(mod, propagate.solver, external=propagate.external)

    general = read(())
    # Boxed values hide the dims that a special version would be selected by.
    several = told.options.versions and not uses_boxes(general.mod)
    special = special_version(read, general) if several else None
    if special is None:
        return [general]
    return [replace(special[0], premises=special[1]), general]


def describe_levels(fronts: Sequence[Prepared]) -> dict[str, Any]:
    """Return the manifest: that of the last target, and for each target the entries that differ."""
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
    """Yield a list with one element: the number of compilations since the block was entered."""
    count = [0]
    _counters.append(count)
    try:
        yield count
    finally:
        _counters[:] = [c for c in _counters if c is not count]


__all__ = ["PASSES", "STAGES", "build", "compile_counter", "prepare"]
