"""Plans of matmuls on tensor cores: float16, bfloat16, and float32 if TF32 is allowed.

Sums are float32. Plans with asynchronous copies (``wide``) require that operands are stored as
matrices and aligned to 16 bytes, and that their rows are multiples of 16 bytes. The other plans
have no needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.cuda.cost import Work
from tvm_disc.schedules.cuda.tensor.instructions import CHUNK_BYTES
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs, TensorPlan
from tvm_disc.schedules.cuda.tensor.warpgroup import GroupKnobs, WarpgroupPlan, group_tile
from tvm_disc.schedules.cuda.tile import Side
from tvm_disc.schedules.cuda.tiling import Tiling
from tvm_disc.schedules.cuda.vector import OnCapability, item_bytes
from tvm_disc.schedules.cuda.views import Plain
from tvm_disc.schedules.dispatch.variant import Grid
from tvm_disc.schedules.gemm.partition import is_one
from tvm_disc.schedules.gemm.plan import rows_view, strides_of
from tvm_disc.schedules.gemm.view import operands_of
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.kernel import Plan
from tvm_disc.shape import Solver
from tvm_disc.target.device import GROUPS
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import ceil_div
from tvm_disc.typing import Expr

# the first compute capability (8.0) with asynchronous copies and these instructions
ARCHITECTURE = 80
HOPPER = OnCapability("compute capability 9.0", tirx.const(True, "bool"), True, GROUPS)
OTHERS = replace(HOPPER, assumed=False)
# the values of k are for 16-bit operands; float32 operands use half of them
TILES = (
    TensorKnobs(64, 64, 64, 2, 2, 3),
    TensorKnobs(128, 128, 32, 2, 2, 3),
    TensorKnobs(128, 64, 32, 2, 2, 4),
    TensorKnobs(32, 64, 64, 1, 4, 4),
    TensorKnobs(16, 64, 64, 1, 4, 4),
    TensorKnobs(64, 64, 64, 2, 2, 3, parts=4),
    TensorKnobs(16, 64, 64, 1, 4, 4, parts=4),
)


GROUP_TILES = (
    group_tile(64, 64, 6),
    group_tile(64, 128, 4),
    group_tile(128, 128, 4),
    group_tile(128, 192, 4),
    group_tile(128, 256, 4),
    group_tile(64, 64, 6, parts=4),
)


def plan_tensor_cores(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans for a matmul, or the reason why tensor cores cannot compute it."""
    node, device = group.anchor, machine.device
    assert node is not None and device is not None
    dtypes = {x.dtype for x in node.inputs}
    exact = dtypes in ({"float16"}, {"bfloat16"})
    if not exact and not (dtypes == {"float32"} and machine.tf32):
        named = " and ".join(sorted(dtypes))
        also = "; Options(tf32=True) allows them" if dtypes == {"float32"} else ""
        return WhyNot(
            "tensor cores", f"they require float16 or bfloat16 operands: found {named}{also}"
        )
    if not node.dtype.startswith(("float", "bfloat")) or node.dtype == "float64":
        return WhyNot(
            "tensor cores", f"they require a float result of at most 32 bits: it is {node.dtype}"
        )
    if device.architectures[0] < ARCHITECTURE:
        return WhyNot(
            "tensor cores",
            f"they require sm_80 or newer: the target includes sm_{device.architectures[0]}",
        )
    plans = _TensorTiling(Plain(rows_view(group, node)), solver, machine)
    size = static_dim(plans.view.sizes[1])
    found = plans.plans([t for t in TILES if size is None or size > t.m // 4])
    if exact and GROUPS in device.architectures:
        found += plans.of_groups([p for p in GROUP_TILES if size is None or size > p[0].m // 4])
    return found


class _TensorTiling(Tiling):
    """Builds the plans of one matmul on tensor cores."""

    def __init__(self, tiled: Plain, solver: Solver, machine: Machine) -> None:
        super().__init__(tiled, solver, machine)
        view: Any = tiled.view
        first, second = (strides_of(self.group, solver, at) for at in operands_of(view))
        self.places = None if first is None or second is None else (first, second)
        self.size_bytes = item_bytes(self.node.inputs[0].dtype)

    def plans(self, tiles: Sequence[TensorKnobs]) -> list[Plan]:
        return super().plans([replace(t, k=t.k * 2 // self.size_bytes) for t in tiles])

    def of_groups(self, pairs: Sequence[tuple[GroupKnobs, GroupKnobs]]) -> list[Plan]:
        """Return the plans with warpgroup instructions; [] if these cannot read the operands."""
        return [self._with_groups(*p) for p in pairs] if self._why_not_wide() is None else []

    def _with_groups(self, warps: GroupKnobs, groups: GroupKnobs) -> Plan:
        """Return a plan with warp instructions.

        Its ``wide`` plan uses warpgroup instructions, and is launched if the GPU has them.
        """
        plan, wide = self._plan(warps), self._plan(groups)
        only = self.device.architectures == (GROUPS,)
        wide = replace(wide, needs=(*wide.needs, HOPPER if only else OTHERS))
        facts = ", ".join(n.text for n in wide.needs)
        notes = {**plan.notes, "warpgroups": f"if {facts}"}
        # If the program is built for other GPUs too, the choice uses the cost of warp instructions.
        return replace(plan, wide=wide, notes=notes, cost=wide.cost if only else plan.cost)

    def _grid(self, tile: TensorKnobs) -> Grid:
        room_bytes = tile.room_bytes if isinstance(tile, GroupKnobs) else 0
        return Grid(tile.threads, shared=True, room_bytes=room_bytes)

    def _fits(self, tile: TensorKnobs) -> bool:
        room = tile.stages * tile.k * (tile.m + tile.n) * self.size_bytes
        return room <= self.device.shared_bytes

    def _why_not_wide(self) -> str | None:
        if self.places is None:
            return "an operand is computed, or is not stored as a matrix"
        sides = zip((self.a, self.b), self.places, strict=True)
        chunk = CHUNK_BYTES // self.size_bytes
        if any(s.lanes != chunk or not is_one(_along(s, p)) for s, p in sides):
            return "no dim of an operand is contiguous"
        return super()._why_not_wide()

    def _emit(
        self, tile: TensorKnobs, sides: tuple[Side, Side], facts: Sequence[Expr], wide_store: bool
    ) -> Callable[[Body], None]:
        places = self.places if tile.wide else None
        stored = self._stored_lanes(tile) if wide_store else 1
        if isinstance(tile, GroupKnobs) and tile.group:
            return WarpgroupPlan(self.view, tile, sides, places, facts, stored).emit
        return TensorPlan(self.view, tile, sides, places, facts, stored).emit

    def _stored_lanes(self, tile: TensorKnobs) -> int:
        return CHUNK_BYTES // self.size_bytes

    def _work(self, tile: TensorKnobs, tasks: Expr) -> Work:
        costs, k = self.device.costs, i64(self.view.sizes[3])
        copies = (tile.m + tile.n) * tile.k * self.size_bytes / CHUNK_BYTES
        products = tile.m * tile.n * tile.k * self.size_bytes / 2
        busy = costs.tensor_slice + copies * costs.tensor_copy + products * costs.tensor
        if self.size_bytes == 4:
            busy *= costs.tf32
        held = 0
        if isinstance(tile, GroupKnobs) and tile.group:
            busy = costs.group_slice + products * costs.group
            held = 1  # two concurrent blocks of small tiles take twice as long as one
        slices = ceil_div(ceil_div(k, tile.k), tile.parts)
        # A block that is alone on its multiprocessor waits for its pipes, and for copies that
        # started ``stages - 1`` slices before.
        alone = max(busy, costs.wait / (tile.stages - 1))
        each = max(1, round(alone / costs.step))
        steps = slices * each
        busy = busy / tile.threads / each
        return Work(tasks, tile.threads, steps, busy=busy, waits=2, held=held)


def _along(side: Side, place: Any) -> Any:
    """Return the stride of an operand along the dim of its copies."""
    return place.k_stride if side.along_k else place.stride


__all__ = ["TILES", "TensorKnobs", "plan_tensor_cores"]
