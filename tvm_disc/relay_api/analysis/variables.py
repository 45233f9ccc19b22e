"""Variables, type variables and element types of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tvm_disc.errors import BadNode, counted, shown
from tvm_disc.relay import types as ty
from tvm_disc.relay.expr import Call, Expr, Function, Match, Pattern, Var, as_expr
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import binders, pattern_vars, post_order
from tvm_disc.relay.visit import free_vars as _free_vars


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], object]) -> None:
    """Call ``fvisit`` with every node below ``expr`` once, operands before users."""
    if not callable(fvisit):
        raise BadNode(
            f"post_order_visit: expected a function that takes a node, found {shown(fvisit)}"
        )
    for node in post_order(as_expr(expr)):
        fvisit(node)


def free_vars(expr: Expr) -> list[Var]:
    """Return the free variables of ``expr``, in order of first use."""
    return _free_vars(as_expr(expr))


def bound_vars(expr: Expr | Pattern) -> list[Var]:
    """Return the variables that an expression or a pattern binds, outer ones first."""
    if isinstance(expr, Pattern):
        return list(pattern_vars(expr))
    order = post_order(as_expr(expr))
    bound = {id(v) for node in order for v in binders(node)}
    patterns = [v for node in order if isinstance(node, Match) for v in binders(node)]
    inside = {id(v) for v in patterns}
    plain = [v for v in order if isinstance(v, Var) and id(v) in bound - inside]
    return _once([*plain, *patterns])


def all_vars(expr: Expr) -> list[Var]:
    """Return every variable of an expression, in order of first use."""
    order = post_order(as_expr(expr))
    found: list[Var] = []
    for node in order:
        if isinstance(node, Var):
            found.append(node)
        elif isinstance(node, Match):
            found += binders(node)
    return _once(found)


def _once(found: Iterable[Var]) -> list[Var]:
    return list({id(v): v for v in found}.values())


def all_type_vars(expr: Expr | ty.Type, mod: IRModule | None = None) -> list[ty.TypeVar]:
    """Return every type variable of an expression or a type."""
    return list(dict.fromkeys(v for v, _ in _type_vars(expr)))


def bound_type_vars(expr: Expr | ty.Type, mod: IRModule | None = None) -> list[ty.TypeVar]:
    """Return the type variables that a function or a type binds."""
    return list(dict.fromkeys(v for v, binds in _type_vars(expr) if binds))


def free_type_vars(expr: Expr | ty.Type, mod: IRModule | None = None) -> list[ty.TypeVar]:
    """Return the free type variables of an expression or a type."""
    bound = set(bound_type_vars(expr))
    return [v for v in all_type_vars(expr) if v not in bound]


def _type_vars(of: Expr | ty.Type) -> Iterator[tuple[ty.TypeVar, bool]]:
    """Yield (type variable, whether this occurrence binds it)."""
    if isinstance(of, ty.Type):
        yield from _in_type(of)
        return
    for node in post_order(as_expr(of)):
        if isinstance(node, Function):
            yield from ((v, True) for v in node.type_params)
            if node.ret_type is not None:
                yield from _in_type(node.ret_type)
        elif isinstance(node, Var) and node.type_annotation is not None:
            yield from _in_type(node.type_annotation)
        elif isinstance(node, Call):
            for t in node.given_type_args:
                yield from _in_type(t)


def _in_type(of: ty.Type) -> Iterator[tuple[ty.TypeVar, bool]]:
    if isinstance(of, ty.TypeVar):
        yield of, False
    if isinstance(of, ty.FuncType):
        yield from ((v, True) for v in of.type_params)
    for part in ty.type_children(of):
        yield from _in_type(part)


def all_dtypes(expr: Expr) -> set[str]:
    """Return the element types of all subexpressions whose types have been inferred."""
    found: set[str] = set()
    for node in post_order(as_expr(expr)):
        if node._checked_type is not None:
            found |= {t.dtype for t in _tensors(node._checked_type)}
    return found


def _tensors(of: ty.Type) -> Iterator[ty.TensorType]:
    if isinstance(of, ty.TensorType):
        yield of
    for part in ty.type_children(of):
        yield from _tensors(part)


def check_kind(t: ty.Type, mod: IRModule | None = None) -> ty.TypeKind:
    """Return the kind of a type.

    Raises:
        BadNode: a part of the type does not have the kind that its position requires.
    """
    if not isinstance(t, ty.Type):
        raise BadNode(f"check_kind: expected a Relay type, found {shown(t)}")
    if isinstance(t, ty.TypeVar | ty.GlobalTypeVar | ty.IncompleteType):
        return ty.TypeKind(t.kind)
    if isinstance(t, ty.TypeRelation):
        _check_all(t.args, "argument of a relation", mod)
        return ty.TypeKind.Constraint
    if isinstance(t, ty.TypeData):
        return _check_data(t, mod)
    if isinstance(t, ty.TypeCall):
        _check_type_call(t, mod)
    if isinstance(t, ty.FuncType):
        _check_all(t.type_params, "type parameter", mod)
        for relation in t.type_constraints:
            _check(relation, "constraint", ty.TypeKind.Constraint, mod)
    places = {ty.TupleType: "tuple member", ty.FuncType: "argument or result of a function"}
    _check_all(ty.type_children(t), places.get(type(t), "type inside another"), mod)
    return ty.TypeKind.Type


def _check(t: ty.Type, place: str, wanted: ty.TypeKind, mod: IRModule | None) -> None:
    found = check_kind(t, mod)
    if found is not wanted:
        raise BadNode(
            f"incorrect kind for a {place}: {t} is of kind {found.name}, expected {wanted.name}"
        )


def _check_all(types: Iterable[ty.Type], place: str, mod: IRModule | None) -> None:
    for t in types:
        _check(t, place, ty.TypeKind.Type, mod)


def _check_type_call(t: ty.TypeCall, mod: IRModule | None) -> None:
    if not isinstance(t.func, ty.GlobalTypeVar):
        raise BadNode(
            f"{t}: the callee of a type call: expected the name of a data type, found {t.func}"
        )
    _check(t.func, "callee of a type call", ty.TypeKind.AdtHandle, mod)
    if mod is None or t.func not in mod:
        where = (
            "pass the module that defines it as mod=" if mod is None else "mod does not define it"
        )
        raise BadNode(f"{t}: type {t.func} is undefined; {where}")
    count = len(mod[t.func].type_vars)
    if count != len(t.args):
        expected = counted(count, "type argument")
        raise BadNode(f"{t}: expected {expected}, found {len(t.args)}")


def _check_data(t: ty.TypeData, mod: IRModule | None) -> ty.TypeKind:
    _check(t.header, "header of a data type", ty.TypeKind.AdtHandle, mod)
    _check_all(t.type_vars, "type variable of a data type", mod)
    for ctor in t.constructors:
        inside = mod.copy() if mod is not None else IRModule()
        inside.add_type(t)
        _check_all(ctor.inputs, f"field of {ctor.name}", inside)
    return ty.TypeKind.TypeData


__all__ = [
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_kind",
    "free_type_vars",
    "free_vars",
    "post_order_visit",
]
