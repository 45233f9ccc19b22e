"""PyTorch's indexing: negative positions count from the end, tensors of them go together.

Relax reads at positions as they are, and TVM's importer takes along one axis after the other where
PyTorch pairs the positions: `x[:, i, j]` would be an outer product. A converter here is
``convert(node, importer)``, as `from_exported_program` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import Unsupported

Expr: TypeAlias = Any
Convert: TypeAlias = Callable[[Any, Any], Any]


def _dims(bb: Any, x: Expr) -> list[Any]:
    """The dims of a tensor; of a shape that TVM lost, symbols that are bound at run time."""
    if isinstance(x.ty.shape, relax.ShapeExpr):
        return list(x.ty.shape.values)
    dims = [tirx.Var(f"dim_{k}", "int64") for k in range(int(x.ty.ndim))]
    bb.match_cast(x, relax.TensorType(dims, x.ty.dtype))
    return dims


def _scalar(bb: Any, dim: Any, dtype: str) -> Expr:
    """A dim as a tensor of rank 0."""
    if isinstance(dim, tirx.IntImm):
        return relax.const(np.array(int(dim), dtype), dtype)
    line = bb.emit(R.shape_to_tensor(relax.ShapeExpr([dim])))
    number = bb.emit(R.reshape(line, relax.ShapeExpr([])))
    return number if dtype == "int64" else bb.emit(R.astype(number, dtype))


def wrapped(bb: Any, positions: Expr, dim: Any) -> Expr:
    """Positions along an axis of length ``dim``, of which negative ones count from its end."""
    dtype = str(positions.ty.dtype)
    zero = relax.const(np.array(0, dtype), dtype)
    if isinstance(positions, tvm.ir.GenericConst):
        values = positions.value.numpy()
        if (values >= 0).all():
            return positions
        if isinstance(dim, tirx.IntImm):
            return relax.const(np.where(values < 0, values + int(dim), values).astype(dtype), dtype)
    from_end = bb.emit(R.add(positions, _scalar(bb, dim, dtype)))
    return bb.emit(R.where(bb.emit(R.less(positions, zero)), from_end, positions))


def _axis(axis: int, rank: int) -> int:
    return axis % max(1, rank)


def _select(node: Any, importer: Any) -> Any:
    """One position of an axis: a slice, which costs nothing."""
    bb = importer.block_builder
    x, axis, position = (importer._retrieve_args(a) for a in node.args[:3])
    dims = _dims(bb, x)
    axis = _axis(int(axis), len(dims))
    if not isinstance(position, int):
        where = wrapped(bb, _scalar(bb, position, "int64"), dims[axis])
        return bb.emit(R.take(x, where, axis))
    first = tirx.IntImm("int64", position) if position >= 0 else dims[axis] + position
    one = tirx.IntImm("int64", 1)
    row = R.strided_slice(x, [axis], [first], [first + one], [one], assume_inbound=True)
    return bb.emit(R.squeeze(bb.emit(row), [axis]))


def _index_select(node: Any, importer: Any) -> Any:
    bb = importer.block_builder
    x, axis, positions = (importer._retrieve_args(a) for a in node.args[:3])
    dims = _dims(bb, x)
    axis = _axis(int(axis), len(dims))
    return bb.emit(R.take(x, wrapped(bb, positions, dims[axis]), axis))


def _take(node: Any, importer: Any) -> Any:
    """Positions in the tensor as one line."""
    bb = importer.block_builder
    x, positions = (importer._retrieve_args(a) for a in node.args[:2])
    total: Any = tirx.IntImm("int64", 1)
    for d in _dims(bb, x):
        total = total * d
    line = bb.emit(R.reshape(x, relax.ShapeExpr([total])))
    return bb.emit(R.take(line, wrapped(bb, positions, total), 0))


class _Picked:
    """The axes of an operand that tensors of positions index, moved to its front.

    Attributes:
        dims: of the operand, ``order`` of its axes.
        positions: a tensor for each indexed axis, negative ones wrapped.
        count: axes that the positions have together; they stand in the result where the indexed
            axes stood if these are neighbours, else first.
    """

    def __init__(self, bb: Any, x: Expr, indices: Sequence[Any]) -> None:
        axes = [k for k, index in enumerate(indices) if index is not None]
        self.x, self.bb = x, bb
        dims = _dims(bb, x)
        self.order = [*axes, *(k for k in range(len(dims)) if k not in axes)]
        self.dims = [dims[k] for k in self.order]
        self.positions = [wrapped(bb, indices[k], dims[k]) for k in axes]
        self.count = max(int(p.ty.ndim) for p in self.positions)
        self.rest = self.dims[len(axes) :]
        together = axes == list(range(axes[0], axes[-1] + 1))
        self.before = axes[0] if together else 0

    def moved(self) -> Expr:
        """The operand, indexed axes first."""
        plain = self.order == sorted(self.order)
        return self.x if plain else self.bb.emit(R.permute_dims(self.x, self.order))

    def _placed(self) -> list[int]:
        """Of every axis of the result, its place in what the moved operand gives."""
        lead = [self.count + k for k in range(self.before)]
        tail = range(self.count + self.before, self.count + len(self.rest))
        return [*lead, *range(self.count), *tail]

    def placed(self, found: Expr) -> Expr:
        """What is found in the moved operand as PyTorch's result."""
        return found if not self.before else self.bb.emit(R.permute_dims(found, self._placed()))

    def unplaced(self, values: Expr) -> Expr:
        """Values of the form of PyTorch's result, or that broadcast to it, for the moved one."""
        rank, places = self.count + len(self.rest), self._placed()
        missing = rank - int(values.ty.ndim)
        if missing:
            values = self.bb.emit(R.expand_dims(values, list(range(missing))))
        back = [places.index(k) for k in range(rank)]
        return values if not self.before else self.bb.emit(R.permute_dims(values, back))

    def coordinates(self) -> tuple[Expr, list[Any]]:
        """The positions of each element side by side, and the dims that they have together."""
        bb = self.bb
        grid = bb.emit(R.astype(self.positions[0], "int64"))
        for p in self.positions[1:]:
            # A sum has the dims of both, which TVM need not know.
            grid = bb.emit(R.add(grid, bb.emit(R.astype(p, "int64"))))
        dims = _dims(bb, grid)
        columns = []
        for p in self.positions:
            wide = R.broadcast_to(bb.emit(R.astype(p, "int64")), relax.ShapeExpr(dims))
            columns.append(bb.emit(R.expand_dims(bb.emit(wide), [len(dims)])))
        return bb.emit(R.concat(columns, len(dims))), dims


def _indices(args: Sequence[Any]) -> list[Any]:
    found = list(args)
    if any(i is not None and str(i.ty.dtype) in ("bool", "uint8") for i in found):
        raise Unsupported("PyTorch's index by a mask: how many it picks only the data knows")
    return found


def _index(node: Any, importer: Any) -> Any:
    """``x[i, :, j]``: position by position, not each tensor of positions by each other."""
    bb = importer.block_builder
    args = importer.retrieve_args(node)
    indices = _indices(args[1])
    picked = _Picked(bb, args[0], indices)
    if len(picked.positions) == 1:
        axis = picked.order[0]
        return bb.emit(R.take(args[0], picked.positions[0], axis))
    return picked.placed(bb.emit(R.index_tensor(picked.moved(), picked.positions)))


def _index_put(node: Any, importer: Any) -> Any:
    """``x[i, :, j] = values``, or ``+=``: a scatter by coordinates."""
    bb = importer.block_builder
    args = importer.retrieve_args(node)
    x, values = args[0], args[2]
    indices = _indices(args[1])
    accumulate = args[3] if len(args) > 3 else node.kwargs.get("accumulate", False)
    picked = _Picked(bb, x, indices)
    coordinates, dims = picked.coordinates()
    shape = relax.ShapeExpr([*dims, *picked.rest])
    updates = bb.emit(R.broadcast_to(picked.unplaced(values), shape))
    reduction = "add" if accumulate else "update"
    made = bb.emit(R.scatter_nd(picked.moved(), coordinates, updates, reduction))
    back = [picked.order.index(k) for k in range(len(picked.order))]
    return made if back == sorted(back) else bb.emit(R.permute_dims(made, back))


CONVERTERS: Mapping[str, Convert] = {
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_select.default": _index_select,
    "select.int": _select,
    "take.default": _take,
}
