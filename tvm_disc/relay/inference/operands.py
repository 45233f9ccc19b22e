"""What the other operands of an operator say about one that has no type: weights, mostly.

A rule is ``rule(types, attrs) -> types``: of operands that are known, and None for others, to one
per operand, None where nothing can be said. It is a trait of an operator's row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm_disc.relay.types import Dim, TensorType, scalar_type

Known: TypeAlias = Sequence[Any]
Attrs: TypeAlias = Mapping[str, Any]
OperandRule: TypeAlias = Callable[[Known, Attrs], Sequence["TensorType | None"]]


def _per_channel() -> OperandRule:
    """Vectors along ``axis`` of the first operand, of its dtype."""

    def rule(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        data = types[0]
        if data is None or not -len(data.shape) <= attrs["axis"] < len(data.shape):
            return [None] * len(types)
        vector = TensorType((data.shape[attrs["axis"]],), data.dtype)
        return [None, *[vector] * (len(types) - 1)]

    return rule


def _product(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
    """The second factor of a product with a vector of ``units`` per row."""
    data, units = types[0], attrs["units"]
    if data is None or units is None or not data.shape:
        return [None] * len(types)
    inner = data.shape[-2 if attrs.get("transpose_a") and len(data.shape) > 1 else -1]
    # ``nn.dense`` has no such attribute: its weights are transposed.
    flipped = attrs.get("transpose_b", True)
    shape = (units, inner) if flipped else (inner, units)
    return [None, TensorType(shape, data.dtype), *[None] * (len(types) - 2)]


def _convolution(weight: int = 1, transposed: bool = False) -> OperandRule:
    """The kernel, whose extent and number of channels are attributes."""

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
    # Depthwise kernels that lie channels first carry the multiplier as their outputs.
    if groups == inputs and groups > 1 and kernel.endswith("OI"):
        return {"O": groups, "I": channels // groups}
    return {"O": channels, "I": inputs // groups}


def _quantised(rule: OperandRule) -> OperandRule:
    """A quantised product: the zero points and scales are numbers, too."""

    def whole(types: Known, attrs: Attrs) -> Sequence[TensorType | None]:
        numbers = [scalar_type("int32")] * 2 + [scalar_type("float32")] * 2
        return [*rule(types, attrs)[:2], *numbers]

    return whole


def _scalars(*dtypes: str) -> OperandRule:
    """All operands but the first are numbers."""

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
