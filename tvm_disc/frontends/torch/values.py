"""The representation of a PyTorch graph's tensors: Relay expressions with dtypes and dims."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import is_float
from tvm_disc.relay.ops.algebra import Algebra
from tvm_disc.typing import SymInt, TorchTensor

# An integer, a sympy expression over the program's symbols, or None for an unknown size.
Dim: TypeAlias = Any

# Names of the classes of symbolic numbers.
SYMBOLIC = ("SymInt", "SymFloat", "SymBool")
# Names of element types that both PyTorch and Relay have.
DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "uint8"]
    + [f"int{bits}" for bits in (8, 16, 32, 64)]
    + [f"uint{bits}" for bits in (16, 32, 64)]
)


@dataclass(frozen=True, eq=False)
class Value(Algebra):
    """A tensor: a Relay expression, its element type and its dims."""

    expr: Any
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return len(self.dims)

    @property
    def is_float(self) -> bool:
        """Return whether the dtype is a floating-point type."""
        return is_float(self.dtype)


def relay_dtype(dtype: object) -> str:
    """Return the name of a PyTorch dtype in Relay.

    Raises:
        Unsupported: Relay has no such type, for example for complex numbers.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Unsupported(
            "expected elements of bool, integers of 8 to 64 bits or floats of 16 to 64 bits, found "
            f"{name}"
        )
    return name


def wide_dtype(dtype: str) -> str:
    """Return the dtype in which PyTorch computes: float32 for floats of 16 bits."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def is_number(val: object) -> bool:
    """Return whether a node's value ``val`` is a number or a symbolic number."""
    return isinstance(val, bool | int | float) or type(val).__name__ in SYMBOLIC


def dim_of(size: SymInt | int) -> Dim:
    """Return a size of PyTorch as an integer or an expression of its symbols."""
    if isinstance(size, int):
        return size
    known = size.node.maybe_as_int()
    return size.node.expr if known is None else int(known)


def dims_of(tensor: TorchTensor) -> tuple[Dim, ...]:
    """Return the dims of a PyTorch tensor."""
    return tuple(dim_of(size) for size in tensor.shape)


@cache
def meta_like(dtype: str, scalar: bool) -> object:
    """Return a tensor without data, of rank 0 or 1, as an argument of PyTorch's type promotion."""
    import torch

    shape = () if scalar else (1,)
    return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")


def array_of(tensor: TorchTensor) -> np.ndarray:
    """Return the elements of a PyTorch tensor, without a copy if it is contiguous."""
    import torch

    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        import ml_dtypes

        bits = plain.view(torch.int16).numpy()
        return np.asarray(bits.view(ml_dtypes.bfloat16))
    relay_dtype(plain.dtype)
    return np.asarray(plain.numpy())
