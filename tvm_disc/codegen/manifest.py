"""Manifest of a program, which is saved with it and shown by ``explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import tirx

from tvm_disc.codegen.host.abi import plain_dim
from tvm_disc.codegen.host.numpy_entry import takes_numpy
from tvm_disc.codegen.plan.capture import waits
from tvm_disc.codegen.plan.formula import readable_formula, steps_of, under, workspace_formula
from tvm_disc.codegen.plan.kernels import KernelLibrary
from tvm_disc.codegen.plan.outline import memory_outline, outline
from tvm_disc.codegen.plan.program import Conditional, Define, Launch, Loop, Program, Region
from tvm_disc.codegen.plan.tail_recursion import program_launches
from tvm_disc.errors import Unsupported
from tvm_disc.relay.importer.module import ImportedModule
from tvm_disc.relay_passes.module_facts import RAGGED, STATE
from tvm_disc.schedules.dispatch.cost import THREADS, scaling
from tvm_disc.schedules.dispatch.sampling import Values, evaluate
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.tree import decide
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.schedules.kernel import Kernel, Machine
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Var

EXAMPLE = 64  # size of a dim without likely values, for predicted times

if TYPE_CHECKING:
    from tvm_disc.errors import WhyNot
    from tvm_disc.graph.nodes import Node


def describe(
    programs: Sequence[Program],
    versions: Sequence[ImportedModule],
    library: KernelLibrary,
    refused: Sequence[WhyNot],
    quantized: Sequence[str] = (),
) -> dict[str, object]:
    """Return the manifest of a program."""
    program, general, premises = programs[0], programs[-1], versions[0].premises
    workspace, (calls, copies) = _workspace(program), outline(program)
    if premises:
        condition = " and ".join(f"({premise.text})" for premise in premises)
        workspace = under(condition, workspace, _workspace(general))
    return {
        "inputs": [(n, [plain_dim(d) for d in s], t) for n, s, t in general.signature.inputs],
        "outputs": program.output_tree,
        "results": [([readable_formula(d) for d in v.shape], v.dtype) for v in general.outputs],
        "direct": takes_numpy(general) and library.machine.device is None,
        "device": described_device(library.machine),
        "graphs": max(program.graphs for program in programs),
        "device_notes": device_notes(programs) if library.machine.device is not None else [],
        "launches": program_launches(program),
        "calls": calls,
        "copies": copies,
        "constants": _constants(program),
        "memory": memory_outline(program),
        "workspace_bytes": workspace,
        "kernels": [
            {
                "name": k.name,
                "kind": k.kind,
                "ops": [n.op.removeprefix("relax.") for n in k.nodes],
                **_operands(k),
                "notes": dict(k.notes),
                "variants": k.names,
                "group": group_key(k.group) if k.group is not None else "",
                "choice": k.choice_json(),
            }
            for k in library.kernels()
        ],
        "external": vars(versions[-1].external),
        "vendor": any(
            calls_vendor(v.plan) for k in library.kernels() if k.choice for v in k.choice.variants
        ),
        "shapes": versions[0].solver.describe(),
        "premises": [str(p) for p in premises],
        "general": {
            "launches": program_launches(general),
            "shapes": versions[-1].solver.describe(),
            **_donated_by_special(program, general),
        },
        "selection": selection(library),
        "scaling": predicted(program, versions[0].solver, library.machine),
        "refused": [str(r) for r in dict.fromkeys(refused)],
        "quantized": list(quantized),
        "state": _state(general.attrs),
        "donated": [(k, *_donation(v)) for k, v in general.donations.items()],
        "ragged": _ragged(general.attrs),
    }


def _constants(program: Program) -> dict[str, int]:
    """Return the bytes of a version's constants, and of those that are packed at build time."""
    sizes = [(c.nbytes, c.packing is not None) for c in program.constants]
    return {"bytes": sum(n for n, _ in sizes), "packed": sum(n for n, packed in sizes if packed)}


def _operands(kernel: Kernel) -> dict[str, object]:
    """Return the operands of a kernel, each with whether it is constant, and the tensors that the
    kernel writes.
    """
    constants = kernel.group.constants if kernel.group is not None else ()
    return {
        "operands": [(_tensor(p), p in constants) for p in kernel.params],
        "writes": [_tensor(node) for node in kernel.outputs],
    }


def _tensor(node: Node) -> list[object]:
    """Return the dtype and the dims of a tensor."""
    return [node.dtype, [readable_formula(dim) for dim in node.shape]]


def selection(library: KernelLibrary) -> dict[str, object]:
    """Return the data by which variants were selected: files of cost constants, and tuned records.

    ``measured`` is the number of kernels that have records, ``times`` the number of records of this
    machine, and ``others`` the number of records of other machines or versions, which are ignored.
    """
    machine = library.machine
    found: dict[str, object] = {"constants": list(machine.constants)}
    if machine.records is not None:
        groups = {group for group, _, _ in machine.records.times}
        kernels = [k for k in library.kernels() if k.group is not None]
        found |= {
            "measured": sum(group_key(k.group) in groups for k in kernels if k.group is not None),
            "times": len(machine.records.times),
            "others": machine.records.others,
        }
    return found


@dataclass
class _Calls:
    """The predicted times of a kernel, as :func:`predicted` returns them."""

    ns: list[int]
    calls: int = 0
    longest: int = 0
    tasks: list[int] = field(default_factory=list)


def predicted(program: Program, solver: Solver, machine: Machine) -> dict[str, object]:
    """Return the predicted times of a call's kernels on several numbers of threads.

    Entries: ``threads``, the numbers of threads; ``dims``, the sizes for which the times hold;
    ``wake_ns``; and ``kernels``. The latter maps the name of a kernel to the number of its calls,
    the sum of their nanoseconds for each number of threads, and the duration and task counts of the
    longest call. Kernels inside loops and branches count once. A size that is read from data has an
    example value, see :func:`_value`. Kernels without variants, and kernels whose sizes cannot be
    evaluated, are absent. Returns {} for a GPU.
    """
    if machine.device is not None:
        return {}
    points: dict[Var, Values] = {}
    kernels: dict[str, _Calls] = {}
    found: dict[tuple[object, ...], tuple[list[float], list[int]]] = {}
    regions = [program.region, *(f.region for f in program.functions)]
    steps = [*program.definitions, *(step for region in regions for step in _steps(region))]
    for step in steps:
        try:
            if isinstance(step, Define):
                points[step.var] = _value(step.value, points, solver)
                continue
            kernel = step.kernel
            sizes = [_value(e, points, solver) for e in step.symbols]
            key = (kernel.name, *(int(v[0]) for v in sizes))
            if key not in found:
                found[key] = _kernel_scaling(kernel, sizes, machine)
        except Unsupported:
            continue
        ns, tasks = found[key]
        entry = kernels.setdefault(kernel.name, _Calls(ns=[0] * len(ns)))
        entry.calls += 1
        entry.ns = [a + round(b) for a, b in zip(entry.ns, ns, strict=True)]
        if ns[0] > entry.longest:
            entry.longest, entry.tasks = round(ns[0]), tasks
    dims = {str(var.name): int(v[0]) for var, v in points.items()}
    named = {name for _, shape, _ in program.signature.inputs for name in map(plain_dim, shape)}
    return {
        "threads": list(THREADS),
        "dims": {name: size for name, size in dims.items() if name in named},
        "wake_ns": machine.model.wake_ns,
        "kernels": {name: vars(calls) for name, calls in kernels.items()},
    }


def _steps(region: Region) -> Iterator[Define | Launch]:
    """Yield the definitions and kernel calls of a region and its inner regions, in order."""
    for step in region.instructions:
        if isinstance(step, Define | Launch):
            yield step
        inner = step.regions()
        if isinstance(step, Conditional):
            inner = [step.then_region, step.else_region, *inner]
        elif isinstance(step, Loop):
            inner = [step.header, step.body, step.exit, *inner]
        for each in inner:
            yield from _steps(each)


def _value(expr: Expr, points: dict[Var, Values], solver: Solver) -> Values:
    """Return the value of an expression, as an array of one element.

    A symbol that is not in ``points`` is added: the median of its likely values, or ``EXAMPLE``
    within its bounds.
    """
    for symbol in tirx.analysis.undefined_vars(i64(expr)):
        if symbol not in points:
            low, high = solver.range_of(symbol)
            likely = solver.likely_values(symbol)
            size = sorted(likely)[len(likely) // 2] if likely else max(EXAMPLE, low or 0)
            points[symbol] = np.array([size if high is None else min(size, high)], np.float64)
    return np.broadcast_to(np.asarray(evaluate(i64(expr), points), np.float64), (1,))


def _kernel_scaling(
    kernel: Kernel, sizes: Sequence[Values], machine: Machine
) -> tuple[list[float], list[int]]:
    """Return :func:`scaling` of the plan that the kernel selects for sizes of its symbols."""
    choice = kernel.choice
    if choice is None:
        raise Unsupported("the kernel has no variants")
    points = dict(zip(kernel.symbols, sizes, strict=True))
    picked = decide(choice.tree, lambda k: float(evaluate(choice.features[k][0], points).item()))
    variant = choice.variants[picked]
    if not all(bool(np.all(need.at(points))) for need in variant.plan.needs):
        variant = choice.instead(variant)
    return scaling(variant.plan, points, machine.model)


def _state(attrs: Mapping[str, Any]) -> list[dict[str, str | int]]:
    """Return the caches that the program extends or updates in place. The entry of a cache of a
    fixed size has no length and no rows.
    """
    found = attrs.get(STATE, ())
    return [
        {
            "buffer": str(buffer),
            "length": str(length),
            "axis": int(axis),
            "rows": "" if isinstance(rows, str) else readable_formula(rows),
            "scale": str(scale),
            "kept": "" if isinstance(kept, str) else readable_formula(kept),
        }
        for buffer, length, axis, rows, scale, kept in found
    ]


def _donated_by_special(program: Program, general: Program) -> dict[str, object]:
    """Return the donations of the special version if they differ from the general version's."""
    if program.donations == general.donations:
        return {}
    return {"donated_by_special": [(k, *_donation(v)) for k, v in program.donations.items()]}


def _donation(found: int | WhyNot) -> tuple[int | None, str]:
    """Return the result that takes a donated input's memory, or None and the reason."""
    return (found, "") if isinstance(found, int) else (None, found.reason)


def _ragged(attrs: Mapping[str, Any]) -> dict[str, object]:
    """Return the manifest's entry about ragged batches: for each ragged input the name of its
    offsets, for each result its offsets, and the offsets that the program returns as additional
    results. Empty if no input is ragged.
    """
    found = attrs.get(RAGGED)
    if found is None:
        return {}
    inputs, results, computed = found
    return {
        "inputs": {str(name): str(offsets) for name, offsets in inputs},
        "results": [str(name) for name in results],
        "computed": [str(name) for name in computed],
    }


def _workspace(program: Program) -> str:
    return "; ".join([*steps_of(program.definitions), workspace_formula(program.region)])


def described_device(machine: Machine) -> dict[str, list[str] | str] | None:
    """Return the manifest's entry about the GPU; None for a CPU program."""
    if machine.device is None:
        return None
    names = [f"sm_{a}" for a in machine.device.architectures]
    return {"kind": machine.device.kind, "architectures": names}


def device_notes(programs: Sequence[Program]) -> list[str]:
    """Return lines of ``explain`` about GPU calls: the points where a call waits for the GPU, and
    CUDA graphs.
    """
    waited = dict.fromkeys(line for program in programs for line in waits(program))
    notes = list(waited) or ["calls do not wait for the GPU"]
    most = max(program.graphs for program in programs)
    refused = dict.fromkeys(str(p.no_graphs) for p in programs if p.no_graphs is not None)
    if most:
        notes.append(f"CUDA graphs: up to {most}, one per combination of input dims")
    return notes + list(refused)


__all__ = ["describe"]
