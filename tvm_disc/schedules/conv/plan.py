"""Templates that compute a convolution as one GEMM: *implicit gemm* (NCHW), *pixel gemm* (NHWC)."""

from __future__ import annotations

from functools import partial

import tvm

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import geometry, layout_refusal
from tvm_disc.schedules.conv.cost import CopiedWindows
from tvm_disc.schedules.conv.implicit import ConvView
from tvm_disc.schedules.conv.macro_kernel import ConvBody, ConvCut, ConvOperands, ConvShape
from tvm_disc.schedules.conv.pixels import PixelView
from tvm_disc.schedules.dispatch.variant import AT_BUILD, IN_CALL, IN_PLACE, Read
from tvm_disc.schedules.gemm.cost import gemm_ns
from tvm_disc.schedules.gemm.epilogue import Epilogue
from tvm_disc.schedules.gemm.macro_kernel import GemmTile, Stores
from tvm_disc.schedules.gemm.partition import has_masks
from tvm_disc.schedules.gemm.plan import dtypes_of, gemm_plans, sizes_only, sums_of
from tvm_disc.schedules.gemm.space import GemmKnobs, doubt, tiles
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.packing import Packing
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show_shape
from tvm_disc.tir.builder import i64


def _no_product(node: Node, last: bool) -> str | None:
    """Return why a window cannot be computed as a matmul, or None if it can.

    ``last`` is the required layout: whether channels are the last dim.
    """
    if not node.weighted:
        return "it requires a convolution: this is pooling, which has no weights"
    if (reason := layout_refusal(node, last)) is not None:
        return reason
    data, weight = node.inputs
    if node.attrs["groups"] != 1 and static_dim(weight.shape[1]) == 1:
        return "it requires several input channels per group: this is a depthwise convolution"
    if sums_of(data, weight, node) is None:
        return f"it does not support {data.dtype} x {weight.dtype} -> {node.dtype}"
    if any(static_dim(d) is None for d in weight.shape):
        return f"it requires constant sizes of the weight: they are {show_shape(weight.shape)}"
    return None


def plan_conv(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans of a convolution as an implicit GEMM: rows are output channels, columns
    pixels.
    """
    node = group.anchor
    assert node is not None
    refused = _no_product(node, last=False)
    if refused is not None:
        return WhyNot("implicit gemm", refused)
    data, weight = node.inputs
    sums = sums_of(data, weight, node)
    assert sums is not None
    view = ConvView(group, node)
    weights = view.weights(sums)
    found = tiles(machine.isa, sums, ConvShape.of(node, view.groups, bool(weights)).known_columns)
    # tiles that differ only in m_blocks give the same plan, since rows are divided at run time
    found = [t for t in found if t.m_blocks == found[0].m_blocks]
    if weights is None or not has_masks(found[0].lanes * _itemsize(sums), data.dtype):
        return gemm_plans(view, solver, machine)
    return [_conv_plan(view, weights, tile, doubt(tile, found[0], True), machine) for tile in found]


def _conv_plan(
    view: ConvView,
    weights: dict[Node, Packing],
    tile: GemmTile,
    factor: str,
    machine: Machine,
) -> Plan:
    node, dtype = view.node, dtypes_of(view)[0]
    shape = ConvShape.of(node, view.groups, bool(weights))
    near = machine.memory.weights_bytes
    cut_with = partial(ConvCut, shape, tile, _itemsize(dtype), machine.threads, near)
    cut = cut_with()

    def emit(body: Body) -> None:
        out = Epilogue(view, body)
        data, weight = (body.buffers[n] for n in node.inputs)
        store = Stores(out.scalar, out.vector)
        operands = ConvOperands(node, data, weight, bool(weights), store, out.writes, out.reads)
        emitter = ConvBody(operands, shape, tile, cut_with, dtype, machine.micro, body)
        emitter.emit(body.lo, body.hi)

    batch, m, n, k = (i64(x) for x in view.sizes)
    spec = sizes_only(view, ("A",), {})
    return Plan(
        tasks=i64(cut.tasks),
        work=batch * m * n * k * 2,
        emit=emit,
        scratch_elems=cut.elems,
        scratch_dtype=dtype,
        packed=weights,
        packed_dtypes=dict.fromkeys(weights, dtype),
        may_alias=True,
        knobs=GemmKnobs.of(tile),
        cost=partial(gemm_ns, spec, tile, (batch, m, n, k), factor),
        features=(batch, m, n, k),
        reads=(Read("weights", AT_BUILD if weights else IN_PLACE), Read("input", IN_CALL)),
        notes={
            "register tile": f"{tile.m_r} rows x {tile.n_r} columns",
            "depth": str(cut.depth),
        },
    )


def plan_pixels(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans of a channels-last convolution: rows are pixels, columns output channels."""
    node = group.anchor
    assert node is not None
    refused = _no_product(node, last=True)
    if refused is not None:
        return WhyNot("pixel gemm", refused)
    if any(static_dim(d) == 0 for d in node.inputs[1].shape):
        return WhyNot("pixel gemm", "it requires nonempty weights: one of their sizes is 0")
    view = PixelView(group, node, machine.isa.dots)
    window = geometry(node, len(view.taps))
    sizes = (view.run, view.channels, machine.lanes)
    copies = CopiedWindows(node.shape[1:-1], view.taps, window, *sizes)
    return gemm_plans(view, solver, machine, copies.element_ns)


def _itemsize(dtype: str) -> int:
    return int(tvm.DataType(dtype).bits) // 8
