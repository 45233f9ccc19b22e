"""Kinds: types of values without symbolic dims, inferred by unification for boxed values.

Relay infers the type arguments of constructors and polymorphic functions. Here a type argument is a
:class:`Hole` that is bound at its first use. A kind keeps literal dims only, since a symbol is
valid in one function only. If two uses disagree in a literal dim, :class:`Wider` records that the
dim is unknown at the program point that created the hole, and the import restarts. This terminates
because the number of dims is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay import types as rt


@dataclass(frozen=True)
class TensorKind:
    """A tensor with its literal dims; other dims are None."""

    dims: tuple[int | None, ...]
    dtype: str
    site: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if not self.dims:
            return self.dtype
        return (
            f"Tensor[({', '.join('?' if d is None else str(d) for d in self.dims)}), {self.dtype}]"
        )


@dataclass(frozen=True)
class TupleKind:
    """A tuple."""

    fields: tuple[Kind, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class DataKind:
    """A data type with its type arguments."""

    name: str
    args: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.args))}]" if self.args else self.name


@dataclass(frozen=True)
class RefKind:
    """A reference."""

    inner: Kind

    def __str__(self) -> str:
        return f"ref({self.inner})"


@dataclass(frozen=True)
class FuncKind:
    """A function that is a run-time value."""

    params: tuple[Kind, ...]
    result: Kind

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.params))}) -> {self.result}"


@dataclass(eq=False)
class Hole:
    """A type that is not known yet; ``site`` is the program point that created it."""

    site: int = 0
    link: Kind | None = None

    def __str__(self) -> str:
        return "_" if self.link is None else str(self.link)


Kind: TypeAlias = "TensorKind | TupleKind | DataKind | RefKind | FuncKind | Hole"
WideKey: TypeAlias = tuple[int, int, str]


class Wider(Exception):
    """Raised if a hole was bound to a literal dim, and another use has a different dim."""

    def __init__(self, found: Mapping[WideKey, tuple[int | None, ...]]) -> None:
        super().__init__("a type must be wider")
        self.found = dict(found)


def parts(kind: Kind) -> tuple[Kind, ...]:
    """Return the kinds directly inside ``kind``."""
    if isinstance(kind, TupleKind):
        return kind.fields
    if isinstance(kind, DataKind):
        return kind.args
    if isinstance(kind, RefKind):
        return (kind.inner,)
    if isinstance(kind, FuncKind):
        return (*kind.params, kind.result)
    return ()


def with_parts(kind: Kind, inner: Sequence[Kind]) -> Kind:
    """Return ``kind`` with its inner kinds replaced."""
    if isinstance(kind, TupleKind):
        return TupleKind(tuple(inner))
    if isinstance(kind, DataKind):
        return DataKind(kind.name, tuple(inner))
    if isinstance(kind, RefKind):
        return RefKind(inner[0])
    if isinstance(kind, FuncKind):
        return FuncKind(tuple(inner[:-1]), inner[-1])
    return kind


def resolve(kind: Kind) -> Kind:
    """Return ``kind`` with bound holes replaced, at every depth."""
    while isinstance(kind, Hole) and kind.link is not None:
        kind = kind.link
    return with_parts(kind, [resolve(k) for k in parts(kind)])


def key(kind: Kind) -> object:
    """Return a hashable key of a kind for specialization; an unbound hole is equal only to
    itself.
    """
    kind = resolve(kind)
    if isinstance(kind, Hole):
        return ("hole", id(kind))
    if isinstance(kind, TensorKind):
        return ("tensor", kind.dims, kind.dtype)
    name = kind.name if isinstance(kind, DataKind) else ""
    return (type(kind).__name__, name, tuple(key(k) for k in parts(kind)))


class Kinds:
    """Unification of kinds, with the widenings found by earlier imports of the module.

    Attributes:
        wide: the dims of a tensor kind that is bound to a hole, by the hole's site, rank and dtype;
            None for a dim in which uses disagreed.
    """

    def __init__(self, wide: dict[WideKey, tuple[int | None, ...]]) -> None:
        self.wide = wide

    def unify(self, a: Kind, b: Kind, what: str) -> None:
        """Unify two kinds; ``what`` describes the location in messages.

        Raises:
            TypeMismatch: the kinds differ.
            Wider: the kinds differ in literal dims that came from a hole.
        """
        stack = [(a, b)]
        while stack:
            x, y = (_head(k) for k in stack.pop())
            if x is y:
                continue
            if isinstance(x, Hole):
                self._fill(x, y, what)
            elif isinstance(y, Hole):
                self._fill(y, x, what)
            elif isinstance(x, TensorKind) and isinstance(y, TensorKind):
                self._same_tensor(x, y, what)
            elif not _alike(x, y):
                raise TypeMismatch(f"{what}: expected {resolve(a)}, found {resolve(b)}")
            else:
                stack.extend(zip(parts(x), parts(y), strict=True))

    def _fill(self, hole: Hole, kind: Kind, what: str) -> None:
        if _occurs(hole, kind):
            raise TypeMismatch(f"{what}: a type would contain itself: {resolve(kind)}")
        hole.link = self._sited(kind, hole.site)

    def _sited(self, kind: Kind, site: int) -> Kind:
        kind = resolve(kind)
        if isinstance(kind, TensorKind):
            dims = self.wide.get((site, len(kind.dims), kind.dtype))
            return TensorKind(joined(kind.dims, dims or kind.dims), kind.dtype, site)
        return with_parts(kind, [self._sited(k, site) for k in parts(kind)])

    def _same_tensor(self, x: TensorKind, y: TensorKind, what: str) -> None:
        if x.dtype != y.dtype or len(x.dims) != len(y.dims):
            raise TypeMismatch(f"{what}: expected {x}, found {y}")
        if x.dims == y.dims:
            return
        dims = joined(x.dims, y.dims)
        sites = {k.site for k in (x, y) if k.site is not None and k.dims != dims}
        if not sites:
            raise TypeMismatch(f"{what}: expected {x}, found {y}")
        raise Wider({(s, len(dims), x.dtype): dims for s in sites})


def joined(a: Sequence[int | None], b: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the dims that agree, None for others."""
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _head(kind: Kind) -> Kind:
    while isinstance(kind, Hole) and kind.link is not None:
        kind = kind.link
    return kind


def _alike(x: Kind, y: Kind) -> bool:
    same_name = not isinstance(x, DataKind) or x.name == getattr(y, "name", None)
    return type(x) is type(y) and same_name and len(parts(x)) == len(parts(y))


def _occurs(hole: Hole, kind: Kind) -> bool:
    kind = _head(kind)
    return kind is hole or any(_occurs(hole, k) for k in parts(kind))


def from_type(ty: rt.Type | None, variable: Callable[[rt.TypeVar], Kind], site: int) -> Kind:
    """Return the kind of a Relay type; types left to inference become holes."""
    if isinstance(ty, rt.TensorType):
        return TensorKind(tuple(d if isinstance(d, int) else None for d in ty.shape), ty.dtype)
    if isinstance(ty, rt.TupleType):
        return TupleKind(tuple(from_type(f, variable, site) for f in ty.fields))
    if isinstance(ty, rt.TypeVar):
        return variable(ty)
    if isinstance(ty, rt.GlobalTypeVar):
        return DataKind(ty.name)
    if isinstance(ty, rt.TypeCall) and isinstance(ty.func, rt.GlobalTypeVar):
        return DataKind(ty.func.name, tuple(from_type(a, variable, site) for a in ty.args))
    if isinstance(ty, rt.RefType):
        return RefKind(from_type(ty.value, variable, site))
    if isinstance(ty, rt.FuncType):
        if ty.type_params:
            raise Unsupported(
                "a polymorphic function cannot be a run-time value; remove its type parameters"
            )
        params = tuple(from_type(a, variable, site) for a in ty.arg_types)
        return FuncKind(params, from_type(ty.ret_type, variable, site))
    return Hole(site)
