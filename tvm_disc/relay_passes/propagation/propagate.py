"""``PropagateShapeConstraints``: symbolic shapes for every value of any module.

A Relay module is translated to Relax by this pass (`relay/importer`). Facts are gathered on Relay's
operators, because one operator, with its requirements, may become several Relax operators.

A Relax module is walked forward over its bindings, without recursion over the graph. Each
operator's shape rule (`rules.py`) computes the dims of the result from the dims of the operands,
states the conditions that must hold, and may replace the call. Integer tensors that hold shapes
are evaluated symbolically (`relay/importer/elements.py`), so that their consumers have literal
shapes.

A fact that is found late may simplify the shapes of earlier bindings. Therefore, if the first walk
finds new facts, a second walk starts with all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx

from tvm_disc.errors import Unsupported, parts_of
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay.importer.context import Checks
from tvm_disc.relay.importer.external import External
from tvm_disc.relay.importer.inputs import with_input_types
from tvm_disc.relay.importer.module import import_module
from tvm_disc.relay.module import IRModule, carried_by
from tvm_disc.relay.ops.coverage import require_operators
from tvm_disc.relay_passes.module_facts import with_solver
from tvm_disc.relay_passes.propagation.context import PropagationContext
from tvm_disc.relay_passes.propagation.finish import (
    drop_dead,
    emit_guards,
    return_type,
    sequence,
    with_checks,
)
from tvm_disc.relay_passes.propagation.walk import Walker
from tvm_disc.shape import Solver, declare_facts
from tvm_disc.shape.facts import Guard
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, PassContext, Size, TVMFunction, TVMModule, TVMType, Var

# Maximum number of walks. Each walk starts with all facts of the previous one; a second walk rarely
# finds new facts.
MAX_WALKS = 3

# Constraints and premises.
Declared: TypeAlias = tuple[Sequence[str], Sequence[str]]

BOUNDS = (("tir_var_lower_bound", tirx.GE), ("tir_var_upper_bound", tirx.LE))


@tvm.transform.module_pass(opt_level=0, name="PropagateShapeConstraints")
class PropagateShapeConstraints:
    """Module pass: infer shapes, unify symbols, fold shape arithmetic, and place guards.

    The input is a Relax module, or a ``relay.IRModule`` as the first pass of a pipeline; the result
    is a Relax module. The facts about dims are attached to it for the following passes.

    Args:
        constraints: facts about the dims of inputs, such as ``"1 <= b <= 64"`` or
            ``"ids.1 == mask.1"``. Facts that cannot be proved are checked at run time.
        solver: receives the facts; by default a new one per module.
        portable: the result is for TVM's passes, which infer types again: dataflow blocks are kept,
            a ``match_cast`` restores each shape that TVM would lose, and guards become checks at
            the start of the function. Otherwise guards remain in ``solver.guards``.
        premises: like constraints, but the caller guarantees them.
        params: inputs of ``main``, by name, that become constants.
        check_indices: as ``Options.check_indices``; None follows the front end.

    Attributes:
        solver: after the pass, every symbol, fact and guard of the module.
        external: after the pass, how boxed values appear to the caller of a Relay module's main.

    Raises:
        ShapeConflict: dims that can never be equal; the message quotes the statements.
        TypeMismatch: operands that no shape can fit.
        Unsupported: a called function needs a guard, but guards belong to the program.
        ParseError: a constraint that is not in the constraint language.
    """

    def __init__(
        self,
        constraints: Sequence[str] = (),
        solver: Solver | None = None,
        portable: bool = True,
        premises: Sequence[str] = (),
        params: Mapping[str, Any] | None = None,
        check_indices: bool | None = None,
    ) -> None:
        self.constraints = parts_of("constraints", constraints)
        self.premises = parts_of("premises", premises)
        self.given = solver
        self.portable = portable
        self.params = params
        self.checks = Checks(check_indices, portable)
        self.solver = solver or Solver()
        self.external = External()

    def transform_module(self, mod: TVMModule, ctx: PassContext) -> object:
        """Apply the pass to every function of the module."""
        self.solver = self.given or Solver()
        self.external = External()
        source = mod if isinstance(mod, IRModule) else carried_by(mod)
        made = self._relax(mod) if source is None else self._relay(source)
        return with_solver(made, self.solver)

    def _relay(self, source: IRModule) -> Any:
        require_operators(source)
        source = with_input_types(source, self.params)
        declared = (self.constraints, self.premises)
        imported = import_module(source, self.params, *declared, self.solver, self.checks)
        self.external = imported.external
        if not self.portable:
            return imported.mod
        main = imported.mod.get_global_var("main")
        checked = with_checks(imported.mod[main], self.solver.guards)
        functions = {**dict(imported.mod.functions_items()), main: checked}
        return tvm.IRModule(functions)

    def _relax(self, mod: Any) -> TVMModule:
        if self.params:
            mod = relax.transform.BindParams("main", dict(self.params))(mod)
        functions = {}
        single = sum(isinstance(f, relax.Function) for _, f in mod.functions_items()) == 1
        for gv, func in mod.functions_items():
            name = str(gv.name_hint)
            # Process entry functions first: private functions are called with their shapes.
            if isinstance(func, relax.Function):
                entry = single or name == "main"
                declared = (self.constraints, self.premises) if entry else ((), ())
                place = "" if entry else name
                func = propagate(mod, func, self.solver, declared, self.portable, place)
            functions[gv] = func
        return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def propagate(
    mod: TVMModule, func: TVMFunction, solver: Solver, declared: Declared, portable: bool, name: str
) -> TVMFunction:
    """Propagate shapes in one function; ``name`` is empty for the program's entry.

    Primitive functions, such as kernels of fused operators, are returned unchanged.

    Raises:
        Unsupported: a called function needs a guard, and ``portable`` is false.
    """
    if func.attrs is not None and "Primitive" in func.attrs:
        return func
    first_guard = len(solver.guards)
    declare_inputs(func, solver, name)
    declare_bounds(func, solver)
    declare_facts(solver, names_of_dims(func), *declared)
    fresh: dict[Any, Any] = {}
    for _ in range(MAX_WALKS):
        known = len(solver.facts())
        merged = merge_inputs(func, solver)
        context = PropagationContext(solver, mod, portable, fresh)
        context.nested = 1 if name else 0  # a called function has no guards
        walker = Walker(context, merged)
        blocks, body = walker.function(func)
        if len(solver.facts()) == known:
            break
    blocks = drop_dead(blocks, body)
    params = [walker.context.env_param(p) for p in func.params]
    settle_guards(solver, merged, fresh.values(), first_guard)
    if name and not portable and len(solver.guards) > first_guard:
        raise Unsupported(
            f"function '{name}' requires a run-time check, which a called function cannot have: "
            f"{solver.guards[first_guard]}; use the same symbol for equal dims"
        )
    if portable:
        blocks = emit_guards(solver.guards[first_guard:], blocks)
    seq = sequence(blocks, body)
    return relax.Function(params, seq, return_type(params, body.ty), func.is_pure, func.attrs)


def declare_inputs(func: TVMFunction, solver: Solver, name: str) -> None:
    """Declare every symbol of the inputs' shapes, with the input and axis as its source."""
    place = f"function '{name}' " if name else ""
    for p in func.params:
        for axis, d in enumerate(_dims(p.ty)):
            if isinstance(d, tirx.Var):
                known = any(d.same_as(v) for v, source in solver.symbols() if source)
                if not known:
                    solver.declare(d, f"{place}input '{p.name}' axis {axis}")
    for p in func.params:
        for d in _dims(p.ty):
            for v in tirx.analysis.undefined_vars(d):
                solver.declare(v)
            if not isinstance(d, tirx.Var | tirx.IntImm):
                solver.assume(d >= 0, f"the size of {place}input '{p.name}'")


def _dims(ty: TVMType) -> list[Expr]:
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        return list(ty.shape.values)
    if isinstance(ty, relax.ShapeType) and ty.values is not None:
        return list(ty.values)
    if isinstance(ty, relax.TupleType):
        return [d for f in ty.fields for d in _dims(f)]
    return []


def _symbols(func: Any) -> dict[str, Expr]:
    found: dict[str, Any] = {}
    for p in func.params:
        for d in _dims(p.ty):
            for v in tirx.analysis.undefined_vars(d):
                found.setdefault(str(v.name), v)
    return found


def declare_bounds(func: TVMFunction, solver: Solver) -> None:
    """Add guards for the ranges of dims that a front end stored in an attribute of the function."""
    symbols = _symbols(func)
    for attribute, relation in BOUNDS:
        bounds = func.attrs[attribute] if func.attrs is not None and attribute in func.attrs else {}
        for name, value in dict(bounds).items():
            if str(name) in symbols:
                cond = relation(symbols[str(name)], tirx.IntImm("int64", int(value)))
                solver.require(cond, f"the function's {attribute}")


def names_of_dims(func: TVMFunction) -> dict[str, Size]:
    """Return the input dims by the names that users write in constraints."""
    names: dict[str, Size] = dict(_symbols(func))
    for p in func.params:
        for axis, d in enumerate(_dims(p.ty)):
            names[f"{p.name}.{axis}"] = d
    return names


def merge_inputs(func: object, solver: Solver) -> dict[Any, Any]:
    """Return input symbols that equal an older symbol or a number, with their replacement.

    The types of the inputs then express the equality, and the caller's type check verifies it.
    """
    merged = {}
    symbols = _symbols(func).values()
    for v in symbols:
        e = solver.simplify(v)
        plain = isinstance(e, tirx.IntImm) or any(e.same_as(u) for u in symbols)
        if plain and not e.same_as(v):
            merged[v] = e
    return merged


def settle_guards(
    solver: Solver, merged: Mapping[Var, Expr], fresh: Iterable[Any], first: int
) -> None:
    """Remove redundant guards, and state the others in the symbols that the last walk binds.

    A guard is redundant if the merged input types imply it, because every call checks its types.

    Args:
        merged: symbols that no longer occur in input types, with their replacement.
        fresh: symbols of values whose shape a walk could not infer. The last walk binds their
            canonical form.
        first: the number of guards of other functions, which precede those of this function.
    """
    known = ((s, solver.simplify(s)) for s in fresh)
    replaced = {**merged, **{s: e for s, e in known if not e.same_as(s)}}
    kept = [g for g in solver.guards[first:] if not _in_types(g, merged)]
    solver.guards[first:] = [_renamed(g, replaced) for g in kept]


def _renamed(guard: Guard, replaced: Mapping[Any, Any]) -> Guard:
    """Return a guard with symbols replaced, or unchanged if it would become trivially true.

    The guard then states the equality of a symbol and its replacement, and must not be lost.
    """
    if not any(s in replaced for s in guard.symbols):
        return guard
    cond = substitute(guard.cond, replaced)
    if tvm.sym.Analyzer().can_prove(cond):
        return guard
    return replace(guard, cond=cond, symbols=tuple(tirx.analysis.undefined_vars(cond)))


def _in_types(guard: Guard, merged: Mapping[Any, Any]) -> bool:
    if not any(v in merged for v in guard.symbols):
        return False
    return bool(tvm.sym.Analyzer().can_prove(substitute(guard.cond, merged)))


__all__ = ["PropagateShapeConstraints", "propagate"]
