"""The pattern language, which describes pieces of a dataflow graph.

Patterns compare by identity: all occurrences of one pattern object in a pattern match the same
expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay import expr as ast
from tvm_disc.relay.expr import Call, Expr, Function, Op, Tuple, TupleGetItem
from tvm_disc.relay.ops.row import REQUIRED
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.text.short import bounded
from tvm_disc.relay.types import TensorType, Type, is_dtype
from tvm_disc.relay_api.dataflow_pattern.matcher import Matcher
from tvm_disc.relay_api.dataflow_pattern.rewriter import partition_expr
from tvm_disc.relay_api.structural import structural_equal

# Operators whose calls match with operands in either order.
COMMUTATIVE = frozenset(["add", "multiply"])


class DFPattern:
    """Base class of patterns.

    ``p(args)`` matches a call, ``p | q`` an alternative, and an arithmetic operator its Relay
    operator.
    """

    __repr__ = bounded

    def __call__(self, *args: Any) -> CallPattern:
        if len(args) == 1 and args[0] is None:
            return CallPattern(self, None)
        return CallPattern(self, args)

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        """Return whether ``expr`` matches; the base class matches nothing."""
        return False

    def parts(self) -> tuple[DFPattern, ...]:
        """Return the direct subpatterns."""
        return ()

    def hidden(self) -> tuple[DFPattern, ...]:
        """Return the inner patterns whose matches are never inputs of a group."""
        return ()

    def inputs_of(self, found: Expr) -> tuple[Expr, ...]:
        """Return the parts of a match that are inputs of its group: the match itself for a leaf."""
        return () if self.parts() else (found,)

    def keeps_constants(self) -> bool:
        """Return whether a matched constant stays in the group."""
        return False

    def has_attr(self, attrs: Mapping[str, object]) -> AttrPattern:
        """Return this pattern with required attributes of the call, the function or the
        operator.
        """
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """Return this pattern with a required type."""
        return has_type(ttype, self)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Return this pattern with a required element type."""
        return has_dtype(dtype, self)

    def has_shape(self, shape: Sequence[object]) -> ShapePattern:
        """Return this pattern with a required shape."""
        return has_shape(shape, self)

    def match(self, expr: Expr) -> bool:
        """Return whether ``expr`` matches."""
        return match(self, expr)

    def partition(
        self,
        expr: Expr,
        attrs: Mapping[str, object] | None = None,
        check: Callable[[Expr], bool] = lambda _: True,
    ) -> Expr:
        """Return ``expr`` with every match moved into a separate function."""
        return partition(self, expr, attrs, check)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """Return this pattern with the condition that its dataflow comes from ``parent`` via
        ``path``.
        """
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """Return this pattern, or the pattern that ``option_constructor`` builds around it."""
        return self | option_constructor(self)


def _pattern(what: str, value: object) -> DFPattern:
    if not isinstance(value, DFPattern):
        raise BadNode(f"{what}: expected a pattern such as wildcard(), found {shown(value)}")
    return value


def _expr(what: str, value: object) -> Expr:
    if not isinstance(value, Expr):
        raise BadNode(f"{what}: expected a Relay expression, found {shown(value)}")
    return value


def _patterns(what: str, values: object) -> tuple[DFPattern, ...]:
    if isinstance(values, DFPattern) or not isinstance(values, Sequence):
        raise BadNode(f"{what}: expected a sequence of patterns, found {shown(values)}")
    return tuple(_pattern(what, value) for value in values)


@dataclass(eq=False, repr=False)
class ExprPattern(DFPattern):
    """Matches an expression structurally equal to ``expr``."""

    expr: Expr

    def __post_init__(self) -> None:
        _expr("is_expr", self.expr)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return structural_equal(self.expr, expr)

    def keeps_constants(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class VarPattern(DFPattern):
    """Matches a variable; ``name_hint`` is its name, or empty for any name."""

    name_hint: str = ""

    @property
    def name(self) -> str:
        """Return the name; empty for any."""
        return self.name_hint

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return isinstance(expr, ast.Var) and self.name_hint in ("", expr.name_hint)


@dataclass(eq=False, repr=False)
class ConstantPattern(DFPattern):
    """Matches a constant."""

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return isinstance(expr, ast.Constant)

    def keeps_constants(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class WildcardPattern(DFPattern):
    """Matches any expression, or after ``redirect_to`` the expressions that another pattern
    matches. That pattern may contain this one.
    """

    pattern: DFPattern | None = None

    def redirect_to(self, pat: DFPattern) -> None:
        """Match ``pat`` from now on; ``pat`` is recursive if it contains this pattern."""
        self.pattern = _pattern("redirect_to", pat)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return self.pattern is None or matcher.visit(self.pattern, expr)

    def parts(self) -> tuple[DFPattern, ...]:
        return () if self.pattern is None else (self.pattern,)


@dataclass(eq=False, init=False, repr=False)
class CallPattern(DFPattern):
    """Matches a call; ``args`` is None for any arguments."""

    op: DFPattern
    args: tuple[DFPattern, ...] | None

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        self.op = _pattern("the callee of a call pattern", op)
        self.args = None if args is None else _patterns("the arguments of a call pattern", args)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, Call):
            return False
        if self._as_it_is(matcher, expr):
            return True
        return any(self._as_it_is(matcher, other) for other in _regrouped(self, expr))

    def _as_it_is(self, matcher: Matcher, call: Call) -> bool:
        orders = [call.args]
        if isinstance(call.op, Op) and call.op.name in COMMUTATIVE:
            orders.append(call.args[::-1])
        return any(
            matcher.visit_all([self.op, *(self.args or ())], [call.op, *args])
            for args in (orders if self.args is not None else [()])
        )

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.op, *(self.args or ()))

    def inputs_of(self, found: Expr) -> tuple[Expr, ...]:
        return found.args if self.args is None and isinstance(found, Call) else ()


@dataclass(eq=False, init=False, repr=False)
class FunctionPattern(DFPattern):
    """Matches a function; ``params`` is None for any parameters."""

    params: tuple[DFPattern, ...] | None
    body: DFPattern

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        known = None if params is None else _patterns("the parameters of a function", params)
        self.params, self.body = known, _pattern("the body of a function pattern", body)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, Function):
            return False
        if self.params is not None and not matcher.visit_all(self.params, expr.params):
            return False
        return matcher.visit(self.body, expr.body)

    def parts(self) -> tuple[DFPattern, ...]:
        return (*(self.params or ()), self.body)

    def hidden(self) -> tuple[DFPattern, ...]:
        return _all_parts(self)


@dataclass(eq=False, repr=False)
class IfPattern(DFPattern):
    """Matches an ``If``."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern

    def __post_init__(self) -> None:
        _patterns("is_if", (self.cond, self.true_branch, self.false_branch))

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, ast.If):
            return False
        return matcher.visit_all(self.parts(), (expr.cond, expr.true_branch, expr.false_branch))

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.cond, self.true_branch, self.false_branch)


@dataclass(eq=False, repr=False)
class LetPattern(DFPattern):
    """Matches a ``Let``."""

    var: DFPattern
    value: DFPattern
    body: DFPattern

    def __post_init__(self) -> None:
        _patterns("is_let", (self.var, self.value, self.body))

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, ast.Let):
            return False
        return matcher.visit_all(self.parts(), (expr.var, expr.value, expr.body))

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.var, self.value, self.body)


@dataclass(eq=False, init=False, repr=False)
class TuplePattern(DFPattern):
    """Matches a tuple; ``fields`` is None for any fields."""

    fields: tuple[DFPattern, ...] | None

    def __init__(self, fields: Sequence[DFPattern] | None) -> None:
        self.fields = None if fields is None else _patterns("is_tuple", fields)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, Tuple):
            return False
        return self.fields is None or matcher.visit_all(self.fields, expr.fields)

    def parts(self) -> tuple[DFPattern, ...]:
        return self.fields or ()

    def inputs_of(self, found: Expr) -> tuple[Expr, ...]:
        return found.fields if self.fields is None and isinstance(found, Tuple) else ()


@dataclass(eq=False, repr=False)
class TupleGetItemPattern(DFPattern):
    """Matches an item of a tuple; ``index`` is None for any item."""

    tuple_value: DFPattern
    index: int | None = None

    def __post_init__(self) -> None:
        _pattern("is_tuple_get_item", self.tuple_value)

    def __getattr__(self, name: str) -> DFPattern:
        # A property `tuple` would hide the type of that name in this class.
        if name == "tuple":
            return self.tuple_value
        raise AttributeError(f"TupleGetItemPattern has no {name!r}")

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not isinstance(expr, TupleGetItem) or self.index not in (None, -1, expr.index):
            return False
        return matcher.visit(self.tuple_value, expr.tuple_value)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.tuple_value,)


@dataclass(eq=False, repr=False)
class AltPattern(DFPattern):
    """Matches either of two patterns; the left one is tried first."""

    left: DFPattern
    right: DFPattern

    def __post_init__(self) -> None:
        _patterns("an alternative", (self.left, self.right))

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return matcher.visit(self.left, expr) or matcher.visit(self.right, expr)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)

    def keeps_constants(self) -> bool:
        return self.left.keeps_constants() or self.right.keeps_constants()


@dataclass(eq=False, repr=False)
class TypePattern(DFPattern):
    """Matches ``pattern`` with a required type."""

    pattern: DFPattern
    type: Type

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not matcher.visit(self.pattern, expr):
            return False
        return structural_equal(self.type, matcher.types.of(expr))

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


@dataclass(eq=False, repr=False)
class DataTypePattern(DFPattern):
    """Matches ``pattern`` with a required element type."""

    pattern: DFPattern
    dtype: str

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        return matcher.visit(self.pattern, expr) and matcher.types.dtype(expr) == self.dtype

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


@dataclass(eq=False, repr=False)
class ShapePattern(DFPattern):
    """Matches ``pattern`` with a required shape."""

    pattern: DFPattern
    shape: tuple[Any, ...]

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not matcher.visit(self.pattern, expr):
            return False
        found = matcher.types.tensor(expr)
        return found is not None and structural_equal(found, TensorType(self.shape, found.dtype))

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


@dataclass(eq=False, repr=False)
class AttrPattern(DFPattern):
    """Matches ``pattern`` with required attributes."""

    pattern: DFPattern
    attrs: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, Mapping):
            raise BadNode(
                f"has_attr: expected a mapping from names to values, found {shown(self.attrs)}"
            )
        self.attrs = dict(self.attrs)

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not matcher.visit(self.pattern, expr):
            return False
        found = _attrs_of(expr)
        return all(k in found and _same(found[k], v) for k, v in self.attrs.items())

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


@dataclass(eq=False, repr=False)
class DominatorPattern(DFPattern):
    """Matches ``child`` if all dataflow into it comes from ``parent`` through ``path`` only."""

    parent: DFPattern
    path: DFPattern
    child: DFPattern

    def __post_init__(self) -> None:
        _patterns("dominates", (self.parent, self.path, self.child))

    def matches(self, matcher: Matcher, expr: Expr) -> bool:
        if not matcher.visit(self.child, expr):
            return False
        return matcher.comes_from(self.parent, self.path, expr)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.parent, self.path, self.child)

    def hidden(self) -> tuple[DFPattern, ...]:
        return (self.parent, self.path)


def _regrouped(pattern: CallPattern, call: Call) -> Iterator[Call]:
    """Yield equivalent forms of ``call`` with products and quotients regrouped.

    ``(a * b) / c`` equals ``a * (b / c)``; the pattern may have either form.
    """
    wanted = pattern.op.expr if isinstance(pattern.op, ExprPattern) else None
    names = (getattr(wanted, "name", ""), getattr(call.op, "name", ""))
    if names == ("divide", "multiply"):
        for quotient, factor in (call.args, call.args[::-1]):
            if isinstance(quotient, Call) and quotient.op is ast.get_op("divide"):
                numerator, denominator = quotient.args
                product = Call(ast.get_op("multiply"), (numerator, factor))
                yield Call(ast.get_op("divide"), (product, denominator))
    elif names == ("multiply", "divide"):
        dividend, denominator = call.args
        if isinstance(dividend, Call) and dividend.op is ast.get_op("multiply"):
            for one, other in (dividend.args, dividend.args[::-1]):
                quotient = Call(ast.get_op("divide"), (other, denominator))
                yield Call(ast.get_op("multiply"), (one, quotient))


def _all_parts(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """Return every pattern inside ``pattern``, at any depth."""
    found: dict[DFPattern, None] = {}
    todo = list(pattern.parts())
    while todo:
        part = todo.pop()
        if part not in found:
            found[part] = None
            todo.extend(part.parts())
    return tuple(found)


def _attrs_of(expr: Expr) -> Mapping[str, object]:
    """Return the attributes of a call (with defaults), of a function, or of an operator."""
    if isinstance(expr, Op):
        row = OPS.get(expr.name)
        return {} if row is None else {"TOpPattern": int(row.pattern)}
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in OPS:
        defaults = OPS[expr.op.name].attrs
        return {**{k: v for k, v in defaults.items() if v is not REQUIRED}, **expr.attrs}
    return expr.attrs if isinstance(expr, (Call, Function)) else {}


def _same(found: object, wanted: object) -> bool:
    if isinstance(found, (tuple, list)) and isinstance(wanted, (tuple, list)):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return type(found) is type(wanted) and bool(found == wanted)


def is_var(name: str = "") -> DFPattern:
    """Return a pattern of a variable; of any name if ``name`` is empty."""
    return VarPattern(name)


def is_constant() -> DFPattern:
    """Return a pattern of a constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> DFPattern:
    """Return a pattern of expressions structurally equal to ``expr``."""
    return ExprPattern(expr)


def is_op(op_name: str) -> DFPattern:
    """Return a pattern that matches the operator of that name."""
    if not isinstance(op_name, str) or op_name not in OPS:
        found = shown(op_name)
        raise BadNode(f"is_op: unknown operator {found}; relay.OPS lists all operators")
    return ExprPattern(ast.get_op(op_name))


def is_tuple(fields: Sequence[DFPattern] | None) -> DFPattern:
    """Return a pattern of a tuple with these fields; of any tuple for None."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """Return a pattern of a tuple's item; of any item for None."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> DFPattern:
    """Return a pattern of an ``If``."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> DFPattern:
    """Return a pattern of a ``Let``."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Return a pattern that matches any expression."""
    return WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Return ``pattern``, or a wildcard, with a required type."""
    if not isinstance(ttype, Type):
        raise BadNode(f"has_type: expected a Relay type, found {shown(ttype)}")
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return ``pattern``, or a wildcard, with a required element type."""
    if not is_dtype(dtype):
        raise BadNode(f"has_dtype: expected an element type such as float32, found {shown(dtype)}")
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Sequence[object], pattern: DFPattern | None = None) -> ShapePattern:
    """Return ``pattern``, or a wildcard, with a required shape."""
    if not isinstance(shape, Sequence):
        raise BadNode(f"has_shape: expected a sequence of dims, found {shown(shape)}")
    return ShapePattern(wildcard() if pattern is None else pattern, tuple(shape))


def has_attr(attrs: Mapping[str, object], pattern: DFPattern | None = None) -> AttrPattern:
    """Return ``pattern``, or a wildcard, with required attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Return a pattern of ``child`` whose dataflow comes from ``parent`` through ``path`` only."""
    return DominatorPattern(parent, path, child)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Return whether ``expr`` matches the pattern."""
    return Matcher(_expr("match", expr)).match(_pattern("match", pattern), expr)


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, object] | None = None,
    check: Callable[[Expr], bool] = lambda _: True,
) -> Expr:
    """Return ``expr`` with every match that passes ``check`` moved into a separate function."""
    _expr("partition", expr)
    return partition_expr(_pattern("partition", pattern), expr, attrs or {}, check)
