"""Operands of a call against what its operator takes, before and after its rule sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.tensor import DTYPES, Tensor
from tvm_disc.relay.ops.row import OpRow

# Arguments that hold positions. `one_hot` compares its indices, and those may be anything.
_POSITIONS = ("indices", "sparse_indices", "sparse_indptr", "box_indices", "*indices")
_COMPARED = ("one_hot", "dyn.one_hot", "vision.non_max_suppression")
# What a rule raises that was written for operands of other ranks or attributes of other types.
# Of TVM's own, those alone that a zero among the attributes causes: others are defects.
_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


# Attributes that name an element type, and how they leave it to the operands.
_TYPES, _NONE = {"dtype", "out_dtype", "pack_dtype"}, (None, "", "None")
_SHORT = ("float", "int", "uint", "bool")
# The operators of windows, images and boxes, whose numbers TVM keeps in 32 bits, and which of
# them are counts.
_WINDOWS = ("nn.", "qnn.", "dyn.nn.", "image.", "vision.", "stft")
_MOST = 2**31 - 1
_COUNTS = frozenset(
    "block_size deformable_groups dilation groups hop_length kernel_size n_fft num_groups "
    "pool_size pooled_size stride1 stride2 strides".split()
)


def check_attrs(ctx: Emitter, row: OpRow, attrs: Mapping[str, Any]) -> None:
    """Refuse element types that no array has, and windows that cannot be.

    Raises:
        TypeMismatch: with the operator, the attribute and what it says.
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


def _integers(given: Any) -> list[int]:
    """The whole numbers of an attribute."""
    if isinstance(given, list | tuple):
        return [n for part in given for n in _integers(part)]
    return [given] if isinstance(given, int) else []


def check_operands(ctx: Emitter, row: OpRow, args: Sequence[Any]) -> None:
    """Refuse a call with another number of operands, tuples for tensors, or positions that are
    no integers.

    Raises:
        TypeMismatch: with the operator, its place in the source and the argument.
    """
    if len(args) != len(row.args):
        names = ", ".join(n.lstrip("*") for n in row.args) or "none"
        raise TypeMismatch(
            ctx.where(f"expected {len(row.args)} operands ({names}), found {len(args)}")
        )
    for name, whole, arg in zip(row.args, row.tuple_args, args, strict=True):
        if isinstance(arg, tuple) != whole:
            expected, found = ("a tuple", "a tensor") if whole else ("a tensor", "a tuple")
            raise TypeMismatch(
                ctx.where(f"operand '{name.lstrip('*')}': expected {expected}, found {found}")
            )
        if name in _POSITIONS and row.name not in _COMPARED:
            for tensor in arg if isinstance(arg, tuple) else (arg,):
                _check_integers(ctx, name.lstrip("*"), tensor)


def _check_integers(ctx: Emitter, name: str, tensor: Any) -> None:
    if isinstance(tensor, Tensor) and not tensor.dtype.startswith(("int", "uint")):
        raise TypeMismatch(
            ctx.where(f"operand '{name}': expected integers, found {tensor.dtype}; cast them")
        )


def lowered(ctx: Emitter, row: OpRow, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """What the operator's rule makes of a call.

    Raises:
        TypeMismatch: the rule has no answer for operands or attributes like these.
    """
    assert row.lower is not None
    try:
        return row.lower(ctx, args, attrs)
    except (*_UNFIT, tvm.error.InternalError) as error:
        if isinstance(error, tvm.error.InternalError) and "Divide by zero" not in str(error):
            raise
        types = ", ".join(_shown(a) for a in args)
        given = ", ".join(f"{k}={str(v)[:40]}" for k, v in attrs.items())
        raise TypeMismatch(
            ctx.where(f"it does not take ({types}) with {given or 'no attributes'}: {error}")
        ) from error


def _shown(arg: Any) -> str:
    if isinstance(arg, tuple):
        return f"({', '.join(_shown(a) for a in arg)})"
    return f"{arg.dtype}[{', '.join(map(str, arg.dims))}]" if isinstance(arg, Tensor) else "?"
