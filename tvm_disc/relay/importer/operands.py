"""Checks of a call's operands and attributes, before and while its rule runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvm_disc.errors import TypeMismatch, counted
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.tensor import DTYPES, Tensor
from tvm_disc.relay.ops.algebra import building
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.shape.printing import show_shape

# Arguments that hold positions. `one_hot` only compares its indices, which may be any value.
_POSITIONS = ("indices", "sparse_indices", "sparse_indptr", "box_indices", "*indices")
_COMPARED = ("one_hot", "dyn.one_hot", "vision.non_max_suppression")
# Errors of a rule that receives operands of unsuitable rank or attributes of unsuitable type. Of
# TVM's InternalErrors, only a division by zero is caused by an attribute; the others are bugs.
_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
# Python's messages about the number of items in a sequence.
_UNPACKED = re.compile("values to unpack|empty sequence")


# Attributes that name an element type, and values that select the operands' type.
_TYPES, _NONE = {"dtype", "out_dtype", "pack_dtype"}, (None, "", "None")
_SHORT = ("float", "int", "uint", "bool")
# Operators on windows, images and boxes, whose attributes TVM stores in 32 bits. ``_COUNTS`` are
# those attributes that must be at least 1.
_WINDOWS = ("nn.", "qnn.", "dyn.nn.", "image.", "vision.", "stft")
_MOST = 2**31 - 1
_COUNTS = frozenset(
    "block_size deformable_groups dilation groups hop_length kernel_size n_fft num_groups "
    "pool_size pooled_size stride1 stride2 strides".split()
)


def check_attrs(ctx: Emitter, row: OpRow, attrs: Mapping[str, object]) -> None:
    """Refuse unknown element types, and window attributes that are out of range.

    Raises:
        TypeMismatch: with the operator, the attribute and its value.
    """
    for name in sorted(_TYPES & attrs.keys()):
        given = attrs[name]
        if given in _NONE and row.attrs.get(name) in _NONE:
            continue
        if not isinstance(given, str) or given not in DTYPES.union(_SHORT):
            types = f"{name}: expected an element type such as float32, found {given!r}"
            raise TypeMismatch(ctx.where(types))
    for name in sorted(attrs) if row.name.startswith(_WINDOWS) else ():
        least = 1 if name in _COUNTS else 0 if name == "output_padding" else -_MOST
        for number in _integers(attrs[name]):
            if not least <= number <= _MOST:
                fit = f"{name}: expected {least} to {_MOST}, found {number}"
                raise TypeMismatch(ctx.where(fit))


def _integers(given: object) -> list[int]:
    """Return the integers in an attribute."""
    if isinstance(given, list | tuple):
        return [n for part in given for n in _integers(part)]
    return [given] if isinstance(given, int) else []


def check_operands(ctx: Emitter, row: OpRow, args: Sequence[object]) -> None:
    """Refuse a wrong number of operands, tuples instead of tensors or the reverse, and positions
    that are not integers.

    Raises:
        TypeMismatch: with the operator, its source location and the argument.
    """
    if len(args) != len(row.args):
        names = ", ".join(n.lstrip("*") for n in row.args) or "none"
        wanted = counted(len(row.args), "operand")
        raise TypeMismatch(ctx.where(f"expected {wanted} ({names}), found {len(args)}"))
    for name, whole, arg in zip(row.args, row.tuple_args, args, strict=True):
        if isinstance(arg, tuple) != whole:
            expected, found = ("a tuple", "a tensor") if whole else ("a tensor", "a tuple")
            raise TypeMismatch(
                ctx.where(f"operand '{name.lstrip('*')}': expected {expected}, found {found}")
            )
        if name in _POSITIONS and row.name not in _COMPARED:
            for tensor in arg if isinstance(arg, tuple) else (arg,):
                _check_integers(ctx, name.lstrip("*"), tensor)


def _check_integers(ctx: Emitter, name: str, tensor: object) -> None:
    if isinstance(tensor, Tensor) and not tensor.dtype.startswith(("int", "uint")):
        raise TypeMismatch(
            ctx.where(f"operand '{name}': expected integers, found {tensor.dtype}; cast them")
        )


def lowered(
    ctx: Emitter, row: OpRow, args: Sequence[tuple[Tensor, ...] | Tensor], attrs: Mapping[str, Any]
) -> object:
    """Return the result of the operator's rule.

    Raises:
        TypeMismatch: the rule does not accept these operands or attributes.
    """
    assert row.lower is not None
    try:
        with building(ctx):
            return row.lower(ctx, args, attrs)
    except (*_UNFIT, tvm.error.InternalError) as error:
        if isinstance(error, tvm.error.InternalError) and "Divide by zero" not in str(error):
            raise
        types = ", ".join(_shown(a) for a in args)
        given = ", ".join(f"{k}={str(v)[:40]}" for k, v in attrs.items())
        text = f"unsupported operands ({types}) with {given or 'no attributes'}"
        raise TypeMismatch(ctx.where(f"{text}{_reason(args, error)}")) from error


def _reason(args: Sequence[object], error: Exception) -> str:
    """Return the end of a message about operands or attributes that a rule did not expect."""
    if any(isinstance(a, tuple) and not a for a in args):
        return ": expected at least one tensor in the tuple"
    text = str(error)
    if isinstance(error, IndexError) or text.startswith("zip()") or _UNPACKED.search(text):
        return ": an operand has the wrong rank, or an attribute the wrong number of items"
    if isinstance(error, tvm.error.InternalError | ZeroDivisionError):
        return ": division by zero"
    return f": {text}" if text else ""


def _shown(arg: object) -> str:
    if isinstance(arg, tuple):
        return f"({', '.join(_shown(a) for a in arg)})"
    return f"{arg.dtype}[{show_shape(arg.dims)[1:-1]}]" if isinstance(arg, Tensor) else "?"
