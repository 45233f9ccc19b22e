"""Unification of types: what is not known yet is filled, and dims that differ are widened.

As in Relay, ``?`` against anything is ``?``: a loop may grow what it carries if its parameter
says so. Two numbers must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay import types as rt


class Unknown(rt.Type):
    """A type to be found; ``link`` is what is known of it so far."""

    __slots__ = ("link",)

    def __init__(self) -> None:
        self.link: rt.Type | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def cell_of(ty: rt.Type) -> tuple[Unknown | None, rt.Type | None]:
    """The last unknown on the way to a type, and the type behind it, as far as there are such."""
    cell = None
    here: rt.Type | None = ty
    while isinstance(here, Unknown):
        cell, here = here, here.link
    return cell, here


def head(ty: rt.Type) -> rt.Type:
    """A type without the unknowns in front of it; an :class:`Unknown` if it is still open."""
    cell, known = cell_of(ty)
    if known is not None:
        return known
    assert cell is not None
    return cell


def mapped(ty: rt.Type, change: Callable[[rt.Type], rt.Type]) -> rt.Type:
    """``ty`` with the types directly inside of it changed; itself if none is."""
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
    """A type with everything in it that is known; what is open stays an :class:`Unknown`."""
    ty = head(ty)
    return ty if isinstance(ty, Unknown) else mapped(ty, resolved)


def closed(ty: rt.Type) -> rt.Type:
    """A type for the world outside: what is open is an ``IncompleteType``."""
    ty = head(ty)
    return rt.IncompleteType() if isinstance(ty, Unknown) else mapped(ty, closed)


def opened(ty: rt.Type | None) -> rt.Type:
    """A type from outside: what it leaves open becomes an :class:`Unknown` of its own, and a data
    type without arguments is one that is applied to none."""
    if ty is None or isinstance(ty, rt.IncompleteType):
        return Unknown()
    if isinstance(ty, rt.GlobalTypeVar):
        return rt.TypeCall(ty, ())
    return mapped(ty, opened)


def is_ground(ty: rt.Type) -> bool:
    """Whether nothing of a type is open."""
    ty = head(ty)
    return not isinstance(ty, Unknown) and all(map(is_ground, rt.type_children(ty)))


def passed_through(ty: rt.Type) -> bool:
    """Whether an unknown lies on the way: the type may become wider."""
    return isinstance(ty, Unknown) or any(map(passed_through, rt.type_children(ty)))


def substituted(ty: rt.Type, types: Mapping[rt.TypeVar, rt.Type]) -> rt.Type:
    """A type with its type variables replaced, but for those that it binds itself."""
    ty = head(ty)
    if isinstance(ty, rt.TypeVar):
        return types.get(ty, ty)
    if isinstance(ty, rt.FuncType) and ty.type_params:
        types = {v: t for v, t in types.items() if v not in ty.type_params}
    return mapped(ty, lambda t: substituted(t, types))


def instance(
    func: rt.FuncType, given: Sequence[rt.Type] = ()
) -> tuple[rt.FuncType, tuple[rt.Type, ...]]:
    """A polymorphic function's type at one use, and what its type parameters are there."""
    if not func.type_params:
        return func, ()
    args = tuple(
        opened(given[k]) if k < len(given) else Unknown() for k, _ in enumerate(func.type_params)
    )
    types = dict(zip(func.type_params, args, strict=True))
    params = tuple(substituted(t, types) for t in func.arg_types)
    return rt.FuncType(params, substituted(func.ret_type, types)), args


def shown(ty: rt.Type) -> str:
    """A type as Relay's text writes it, for messages."""
    return str(closed(ty))


def unify(a: rt.Type, b: rt.Type, what: str) -> rt.Type:
    """The type that both are; ``what`` names the place for messages.

    Raises:
        TypeMismatch: there is none.
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
    """Two types that cannot be one; the text continues a message."""


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
    """Polymorphic functions meet with the same type parameters; against one that has fewer, a
    function is taken at one use."""
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
