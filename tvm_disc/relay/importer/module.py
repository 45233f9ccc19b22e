"""Import of Relay modules into Relax: ``?`` becomes a symbol, local functions are specialized.

Each anonymous ``?`` of an input has its own symbol. Requirements of operators on dims are proved or
become guards, and the conditions of guards are facts afterwards. The module is therefore walked
twice with the same input facts, so that facts found late simplify shapes that occur early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.expressions import expressions
from tvm_disc.relay.importer.context import Checks, Emitter, i64
from tvm_disc.relay.importer.elements import applied
from tvm_disc.relay.importer.external import Describer, External
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.functions import MAX_DEPTH, Functions, check_arguments
from tvm_disc.relay.importer.inputs import Inputs, declare
from tvm_disc.relay.importer.kinds import Hole, Kind, Kinds, TupleKind, WideKey, Wider, joined
from tvm_disc.relay.importer.operands import check_operands
from tvm_disc.relay.importer.scopes import (
    Bottom,
    Scope,
    mentions,
    operands_of,
    recursive_globals,
    refuse_tail,
)
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.importer.walk import ModuleWalk
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS
from tvm_disc.shape import Solver, Wish
from tvm_disc.support.deadline import at
from tvm_disc.support.late import Late
from tvm_disc.support.literals import Literals
from tvm_disc.typing import Expr, GlobalVar, TVMFunction, TVMModule, Var

if TYPE_CHECKING:
    from tvm_disc.relay.importer.branches import Branches
    from tvm_disc.relay.importer.loops import Loops
    from tvm_disc.relay.importer.objects import Objects

_branches = Late("tvm_disc.relay.importer.branches:Branches")
_loops = Late("tvm_disc.relay.importer.loops:Loops")
_objects = Late("tvm_disc.relay.importer.objects:Objects")

MAX_INLINED = 400  # limit of nested inlined calls


@dataclass
class ImportedModule:
    """A Relax module and the facts about its symbols; it is valid only if ``premises`` hold."""

    mod: Any
    solver: Solver
    premises: tuple[Wish, ...] = ()
    external: External = field(default_factory=External)


def import_module(
    mod: IRModule,
    params: Mapping[str, np.ndarray] | None = None,
    constraints: Sequence[str] = (),
    premises: Sequence[str] = (),
    solver: Solver | None = None,
    checks: Checks | None = None,
) -> ImportedModule:
    """Import ``mod["main"]`` and the functions that it calls.

    Args:
        params: inputs of ``main``, by name, that become constants.
        constraints: facts about input dims, in the constraint language, in addition to the
            function attribute ``constraints``.
        premises: like constraints, but the caller ensures that they hold.
        solver: receives the facts; a new one by default.
        checks: how conditions on elements are compiled.

    Raises:
        Unsupported: an operator or construct has no import rule; the message has its name and
            source location.
        TypeMismatch: operands do not fit the operator, the module has no ``main``, or ``params``
            does not fit its inputs.
        ShapeConflict: dims can never agree.
    """
    if "main" not in mod:
        names = ", ".join(f"@{g.name_hint}" for g in mod.get_global_vars()) or "none"
        raise TypeMismatch(f"expected a module with a function @main, found functions: {names}")
    main = mod["main"]
    if not isinstance(main, ast.Function):
        raise Unsupported("the module's 'main' is not a function")
    unknown = set(params or {}) - {p.name_hint for p in main.params}
    if unknown:
        known = ", ".join(p.name_hint for p in main.params) or "none"
        found = ", ".join(repr(name) for name in sorted(unknown))
        raise TypeMismatch(f"params: expected names of main's inputs ({known}), found {found}")
    # A front end passes its facts about input dims as a function attribute.
    constraints = (*main.attrs.get("constraints", ()), *constraints)
    symbols: dict[Any, Any] = {}
    wide: dict[WideKey, tuple[int | None, ...]] = {}
    first = Solver()
    merged = declare(main, params or {}, constraints, premises, first, symbols)
    literals = Literals()
    emitter = partial(Emitter, checks=checks)
    _import(mod, first, merged, wide, params or {}, literals, emitter)
    # Keep the facts of the first walk about the inputs. Facts about other symbols are discarded:
    # the second walk creates new symbols.
    second = solver or Solver()
    merged = declare(main, params or {}, constraints, premises, second, symbols)
    second.unchecked += main.attrs.get("unchecked", ())
    second.notes += main.attrs.get("notes", ())
    second.origins |= zip(
        main.attrs.get("constraints", ()), main.attrs.get("origins", ()), strict=False
    )
    inputs = set(symbols.values())
    for guard in first.guards:
        if all(s in inputs for s in guard.symbols):
            second.require(guard.cond, guard.context, guard.message)
    return _import(mod, second, merged, wide, params or {}, literals, emitter)


def _import(
    mod: IRModule,
    solver: Solver,
    symbols: dict[object, object],
    wide: dict[WideKey, tuple[int | None, ...]],
    params: Mapping[str, np.ndarray],
    literals: Literals,
    emitter: Callable[[Solver], Emitter],
) -> ImportedModule:
    """Walk over the module once; restart if the type of a boxed value was too narrow."""
    while True:
        undo = solver.mark()
        try:
            importer = _Importer(mod, solver, symbols, wide, emitter)
            importer.ctx.literals = literals
            made = importer.run(mod["main"], params)
            return ImportedModule(made, solver, external=importer.external)
        except RecursionError as error:
            raise Unsupported(
                "the functions need too many specializations, or the program is nested too "
                "deeply; annotate parameters so that one specialization serves every call"
            ) from error
        except Wider as wider:
            undo()
            for place, dims in wider.found.items():
                wide[place] = joined(wide.get(place, dims), dims)


class _Importer:
    """Evaluator of Relay expressions; separate components evaluate branches, loops and objects."""

    def __init__(
        self,
        mod: IRModule,
        solver: Solver,
        symbols: dict[object, object],
        wide: dict[WideKey, tuple[int | None, ...]],
        emitter: Callable[[Solver], Emitter] = Emitter,
    ) -> None:
        self.source, self.solver, self.ctx = mod, solver, emitter(solver)
        self.walk = ModuleWalk(mod, self.ctx, Kinds(wide))
        self.forms = Forms(self.walk, self)
        self.inputs = Inputs(self.ctx, symbols)
        self.functions = Functions(self.walk, self.forms, self)
        self.inlined: list[ast.Function] = []
        self.eta: dict[str, Closure] = {}
        self.recursive = recursive_globals(mod)
        self.external = External()
        self.boxes: list[Any] = []  # variables of boxed inputs
        self.describer = Describer(mod.type_definitions, self.external.types)

    # The modules of these components are imported on first use: most programs need none of them.

    @cached_property
    def branches(self) -> Branches:
        """The component that imports conditional expressions."""
        made: Branches = _branches(self.walk, self.forms)
        return made

    @cached_property
    def objects(self) -> Objects:
        """The component that imports constructors, matches and references."""
        made: Objects = _objects(self.walk, self.forms, self.branches, self)
        return made

    @cached_property
    def loops(self) -> Loops:
        """The component that imports recursive functions as loops."""
        made: Loops = _loops(self.walk, self.forms, self)
        return made

    def reified(self, closure: Closure, kind: Kind) -> Boxed:
        """Return a closure as a run-time value."""
        return self.functions.reified(closure, kind)

    def input(self, param: ast.Var) -> Tensor:
        """Return the tensor of an input, with symbols for its ``?`` dims."""
        return self.inputs.input(param)

    def _scope(self, parent: Scope | None) -> Scope:
        return self.walk.scope(parent)

    def run(self, main: ast.Function, params: Mapping[str, np.ndarray]) -> TVMModule:
        """Return the Relax module."""
        scope = self._scope(None)
        inputs = []
        for p in main.params:
            if p.name_hint in params:
                scope.variables[p] = self.inputs.bound(p, params[p.name_hint])
            else:
                value = self.main_input(p, scope)
                boxed = p.name_hint in self.external.inputs
                inputs.append(self.boxes[-1] if boxed else value.expr)
                # In the body, dims that are proved equal are the same expression. The parameter's
                # type, which the caller sees, is unchanged.
                known = isinstance(value, Tensor)
                scope.variables[p] = self.ctx.reshape(value, value.dims) if known else value
        value = self.evaluate(main.body, scope)
        if isinstance(value, Bottom):
            raise Unsupported("'main' never returns")
        out = self.forms.tied_result(value)
        body = relax.SeqExpr([relax.BindingBlock(self.ctx.sequences.pop())], out)
        func = relax.Function(inputs, body, self._seen_outside(value, inputs), True)
        func = func.with_attr("global_symbol", "main")
        self.external.result = self.describer.value(value)
        self.external.structure = str(main.attrs.get("structure", ""))
        return tvm.IRModule({relax.GlobalVar("main"): func, **self._reachable(func)})

    def main_input(self, param: ast.Var, scope: Scope) -> Any:
        """Return the value of an input: a tensor, or a boxed tuple or data type."""
        ty = param.type_annotation
        if not isinstance(ty, rt.TupleType | rt.TypeCall | rt.GlobalTypeVar):
            return self.input(param)
        kind = self.forms.annotated(ty, scope, param)
        where = f"input '{param.name_hint}'"
        self.external.inputs[param.name_hint] = self.describer.kind(kind, where)
        var = relax.Var(param.name_hint, relax.ObjectType())
        self.boxes.append(var)
        if isinstance(kind, TupleKind):
            return tuple(self.forms.field(var, k, f) for k, f in enumerate(kind.fields))
        return Boxed(kind, var)

    def _reachable(self, main: TVMFunction) -> dict[GlobalVar, TVMFunction]:
        """Return the functions that ``main`` calls, without discarded specializations."""
        found: dict[GlobalVar, TVMFunction] = {}
        stack = [main]

        while stack:
            for e in expressions(stack.pop().body):
                if isinstance(e, tvm.ir.GlobalVar) and e not in found:
                    found[e] = self.walk.functions[e]
                    stack.append(found[e])
        for gv, func in found.items():
            relax.expr._update_type(gv, func.ty)
        return found

    # -- evaluation ----------------------------------------------------------------------------

    def evaluate(self, expr: ast.Expr, scope: Scope) -> Any:
        """Return the value of an expression; chains of calls and lets do not recurse."""
        while isinstance(expr, ast.Let):
            self._let(expr, scope)
            expr = expr.body
        stack: list[tuple[ast.Expr, bool]] = [(expr, False)]
        while stack:
            node, ready = stack.pop()
            if self._lookup(node, scope) is not None:
                continue
            operands = operands_of(node)
            if operands and not ready:
                stack.append((node, True))
                stack.extend((x, False) for x in reversed(operands))
                continue
            scope.memo[id(node)] = self._node(node, scope)
        return self._lookup(expr, scope)

    def _lookup(self, node: ast.Expr, scope: Scope) -> Any:
        current: Scope | None = scope
        while current is not None:
            table: dict[Any, Any] = current.memo
            key: Any = id(node)
            if isinstance(node, ast.Var):
                table, key = current.variables, node
            if key in table:
                return self.walk.seen_from_here(table[key], current.frame)
            current = current.parent
        return None

    def _let(self, let: ast.Let, scope: Scope) -> None:
        value = let.value
        if isinstance(value, ast.Function):
            closure = Closure(value, scope, let.var.name_hint, let.var)
            scope.variables[let.var] = closure
        else:
            scope.variables[let.var] = self.evaluate(value, self._scope(scope))

    def _node(self, node: ast.Expr, scope: Scope) -> Any:
        if isinstance(node, ast.Constant):
            return self.ctx.constant(np.asarray(node.data))
        if isinstance(node, ast.Tuple):
            return tuple(self._lookup(f, scope) for f in node.fields)
        if isinstance(node, ast.TupleGetItem):
            return self._field(self._lookup(node.tuple_value, scope), node.index)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.If):
            return self._if(node, scope)
        if isinstance(node, ast.Function):
            return Closure(node, scope)
        if isinstance(node, ast.Let):
            return self.evaluate(node, self._scope(scope))
        if isinstance(node, ast.GlobalVar):
            return self._global(node)
        if isinstance(node, ast.Constructor):
            return self._constructor(node)
        if isinstance(node, ast.Match):
            return self.objects.match(node, self._lookup(node.data, scope), scope)
        if isinstance(node, ast.RefCreate | ast.RefRead | ast.RefWrite):
            return self.objects.reference(node, [self._lookup(x, scope) for x in operands_of(node)])
        if isinstance(node, ast.Var):
            raise TypeMismatch(f"variable '%{node.name_hint}' is not bound")
        raise Unsupported(f"{type(node).__name__} is not supported")

    def _field(self, value: tuple[Boxed | Tensor, ...], index: int) -> Any:
        if isinstance(value, Bottom):
            return value
        refuse_tail(value)
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            wanted = counted(index + 1, "field")
            known = isinstance(value, tuple)
            found = counted(len(value), "field") if known else str(self.forms.kind_of(value))
            raise TypeMismatch(f"expected a tuple of at least {wanted}, found {found}")
        return value[index]

    def _global(self, node: ast.GlobalVar) -> Closure:
        func = self.source[node.name_hint]
        if not isinstance(func, ast.Function):
            raise Unsupported(f"@{node.name_hint} is not a function")
        return Closure(func, None, node.name_hint)

    def _constructor(self, ctor: ast.Constructor) -> Closure:
        """Return a constructor as a function."""
        if ctor.name_hint not in self.eta:
            params = [ast.Var(f"x{k}") for k, _ in enumerate(ctor.inputs)]
            func = ast.Function(params, ast.Call(ctor, params))
            self.eta[ctor.name_hint] = Closure(func, None, ctor.name_hint)
        return self.eta[ctor.name_hint]

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, call: ast.Call, scope: Scope) -> Any:
        args = [self._lookup(a, scope) for a in call.args]
        if isinstance(call.op, ast.Op):
            return self._operator(call, args)
        if isinstance(call.op, ast.Constructor):
            return self.objects.construct(call.op, args, call)
        callee = self.evaluate(call.op, scope)
        if isinstance(callee, Bottom):
            return callee
        if isinstance(callee, Boxed):
            return self.functions.apply_boxed(callee, args, call)
        if not isinstance(callee, Closure):
            raise TypeMismatch(
                self.walk.at(
                    call, f"expected a function to call, found {self.forms.kind_of(callee)}"
                )
            )
        return self._apply(callee, args, call)

    def _operator(self, call: ast.Call, args: list[tuple[Tensor, ...] | Tensor]) -> Any:
        assert isinstance(call.op, ast.Op)
        name = call.op.name
        for a in args:
            if isinstance(a, Bottom):
                return a
            refuse_tail(a)
        row = OPS.get(name)
        self.ctx.span, self.ctx.operator = call.span or self.ctx.span, name
        at(f"operator {name!r}")
        if row is None:
            raise Unsupported(self.ctx.where("unknown operator"))
        for k, a in enumerate(args):
            if isinstance(a, Boxed | Closure):
                found = self.forms.kind_of(a)
                known = row.args[k : k + 1]
                which = f"operand '{known[0].lstrip('*')}'" if known else f"operand {k}"
                raise TypeMismatch(self.ctx.where(f"{which}: expected a tensor, found {found}"))
        check_operands(self.ctx, row, args)
        return applied(self.ctx, row, args, call.attrs)

    def _apply(self, closure: Closure, args: list[Any], call: Any) -> Any:
        known = self.loops.again(closure.function, args)
        if known is not None:
            return known
        if not self._recursive(closure):
            return self._inline(closure, args, call)
        looped = self.loops.try_loop(closure, args)
        return self.functions.call_function(closure, args, call) if looped is None else looped

    def _recursive(self, closure: Closure) -> bool:
        if closure.is_global:
            return closure.name in self.recursive
        return mentions(closure.function.body, closure)

    def _inline(self, closure: Closure, args: list[Any], call: Expr) -> Any:
        func = closure.function
        check_arguments(self.walk, closure, args, call)
        if len(self.inlined) >= MAX_INLINED or self.inlined.count(func) >= MAX_DEPTH:
            raise Unsupported(
                self.walk.at(
                    call,
                    f"function {closure.name} recurses through a function value; give it a name "
                    "that its body can call",
                )
            )
        inner = self._scope(closure.scope)
        inner.types.update({v.name: Hole(id(call)) for v in func.type_params})
        named: dict[str, Any] = {}
        for p, a in zip(func.params, args, strict=True):
            inner.variables[p] = self._annotated(p, a, inner, named)
        self.inlined.append(func)
        try:
            return self.evaluate(func.body, inner)
        finally:
            self.inlined.pop()

    def _annotated(self, param: ast.Var, value: object, scope: Scope, named: dict[str, Var]) -> Any:
        """Return an argument with the dims that its parameter declares.

        Literal dims are required to match, and dims of the same name must be equal in all
        parameters; ``named`` maps names to dims.
        """
        ty = param.type_annotation
        if isinstance(value, Boxed) and ty is not None:
            kind = self.forms.annotated(ty, scope, param)
            return self.forms.converted(value, kind, f"argument '%{param.name_hint}'")
        if not isinstance(value, Tensor) or not isinstance(ty, rt.TensorType):
            return value
        if ty.dtype != value.dtype or len(ty.shape) != value.rank:
            raise TypeMismatch(
                f"argument '%{param.name_hint}': expected {ty}, "
                f"found {value.dtype} of rank {value.rank}"
            )
        for axis, (declared, dim) in enumerate(zip(ty.shape, value.dims, strict=True)):
            wanted = i64(declared) if isinstance(declared, int) else None
            if isinstance(declared, rt.Any) and declared.name:
                wanted = named.setdefault(declared.name, dim)
            if wanted is not None:
                self.ctx.require_eq(dim, wanted, f"'%{param.name_hint}' axis {axis}")
        return value

    # -- control flow --------------------------------------------------------------------------

    def _if(self, node: ast.If, scope: Scope) -> Any:
        cond = self._lookup(node.cond, scope)
        if isinstance(cond, Bottom):
            return cond
        if not isinstance(cond, Tensor):
            raise TypeMismatch(
                self.walk.at(node, f"if: expected a bool, found {self.forms.kind_of(cond)}")
            )
        literal = value_of(cond)
        if literal is not None and isinstance(literal.item(), bool):
            taken = node.true_branch if literal.item() else node.false_branch
            return self.evaluate(taken, self._scope(scope))
        return self.branches.choose(
            self.ctx.expr(cond),
            lambda: self.evaluate(node.true_branch, self._scope(scope)),
            lambda: self.evaluate(node.false_branch, self._scope(scope)),
            self.walk.at(node, "a branch that cannot return was executed"),
        )

    def _seen_outside(self, value: object, params: Sequence[Var]) -> Any:
        """Return the type of a result, which may contain symbols of the parameters only."""
        tensors = [p for p in params if isinstance(p.ty, relax.TensorType)]
        own = {d for p in tensors for d in p.ty.shape.values if isinstance(d, tirx.Var)}

        def foreign(dim: object) -> bool:
            if isinstance(dim, tirx.IntImm):
                return False
            names = [dim] if isinstance(dim, tirx.Var) else tirx.analysis.undefined_vars(dim)
            return any(v not in own for v in names)

        return self.forms.type_of(value, foreign)
