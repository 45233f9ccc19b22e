"""Inputs of a ragged program: packed values with offsets, and the checks of the offsets.

    before   main(ids[b, s], mask[b, s])
    after    main(ids[t], mask[t], ids_offsets[b + 1]):
                 lengths = lengths(ids_offsets)        # faults, largest, least
                 match (faults, s, fewest) = lengths   # guard: faults == 0

The symbol s of the model keeps all its facts and becomes the largest length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.graph.nodes import Node, is_tensor, static_dim
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay_passes.ragged.declared import check_names
from tvm_disc.relay_passes.ragged.forms import Dense, Form, Packed, RaggedDim
from tvm_disc.relay_passes.ragged.trend import trend, uses
from tvm_disc.relay_passes.rewrite import Sequence_
from tvm_disc.shape import Guard, Solver
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, TVMFunction, Var


class RaggedInputs:
    """The inputs of the main function after the transformation.

    Attributes:
        params: the new parameters, offsets last.
        dims: the ragged dims, in the order of ``ragged``; inputs of the same length share one.
        forms: the form of each old parameter.
        replaced: symbols that occur in no new parameter -> the equal symbol that replaces them.

    Raises:
        BadInput: a name of ``ragged`` is not an input of rank 2 or more with symbols as sizes of
            axes 0 and 1.
        Unsupported: another axis of an input has the length of the items.
    """

    def __init__(self, main: TVMFunction, ragged: Mapping[str, int], out: Sequence_) -> None:
        self.out, self.solver = out, out.solver
        self.dims: list[RaggedDim] = []
        self.params: list[Var] = []
        self.forms: dict[Var, Form] = {}
        self.replaced: dict[Var, Var] = {}
        given = {str(p.name): p for p in main.params}
        check_names(ragged, list(given))
        chosen = {given[name]: self._sizes(given[name]) for name in ragged}
        offsets = self._group(chosen)
        for p in main.params:
            self._param(p, chosen)
        self.params += offsets
        for dim in self.dims:
            self._read_lengths(dim)

    def _sizes(self, param: Var) -> tuple[Var, Var]:
        """Return (b, s) of a ragged input."""
        rank = len(param.ty.shape.values) if is_tensor(param.ty) and param.ty.shape else 0
        if rank < 2:
            raise BadInput(f"ragged: input '{param.name}': expected a tensor of rank 2 or more")
        found = [self.solver.simplify(d) for d in param.ty.shape.values[:2]]
        for axis, dim in enumerate(found):
            if not isinstance(dim, tirx.Var):
                raise BadInput(
                    f"ragged: input '{param.name}': expected a symbol as the size of axis {axis}, "
                    f"found {show(dim)}"
                )
        self.replaced.update(zip(param.ty.shape.values[:2], found, strict=True))
        return found[0], found[1]

    def _group(self, chosen: Mapping[Var, tuple[Var, Var]]) -> list[Var]:
        """Create the ragged dims; return the parameters of their offsets."""
        params = []
        for param, (items, size) in chosen.items():
            known = next((d for d in self.dims if d.size.same_as(size)), None)
            if known is not None:
                known.inputs.append(str(param.name))
                continue
            name = str(param.name)
            rows = self.solver.symbol(f"{name}_rows", f"input '{name}' packed rows")
            fewest = self.solver.symbol(f"{name}_fewest", f"input '{name}' least length")
            count = self.solver.symbol(f"{name}_ends", f"input '{name}_offsets' axis 0")
            self.solver.require(
                count >= 1,
                "offsets",
                f"the offsets of '{name}' must not be empty: b items have b + 1 offsets",
            )
            ty = relax.TensorType([count], "int64")
            offsets = relax.Var(f"{name}_offsets", ty)
            node = Node("param", (), (count,), "int64", var=offsets)
            self.out.lookup[offsets] = node
            self.dims.append(RaggedDim(items, size, rows, fewest, [name], node))
            params.append(offsets)
        return params

    def _param(self, param: Var, chosen: Mapping[Var, tuple[Var, Var]]) -> None:
        shape, dtype = list(param.ty.shape.values), str(param.ty.dtype)
        if param not in chosen:
            self._refuse_lengths(param)
            node = Node("param", (), tuple(shape), dtype, var=param)
            self.forms[param] = Dense(node)
        else:
            size = chosen[param][1]
            dim = next(d for d in self.dims if d.size.same_as(size))
            dims = (dim.rows, *shape[2:])
            self._refuse_lengths(param, 2)
            var = relax.Var(str(param.name), relax.TensorType(list(dims), dtype))
            node = Node("param", (), dims, dtype, var=var)
            self.forms[param] = Packed(node, dim, (0, 1))
        self.params.append(node.var)
        self.out.lookup[node.var] = node

    def _refuse_lengths(self, param: Var, start: int = 0) -> None:
        for axis, d in enumerate(param.ty.shape.values[start:]):
            plain = self.solver.simplify(d)
            for dim in self.dims:
                if uses(i64(plain), dim.symbol):
                    raise Unsupported(
                        f"ragged: axis {axis + start} of input '{param.name}' has the length of "
                        f"'{dim.inputs[0]}'; name '{param.name}' in ragged, too, or compute it in "
                        "the model"
                    )

    def _read_lengths(self, dim: RaggedDim) -> None:
        """Emit the checks of the offsets, and bind the symbols that are computed from them."""
        out, solver, name = self.out, self.solver, dim.inputs[0]
        # A batch without items has the least length that the facts about s allow.
        least = solver.range_of(dim.size)[0] or 0
        operands = [dim.offsets.var, relax.ShapeExpr([dim.rows])]
        call = kernel_call("disc.lengths", operands, [i64(3)], "int64", least=least)
        lengths = out.emit(call, [i64(3)], "int64").var
        raw = relax.Var(f"{name}_lengths", relax.ShapeType(ndim=3))
        read = R.tensor_to_shape(lengths)
        relax.expr._update_type(read, raw.ty)
        out.bindings.append(relax.VarBinding(raw, read))
        faults = solver.symbol(f"{name}_faults", f"input '{name}_offsets' faults")
        ty = relax.ShapeType([faults, dim.size, dim.fewest])
        out.bindings.append(relax.MatchCast(relax.Var(f"{name}_sizes", ty), raw, ty))
        text = (
            f"the offsets of '{name}' must begin with 0, must not decrease, and must end with the "
            "number of rows"
        )
        solver.guards.append(Guard(tirx.EQ(faults, i64(0)), text, (faults,), "offsets"))
        count = dim.offsets.shape[0]
        number = relax.ShapeExpr([count - 1])
        known = relax.ShapeType([dim.items])
        out.bindings.append(relax.MatchCast(relax.Var(f"{name}_items", known), number, known))


def settle_guards(inputs: RaggedInputs) -> None:
    """Change the guards on lengths so that they imply the condition for every item.

    A condition that becomes weaker as s shrinks is checked for the largest length. A condition that
    becomes weaker as s grows is checked for the smallest length.

    Raises:
        Unsupported: a condition has neither property.
    """
    kept, solver = [], inputs.solver
    for given in solver.guards:
        guard = _renamed(given, inputs.replaced)
        if tvm.sym.Analyzer().can_prove(guard.cond):
            continue  # true because the inputs share their offsets
        used = [d for d in inputs.dims if any(d.size.same_as(s) for s in guard.symbols)]
        for dim in used:
            rises = rises_with(guard.cond, dim.symbol, solver)
            if rises is None:
                raise Unsupported(
                    "ragged: a condition on the length of every item cannot be checked: "
                    f"{guard.message}"
                )
            if rises:
                guard = _renamed(guard, {dim.symbol: dim.fewest})
        kept.append(guard)
    solver.guards[:] = kept


def _renamed(guard: Guard, symbols: Mapping[Var, Var]) -> Guard:
    """Return a guard with symbols replaced."""
    cond = substitute(guard.cond, dict(symbols.items()))
    return replace(guard, cond=cond, symbols=tuple(tirx.analysis.undefined_vars(cond)))


def _compared(cond: Expr) -> Expr:
    """Simplify ``min(x, c) == x`` to ``x <= c``, and ``min(x, c) == k`` with k < c to ``x ==
    k``.
    """
    if not isinstance(cond, tirx.EQ):
        return cond
    for least, other in ((cond.a, cond.b), (cond.b, cond.a)):
        if isinstance(least, tirx.Min):
            for x, c in ((least.a, least.b), (least.b, least.a)):
                if tvm_ffi.structural_equal(x, other):
                    return x <= c
                value, limit = static_dim(other), static_dim(c)
                if value is not None and limit is not None and value < limit:
                    return tirx.EQ(x, other)
    return cond


def _within(part: Expr, other: Expr, solver: Solver) -> bool:
    """Return whether ``part``, of the form ``x == k``, implies ``other``."""
    if not isinstance(part, tirx.EQ) or part is other or static_dim(part.b) is None:
        return False

    def replaced(e: Expr) -> Expr:
        return part.b if tvm_ffi.structural_equal(e, part.a) else e

    found = tvm_ffi.structural_map(other, (type(part.a), replaced), order="post")
    return bool(solver.known(found))


def rises_with(cond: Expr, size: Var, solver: Solver) -> bool | None:
    """Return whether a condition becomes weaker as ``size`` grows (True) or shrinks (False).

    The condition must combine comparisons of expressions that are monotonic in ``size``. Returns
    None if the direction is not known.
    """
    if isinstance(cond, tirx.And | tirx.Or):
        parts = [_compared(p) for p in (cond.a, cond.b) if uses(p, size)]
        if isinstance(cond, tirx.Or):
            parts = [p for p in parts if not any(_within(p, q, solver) for q in parts)]
        found = {rises_with(p, size, solver) for p in parts}
        return found.pop() if len(found) == 1 else None
    cond = _compared(cond)
    kinds = {tirx.LE: (0, 1), tirx.LT: (0, 1), tirx.GE: (1, 0), tirx.GT: (1, 0)}
    order = next((v for k, v in kinds.items() if isinstance(cond, k)), None)
    if order is None:
        return None
    sides = (cond.a, cond.b)
    margin = sides[order[1]] - sides[order[0]]  # a larger margin makes the condition weaker

    def at(value: int) -> Expr:
        return substitute(margin, {size: i64(value)})

    step = solver.const(at(1) - at(0))
    if step and solver.known_eq(margin, at(0) + size * step):
        return step > 0
    turn = trend(margin, size, solver)
    return turn > 0 if turn else None


__all__ = ["RaggedInputs", "rises_with", "settle_guards"]
