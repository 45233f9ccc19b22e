"""The *dot* template: a fused group as one GEMM.

Operands are functions of an index. Head splits, transposes and im2col therefore only change the
indices at which a tile is loaded or packed. Element-wise consumers are applied to the finished sums
of a register tile. Constant operands are packed once, at compile time, for any dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import tvm

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import matmul_dims
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.algorithm import Selection
from tvm_disc.schedules.gemm.cost import CopyCost, gemm_ns, shared_lines_ns
from tvm_disc.schedules.gemm.epilogue import Epilogue
from tvm_disc.schedules.gemm.partition import GIVEN, known
from tvm_disc.schedules.gemm.space import (
    GemmKnobs,
    algorithms,
    doubt,
    reads,
    rounded_tiles,
    tiles,
    with_sums,
)
from tvm_disc.schedules.gemm.split_k import PartsOfK
from tvm_disc.schedules.gemm.view import MatMulView, View, operands_of, shared_items
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, i64, index_var
from tvm_disc.tir.index import IndexSpace, product
from tvm_disc.typing import UNSET, Expr, Size

# -- matmul ------------------------------------------------------------------------------------


def plan_dot(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return the plans of a matmul and its epilogue."""
    node = group.anchor
    assert node is not None
    a, b = node.inputs
    if len(a.shape) < 2 or len(b.shape) < 2:
        return WhyNot("gemm", "it requires two matrices: an operand is a vector")
    if sums_of(a, b, node) is None:
        return WhyNot("gemm", f"it does not support {a.dtype} x {b.dtype} -> {node.dtype}")
    view = matmul_view(group, node, solver, machine.isa.dots)
    found = _Plans(view, machine, _in_place(view, solver, machine))
    plans = found.of_tiles()
    return plans + found.parts_of_k(view, plans[0])


def rows_view(group: Group, node: Node, dots: Sequence[str] = ()) -> MatMulView:
    """Return the view of a matmul; if B is one matrix, batch dims are merged into the rows."""
    batch, m, n, k = matmul_dims(node)
    if batch and len(node.inputs[1].shape) == 2:
        batch, m = (), product([*batch, m])
    return MatMulView(group, node, batch, m, n, k, tuple(dots))


def matmul_view(group: Group, node: Node, solver: Solver, dots: Sequence[str] = ()) -> MatMulView:
    """Return the view of a matmul; batch items that share B are merged into one with more rows.

    Items are not merged if A can be read in place only without the merge.
    """
    view = rows_view(group, node, dots)
    shared = replace(view, shared=shared_items(group, node, view.batch, solver))
    if shared.shared > 1 and strides_of(group, solver, shared.a_at) is None:
        return view if strides_of(group, solver, view.a_at) is not None else shared
    return shared


# Products of any two of these are accumulated in int32.
_INTEGERS = ("int8", "uint8", "int16", "int32")


def sums_of(a: Node, b: Node, node: Node) -> str | None:
    """Return the accumulator dtype, or None if no kernel supports these dtypes."""
    if a.dtype in _INTEGERS and b.dtype in _INTEGERS:
        return "int32" if node.dtype == "int32" else None
    if a.dtype != b.dtype or node.dtype not in (a.dtype, "float32"):
        return None
    return (
        accumulator(a.dtype) if a.dtype in ("float16", "bfloat16", "float32", "float64") else None
    )


# -- common ------------------------------------------------------------------------------------


def gemm_plans(
    view: View, solver: Solver, machine: Machine, copy_ns: CopyCost | None = None
) -> list[Plan]:
    """Return the plans of all candidate tiles and algorithms, those of the default tile first.

    ``copy_ns`` is the cost of copying A if the view copies it in pieces.
    """
    return _Plans(view, machine, _in_place(view, solver, machine), copy_ns).of_tiles()


def _tiles(view: View, machine: Machine) -> Sequence[macro_kernel.GemmTile]:
    """Return the candidate tiles, the default first."""
    if isinstance(view, MatMulView) and view.rounded and view.dot:
        return rounded_tiles(machine.isa)
    return tiles(machine.isa, dtypes_of(view)[0], static_dim(view.sizes[2]))


@dataclass(frozen=True)
class _Plans:
    """The plans of one view, whose operands ``in_place`` are read without a copy."""

    view: View
    machine: Machine
    in_place: Mapping[str, Strides]
    copy_ns: CopyCost | None = None

    def of_tiles(self) -> list[Plan]:
        """Return the plans of all candidate tiles."""
        found = _tiles(self.view, self.machine)
        packed = bool(self.view.packed(found[0]))
        plans = [self._of_tile(tile, doubt(tile, found[0], packed)) for tile in found]
        return [plan for own in plans for plan in own]

    def parts_of_k(self, view: MatMulView, whole: Plan) -> list[Plan]:
        """Return the split-K plans of the view, a matmul."""
        tile = _tiles(view, self.machine)[0]
        packed = view.packed(tile)
        spec = sizes_only(view, packed, self.in_place)
        tile = with_sums(tile, spec, self.machine.model)

        def operands(one: MatMulView, body: Body) -> macro_kernel.GemmSpec:
            return _operands(one, body, spec, packed, self.in_place)

        return PartsOfK(view, whole, spec, tile, self.machine, operands).plans()

    def _of_tile(self, tile: macro_kernel.GemmTile, factor: str) -> list[Plan]:
        """Return the plans of one tile, one for each algorithm; they share a body."""
        view, machine, packed = self.view, self.machine, self.view.packed(tile)
        spec = sizes_only(view, packed, self.in_place)
        tile = with_sums(tile, spec, self.machine.model)

        def emit(body: Body) -> None:
            full = _operands(view, body, spec, packed, self.in_place)
            where = (body.scratch, body.lo, body.hi)
            selection = Selection(body.algorithm, body.algorithms)
            body.block.add(macro_kernel.gemm_body(full, tile, machine.micro, *where, selection))

        sizes = batch, m, n, k = [i64(x) for x in view.sizes]
        common = Plan(
            tasks=i64(1),
            work=batch * m * n * k * 2,
            emit=emit,
            scratch_dtype=spec.acc_dtype,
            packed=dict(packed.values()),
            packed_dtypes={n: _kept_in(role, n, spec) for role, (n, _) in packed.items()},
            may_alias=True,
            features=(batch, m, n, k, n % tile.n_r),
            notes={"register tile": f"{tile.m_r} rows x {tile.n_r} columns"},
        )
        cost = partial(gemm_ns, spec, tile, sizes, factor, copy_ns=self.copy_ns)
        return [
            replace(
                common,
                tasks=i64(macro_kernel.gemm_tasks(spec, tile, selection)),
                scratch_elems=macro_kernel.gemm_scratch_elems(spec, tile, selection),
                knobs=GemmKnobs.of(tile, selection),
                algorithm=int(selection.number),
                needs=needs,
                reads=reads(spec, tile, selection, view.operands),
                cost=partial(cost, selection=selection),
                contention=partial(shared_lines_ns, spec, tile, sizes, selection),
            )
            for selection, needs in algorithms(spec, tile, not factor, machine.threads)
        ]


def _kept_in(role: str, node: Node, spec: macro_kernel.GemmSpec) -> str:
    """Return the element type with which kernels read a packed constant."""
    if role == "A":
        return spec.acc_dtype
    if spec.quads or (spec.bits and role == "B"):
        return "int32"
    return "uint16" if node.dtype == "bfloat16" else node.dtype


def _never(*args: object) -> NoReturn:
    raise AssertionError("a size-only specification is never emitted")


@dataclass(frozen=True)
class Strides:
    """An operand in place: (g, outer, k) is at base(g) + outer * stride + k * k_stride."""

    node: Node
    stride: Any
    k_stride: Any


def _in_place(view: View, solver: Solver, machine: Machine) -> dict[str, Strides]:
    """Return the operands whose element function is one load at an affine offset.

    The result is valid for all tiles, since the same operands are packed for each.
    """
    packed = view.packed(_tiles(view, machine)[0])
    result = {}
    for role, at in zip("AB", operands_of(view), strict=True):
        if role not in packed:
            strides = strides_of(view.group, solver, at)
            if strides is not None:
                result[role] = strides
    return result


def strides_of(
    group: Group,
    solver: Solver,
    at: Callable[..., Expr],
    offsets: Sequence[Node] = (),
    follow: Mapping[Node, int] | None = None,
) -> Strides | None:
    """Return the strides of ``at(low, g, outer, k)`` in one operand; None if it is not a plain
    load.

    Args:
        offsets: the offsets of ragged operands, of which the body reads one item at a time.
        follow: nodes that the body itself evaluates when it reads, as in ``Lowering.locate``.
    """
    space = IndexSpace(lambda a, b: bool(solver.known_eq(a, b)))
    low = Lowering(Block(), space, solver)
    index_itself: Any = lambda index: index  # noqa: E731
    for p in group.params:
        low.bind_reader(p, index_itself)
    for p in offsets:
        low.bind_item(p, index_var("item"), index_var("first"))
    g, outer, k = index_var("g"), index_var("outer"), index_var("k")
    zero, one = i64(0), i64(1)

    def offset(x: Expr, y: Expr) -> tuple[Node, Expr] | None:
        found = low.locate(lambda: at(low, g, x, y), follow)
        return found and (found[0], space.resolved(space.rejoined(found[1], x)))

    places = [offset(*xy) for xy in ((outer, k), (zero, zero), (one, zero), (zero, one))]
    if any(p is None for p in places):
        return None
    (node, general), (_, base), (_, next_outer), (_, next_k) = (p for p in places if p is not None)
    # TVM's analyzer does not expand products of sums, such as (64 g + k) n; the solver does.
    for simplify in (tvm.sym.Analyzer().simplify, solver.simplify):
        stride, k_stride = simplify(next_outer - base), simplify(next_k - base)
        rest = simplify(general - base - outer * stride - k * k_stride)
        if static_dim(rest) == 0:
            return Strides(node, known(stride), known(k_stride))
    return None


def dtypes_of(view: View) -> tuple[str, str]:
    """Return (accumulator dtype, operand dtype); an operand of a different dtype is converted in a
    copy.
    """
    a, b = view.node.inputs
    sums = sums_of(a, b, view.node) or view.node.dtype
    return sums, a.dtype if a.dtype == b.dtype else next(d for d in (a.dtype, b.dtype) if d != sums)


def sizes_only(
    view: View, packed: Collection[str], in_place: Mapping[str, Strides]
) -> macro_kernel.GemmSpec:
    """Return the part of the specification on which sizes, tasks and scratch depend."""
    batch, m, n, k = (known(x) for x in view.sizes)
    sums, dtype = dtypes_of(view)

    def operand(role: str) -> macro_kernel.Operand:
        at, affine = in_place.get(role), None
        if at is not None:
            affine = macro_kernel.Affine(UNSET, _never, at.stride, at.k_stride)
        return macro_kernel.Operand(GIVEN if role in packed else None, affine, load=_never)

    store, direct = macro_kernel.Stores(_never), None
    if view.group.outputs == [view.node] and view.node.dtype == sums:
        direct = macro_kernel.Direct(UNSET, _never, known(view.row_stride))
    spec = macro_kernel.GemmSpec(
        batch, m, n, k, operand("A"), operand("B"), store, dtype, sums, direct
    )
    return view.refined(spec)


def _operands(
    view: View,
    body: Body,
    spec: macro_kernel.GemmSpec,
    packed: Mapping[str, tuple[Node, object]],
    in_place: Mapping[str, Strides],
) -> macro_kernel.GemmSpec:
    """Return ``spec`` completed with the functions that load A and B and store C in ``body``."""
    low, fills = body.low, view.fills(body)
    constants = {role: body.buffers[node] for role, (node, _) in packed.items()}

    def operand(
        role: str, form: macro_kernel.Operand, at: Callable[..., Expr]
    ) -> macro_kernel.Operand:
        def load(block: Block, g: Size, outer: Size, k: Size) -> Expr:
            return _evaluate(low, block, lambda: at(low, i64(g), i64(outer), i64(k)))

        def base(block: Block, g: Size) -> Expr:
            zero = i64(0)
            with low.inside(block):
                found = low.locate(lambda: at(low, i64(g), zero, zero))
                assert found is not None
                return low.settle("base", found[1])

        affine = form.affine
        if affine is not None:
            affine = replace(affine, buffer=body.buffers[in_place[role].node], base=base)
        return replace(
            form, packed=constants.get(role), affine=affine, fill=fills.get(role), load=load
        )

    def start_of(_block: Block, g: Size) -> Expr:
        return view.flat(i64(g), i64(0), i64(0))

    a_at, b_at = operands_of(view)
    epilogue = Epilogue(view, body)
    direct, quantized = spec.direct, spec.quantized
    if direct is not None:
        direct = replace(direct, buffer=body.outputs[0], base=start_of)
    if quantized is not None:
        scale, zero = constants.get("B scale"), constants.get("B zero")
        quantized = replace(quantized, scale=scale, zero=zero)
    return replace(
        spec,
        a=operand("A", spec.a, a_at),
        b=operand("B", spec.b, b_at),
        store=macro_kernel.Stores(epilogue.scalar, epilogue.vector),
        direct=direct,
        quantized=quantized,
    )


def _evaluate(low: Lowering, block: Block, make: Callable[[], Expr]) -> Expr:
    """Evaluate ``make`` in the block into which the GEMM currently emits."""
    with low.inside(block):
        value = make()
        low.resolve([value])
        return value
