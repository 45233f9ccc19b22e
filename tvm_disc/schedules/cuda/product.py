"""Plans of tiles for matmuls and convolutions: tile sizes, and how operands are copied.

An operand is copied along its contiguous dim: row-major A along k, row-major B along n, transposed
operands along the other dim. Plans that copy several elements at once (``wide``) require dims that
are multiples of the number of elements, and operands aligned to 16 bytes. The other plans have no
needs.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.conv.contraction import channels_last, matmul_dims
from tvm_disc.schedules.conv.implicit import ConvView
from tvm_disc.schedules.cuda.reduce import plan_contraction
from tvm_disc.schedules.cuda.tensor.template import plan_tensor_cores
from tvm_disc.schedules.cuda.tile import TileKnobs
from tvm_disc.schedules.cuda.tiling import Tiles
from tvm_disc.schedules.cuda.views import ChannelsLast, Plain, TileView
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.shape import Solver

# If few blocks run, loading a slice is limited by memory latency, so small tiles have deep slices.
TILES = (
    TileKnobs(64, 64, 32, 4, 4),
    TileKnobs(16, 64, 32, 2, 4),
    TileKnobs(32, 32, 32, 4, 4),
    TileKnobs(128, 64, 16, 8, 8),
    TileKnobs(64, 64, 32, 4, 4, parts=8),
    TileKnobs(16, 64, 32, 2, 4, parts=8),
)


def plan_product(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return contraction plans for small results, and plans with tiles.

    The tiles are computed on tensor cores if this is possible, otherwise from shared memory.
    """
    node = group.anchor
    if node is None or node.cls is not OpClass.DOT:
        return WhyNot("product", "it requires a matrix product: the kernel has none")
    batch, m, n, k = matmul_dims(node)
    if min(len(x.shape) for x in node.inputs) < 2:
        return WhyNot("product", "it requires two matrices: an operand is a vector")
    plans = plan_contraction(group, solver, machine)
    assert isinstance(plans, list)
    fast = plan_tensor_cores(group, solver, machine)
    if isinstance(fast, list):
        return [*plans, *fast]
    note = {f"{fast.subject} not used": fast.reason}
    plans = [replace(p, notes={**p.notes, **note}) for p in plans]
    tiles = Tiles(Plain(MatMulView(group, node, batch, m, n, k)), solver, machine)
    size = static_dim(m)
    return [*plans, *tiles.plans([t for t in TILES if size is None or size > t.m // 4])]


def plan_convolution(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with tiles of the implicit GEMM, and contraction plans.

    NHWC: rows are pixels, columns output channels. NCHW: rows are output channels, columns pixels.
    """
    node = group.anchor
    if node is None or not node.op.startswith("relax.nn.conv"):
        return WhyNot("convolution", "it requires a convolution: the kernel has none")
    weight, last = node.inputs[1], channels_last(node)
    if any(static_dim(d) in (None, 0) for d in weight.shape):
        return WhyNot("convolution", "it requires a weight of constant, nonzero sizes")
    plans = plan_contraction(group, solver, machine)
    if isinstance(plans, WhyNot):
        return plans
    tiled: TileView = ChannelsLast(group, node) if last else Plain(ConvView(group, node))
    tiles = Tiles(tiled, solver, machine)
    channels = static_dim(tiled.sizes[2 if last else 1]) or 0
    fit = [t for t in TILES if channels > (t.n if last else t.m) // 4]
    return [*plans[:3], *tiles.plans(fit)]


__all__ = ["TILES", "plan_convolution", "plan_product"]
