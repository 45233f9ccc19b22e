"""Fusion plans of small graphs: how many kernels, of which kind, and why not fewer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import attended
from tvm_disc import Options, relay
from tvm_disc.relay.importer.module import import_module
from tvm_disc.relay_passes import DecomposeComposite, FuseDISC, MergeProducts, Simplify

RNG = np.random.default_rng(0)
Plan = tuple[Counter[str], list[str]]


def weight(*shape: int) -> Any:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def scalar(value: float) -> Any:
    return relay.const(np.float32(value))


def plan(module: Any, enabled: bool = True) -> Plan:
    """Kernel calls by kind, and the refusals."""
    imported = import_module(module)
    fuse = FuseDISC(imported.solver, enabled)
    solver = imported.solver
    passes = [DecomposeComposite(), Simplify(solver), MergeProducts(solver), fuse]
    mod = tvm.transform.Sequential(passes)(imported.mod)
    kinds: Counter[str] = Counter()

    def look(e: Any) -> None:
        if isinstance(e, tvm.ir.Call) and isinstance(e.op, tvm.ir.GlobalVar):
            kinds[str(mod[e.op].attrs["disc.kind"])] += 1

    relax.analysis.post_order_visit(mod["main"], look)
    return kinds, [str(r) for r in fuse.refused]


# -- one kernel each, whatever the rank, the axis and the dims -----------------------------------

SHAPES = [("n",), ("b", "s"), ("b", "s", "t"), ("b", 3, "s", "t")]
ROWS: dict[str, Callable[[Any, int], Any]] = {
    "softmax": lambda x, a: relay.nn.softmax(x, axis=a),
    "log_softmax": lambda x, a: relay.nn.log_softmax(x, axis=a),
    "masked softmax": lambda x, a: relay.nn.softmax(
        relay.where(relay.greater(x, scalar(0)), x, scalar(-1e9)), axis=a
    ),
    "variance": lambda x, a: relay.variance(x, axis=a),
    "l2 normalise": lambda x, a: relay.nn.l2_normalize(x, eps=1e-6, axis=[a]),
    "rms norm": lambda x, a: relay.multiply(
        x, relay.rsqrt(relay.add(relay.mean(relay.multiply(x, x), axis=a, keepdims=True), EPS))
    ),
    "standardise": lambda x, a: relay.divide(
        relay.subtract(x, relay.mean(x, axis=a, keepdims=True)),
        relay.sqrt(relay.add(relay.variance(x, axis=a, keepdims=True), EPS)),
    ),
    "argmax": lambda x, a: relay.argmax(x, axis=a),
    "top 1": lambda x, a: relay.Tuple([relay.max(x, axis=a), relay.argmax(x, axis=a)]),
    "extremes": lambda x, a: relay.subtract(relay.max(x, axis=a), relay.min(x, axis=a)),
    "softmax and argmax": lambda x, a: (lambda y: relay.Tuple([y, relay.argmax(y, axis=a)]))(
        relay.nn.softmax(x, axis=a)
    ),
    "two softmax": lambda x, a: relay.nn.softmax(relay.tanh(relay.nn.softmax(x, axis=a)), axis=a),
}
EPS = scalar(1e-5)
CASES = [(n, s, a) for n in ROWS for s in SHAPES for a in range(len(s))]


@pytest.mark.parametrize(
    ("name", "shape", "axis"), CASES, ids=[f"{n} {len(s)}.{a}" for n, s, a in CASES]
)
def test_a_chain_over_rows_is_one_kernel(name: str, shape: tuple[Any, ...], axis: int) -> None:
    x = rows(*shape)
    assert plan(function(x, ROWS[name](x, axis)))[0].total() == 1


LAYER_NORM_AXES = [(("b", "d"), 1), (("b", "s", "d"), 2), (("b", "d", "s"), 1), (("d", "b"), 0)]


@pytest.mark.parametrize(("shape", "axis"), LAYER_NORM_AXES)
def test_residual_layer_norm_cast_is_one_kernel(shape: tuple[str, ...], axis: int) -> None:
    x, y = rows(*shape), rows(*shape, name="y")
    gamma, beta = rows("d", name="gamma"), rows("d", name="beta")
    total = relay.add(x, y)
    out = relay.nn.layer_norm(total, gamma, beta, axis=axis)
    both = relay.Tuple([total, relay.cast(out, "float16")])
    assert plan(function(x, y, gamma, beta, both))[0] == {"row": 1}


def test_instance_norm_is_one_kernel() -> None:
    x = rows("b", 8, "h", "w")
    assert plan(function(x, relay.nn.instance_norm(x, weight(8), weight(8))))[0] == {"row": 1}


def test_embedding_and_layer_norm_are_one_kernel() -> None:
    ids = rows("b", "s", dtype="int64")
    words = relay.take(weight(50, 64), ids, axis=0)
    place = relay.take(weight(16, 64), relay.clip(ids, 0, 15), axis=0)
    out = relay.nn.layer_norm(relay.add(words, place), weight(64), weight(64))
    assert plan(function(ids, out))[0] == {"row": 1}


def gelu(x: Any) -> Any:
    inner = relay.erf(relay.multiply(x, scalar(0.7071)))
    return relay.multiply(relay.multiply(x, scalar(0.5)), relay.add(inner, scalar(1)))


GRAPHS: list[tuple[str, Callable[..., Any], dict[str, int]]] = [
    ("bias gelu", lambda x, y: gelu(relay.add(x, weight(8))), {"loop": 1}),
    (
        "several outputs of one value",
        lambda x, y: relay.Tuple([relay.exp(relay.add(x, y)), relay.add(x, y)]),
        {"loop": 1},
    ),
    (
        "siblings share a load",
        lambda x, y: relay.Tuple([relay.exp(x), relay.tanh(x)]),
        {"loop": 1},
    ),
    (
        "neighbours around a dear value",
        lambda x, y: relay.Tuple(
            [relay.add(relay.exp(x), y), relay.multiply(relay.exp(x), y), relay.exp(x)]
        ),
        {"loop": 1},
    ),
    (
        "strangers over one domain",
        lambda x, y: relay.Tuple([relay.exp(x), relay.tanh(y)]),
        {"loop": 1},
    ),
    (
        "a row and its sibling loop",
        lambda x, y: relay.Tuple([relay.tanh(x), relay.nn.softmax(x)]),
        {"row": 1},
    ),
    (
        "two rows of one operand",
        lambda x, y: relay.Tuple([relay.sum(x, axis=1), relay.max(x, axis=1)]),
        {"row": 1},
    ),
    (
        "two columns of one operand",
        lambda x, y: relay.Tuple([relay.sum(x, axis=0), relay.max(x, axis=0)]),
        {"row": 1},
    ),
    (
        "a view after a row",
        lambda x, y: relay.exp(relay.reshape(relay.nn.softmax(x), newshape=(-1,))),
        {"row": 1},
    ),
    (
        "transposes are index maps",
        lambda x, y: relay.exp(relay.transpose(relay.tanh(x), axes=(1, 0))),
        {"loop": 1},
    ),
    (
        "a gated half",
        lambda x, y: relay.multiply(
            relay.split(x, 2, axis=1)[0], relay.sigmoid(relay.split(x, 2, axis=1)[1])
        ),
        {"loop": 1},
    ),
    (
        "bias, activation and residual on the tile",
        lambda x, y: relay.add(gelu(relay.add(relay.nn.dense(x, weight(8, 8)), weight(8))), y),
        {"dot": 1},
    ),
    (
        "merged products stored in parts",
        lambda x, y: relay.Tuple(
            [relay.nn.relu(relay.nn.dense(x, weight(n, 8))) for n in (16, 32, 5)]
        ),
        {"dot": 1},
    ),
]


@pytest.mark.parametrize(("name", "make", "kinds"), GRAPHS, ids=[g[0] for g in GRAPHS])
def test_kernels(name: str, make: Callable[..., Any], kinds: dict[str, int]) -> None:
    x, y = rows("b", 8), rows("b", 8, name="y")
    found, refused = plan(function(x, y, make(x, y)))
    assert found == kinds, refused


def test_heads_are_index_maps_of_the_products() -> None:
    """Split heads, scores, merged heads: no kernel but the products."""
    x = rows("b", "s", 64)

    def head() -> Any:
        y = relay.reshape(relay.nn.dense(x, weight(64, 64)), newshape=(0, 0, 4, 16))
        return relay.reshape(relay.transpose(y, axes=(0, 2, 1, 3)), newshape=(-3, 0, 0))

    q, k = head(), head()
    assert plan(function(x, relay.nn.batch_matmul(q, k)))[0] == {"dot": 2}


def test_several_views_to_one_shape_are_one_index_map() -> None:
    """gelu on two views of a product, as PyTorch exports it."""
    x = rows("b", "s", 16)
    y = relay.nn.dense(relay.reshape(x, newshape=(-1, 16)), weight(8, 16))
    cube = relay.reshape(relay.power(y, scalar(3)), newshape=(-1, 4, 8))
    out = relay.tanh(relay.add(relay.reshape(y, newshape=(-1, 4, 8)), cube))
    assert plan(function(x, out))[0] == {"dot": 1}


def test_a_cheap_value_is_computed_again_by_its_readers() -> None:
    x = rows("b", "s")
    twice = relay.multiply(x, scalar(2))
    module = function(x, relay.Tuple([relay.sum(twice, axis=0), relay.sum(twice, axis=1)]))
    imported = import_module(module)
    mod = FuseDISC(imported.solver)(Simplify(imported.solver)(imported.mod))
    results = [f.ret_ty for _, f in mod.functions_items() if "disc.kind" in (f.attrs or {})]
    assert len(results) == 2
    assert not any(isinstance(t, relax.TupleType) for t in results), "twice is stored"


def test_a_value_computed_again_over_another_domain_is_stored_by_its_own_kernel() -> None:
    """``kept`` is read by a product and, through ``total``, by a kernel over the rows of y, which
    computes it again. That kernel has other rows, and must not store it for the product.
    """
    x, y = rows("b", "s", 8), rows("b", "n", 8, name="y")
    kept = attended(relay.tanh(x))
    total = kept + relay.tanh(x)
    first = relay.expand_dims(relay.take(total, relay.const(0), axis=1), 1)
    of_items = relay.tanh(relay.mean(y, axis=1, keepdims=True)) + relay.tanh(first)
    product = relay.tanh(relay.nn.dense(kept, weight(8, 8)))
    module = function(x, y, relay.Tuple([product, of_items]))
    exe, plain = (tvm_disc.build(module, options=Options(fuse=f)) for f in (True, False))
    for s, n in ((5, 1), (37, 5), (1, 1), (3, 64), (127, 2)):
        given = [RNG.standard_normal((2, k, 8)).astype("float32") for k in (s, n)]
        for found, wanted in zip(exe(*given), plain(*given), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


# -- what is refused ----------------------------------------------------------------------------

REFUSALS: list[tuple[str, Callable[..., Any], int, str]] = [
    (
        "another axis",
        lambda x, y: relay.Tuple([relay.sum(relay.exp(x), 0), relay.sum(relay.exp(x), 1)]),
        2,
        r"it reduces the axes \[1\]; this kernel reduces \[0\]",
    ),
    (
        "a reduction after a product",
        lambda x, y: relay.sum(relay.nn.dense(x, weight(8, 8)), axis=1),
        2,
        "sum cannot be fused as an epilogue: it is not element-wise",
    ),
    (
        "work before a product",
        lambda x, y: relay.nn.dense(relay.tanh(x), weight(4, 8)),
        2,
        "an operand of a matmul kernel may only be a view, a permutation, a slice or a broadcast",
    ),
    (
        "a dear value read through a broadcast",
        lambda x, y: relay.add(rows("c", "b", 8, name="z"), relay.exp(x)),
        2,
        "a broadcast would recompute it for every element",
    ),
    (
        "a dear value in a branch",
        lambda x, y: relay.exp(relay.concatenate(relay.Tuple([relay.tanh(x), y]), axis=1)),
        2,
        "concat would compute it under a condition, which prevents vectorization",
    ),
    (
        "a product read in parts by a kernel",
        lambda x, y: relay.multiply(
            *(relay.split(relay.nn.dense(x, weight(8, 8)), 2, axis=1)[k] for k in (0, 1))
        ),
        2,
        "the kernels that read the slices compute them",
    ),
    (
        "too many tensors in a loop",
        lambda x, y: relay.Tuple(
            [relay.add(x, v) for v in (y, *(rows("b", 8, name=f"z{k}") for k in range(8)))]
        ),
        2,
        r"one loop would access \d+ tensors; the limit is \d+",
    ),
]


@pytest.mark.parametrize(
    ("name", "make", "count", "reason"), REFUSALS, ids=[r[0] for r in REFUSALS]
)
def test_refusals(name: str, make: Callable[..., Any], count: int, reason: str) -> None:
    x, y = rows("b", 8), rows("b", 8, name="y")
    out = make(x, y)
    found, refused = plan(relay.IRModule.from_expr(relay.Function(relay.free_vars(out), out)))
    assert found.total() == count, (found, refused)
    assert any(re.search(reason, r) for r in refused), refused


def test_domains_that_are_not_proved_equal_stay_apart() -> None:
    x, y = rows("?", 8), rows("?", 8, name="y")
    assert plan(function(x, y, relay.Tuple([relay.exp(x), relay.exp(y)])))[0] == {"loop": 2}


def test_a_refusal_that_was_overcome_is_not_told() -> None:
    x, y = rows("b", 64), rows("b", 64, name="y")
    total = relay.add(x, y)
    out = relay.Tuple([total, relay.nn.layer_norm(total, weight(64), weight(64))])
    assert plan(function(x, y, out)) == ({"row": 1}, [])


def test_kernels_never_wait_for_each_other() -> None:
    """A vector in both a row kernel and a column kernel must not tie them into a knot."""
    x, z = rows("b", "s"), rows("s", name="z")
    e, t = relay.exp(x), relay.tanh(z)
    row = relay.divide(relay.add(e, t), relay.sum(e, axis=1, keepdims=True))
    column = relay.multiply(relay.sum(e, axis=0), t)
    for outputs in ([row, column], [column, row]):
        assert plan(function(x, z, relay.Tuple(outputs)))[0].total() <= 3


# -- the pass alone -----------------------------------------------------------------------------


def test_the_pass_alone_takes_dead_code_and_unknown_operators() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 8], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            bb.emit(relax.op.exp(relax.op.tanh(x)))  # nothing reads it
            y = bb.emit(relax.op.nn.relu(relax.op.nn.softmax(x)))
            out = bb.emit_output(relax.op.add(y, y))
        bb.emit_func_output(out)
    fused = FuseDISC()(bb.get())
    groups = [f for _, f in fused.functions_items() if "disc.kind" in (f.attrs or {})]
    assert [str(f.attrs["disc.kind"]) for f in groups] == ["loop"]
    relax.analysis.well_formed(fused, check_ty=False)  # raises
    relax.analysis.well_formed(Simplify()(bb.get()), check_ty=False)  # raises


def test_without_fusion_every_operator_is_a_kernel() -> None:
    x = rows("b", "s")
    assert plan(function(x, relay.nn.softmax(x)), enabled=False)[0].total() >= 5
