"""Relay types and the dimensions inside them.

All are immutable values. Two types are equal if they have the same text, up to the names of the
type parameters that they bind. As in Relay, this holds for types with ``?`` too. The dims of equal
types need not be equal: an anonymous ``Any`` equals no dim, because nothing is known about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any as Anything
from typing import ClassVar

from ..errors import BadNode, parts_of, shown

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

    An anonymous ``Any()`` is equal to no dim, not even to itself; ``Any("s")`` equals every
    ``Any("s")``.
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
    """An arithmetic operation on dimensions; ``op`` is a key of ``DIM_OPS``."""

    op: str
    a: Dim
    b: Dim

    def __post_init__(self) -> None:
        if not isinstance(self.op, str) or self.op not in DIM_OPS:
            known = ", ".join(sorted(DIM_OPS))
            raise BadNode(f"expected a dimension operator, one of {known}; found {shown(self.op)}")

    def __repr__(self) -> str:
        sign = DIM_OPS[self.op]
        return f"{sign}({self.a}, {self.b})" if sign.isalpha() else f"({self.a} {sign} {self.b})"


Dim = int | DimExpr


def size_var(name: str, dtype: str = "int32") -> DimVar:
    """Return a named non-negative dimension; equal names are the same dimension."""
    return DimVar(name, dtype, size=True)


ShapeVar = size_var


class TypeKind(IntEnum):
    """Kind of a type variable, numbered as in Relay."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class Type:
    """Base class of Relay types; calling a type applies a data type to arguments."""

    span = None

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` is this object."""
        return self is other

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and same_type(self, other)

    def __hash__(self) -> int:
        return hash(_outline(self))

    def __str__(self) -> str:
        return type_text(self)


def as_dim(value: object) -> Dim:
    """Return a checked dimension: a non-negative int below 2**63 or a ``DimExpr``.

    Raises:
        BadNode: ``value`` is neither.
    """
    if isinstance(value, DimExpr):
        return value
    made = _dim_of_tir(value) if type(value).__module__.startswith("tvm.") else None
    if made is not None:
        return made
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise BadNode(
            f"a dimension: expected an int, relay.Any() or a size variable, found {shown(value)}"
        )
    try:
        number = int(value.__index__())
    except TypeError:  # an array of several elements
        raise BadNode(f"a dimension: expected an int, found {shown(value)}") from None
    if number < 0:
        raise BadNode(f"a dimension cannot be negative, found {number}")
    if number >= 1 << 63:
        raise BadNode(f"a dimension must be less than 2**63, found {shown(number)}")
    return number


def _dim_of_tir(value: Anything) -> Dim | None:
    """Return a dim from a TVM expression of variables and numbers; None for other expressions."""
    kind = type(value).__name__
    if kind in ("Var", "SizeVar"):
        dtype = str(value.ty.dtype) if hasattr(value, "ty") else str(value.dtype)
        return DimVar(str(value.name), dtype, kind == "SizeVar")
    if kind == "IntImm":
        return as_dim(int(value.value))
    if kind == "Cast":
        return _dim_of_tir(value.value)
    if kind not in DIM_OPS:
        return None
    a, b = _dim_of_tir(value.a), _dim_of_tir(value.b)
    return None if a is None or b is None else DimOp(kind, a, b)


_BOXED = frozenset(["FloatImm", "IntImm", "StringImm"])


def plain(value: Anything) -> Anything:
    """Return a TVM ``IntImm``, ``FloatImm`` or ``StringImm`` as a Python value; others
    unchanged.
    """
    if type(value).__name__ not in _BOXED:
        return value
    return bool(value.value) if str(getattr(value, "ty", "")) == "bool" else value.value


def is_dtype(name: object) -> bool:
    """Return whether ``name`` is an element type."""
    return isinstance(name, str) and _DTYPE.fullmatch(name) is not None


# Meaning of type names without a width, as in TVM.
_DTYPES = {"float": "float32", "int": "int32", "uint": "uint32"}


@dataclass(frozen=True, eq=False)
class TensorType(Type):
    """``Tensor[(d0, d1), dtype]``; a rank-0 tensor prints as its dtype."""

    shape: tuple[Dim, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        shape: object = self.shape
        if not isinstance(shape, Iterable):  # a single number is a common mistake
            raise BadNode(f"a shape: expected a sequence of dimensions, found {shown(shape)}")
        object.__setattr__(self, "shape", tuple(as_dim(d) for d in shape))
        dtype = shown(self.dtype) if isinstance(self.dtype, list | dict) else str(self.dtype)
        dtype = _DTYPES.get(dtype, dtype)
        if not is_dtype(dtype):
            found = shown(dtype)
            raise BadNode(f"expected an element type such as float32 or int64, found {found}")
        object.__setattr__(self, "dtype", dtype)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """Return the shape as numbers.

        Raises:
            BadNode: a dim is not a number.
        """
        found = tuple(d for d in self.shape if isinstance(d, int))
        if len(found) < len(self.shape):
            raise BadNode(f"expected a shape without unknown dims, found {self}")
        return found


@dataclass(frozen=True, eq=False)
class TupleType(Type):
    """``(T0, T1)``."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", parts_of("TupleType: fields", self.fields))


@dataclass(frozen=True, eq=False)
class TypeVar(Type):
    """A type parameter of a function or a data type."""

    name: str
    kind: int = TypeKind.Type

    @property
    def name_hint(self) -> str:
        """Return the name, under the name of Relay's attribute."""
        return self.name


@dataclass(frozen=True, eq=False)
class GlobalTypeVar(Type):
    """Name of a data type."""

    name: str
    kind: int = TypeKind.AdtHandle

    @property
    def name_hint(self) -> str:
        """Return the name, under the name of Relay's attribute."""
        return self.name


@dataclass(frozen=True, eq=False)
class FuncType(Type):
    """``fn [A](T0, T1) -> R``."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeVar, ...] = ()
    type_constraints: tuple[TypeRelation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "arg_types", parts_of("FuncType: arg_types", self.arg_types))
        params = parts_of("FuncType: type_params", self.type_params or ())
        object.__setattr__(self, "type_params", params)
        found = parts_of("FuncType: type_constraints", self.type_constraints or ())
        object.__setattr__(self, "type_constraints", found)


@dataclass(frozen=True, eq=False)
class TypeCall(Type):
    """A data type applied to arguments, ``List[int32]``; ``args`` is empty if it has no
    parameters.
    """

    func: Type
    args: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", parts_of("TypeCall: args", self.args))


@dataclass(frozen=True, eq=False)
class RefType(Type):
    """A reference cell holding ``value``."""

    value: Type


@dataclass(frozen=True, eq=False)
class IncompleteType(Type):
    """A type left to inference, printed ``_``."""

    kind: int = TypeKind.Type


@dataclass(frozen=True, eq=False)
class TypeRelation(Type):
    """A type relation in an operator's signature, kept for compatibility; inference reads the
    operator table instead.
    """

    func: object
    args: tuple[Type, ...]
    num_inputs: int
    attrs: object = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", parts_of("TypeRelation: args", self.args))


@dataclass(frozen=True)
class ConstructorSig:
    """A constructor of a data type: its name and the types of its fields."""

    name: str
    inputs: tuple[Type, ...] = ()


@dataclass(frozen=True, eq=False)
class TypeData(Type):
    """``type List[A] { Cons(A, List[A]), Nil }``: the definition of a ``GlobalTypeVar``."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...] = ()
    constructors: tuple[ConstructorSig, ...] = field(default=())

    def __post_init__(self) -> None:
        found = parts_of("TypeData: type_vars", self.type_vars or ())
        object.__setattr__(self, "type_vars", found)
        given = parts_of("TypeData: constructors", self.constructors or ())
        object.__setattr__(self, "constructors", tuple(map(_signature, given)))
        object.__setattr__(self, "given", given)

    given: ClassVar[tuple[Anything, ...]] = ()  # the constructor objects that the script passed


def _signature(constructor: Anything) -> ConstructorSig:
    """Return the signature of a constructor that is a signature or a ``Constructor`` expression."""
    if isinstance(constructor, ConstructorSig):
        return constructor
    if not hasattr(constructor, "name_hint") or not hasattr(constructor, "inputs"):
        raise BadNode(f"TypeData: expected constructors, found {shown(constructor)}")
    return ConstructorSig(str(constructor.name_hint), tuple(constructor.inputs))


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a rank-0 tensor."""
    return TensorType((), dtype)


def dims_of(ty: Type | None) -> Iterator[Dim]:
    """Yield every dimension inside ``ty``, left to right."""
    if isinstance(ty, TensorType):
        yield from ty.shape
        return
    for part in type_children(ty):
        yield from dims_of(part)


def type_children(ty: Type | None) -> tuple[Type, ...]:
    """Return the types directly inside ``ty``."""
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
    """Return whether some dimension of ``ty`` is not a number."""
    return any(not isinstance(dim, int) for dim in dims_of(ty))


def type_text(ty: Type, dim: Callable[[Dim], str] = str) -> str:
    """Return the type in Relay's text format; ``dim`` formats a dim."""
    if isinstance(ty, TensorType):
        dims = ", ".join(map(dim, ty.shape))
        return f"Tensor[({dims}), {ty.dtype}]" if ty.shape else ty.dtype
    parts = ", ".join(type_text(p, dim) for p in type_children(ty))
    if isinstance(ty, TupleType):
        return f"({parts},)" if len(ty.fields) == 1 else f"({parts})"
    if isinstance(ty, FuncType):
        names = ", ".join(v.name for v in ty.type_params)
        args = ", ".join(type_text(a, dim) for a in ty.arg_types)
        return f"fn {f'[{names}]' if names else ''}({args}) -> {type_text(ty.ret_type, dim)}"
    if isinstance(ty, TypeCall):
        return f"{type_text(ty.func, dim)}[{parts}]"
    if isinstance(ty, TypeVar | GlobalTypeVar):
        return ty.name
    if isinstance(ty, TypeData):
        return ty.header.name
    return f"ref({parts})" if isinstance(ty, RefType) else "_"


def same_dim(a: Dim, b: Dim) -> bool:
    """Return whether two dims have the same text."""
    if isinstance(a, Any) and isinstance(b, Any):
        return a.name == b.name
    if isinstance(a, DimOp) and isinstance(b, DimOp):
        return a.op == b.op and same_dim(a.a, b.a) and same_dim(a.b, b.b)
    return type(a) is type(b) and a == b


Free = Callable[[Type, Type], bool]


def _spelled_alike(a: Type, b: Type) -> bool:
    """Return whether two type names, or two incomplete types, have equal fields."""
    return vars(a) == vars(b)


def same_type(
    a: Type,
    b: Type,
    renamed: Mapping[TypeVar, TypeVar] | None = None,
    free: Free = _spelled_alike,
) -> bool:
    """Return whether two types have the same text, up to the names of type parameters they bind.

    Args:
        renamed: maps type variables of ``a`` to those of ``b``.
        free: compares two names that are not bound inside the types.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, TypeVar) and isinstance(b, TypeVar):
        return _same_var(a, b, renamed or {}, free)
    if isinstance(a, GlobalTypeVar):
        return a is b or free(a, b)
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        same = a.dtype == b.dtype and len(a.shape) == len(b.shape)
        return same and all(map(same_dim, a.shape, b.shape))
    if isinstance(a, TypeData) and isinstance(b, TypeData):
        return _same_data(a, b, free)
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        if [p.kind for p in a.type_params] != [p.kind for p in b.type_params]:
            return False
        if len(a.type_constraints) != len(b.type_constraints):
            return False
        renamed = {**(renamed or {}), **dict(zip(a.type_params, b.type_params, strict=True))}
    if isinstance(a, TypeRelation) and isinstance(b, TypeRelation):
        same = a.func == b.func and a.num_inputs == b.num_inputs and a.attrs == b.attrs
        return same and same_type(TupleType(a.args), TupleType(b.args), renamed, free)
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        if not same_type(a.func, b.func, renamed, free):
            return False
    elif isinstance(a, IncompleteType):
        # An incomplete type equals only itself, unless whole programs are compared.
        return a is b or (free is not _spelled_alike and free(a, b))
    elif not isinstance(a, TupleType | FuncType | RefType):
        return a is b
    left, right = type_children(a), type_children(b)
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        left, right = (*left, *a.type_constraints), (*right, *b.type_constraints)
    return len(left) == len(right) and all(
        same_type(x, y, renamed, free) for x, y in zip(left, right, strict=True)
    )


def _same_var(a: TypeVar, b: TypeVar, renamed: Mapping[TypeVar, TypeVar], free: Free) -> bool:
    names = {_spelled(x): _spelled(y) for x, y in renamed.items()}
    if _spelled(a) in names or _spelled(b) in names.values():
        return names.get(_spelled(a)) == _spelled(b)
    return a is b or free(a, b)


def _spelled(var: TypeVar) -> tuple[str, int]:
    return var.name, int(var.kind)


def _same_data(a: TypeData, b: TypeData, free: Free) -> bool:
    if a.header.name != b.header.name or len(a.type_vars) != len(b.type_vars):
        return False
    renamed = dict(zip(a.type_vars, b.type_vars, strict=True))
    return len(a.constructors) == len(b.constructors) and all(
        x.name == y.name
        and len(x.inputs) == len(y.inputs)
        and all(same_type(p, q, renamed, free) for p, q in zip(x.inputs, y.inputs, strict=True))
        for x, y in zip(a.constructors, b.constructors, strict=True)
    )


def _outline(ty: Type) -> object:
    """Return a hashable key that is the same for equal types."""
    if isinstance(ty, TensorType):
        return tuple(d if isinstance(d, int) else "?" for d in ty.shape), ty.dtype
    name = ty.name if isinstance(ty, GlobalTypeVar) else ""
    return type(ty).__name__, name, tuple(map(_outline, type_children(ty)))
