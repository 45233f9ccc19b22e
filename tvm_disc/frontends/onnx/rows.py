"""All families of operators; importing a family registers its rows in the table."""

from __future__ import annotations

from types import ModuleType

from tvm_disc.frontends.onnx.operators import (
    activation,
    attention,
    classic,
    control,
    convolution,
    elementwise,
    generate,
    image,
    index,
    layout,
    linear,
    microsoft,
    normalize,
    order,
    pool,
    quantized,
    recurrent,
    reduce,
    sequence,
    shape,
    signal,
    slices,
    stateful,
    windows,
)

FAMILIES: tuple[ModuleType, ...] = (
    elementwise,
    activation,
    shape,
    layout,
    slices,
    index,
    order,
    reduce,
    linear,
    normalize,
    convolution,
    pool,
    windows,
    image,
    attention,
    recurrent,
    stateful,
    control,
    sequence,
    quantized,
    generate,
    signal,
    classic,
    microsoft,
)

__all__ = ["FAMILIES"]
