"""``build``: the compiler, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_disc.codegen.build import begin_kernel, begin_shared, emit_levels, uses_workers
from tvm_disc.codegen.build_key import build_key
from tvm_disc.codegen.device_target import refuse_on_device, split_target
from tvm_disc.codegen.kept import (
    Keeping,
    Kept,
    compile_counter,
    count_compilation,
    through_cache,
)
from tvm_disc.codegen.machine import VERSION, default_threads, device_machine, machine_of
from tvm_disc.codegen.machine_code import Compiling, compile_program
from tvm_disc.codegen.manifest import describe
from tvm_disc.codegen.plan.capture import keep_graphs
from tvm_disc.codegen.plan.kernels import KernelLibrary
from tvm_disc.codegen.plan.lower import lower_program
from tvm_disc.codegen.plan.program import Program
from tvm_disc.codegen.plan.tail_recursion import program_launches
from tvm_disc.codegen.section import release
from tvm_disc.codegen.target import (
    level_of,
    resolve_target,
    resolve_targets,
    runs_here,
    triple_of,
)
from tvm_disc.codegen.threads.module import home_of_process
from tvm_disc.errors import BadOption, Unsupported
from tvm_disc.frontends import exported
from tvm_disc.frontends.sources import Source, model_name, read
from tvm_disc.options import Options
from tvm_disc.relay.files import load_params
from tvm_disc.relay.importer.inputs import check_params
from tvm_disc.relay.importer.module import ImportedModule
from tvm_disc.relay_passes.bfloat16 import WidenBFloat16
from tvm_disc.relay_passes.decompose import DecomposeComposite
from tvm_disc.relay_passes.dot_merge import MergeProducts
from tvm_disc.relay_passes.fuse import FuseDISC
from tvm_disc.relay_passes.hooks import Hooks, read_hooks, run_hook
from tvm_disc.relay_passes.integer_products import IntegerProducts
from tvm_disc.relay_passes.narrow_weights import NarrowWeights
from tvm_disc.relay_passes.rewrite import bindings_of, is_call
from tvm_disc.relay_passes.simplify import Simplify
from tvm_disc.relay_passes.versions import Told, groups, kernel_calls, versions_of
from tvm_disc.runtime.code import Code, number_of
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.kernel import Machine
from tvm_disc.shape import Solver
from tvm_disc.shape.constraints import check_constraints
from tvm_disc.support.deadline import entered, within
from tvm_disc.support.debug import CODE, FACTS, SUMMARY, Trace
from tvm_disc.support.faults import machine_faults
from tvm_disc.support.handlers import handled, with_handlers
from tvm_disc.support.late import Late
from tvm_disc.support.progress import shown
from tvm_disc.support.remembered import remembered
from tvm_disc.support.store import Store, store_of
from tvm_disc.target.device import Device
from tvm_disc.typing import (
    DynamicShapes,
    ExampleInputs,
    Expr,
    Target,
    TargetLike,
    TVMFunction,
    TVMModule,
    UserPasses,
)

_check_ragged = Late("tvm_disc.relay_passes.ragged.declared:check_ragged")
_ragged_batches = Late("tvm_disc.relay_passes.ragged.transform:RaggedBatches")
_channels_last = Late("tvm_disc.relay_passes.layout:ChannelsLast")
_collect = Late("tvm_disc.relay_passes.loops.collect:CollectInPlace")
_hoist = Late("tvm_disc.relay_passes.hoist:HoistProducts")
_own_state = Late("tvm_disc.relay_passes.own_state:OwnState")
_donate_inputs = Late("tvm_disc.relay_passes.caches.donated:DonateInputs")
_export = Late("tvm_disc.codegen.export:export")
_peaks = Late("tvm_disc.codegen.roofline:peaks_of_machine")
_verify = Late("tvm_disc.codegen.verify:verify")

Params: TypeAlias = Mapping[str, np.ndarray] | str | os.PathLike[str] | None


# Every graph pass in order, with the reason for its position. The names are part of the interface:
# `passes` of `build`, dumps, timings and errors use them.
PASSES: tuple[tuple[str, Callable[[Told], Any]], ...] = (
    # First: all other passes use the types and facts about dims that this pass infers. Only this
    # pass reads Relay. It runs once more for the special version.
    ("propagate", lambda told: told.propagate()),
    # Second, as this pass changes the inputs; later passes fuse the reads of the buffers.
    ("own-state", lambda told: _owned(told.options)),
    # After own-state, because caches of a state cannot be donated. Before decomposition, which
    # replaces writes of slices by selections.
    ("donate-inputs", lambda told: _donated(told.options)),
    # Before decomposition: a composite operator in bfloat16 rounds only its result, but after
    # decomposition each of its parts would round.
    ("bfloat16", lambda told: WidenBFloat16()),
    # Before simplification and fusion, which know only core operators.
    ("decompose", lambda told: DecomposeComposite()),
    # After decomposition, which may produce casts and scales of operands. Before the passes that
    # read the weights of float products.
    ("integer-products", lambda told: IntegerProducts()),
    # Also after decomposition. Before simplification, which would fold int8 weights into float32
    # literals of four times the size.
    ("narrow-weights", lambda told: NarrowWeights(narrowing=told.narrowing)),
    # Before merging: matmuls of equal operands must refer to one value.
    ("simplify", lambda told: Simplify()),
    # After simplification, which removes most of the operators that this pass would have to
    # support. Before merging and fusion, which then see the packed rows as one dense matrix.
    ("ragged", lambda told: _ragged_batches(told.ragged) if told.ragged else _unchanged),
    # Before hoisting: the matmuls of a recurrent cell's gates are then hoisted out of the loop as
    # one matmul.
    ("merge", lambda told: MergeProducts()),
    ("hoist", lambda told: _OnlyIf(_loops, _hoist)),
    # After hoisting: hoisted matmuls of several loops may have the same left operand.
    ("merge-hoisted", lambda told: MergeProducts()),
    # After all passes that move convolutions or fold operators into them, as a connected region is
    # converted to NHWC as a whole. Before fusion, so that remaining permutations are fused.
    ("layout", lambda told: _OnlyIf(_convolves, _channels_last)),
    # After hoisting, which requires the original form of loops. Before fusion, which would fuse the
    # concatenations.
    ("collect", lambda told: _OnlyIf(_loops, _collect)),
    # Last: afterwards groups are closed functions, and buffers are allocated per group.
    ("fuse", lambda told: FuseDISC(enabled=told.options.fuse)),
)
STAGES = tuple(name for name, _ in PASSES)


def _unchanged(mod: TVMModule) -> TVMModule:
    return mod


def _owned(options: Options) -> Any:
    given = options.state, options.state_dtype, options.state_window
    return _own_state(*given) if any(given) else _unchanged


def _donated(options: Options) -> object:
    return _donate_inputs(options.donate) if options.donate else _unchanged


def _functions(mod: TVMModule) -> list[TVMFunction]:
    return [f for f in mod.functions.values() if isinstance(f, relax.Function)]


def _loops(mod: TVMModule) -> bool:
    """Return whether a program may have loops, which are separate functions."""
    return len(_functions(mod)) > 1


def _convolves(mod: TVMModule) -> bool:
    """Return whether a program has convolutions of images."""
    values = (b.value for func in _functions(mod) for b in bindings_of(func))
    return any(is_call(v, "nn.conv2d") for v in values)


class _OnlyIf:
    """A pass that is imported and run only for programs that satisfy a condition.

    Attributes:
        refused: the refusals that the pass recorded.
    """

    def __init__(self, fulfils: Callable[[TVMModule], bool], make: Late) -> None:
        self._fulfils, self._make = fulfils, make
        self.refused: Sequence[object] = ()

    def __call__(self, mod: TVMModule) -> TVMModule:
        if not self._fulfils(mod):
            return mod
        run = self._make()
        made: TVMModule = run(mod)
        self.refused = getattr(run, "refused", ())
        return made


def build(
    source: Source,
    *,
    params: Params = None,
    target: TargetLike = None,
    constraints: Sequence[str] = (),
    ragged: Mapping[str, int] = MappingProxyType({}),
    options: Options | None = None,
    passes: UserPasses | None = None,
    example_inputs: ExampleInputs | None = None,
    dynamic_shapes: DynamicShapes | None = None,
) -> Executable:
    """Compile a program with dynamic shapes into one native program.

    Args:
        source: a Relay module, function, text or JSON, or the path of one of these files; a Relax
            module; an ONNX model or its path; the path of a GGUF file of a language model; a
            ``torch.export.ExportedProgram``; a
            ``torch.nn.Module`` with ``example_inputs``; a Keras model on the JAX backend; the
            folder of a SavedModel of TensorFlow; or a ``jax.export.Exported``, its bytes,
            StableHLO text or bytecode, or a file of them.
        params: values of inputs of ``main`` by name, which become constants; or a parameter file.
        target: a TVM target of a CPU, or ``"cuda"``; by default this machine's CPU. A program for a
            list of CPU targets contains code for each; loading it selects the best that the
            processor supports.
        constraints: facts about input dims, such as ``"1 <= b <= 64"`` or ``"ids.1 == mask.1"``.
        ragged: inputs whose axis 1 has a different size in each item, as ``{"ids": 1, "mask": 1}``.
            The program takes packed rows and computes no padding.
        options: see :class:`Options`.
        passes: user passes by position: ``{"after simplify": mine}``. A position is ``before`` or
            ``after`` and one of ``STAGES``; a pass, or a list of passes, maps a module to a module.
            Each runs once for every version of the program.
        example_inputs: inputs to export a ``torch.nn.Module`` with: a tuple, or a mapping by name.
        dynamic_shapes: the dynamic dims of these inputs, in the format of ``torch.export.export``;
            by default all dims that the module does not require to be constant.

    Raises:
        BadInput, BadOption: an argument or option is not valid; the message lists what is accepted.
        ParseError, TypeMismatch, ShapeConflict, Unsupported: the model is not valid or not
            supported; the message has the location in the source.
        BuildTimeout: the build took longer than ``options.time_limit``.
        OutOfResources: memory, threads or disk space ran out. Exceptions of signal handlers are
            raised unchanged.
    """
    options = Options.from_env(options)

    def work() -> Executable:
        given = source
        if example_inputs is not None or dynamic_shapes is not None:
            entered("export by PyTorch")
            given = exported(source, example_inputs, dynamic_shapes)
        run = partial(
            _build, given, params, target, constraints, ragged, options, passes, model_name(source)
        )
        if options.time_limit is None:
            return run()
        context = tvm.transform.PassContext.current()

        def inside() -> Executable:
            with context:
                return run()

        return within(options.time_limit, inside)

    with shown(options):
        exe = with_handlers(machine_faults()(work))
    told = {
        "target": target,
        "constraints": constraints,
        "ragged": ragged,
        "options": options,
        "passes": passes,
        "example_inputs": example_inputs,
        "dynamic_shapes": dynamic_shapes,
        "has_params": params is not None,
    }
    exe.verifies_by(partial(_verify, build, remembered(source), remembered(params), told))
    return exe


@dataclass(frozen=True)
class Job:
    """The arguments of a build, with resolved targets."""

    source: Source
    params: Params
    targets: Sequence[Target]
    device: Device | None
    constraints: Sequence[str]
    ragged: Mapping[str, int]
    options: Options
    passes: UserPasses | None
    store: Store | None

    def key(self) -> str | None:
        """Return the key of the program in the cache, or None if it cannot be cached."""
        ragged = sorted(self.ragged.items())
        told = (self.options.threads or default_threads(), self.device, ragged)
        arguments = (self.source, self.params, self.targets, self.constraints, self.options)
        return build_key(*arguments, self.passes, told)


def _build(
    source: Source,
    params: Params,
    target: TargetLike,
    constraints: Sequence[str],
    ragged: Mapping[str, int],
    options: Options,
    passes: UserPasses | None,
    model: str,
) -> Executable:
    """Implement :func:`build` without time limit, progress line and signal handling."""
    trace = Trace(options.debug, options.dump_dir)
    device, target = split_target(target)
    options = options.placed(on_device=device is not None)
    targets = resolve_targets(target)
    if device is None and options.cuda_graphs:
        raise BadOption('cuda_graphs: expected target="cuda", found a CPU target')
    if ragged:
        ragged = _check_ragged(ragged, options, device is not None)
    for name in ("int8_activations", "state"):
        if device is not None and getattr(options, name):
            raise BadOption(f"{name}: expected a CPU target, found a GPU; leave it out")
    if device is not None and len(targets) > 1:
        raise Unsupported("target: a GPU program has one host, found a list of several")
    number = number_of([level_of(t) for t in targets], options.level)
    store = store_of(options)
    job = Job(source, params, targets, device, constraints, ragged, options, passes, store)
    program = through_cache(partial(_made, job, trace), store, job.key, targets, trace)
    home = partial(home_of_process, store) if program.manifest["threads"] else int
    manifest = {**program.manifest, "model": model, "version": VERSION}
    code = Code(program.levels, manifest, options.level, saved=False)
    peaks, save = partial(_peaks, store), partial(_export, store=store)
    exe = Executable(code, program.constants, home=home, export=save, peaks=peaks)
    if options.load and runs_here(targets[number]):
        # Otherwise LLVM would generate code during the first call.
        with trace.stage("load"):
            exe.ready()
    exe.timings = dict(trace.finish())
    return exe


def _made(job: Job, trace: Trace, key: str | None) -> Kept:
    """Return the program of :func:`compiled`, after unused memory was returned to the system."""
    program = compiled(job, trace, key)
    release(program.constants.nbytes)
    return program


def compiled(job: Job, trace: Trace, key: str | None) -> Kept:
    """Compile a program: all stages in order. Cache it if ``key`` is not None."""
    # Graph passes: independent of the target.
    told = (job.source, job.params, job.constraints, job.options, trace, job.passes, job.ragged)
    graph = fused_graph(*told)
    with ExitStack() as begun:
        say = partial(trace.say, SUMMARY)
        # LLVM compiles the first kernels while later kernels are still being scheduled.
        compiling = [begun.enter_context(Compiling(t, job.store, say)) for t in job.targets]
        # Select the kernels and lower each version to launches, for each target.
        fronts = [
            with_kernels(graph, target, job.options, trace, job.device, objects)
            for target, objects in zip(job.targets, compiling, strict=True)
        ]
        del graph  # frees weights that no program uses
        # Emit the host program, after all launches are in their final order, which its memory plan
        # needs.
        with trace.stage("host program"):
            release(sum(c.array.nbytes for f in fronts for p in f.programs for c in p.constants))
            emitted, constants = emit_levels([(f.programs, f.machine) for f in fronts])
            trace.say(SUMMARY, f"constants: {constants.nbytes} bytes")
            for program in emitted:
                trace.show("program.tir.py", program)
        keeping = begun.enter_context(Keeping(job.store, key, constants))
        # Compile the host program; most kernels are already compiled at this point.
        with trace.stage("machine code"):
            levels = [
                compile_program(e, f.target, job.store, objects)
                for e, f, objects in zip(emitted, fronts, compiling, strict=True)
            ]
        trace.say(CODE, lambda: "\n".join(level.source("ll") for level in levels))
        count_compilation()
        # Write the manifest, which the runtime and `explain` read.
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
    versions: Sequence[ImportedModule]
    library: KernelLibrary
    machine: Machine
    target: Target
    refused: Sequence[Any]
    quantized: Sequence[str]


def prepare(
    source: Source,
    params: Params,
    target: TargetLike,
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
    """A program after the graph passes, with fusion groups; it does not depend on the target."""

    # special version first, general version last
    versions: Sequence[ImportedModule]
    refused: Sequence[Any]
    quantized: Sequence[str]  # a line for each matrix of quantized weights


def fused_graph(
    source: Source,
    params: Params,
    constraints: Sequence[str],
    options: Options,
    trace: Trace,
    passes: Mapping[str, object] | None = None,
    ragged: Mapping[str, int] = MappingProxyType({}),
) -> Fused:
    """Run ``PASSES`` and the user's passes on each version of the program."""
    first = next(iter(ragged), "")
    # All ragged inputs have the same number of items.
    equal = [f"{first}.0 == {name}.0" for name in ragged if name != first]
    stated = [*check_constraints(constraints), *equal]
    told = Told(_params(params), stated, options, ragged=ragged)
    hooks = read_hooks({} if passes is None else passes, STAGES)
    with trace.stage("read"):
        module = read(source)
    (first, _), *others = PASSES
    module = _hooked(trace, f"before {first}", hooks, module)
    with trace.stage(first):
        versions = versions_of(module, told)
        for version in versions:
            _report(trace, first, version.mod, options)
            trace.say(FACTS, version.solver.describe)
    del module  # passes free the weights that they replace, so no reference is kept here
    fused, refused = [], []
    quantized: list[str] = []
    while versions:
        version = versions.pop(0)
        mod = _hooked(trace, f"after {first}", hooks, version.mod)
        version = replace(version, mod=None)
        reasons: list[Expr] = []
        for name, make in others:
            mod = _hooked(trace, f"before {name}", hooks, mod)
            with trace.stage(name):
                run = make(told)
                mod = run(mod)
                _report(trace, name, mod, options)
            mod = _hooked(trace, f"after {name}", hooks, mod)
            ran = [*hooks.get(f"before {name}", ()), run, *hooks.get(f"after {name}", ())]
            reasons += [reason for one in ran for reason in getattr(one, "refused", ())]
            quantized += [line for one in ran for line in getattr(one, "quantized", ())]
        fused.append(replace(version, mod=mod))
        refused.append(reasons)
    # A special version is useful only if it has fewer kernel calls: for equal dims, the kernels of
    # the general version already have a fast path.
    if kernel_calls(fused[0].mod) >= kernel_calls(fused[-1].mod):
        fused, refused = fused[-1:], refused[-1:]
    return Fused(fused, refused[0], list(dict.fromkeys(quantized)))


def _params(params: Params) -> Mapping[str, object]:
    """Return the parameters by input name, read from a file if a path is given."""
    named = load_params(params) if isinstance(params, str | os.PathLike) else params
    return check_params(named or {})


def with_kernels(
    graph: Fused,
    target: Target,
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
    library.expected = sum(groups(v.mod) for v in graph.versions)
    with trace.stage("kernels"):
        # The special version is lowered first: a kernel that both versions use gets its name from
        # the first one.
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
    library.forget_constants()
    versions = [replace(v, mod=None) for v in graph.versions]  # modules hold the weights
    return Prepared(programs, versions, library, machine, target, graph.refused, graph.quantized)


def _hooked(trace: Trace, place: str, hooks: Hooks, mod: object) -> Any:
    """Run the user's passes for one position, and return the module."""
    for run in hooks.get(place, ()):
        with trace.stage(place):
            mod = run_hook(place, run, mod)
            handled()
            trace.show(f"{place.replace(' ', '_')}.relax.py", mod)
    return mod


def _report(trace: Trace, name: str, mod: object, options: Options) -> None:
    """Dump the module after a pass and print its size; check it if ``verify`` is set."""
    trace.show(f"{name}.relax.py", mod)
    trace.say(SUMMARY, lambda: f"{name}: {_count_bindings(mod)} bindings")
    if options.verify:
        relax.analysis.well_formed(mod, check_ty=False)


def _count_bindings(mod: Any) -> int:
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return sum(len(block.bindings) for f in functions for block in f.body.blocks)


def describe_levels(fronts: Sequence[Prepared]) -> dict[str, object]:
    """Return the manifest: all entries of the last target, and for each target the entries that
    differ.
    """
    found = [describe(f.programs, f.versions, f.library, f.refused, f.quantized) for f in fronts]
    common = found[-1]
    levels = [
        {**level_of(f.target)._asdict(), **{k: v for k, v in own.items() if v != common[k]}}
        for f, own in zip(fronts, found, strict=True)
    ]
    own_threads = any(uses_workers(f.programs, f.machine) for f in fronts)
    threads = triple_of(fronts[-1].target.attrs) if own_threads else ""
    return {**common, "levels": levels, "threads": threads}


__all__ = ["PASSES", "STAGES", "build", "compile_counter", "prepare"]
