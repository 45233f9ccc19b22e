"""Build programs from Python: variables, constants, scopes and operator calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_disc.relay.signatures import RESULTS, defaults, field_of, parameters

from ..errors import BadNode, UnknownName, counted, refusing, shown
from ..support.late import Late
from .attrs import AttrError, complete_attrs
from .expr import (
    AttrValue,
    Call,
    Constant,
    Expr,
    ExprLike,
    If,
    Let,
    Span,
    Tuple,
    TupleWrapper,
    Var,
    as_expr,
    get_op,
)
from .ops.row import REQUIRED, OpRow
from .ops.table import OPS
from .types import Dim, TensorType, Type

OpFunction = Callable[..., Any]

_infer_type = Late("tvm_disc.relay.inference.infer:infer_type")

_WINDOWED = re.compile(
    r"q?nn\.(?:(?:contrib_|bitserial_)?conv|max_pool|avg_pool|adaptive_\w+_pool)(\d)d"
    r"(?:_transpose|_backward_weight|_(?:winograd|gemm)_without_weight_transform)?"
)
_LISTS = frozenset(["newshape", "reps", "shape", "out_shape", "target_shape", "crop_size"])
_LIST_AXIS = frozenset(
    ["sum", "max", "min", "mean", "prod", "all", "any", "argmax", "argmin", "variance", "squeeze"]
)
_SPATIAL = frozenset(
    ["strides", "dilation", "kernel_size", "pool_size", "output_size", "size", "padding"]
)


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Dim] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Return a variable: of the annotated type, a tensor of ``shape``, or without a type."""
    if not isinstance(name_hint, str):
        raise BadNode(f"the name of a variable: expected a string, found {shown(name_hint)}")
    if not name_hint.isascii() and any("\ud800" <= c <= "\udfff" for c in name_hint):
        raise BadNode(f"the name of a variable contains an unpaired surrogate: {shown(name_hint)}")
    if not isinstance(type_annotation, Type | str | None):
        raise BadNode(
            f"variable '{name_hint}': expected a relay type, found {shown(type_annotation)}"
        )
    if type_annotation is not None and shape is not None:
        raise BadNode("relay.var takes a type annotation or a shape, not both")
    if shape is not None:
        return Var(name_hint, TensorType(shape, dtype), span)  # type: ignore[arg-type]
    if isinstance(type_annotation, str):
        return Var(name_hint, TensorType((), type_annotation), span)
    return Var(name_hint, type_annotation, span)


@refusing
def const(
    value: object, dtype: str | TensorType | None = None, span: Span | None = None
) -> Constant:
    """Return a constant from a number, list or array; ``dtype`` may be a tensor type.

    As in Relay, int64 becomes int32 and float64 becomes float32 unless ``dtype`` is given.

    Raises:
        BadNode: the elements are not numbers or bools, or an integer does not fit the type.
    """
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        value = value.numpy()  # a TVM array
    try:
        array = np.asarray(value)
    except ValueError:  # nested lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise BadNode(f"a constant: expected numbers or bools, found {str(value)[:80]!r}")
    narrow = {"int64": "int32", "float64": "float32"}.get(array.dtype.name)
    if dtype is None and narrow is None:
        return Constant(array, span)
    try:
        made = array.astype(dtype.dtype if isinstance(dtype, TensorType) else dtype or narrow)
    except (TypeError, ValueError, RecursionError):
        raise BadNode(
            f"a constant: expected an element type such as float32, found {shown(dtype)}"
        ) from None
    if array.dtype.kind in "iuf" and made.dtype.kind in "iu" and not np.array_equal(array, made):
        raise BadNode(f"{str(value)[:80]} does not fit {made.dtype}; pass another dtype")
    return Constant(made, span)


class ScopeBuilder:
    """Builder of a program in statement order: ``let`` binds a value, ``ret`` ends a scope, and
    ``if_scope`` with ``else_scope`` builds a conditional.
    """

    def __init__(self) -> None:
        self._frames: list[_Frame] = [_Frame()]

    def let(self, target: Var | str, value: ExprLike) -> Var:
        """Bind a value to ``target``, or to a new variable of that name; return the variable."""
        variable = Var(target) if isinstance(target, str) else target
        self._frames[-1].lets.append((variable, as_expr(value)))
        return variable

    def ret(self, value: ExprLike) -> None:
        """Set the value of the current scope."""
        if self._frames[-1].value is not None:
            raise RuntimeError("ret can only be called once in a scope")
        self._frames[-1].value = as_expr(value)

    @contextmanager
    def if_scope(self, cond: ExprLike) -> Iterator[None]:
        """Open the true branch; an ``else_scope`` must follow."""
        self._frames.append(_Frame())
        yield
        branch = self._frames.pop().close()
        self._frames[-1].pending = (as_expr(cond), branch)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Open the false branch; the conditional becomes the value of the enclosing scope."""
        if self._frames[-1].pending is None:
            raise RuntimeError("else_scope must follow an if_scope")
        self._frames.append(_Frame())
        yield
        frame = self._frames.pop()
        outer = self._frames[-1]
        assert outer.pending is not None
        cond, true_branch = outer.pending
        outer.pending = None
        self.ret(If(cond, true_branch, frame.close()))

    def type_of(self, expr: ExprLike) -> Type | None:
        """Return the annotation of a variable, and the inferred type of any other expression."""
        if isinstance(expr, Var):
            return expr.type_annotation
        inferred: Expr = _infer_type(expr)
        return inferred.checked_type

    def get(self) -> Expr:
        """Return the finished program."""
        return self._frames[-1].close()


class _Frame:
    def __init__(self) -> None:
        self.lets: list[tuple[Var, Expr]] = []
        self.value: Expr | None = None
        self.pending: tuple[Expr, Expr] | None = None

    def close(self) -> Expr:
        if self.value is None:
            raise RuntimeError("no value: call ret in every scope")
        body = self.value
        for variable, value in reversed(self.lets):
            body = Let(variable, value, body)
        return body


@refusing
def call(name: str, args: Iterable[ExprLike], **attrs: AttrValue) -> Call:
    """Return a call of an operator with every attribute set.

    Raises:
        UnknownName: the operator does not exist.
        BadNode: wrong arguments or attributes; the message names the operator.
    """
    row = _row(name)
    given = {**defaults(row), **attrs}
    # set the default explicitly, so that it is expanded to both ends of each axis
    if _rank(name) and "padding" in row.attrs:
        given.setdefault("padding", row.attrs["padding"])
    # None for a string or bool attribute means the default of the table entry.
    unsaid = [k for k, v in given.items() if v is None and isinstance(row.attrs.get(k), str | bool)]
    for key in unsaid:
        del given[key]
    for key, value in given.items():
        if _holds_expr(value):
            text = f"{name}: attribute {key!r}: expected a value without Relay expressions"
            raise BadNode(f"{text}, found {shown(value)}")
        given[key] = _listed(name, key, value)
    try:
        return Call(get_op(name), tuple(map(as_expr, args)), complete_attrs(row, given))
    except AttrError as error:
        raise BadNode(str(error)) from None


def _row(name: str) -> OpRow:
    if not isinstance(name, str) or name not in OPS:
        raise UnknownName(f"unknown operator {shown(name)}")
    return OPS[name]


def op_function(name: str) -> OpFunction:
    """Return the Python function of an operator, with the parameters of Relay's own function."""
    row = _row(name)
    params = parameters(row)
    names = [arg.lstrip("*") for arg in row.args]
    results = RESULTS.get(name)

    @refusing
    def build(*args: Any, **kwargs: Any) -> Call | TupleWrapper:
        given = _bound(name, params, args, kwargs)
        operands = [
            _tuple_arg(given.pop(n)) if many else given.pop(n)
            for n, many in zip(names, row.tuple_args, strict=False)
        ]
        made = call(name, operands, **given)
        return TupleWrapper(made, results) if results else made

    build.__name__ = build.__qualname__ = name.rsplit(".", 1)[-1]
    build.__doc__ = f"Call Relay's ``{name}``; see the operator table for its attributes."
    build.__signature__ = _signature(params)  # type: ignore[attr-defined]
    return build


def _bound(
    name: str, params: Mapping[str, object], args: Sequence[Expr | str], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the given values, keyed by the names of the operator's arguments and attributes.

    Raises:
        BadNode: there are too many arguments, one is given twice, or one is missing.
    """
    if len(args) > len(params):
        most = counted(len(params), "argument")
        raise BadNode(f"{name}: expected at most {most}, found {len(args)}")
    given = dict(zip(params, args, strict=False))
    twice = sorted(given.keys() & kwargs.keys())
    if twice:
        raise BadNode(f"{name}: argument {twice[0]!r} is given twice")
    given.update(kwargs)
    required = [n for n, default in params.items() if default is REQUIRED]
    missing = [n for n in required if n not in given]
    if missing:
        raise BadNode(f"{name} needs argument {missing[0]!r}; {name}({', '.join(required)})")
    return {field_of(name, key): value for key, value in given.items()}


def _signature(params: Mapping[str, object]) -> inspect.Signature:
    """Return the signature for ``inspect``. A required parameter after
    optional ones is keyword-only, since Python allows no other form.
    """
    optional = False
    shown = []
    for name, default in params.items():
        empty = inspect.Parameter.empty if default is REQUIRED else default
        late = optional and default is REQUIRED
        optional |= default is not REQUIRED
        kind = inspect.Parameter.KEYWORD_ONLY if late else inspect.Parameter.POSITIONAL_OR_KEYWORD
        shown.append(inspect.Parameter(name, kind, default=empty))
    return inspect.Signature(sorted(shown, key=lambda p: p.kind))


def _tuple_arg(value: object) -> Expr:
    return Tuple(tuple(value)) if isinstance(value, (list, tuple)) else as_expr(value)


def _holds_expr(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_expr, value))
    return isinstance(value, (Expr, TupleWrapper))


def _rank(name: str) -> int:
    """Return the number of spatial dims of a windowed operator such as ``nn.conv2d``; 0 for
    others.
    """
    match = _WINDOWED.fullmatch(name)
    return int(match[1]) if match else 0


def _listed(name: str, key: str, value: Any) -> object:
    """Return an attribute value as a list if its default in the table entry is a list.

    A single number becomes a list. Padding with one number per spatial axis is repeated, so that
    it applies to both ends of each axis.
    """
    if value is None:
        return None
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if number and (key in _LISTS or (key == "axis" and name in _LIST_AXIS)):
        return (int(value),)
    rank = _rank(name)
    if not rank or key not in _SPATIAL:
        return value
    values = [int(value)] * rank if number else [int(v) for v in value]
    values = values * rank if len(values) == 1 else values
    if key == "padding" and len(values) == rank:
        values = values * 2
    return tuple(values)
