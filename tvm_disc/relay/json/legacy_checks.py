"""Checks of the fields of saved nodes, made before objects are built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_disc.errors import ParseError
from tvm_disc.relay import expr as ex
from tvm_disc.relay import types as ty
from tvm_disc.relay.attrs import Opaque

MOST_DIGITS = 18  # maximum digits of a node number
# Limits of types and attributes when they are expanded to trees, in which nothing is shared.
MOST_PARTS = 1_000_000
DEEPEST = 200


@dataclass(frozen=True)
class Kind:
    """Condition on the value of a field, and its name in messages."""

    text: str
    fits: Callable[[object], bool]

    def listed(self) -> Kind:
        """Return the kind of an array whose elements have this kind."""
        fits = self.fits
        return Kind(
            f"an array of: {self.text}", lambda v: isinstance(v, list) and all(map(fits, v))
        )

    def optional(self) -> Kind:
        """Return this kind extended by None; an :class:`Opaque` object counts as None."""
        fits = self.fits
        return Kind(f"{self.text}, or nothing", lambda v: v is None or _opaque(v) or fits(v))


def _opaque(value: object) -> bool:
    return isinstance(value, Opaque)


def _is(text: str, *classes: type) -> Kind:
    return Kind(text, lambda v: isinstance(v, classes) and not isinstance(v, bool))


NAME = _is("a name", str)
EXPR = _is("an expression", ex.Expr)
VAR = _is("a variable", ex.Var)
TYPE = _is("a type", ty.Type)
DIM = _is("a dimension", int, ty.DimExpr)
PATTERN = _is("a pattern", ex.Pattern)
DATA_TYPE = _is("the name of a data type", ty.GlobalTypeVar)
CONSTRUCTOR = _is("a constructor", ex.Constructor)
CLAUSE = _is("a clause", ex.Clause)
MAP = _is("a map", dict)
ANY = Kind("anything", lambda v: True)

_BY_NAME: Mapping[str, Kind] = {
    "a": DIM,
    "arg_types": TYPE.listed(),
    "args": EXPR.listed(),
    "attrs": ANY,
    "b": DIM,
    "belong_to": DATA_TYPE,
    "body": EXPR,
    "clauses": CLAUSE.listed(),
    "cond": EXPR,
    "constructor": CONSTRUCTOR,
    "constructors": CONSTRUCTOR.listed(),
    "data": EXPR,
    "false_branch": EXPR,
    "fields": EXPR.listed(),
    "func": TYPE,
    "functions": MAP.optional(),
    "header": DATA_TYPE,
    "inputs": TYPE.listed(),
    "lhs": PATTERN,
    "name": NAME,
    "name_hint": NAME,
    "op": EXPR,
    "params": VAR.listed(),
    "patterns": PATTERN.listed().optional(),
    "ref": EXPR,
    "ret_type": TYPE.optional(),
    "rhs": EXPR,
    "shape": DIM.listed(),
    "source_name": NAME.optional(),
    "span": _is("a span", ex.Span).optional(),
    "spans": ANY,
    "true_branch": EXPR,
    "tuple_value": EXPR,
    "type_annotation": TYPE.optional(),
    "type_args": TYPE.optional().listed().optional(),
    "type_definitions": MAP.optional(),
    "type_params": _is("a type parameter", ty.TypeVar).listed().optional(),
    "type_vars": _is("a type parameter", ty.TypeVar).listed(),
    "value": EXPR,
    "var": VAR,
    "vid": NAME,
    "__dict__": MAP.optional(),
}
_BY_NODE: Mapping[tuple[str, str], Kind] = {
    ("FuncType", "ret_type"): TYPE,
    ("TupleType", "fields"): TYPE.listed(),
    ("TypeCall", "args"): TYPE.listed(),
    ("relay.RefType", "value"): TYPE,
    ("tir.Any", "name"): NAME.optional(),
}


def checked(key: str, field: str, value: object) -> object:
    """Return the checked value of a field of a node; None for an :class:`Opaque` object.

    Raises:
        ParseError: the field holds a value of the wrong kind.
    """
    kind = _BY_NODE.get((key, field)) or _BY_NAME.get(field, ANY)
    if not kind.fits(value):
        raise ParseError(f"{field}: expected {kind.text}, found {described(value)}")
    return None if _opaque(value) and kind is not ANY else value


def described(value: object) -> str:
    """Return a short text of a decoded object."""
    if isinstance(value, Opaque):
        return value.type_key
    if isinstance(value, str | int | float | bool | None):
        return repr(value)[:80]
    return type(value).__name__


def node_number(value: object) -> int:
    """Return the node number in a reference.

    Raises:
        ParseError: the reference is not a number.
    """
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    raise ParseError(f"expected a node index (an integer), found {repr(value)[:80]}")


def check_node(node: object) -> None:
    """Check the fields that every node has.

    Raises:
        ParseError: a field is missing or has the wrong type.
    """
    if not isinstance(node, dict) or not isinstance(node.get("type_key"), str):
        raise ParseError(f'expected an object with "type_key", found {repr(node)[:80]}')
    for field, kind in (("attrs", dict), ("data", list), ("keys", list)):
        if not isinstance(node.get(field, kind()), kind):
            what = "an object" if kind is dict else "a list"
            raise ParseError(f'"{field}": expected {what}, found {repr(node[field])[:80]}')
    if not all(isinstance(k, str) for k in node.get("keys", ())):
        raise ParseError('"keys": expected a list of strings')


class TreeSizes:
    """Sizes of decoded values when they are expanded to trees."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, int]] = {}  # parts and depth by node

    def note(self, index: int, value: object, refs: list[int]) -> None:
        """Record the size of a node; expressions count as one part, because they stay shared.

        Raises:
            ParseError: the value is too large or too deep.
        """
        inner = [self._of.get(r, (1, 1)) for r in refs]
        parts, depth = 1 + sum(p for p, _ in inner), 1 + max((d for _, d in inner), default=0)
        if isinstance(value, ex.Expr):
            parts = depth = 1
        if parts > MOST_PARTS or depth > DEEPEST:
            raise ParseError(
                "a type or attribute: expected at most "
                f"{MOST_PARTS} nodes after shared nodes are copied, nested at most {DEEPEST} deep; "
                f"found {parts} nodes, nested {depth} deep"
            )
        self._of[index] = parts, depth
