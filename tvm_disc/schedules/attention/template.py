"""The *attention* template: scores, softmax and weighted values of one block of queries at a time.

A task is one batch item (batch and heads together) and one block of queries:

    Q block, K panels, V panels  copied once into the layout of the register tiles
    for each block of keys:
        S = Q K^T                register tiles, into a block of rows of scores
        S = chain(S), max, exp   vectors along each row; the running maximum rescales sum and O
        O += S V                 register tiles
    result = O / sum             through the index maps and operators that follow

If there are at most ``AttentionTile.keys`` keys, they form one block, and nothing is rescaled.
Otherwise it is the online softmax of Milakov & Gimelshein (2018), blocked as in FlashAttention (Dao
et al., 2022). Tasks of one batch item are consecutive and share its K and V. Keys at both ends of a
row are skipped if they are masked for all queries of the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import Attention, find_attention
from tvm_disc.graph.core_ops import BFLOAT16
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.attention.body import AttentionBody, Operand
from tvm_disc.schedules.attention.cost import attention_ns
from tvm_disc.schedules.attention.mask_skip import spread
from tvm_disc.schedules.attention.ragged import ragged_attention
from tvm_disc.schedules.attention.sizes import (
    KEYS_IN_PLACE,
    KEYS_PACKED,
    AttentionSizes,
    AttentionSpec,
    AttentionTile,
    RowsOfItem,
    attention_tile,
)
from tvm_disc.schedules.conv.contraction import matmul_dims
from tvm_disc.schedules.dispatch.variant import IN_CALL, IN_PLACE, Knobs, Read
from tvm_disc.schedules.gemm.epilogue import Epilogue
from tvm_disc.schedules.gemm.macro_kernel import GemmTile
from tvm_disc.schedules.gemm.partition import bind_size, is_one, known
from tvm_disc.schedules.gemm.plan import Strides, strides_of
from tvm_disc.schedules.gemm.view import MatMulView, shared_items
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Size

_ALGORITHMS = {KEYS_PACKED: "keys packed", KEYS_IN_PLACE: "keys in place"}
_NARROW = ("float16", BFLOAT16, "int8")  # float32 represents all of their values


@dataclass(frozen=True)
class AttentionKnobs(Knobs):
    """Largest number of queries of a task, longest row of scores in one block, algorithm."""

    queries: int
    keys: int
    algorithm: str

    def code(self) -> dict[str, object]:
        """Return the knobs that change the code; the algorithm is a run-time argument instead."""
        return {k: v for k, v in self.to_json().items() if k != "algorithm"}


def plan_attention(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return the plans that compute scores, softmax and weighted values in one kernel.

    The plans share a body, and differ in how the body reads the keys.
    """
    assert group.anchor is not None
    found = find_attention(group.anchor, solver)
    if not isinstance(found, Attention):
        return (
            WhyNot("attention", "it requires a softmax between two matmuls")
            if found is None
            else found
        )
    ragged = ragged_attention(group, found, solver)
    if isinstance(ragged, WhyNot):
        return ragged
    keys, values = _views(group, found, solver, merge=ragged is None)
    batch, m, n, depth = (known(x) for x in keys.sizes)
    if ragged is not None and ragged.queries is not None:
        batch, m = known(ragged.heads), known(ragged.rows)
    width = known(values.n)
    dtype = accumulator(found.result.dtype)
    tile = attention_tile(machine.isa, dtype, width)
    ats = (
        keys.a_at,
        lambda low, g, j, d: keys.b_at(low, g, d, j),
        lambda low, g, k, e: values.b_at(low, g, k, e),
    )
    offsets = [] if ragged is None else ragged.offsets
    operands = [_found(group, solver, at, offsets, dtype, at is not ats[0]) for at in ats]
    places = [x.place for x in operands]
    factors = [x.factor is not None for x in operands]

    staged = places[1] is None or 1 not in (places[1].stride, places[1].k_stride)
    inner = places[1] is not None and is_one(places[1].k_stride) and tile.lanes > 1
    whole = isinstance(width, int) and width % tile.lanes == 0
    direct = places[2] is not None and is_one(places[2].k_stride) and whole
    spec = AttentionSpec(
        batch, m, n, depth, width, dtype, staged, keys.shared, direct, (factors[1], factors[2])
    )

    def emit(body: Body) -> None:
        q, k, v = (_operand(body, x) for x in operands)
        bound = AttentionSizes(spec, tile, partial(bind_size, body.block))
        rows: RowsOfItem = lambda g: keys.row(body.low, g, found.masked.shape)  # noqa: E731
        shared = (spec, tile, found, body, bound, rows)
        store = Epilogue(values, body)
        AttentionBody(*shared, (q, k, v), store, machine.micro, ragged).emit()

    skips = spread(found) is not None and found.scores.dtype == dtype
    sizes = AttentionSizes(spec, tile)
    scores = i64(batch) * i64(m) * i64(n)
    common = Plan(
        tasks=i64(sizes.tasks(batch)),
        work=scores * (2 * (i64(depth) + i64(width))),
        emit=emit,
        scratch_elems=sizes.elems,
        scratch_dtype=dtype,
        may_alias=True,
        features=tuple(i64(x) for x in (batch, m, n)),
        notes={
            "register tiles": f"{_tile(tile.scores)} scores, {_tile(tile.values)} results",
            "cache block": f"{tile.queries} queries, {tile.keys} keys",
            **({} if not skips else {"masked keys": "skipped at both ends of a row of the mask"}),
            **({} if ragged is None else {"ragged": ragged.text()}),
            **({} if keys.shared == 1 else {"heads that share keys": f"{keys.shared}"}),
            **({} if not any(factors) else {"dequantized by rows": _names(factors)}),
        },
    )
    return [
        replace(
            common,
            reads=_reads(spec, tile, places, number == KEYS_IN_PLACE, skips),
            knobs=AttentionKnobs(tile.queries, tile.keys, _ALGORITHMS[number]),
            algorithm=number,
            cost=partial(attention_ns, spec, tile, number == KEYS_IN_PLACE),
        )
        for number in (KEYS_PACKED, KEYS_IN_PLACE)[: 1 + inner]
    ]


def _reads(
    spec: AttentionSpec,
    tile: AttentionTile,
    places: Sequence[Strides | None],
    in_place: bool,
    skips: bool,
) -> tuple[Read, ...]:
    """Return how the body reads Q, K and V.

    Args:
        places: where each of them is stored; None if the body computes it.
        in_place: whether the body reads the keys in place.
        skips: whether a call may skip masked keys; for this, it packs V.
    """
    packed = [
        Read(name, IN_CALL, "" if place else "computed by this kernel")
        for name, place in zip("QKV", places, strict=True)
    ]
    values, read = places[2], (packed[0], Read("K", IN_PLACE) if in_place else packed[1])
    if values is None or not spec.values_in_place:
        return *read, packed[2]
    many = None if not isinstance(spec.m, int) else spec.m > tile.queries
    step, near = static_dim(values.stride), 2 * tile.values.n_r
    far = True if values.node.dtype != spec.dtype else None if step is None else step > near
    if many and far:
        return *read, packed[2]
    packs = []
    if many is not False and far is not False:
        tests = [f"Q has more than {tile.queries} rows"] * (many is None)
        tests += [f"the rows of V are more than {near} elements apart"] * (far is None)
        packs.append(" and ".join(tests))
    if skips:
        packs.append("masked keys are skipped")
    if not packs:
        return *read, Read("V", IN_PLACE)
    return *read, Read("V", IN_CALL, f"if {' or '.join(packs)}"), Read("V", IN_PLACE, "otherwise")


def _names(present: Sequence[object]) -> str:
    return ", ".join(n for n, p in zip("QKV", present, strict=True) if p)


def _tile(tile: GemmTile) -> str:
    return f"{tile.m_r} x {tile.n_r}"


def _views(
    group: Group, found: Attention, solver: Solver, merge: bool
) -> tuple[MatMulView, MatMulView]:
    """Return the views of both matmuls.

    With ``merge``, an item is all heads that share K and V.
    """
    made = []
    for node in (found.scores, found.result):
        batch, m, n, k = matmul_dims(node)
        shared = shared_items(group, node, batch, solver) if merge else 1
        made.append(MatMulView(group, node, batch, m, n, k, shared=shared))
    shared = math.gcd(*(view.shared for view in made))
    keys, values = (replace(view, shared=shared) for view in made)
    return keys, values


@dataclass(frozen=True)
class _Found:
    """An operand of the matmuls; ``at(low, g, row, e)`` evaluates an element.

    ``place``, if any, is the location of the operand before the nodes of ``follow`` are applied:
    conversions and multiplications that the body does itself while it reads. Each node is mapped to
    the number of the input to read instead. If rows are quantized, ``factor`` is the location of
    the factor of each row, found in the same way through ``scales``.
    """

    at: Callable[..., Expr]
    place: Strides | None
    follow: Mapping[Node, int]
    factor: Strides | None
    scales: Mapping[Node, int]


def _found(
    group: Group,
    solver: Solver,
    at: Callable[..., Expr],
    offsets: Sequence[Node],
    dtype: str,
    quantized: bool,
) -> _Found:
    """Return the locations from which the body reads one operand.

    Args:
        quantized: whether the body can multiply rows by factors.
    """
    casts = _widening(group, dtype)
    if quantized:
        numbers, scales = _scaling(group, casts)
        place, factor = (strides_of(group, solver, at, offsets, f) for f in (numbers, scales))
        if (
            place is not None
            and factor is not None
            and place.node is not factor.node
            and is_one(place.k_stride)
            and factor.k_stride == 0
        ):
            return _Found(at, place, numbers, factor, scales)
    return _Found(at, strides_of(group, solver, at, offsets, casts), casts, None, {})


def _widening(group: Group, dtype: str) -> dict[Node, int]:
    """Return the nodes that convert narrow numbers to ``dtype`` without rounding."""
    return {
        n: 0
        for n in group.nodes
        if n.op == "relax.astype" and n.dtype == dtype and n.inputs[0].dtype in _NARROW
    }


def _scaling(group: Group, casts: Mapping[Node, int]) -> tuple[dict[Node, int], dict[Node, int]]:
    """Return two copies of ``casts`` with the multiplications of int8 numbers by a factor added.

    The first copy maps such a node to the number of its int8 input, the second to the other input.
    """
    numbers, scales = dict(casts), dict(casts)
    for n in group.nodes:
        if n.op != "relax.multiply":
            continue
        own = [k for k, x in enumerate(n.inputs) if x in casts and x.inputs[0].dtype == "int8"]
        if len(own) == 1:
            numbers[n], scales[n] = own[0], 1 - own[0]
    return numbers, scales


def _operand(body: Body, found: _Found) -> Operand:
    """Return the functions that read one operand inside a body."""
    low = body.low

    def place(strides: Strides, follow: Mapping[Node, int], g: Size) -> tuple[Any, Expr, Any, Any]:
        where = low.locate(lambda: found.at(low, i64(g), i64(0), i64(0)), follow)
        assert where is not None
        base = low.settle("base", where[1])
        return body.buffers[strides.node], base, strides.stride, strides.k_stride

    return Operand(
        lambda g, row, e: found.at(low, i64(g), i64(row), i64(e)),
        None if found.place is None else partial(place, found.place, found.follow),
        None if found.factor is None else partial(place, found.factor, found.scales),
    )
