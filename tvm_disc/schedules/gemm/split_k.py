"""Split-K: matmuls of few rows and columns with a long K.

If rows and columns give fewer tasks than there are threads, each part of K becomes a batch item
whose sums are written to memory. The second stage adds the parts in a fixed order, so that results
do not depend on the order of the threads. It then runs the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.variant import Plan, Stage
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.cost import gemm_ns
from tvm_disc.schedules.gemm.epilogue import Epilogue
from tvm_disc.schedules.gemm.space import FINE_PANELS, GemmKnobs
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.group import Body, Machine
from tvm_disc.tir.builder import Block, i64, ramp
from tvm_disc.typing import UNSET, Buffer, Expr, Size

LEAST_DEPTH = 128  # smallest depth of a part of K


@dataclass(frozen=True)
class PartKnobs(GemmKnobs):
    """A tile and the number of parts into which K is split."""

    parts: int


@dataclass
class PartsOfK:
    """A matmul with constant weights, split along K.

    Attributes:
        whole: the plan of the unsplit matmul.
        spec: the sizes of the unsplit matmul.
        operands: ``operands(view, body)`` returns the full specification of ``view`` in a body.
    """

    view: MatMulView
    whole: Plan
    spec: macro_kernel.GemmSpec
    tile: macro_kernel.GemmTile
    machine: Machine
    operands: Callable[[MatMulView, Body], macro_kernel.GemmSpec]

    def plans(self) -> list[Plan]:
        """Return the split-K plan, or [] if K cannot be split or each thread already has a task."""
        spec, parts = self.spec, self.machine.threads
        literal = isinstance(spec.n, int) and isinstance(spec.k, int)
        if parts < 2 or self.view.batch or not literal or spec.b.packed is None:
            return []
        if spec.dot or spec.quantized is not None:
            return []
        filled = -(-spec.n // (self.tile.n_r * FINE_PANELS)) >= parts
        if filled or spec.k < parts * LEAST_DEPTH:
            return []
        shape, dtype = (i64(parts), *self.view.node.shape), spec.acc_dtype
        sums = Node("param", (), shape, dtype, var=tirx.Var("parts_of_k", "handle"))
        whole, products = self.whole, self._products(parts, sums)
        return [
            Plan(
                tasks=products.plan.tasks,
                work=whole.work,
                emit=_never,
                packed=whole.packed,
                packed_dtypes=whole.packed_dtypes,
                scratch_dtype=dtype,
                family="parts of K",
                knobs=PartKnobs(**GemmKnobs.of(self.tile).to_json(), parts=parts),
                stages=(products, self._sum(parts, sums)),
                doubt="parts_doubt",
                reads=whole.reads,
                notes={**whole.notes, "parts of K": str(parts)},
            )
        ]

    def _products(self, parts: int, sums: Node) -> Stage:
        """Return the first stage: a batched matmul whose item g is part g of K."""
        view = replace(self.view, group=replace(self.view.group, outputs=[sums]))
        view.group.name += "_parts"
        depth = -(-self.spec.k // (8 * parts)) * 8

        def part(full: macro_kernel.GemmSpec) -> macro_kernel.GemmSpec:
            return replace(full, batch=parts, k=depth, b=replace(full.b, depth=int(self.spec.k)))

        direct = macro_kernel.Direct(UNSET, _never, self.spec.n)
        spec = replace(part(self.spec), direct=direct)

        def emit(body: Body) -> None:
            full = part(_of_part(self.operands(view, body), depth, body.outputs[0]))
            run = (self.machine.micro, body.scratch, body.lo, body.hi)
            body.block.add(macro_kernel.gemm_body(full, self.tile, *run))

        each = (i64(parts), i64(spec.m), i64(spec.n), i64(depth))
        plan = replace(
            self.whole,
            tasks=i64(macro_kernel.gemm_tasks(spec, self.tile)),
            emit=emit,
            scratch_elems=macro_kernel.gemm_scratch_elems(spec, self.tile),
            family="gemm",
            cost=partial(gemm_ns, spec, self.tile, each, ""),
            steps=i64(1),
        )
        return Stage(view.group, plan, tuple(view.group.params), (sums,))

    def _sum(self, parts: int, sums: Node) -> Stage:
        """Return the second stage: one task that adds the parts and runs the epilogue."""
        given = self.view.group.params
        group = replace(self.view.group, params=[sums, *given])
        group.name += "_sum"
        view = replace(self.view, group=group)
        m, n, lanes = i64(self.view.m), int(self.spec.n), self.tile.lanes

        def emit(body: Body) -> None:
            out, b, source = Epilogue(view, body), body.block, body.buffers[sums]
            zero = i64(0)

            def total(at: Expr) -> Expr:
                values = [source[at + s * (m * n)] for s in range(parts)]
                return b.bind("total", sum(values[1:], values[0]))

            with b.loop("i", m) as i:
                row = b.bind("row", i * n)

                def one(j: Expr) -> None:
                    out.scalar(b, zero, i, j, total(row + j))

                with b.loop("jv", n // lanes) as jv:
                    j = b.bind("j", jv * lanes)
                    if not out.vector(b, zero, i, j, lanes, total(ramp(row + j, lanes))):
                        with b.loop("js", lanes) as js:
                            one(j + js)
                with b.loop("jt", n % lanes, begin=n - n % lanes) as jt:
                    one(jt)

        moved = m * (n * 4 * (parts + 1))
        plan = Plan(i64(1), m * (n * parts), emit, family="sum", moved=moved, steps=i64(1))
        return Stage(group, replace(plan, scratch_dtype=self.spec.acc_dtype,
                                    packed_dtypes=self.whole.packed_dtypes),
                     (sums, *given), tuple(group.outputs))  # fmt: skip


def _of_part(full: macro_kernel.GemmSpec, depth: Size, out: Buffer) -> macro_kernel.GemmSpec:
    """Return the specification of a batched matmul whose item g is part g of K.

    Each item stores its sums in ``out``, as an array of shape [parts, M, N].
    """
    m, n, a, whole_a = i64(full.m), full.n, full.a.affine, full.a.load

    def store(b: Block, g: Size, i: Size, j: Size, value: Expr) -> None:
        b.store(out, (g * m + i) * n + j, value)

    def store_vector(b: Block, g: Size, i: Size, j: Size, lanes: int, value: Expr) -> bool:
        b.store(out, ramp((g * m + i) * n + j, lanes), value)
        return True

    def load_a(b: Block, g: Size, i: Size, k: Size) -> Expr:
        assert whole_a is not None
        return whole_a(b, i64(0), i, g * depth + k)

    if a is not None:
        step, base = depth * i64(a.k_stride), a.base
        a = replace(a, base=lambda b, g: base(b, i64(0)) + g * step)
    return replace(
        full,
        a=replace(full.a, affine=a, load=load_a),
        store=macro_kernel.Stores(store, store_vector),
        direct=macro_kernel.Direct(out, lambda _b, g: g * m * n, n),
    )


def _never(*_: object) -> NoReturn:
    raise AssertionError("the stages of a plan are emitted, not the plan")
