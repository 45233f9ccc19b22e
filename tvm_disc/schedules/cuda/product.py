"""Matrix products: a block computes a tile of the result from tiles of the operands.

    for each slice of k:
        threads of the block copy BM x BK of A and BK x BN of B into shared memory
        every thread multiplies, with RM x RN sums in registers

Both operands are read through the operators fused before them, and what lies beyond an edge is
read as 0. Sums leave through the operators that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.conv.contraction import channels_last, matmul_dims
from tvm_disc.schedules.conv.implicit import ConvView
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import LOAD_NS, MULTIPLY_NS, Work, waves_ns
from tvm_disc.schedules.cuda.reduce import plan_contraction
from tvm_disc.schedules.dispatch.variant import Grid, Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Buffer, const, i64
from tvm_disc.tir.index import mul, product

Expr: TypeAlias = Any
Read: TypeAlias = Callable[[Expr, Expr], Expr]
View: TypeAlias = MatMulView | ConvView


@dataclass(frozen=True)
class TileKnobs(Knobs):
    """A tile of the result, a slice of k, and what of it a thread has."""

    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.m // self.rows * (self.n // self.columns)


TILES = (TileKnobs(64, 64, 16, 4, 4), TileKnobs(16, 64, 16, 2, 4))


def plan_product(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Tiles in shared memory; where there are few elements, as any contraction."""
    node = group.anchor
    if node is None or node.cls is not OpClass.DOT:
        return WhyNot("product", "no product to anchor on")
    batch, m, n, k = matmul_dims(node)
    if min(len(x.shape) for x in node.inputs) < 2:
        return WhyNot("product", "an operand is a vector")
    view = MatMulView(group, node, batch, m, n, k)
    plans = plan_contraction(group, solver, machine)
    assert isinstance(plans, list)
    size = static_dim(m)
    tiles = [t for t in TILES if size is None or size > t.m // 4]
    return [*plans, *(_plan(view, tile, machine) for tile in tiles)]


def plan_convolution(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Tiles of an implicit product: rows are output channels, columns pixels of an image."""
    node = group.anchor
    if node is None or not node.op.startswith("relax.nn.conv"):
        return WhyNot("convolution", "no convolution to anchor on")
    weight = node.inputs[1]
    if channels_last(node) or any(static_dim(d) in (None, 0) for d in weight.shape):
        return WhyNot("convolution", "channels are last, or the weight's shape is not known")
    plans = plan_contraction(group, solver, machine)
    if isinstance(plans, WhyNot):
        return plans
    view = ConvView(group, node)
    channels = static_dim(view.sizes[1])
    tiles = [t for t in TILES if channels is not None and channels > t.m // 4]
    return [*plans[:3], *(_plan(view, tile, machine) for tile in tiles)]


def _plan(view: View, tile: TileKnobs, machine: Machine) -> Plan:
    assert machine.device is not None
    g, m, n, k = view.sizes
    tiles_m, tiles_n = _ceil(m, tile.m), _ceil(n, tile.n)
    tasks = mul(mul(g, tiles_m), tiles_n)
    multiplies, loads = tile.rows * tile.columns, tile.rows + tile.columns
    busy = max(multiplies * MULTIPLY_NS, loads * LOAD_NS)
    work = Work(tasks, tile.threads, i64(k), _ceil(k, tile.k) * 2, busy=busy)
    return Plan(
        tasks=tasks,
        work=product([g, m, n, k]) * 2,
        emit=partial(_tile, view, tile),
        knobs=tile,
        grid=Grid(tile.threads, shared=True),
        cost=partial(waves_ns, machine.device, view.group, work),
        features=(i64(m), i64(n), i64(k), mul(m, n)),
    )


def _ceil(size: Expr, step: int) -> Expr:
    return tirx.floordiv(i64(size) + (step - 1), i64(step))


def _tile(view: View, tile: TileKnobs, body: Body) -> None:
    block, low = typed(DeviceBlock, body.block), body.low
    _, m, n, k = view.sizes
    m, n, k = (block.bind(name, i64(x)) for name, x in zip("mnk", (m, n, k), strict=True))
    dtype = accumulator(view.node.dtype)
    down, across = (block.bind("tiles", _ceil(x, t)) for x, t in ((m, tile.m), (n, tile.n)))
    along = tirx.truncdiv(body.lo, across)
    j0 = block.bind("j0", (body.lo - along * across) * tile.n)
    g = block.bind("g", tirx.truncdiv(along, down))
    i0 = block.bind("i0", (along - g * down) * tile.m)
    width = tile.n // tile.columns
    row = block.bind("row", tirx.truncdiv(body.thread, i64(width)))
    column = block.bind("column", body.thread - row * width)
    a = block.shared("a", tile.m * tile.k, dtype)
    b = block.shared("b", tile.k * tile.n, dtype)
    sums = block.alloc("sums", tile.rows * tile.columns, dtype)
    for s in range(tile.rows * tile.columns):
        block.store(sums, s, const(0, dtype))
    with low.loop("slice", _ceil(k, tile.k)) as part:
        k0 = block.bind("k0", part * tile.k)

        def of_a(r: Expr, c: Expr) -> Expr:
            i, kk = i0 + r, k0 + c
            return _inside(body, [i < m, kk < k], lambda: view.a_at(low, g, i, kk), dtype)

        def of_b(r: Expr, c: Expr) -> Expr:
            kk, j = k0 + r, j0 + c
            return _inside(body, [kk < k, j < n], lambda: view.b_at(low, g, kk, j), dtype)

        _copy(body, a, (tile.m, tile.k), tile.threads, of_a)
        _copy(body, b, (tile.k, tile.n), tile.threads, of_b)
        block.barrier()
        _multiply(body, tile, (a, b, sums), row, column)
        block.barrier()
    _store(view, tile, body, sums, (g, i0, j0), (m, n), (row, column))


def _inside(body: Body, tests: list[Expr], read: Callable[[], Expr], dtype: str) -> Expr:
    """An operand's element, or 0 beyond its edge."""
    with body.low.guarded():
        value = cast(read(), dtype)
    return tirx.if_then_else(tirx.all(*tests), value, const(0, dtype))


def _copy(body: Body, room: Buffer, shape: tuple[int, int], threads: int, read: Read) -> None:
    """Fill shared memory: neighbouring threads take neighbouring columns."""
    rows, columns = shape
    with body.low.loop("copy", rows * columns // threads) as step:
        at = body.block.bind("at", step * threads + body.thread)
        r = body.block.bind("r", tirx.truncdiv(at, i64(columns)))
        c = body.block.bind("c", at - r * columns)
        value = read(r, c)
        body.low.resolve([value])
        body.block.store(room, at, value)


def _multiply(
    body: Body, tile: TileKnobs, arrays: tuple[Buffer, Buffer, Buffer], row: Expr, column: Expr
) -> None:
    block, (a, b, sums) = body.block, arrays
    width = tile.n // tile.columns
    with body.low.loop("kk", tile.k) as kk:
        left = [
            block.bind(f"l{r}", a[(row * tile.rows + r) * tile.k + kk]) for r in range(tile.rows)
        ]
        right = [
            block.bind(f"r{c}", b[kk * tile.n + c * width + column]) for c in range(tile.columns)
        ]
        for r, x in enumerate(left):
            for c, y in enumerate(right):
                s = i64(r * tile.columns + c)
                block.store(sums, s, sums[s] + x * y)


def _store(
    view: View,
    tile: TileKnobs,
    body: Body,
    sums: Buffer,
    origin: tuple[Expr, Expr, Expr],
    sizes: tuple[Expr, Expr],
    place: tuple[Expr, Expr],
) -> None:
    block, low, anchor = body.block, body.low, view.node
    (g, i0, j0), (m, n), (row, column) = origin, sizes, place
    width = tile.n // tile.columns
    with low.loop("rr", tile.rows) as r, low.loop("cc", tile.columns) as c:
        i = block.bind("i", i0 + row * tile.rows + r)
        j = block.bind("j", j0 + c * width + column)
        with block.when(tirx.And(i < m, j < n)), low.scope():
            total = low.settle("total", cast(sums[r * tile.columns + c], anchor.dtype))
            low.bind_reader(anchor, lambda at: total)
            index = view.index(low, g, i, j)
            store_outputs(view.group, body.outputs, low, index, view.flat(g, i, j))
            low.drop_reader(anchor)
