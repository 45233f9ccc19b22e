"""Matmuls by cuBLASLt, which a program loads when it opens its device.

If cuBLASLt is installed, a separate decision tree selects the matmuls that it computes
(``handover.py``). If it is not installed, or has no kernel for a matmul, the generated kernels run.
This module supports matmuls of float32, float16 and bfloat16, strided batches, and for float32 a
bias vector. Sums are in float32. The tensor cores' TF32, which rounds operands to 10 bits of
mantissa, is a build option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import GlobalVar

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.branches import emit_choice
from tvm_disc.schedules.cuda.vector import item_bytes
from tvm_disc.schedules.dispatch.choose import moved_bytes
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.dispatch.variant import LIBRARY, SERIAL, Choice, Knobs, Plan, Variant
from tvm_disc.schedules.gemm.partition import is_one
from tvm_disc.schedules.gemm.plan import rows_view, strides_of
from tvm_disc.schedules.gemm.vendor import apart, dense, leading
from tvm_disc.schedules.gemm.view import MatMulView, operands_of
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.target.device import Device
from tvm_disc.tir.builder import Block, call, i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Buffer, Expr, Size

# (record, description, out): ``out`` is 1 if the library computed the product
PRODUCT = GlobalVar("tvm_disc_library_product")
# Indices of the words of a description. Matrices of the library are column-major, so it computes
# the transposed matmul: its first operand is B, its second is A.
(
    TRANS_FIRST, TRANS_SECOND, ROWS, COLUMNS, DEPTH, BATCH, EPILOGUE, BIAS, COMPUTE,
    FIRST, SECOND, RESULT, TYPE, RESULT_TYPE,
) = (*range(9), 9, 12, 15, 18, 19)  # fmt: skip
ADDRESS, LEADING, STEP = range(3)  # words of an operand in a description
WORDS = 20
TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}  # values of cudaDataType
NO_EPILOGUE, ADD_BIAS = 1, 4
FLOAT32, TF32 = 68, 77  # values of cublasComputeType_t


@dataclass(frozen=True)
class LibraryKnobs(Knobs):
    """Whether float32 operands may be rounded to TF32."""

    tf32: bool


@dataclass(frozen=True)
class LibraryProduct:
    """A group that the library can compute.

    Attributes:
        places: node and strides of the operands A and B.
        bias: vector that is added to each row, or None.
        tf32: whether operands may be rounded to TF32.
        device: the GPU for which plans are made.
    """

    group: Group
    view: MatMulView
    places: tuple[Any, Any]
    bias: Node | None
    tf32: bool
    device: Device

    @property
    def dtype(self) -> str:
        """The dtype of the operands."""
        return self.view.node.inputs[0].dtype

    @property
    def _step_ns(self) -> float:
        """The nanoseconds of one step of k of one tile."""
        costs = self.device.costs
        if item_bytes(self.dtype) == 2:
            return costs.library_tensor_step
        return 2 * costs.library_tensor_step if self.tf32 else costs.library_step

    @cached_property
    def variant(self) -> Variant:
        """The library as a variant of the group; trees of the generated kernels do not
        contain it.
        """
        _, m, n, k = self.view.sizes
        plan = Plan(
            tasks=i64(1),
            work=self.flops,
            emit=_not_emitted,
            family=LIBRARY,
            knobs=LibraryKnobs(self.tf32),
            cost=self.ns,
            features=(i64(m), i64(n), i64(k)),
        )
        return Variant(plan, SERIAL)

    @property
    def flops(self) -> Expr:
        """The number of operations; a multiply-add counts as two."""
        return product(self.view.sizes) * 2

    def ns(self, points: Points, model: CostModel) -> Values:
        """Return the predicted nanoseconds of a call: waves of tiles, a tile per multiprocessor."""
        costs = self.device.costs
        batch, m, n, k = (evaluate(i64(x), points) for x in self.view.sizes)
        tiles = batch * np.ceil(m / costs.library_tile) * np.ceil(n / costs.library_tile)
        busy = np.ceil(tiles / self.device.multiprocessors) * k * self._step_ns
        moved = evaluate(moved_bytes(self.group), points) / self.device.bandwidth_gbs
        waits = costs.launch + costs.library_call + costs.wait
        return np.asarray(waits + np.maximum(busy, moved), np.float64)

    @property
    def what(self) -> str:
        """A text that names what the library computes, for ``explain``."""
        also = " and the bias" if self.bias is not None else ""
        kind = " in TF32" if self.tf32 else ""
        return f"the product{also}{kind}"


def _not_emitted(body: object) -> None:
    raise AssertionError("a library's kernel cannot be emitted")


def library_product(group: Group, solver: Solver, machine: Machine) -> LibraryProduct | WhyNot:
    """Return a group's matmul in a form that the library supports, or the reason why not."""
    node = group.anchor
    if node is None or node.op != "relax.matmul" or machine.device is None:
        return WhyNot(LIBRARY, "it requires a matrix product")
    dtypes = {x.dtype for x in node.inputs}
    if len(dtypes) > 1 or not dtypes <= set(TYPES) or min(len(x.shape) for x in node.inputs) < 2:
        return WhyNot(LIBRARY, "it requires two matrices of one float type")
    bias = _bias(group, node)
    if bias is None and (len(group.outputs) != 1 or not _rounds(group.outputs[0], node, group)):
        return WhyNot(LIBRARY, "it requires a matrix product alone, or with a bias on its columns")
    if group.outputs[0].dtype not in ("float32", *dtypes):
        return WhyNot(
            LIBRARY,
            f"it requires a float32 result or the operands' type: found {group.outputs[0].dtype}",
        )
    view = rows_view(group, node)
    if len(view.batch) > 1:
        return WhyNot(LIBRARY, "it requires at most one batch axis")
    first, second = (strides_of(group, solver, at) for at in operands_of(view))
    if first is None or second is None or not (is_one(second.stride) or is_one(second.k_stride)):
        return WhyNot(
            LIBRARY, "it requires row-major or column-major operands: one has other strides"
        )
    if not is_one(first.k_stride):
        return WhyNot(LIBRARY, "it requires a row-major first operand: it is column-major")
    tf32 = machine.tf32 and dtypes == {"float32"}
    return LibraryProduct(group, view, (first, second), bias, tf32, machine.device)


def _rounds(out: Node, node: Node, group: Group) -> bool:
    """Return whether a result is the matmul, or the matmul converted to another dtype."""
    if out is node:
        return True
    alone = [n for n in group.nodes if n.cls is OpClass.ELEMWISE] == [out]
    return alone and out.op == "relax.astype" and out.inputs[0] is node


def _bias(group: Group, node: Node) -> Node | None:
    """Return the vector that is added to every row, if nothing else follows a float32 matmul."""
    if node.dtype != "float32" or any(x.dtype != "float32" for x in node.inputs):
        return None
    [out] = group.outputs if len(group.outputs) == 1 else [None]
    if out is None or out.op != "relax.add" or len(group.nodes) != 2 or node not in out.inputs:
        return None
    bias = next((x for x in out.inputs if x is not node), None)
    if bias is None or bias not in group.params or bias.dtype != "float32":
        return None
    *lead, last = bias.shape if bias.shape else (0,)
    one_row = all(static_dim(d) == 1 for d in lead) and len(bias.shape) <= len(node.shape)
    same = static_dim(last) is not None and static_dim(last) == static_dim(node.shape[-1])
    return bias if one_row and same else None


def emit_product(
    given: LibraryProduct,
    choice: Choice,
    block: Block,
    low: Lowering,
    pointers: Mapping[Node, Expr],
    record: Expr,
) -> Expr:
    """Emit the library call; return whether the library computed the matmul.

    Args:
        choice: selects between the library and the generated kernels.
        low: lowering in which the group's operands are bound.
        pointers: addresses of operands and results.
    """
    view, zero = given.view, i64(0)
    batch, m, n, k = (block.bind(name, i64(x)) for name, x in zip("gmnk", view.sizes, strict=True))
    out = block.alloc("taken", 1, "int64")
    block.store(out, 0, zero)
    fits = [apart(p, outer, k) for p, outer in zip(given.places, (m, n), strict=True)]

    def tell() -> None:
        told = block.alloc("told", WORDS, "int64")
        for operand, (place, at) in enumerate(zip(given.places, operands_of(view), strict=True)):
            # rows of B are columns of the library's first matrix
            rows = is_one(place.k_stride) == (operand == 0)
            base, following = (_offset(low, partial(at, low, i64(g), zero, zero)) for g in (0, 1))
            length, _ = dense(place, (m, n)[operand], k)
            lead = tirx.max(leading(place), tirx.max(length, i64(1)))
            first = _bits(pointers[place.node]) + base * item_bytes(given.dtype)
            _operand(block, told, (SECOND, FIRST)[operand], (first, lead, following - base))
            block.store(told, (TRANS_SECOND, TRANS_FIRST)[operand], i64(int(not rows)))
        result = _bits(pointers[given.group.outputs[0]])
        _operand(block, told, RESULT, (result, n, m * n))
        bias = zero if given.bias is None else _bits(pointers[given.bias])
        epilogue = NO_EPILOGUE if given.bias is None else ADD_BIAS
        words: dict[int, Size] = {ROWS: n, COLUMNS: m, DEPTH: k, BATCH: batch, EPILOGUE: epilogue,
                                  BIAS: bias, TYPE: TYPES[given.dtype],
                                  RESULT_TYPE: TYPES[given.group.outputs[0].dtype],
                                  COMPUTE: TF32 if given.tf32 else FLOAT32}  # fmt: skip
        for word, value in words.items():
            block.store(told, word, i64(value))
        block.eval(call(PRODUCT, record, told.data, out.data))

    def run(variant: Variant) -> None:
        if variant.of_library:
            with block.when(tirx.all(*fits)):
                tell()

    emit_choice(block, choice, None, run)
    return tirx.NE(out[zero], zero)


def _operand(block: Block, told: Buffer, at: int, words: tuple[Expr, Expr, Expr]) -> None:
    for k, word in enumerate(words):
        block.store(told, at + k, i64(word))


def _offset(low: Lowering, at: Any) -> Expr:
    found = low.locate(at)
    assert found is not None
    return low.settle("base", found[1])


def _bits(pointer: Expr) -> Expr:
    return tirx.reinterpret("int64", pointer)


__all__ = ["PRODUCT", "LibraryProduct", "emit_product", "library_product"]
