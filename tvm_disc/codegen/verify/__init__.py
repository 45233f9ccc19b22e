"""``Executable.verify``: compare a program with references, and find the first wrong kernel.

The references are the same model with one kernel per operator, and the framework that the model
comes from. If results differ, the program is built once more so that it returns the results of all
kernel calls. Each kernel is then compared with its operators, run one by one on the kernel's own
inputs, so that the error of one kernel does not count against later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.codegen.verify.expose import ExposeCalls, KernelCall
from tvm_disc.errors import BadInput, DiscError, Unsupported
from tvm_disc.frontends.original import original
from tvm_disc.frontends.sources import Source
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.inputs import checked_arguments, prepared_inputs
from tvm_disc.runtime.observed.comparison import (
    Comparison,
    Verified,
    WrongKernel,
    accepted,
    check_tolerance,
    compared,
    difference,
)
from tvm_disc.runtime.observed.recording import arrays_of
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Argument, Arguments, Array, Expr, Var

OPERATORS = "one kernel per operator"


def verify(
    build: Callable[..., Executable],
    source: Callable[[], Source],
    params: Callable[[], object],
    arguments: Mapping[str, object],
    exe: Executable,
    args: Arguments,
    kwargs: Mapping[str, Argument],
    flat: Arguments,
    given: Source,
    tolerance: float,
) -> Verified:
    """Compare a program with references on the given inputs.

    Args:
        build: compiles a model.
        source, params: functions that return the model and the values of its parameters, or None if
            these objects no longer exist.
        arguments: the other arguments of the build.
        args, kwargs: the inputs in the form of the model; ``flat``: the inputs in the form of the
            program.
        given: the model, if ``source`` no longer returns it.
        tolerance: accepted difference, relative to the largest element of a result.
    """
    tolerance = check_tolerance(tolerance)
    if arguments["ragged"]:
        raise Unsupported(
            "verify: a ragged program has no version with one kernel per operator; verify the "
            "program that is built without ragged="
        )
    model = source() if given is None else given
    weights = params()
    if model is None or (arguments["has_params"] and weights is None):
        if model is None:
            missing = "its model no longer exists in this process; pass the model as source="
        else:
            missing = (
                "the arrays of params no longer exist in this process; build the program again, "
                "and keep a reference to them"
            )
        raise BadInput(f"verify: {missing}")
    told = {k: v for k, v in arguments.items() if k != "has_params"} | {"params": weights}
    again = _Again(build, model, told)
    arrays = _copies(exe, flat)
    own = _results(exe, arrays)
    names = [name for name, _, _ in exe.signature]
    found = [
        _operators(again, arrays, own, tolerance),
        *_framework(model, arguments, (args, kwargs, dict(zip(names, arrays, strict=True))), own,
                    tolerance),
    ]  # fmt: skip
    if all(c.equal for c in found):
        return Verified(tuple(found))
    kernel, notes = _first_wrong(again, arrays, own, tolerance)
    if kernel is None and found[0].equal and found[0].error is not None:
        notes.append(
            "The program agrees with one kernel per operator: the difference comes from the import "
            "of the model, or from an operator that is defined differently."
        )
    return Verified(tuple(found), kernel, tuple(notes))


@dataclass(frozen=True)
class _Again:
    """Builds a model again, with other options."""

    build: Callable[..., Executable]
    model: Source
    arguments: Mapping[str, Any]

    @property
    def options(self) -> Options:
        found: Options = self.arguments["options"]
        return replace(found, load=True, dump_dir=None, debug=0, verify=False)

    def results(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the results of the model with one kernel per operator."""
        options = replace(self.options, fuse=False, templates=())
        return _results(self.build(self.model, **{**self.arguments, "options": options}), inputs)

    def exposed(self) -> tuple[Executable, ExposeCalls]:
        """Return the general version, and the pass that exposed its kernel calls."""
        expose = ExposeCalls()
        passes = dict(self.arguments["passes"] or {})
        before = passes.get("after fuse", ())
        passes["after fuse"] = [
            *(before if isinstance(before, list | tuple) else [before]),
            expose,
        ]
        options = replace(self.options, versions=False)
        exe = self.build(self.model, **{**self.arguments, "options": options, "passes": passes})
        return exe, expose

    def alone(
        self, call: KernelCall, symbols: Mapping[Var, int], inputs: Sequence[Array]
    ) -> list[Array]:
        """Return the results of a kernel's operators, run one by one."""
        options = replace(self.options, fuse=False, templates=())
        options = replace(options, state=(), state_dtype=None, state_window=0)
        module = tvm.IRModule({"main": _static(call, symbols)})
        target = self.arguments["target"]
        return _results(self.build(module, target=target, options=options), inputs)


def _operators(
    again: _Again, inputs: Sequence[Array], own: Sequence[Array], tolerance: float
) -> Comparison:
    try:
        wanted = again.results(inputs)
    except DiscError as error:
        return Comparison(OPERATORS, why=str(error).splitlines()[0])
    return compared(OPERATORS, own, wanted, tolerance)


def _framework(
    model: Source,
    arguments: Mapping[str, object],
    inputs: tuple[Arguments, Mapping[str, Argument], Mapping[str, Array]],
    own: Sequence[Array],
    tolerance: float,
) -> Iterator[Comparison]:
    found = original(model)
    if found is None:
        return
    name, run = found
    try:
        made = run(*inputs)
    except Exception as error:  # the framework may raise any class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield Comparison(name, why=f"it raised: {reason}")
        return
    if len(made) > len(own):
        yield Comparison(name, why=f"it has {len(made)} results, the program {len(own)}")
        return
    # The program also returns buffers that the model updates, after the results.
    yield compared(name, own[: len(made)], made, tolerance)


# --- kernels ---------------------------------------------------------------------------------


def _first_wrong(
    again: _Again, inputs: Sequence[Array], own: Sequence[Array], tolerance: float
) -> tuple[WrongKernel | None, list[str]]:
    """Return the first kernel whose results differ from those of its operators, and notes."""
    try:
        exe, expose = again.exposed()
        results = _results(exe, inputs)
    except DiscError as error:
        return None, [f"Kernels were not compared: {str(error).splitlines()[0]}"]
    values = results[len(results) - expose.count :]
    symbols = expose.symbols(inputs, values)
    skipped: dict[str, str] = {}  # kernel -> reason
    for number, call in enumerate(expose.calls):
        outputs = {k: values[v] for k, v in enumerate(call.results) if v is not None}
        if call.operands is None:
            skipped[call.name] = "an operand is not a tensor of the main function"
            continue
        given = [np.ascontiguousarray(o.of(inputs, values)) for o in call.operands]
        try:
            wanted = again.alone(call, symbols, given)
        except DiscError as error:
            skipped[call.name] = str(error).splitlines()[0]
            continue
        expected = [wanted[k] for k in outputs]
        found = compared(OPERATORS, list(outputs.values()), expected, tolerance)
        if not found.equal:
            place = call.place
            return WrongKernel(call.name, number, call.operators, place, found), _skipped(skipped)
    notes = _skipped(skipped)
    if all(difference(a, b) <= accepted(a, tolerance) for a, b in zip(own, results, strict=False)):
        cause = "Kernels in branches, loops and functions are not compared one by one."
    else:
        cause = (
            "The program's result changes if it keeps the results of all kernels and has no "
            "special version: the cause is the special version, or a kernel that writes memory "
            "in use."
        )
    return None, [*notes, f"No kernel of the main function differs from its operators. {cause}"]


def _skipped(reasons: Mapping[str, str]) -> list[str]:
    return [f"Kernel '{name}' was not compared: {why}." for name, why in reasons.items()]


def _static(call: KernelCall, symbols: Mapping[Var, int]) -> relax.Function:
    """Return the group function of a call, with its dims replaced by the values of ``symbols``."""
    function = call.function
    known: dict[Expr, Expr] = {v: tirx.IntImm("int64", n) for v, n in symbols.items()}
    sizes = [tvm.sym.Analyzer().simplify(substitute(d, known)) for d in call.dims]
    free = [s for p in function.params if not is_tensor(p.ty) for s in p.ty.values]
    pairs = list(zip(free, sizes, strict=True))
    if unknown := [str(s) for s, n in pairs if not isinstance(n, tirx.IntImm)]:
        raise Unsupported(f"verify: no tensor's shape has the sizes {', '.join(unknown)}")
    bound = function.bind_symbolic_vars(dict(pairs)) if free else function
    params = [p for p in bound.params if is_tensor(p.ty)]
    attrs = tvm.ir.make_node("ir.DictAttrs", global_symbol="main")
    return relax.Function(params, bound.body, bound.ret_ty, bound.is_pure, attrs)


# --- calls -----------------------------------------------------------------------------------


def _copies(exe: Executable, args: Arguments) -> list[Array]:
    """Return contiguous copies of a call's inputs; programs may write into their inputs."""
    return list(arrays_of(prepared_inputs(exe.signature, checked_arguments(exe.signature, args))))


def _results(exe: Executable, inputs: Sequence[Array]) -> list[Array]:
    """Return the flat results of a call, on copies of the inputs."""
    return list(arrays_of(exe.on_tensors([a.copy() for a in inputs])))


__all__ = ["verify"]
