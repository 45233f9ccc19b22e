"""Relay expressions: the nodes of a program.

Expressions compare by identity, because sharing is part of the dataflow graph;
``structural_equal`` compares structure. Attributes of a call are a plain dict of Python values:
int, float, bool, str, None and tuples of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadNode, counted, named_of, parts_of, shown
from .ops.algebra import Algebra, Builder, current
from .text.short import bounded, brief
from .types import FuncType, GlobalTypeVar, IncompleteType, Type, TypeVar, plain

AttrValue = Any
Attrs = dict[str, AttrValue]


class NamedAttrs(dict[str, AttrValue]):
    """Attributes by name, also accessible as members: ``call.attrs.axis``."""

    def __getattr__(self, name: str) -> AttrValue:
        if name in self:
            return self[name]
        raise AttributeError(f"no attribute {name!r}; the attributes: {', '.join(self) or 'none'}")

    def get_int(self, key: str) -> int:
        """Return an attribute as an integer."""
        return int(self[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """Return an attribute as a tuple of integers."""
        return tuple(int(x) for x in self[key])

    def get_str(self, key: str) -> str:
        """Return an attribute as a string."""
        return str(self[key])

    def list_field_info(self) -> list[AttrField]:
        """Return name, type and value of every attribute."""
        return [AttrField(k, type(v).__name__, repr(v)) for k, v in self.items()]


@dataclass(frozen=True)
class AttrField:
    """Name, type and value of one attribute, as Relay lists them."""

    name: str
    type_info: str
    description: str


Array = NDArray[Any]


class HostArray(np.ndarray[Any, Any]):
    """Elements of a constant: a NumPy array that also has the methods of a TVM array."""

    def numpy(self) -> Array:
        """Return the elements as a plain NumPy array."""
        return np.asarray(self)

    asnumpy = numpy


@dataclass(frozen=True)
class SourceName:
    """Name of a source: a file, or a layer of the imported model."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise BadNode(f"SourceName: expected a string, found {shown(self.name)}")


@dataclass(frozen=True)
class Span:
    """Range of a source that an expression comes from, by line and column.

    ``implied`` marks a span that the parser set from the position in the text, not from a comment.
    Error messages show implied spans; printed text and JSON omit them.
    """

    source_name: SourceName | None
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0
    implied: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name: object = self.source_name
        if isinstance(name, str):
            object.__setattr__(self, "source_name", SourceName(name))
        elif name is not None and not isinstance(name, SourceName):
            raise BadNode(f"Span: expected a relay.SourceName, found {shown(name)}")

    @classmethod
    def at(cls, source: str, line: int = 0, column: int = 0) -> Span:
        """Return the span of one position of a source."""
        return cls(SourceName(source), line, line, column, column)

    @property
    def source(self) -> str:
        """Return the name of the source as a string."""
        return "" if self.source_name is None else self.source_name.name

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` is this object."""
        return self is other

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


class Expr(Algebra):
    """Base class of expressions; arithmetic operators build calls, ``==`` compares identity."""

    span: Span | None = None
    _checked_type: Type | None = None
    _type_on_access: Type | None = None

    @property
    def checked_type(self) -> Type:
        """Return the type that inference found; infer it on access if the expression was parsed.

        Raises:
            ValueError: the type is not known.
        """
        found: Type | None = self._checked_type or self._type_on_access
        if found is None:
            found = import_module("tvm_disc.relay.inference.on_access").type_on_access(self)
        assert found is not None
        return found

    def astext(self, show_meta_data: bool = True) -> str:
        """Return the expression in Relay's text format."""
        text: str = import_module("tvm_disc.relay.text.printer").astext(self, show_meta_data)
        return text

    def __str__(self) -> str:
        return self.astext(show_meta_data=False)

    __repr__ = bounded

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` is this node."""
        return self is other

    def __call__(self, *args: ExprLike) -> Call:
        return Call(self, args)

    def astype(self, dtype: str) -> Call:
        """Return ``cast(self, dtype=dtype)``."""
        return Call(get_op("cast"), (self,), {"dtype": str(dtype)})

    def _builder(self) -> Builder:
        return current(_CALLS)


@dataclass(eq=False, repr=False)
class Var(Expr):
    """A local variable; ``type_annotation`` is None if the type is inferred."""

    name_hint: str
    type_annotation: Type | None = None
    span: Span | None = None

    @property
    def vid(self) -> Id:
        """Return the name as a Relay ``Id``."""
        return Id(self.name_hint)


@dataclass(frozen=True)
class Id:
    """Name of a local variable."""

    name_hint: str

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` has the same name."""
        return self == other


@dataclass(eq=False, repr=False)
class GlobalVar(Expr):
    """Name of a module-level function."""

    name_hint: str
    type_annot: Type | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        self._checked_type = self.type_annot


# The function that returns an operator's registry entry. The registry appends it on import,
# because this module cannot import the registry: the registry imports this module.
ENTRIES: list[Callable[[str], Any]] = []


@dataclass(eq=False, repr=False)
class Op(Expr):
    """A primitive operator; ``relay.op.get(name)`` returns the one object of a name.

    Members of its registry entry are accessible: ``num_inputs``, ``get_attr``, ``add_type_rel`` ...
    """

    name: str

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_") or key == "name" or not ENTRIES:
            raise AttributeError(f"operator {self.__dict__.get('name')}: no attribute {key!r}")
        return getattr(ENTRIES[0](self.name), key)


@cache
def get_op(name: str) -> Op:
    """Return the one ``Op`` of that name."""
    return Op(name)


@dataclass(eq=False, repr=False)
class Constructor(Expr):
    """A constructor of a data type; ``tag`` is its position in the definition."""

    name_hint: str
    inputs: tuple[Type, ...]
    belong_to: str
    tag: int = 0

    def __post_init__(self) -> None:
        owner: object = self.belong_to
        self.belong_to = owner.name if isinstance(owner, GlobalTypeVar) else self.belong_to
        self.inputs = parts_of("Constructor: inputs", self.inputs)


@dataclass(eq=False, repr=False)
class Constant(Expr):
    """A tensor known at compile time."""

    data: Array
    span: Span | None = None

    def __post_init__(self) -> None:
        data: Any = self.data
        if not isinstance(data, np.ndarray) and hasattr(data, "numpy"):
            data = data.numpy()  # a TVM array
        try:
            self.data = np.asarray(data).view(HostArray)
        except (ValueError, RecursionError):  # ragged or self-referencing lists
            raise BadNode(f"a constant: expected numbers or bools, found {shown(data)}") from None


@dataclass(eq=False, repr=False)
class Call(Expr):
    """``op(args, attrs)``: ``op`` is an Op, GlobalVar, Constructor or any function value."""

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = field(default_factory=NamedAttrs)
    span: Span | None = None

    def __init__(
        self,
        op: Expr,
        args: Sequence[ExprLike],
        attrs: Mapping[str, AttrValue] | None = None,
        type_args: Sequence[Type] = (),
        span: Span | None = None,
    ) -> None:
        self.op = as_expr(op)
        self.args = tuple(as_expr(a) for a in parts_of("Call: args", args))
        self.attrs = NamedAttrs(named_of("Call: attrs", attrs))
        self.given_type_args: tuple[Type, ...] = parts_of("Call: type_args", type_args or ())
        self.span = span

    @property
    def type_args(self) -> tuple[Type, ...]:
        """Return the type arguments; for an operator, the inferred types of its operands."""
        if self.given_type_args or self._checked_type is None or not isinstance(self.op, Op):
            return self.given_type_args
        found = [arg._checked_type for arg in self.args]
        return () if None in found else tuple(t for t in found if t is not None)


@dataclass(eq=False, repr=False)
class Function(Expr):
    """``fn [A](params) -> ret_type { body }``; ``attrs`` are function attributes."""

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    type_params: tuple[TypeVar, ...] = ()
    attrs: Attrs = field(default_factory=NamedAttrs)
    span: Span | None = None

    def __init__(
        self,
        params: Sequence[Var],
        body: ExprLike,
        ret_type: Type | None = None,
        type_params: Sequence[TypeVar] = (),
        attrs: Mapping[str, AttrValue] | None = None,
        span: Span | None = None,
    ) -> None:
        if not isinstance(params, Iterable):
            raise BadNode(f"function: expected a sequence of relay.Var, found {shown(params)}")
        params = tuple(params)
        if len({id(p) for p in params}) < len(params):
            raise BadNode("a function parameter occurs twice; pass a separate relay.Var for each")
        for param in params:
            if not isinstance(param, Var):
                raise BadNode(f"a function parameter: expected a relay.Var, found {shown(param)}")
        self.params = tuple(params)
        self.body = as_expr(body)
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self.attrs = NamedAttrs((k, plain(v)) for k, v in (attrs or {}).items())
        self.span = span

    def with_attr(self, name: str | Mapping[str, AttrValue], value: AttrValue = None) -> Function:
        """Return a copy with an attribute set, or with all attributes of a mapping set."""
        return self.with_attrs({name: value} if isinstance(name, str) else name)

    def with_attrs(self, attrs: Mapping[str, AttrValue]) -> Function:
        """Return a copy with the attributes of a mapping set."""
        return self._with({**self.attrs, **attrs})

    def without_attr(self, name: str) -> Function:
        """Return a copy without an attribute."""
        return self._with({k: v for k, v in self.attrs.items() if k != name})

    def _with(self, attrs: Mapping[str, AttrValue]) -> Function:
        return Function(self.params, self.body, self.ret_type, self.type_params, attrs, self.span)

    @property
    def checked_signature(self) -> FuncType:
        """Return the annotated type, with ``IncompleteType`` for each missing annotation."""
        args = tuple(p.type_annotation or IncompleteType() for p in self.params)
        return FuncType(args, self.ret_type or IncompleteType(), self.type_params)


@dataclass(eq=False, repr=False)
class Let(Expr):
    """``let var = value; body``; ``var`` is visible in ``value`` (recursion)."""

    var: Var
    value: Expr
    body: Expr
    span: Span | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.var, Var):
            raise BadNode(f"let: expected a relay.Var to bind, found {shown(self.var)}")
        self.value, self.body = as_expr(self.value), as_expr(self.body)


@dataclass(eq=False, repr=False)
class If(Expr):
    """``if (cond) { true_branch } else { false_branch }``; ``cond`` is a bool scalar."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr
    span: Span | None = None

    def __post_init__(self) -> None:
        self.cond = as_expr(self.cond)
        self.true_branch = as_expr(self.true_branch)
        self.false_branch = as_expr(self.false_branch)


@dataclass(eq=False, repr=False)
class Tuple(Expr):
    """``(a, b)``; supports ``len``, indexing and iteration over its fields."""

    fields: tuple[Expr, ...]
    span: Span | None = None

    def __post_init__(self) -> None:
        fields: object = self.fields
        if not isinstance(fields, Iterable):
            raise BadNode(f"a tuple: expected a sequence of expressions, found {shown(fields)}")
        self.fields = tuple(as_expr(f) for f in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


@dataclass(eq=False, repr=False)
class TupleGetItem(Expr):
    """``tuple_value.index``."""

    tuple_value: Expr
    index: int
    span: Span | None = None

    def __post_init__(self) -> None:
        self.tuple_value = as_expr(self.tuple_value)
        index: object = self.index
        if not isinstance(index, int | np.integer):
            raise BadNode(f"a tuple index: expected an integer, found {shown(index)}")
        if self.index < 0:
            raise BadNode(f"a tuple index cannot be negative, found {self.index}")


@dataclass(eq=False, repr=False)
class RefCreate(Expr):
    """``ref(value)``."""

    value: Expr
    span: Span | None = None


@dataclass(eq=False, repr=False)
class RefRead(Expr):
    """``ref_read(ref)``."""

    ref: Expr
    span: Span | None = None


@dataclass(eq=False, repr=False)
class RefWrite(Expr):
    """``ref_write(ref, value)``."""

    ref: Expr
    value: Expr
    span: Span | None = None


class Pattern:
    """Base class of patterns of match clauses."""

    __repr__ = bounded


@dataclass(eq=False, repr=False)
class PatternWildcard(Pattern):
    """``_``: matches any value."""


@dataclass(eq=False, repr=False)
class PatternVar(Pattern):
    """``%x``: matches any value and binds it to ``var``."""

    var: Var


@dataclass(eq=False, repr=False)
class PatternConstructor(Pattern):
    """``Cons(p0, p1)``: matches a value of that constructor whose fields match the patterns."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        self.patterns = parts_of("PatternConstructor: patterns", self.patterns or ())


@dataclass(eq=False, repr=False)
class PatternTuple(Pattern):
    """``(p0, p1)``."""

    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        self.patterns = parts_of("PatternTuple: patterns", self.patterns)


@dataclass(eq=False, repr=False)
class Clause:
    """One ``pattern => expression`` of a match."""

    lhs: Pattern
    rhs: Expr

    __repr__ = bounded

    def __post_init__(self) -> None:
        self.rhs = as_expr(self.rhs)


@dataclass(eq=False, repr=False)
class Match(Expr):
    """``match (data) {clauses}``; ``match?`` if not ``complete``: a value may match no clause."""

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True
    span: Span | None = None

    def __post_init__(self) -> None:
        self.data = as_expr(self.data)
        self.clauses = parts_of("Match: clauses", self.clauses)


class TupleWrapper:
    """A call with several results as a Python sequence: it has a length and supports indexing."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Tuple:
        """Return a ``Tuple`` of all results."""
        return Tuple(tuple(self))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"a tuple of {counted(self.size, 'field')} has no field {index}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[i] for i in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({brief(self.tuple_value)}, {self.size})"


ExprLike = Expr | TupleWrapper


def as_expr(value: object) -> Expr:
    """Return ``value`` as an expression; raise BadNode for numbers and other objects."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    raise _not_an_expr(value)


class _Calls:
    """Builds calls of operators; as in Relay, a Python number is not accepted as an operand."""

    def apply(self, name: str, *operands: ExprLike, dtype: str = "") -> Call:
        return Call(get_op(name), tuple(map(as_expr, operands)))


_CALLS = _Calls()


def _not_an_expr(value: object) -> BadNode:
    if isinstance(value, (int, float, np.ndarray, np.generic)):
        return BadNode(f'convert "{value}" with `const` first')
    return BadNode(f"expected a Relay expression, found {type(value).__name__} {shown(value)}")


def __getattr__(name: str) -> Any:
    """Return ``const``, ``var`` or ``bind``, or ``RelayExpr``, an alias of ``Expr``.

    Relay's module had these names. Here they are defined in modules that import this one.
    """
    if name in ("const", "var", "bind"):
        return getattr(import_module("tvm_disc.relay"), name)
    if name == "RelayExpr":
        return Expr
    raise AttributeError(name)
