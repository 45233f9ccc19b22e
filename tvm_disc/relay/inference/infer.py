"""Type inference for all expressions of a module.

A walk over each function assigns every expression a type, which may contain unknown parts. A call
of an operator waits until its operands are known; weights without a type are inferred from the
other operands. Each use of a local function may widen the type of its parameters: a dim becomes
``?``. Types computed from a parameter are therefore computed again until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.inference.matches import pattern_text, unmatched_cases
from tvm_disc.relay.inference.operands import OPERANDS
from tvm_disc.relay.inference.operators import OperatorTypes
from tvm_disc.relay.inference.unify import (
    Unknown,
    closed,
    head,
    instance,
    is_ground,
    opened,
    passed_through,
    resolved,
    shown,
    unify,
)
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.visit import free_vars, rebuilt, with_children

Visit = Iterator[ast.Expr]

# Expression classes with one object for all occurrences.
_SINGLE = (ast.Op, ast.Constructor, ast.GlobalVar)


def infer_types(mod: IRModule) -> IRModule:
    """Return the module with the type of every expression in its ``checked_type``.

    Parameters, bound variables and results receive missing annotations. Expressions of ``mod`` are
    not changed: an expression that has its type already is kept, others are copied. Fully annotated
    variables, operators, constructors and names of functions keep their identity; their
    ``checked_type`` is set in place.

    Raises:
        TypeMismatch, ShapeConflict, Unsupported: with the expression, the dims and the source
            location.
    """
    if not isinstance(mod, IRModule):
        raise TypeMismatch(f"expected a relay.IRModule, found {type(mod).__name__}")
    walk = _Walk(mod)
    for func in mod.functions.values():
        walk.run(func)
    walk.settle()
    return walk.annotated()


def infer_type(expr: ast.ExprLike, mod: IRModule | None = None) -> ast.Expr:
    """Return an expression with the types of all its parts.

    ``mod`` has the functions and data types that the expression uses. The expression may have free
    variables.
    """
    expr = ast.as_expr(expr)
    scratch = IRModule() if mod is None else mod.copy()
    name = "main"
    while name in scratch:
        name += "_"
    whole = isinstance(expr, ast.Function)
    scratch[name] = expr if whole else ast.Function(free_vars(expr), expr)
    made = infer_types(scratch)[name]
    return made if whole else made.body


def annotate_inputs(mod: IRModule, values: Mapping[str, Any] | None = None) -> IRModule:
    """Return ``mod`` with types for the untyped inputs of ``main``, or ``mod`` itself if there are
    none.

    ``values`` are arrays that will be bound to inputs, by name.
    """
    if "main" not in mod or not isinstance(main := mod["main"], ast.Function):
        return mod
    bare = [p for p in main.params if _is_open(p.type_annotation)]
    if not bare:
        return mod
    walk = _Walk(mod)
    for p in bare:
        array = (values or {}).get(p.name_hint)
        if array is not None:
            walk.types[id(p)] = rt.TensorType(array.shape, str(array.dtype))
    walk.run(main)
    walk.settle()
    new = {id(p): ast.Var(p.name_hint, closed(walk.types[id(p)]), p.span) for p in bare}
    typed = mod.copy()
    typed["main"] = rebuilt([main], lambda e, _: new.get(id(e)))[id(main)]
    return typed


def _is_open(ty: rt.Type | None) -> bool:
    return ty is None or not is_ground(opened(ty))


@dataclass(eq=False)
class _Waiting:
    """A call of an operator with an operand type that is unknown, or may still be widened."""

    call: ast.Call
    row: Any
    operands: tuple[rt.Type, ...]
    out: rt.Type
    used: tuple[rt.Type, ...] | None = None


@dataclass(eq=False)
class _Field:
    """A field of a tuple whose type is not known yet."""

    node: ast.TupleGetItem
    whole: rt.Type
    out: rt.Type
    used: rt.Type | None = None


class _Walk:
    """The state of an inference run: types by the identity of expressions."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.types: dict[int, rt.Type] = {}
        self.nodes: dict[int, ast.Expr] = {}
        self.started: set[int] = set()
        self.type_args: dict[int, tuple[rt.Type, ...]] = {}
        self.renewed: dict[int, ast.Var] = {}  # variables that received an annotation
        self.waiting: list[_Waiting | _Field] = []
        self.operators = OperatorTypes()

    # -- traversal -------------------------------------------------------------------------------

    def run(self, root: ast.Expr) -> None:
        """Assign types to all expressions below ``root``; chains of calls and lets do not
        recurse.
        """
        stack = [self._visit(root)]
        while stack:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
            elif id(child) not in self.started:
                stack.append(self._visit(child))

    def _visit(self, node: ast.Expr) -> Visit:
        self.started.add(id(node))
        self.nodes[id(node)] = node
        rule = _RULES.get(type(node))
        if rule is None:
            raise Unsupported(f"cannot infer the type of {type(node).__name__}")
        yield from rule(self, node)

    def of(self, node: ast.Expr) -> rt.Type:
        """Return the type of a visited expression; parts of it may be unknown."""
        return self.types[id(node)]

    def _give(self, node: ast.Expr, ty: rt.Type) -> None:
        known = self.types.get(id(node))
        self.types[id(node)] = ty if known is None else unify(known, ty, self.at(node, "a value"))

    @staticmethod
    def at(node: object, text: str) -> str:
        """Return ``text`` with the source location of ``node``."""
        span = getattr(node, "span", None)
        return f"{text} at {span}" if span is not None else text

    # -- leaves --------------------------------------------------------------------------------

    def _var(self, node: ast.Var) -> Visit:
        self.types.setdefault(id(node), opened(node.type_annotation))
        return iter(())

    def _constant(self, node: ast.Constant) -> Visit:
        self._give(node, rt.TensorType(node.data.shape, str(node.data.dtype)))
        return iter(())

    def _global(self, node: ast.GlobalVar) -> Visit:
        if node.name_hint not in self.mod:
            raise TypeMismatch(self.at(node, f"the module has no function @{node.name_hint}"))
        func = self.mod[node.name_hint]
        self.types[id(node)] = self._header(func)  # its body may call it by this node
        yield func
        self.types[id(node)] = self.of(func)

    def _constructor(self, node: ast.Constructor) -> Visit:
        data = self.mod.type_definitions.get(node.belong_to)
        if data is None:
            raise TypeMismatch(
                f"constructor {node.name_hint}: the module has no data type {node.belong_to}"
            )
        inputs = next((c.inputs for c in data.constructors if c.name == node.name_hint), None)
        if inputs is None:
            raise TypeMismatch(f"data type {node.belong_to} has no constructor {node.name_hint}")
        whole = rt.TypeCall(data.header, data.type_vars)
        self._give(node, rt.FuncType(tuple(map(opened, inputs)), whole, data.type_vars))
        return iter(())

    def _op(self, node: ast.Op) -> Visit:
        """Infer the type of an operator used as a value, as a function of its arguments."""
        row = OPS[node.name]
        params = [ast.Var(f"x{k}") for k, _ in enumerate(row.args)]
        func = ast.Function(params, ast.Call(node, params))
        yield func
        self.types[id(node)] = self.of(func)
        self.started.discard(id(node))  # infer a separate type for each use

    # -- functions and calls -------------------------------------------------------------------

    def _header(self, func: ast.Function) -> rt.FuncType:
        """Return the type given by a function's annotations, before its body is visited."""
        known = self.types.get(id(func))
        if known is None:
            for p in func.params:
                self.started.add(id(p))
                self.nodes[id(p)] = p
                self.types.setdefault(id(p), opened(p.type_annotation))
            args = tuple(self.of(p) for p in func.params)
            known = rt.FuncType(args, opened(func.ret_type), func.type_params)
            self.types[id(func)] = known
        assert isinstance(known, rt.FuncType)
        return known

    def _function(self, func: ast.Function) -> Visit:
        header = self._header(func)
        yield func.body
        result = unify(header.ret_type, self.of(func.body), self.at(func, "a function's result"))
        self.types[id(func)] = rt.FuncType(header.arg_types, result, func.type_params)

    def _call(self, call: ast.Call) -> Visit:
        yield from call.args
        if isinstance(call.op, ast.Op):
            self._operator(call, call.op.name)
            return
        yield call.op
        callee = head(self.of(call.op))
        if isinstance(callee, Unknown):
            args = tuple(self.of(a) for a in call.args)
            made = rt.FuncType(args, Unknown())
            unify(callee, made, self.at(call, "a call"))
            self._give(call, made.ret_type)
            return
        if not isinstance(callee, rt.FuncType):
            raise TypeMismatch(self.at(call, f"expected a function to call, found {shown(callee)}"))
        self._apply(call, callee)

    def _apply(self, call: ast.Call, callee: rt.FuncType) -> None:
        name = getattr(call.op, "name_hint", "a function")
        if len(callee.arg_types) != len(call.args):
            wanted = counted(len(callee.arg_types), "argument")
            text = f"{name}: expected {wanted}, found {len(call.args)}"
            raise TypeMismatch(self.at(call, text))
        if len(call.type_args) > len(callee.type_params):
            most = counted(len(callee.type_params), "type argument")
            text = f"{name}: expected at most {most}, found {len(call.type_args)}"
            raise TypeMismatch(self.at(call, text))
        callee, type_args = instance(callee, call.type_args)
        for k, (want, arg) in enumerate(zip(callee.arg_types, call.args, strict=True)):
            unify(want, self.of(arg), self.at(call, f"argument {k} of {name}"))
        if type_args:
            self.type_args[id(call)] = type_args
        self._give(call, callee.ret_type)

    def _operator(self, call: ast.Call, name: str) -> None:
        row = OPS.get(name)
        if row is None:
            raise Unsupported(self.at(call, f"unknown operator {name}"))
        operands = tuple(self.of(a) for a in call.args)
        if len(operands) != len(row.args):
            names = ", ".join(n.lstrip("*") for n in row.args) or "none"
            raise TypeMismatch(
                self.at(
                    call,
                    f"{name}: expected {counted(len(row.args), 'operand')} ({names}), "
                    f"found {len(operands)}",
                )
            )
        if not any(map(passed_through, operands)):
            self._give(call, self.operators.result(row, operands, call))
            return
        waiting = _Waiting(call, row, operands, Unknown())
        self._give(call, waiting.out)
        self.waiting.append(waiting)
        self._advance(waiting)

    # -- structure -----------------------------------------------------------------------------

    def _let(self, let: ast.Let) -> Visit:
        yield let.var
        if isinstance(let.value, ast.Function):  # its body may call it
            what = self.at(let, f"'%{let.var.name_hint}'")
            self.types[id(let.var)] = unify(self.of(let.var), self._header(let.value), what)
        yield let.value
        what = self.at(let, f"'%{let.var.name_hint}'")
        self.types[id(let.var)] = unify(self.of(let.var), self.of(let.value), what)
        yield let.body
        self._give(let, self.of(let.body))

    def _if(self, node: ast.If) -> Visit:
        yield node.cond
        unify(rt.scalar_type("bool"), self.of(node.cond), self.at(node, "the condition of an if"))
        yield node.true_branch
        yield node.false_branch
        branches = self.of(node.true_branch), self.of(node.false_branch)
        self._give(node, unify(*branches, self.at(node, "the branches of an if")))

    def _tuple(self, node: ast.Tuple) -> Visit:
        yield from node.fields
        self._give(node, rt.TupleType(tuple(self.of(f) for f in node.fields)))

    def _field(self, node: ast.TupleGetItem) -> Visit:
        yield node.tuple_value
        field = _Field(node, self.of(node.tuple_value), Unknown())
        self._advance(field)
        if isinstance(field.whole, Unknown):  # not inferred yet, or may be generalized
            self.waiting.append(field)
            self._give(node, field.out)
        else:
            assert field.used is not None
            self._give(node, field.used)

    def _ref(self, node: ast.RefCreate) -> Visit:
        yield node.value
        self._give(node, rt.RefType(self.of(node.value)))

    def _read(self, node: ast.RefRead) -> Visit:
        yield node.ref
        self._give(node, self._inside(node.ref, self.at(node, "ref_read")))

    def _write(self, node: ast.RefWrite) -> Visit:
        yield node.ref
        yield node.value
        what = self.at(node, "ref_write")
        unify(self._inside(node.ref, what), self.of(node.value), what)
        self._give(node, rt.TupleType(()))

    def _inside(self, ref: ast.Expr, what: str) -> rt.Type:
        """Return the type of a reference's content."""
        inner = Unknown()
        unify(rt.RefType(inner), self.of(ref), what)
        return inner

    def _match(self, node: ast.Match) -> Visit:
        yield node.data
        out: rt.Type = Unknown()
        for clause in node.clauses:
            yield from self._pattern(clause.lhs, self.of(node.data), node)
            yield clause.rhs
            out = unify(out, self.of(clause.rhs), self.at(node, "the clauses of a match"))
        if node.complete and (missing := unmatched_cases(node, self.mod)):
            cases = ", ".join(map(pattern_text, missing))
            raise TypeMismatch(
                f"{self.at(node, 'a match')}: no clause matches {cases}; add one, or write match?"
            )
        self._give(node, out)

    def _pattern(self, pattern: ast.Pattern, ty: rt.Type, node: ast.Match) -> Visit:
        """Unify a pattern with the matched type, and assign types to its variables."""
        what = self.at(node, "a pattern of a match")
        if isinstance(pattern, ast.PatternVar):
            yield pattern.var
            self.types[id(pattern.var)] = unify(self.of(pattern.var), ty, what)
        elif isinstance(pattern, ast.PatternTuple):
            fields: tuple[rt.Type, ...] = tuple(Unknown() for _ in pattern.patterns)
            unify(rt.TupleType(fields), ty, what)
            for p, t in zip(pattern.patterns, fields, strict=True):
                yield from self._pattern(p, t, node)
        elif isinstance(pattern, ast.PatternConstructor):
            ctor = pattern.constructor
            yield ctor
            func = self.of(ctor)
            assert isinstance(func, rt.FuncType)
            func, _ = instance(func)
            if len(func.arg_types) != len(pattern.patterns):
                raise TypeMismatch(
                    f"{what}: {ctor.name_hint} has {counted(len(func.arg_types), 'field')}, "
                    f"found {counted(len(pattern.patterns), 'pattern')}"
                )
            unify(func.ret_type, ty, what)
            for p, t in zip(pattern.patterns, func.arg_types, strict=True):
                yield from self._pattern(p, t, node)

    # -- deferred calls and fields ---------------------------------------------------------------

    def settle(self) -> None:
        """Process deferred calls and fields until nothing changes.

        Raises:
            TypeMismatch: no use determines the type of an expression.
        """
        moved = True
        while moved:
            moved = False
            for waiting in self.waiting:
                moved = self._advance(waiting) or moved
        for node in self.nodes.values():
            if isinstance(head(self.of(node)), Unknown):
                self._refuse(node)

    def _advance(self, waiting: _Waiting | _Field) -> bool:
        """Recompute the type of a deferred call or field; return whether it changed."""
        if isinstance(waiting, _Field):
            return self._advance_field(waiting)
        moved = self._operands_from_uses(waiting)
        now = tuple(resolved(t) for t in waiting.operands)
        if now == waiting.used or not all(map(is_ground, now)):
            return moved
        waiting.used = now
        result = self.operators.result(waiting.row, now, waiting.call)
        what = self.at(waiting.call, f"the result of {waiting.row.name}")
        unify(waiting.out, result, what)
        return True

    def _operands_from_uses(self, waiting: _Waiting) -> bool:
        open_before = [not is_ground(t) for t in waiting.operands]
        if not any(open_before):
            return False
        row, what = waiting.row, self.at(waiting.call, f"an operand of {waiting.row.name}")
        if row.keeps_type:
            unify(waiting.operands[0], waiting.out, what)
        elif row.name in OPERANDS:
            types = [
                t if isinstance(t, rt.TensorType) else None for t in map(head, waiting.operands)
            ]
            for have, found in zip(
                waiting.operands, OPERANDS[row.name](types, waiting.call.attrs), strict=True
            ):
                if found is not None and isinstance(head(have), Unknown):
                    unify(have, found, what)
        return open_before != [not is_ground(t) for t in waiting.operands]

    def _advance_field(self, field: _Field) -> bool:
        whole = head(field.whole)
        if isinstance(whole, Unknown):
            return False
        node = field.node
        if not isinstance(whole, rt.TupleType) or node.index >= len(whole.fields):
            wanted = f"a tuple of at least {counted(node.index + 1, 'field')}"
            raise TypeMismatch(self.at(node, f"expected {wanted}, found {shown(whole)}"))
        inner = whole.fields[node.index]
        if inner is field.used:
            return False
        field.used = inner
        unify(field.out, inner, self.at(node, f"field {node.index}"))
        return True

    def _refuse(self, node: ast.Expr) -> None:
        """Raise TypeMismatch for ``node``, or for an operator call, whose type is unknown."""
        for waiting in self.waiting:
            if not isinstance(waiting, _Waiting) or waiting.used is not None:
                continue
            names = [n.lstrip("*") for n in waiting.row.args]
            known = ", ".join(
                f"{n}: {shown(t)}" for n, t in zip(names, waiting.operands, strict=True)
            )
            raise TypeMismatch(
                self.at(
                    waiting.call,
                    f"{waiting.row.name}({known}): unable to infer the types marked _ from their "
                    "uses; annotate the variables, as with relay.var(name, shape=..., dtype=...)",
                )
            )
        name = f"'%{node.name_hint}'" if isinstance(node, ast.Var) else f"a {type(node).__name__}"
        raise TypeMismatch(
            self.at(node, f"unable to infer the type of {name}: no use determines it; annotate it")
        )

    # -- the typed module ------------------------------------------------------------------------

    def annotated(self) -> IRModule:
        """Return the module with the inferred types."""
        final = {key: closed(ty) for key, ty in self.types.items()}
        roots = list(self.mod.functions.values())
        made = rebuilt(roots, lambda e, parts: self._typed(e, parts, final))
        for key, node in self.nodes.items():
            if isinstance(node, _SINGLE):
                node._checked_type = final[key]
        typed = self.mod.copy()
        for gv, func in self.mod.functions.items():
            new = made[id(func)]
            assert isinstance(new, ast.Function)
            typed.functions[gv] = new
            gv._checked_type = final[id(func)]
        return typed

    def _typed(self, node: ast.Expr, parts: Any, final: Mapping[int, rt.Type]) -> ast.Expr | None:
        """Return an expression with its type and missing annotation, or None to keep it."""
        ty = final.get(id(node))
        if ty is None or isinstance(node, _SINGLE):
            return None
        if isinstance(node, ast.Var):
            return self._typed_var(node, final)
        made = self._annotated(node, parts, ty, final) or with_children(node, parts)
        if made is node:
            if node._checked_type == ty:
                return node
            made = copy(node)
        made._checked_type = ty
        return made

    def _annotated(
        self, node: ast.Expr, parts: Any, ty: rt.Type, final: Mapping[int, rt.Type]
    ) -> ast.Expr | None:
        """Return a match, function or call with its missing annotations, or None if none is
        missing.
        """
        if isinstance(node, ast.Match):
            data, *rhs = parts
            clauses = [
                ast.Clause(self._typed_pattern(c.lhs, final), r)
                for c, r in zip(node.clauses, rhs, strict=True)
            ]
            if all(new.lhs is old.lhs for new, old in zip(clauses, node.clauses, strict=True)):
                return None
            return ast.Match(data, tuple(clauses), node.complete, node.span)
        if isinstance(node, ast.Function) and isinstance(ty, rt.FuncType):
            if not _is_open(node.ret_type):
                return None
            *params, body = parts
            return ast.Function(params, body, ty.ret_type, node.type_params, node.attrs, node.span)
        if isinstance(node, ast.Call) and id(node) in self.type_args and not node.type_args:
            args = tuple(map(closed, self.type_args[id(node)]))
            return ast.Call(parts[0], parts[1:], node.attrs, args, node.span)
        return None

    def _typed_var(self, var: ast.Var, final: Mapping[int, rt.Type]) -> ast.Var:
        """Return ``var`` if its annotation is its type, otherwise its annotated copy, of
        which there is one per variable.

        A fully annotated variable keeps its identity: scripts build more expressions around an
        inferred part and bind the variable object that they hold.
        """
        ty = final.get(id(var))
        if ty is None or var._checked_type == ty:
            return var
        if var.type_annotation == ty:
            var._checked_type = ty
            return var
        if id(var) not in self.renewed:
            annotation = ty if _is_open(var.type_annotation) else var.type_annotation
            self.renewed[id(var)] = ast.Var(var.name_hint, annotation, var.span)
            self.renewed[id(var)]._checked_type = ty
        return self.renewed[id(var)]

    def _typed_pattern(self, pattern: ast.Pattern, final: Mapping[int, rt.Type]) -> ast.Pattern:
        """Return a pattern whose variables have annotations."""
        if isinstance(pattern, ast.PatternVar):
            var = self._typed_var(pattern.var, final)
            return pattern if var is pattern.var else ast.PatternVar(var)
        if not isinstance(pattern, ast.PatternConstructor | ast.PatternTuple):
            return pattern
        inner = tuple(self._typed_pattern(p, final) for p in pattern.patterns)
        if all(a is b for a, b in zip(inner, pattern.patterns, strict=True)):
            return pattern
        if isinstance(pattern, ast.PatternTuple):
            return ast.PatternTuple(inner)
        return ast.PatternConstructor(pattern.constructor, inner)


_RULES: Mapping[type, Callable[[_Walk, Any], Visit]] = {
    ast.Var: _Walk._var,
    ast.Constant: _Walk._constant,
    ast.GlobalVar: _Walk._global,
    ast.Constructor: _Walk._constructor,
    ast.Op: _Walk._op,
    ast.Function: _Walk._function,
    ast.Call: _Walk._call,
    ast.Let: _Walk._let,
    ast.If: _Walk._if,
    ast.Tuple: _Walk._tuple,
    ast.TupleGetItem: _Walk._field,
    ast.RefCreate: _Walk._ref,
    ast.RefRead: _Walk._read,
    ast.RefWrite: _Walk._write,
    ast.Match: _Walk._match,
}

__all__ = ["annotate_inputs", "infer_type", "infer_types"]
