"""Building programs from Python: variables, constants, scopes, and calls made from table rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import BadNode
from .attrs import AttrError, complete_attrs
from .expr import (
    AttrValue,
    Call,
    Constant,
    Expr,
    ExprLike,
    If,
    Let,
    Tuple,
    TupleWrapper,
    Var,
    as_expr,
    get_op,
)
from .inference.infer import infer_type
from .ops.row import REQUIRED, OpRow
from .ops.table import OPS
from .types import Dim, TensorType, Type

OpFunction = Callable[..., Any]

_POOL = {"pool_size": 1}
# Defaults of Relay's Python functions that are not the operator's own.
PYTHON_DEFAULTS: Mapping[str, Mapping[str, AttrValue]] = {
    "argsort": {"dtype": "int32"},
    "topk": {"k": 1, "dtype": "int32"},
    "transpose": {"axes": None},
    "slice_like": {"axes": ()},
    "strided_slice": {"strides": (1,), "axes": None},
    "shape_of": {"dtype": "int32"},
    "ndarray_size": {"dtype": "int32"},
    "image.resize1d": {"rounding_method": ""},
    "image.resize2d": {"rounding_method": ""},
    "image.resize3d": {"rounding_method": ""},
    "image.affine_grid": {"target_shape": None},
    **{f"nn.{kind}_pool{n}d": _POOL for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.{kind}_pool2d_grad": _POOL for kind in ("max", "avg")},
    "nn.upsampling": {"scale_h": 1, "scale_w": 1},
    "nn.upsampling3d": {"scale_d": 1, "scale_h": 1, "scale_w": 1},
    "nn.matmul": {"units": None},
    "nn.dense": {"units": None},
    "nn.contrib_dense_pack": {"units": None},
    "nn.leaky_relu": {"alpha": 0.01},
    "nn.lrn": {"alpha": 1e-05},
    "nn.l2_normalize": {"axis": None},
    "nn.batch_matmul": {"transpose_b": True},
    "nn.bitpack": {"bit_axis": 2, "pack_type": "uint32"},
    "nn.bitserial_conv2d": {"pack_dtype": "uint32", "out_dtype": "int16"},
    "nn.bitserial_dense": {"units": None, "pack_dtype": "uint32", "out_dtype": "int16"},
    "nn.nll_loss": {"ignore_index": -100},
    "debug": {"debug_func": None},
    **{f"qnn.{name}quantize": {"out_dtype": "int8"} for name in ("", "re")},
    "qnn.dequantize": {"out_dtype": "float32"},
    "qnn.batch_matmul": {"out_dtype": "int32", "transpose_b": True},
    "qnn.contrib_dense_pack": {"units": None, "out_dtype": "int32"},
    "qnn.conv2d_transpose": {"out_dtype": "int32"},
    "qnn.dense": {"out_dtype": "int32"},
    "dyn.reshape": {"newshape": ()},
    "dyn.broadcast_to": {"shape": None},
    "dyn.full": {"shape": None},
    "dyn.zeros": {"shape": None},
    "dyn.ones": {"shape": None},
    "dyn.tile": {"reps": None},
    "dyn.topk": {"k": None, "dtype": "int32"},
    "dyn.strided_slice": {"begin": None, "end": None, "strides": None, "axes": None},
    "dyn.nn.pad": {"pad_width": ()},
    "dyn.nn.upsampling": {"scale_h": 0.0, "scale_w": 0.0},
    "dyn.nn.upsampling3d": {"scale_d": 0.0, "scale_h": 0.0, "scale_w": 0.0},
}
_WINDOWED = re.compile(r"q?nn\.(?:conv|max_pool|avg_pool|adaptive_\w+_pool)(\d)d(?:_transpose)?")
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
) -> Var:
    """A variable.  With ``shape``, a tensor of it; without any annotation, of inferred type."""
    if not isinstance(name_hint, str):
        raise BadNode(f"the name of a variable is a text, found {name_hint!r}")
    if not isinstance(type_annotation, Type | str | None):
        raise BadNode(f"variable '{name_hint}': expected a relay type, found {type_annotation!r}")
    if type_annotation is not None and shape is not None:
        raise BadNode("relay.var takes a type annotation or a shape, not both")
    if shape is not None:
        return Var(name_hint, TensorType(shape, dtype))  # type: ignore[arg-type]
    if isinstance(type_annotation, str):
        return Var(name_hint, TensorType((), type_annotation))
    return Var(name_hint, type_annotation)


def const(value: Any, dtype: str | None = None) -> Constant:
    """A constant from a number, list or array.

    As in Relay, int64 becomes int32 and float64 becomes float32 unless ``dtype`` says otherwise.
    """
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        value = value.numpy()  # an array of TVM's
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise BadNode(f"a constant holds numbers or bools, found {str(value)[:80]!r}")
    narrow = {"int64": "int32", "float64": "float32"}.get(array.dtype.name)
    if dtype is None and narrow is None:
        return Constant(array)
    try:
        made = array.astype(dtype or narrow)
    except TypeError:
        raise BadNode(f"a constant has an element type such as float32, found {dtype!r}") from None
    if array.dtype.kind in "iuf" and made.dtype.kind in "iu" and not np.array_equal(array, made):
        raise BadNode(f"{str(value)[:80]} does not fit {made.dtype}; say another dtype")
    return Constant(made)


class ScopeBuilder:
    """Statements in order: ``let`` binds, ``ret`` ends, ``if_scope``/``else_scope`` branch."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = [_Frame()]

    def let(self, target: Var | str, value: ExprLike) -> Var:
        """Bind a value to a variable (or to a new one of that name)."""
        variable = Var(target) if isinstance(target, str) else target
        self._frames[-1].lets.append((variable, as_expr(value)))
        return variable

    def ret(self, value: ExprLike) -> None:
        """The value of the current scope."""
        if self._frames[-1].value is not None:
            raise RuntimeError("ret can only be called once in a scope")
        self._frames[-1].value = as_expr(value)

    @contextmanager
    def if_scope(self, cond: ExprLike) -> Iterator[None]:
        """The true branch; an ``else_scope`` must follow."""
        self._frames.append(_Frame())
        yield
        branch = self._frames.pop().close()
        self._frames[-1].pending = (as_expr(cond), branch)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The false branch; the conditional becomes the value of the scope around it."""
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
        """The annotation of a variable; the inferred type of anything else."""
        if isinstance(expr, Var):
            return expr.type_annotation
        return infer_type(expr).checked_type

    def get(self) -> Expr:
        """The finished program."""
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


def call(name: str, args: Iterable[ExprLike], **attrs: AttrValue) -> Call:
    """A call of an operator with every attribute filled in.

    raises: BadNode naming the operator for wrong arguments or attributes.
    """
    row = OPS[name]
    given = {**PYTHON_DEFAULTS.get(name, {}), **attrs}
    if _rank(name) and "padding" in row.attrs:  # even the default is spelled with both ends
        given.setdefault("padding", row.attrs["padding"])
    for key, value in given.items():
        if _holds_expr(value):
            raise BadNode(f"{name}: attribute {key!r} must be numbers, found {value!r}")
        given[key] = _listed(name, key, value)
    try:
        return Call(get_op(name), tuple(map(as_expr, args)), complete_attrs(row, given))
    except AttrError as error:
        raise BadNode(str(error)) from None


def op_function(name: str) -> OpFunction:
    """The Python function of a table row: arguments, then attributes, in order or by keyword."""
    row = OPS[name]
    names = [arg.lstrip("*") for arg in row.args]

    def build(*args: Any, **kwargs: Any) -> Call:
        if len(args) > len(names) + len(row.attrs):
            limit = len(names) + len(row.attrs)
            raise BadNode(f"{name} takes at most {limit} arguments, found {len(args)}")
        given = dict(zip([*names, *row.attrs], args, strict=False))
        twice = sorted(given.keys() & kwargs.keys())
        if twice:
            raise BadNode(f"{name} got {twice[0]!r} twice")
        given.update(kwargs)
        missing = [n for n in names if n not in given]
        if missing:
            raise BadNode(f"{name} needs argument {missing[0]!r}; {name}({', '.join(names)})")
        operands = [
            _tuple_arg(given.pop(n)) if many else given.pop(n)
            for n, many in zip(names, row.tuple_args, strict=False)
        ]
        return call(name, operands, **given)

    build.__name__ = build.__qualname__ = name.rsplit(".", 1)[-1]
    build.__doc__ = f"Call Relay's ``{name}``; see the operator table for its attributes."
    build.__signature__ = _signature(row, names)  # type: ignore[attr-defined]
    return build


def _signature(row: OpRow, names: list[str]) -> inspect.Signature:
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    params = [inspect.Parameter(n, either) for n in names]
    own = PYTHON_DEFAULTS.get(row.name, {})
    for key, default in row.attrs.items():
        default = own.get(key, default)
        # A required attribute after an optional one can only be shown by keyword.
        shown = inspect.Parameter.empty if default is REQUIRED else default
        params.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=shown))
    try:
        return inspect.Signature(params)
    except ValueError:  # an argument and an attribute share a name (arange, dyn.reshape)
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])


def _tuple_arg(value: Any) -> Expr:
    return Tuple(tuple(value)) if isinstance(value, (list, tuple)) else as_expr(value)


def _holds_expr(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_expr, value))
    return isinstance(value, (Expr, TupleWrapper))


def _rank(name: str) -> int:
    """The number of spatial dims in ``nn.conv2d``-like names; 0 for others."""
    match = _WINDOWED.fullmatch(name)
    return int(match[1]) if match else 0


def _listed(name: str, key: str, value: Any) -> Any:
    """A lone number where the attribute is a list becomes one; window padding gets both ends."""
    if value is None:
        return () if name.startswith("nn.adaptive") and key == "output_size" else None
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
