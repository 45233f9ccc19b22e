"""Simplification and merging on imported modules: what is left after each law."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay, relay_passes
from tvm_disc.relay.importer.module import import_module
from tvm_disc.relay_passes import rewrite

RNG = np.random.default_rng(0)


def ops_after(module: Any, *passes: Any) -> Counter[str]:
    """Operators of ``main`` after passes, applied as a user's own pipeline."""
    imported = import_module(module)
    made = [p(imported.solver) for p in passes]
    mod = tvm.transform.Sequential(made)(imported.mod)
    names: Counter[str] = Counter()

    def look(e: Any) -> None:
        if isinstance(e, tvm.ir.Call) and isinstance(e.op, tvm.ir.Op):
            names[str(e.op.name).removeprefix("relax.")] += 1

    relax.analysis.post_order_visit(mod["main"], look)
    return names


def weight(*shape: int) -> Any:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


CASES: list[tuple[str, Any, dict[str, int]]] = []


def case(name: str, **left: int) -> Any:
    def register(make: Any) -> Any:
        CASES.append((name, make, {k.replace("__", "."): v for k, v in left.items()}))
        return make

    return register


@case("reshape(reshape(x)) -> reshape(x)", reshape=1, exp=1)
def _views() -> Any:
    x = rows("b", "s", 8)
    y = relay.reshape(relay.reshape(x, newshape=(-1, 8)), newshape=(-1, 4))
    return function(x, relay.exp(y))


@case("permute(permute(x)) -> x", exp=1)
def _permutes() -> Any:
    x = rows("b", "s", 8)
    y = relay.transpose(relay.transpose(x, axes=(0, 2, 1)), axes=(0, 2, 1))
    return function(x, relay.exp(y))


@case("permute that moves ones -> reshape", reshape=1, exp=1)
def _ones() -> Any:
    x = rows("b", 1, 8)
    return function(x, relay.exp(relay.transpose(x, axes=(1, 0, 2))))


@case("pad(x, 0) -> x", nn__pad=0, strided_slice=0, exp=1)
def _pads() -> Any:
    x = rows("b", "s", 8)
    padded = relay.nn.pad(x, pad_width=((0, 0), (0, 0), (0, 0)))
    whole = relay.strided_slice(padded, begin=[0, 0, 0], end=[2**31 - 1] * 3)
    return function(x, relay.exp(whole))


@case("pad(x, 1) stays", nn__pad=1, exp=1)
def _real_pad() -> Any:
    x = rows("b", "s", 8)
    return function(x, relay.exp(relay.nn.pad(x, pad_width=((0, 0), (1, 0), (0, 0)))))


@case("equal calls -> one call", exp=1, add=1)
def _same() -> Any:
    x = rows("b", 8)
    return function(x, relay.add(relay.exp(x), relay.exp(x)))


@case("dead calls", exp=1)
def _dead() -> Any:
    x = rows("b", 8)
    pair = relay.Tuple([relay.exp(x), relay.tanh(x)])
    return function(x, relay.TupleGetItem(pair, 0))


@case("matmuls of one operand -> one matmul", matmul=1, add=3, strided_slice=3, multiply=0)
def _merge() -> Any:
    x = rows("b", 16)
    dots = [relay.nn.bias_add(relay.nn.dense(x, weight(n, 16)), weight(n)) for n in (8, 8, 8)]
    return function(x, relay.add(relay.add(dots[0], dots[1]), dots[2]))


@case("matmuls of two operands stay", matmul=2, add=1)
def _no_merge() -> Any:
    x, y = rows("b", 16), rows("b", 16, name="y")
    left, right = relay.nn.dense(x, weight(8, 16)), relay.nn.dense(y, weight(8, 16))
    return function(x, y, relay.add(left, right))


@case("bias moves before a view", matmul=1, add=1, reshape=2)
def _bias() -> Any:
    x = rows("b", "s", 16)
    flat = relay.nn.dense(relay.reshape(x, newshape=(-1, 16)), weight(8, 16))
    y = relay.reshape(flat, newshape=(-1, 2, 8))
    return function(x, relay.add(y, weight(8)))


@case("reduce(op(broadcast_to(x))) -> broadcast_to(reduce(op(x)))", max=1, broadcast_to=1, exp=1)
def _reduced() -> Any:
    x, y = rows("b", 1, "s"), rows("b", 4, "s", name="y")
    wide = relay.broadcast_to_like(x, y)
    return function(x, y, relay.max(relay.exp(wide), axis=2))


@pytest.mark.parametrize(("name", "make", "left"), CASES, ids=[c[0] for c in CASES])
def test_law(name: str, make: Any, left: dict[str, int]) -> None:
    module = make()
    found = ops_after(module, relay_passes.Simplify, relay_passes.MergeProducts)
    assert {k: found[k] for k in left} == left, found


def test_merged_matmuls_give_the_same_numbers() -> None:
    x = rows("b", 16)
    ws, bs = [RNG.standard_normal((n, 16)).astype("float32") for n in (3, 48, 7)], []
    bs = [RNG.standard_normal(len(w)).astype("float32") for w in ws]
    outs = [
        relay.nn.bias_add(relay.nn.dense(x, relay.const(w)), relay.const(b))
        for w, b in zip(ws, bs, strict=True)
    ]
    exe = tvm_disc.build(function(x, relay.Tuple(outs)))
    assert sum("matmul" in k for k in exe.launches) == 1
    for n in (1, 2, 9, 65):
        value = RNG.standard_normal((n, 16)).astype("float32")
        for found, w, b in zip(exe(value), ws, bs, strict=True):
            np.testing.assert_allclose(found, value @ w.T + b, rtol=1e-4, atol=1e-4)


def test_families_that_feed_each_other_merge_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each family's results are the next one's operand; renaming is linear in the layers."""
    walks: list[int] = []
    again = rewrite.Sequence_.substitute

    def counted(self: Any, replaced: Any) -> None:
        walks.append(len(replaced))
        again(self, replaced)

    monkeypatch.setattr(rewrite.Sequence_, "substitute", counted)
    x = rows("b", 16)
    ws = [[RNG.standard_normal((16, 16)).astype("float32") / 4 for _ in "qk"] for _ in range(3)]
    last, outs = x, []
    for q, k in ws:
        outs.append(relay.nn.dense(last, relay.const(k)))
        last = relay.nn.dense(last, relay.const(q))
    exe = tvm_disc.build(function(x, relay.Tuple([*outs, last])))
    assert walks == [6]
    assert sum("matmul" in k for k in exe.launches) == 3
    for n in (1, 5, 64):
        last = RNG.standard_normal((n, 16)).astype("float32")
        *found, end = exe(last)
        for result, (q, k) in zip(found, ws, strict=True):
            np.testing.assert_allclose(result, last @ k.T, rtol=1e-4, atol=1e-4)
            last = last @ q.T
        np.testing.assert_allclose(end, last, rtol=1e-4, atol=1e-4)


def test_passes_stand_in_a_users_pipeline() -> None:
    x = rows("b", 16)
    module = function(x, relay.nn.softmax(relay.nn.dense(x, weight(8, 16))))
    imported = import_module(module)
    seen: list[str] = []

    @tvm.transform.module_pass(opt_level=0, name="Mine")  # type: ignore[untyped-decorator]
    def mine(mod: Any, ctx: Any) -> Any:
        seen.extend(str(gv.name_hint) for gv in mod.get_global_vars())
        return mod

    pipeline = tvm.transform.Sequential(
        [
            relay_passes.DecomposeComposite(),
            relay_passes.Simplify(imported.solver),
            mine,
            relay_passes.FuseDISC(imported.solver),
            mine,
        ]
    )
    fused = pipeline(imported.mod)
    assert seen[0] == "main" and len(seen) == 4
    kinds = {
        str(f.attrs["disc.kind"])
        for _, f in fused.functions_items()
        if f.attrs and "disc.kind" in f.attrs
    }
    assert kinds == {"dot", "row"}


def test_no_number_among_literals_stays_no_number() -> None:
    """As in kernels, and in NumPy."""
    x = rows("n", 2)
    none = relay.const(np.array([np.nan, 1], "float32"))
    two = relay.const(np.array([2, 2], "float32"))
    y = relay.multiply(relay.multiply(x, relay.maximum(none, two)), relay.minimum(none, two))
    got = tvm_disc.build(function(x, y))(np.ones((3, 2), "float32"))
    np.testing.assert_array_equal(got, np.array([[np.nan, 2]] * 3, "float32"))
