"""Operators gathered in functions, and taken apart again."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm_disc.relay.dataflow_pattern import is_op, wildcard

from tests.relay.transform.helpers import check, optimized, same
from tvm_disc import relay
from tvm_disc.errors import BadNode, TypeMismatch

CASES = {
    "fu_a": (
        [relay.transform.FuseOps(2)],
        "def @main(%x: Tensor[(2), float32]) { exp(add(%x, 1f)) }",
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%p0: Tensor[(2), float32], "
            "Primitive=1) -> Tensor[(2), float32] { %0 = add(%p0, 1f); exp(%0) }; %1(%x) "
            "}"
        ),
    ),
    "f0_a": (
        [relay.transform.FuseOps(0)],
        "def @main(%x: Tensor[(2), float32]) { exp(add(%x, 1f)) }",
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = fn (%p01: Tensor[(2), float32], "
            "Primitive=1) -> Tensor[(2), float32] { exp(%p01) }; %1 = fn (%p0: "
            "Tensor[(2), float32], %p1: float32, Primitive=1) -> Tensor[(2), float32] { "
            "add(%p0, %p1) }; %2 = %1(%x, 1f); %0(%2) }"
        ),
    ),
    "df_a": (
        [relay.transform.FuseOps(2), relay.transform.InferType(), relay.transform.DefuseOps()],
        "def @main(%x: Tensor[(2), float32]) { exp(add(%x, 1f)) }",
        "def @main(%x: Tensor[(2), float32]) { %0 = add(%x, 1f); exp(%0) }",
    ),
    "fu_b": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %b: Tensor[(4,1,1), float32]) { nn.relu(add(nn.conv2d(%x, %w, "
            "padding=[1,1,1,1]), %b)) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %b: Tensor[(4, 1, 1), float32]) { %2 = fn (%p0: Tensor[(1, 4, 8, "
            "8), float32], %p1: Tensor[(4, 4, 3, 3), float32], %p2: Tensor[(4, 1, 1), "
            "float32], Primitive=1) -> Tensor[(1, 4, 8, 8), float32] { %0 = "
            "nn.conv2d(%p0, %p1, padding=[1, 1, 1, 1]); %1 = add(%0, %p2); nn.relu(%1) "
            "}; %2(%x, %w, %b) }"
        ),
    ),
    "df_b": (
        [relay.transform.FuseOps(2), relay.transform.InferType(), relay.transform.DefuseOps()],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %b: Tensor[(4,1,1), float32]) { nn.relu(add(nn.conv2d(%x, %w, "
            "padding=[1,1,1,1]), %b)) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %b: Tensor[(4, 1, 1), float32]) { %0 = nn.conv2d(%x, %w, "
            "padding=[1, 1, 1, 1]); %1 = add(%0, %b); nn.relu(%1) }"
        ),
    ),
    "fu_c": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.conv2d(%x, %w, padding=[1,1,1,1]); %1 = nn.relu(%0); "
            "add(%1, %x) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %2 = fn (%p0: Tensor[(1, 4, 8, 8), float32], %p1: Tensor[(4, 4, "
            "3, 3), float32], Primitive=1) -> Tensor[(1, 4, 8, 8), float32] { %0 = "
            "nn.conv2d(%p0, %p1, padding=[1, 1, 1, 1]); %1 = nn.relu(%0); add(%1, %p0) "
            "}; %2(%x, %w) }"
        ),
    ),
    "fu_d": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = sum(%0, "
            "axis=[1]); exp(%1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p01: Tensor[(4), "
            "float32], Primitive=1) -> Tensor[(4), float32] { exp(%p01) }; %2 = fn (%p0: "
            "Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4), float32] { %1 = "
            "exp(%p0); sum(%1, axis=[1]) }; %3 = %2(%x); %0(%3) }"
        ),
    ),
    "fu_e": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = transpose(%0, "
            "axes=[1, 0]); tanh(%1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %2 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(8, 4), float32] { %0 = exp(%p0); %1 = "
            "transpose(%0, axes=[1, 0]); tanh(%1) }; %2(%x) }"
        ),
    ),
    "fu_f": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = tanh(%0); %2 = "
            "sqrt(%0); add(%1, %2) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %3 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { %0 = exp(%p0); %1 = "
            "tanh(%0); %2 = sqrt(%0); add(%1, %2) }; %3(%x) }"
        ),
    ),
    "f0_f": (
        [relay.transform.FuseOps(0)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = tanh(%0); %2 = "
            "sqrt(%0); add(%1, %2) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p03: Tensor[(4, 8), "
            "float32], %p1: Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, 8), "
            "float32] { add(%p03, %p1) }; %1 = fn (%p02: Tensor[(4, 8), float32], "
            "Primitive=1) -> Tensor[(4, 8), float32] { tanh(%p02) }; %2 = fn (%p01: "
            "Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, 8), float32] { "
            "exp(%p01) }; %3 = %2(%x); %4 = %1(%3); %5 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { sqrt(%p0) }; %6 = "
            "%5(%3); %0(%4, %6) }"
        ),
    ),
    "fu_g": (
        [relay.transform.FuseOps(2)],
        "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); (%0, tanh(%0)) }",
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p01: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { exp(%p01) }; %1 = "
            "%0(%x); %2 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, "
            "8), float32] { tanh(%p0) }; %3 = %2(%1); (%1, %3) }"
        ),
    ),
    "f0_g": (
        [relay.transform.FuseOps(0)],
        "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); (%0, tanh(%0)) }",
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p01: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { exp(%p01) }; %1 = "
            "%0(%x); %2 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, "
            "8), float32] { tanh(%p0) }; %3 = %2(%1); (%1, %3) }"
        ),
    ),
    "fu_h": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = tanh(%x); %2 = "
            "(%0, %1); %3 = concatenate(%2, axis=1); nn.relu(%3) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %4 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 16), float32] { %0 = exp(%p0); %1 = "
            "tanh(%p0); %2 = (%0, %1); %3 = concatenate(%2, axis=1); nn.relu(%3) }; "
            "%4(%x) }"
        ),
    ),
    "df_h": (
        [relay.transform.FuseOps(2), relay.transform.InferType(), relay.transform.DefuseOps()],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = tanh(%x); %2 = "
            "(%0, %1); %3 = concatenate(%2, axis=1); nn.relu(%3) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = tanh(%x); %2 = "
            "(%0, %1); %3 = concatenate(%2, axis=1); nn.relu(%3) }"
        ),
    ),
    "fu_i": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = split(%x, "
            "indices_or_sections=2, axis=1); add(exp(%0.0), %0.1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %4 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 4), float32] { %0 = split(%p0, "
            "indices_or_sections=2, axis=1); %1 = %0.0; %2 = exp(%1); %3 = %0.1; add(%2, "
            "%3) }; %4(%x) }"
        ),
    ),
    "df_i": (
        [relay.transform.FuseOps(2), relay.transform.InferType(), relay.transform.DefuseOps()],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = split(%x, "
            "indices_or_sections=2, axis=1); add(exp(%0.0), %0.1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = split(%x, "
            "indices_or_sections=2, axis=1); %1 = %0.0; %2 = exp(%1); %3 = %0.1; add(%2, "
            "%3) }"
        ),
    ),
    "fu_j": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = nn.dense(%0, exp(%0), units=None); "
            "nn.relu(%1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %1 = "
            "fn (%p02: Tensor[(4, 4), float32], %p11: Tensor[(4, 4), float32], "
            "Primitive=1) -> Tensor[(4, 4), float32] { %0 = nn.dense(%p02, %p11, "
            "units=None); nn.relu(%0) }; %2 = fn (%p01: Tensor[(4, 8), float32], %p1: "
            "Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, 4), float32] { "
            "nn.dense(%p01, %p1, units=None) }; %3 = %2(%x, %w); %4 = fn (%p0: "
            "Tensor[(4, 4), float32], Primitive=1) -> Tensor[(4, 4), float32] { exp(%p0) "
            "}; %5 = %4(%3); %1(%3, %5) }"
        ),
    ),
    "fu_k": (
        [relay.transform.FuseOps(2)],
        "def @main(%x: Tensor[(4, 8), float32]) { nn.softmax(exp(%x)) }",
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p01: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { nn.softmax(%p01) }; %1 "
            "= fn (%p0: Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, 8), float32] "
            "{ exp(%p0) }; %2 = %1(%x); %0(%2) }"
        ),
    ),
    "fu_l": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %0 = nn.max_pool2d(%x, "
            "pool_size=[2, 2], strides=[2,2]); nn.relu(%0) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32]) { %1 = fn (%p0: Tensor[(1, 4, "
            "8, 8), float32], Primitive=1) -> Tensor[(1, 4, 4, 4), float32] { %0 = "
            "nn.max_pool2d(%p0, pool_size=[2, 2], strides=[2, 2]); nn.relu(%0) }; %1(%x) "
            "}"
        ),
    ),
    "fu_m": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32], %c: bool) { %0 = exp(%x); if (%c) { "
            "tanh(%0) } else { exp(exp(%x)) } }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %c: bool) { if (%c) { %1 = fn (%p01: "
            "Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, 8), float32] { %0 = "
            "exp(%p01); tanh(%0) }; %1(%x) } else { %3 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { %2 = exp(%p0); exp(%2) "
            "}; %3(%x) } }"
        ),
    ),
    "fu_n": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { let %a = exp(%x); let %b = "
            "tanh(%a); add(%b, 1f) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p02: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { exp(%p02) }; let %a = "
            "%0(%x); %1 = fn (%p01: Tensor[(4, 8), float32], Primitive=1) -> Tensor[(4, "
            "8), float32] { tanh(%p01) }; let %b = %1(%a); %2 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { add(%p0, 1f) }; %2(%b) }"
        ),
    ),
    "fu_o": (
        [relay.transform.FuseOps(2)],
        "def @main(%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = (%0, %x); %1 }",
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p0: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), float32] { exp(%p0) }; %1 = "
            "%0(%x); (%1, %x) }"
        ),
    ),
    "fu_p": (
        [relay.transform.FuseOps(2)],
        (
            'def @main(%x: Tensor[(?, 8), float32]) { %0 = shape_of(%x, dtype="int64"); '
            "%1 = exp(%x); dyn.reshape(%1, %0, newshape=[]) }"
        ),
        (
            "def @main(%x: Tensor[(?, 8), float32]) { %0 = fn (%p02: Tensor[(?, 8), "
            "float32], %p1: Tensor[(2), int64], Primitive=1, relay.reshape_only=1) -> "
            "Tensor[(?, 8), float32] { dyn.reshape(%p02, %p1, newshape=[]) }; %1 = fn "
            "(%p01: Tensor[(?, 8), float32], Primitive=1) -> Tensor[(?, 8), float32] { "
            "exp(%p01) }; %2 = %1(%x); %3 = fn (%p0: Tensor[(?, 8), float32], "
            'Primitive=1) -> Tensor[(2), int64] { shape_of(%p0, dtype="int64") }; %4 = '
            "%3(%x); %0(%2, %4) }"
        ),
    ),
    "fu_q": (
        [relay.transform.FuseOps(2)],
        'def @main(%x: Tensor[(4, 8), float32]) { argsort(exp(%x), dtype="int32") }',
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = fn (%p01: Tensor[(4, 8), "
            "float32], Primitive=1) -> Tensor[(4, 8), int32] { argsort(%p01, "
            'dtype="int32") }; %1 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) -> '
            "Tensor[(4, 8), float32] { exp(%p0) }; %2 = %1(%x); %0(%2) }"
        ),
    ),
    "fu_r": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %0 = max(%x, axis=[1], "
            "keepdims=True); %1 = subtract(%x, %0); exp(%1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32]) { %1 = fn (%p01: Tensor[(4, 8), "
            "float32], %p1: Tensor[(4, 1), float32], Primitive=1) -> Tensor[(4, 8), "
            "float32] { %0 = subtract(%p01, %p1); exp(%0) }; %2 = fn (%p0: Tensor[(4, "
            "8), float32], Primitive=1) -> Tensor[(4, 1), float32] { max(%p0, axis=[1], "
            "keepdims=True) }; %3 = %2(%x); %1(%x, %3) }"
        ),
    ),
    "fu_s": (
        [relay.transform.FuseOps(2)],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %0 = nn.conv2d(%x, %w, padding=[1,1,1,1]); %1 = add(%0, 1f); %2 "
            "= nn.conv2d(%1, %w, padding=[1,1,1,1]); %3 = nn.conv2d(%1, %w, "
            "padding=[1,1,1,1], groups=1); add(add(%1, %2), %3) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32]) { %2 = fn (%p02: Tensor[(1, 4, 8, 8), float32], %p12: Tensor[(4, "
            "4, 3, 3), float32], %p2: Tensor[(1, 4, 8, 8), float32], Primitive=1) -> "
            "Tensor[(1, 4, 8, 8), float32] { %0 = nn.conv2d(%p02, %p12, padding=[1, 1, "
            "1, 1]); %1 = add(%p02, %0); add(%1, %p2) }; %4 = fn (%p01: Tensor[(1, 4, 8, "
            "8), float32], %p11: Tensor[(4, 4, 3, 3), float32], Primitive=1) -> "
            "Tensor[(1, 4, 8, 8), float32] { %3 = nn.conv2d(%p01, %p11, padding=[1, 1, "
            "1, 1]); add(%3, 1f) }; %5 = %4(%x, %w); %6 = fn (%p0: Tensor[(1, 4, 8, 8), "
            "float32], %p1: Tensor[(4, 4, 3, 3), float32], Primitive=1) -> Tensor[(1, 4, "
            "8, 8), float32] { nn.conv2d(%p0, %p1, padding=[1, 1, 1, 1]) }; %7 = %6(%5, "
            "%w); %2(%5, %w, %7) }"
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)


X = relay.var("x", shape=(2, 3))
TABLE = [
    ("mine.sum_relu", is_op("nn.relu")(wildcard() + wildcard())),
    ("mine.sum", wildcard() + wildcard(), lambda call: call.args[0] is X),
]


def test_composites_are_named_in_order_of_priority() -> None:
    body = relay.Tuple([relay.nn.relu(relay.add(X, X)), relay.add(relay.exp(X), X)])
    mod = relay.IRModule.from_expr(relay.Function([X], body))
    made = optimized(mod, relay.transform.MergeComposite(TABLE))["main"].body
    assert made[0].op.attrs["Composite"] == "mine.sum_relu"
    assert made[1].op.name == "add"  # its check says no


@pytest.mark.parametrize("entry", [("name",), (3, wildcard()), ("name", 3), ()])
def test_a_table_without_patterns_is_refused(entry: Any) -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], X))
    with pytest.raises(BadNode, match=r"MergeComposite: expected a table of \(name, pattern\)"):
        optimized(mod, relay.transform.MergeComposite([entry]))


def test_the_level_is_that_of_the_context() -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], relay.exp(relay.tanh(X))))
    for level, count in ((0, 2), (3, 1)):
        with relay.transform.PassContext(opt_level=level):
            made = relay.transform.FuseOps()(mod)
        groups = [n for n in relay.post_order(made["main"].body) if isinstance(n, relay.Function)]
        assert len(groups) == count


def test_a_long_chain_is_cut() -> None:
    body: relay.Expr = X
    for _ in range(600):
        body = relay.exp(body)
    mod = relay.IRModule.from_expr(relay.Function([X], body))
    made = optimized(mod, relay.transform.FuseOps(2))
    groups = [n for n in relay.post_order(made["main"].body) if isinstance(n, relay.Function)]
    assert len(groups) == 3
    assert same(optimized(made, relay.transform.DefuseOps()), mod)


def groups(mod: Any, level: int = 2, **config: Any) -> list[int]:
    """Number of operators in each function of a module that was fused."""
    config = {f"relay.FuseOps.{key}": value for key, value in config.items()}
    with tvm.transform.PassContext(opt_level=level, config=config):
        made = relay.transform.FuseOps()(mod)
    assert relay.free_vars(made["main"]) == []
    return [
        sum(relay.testing.count_ops(f.body).values())
        for f in relay.post_order(made["main"])
        if isinstance(f, relay.Function) and f.attrs.get("Primitive")
    ]


def chain(length: int) -> relay.IRModule:
    x = y = relay.var("x", shape=(4,))
    for _ in range(length):
        y = relay.exp(y)
    return relay.IRModule.from_expr(relay.Function([x], y))


@pytest.mark.parametrize(
    ("length", "most", "sizes"),
    [(5, 10, [5]), (10, 10, [10]), (12, 10, [10, 2]), (5, 1, [1] * 5), (300, 256, [256, 44])],
)
def test_the_largest_group_is_that_of_the_context(length: int, most: int, sizes: Any) -> None:
    assert sorted(groups(chain(length), max_depth=most), reverse=True) == sizes


@pytest.mark.parametrize("linked", [True, False])
def test_constants_are_inside_of_a_group_if_parameters_are_linked(linked: bool) -> None:
    x = relay.var("x", shape=(4, 3))
    func = relay.Function([x], relay.take(relay.exp(x), relay.const([2, 0]), axis=0))
    with tvm.transform.PassContext(config={"relay.FuseOps.link_params": linked}):
        made = relay.transform.FuseOps(2)(relay.IRModule.from_expr(func))
    call = made["main"].body
    assert len(call.args) == len(call.op.params) == (1 if linked else 2)


def test_stop_fusion_ends_a_group() -> None:
    x = relay.var("x", shape=(4,))
    stopped = relay.annotation.stop_fusion(relay.exp(x))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.tanh(stopped)))
    assert groups(mod) == [1, 1]
    assert "stop_fusion" not in str(relay.transform.FuseOps(2)(mod))


def test_a_group_may_end_in_one_result_of_an_operator() -> None:
    x, w = relay.var("x", shape=(2, 9)), relay.var("w", shape=(3, 3))
    part = relay.split(x, 3, axis=1)[0]
    mod = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(part, w)))
    made = relay.transform.FuseOps(2)(mod)["main"].body
    assert isinstance(made.args[0].op, relay.Function)
    assert made.args[0].checked_type == relay.TensorType((2, 3))


def test_types_are_inferred_before_operators_are_grouped() -> None:
    x, w = relay.var("x", shape=(1, 2, 4, 4)), relay.var("w")
    y = relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1), channels=2)
    mod = relay.IRModule.from_expr(relay.Function([x, w], relay.add(y, relay.add(y, y))))
    assert groups(mod) == [3]
    with pytest.raises(TypeMismatch, match="conv2d"):
        groups(relay.IRModule.from_expr(relay.Function([w], relay.nn.conv2d(w, w))))
