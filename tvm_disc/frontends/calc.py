"""Expression builder for front ends whose tensors are Relay expressions without stored types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calls import (
    Calls,
    Expr,
    UnknownRows,
    const,
    greatest_of,
    is_float,
    least_of,
    op,
    placed,
)
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.infer import Inference
from tvm_disc.typing import Array

Operand: TypeAlias = "Expr | int | float | bool"
Dim: TypeAlias = "int | Expr"  # an expression is an int64 scalar
# required dim: a number, a name for equal dims, or None for any
Demand: TypeAlias = "int | str | None"


_NUMBERS = count()


def parts(tuple_value: Expr, count: int) -> list[Expr]:
    """Return the fields of a tuple expression."""
    return [ast.TupleGetItem(tuple_value, k) for k in range(count)]


class Calc(Calls[Expr, Dim]):
    """Builds Relay calls; the types of the operands are inferred when they are required.

    Attributes:
        infer: type inference and the known properties of expressions.
    """

    def __init__(self, infer: Inference) -> None:
        self.infer = infer

    # -- known properties ----------------------------------------------------------------------

    def type(self, x: Expr) -> rt.TensorType:
        """Return the type of a tensor."""
        ty = self.infer.type_of(x)
        if not isinstance(ty, rt.TensorType):
            raise TypeMismatch(f"expected a tensor, found {ty}")
        return ty

    def dtype(self, x: Expr) -> str:
        """Return the element type."""
        return self.type(x).dtype

    def rank(self, x: Expr) -> int:
        """Return the number of dims."""
        return len(self.type(x).shape)

    def literals(self, x: Expr) -> list[int | None]:
        """Return the dims as integers, with None for each dim that is not a literal."""
        return [d if isinstance(d, int) else None for d in self.type(x).shape]

    def known(self, x: Expr | None) -> np.ndarray | None:
        """Return the elements, or None if they are not known at compile time."""
        return None if x is None else self.infer.value_of(x)

    def number(self, x: Expr, what: str) -> Any:
        """Return the only element of a tensor, which must be known at compile time."""
        value = self.known(x)
        if value is None or value.size != 1:
            found = "" if value is None else f", found {value.size} numbers"
            raise Unsupported(f"{what} must be one number known at compile time{found}")
        return value.reshape(-1)[0].item()

    def numbers(self, x: Expr, what: str) -> list[int]:
        """Return the elements of a vector, which must be known at compile time."""
        value = self.known(x)
        if value is None:
            raise Unsupported(f"{what} must be known at compile time")
        return list(value.reshape(-1).tolist())

    def count(self, x: Expr, what: str) -> int:
        """Return the length of a vector, which must be known at compile time."""
        dims = self.literals(x)
        size = 1 if not dims else dims[0]
        if len(dims) > 1 or size is None:
            raise self._not_counted(x, what)
        return size

    def _not_counted(self, x: Expr, what: str) -> Unsupported:
        """Return the error for a tensor that is not a vector of known length."""
        if self.rank(x) != 1:
            return Unsupported(f"{what}: expected a vector, found a tensor of rank {self.rank(x)}")
        return Unsupported(f"the number of elements of {what} must be known at compile time")

    # -- calls -----------------------------------------------------------------------------------

    def expr(self, x: Expr) -> Expr:
        """Return the expression of a tensor, which is the tensor itself."""
        return x

    def made(
        self,
        expr: Expr,
        dims: Callable[[], Sequence[Dim]],
        like: Expr | None = None,
        dtype: str = "",
    ) -> Expr:
        """Return the expression unchanged: ``dims`` and ``dtype`` are inferred when required."""
        return expr

    def is_tensor(self, value: Any) -> bool:
        """Return whether an operand is an expression."""
        return isinstance(value, Expr)

    def like(self, value: Array | float, x: Expr) -> ast.Constant:
        """Return ``value`` as a constant of the element type of ``x``."""
        return const(value, self.dtype(x))

    def variable(self, name: str, like: Expr, ty: rt.TensorType | None = None) -> Expr:
        """Return a variable for use in a body: it has the type and the known properties of the
        outer tensor ``like``, or only the type ``ty`` if that is given.
        """
        var = ast.Var(name, ty)
        if ty is None:
            self.infer.stands_for(var, like)
        else:
            self.infer.declare(var)
        return var

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of a conditional or loop body; inferred types are dropped at its end."""
        return self.infer.scope()

    def formulas(self, x: Expr) -> Sequence[object]:
        """Return the dims as formulas over symbols; :meth:`same` compares two of them."""
        return self.infer.dims_of(x)

    def same(self, a: object, b: object) -> bool:
        """Return whether two dims are proved equal."""
        return self.infer.same(a, b)

    def outside(self, formula: object) -> Dim:
        """Raise UnknownRows: this front end cannot evaluate a formula outside its body."""
        raise UnknownRows(
            "the sizes of the values that a loop collects in each iteration must be known before it"
        )

    def fitted(self, operands: Mapping[str, tuple[Expr, Sequence[Demand]]]) -> list[Any]:
        """Return the tensors with the dims that their operator requires, in the given order.

        A requirement is a number, a name (all dims of the same name are equal), or None (any dim).
        Requirements that are not proved become guards of the program. A tensor of None remains
        None.

        Raises:
            TypeMismatch: a tensor has the wrong rank.
        """
        given = {name: x for name, x in operands.items() if x[0] is not None}
        if self._fit(given):
            return [x for x, _ in operands.values()]
        number = next(_NUMBERS)
        params = [self._demanded(name, x, dims, number) for name, (x, dims) in given.items()]
        function = ast.Function(params, ast.Tuple(tuple(params)))
        made = ast.Call(function, [x for x, _ in given.values()])
        fields = dict(zip(given, parts(made, len(params)), strict=True))
        # Weights remain constants, so that they can be packed at compile time.
        known = {name: x for name, (x, _) in given.items() if isinstance(x, ast.Constant)}
        return [(fields | known).get(name) for name in operands]

    def _fit(self, operands: Mapping[str, tuple[Expr, Sequence[Demand]]]) -> bool:
        """Return whether all dims are proved to satisfy the requirements."""
        named: dict[str, Any] = {}
        for name, (x, dims) in operands.items():
            have = list(zip(self.literals(x), self.formulas(x), strict=True))
            if len(have) != len(dims):
                raise TypeMismatch(f"{name}: expected rank {len(dims)}, found rank {len(have)}")
            for want, (literal, formula) in zip(dims, have, strict=True):
                if isinstance(want, int) and want != literal:
                    return False
                if isinstance(want, str) and not self.same(
                    named.setdefault(want, formula), formula
                ):
                    return False
        return True

    def _demanded(self, name: str, x: Expr, dims: Sequence[Demand], number: int) -> ast.Var:
        """Return a parameter of the required shape; ``number`` makes its dim names unique."""
        shape: list[rt.Dim] = []
        for d in dims:
            shape.append(d if isinstance(d, int) else rt.Any(f"{d}_{number}") if d else rt.Any())
        return ast.Var(name, rt.TensorType(tuple(shape), self.dtype(x)))

    def matmul(self, a: Expr, b: Expr, out: str = "") -> Expr:
        """Return ``a @ b`` of rank 2 or more, with batch dims broadcast."""
        if self.rank(a) == self.rank(b) == 2:
            return op("nn.matmul", a, b, units=None, out_dtype=out)
        return op("nn.batch_matmul", a, b, out_dtype=out, transpose_a=False, transpose_b=False)

    def softmax(self, x: Expr, axis: int = -1) -> Expr:
        """Return the softmax along an axis."""
        return op("nn.softmax", x, axis=axis)

    def written(
        self,
        selected: Expr,
        parts: tuple[Expr, Expr, Expr],
        axes: Sequence[int],
        wraps: bool = False,
    ) -> Expr:
        """Return ``selected``, which is a tensor with a slice replaced, so that a program that owns
        the tensor can write the slice only.

        Args:
            parts: the tensor, the slice, and its first positions ``[items, axes]``: a row for each
                index of axis 0, or one for all.
            axes: the axes to which the positions apply; the slice begins at 0 along others.
            wraps: positions count modulo the size of the axis; others are dropped.
        """
        data = parts[0]
        while isinstance(data, ast.Call) and getattr(data.op, "name", "") in (
            "reshape",
            "transpose",
        ):
            data = data.args[0]
        if not isinstance(data, ast.Var):
            return selected
        return op("write_slice", selected, *parts, axes=tuple(axes), wraps=wraps)

    # -- dims ----------------------------------------------------------------------------------

    def shape(self, x: Expr) -> Expr:
        """Return the dims as an int64 vector."""
        return op("shape_of", x, dtype="int64")

    def size(self, x: Expr, axis: int) -> Dim:
        """Return the size of an axis, as an integer if it is known at compile time."""
        literal = self.literals(x)[axis]
        axis = axis % self.rank(x)
        return self.item(self.shape(x), axis) if literal is None else literal

    def sizes(self, x: Expr) -> list[Dim]:
        """Return the sizes of all axes."""
        return [self.size(x, k) for k in range(self.rank(x))]

    def dim(self, name: str, a: Dim, b: Dim) -> Dim:
        """Return the result of the Relay operator ``name`` for two dims."""
        if isinstance(a, int) and isinstance(b, int):
            return _DIMS[name](a, b)
        if name == "multiply" and 1 in [x for x in (a, b) if isinstance(x, int)]:
            return b if isinstance(a, int) else a
        if name == "add" and isinstance(b, int) and b == 0:
            return a
        return op(name, *(self.scalar(x) for x in (a, b)))

    def scalar(self, d: Dim, dtype: str = "int64") -> Expr:
        """Return a dim as a tensor of rank 0."""
        if not isinstance(d, Expr):
            return const(d, dtype)
        return self.cast(d, dtype)

    def item(self, vector: Expr, index: int) -> Expr:
        """Return one element of a vector."""
        return op("take", vector, const(index, "int64"), axis=0)

    def vector(self, dims: Sequence[Dim]) -> Expr:
        """Return dims as an int64 vector."""
        if all(isinstance(d, int) for d in dims):
            return const(list(dims), "int64")
        if not dims:
            return const([], "int64")
        pieces = [
            op("reshape", d, newshape=(1,)) if isinstance(d, Expr) else const([d], "int64")
            for d in dims
        ]
        return (
            pieces[0] if len(pieces) == 1 else op("concatenate", ast.Tuple(tuple(pieces)), axis=0)
        )

    def elements(self, vector: Expr, what: str) -> list[Dim]:
        """Return the elements of an integer vector; known elements are Python integers."""
        found = self.infer.elements_of(vector)
        if found is None:
            raise self._not_counted(vector, what)
        wide = self.cast(vector, "int64")
        return [self.item(wide, k) if v is None else v for k, v in enumerate(found)]

    def lengths(self, dims: Sequence[Dim]) -> list[Dim]:
        """Return sizes that are proved, or guarded at run time, to be nonnegative.

        If a size is read from data or may be negative, the sizes become the dims of a tensor whose
        elements are not used: the program guards the dims of every tensor.
        """
        vector = self.vector(dims)
        if self.infer.is_formula(vector) and self.infer.is_natural(vector):
            return list(dims)
        blank = op("dyn.full", const(False), vector, shape=None, dtype="bool")
        if self.infer.in_body and self.infer.is_formula(vector):
            # Inside a branch, only the launch of a kernel guards sizes, and no kernel computes
            # `blank`. Requiring equality with `max(size, 0)` adds the guard.
            least = op("maximum", vector, const(0, "int64"))
            other = op("dyn.full", const(False), least, shape=None, dtype="bool")
            names = [f"size_{k}" for k, _ in enumerate(dims)]
            found = self.fitted({"least size": (other, names), "size": (blank, names)})
            blank = found[1]
        return self.sizes(blank)

    def length(self, x: Expr) -> Dim:
        """Return the only element of ``x`` as a nonnegative size; see :meth:`lengths`."""
        known = self.known(x)
        if known is not None:
            return int(known.reshape(-1)[0])
        return self.lengths([self.reshape(self.cast(x, "int64"), [])])[0]

    def sizes_in(self, vector: Expr, what: str) -> list[Dim]:
        """Return the elements of a vector as nonnegative sizes; see :meth:`lengths`."""
        return self.lengths(self.elements(vector, what))


_DIMS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
}

__all__ = [
    "Calc",
    "Demand",
    "Dim",
    "Expr",
    "Operand",
    "const",
    "greatest_of",
    "is_float",
    "least_of",
    "op",
    "parts",
    "placed",
]
