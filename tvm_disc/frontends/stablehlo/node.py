"""An operation of a StableHLO module during its conversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, op
from tvm_disc.frontends.stablehlo.attributes import (
    dims_of,
    dtype_of,
    numbers,
    part_of,
    tensor_type,
)
from tvm_disc.frontends.stablehlo.blocks import outer_reads, symbol_of
from tvm_disc.frontends.stablehlo.pairs import ComplexPair
from tvm_disc.relay import expr as ast
from tvm_disc.relay.infer import Inference


class ConversionScope(Protocol):
    """The methods that converters call for nested blocks and for functions."""

    values: dict[Any, Expr]
    stacks: list[Any]

    def run(
        self, block: object, given: Sequence[Expr], reads: dict[object, Expr] = ...
    ) -> list[Expr]:
        """Convert a block for the arguments ``given``; return its results."""

    def call(self, name: str, given: Sequence[Expr]) -> list[Expr]:
        """Convert the body of a function for the arguments ``given``; return its results."""

    def function(self, name: str) -> Any:
        """Return a function of the module by name."""

    def value(self, value: Expr) -> Expr:
        """Return the expression of an MLIR value."""

    def note_condition(self, cond: object, message: str) -> None:
        """Record a condition that every call of the program must satisfy."""


class StableHLONode(Calc):
    """Operands, attributes and regions of one operation.

    Attributes:
        name: the name of the operator, without the prefix ``stablehlo.``.
        op: the MLIR operation.
        inputs: the expressions of the operands.
        walk: the conversion of nested blocks and functions.
    """

    def __init__(
        self, infer: Inference, op: Any, inputs: Sequence[Expr], scope: ConversionScope
    ) -> None:
        super().__init__(infer)
        self.op, self.inputs, self.walk = op, list(inputs), scope
        self.name = short_name(op)

    def __getitem__(self, k: int) -> Expr:
        return self.inputs[k]

    def __len__(self) -> int:
        return len(self.inputs)

    # -- attributes ----------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether an attribute is present."""
        return name in self.op.attributes

    def attr(self, name: str, default: object = None) -> Any:
        """Return the value of a number or string attribute, or ``default`` if it is absent."""
        if not self.has(name):
            return default
        found = self.op.attributes[name]
        return getattr(found, "value", found)

    def ints(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return the numbers of an array attribute, or ``default`` if it is absent."""
        return [int(v) for v in numbers(self.op.attributes[name])] if self.has(name) else [*default]

    def symbol(self, name: str) -> str:
        """Return the name of the function that an attribute refers to."""
        return symbol_of(self.op.attributes[name])

    # -- results ---------------------------------------------------------------------------------

    def out_dims(self, k: int = 0) -> list[int | None]:
        """Return the dims of result ``k``, with None for each dynamic dim."""
        return dims_of(tensor_type(self.op.results[k].type))

    def static_dims(self, k: int = 0) -> list[int]:
        """Return the dims of result ``k``, which must be static.

        Raises:
            Unsupported: a dim is dynamic.
        """
        found = [d for d in self.out_dims(k) if d is not None]
        if len(found) < len(self.out_dims(k)):
            dims = ", ".join("?" if d is None else str(d) for d in self.out_dims(k))
            raise Unsupported(f"expected a result with static dims, found [{dims}]")
        return found

    def out_dtype(self, k: int = 0) -> str:
        """Return the dtype of result ``k``; for complex elements, the dtype of the real part."""
        ty = tensor_type(self.op.results[k].type)
        return part_of(ty) or dtype_of(ty)

    def completed(self, dims: Sequence[int | None], other: Sequence[Dim]) -> list[Dim]:
        """Return ``dims`` with each None replaced by the dim of ``other``."""
        return [b if a is None else a for a, b in zip(dims, other, strict=True)]

    def equal_dims(self, a: Dim, b: Dim) -> bool:
        """Return whether two dims are proved equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        x, y = (self.infer.formula_of(self.scalar(d)) for d in (a, b))
        return x is not None and y is not None and self.same(x, y)

    def is_zero(self, x: Expr) -> bool:
        """Return whether all elements are known to be 0."""
        known = self.known(x)
        return known is not None and not known.any()

    def equal_values(self, a: Expr, b: Expr) -> bool:
        """Return whether two integer scalars are proved equal."""
        return a is b or self.equal_dims(self.cast(a, "int64"), self.cast(b, "int64"))

    def entries(self, k: int, what: str) -> list[Dim]:
        """Return the elements of integer operand ``k``, in row-major order, as dims.

        If possible, each element is a separate expression, so that the properties of one are known
        even if another is unknown.
        """
        apart = Entries(self).of(self.op.operands[k])
        if apart is None:
            return self.elements(self.flat(self[k]), what)
        return [self.as_dim(x) for x in apart]

    def as_dim(self, x: Expr) -> Dim:
        """Return a scalar as a dim: an integer if it is known, else an int64 expression."""
        known = self.known(x)
        return self.cast(x, "int64") if known is None else int(known.item())

    # -- regions ---------------------------------------------------------------------------------

    def block(self, k: int = 0) -> Any:
        """Return the block of region ``k``.

        Raises:
            Unsupported: the region has several blocks.
        """
        blocks = list(self.op.regions[k].blocks)
        if len(blocks) != 1:
            raise Unsupported(f"region {k}: expected one block, found {len(blocks)}")
        return blocks[0]

    def run(
        self, k: int, given: Sequence[Expr], reads: dict[Any, Expr] | None = None
    ) -> list[Expr]:
        """Convert region ``k`` for the arguments ``given``; return its results.

        The arguments of a region on scalars may also be tensors of one shape, because its operators
        are element-wise.
        """
        return self.walk.run(self.block(k), given, reads or {})

    def outer(self, *regions: int) -> dict[Any, Expr]:
        """Return the expressions of the outer values that the regions read, except constants.

        Raises:
            Unsupported: a value has complex elements.
        """
        found = outer_reads([self.block(k) for k in regions])
        pairs = [(v, self.walk.value(v)) for v in found]
        if any(isinstance(x, ComplexPair) for _, x in pairs):
            raise Unsupported(
                "expected regions that read real numbers from outside, found complex numbers; "
                "pass real and imaginary parts"
            )
        return {v: x for v, x in pairs if not isinstance(x, ast.Constant)}


class Entries:
    """Finds the elements of a shape vector, each as a separate scalar expression.

    JAX computes such a vector by element-wise operators on a concatenation of dims.
    """

    MOST = 64  # maximum number of elements
    ELEMENTWISE = frozenset(["add", "subtract", "multiply", "maximum", "minimum"])

    def __init__(self, node: StableHLONode) -> None:
        self.node = node

    def of(self, value: Any) -> list[Expr] | None:
        """Return the elements of a value, or None if it is not computed by these operators."""
        n, op_ = self.node, owner(value)
        dims = dims_of(tensor_type(value.type))
        if None in dims or math.prod(d or 0 for d in dims) > self.MOST:
            return None
        if not dims:
            return [n.walk.value(value)]
        if op_ is None:
            return None
        name = short_name(op_)
        known = n.known(n.walk.value(value))
        if known is not None:
            return [const(v) for v in known.reshape(-1)]
        if name == "reshape":
            return self.of(op_.operands[0])
        if name == "concatenate" and int(op_.attributes["dimension"].value) == 0:
            parts = [self.of(v) for v in op_.operands]
            return None if None in parts else [x for part in parts for x in part or ()]
        if name == "convert":
            dtype, inner = dtype_of(tensor_type(value.type)), self.of(op_.operands[0])
            return None if inner is None else [n.cast(x, dtype) for x in inner]
        if name in self.ELEMENTWISE:
            return self._applied(name, *map(self.of, op_.operands))
        if name == "clamp":
            low, x, high = map(self.of, op_.operands)
            return self._applied("minimum", self._applied("maximum", low, x), high)
        return None

    def _applied(self, name: str, a: list[Expr] | None, b: list[Expr] | None) -> list[Expr] | None:
        if a is None or b is None:
            return None
        width = max(len(a), len(b))
        if len(a) not in (1, width) or len(b) not in (1, width):
            return None
        a, b = (x * width if len(x) == 1 else x for x in (a, b))
        return [op(name, x, y) for x, y in zip(a, b, strict=True)]


def owner(value: Any) -> Any:
    """Return the operation that defines a value, or None if the value is a block argument."""
    found = value.owner
    found = getattr(found, "operation", found)
    return found if hasattr(found, "operands") else None


def direction(op_: Any) -> str:
    """Return the direction of a comparison: EQ, NE, GE, GT, LE or LT."""
    return str(op_.attributes["comparison_direction"]).split()[-1].rstrip(">")


def short_name(op: Any) -> str:
    """Return the name of an operation, without the prefix ``stablehlo.``."""
    return str(op.name).removeprefix("stablehlo.")


__all__ = ["ConversionScope", "StableHLONode", "direction", "owner", "short_name"]
