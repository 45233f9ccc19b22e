"""``build``: the compiler, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi
from tvm import relax

from tvm_disc import errors
from tvm_disc.codegen.build import compile_tir, emit_tir
from tvm_disc.codegen.forms import launches
from tvm_disc.codegen.formula import workspace_formula
from tvm_disc.codegen.host_abi import plain_dim
from tvm_disc.codegen.kernels import KernelLibrary
from tvm_disc.codegen.lower import lower_program
from tvm_disc.codegen.program import Program
from tvm_disc.codegen.target import resolve_target
from tvm_disc.debug import CODE, FACTS, SUMMARY, Trace
from tvm_disc.errors import TypeMismatch
from tvm_disc.frontends import read_model
from tvm_disc.options import Options
from tvm_disc.relay import expr as ast
from tvm_disc.relay.coverage import require_operators
from tvm_disc.relay.importer.module import Imported, import_module
from tvm_disc.relay.json_reader import load_json
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.parser import parse
from tvm_disc.relay_passes.decompose import DecomposeComposite
from tvm_disc.relay_passes.fuse import FuseDISC
from tvm_disc.relay_passes.propagate import PropagateShapeConstraints
from tvm_disc.relay_passes.simplify import Simplify
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.gemm_tile import isa_of
from tvm_disc.schedules.kernel import Machine
from tvm_disc.shape import Solver

Source: TypeAlias = Any

# An error raised inside a pass crosses TVM's boundary and must come back as what it was.
for _error in (errors.DiscError, *errors.DiscError.__subclasses__()):
    tvm_ffi.register_error(_error)

# How often a model was compiled in this process; one program serves every shape.
compilations = 0


def build(
    source: Source,
    *,
    params: Mapping[str, np.ndarray] | None = None,
    target: Any = None,
    constraints: Sequence[str] = (),
    options: Options | None = None,
) -> Executable:
    """Compile a program of unknown shape into one native program.

    Args:
        source: a Relay module, function, text or JSON; a Relax module; an ONNX model or its path;
            a ``torch.export.ExportedProgram``.
        params: inputs of ``main``, by name, that become constants.
        target: a TVM CPU target; this machine by default.
        constraints: facts about input dims, such as ``"1 <= b <= 64"`` or ``"ids.1 == mask.1"``.
        options: see :class:`Options`.

    Raises:
        ParseError, TypeMismatch, ShapeConflict, Unsupported: with the place in the source.
    """
    global compilations
    options = Options.from_env(options)
    trace = Trace(options.debug, options.dump_dir)
    with trace.stage("read"):
        module = read(source)
    with trace.stage("import"):
        imported = import_relay(module, params, constraints)
        solver = imported.solver
        _report(trace, "imported", imported.mod, options)
        trace.say(FACTS, solver.describe)
    # Composite operators go first: simplification and fusion know core operators only.
    with trace.stage("canonicalize"):
        mod = Simplify(solver)(DecomposeComposite()(imported.mod))
        _report(trace, "canonical", mod, options)
    # Fusion comes before any buffer exists, and after all shape facts are known.
    with trace.stage("fuse"):
        fuse = FuseDISC(solver, options.fuse)
        mod = fuse(mod)
        _report(trace, "fused", mod, options)
    resolved = resolve_target(target)
    machine = Machine(isa_of(resolved), options.threads or default_threads())
    library = KernelLibrary(Solver, machine, {})
    with trace.stage("kernels"):
        program = lower_program(mod, solver, library)
        program.verify = options.verify
        trace.say(
            SUMMARY,
            f"kernels: {len(library.kernels())}, calls in the program: "
            f"{len(launches(program.region))}",
        )
    # The memory plan needs every launch in its final order.
    with trace.stage("host program"):
        tir, constants = emit_tir(program, machine)
        trace.say(SUMMARY, f"constants: {constants.nbytes} bytes")
        trace.show("program.tir.py", tir)
    with trace.stage("machine code"):
        compiled = compile_tir(tir, resolved)
        trace.say(CODE, lambda: str(compiled.inspect_source("ll")))
    compilations += 1
    manifest = describe(program, library, solver, fuse.refused)
    manifest["external"] = vars(imported.external)
    return Executable(compiled, manifest, constants, trace.finish())


def _report(trace: Trace, name: str, mod: Any, options: Options) -> None:
    """What every graph stage leaves behind: a line, a dump, and on request a check."""
    trace.show(f"{name}.relax.py", mod)
    trace.say(SUMMARY, lambda: f"{name}: {_count_bindings(mod)} bindings")
    if options.verify:
        relax.analysis.well_formed(mod, check_ty=False)


def _count_bindings(mod: Any) -> int:
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    return sum(len(block.bindings) for f in functions for block in f.body.blocks)


def default_threads() -> int:
    """The size of TVM's thread pool, or the number of processors."""
    return int(os.environ.get("TVM_NUM_THREADS") or os.cpu_count() or 1)


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
    if isinstance(source, str):
        return load_json(source) if source.lstrip().startswith("{") else parse(source)
    raise TypeMismatch(
        "source: expected a Relay module, function, text or JSON, a Relax module, an ONNX model "
        f"or path, or a torch.export.ExportedProgram, found {type(source).__name__}"
    )


def import_relay(
    module: Any, params: Mapping[str, np.ndarray] | None, constraints: Sequence[str]
) -> Imported:
    """The Relax module and its symbols, under the user's constraints."""
    if isinstance(module, IRModule):
        require_operators(module)
        return import_module(module, params, constraints=constraints)
    if params:
        module = relax.transform.BindParams("main", dict(params))(module)
    propagate: Any = PropagateShapeConstraints(constraints, portable=False)
    return Imported(propagate(module), propagate.solver)


def describe(
    program: Program, library: KernelLibrary, solver: Solver, refused: Sequence[Any]
) -> dict[str, Any]:
    """What a saved program tells about itself."""
    return {
        "inputs": [(n, [plain_dim(d) for d in s], t) for n, s, t in program.signature.inputs],
        "outputs": program.output_tree,
        "launches": launches(program.region),
        "workspace_bytes": workspace_formula(program.region),
        "kernels": [
            {
                "name": k.name,
                "kind": k.kind,
                "ops": [n.op.removeprefix("relax.") for n in k.nodes],
                "notes": dict(k.notes),
            }
            for k in library.kernels()
        ],
        "shapes": solver.describe(),
        "refused": [str(r) for r in dict.fromkeys(refused)],
    }


@contextmanager
def compile_counter() -> Iterator[list[int]]:
    """Counts compilations inside the block, for tests."""
    before = compilations
    count = [0]
    yield count
    count[0] = compilations - before


__all__ = ["build", "compile_counter"]
