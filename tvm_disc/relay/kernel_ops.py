"""Relax operators of this project: kernels that no composition of Relax's operators expresses.

A call is ``disc.name(tensors..., R.shape(dims))``. Its attributes, including ``dtype``, are in a
``DictAttrs``. The result is one tensor of shape ``dims``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.ir import _ffi_api

from tvm_disc.typing import Expr

# ``(buffer, new, length[p])``: the buffer with its rows from index ``p`` on along ``axis`` replaced
# by the rows of ``new``. The result aliases the buffer.
APPEND = "disc.append"

# ``()``: memory whose elements are undefined. Calls that differ in the attribute ``number`` return
# different memory.
BLANK = "disc.blank"

# ``(rows[..., K])``: the rows, with each group of ``block`` elements rounded to int8 multiples of
# one scale.
ROUND_ROWS = "disc.round_rows"

# ``(buffer, new, indices)``: ``scatter_elements`` and ``scatter_nd`` on the buffer, permuted by
# ``axes``. The result aliases the buffer.
UPDATE = "disc.update"
UPDATE_ND = "disc.update_nd"

# ``(buffer, new, first[items, axes])``: ``new`` written at positions ``first`` along some axes: a
# row of positions for each index of axis 0, or one for all. The result is the buffer's memory.
UPDATE_SLICE = "disc.update_slice"

# ``(selected, data, new, first)``: returns ``selected``, which is ``data`` with ``new`` written at
# positions ``first``. A pass that owns ``data`` replaces it by ``UPDATE_SLICE``.
WRITE_SLICE = "disc.write_slice"

# Name -> the attributes that the kernel reads.
KERNELS: Mapping[str, tuple[str, ...]] = {
    APPEND: ("axis",),
    BLANK: ("number",),
    "disc.compact": (),
    "disc.coordinates": (),
    "disc.csr_dense": ("transposed",),
    "disc.items": ("positions",),
    "disc.lengths": ("least",),
    "disc.offsets": (),
    "disc.pool_grad": ("average", "count_pads", "pool_size", "strides", "padding"),
    "disc.correlation": ("size", "most", "stride", "apart", "product"),
    "disc.proposals": ("stride", "least", "plain"),
    "disc.roi": ("mode", "pooled", "scale", "ratio"),
    ROUND_ROWS: ("block",),
    "disc.segments": ("reduce",),
    "disc.sample": ("method", "border", "corners"),
    "disc.suppress": ("rule", "any_class"),
    "disc.threefry": ("mode", "count"),
    UPDATE: ("axis", "reduction", "axes"),
    UPDATE_ND: ("reduction", "axes"),
    UPDATE_SLICE: ("reduction", "axes", "along", "wraps"),
}

# Operators whose result aliases the first operand.
EXTENDING = (APPEND, UPDATE, UPDATE_ND, UPDATE_SLICE)

# Unary element-wise functions that Relax lacks; the result has the operand's type.
FUNCTIONS = ("erfc", "exp2", "expm1", "lgamma", "log10", "log1p", "log2")

# Bit cast to a different type: element-wise, without a kernel.
REINTERPRET = "disc.reinterpret"

# ``(numbers[K, N] - zero) * scale`` as float32. ``scale`` and ``zero`` have the shape
# ``[ceil(K / group), N]`` and are optional.
DEQUANTIZE = "disc.dequantize"
NIBBLES = 8  # number of 4-bit numbers in a 32-bit word


# ``(packed[t, ...], offsets[b + 1])`` as ``[b, s, ...]``: element ``(g, i)`` is row
# ``offsets[g] + i`` of ``packed``. Elements after the end of an item are undefined.
UNPACK = "disc.unpack"

# ``(padded[b, s, ...], offsets[b + 1])`` as ``[t, ...]``: the inverse of ``UNPACK``.
PACK = "disc.pack"

# ``(data, least, greatest, R.shape([low, high]))``: returns data. The host program raises an error
# unless low <= least and greatest < high. A single number is both least and greatest.
CHECKED = "disc.checked"


def _infer(call: Any, _: object) -> object:
    return relax.TensorType(list(call.args[-1].values), call.attrs["dtype"])


def _infer_same(call: Any, _: object) -> object:
    return call.args[0].ty


def _register() -> None:
    rules = dict.fromkeys((*KERNELS, REINTERPRET, DEQUANTIZE, UNPACK, PACK), _infer)
    rules.update(dict.fromkeys((f"disc.{name}" for name in FUNCTIONS), _infer_same))
    rules |= dict.fromkeys((CHECKED, WRITE_SLICE), _infer_same)
    for name, infer in rules.items():
        _ffi_api.RegisterOp(name, "a kernel of tvm_disc")
        op = tvm.ir.Op.get(name)
        op.set_attr("FInferType", infer)
        op.set_attr("FPurity", True)


_register()


def kernel_call(
    name: str, args: Sequence[Expr], dims: Sequence[Expr], dtype: str, **attrs: object
) -> Expr:
    """Return a call of kernel ``name``."""
    assert set(attrs) == set(KERNELS[name]), name
    given = tvm.ir.make_node("ir.DictAttrs", dtype=dtype, **attrs)
    return tvm.ir.Call(tvm.ir.Op.get(name), [*args, relax.ShapeExpr(list(dims))], given)


def ragged_call(name: str, data: Expr, offsets: Expr, dims: Sequence[Expr], dtype: str) -> Expr:
    """Return a call of ``UNPACK`` or ``PACK``."""
    given = tvm.ir.make_node("ir.DictAttrs", dtype=dtype)
    return tvm.ir.Call(tvm.ir.Op.get(name), [data, offsets, relax.ShapeExpr(list(dims))], given)


def function_call(name: str) -> Callable[[Expr], Expr]:
    """Return a builder of calls of one of ``FUNCTIONS``."""
    return lambda x: tvm.ir.Call(tvm.ir.Op.get(f"disc.{name}"), [x])


def reinterpret_call(x: Expr, dims: Sequence[Any], dtype: str) -> Expr:
    """Return a call that reinterprets the bits of ``x`` as a different type."""
    given = tvm.ir.make_node("ir.DictAttrs", dtype=dtype)
    return tvm.ir.Call(tvm.ir.Op.get(REINTERPRET), [x, relax.ShapeExpr(list(dims))], given)


def dequantize_call(parts: Sequence[Expr], dims: Sequence[Expr], group: int, bits: int = 8) -> Expr:
    """Return a call that dequantizes ``(numbers, scale, zero)``; ``scale`` and ``zero`` are
    optional, and float32 or float16.

    One row of ``scale`` and ``zero`` applies to ``group`` rows of ``numbers``, which have ``bits``
    bits each.
    """
    given = tvm.ir.make_node("ir.DictAttrs", dtype="float32", group=group, bits=bits)
    return tvm.ir.Call(tvm.ir.Op.get(DEQUANTIZE), [*parts, relax.ShapeExpr(list(dims))], given)


def checked_call(
    data: Expr, numbers: Sequence[Expr], limits: Sequence[Expr], *, what: str, kind: str
) -> Expr:
    """Return ``data`` guarded by a run-time check that ``numbers`` are within ``limits``.

    Args:
        numbers: the least and the greatest element, or one number, each int64 of shape ``[1]``.
        limits: the least number allowed, and the first that is too large.
        what: names the checked numbers to the user; the error message begins with it.
        kind: the kind of error that the host program raises.
    """
    given = tvm.ir.make_node("ir.DictAttrs", what=what, kind=kind)
    args = [data, *numbers, relax.ShapeExpr(list(limits))]
    return tvm.ir.Call(tvm.ir.Op.get(CHECKED), args, given)


def write_slice_call(parts: Sequence[Expr], along: Sequence[int], wraps: bool) -> Expr:
    """Return a call of ``WRITE_SLICE`` on ``(selected, data, new, first)``.

    Args:
        along: the axes to which the columns of ``first`` apply.
        wraps: positions count modulo the size of their axis; otherwise those outside are dropped.
    """
    given = tvm.ir.make_node("ir.DictAttrs", along=list(along), wraps=wraps)
    return tvm.ir.Call(tvm.ir.Op.get(WRITE_SLICE), list(parts), given)
