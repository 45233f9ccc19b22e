"""Inference of an untyped operand, usually weights, from an operator's other operands.

A rule is ``rule(types, attrs) -> types``. Its argument has the types of known operands and None for
others; its result has one type per operand, None if nothing can be inferred. ``OPERANDS`` has
the rules by operator name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm_disc.relay.types import Dim, TensorType, scalar_type

Known: TypeAlias = Sequence[Any]
Attrs: TypeAlias = Mapping[str, Any]
OperandRule: TypeAlias = Callable[[Known, Attrs], Sequence["TensorType | None"]]


def _per_channel() -> OperandRule:
    """Return a rule for vectors along ``axis`` of the first operand, with its dtype."""

    def rule(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        data = types[0]
        if data is None or not -len(data.shape) <= attrs["axis"] < len(data.shape):
            return [None] * len(types)
        vector = TensorType((data.shape[attrs["axis"]],), data.dtype)
        return [None, *[vector] * (len(types) - 1)]

    return rule


def _product(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
    """Return the operand types of a matmul whose second operand has ``units`` columns (rows if it
    is transposed).
    """
    data, units = types[0], attrs["units"]
    if data is None or units is None or not data.shape:
        return [None] * len(types)
    inner = data.shape[-2 if attrs.get("transpose_a") and len(data.shape) > 1 else -1]
    # ``nn.dense`` lacks the attribute: its weights are transposed.
    flipped = attrs.get("transpose_b", True)
    shape = (units, inner) if flipped else (inner, units)
    return [None, TensorType(shape, data.dtype), *[None] * (len(types) - 2)]


def _convolution(weight: int = 1, transposed: bool = False) -> OperandRule:
    """Return a rule for the kernel, whose extent and channels are attributes."""

    def rule(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        found: list[TensorType | None] = [None] * len(types)
        data, channels, extent = types[0], attrs["channels"], attrs["kernel_size"]
        layout, kernel = attrs["data_layout"], attrs["kernel_layout"] or "OIHW"
        if data is None or channels is None or not extent or len(layout) != len(data.shape):
            return found
        inputs, groups = data.shape[layout.index("C")], attrs["groups"]
        shape = _kernel_shape(inputs, channels, groups, kernel, transposed)
        if shape is None or not kernel.isalpha() or len(kernel) != len(extent) + 2:
            return found
        spatial = [c for c in layout if c not in "NC"]
        shape.update(zip(spatial, extent, strict=True))
        if not set(kernel) <= shape.keys():
            return found
        found[weight] = TensorType(tuple(shape[c] for c in kernel), data.dtype)
        return found

    return rule


def _kernel_shape(
    inputs: Dim, channels: int, groups: int, kernel: str, transposed: bool
) -> dict[str, Dim] | None:
    if not isinstance(inputs, int):
        return None if groups > 1 else {"O": channels, "I": inputs}
    if transposed:
        return {"I": inputs, "O": channels // groups}
    # A depthwise kernel in layout ...OI has the channel multiplier in its I axis.
    if groups == inputs and groups > 1 and kernel.endswith("OI"):
        return {"O": groups, "I": channels // groups}
    return {"O": channels, "I": inputs // groups}


def _quantised(rule: OperandRule) -> OperandRule:
    """Return a rule for a quantized matmul or convolution, whose zero points and scales are
    scalars.
    """

    def whole(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        numbers = [scalar_type("int32")] * 2 + [scalar_type("float32")] * 2
        return [*rule(types, attrs)[:2], *numbers]

    return whole


def _scalars(*dtypes: str) -> OperandRule:
    """Return a rule for operators whose operands except the first are scalars."""

    def rule(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        return [None, *map(scalar_type, dtypes)]

    return rule


_PARAMS = ("float32", "int32")
_CONV = {f"nn.conv{n}d": _convolution() for n in (1, 2, 3)}
_TRANSPOSED = {f"nn.conv{n}d_transpose": _convolution(transposed=True) for n in (1, 2, 3)}

OPERANDS: Mapping[str, OperandRule] = {
    **_CONV,
    **_TRANSPOSED,
    "nn.deformable_conv2d": _convolution(weight=2),
    "nn.dense": _product,
    "nn.matmul": _product,
    "nn.bias_add": _per_channel(),
    "nn.prelu": _per_channel(),
    "nn.batch_norm": _per_channel(),
    "nn.layer_norm": _per_channel(),
    "nn.instance_norm": _per_channel(),
    "nn.group_norm": _per_channel(),
    "qnn.dense": _quantised(_product),
    "qnn.conv2d": _quantised(_convolution()),
    "qnn.quantize": _scalars(*_PARAMS),
    "qnn.dequantize": _scalars(*_PARAMS),
    "qnn.requantize": _scalars(*_PARAMS, *_PARAMS),
}

__all__ = ["OPERANDS", "OperandRule"]
