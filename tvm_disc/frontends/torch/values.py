"""Tensors of a PyTorch graph as Relay expressions of known type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import is_float

# A number, or an expression of sympy over the symbols of the program.
Dim: TypeAlias = Any

# PyTorch's names of element types that Relay has, too.
DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "uint8"]
    + [f"int{bits}" for bits in (8, 16, 32, 64)]
    + [f"uint{bits}" for bits in (16, 32, 64)]
)


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: a Relay expression, its element type, its dims."""

    expr: Any
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.dims)

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return is_float(self.dtype)


def relay_dtype(dtype: Any) -> str:
    """Relay's name of an element type of PyTorch.

    Raises:
        Unsupported: Relay has none like it, such as complex numbers.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Unsupported(f"elements of {name}; expected bools, integers or floats of 8 to 64 bits")
    return name


def dim_of(size: Any) -> Dim:
    """A size of PyTorch as a number or an expression of its symbols."""
    if isinstance(size, int):
        return size
    known = size.node.maybe_as_int()
    return size.node.expr if known is None else int(known)


def dims_of(tensor: Any) -> tuple[Dim, ...]:
    """The dims of a tensor of PyTorch."""
    return tuple(dim_of(size) for size in tensor.shape)


@cache
def meta_like(dtype: str, scalar: bool) -> Any:
    """A tensor without data, for PyTorch's own rules of type promotion."""
    import torch

    shape = () if scalar else (1,)
    return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")


def array_of(tensor: Any) -> np.ndarray:
    """The elements of a tensor of PyTorch, without a copy where they lie in order."""
    import torch

    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        import ml_dtypes

        bits = plain.view(torch.int16).numpy()
        return np.asarray(bits.view(ml_dtypes.bfloat16))
    relay_dtype(plain.dtype)
    return np.asarray(plain.numpy())
