"""Relay types and the dimensions inside them.

Everything here is an immutable value.  Two types are equal when they are spelled alike, with one
exception that Relay itself makes: an anonymous ``Any`` dimension equals nothing, because nothing
is known about it.  Use ``structural_equal`` to compare types the way Relay compares modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..errors import BadNode

_DTYPE = re.compile(
    r"(?:u?int(?:1|2|4|8|16|32|64)|float(?:16|32|64|4_\w+|6_\w+|8_\w+)|bfloat16|bool|handle)"
    r"(?:x[1-9][0-9]{0,3})?"
)

DIM_OPS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "FloorDiv": "//",
    "FloorMod": "%",
    "Div": "/",
    "Mod": "mod",
    "Max": "max",
    "Min": "min",
}


class DimExpr:
    """A dimension that is not a number: arithmetic on it builds a ``DimOp``."""

    def __add__(self, other: Dim) -> DimOp:
        return DimOp("Add", self, other)

    def __radd__(self, other: Dim) -> DimOp:
        return DimOp("Add", other, self)

    def __sub__(self, other: Dim) -> DimOp:
        return DimOp("Sub", self, other)

    def __rsub__(self, other: Dim) -> DimOp:
        return DimOp("Sub", other, self)

    def __mul__(self, other: Dim) -> DimOp:
        return DimOp("Mul", self, other)

    def __rmul__(self, other: Dim) -> DimOp:
        return DimOp("Mul", other, self)

    def __floordiv__(self, other: Dim) -> DimOp:
        return DimOp("FloorDiv", self, other)

    def __mod__(self, other: Dim) -> DimOp:
        return DimOp("FloorMod", self, other)


class Any(DimExpr):
    """An unknown dimension, printed ``?``.

    ``Any()`` is anonymous and never equal to another; ``Any("s")`` equals every ``Any("s")``.
    """

    __slots__ = ("name",)

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Any) and self.name is not None and self.name == other.name

    def __hash__(self) -> int:
        return hash(("Any", self.name if self.name is not None else id(self)))

    def __repr__(self) -> str:
        return "?" if self.name is None else f"?{self.name}"


@dataclass(frozen=True)
class DimVar(DimExpr):
    """A named dimension (``tir.Var``; ``tir.SizeVar`` when ``size``, i.e. known non-negative)."""

    name: str
    dtype: str = "int32"
    size: bool = False

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DimOp(DimExpr):
    """Arithmetic on dimensions; ``op`` is a key of ``DIM_OPS``."""

    op: str
    a: Dim
    b: Dim

    def __post_init__(self) -> None:
        if self.op not in DIM_OPS:
            raise BadNode(f"unknown dimension operator {self.op!r}; known: {sorted(DIM_OPS)}")

    def __repr__(self) -> str:
        sign = DIM_OPS[self.op]
        return f"{sign}({self.a}, {self.b})" if sign.isalpha() else f"({self.a} {sign} {self.b})"


Dim = int | DimExpr


def size_var(name: str, dtype: str = "int32") -> DimVar:
    """A named non-negative dimension; the same name means the same dimension."""
    return DimVar(name, dtype, size=True)


ShapeVar = size_var


class Type:
    """Base class of Relay types."""


def as_dim(value: object) -> Dim:
    """Check one dimension: a non-negative int or a ``DimExpr``; raises TypeError otherwise."""
    if isinstance(value, DimExpr):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise BadNode(f"a dimension is an int, relay.Any() or a size variable, found {value!r}")
    number = int(value.__index__())
    if number < 0:
        raise BadNode(f"a dimension cannot be negative, found {number}")
    if number >= 1 << 63:
        raise BadNode("a dimension is less than 2**63")
    return number


def is_dtype(name: object) -> bool:
    """Whether this is the name of an element type."""
    return isinstance(name, str) and _DTYPE.fullmatch(name) is not None


@dataclass(frozen=True)
class TensorType(Type):
    """``Tensor[(d0, d1), dtype]``; a rank-0 tensor prints as its dtype."""

    shape: tuple[Dim, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        shape: object = self.shape
        if not isinstance(shape, Iterable):  # a lone number is a common slip
            raise BadNode(f"a shape is a sequence of dimensions, found {shape!r}")
        object.__setattr__(self, "shape", tuple(as_dim(d) for d in shape))
        dtype = str(self.dtype)
        if not is_dtype(dtype):
            raise BadNode(f"expected an element type such as float32 or int64, found {dtype!r}")
        object.__setattr__(self, "dtype", dtype)


@dataclass(frozen=True)
class TupleType(Type):
    """``(T0, T1)``."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))


@dataclass(frozen=True)
class TypeVar(Type):
    """A type parameter of a function or a data type."""

    name: str
    kind: int = 0


@dataclass(frozen=True)
class GlobalTypeVar(Type):
    """The name of a data type."""

    name: str


@dataclass(frozen=True)
class FuncType(Type):
    """``fn [A](T0, T1) -> R``."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeVar, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "arg_types", tuple(self.arg_types))
        object.__setattr__(self, "type_params", tuple(self.type_params))


@dataclass(frozen=True)
class TypeCall(Type):
    """A data type applied to arguments: ``List[int32]``; no arguments for a plain one."""

    func: Type
    args: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(self.args))


@dataclass(frozen=True)
class RefType(Type):
    """A reference cell holding ``value``."""

    value: Type


@dataclass(frozen=True)
class IncompleteType(Type):
    """A type left to inference, printed ``_``."""


@dataclass(frozen=True)
class ConstructorSig:
    """One alternative of a data type: its name and the types of its fields."""

    name: str
    inputs: tuple[Type, ...] = ()


@dataclass(frozen=True)
class TypeData(Type):
    """``type List[A] { Cons(A, List[A]), Nil }``: the definition behind a ``GlobalTypeVar``."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...] = ()
    constructors: tuple[ConstructorSig, ...] = field(default=())


def scalar_type(dtype: str) -> TensorType:
    """The type of a rank-0 tensor."""
    return TensorType((), dtype)


def dims_of(ty: Type | None) -> Iterator[Dim]:
    """Every dimension inside ``ty``, left to right."""
    if isinstance(ty, TensorType):
        yield from ty.shape
        return
    for part in type_children(ty):
        yield from dims_of(part)


def type_children(ty: Type | None) -> tuple[Type, ...]:
    """The types directly inside ``ty``."""
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, FuncType):
        return (*ty.arg_types, ty.ret_type)
    if isinstance(ty, TypeCall):
        return ty.args
    if isinstance(ty, RefType):
        return (ty.value,)
    return ()


def is_dynamic(ty: Type | None) -> bool:
    """True if some dimension of ``ty`` is not a plain number."""
    return any(not isinstance(dim, int) for dim in dims_of(ty))
