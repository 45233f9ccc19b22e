"""State of the propagation pass: known properties of values, and the emitted bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, objects, value_of
from tvm_disc.support.literals import literal_value
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, TVMModule, TVMType, Var

if TYPE_CHECKING:
    from tvm_disc.shape.solver import Solver


Dim: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class ShapeValue:
    """A value of Relax's shape type."""

    dims: tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class Prim:
    """A scalar expression."""

    expr: Expr


@dataclass(frozen=True, eq=False)
class Tuple_:
    """Several values, and the tuple variable that holds them, if there is one."""

    fields: tuple[Any, ...]
    expr: Expr | None = None


@dataclass(frozen=True, eq=False)
class Lost:
    """A value whose shape is unknown, or that is not a tensor."""

    expr: Expr


Operand: TypeAlias = "Tensor | ShapeValue | Prim | Tuple_ | Lost"


class PropagationContext(Emitter):
    """Emits bindings and resolves operands.

    Invariant: ``env`` has every variable bound so far; ``sequences[-1]`` has the bindings of the
    block that is being rewritten.
    """

    def __init__(
        self, solver: Solver, mod: TVMModule, portable: bool, fresh: dict[object, object]
    ) -> None:
        super().__init__(solver)
        self.portable = portable
        self.builder = relax.BlockBuilder(mod)
        self.analyzer = tvm.sym.Analyzer()
        self.env: dict[Any, Any] = {}
        self.fresh = fresh  # (variable, axis) -> symbol of a dim that is not inferred
        self.scalars: dict[Any, Any] = {}  # scalar variables of the body and their values
        self.inputs: dict[Any, Any] = {}
        self.dataflow = False
        self.name = ""

    # -- operands ------------------------------------------------------------------------------

    def operand(self, expr: Expr) -> Any:
        """Return the known properties of an operand."""
        if isinstance(expr, tvm.ir.GenericConst):
            return self.literal_tensor(expr)
        if isinstance(expr, relax.ShapeExpr):
            return ShapeValue(tuple(self.simplify(d) for d in expr.values))
        if isinstance(expr, tvm.ir.Tuple):
            return Tuple_(tuple(self.operand(f) for f in expr.fields))
        if isinstance(expr, tvm.ir.Var) and expr in self.env:
            found = self.env[expr]
            if isinstance(found, Lost):
                found = self.env[expr] = self.recover(found)
            return found
        if isinstance(expr, tvm.ir.TupleGetItem):
            return self.operand(expr.tuple_value).fields[int(expr.index)]
        if tvm.ir.is_prim_expr(expr):
            return Prim(self.simplify(expr) if str(expr.ty.dtype) == "int64" else expr)
        return Lost(expr)

    def literal_tensor(self, expr: Expr) -> Tensor:
        """Return a constant as a tensor; the elements of floating-point constants are not read."""
        dims = tuple(expr.ty.shape.values)
        dtype = str(expr.ty.dtype)
        if dtype.startswith("float") or dtype == "bfloat16":
            return Tensor(dims, dtype, expr)
        return Tensor(dims, dtype, expr, constant=literal_value(expr))

    def env_param(self, param: Var) -> Any:
        """Return the properties of a parameter of the rewritten function."""
        return self.inputs[param]

    def simplify(self, dim: Dim) -> Dim:
        """Return the canonical form of a dim, with scalar variables of the body replaced."""
        return self.solver.simplify(self.plain(dim))

    def plain(self, expr: Expr) -> Expr:
        """Return ``expr`` with scalar variables of the body replaced by their values."""
        return substitute(expr, self.scalars)

    def raw(self, value: Any) -> Expr:
        """Return the Relax expression of an operand."""
        if isinstance(value, Tensor):
            return self.expr(value)
        if isinstance(value, ShapeValue):
            return relax.ShapeExpr(list(value.dims))
        if isinstance(value, Tuple_):
            if value.expr is not None:
                return value.expr
            return typed_tuple([self.raw(f) for f in value.fields])
        expr: Expr = value.expr
        return expr

    def recover(self, lost: Lost) -> Lost | Tensor:
        """Return a tensor with fresh symbols, bound at run time, if the rank of a value is
        known.
        """
        ty = lost.expr.ty
        if not is_tensor(ty) or int(ty.ndim) < 0:
            return lost
        name = str(getattr(lost.expr, "name", "value"))
        dims = []
        for axis in range(int(ty.ndim)):
            key = (lost.expr, axis)
            if key not in self.fresh:
                place = f"value '{name}' axis {axis}"
                self.fresh[key] = self.solver.symbol(f"{name}_{axis}", place)
            dims.append(self.simplify(self.fresh[key]))
        tensor = relax.TensorType(dims, ty.dtype)
        return Tensor(tuple(dims), str(ty.dtype), self.match(lost.expr, tensor))

    def scalar_tensor(self, operand: Tensor | Prim) -> Tensor:
        """Return a scalar expression as a tensor of rank 0; other operands are unchanged."""
        if not isinstance(operand, Prim):
            return operand
        expr, dtype = operand.expr, str(operand.expr.ty.dtype)
        if isinstance(expr, tirx.IntImm | tirx.FloatImm):
            return self.scalar(expr.value, dtype)
        if dtype == "int64":
            return Tensor((), dtype, value=objects([self.number(expr)], ()))
        if isinstance(expr, tirx.Cast):
            inner = self.scalar_tensor(Prim(expr.value))
            return self.emit(relax.op.astype(self.expr(inner), dtype), (), dtype)
        raise Unsupported(self.where(f"expected a tensor, found the {dtype} scalar {expr}"))

    def as_tensors(self, value: Any) -> Tensor | Tuple_:
        """Return a value with its shapes and scalars as int64 tensors."""
        if isinstance(value, ShapeValue):
            items = [self.number(d) for d in value.dims]
            return Tensor((i64(len(items)),), "int64", value=objects(items, (len(items),)))
        if isinstance(value, Tuple_):
            fields = tuple(self.as_tensors(f) for f in value.fields)
            same = all(a is b for a, b in zip(fields, value.fields, strict=True))
            return value if same else Tuple_(fields)
        return self.scalar_tensor(value)

    # -- emission ------------------------------------------------------------------------------

    def bind(self, call: Expr, ty: TVMType) -> Expr:
        """Bind ``call`` to a fresh variable of type ``ty``."""
        if not call.ty.is_missing() and isinstance(call, tvm.ir.Call):
            call = tvm.ir.Call(call.op, call.args, call.attrs, call.ty_args)
        if self.portable and is_tensor(ty) and isinstance(call, tvm.ir.Call):
            inferred = self.infer(call)
            if not self.survives(inferred, ty):
                raw = self.variable(inferred)
                relax.expr._update_type(call, inferred)
                self.sequences[-1].append(relax.VarBinding(raw, call))
                return self.match(raw, ty)
        var = self.variable(ty)
        if call.ty.is_missing():
            relax.expr._update_type(call, ty)
        self.sequences[-1].append(relax.VarBinding(var, call))
        return var

    def match(self, expr: Expr, ty: TVMType) -> Expr:
        """Emit a ``match_cast`` that binds the symbols of ``ty`` to the run-time shape of
        ``expr``.
        """
        var = self.variable(ty)
        self.sequences[-1].append(relax.MatchCast(var, expr, ty))
        return var

    def variable(self, ty: TVMType) -> Var:
        """Return a fresh variable for the current block."""
        make = relax.DataflowVar if self.dataflow and self.portable else relax.Var
        return make(self.name or self._name(), ty, self._span())

    def infer(self, call: Expr) -> Any:
        """Return the type that TVM infers for a call."""
        bare = tvm.ir.Call(call.op, call.args, call.attrs, call.ty_args)
        try:
            return self.builder.normalize(bare).ty
        except (tvm.error.InternalError, ValueError, TypeError) as error:
            lines = str(error).strip().splitlines()
            raise Unsupported(self.where(lines[-1] if lines else "TVM infers no type")) from error

    def survives(self, inferred: TVMType, ty: TVMType) -> bool:
        """Return whether the shape that TVM's inference finds is the known shape ``ty``."""
        if not is_tensor(inferred) or not isinstance(inferred.shape, relax.ShapeExpr):
            return False
        pairs = zip(inferred.shape.values, ty.shape.values, strict=True)
        return all(
            tvm_ffi.structural_equal(a, b) or self.analyzer.can_prove_equal(a, b) for a, b in pairs
        )

    def typed(self, ty: Any) -> Any:
        """Return a type with its dims in canonical form."""
        if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            return relax.TensorType(
                [self.simplify(d) for d in ty.shape.values], ty.dtype, ty.vdevice
            )
        if isinstance(ty, relax.TupleType):
            return relax.TupleType([self.typed(f) for f in ty.fields])
        if isinstance(ty, relax.ShapeType) and ty.values is not None:
            return relax.ShapeType([self.simplify(d) for d in ty.values])
        return ty

    def describe(self, expr: Expr, ty: Any) -> Operand:
        """Return the properties of ``expr`` that its type states."""
        if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
            return Tensor(tuple(ty.shape.values), str(ty.dtype), expr)
        if isinstance(ty, relax.ShapeType) and ty.values is not None:
            return ShapeValue(tuple(ty.values))
        if isinstance(ty, relax.TupleType):
            fields = tuple(self.describe(self.item(expr, k, f), f) for k, f in enumerate(ty.fields))
            return Tuple_(fields, expr)
        return Lost(expr)

    def item(self, expr: Expr, index: int, ty: TVMType) -> Expr:
        """Bind a field of a tuple variable."""
        if not is_tensor(ty):
            return relax.TupleGetItem(expr, index)
        var = self.variable(ty)
        get = relax.TupleGetItem(expr, index)
        if get.ty.is_missing():
            relax.expr._update_type(get, ty)
        self.sequences[-1].append(relax.VarBinding(var, get))
        return var

    def broadcast_dims(self, shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
        """Return the broadcast shape of operands, with guards where required."""
        for axis in range(1, 1 + max(len(s) for s in shapes)):
            dims = [s[-axis] for s in shapes if len(s) >= axis]
            for a, b in pairwise(dims):
                self._unclamp(a, b, axis)
                self._unclamp(b, a, axis)
        return super().broadcast_dims(shapes)

    def _unclamp(self, dim: Dim, cut: Dim, axis: int) -> None:
        """Simplify the broadcast of n against min(n, k), k >= 2, to the requirement n <= k.

        With k = 1, every n is valid: min(n, 1) is broadcast.
        """
        most = self.cut_at(dim, cut)
        if most is not None and self.solver.known_le(i64(2), most):
            self.solver.require_le(
                dim,
                most,
                self.where(f"broadcasting requires a slice that keeps all of axis -{axis}"),
            )

    # -- values --------------------------------------------------------------------------------

    def known_value(self, operand: object) -> np.ndarray | None:
        """Return the symbolic elements of an operand, if they are known."""
        if isinstance(operand, ShapeValue):
            items = [self.number(d) for d in operand.dims]
            result = np.empty(len(items), dtype=object)
            result[:] = items
            return result
        if isinstance(operand, Prim):
            result = np.empty((), dtype=object)
            result[()] = self.number(operand.expr)
            return result
        if isinstance(operand, Tensor):
            return value_of(operand)
        return None

    def target_shape(self, operand: object) -> list[object] | None:
        """Return the dims in a shape operand, with literals as Python integers, or None."""
        value = self.known_value(operand)
        if value is None or value.ndim != 1:
            return None
        return [int(x) if is_number(x) else x for x in value]


def typed_tuple(fields: Sequence[Expr]) -> Expr:
    """Return a Relax tuple of ``fields`` whose type is set from the types of the fields."""
    made = relax.Tuple(list(fields))
    if made.ty.is_missing():
        relax.expr._update_type(made, relax.TupleType([f.ty for f in fields]))
    return made


def as_dims(items: Sequence[object]) -> list[Dim]:
    """Return numbers and expressions as dims."""
    return [i64(x) if isinstance(x, int) else x for x in items]


__all__ = [
    "Lost",
    "Operand",
    "Prim",
    "PropagationContext",
    "ShapeValue",
    "Tuple_",
    "as_dims",
]
