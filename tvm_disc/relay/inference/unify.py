"""Unification of types: unknown types are bound, and dims that differ are widened.

As in Relay, ``?`` unified with any dim is ``?``: the parameter type of a loop decides whether its
state may grow. Two literal dims must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay import types as rt


class Unknown(rt.Type):
    """A type to be inferred; ``link`` is the type that it was unified with, or None."""

    __slots__ = ("link",)

    def __init__(self) -> None:
        self.link: rt.Type | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def cell_of(ty: rt.Type) -> tuple[Unknown | None, rt.Type | None]:
    """Follow the links of ``ty``; return the last :class:`Unknown` and the type at the end.

    The first is None if ``ty`` is not unknown, the second if the last unknown is unbound.
    """
    cell = None
    here: rt.Type | None = ty
    while isinstance(here, Unknown):
        cell, here = here, here.link
    return cell, here


def head(ty: rt.Type) -> rt.Type:
    """Return the type to which the links of ``ty`` lead; the last :class:`Unknown` if unbound."""
    cell, known = cell_of(ty)
    if known is not None:
        return known
    assert cell is not None
    return cell


def mapped(ty: rt.Type, change: Callable[[rt.Type], rt.Type]) -> rt.Type:
    """Return ``ty`` with its direct parts changed, or ``ty`` itself if no part changes."""
    parts = rt.type_children(ty)
    new = [change(p) for p in parts]
    if all(a is b for a, b in zip(parts, new, strict=True)):
        return ty
    if isinstance(ty, rt.TupleType):
        return rt.TupleType(tuple(new))
    if isinstance(ty, rt.FuncType):
        return rt.FuncType(tuple(new[:-1]), new[-1], ty.type_params)
    if isinstance(ty, rt.TypeCall):
        return rt.TypeCall(ty.func, tuple(new))
    assert isinstance(ty, rt.RefType)
    return rt.RefType(new[0])


def resolved(ty: rt.Type) -> rt.Type:
    """Return a type with all known parts filled in; unbound parts stay :class:`Unknown`."""
    ty = head(ty)
    return ty if isinstance(ty, Unknown) else mapped(ty, resolved)


def closed(ty: rt.Type) -> rt.Type:
    """Return a type for external use: unbound parts are ``IncompleteType``."""
    ty = head(ty)
    return rt.IncompleteType() if isinstance(ty, Unknown) else mapped(ty, closed)


def opened(ty: rt.Type | None) -> rt.Type:
    """Return an external type for inference.

    Each missing part becomes a new :class:`Unknown`, and a data type without arguments becomes an
    application to no arguments.

    Raises:
        TypeMismatch: the kind of a type variable is not ``Type``.
    """
    if isinstance(ty, rt.TypeVar) and ty.kind != rt.TypeKind.Type:
        kind = rt.TypeKind(ty.kind).name
        raise TypeMismatch(f"type variable {ty.name}: expected the kind Type, found {kind}")
    if ty is None or isinstance(ty, rt.IncompleteType):
        return Unknown()
    if isinstance(ty, rt.GlobalTypeVar):
        return rt.TypeCall(ty, ())
    return mapped(ty, opened)


def is_ground(ty: rt.Type) -> bool:
    """Return whether a type has no unbound parts."""
    ty = head(ty)
    return not isinstance(ty, Unknown) and all(map(is_ground, rt.type_children(ty)))


def passed_through(ty: rt.Type) -> bool:
    """Return whether a type contains an :class:`Unknown`, bound or unbound.

    Its dims may still become ``?``.
    """
    return isinstance(ty, Unknown) or any(map(passed_through, rt.type_children(ty)))


def substituted(ty: rt.Type, types: Mapping[rt.TypeVar, rt.Type]) -> rt.Type:
    """Return a type with its free type variables replaced."""
    ty = head(ty)
    if isinstance(ty, rt.TypeVar):
        return types.get(ty, ty)
    if isinstance(ty, rt.FuncType) and ty.type_params:
        types = {v: t for v, t in types.items() if v not in ty.type_params}
    return mapped(ty, lambda t: substituted(t, types))


def instance(
    func: rt.FuncType, given: Sequence[rt.Type] = ()
) -> tuple[rt.FuncType, tuple[rt.Type, ...]]:
    """Return a polymorphic function's type at one use, and its type arguments there."""
    if not func.type_params:
        return func, ()
    args = tuple(
        opened(given[k]) if k < len(given) else Unknown() for k, _ in enumerate(func.type_params)
    )
    types = dict(zip(func.type_params, args, strict=True))
    params = tuple(substituted(t, types) for t in func.arg_types)
    return rt.FuncType(params, substituted(func.ret_type, types)), args


def shown(ty: rt.Type) -> str:
    """Return a type as Relay text, for messages."""
    return str(closed(ty))


def unify(a: rt.Type, b: rt.Type, what: str) -> rt.Type:
    """Unify two types and return the result; ``what`` describes the location in messages.

    Raises:
        TypeMismatch: the types cannot be unified.
    """
    cell_a, known_a = cell_of(a)
    cell_b, known_b = cell_of(b)
    if cell_a is not None and cell_a is cell_b:
        return cell_a
    if known_a is None or known_b is None:
        open_cell, other = (cell_a, b) if known_a is None else (cell_b, a)
        assert open_cell is not None
        _fill(open_cell, other, what)
        return open_cell
    try:
        joined = _joined(known_a, known_b, what)
    except _Differ as reason:
        raise TypeMismatch(
            f"{what}: expected {shown(known_a)}, found {shown(known_b)}{reason}"
        ) from None
    if cell_b is not None:
        cell_b.link = cell_a or joined
    if cell_a is not None:
        cell_a.link = joined
    return cell_a or cell_b or joined


class _Differ(Exception):
    """Raised if two types cannot be unified; the text is appended to a message."""


def _fill(cell: Unknown, ty: rt.Type, what: str) -> None:
    if _occurs(cell, ty):
        raise TypeMismatch(f"{what}: a type would contain itself: {shown(ty)}")
    cell.link = ty


def _occurs(cell: Unknown, ty: rt.Type) -> bool:
    ty = head(ty)
    return ty is cell or any(_occurs(cell, t) for t in rt.type_children(ty))


def _joined(a: rt.Type, b: rt.Type, what: str) -> rt.Type:
    if isinstance(a, rt.TensorType) and isinstance(b, rt.TensorType):
        return _tensor(a, b)
    if isinstance(a, rt.FuncType) and isinstance(b, rt.FuncType):
        return _function(a, b, what)
    parts, others = rt.type_children(a), rt.type_children(b)
    if type(a) is not type(b) or len(parts) != len(others):
        raise _Differ("")
    if isinstance(a, rt.TypeCall) and isinstance(b, rt.TypeCall) and a.func != b.func:
        raise _Differ("")
    if not parts:
        if a != b:
            raise _Differ("")
        return a
    new = iter([unify(x, y, what) for x, y in zip(parts, others, strict=True)])
    return mapped(a, lambda _: next(new))


def _tensor(a: rt.TensorType, b: rt.TensorType) -> rt.TensorType:
    if a is b or a == b:
        return a
    if a.dtype != b.dtype:
        raise _Differ(f"; in particular the element types conflict: {a.dtype} and {b.dtype}")
    if len(a.shape) != len(b.shape):
        raise _Differ(f"; in particular the ranks conflict: {len(a.shape)} and {len(b.shape)}")
    dims = tuple(_dim(k, x, y) for k, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)))
    return rt.TensorType(dims, a.dtype)


def _dim(axis: int, a: rt.Dim, b: rt.Dim) -> rt.Dim:
    if a == b:
        return a
    if isinstance(a, rt.Any) or isinstance(b, rt.Any):
        return rt.Any()
    if isinstance(a, rt.DimVar):
        return b
    if isinstance(b, rt.DimVar):
        return a
    if isinstance(a, int) and isinstance(b, int):
        raise _Differ(f"; in particular dimension {axis} conflicts: {a} does not match {b}")
    return rt.Any()


def _function(a: rt.FuncType, b: rt.FuncType, what: str) -> rt.Type:
    """Unify function types.

    If both have the same number of type parameters, the parameters of ``b`` are renamed to those of
    ``a``; otherwise both functions are instantiated.
    """
    if len(a.arg_types) != len(b.arg_types):
        raise _Differ(
            f"; in particular they take {len(a.arg_types)} and {len(b.arg_types)} arguments"
        )
    if a.type_params and len(a.type_params) == len(b.type_params):
        own = dict(zip(b.type_params, a.type_params, strict=True))
        arg_types = tuple(substituted(t, own) for t in b.arg_types)
        b = rt.FuncType(arg_types, substituted(b.ret_type, own), a.type_params)
    elif len(a.type_params) != len(b.type_params):
        a, b = instance(a)[0], instance(b)[0]
    args = tuple(unify(x, y, what) for x, y in zip(a.arg_types, b.arg_types, strict=True))
    return rt.FuncType(args, unify(a.ret_type, b.ret_type, what), a.type_params)


__all__ = [
    "Unknown",
    "closed",
    "head",
    "instance",
    "is_ground",
    "opened",
    "passed_through",
    "resolved",
    "shown",
    "substituted",
    "unify",
]
