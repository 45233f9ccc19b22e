"""Common and dead work, functions of the module, single operators, known shapes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check
from tvm_disc import relay

CASES = {
    "e1": (
        [relay.transform.EliminateCommonSubexpr()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = exp(%x); %2 = "
            "add(%0, 1f); %3 = add(%1, 1f); add(%2, %3) }"
        ),
        ("def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = add(%0, 1f); add(%1, %1) }"),
    ),
    "e2": (
        [relay.transform.EliminateCommonSubexpr()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = split(%x, "
            "indices_or_sections=2); add(%0.0, %0.0) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = split(%x, "
            "indices_or_sections=2); %1 = %0.0; add(%1, %1) }"
        ),
    ),
    "e3": (
        [relay.transform.EliminateCommonSubexpr()],
        (
            'def @main(%x: Tensor[(2), float32]) { %0 = cast(%x, dtype="int32"); %1 = '
            'cast(%x, dtype="int64"); (%0, %1) }'
        ),
        (
            'def @main(%x: Tensor[(2), float32]) { %0 = cast(%x, dtype="int32"); %1 = '
            'cast(%x, dtype="int64"); (%0, %1) }'
        ),
    ),
    "d1": (
        [relay.transform.DeadCodeElimination()],
        "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = exp(%a); %x }",
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d1o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = exp(%a); %x }",
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d1i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = exp(%a); %x }",
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d2": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = add(%a, "
            "%a); add(%b, %x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = add(%a, "
            "%a); add(%b, %x) }"
        ),
    ),
    "d2o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = add(%a, "
            "%a); add(%b, %x) }"
        ),
        ("def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); %0 = add(%a, %a); add(%0, %x) }"),
    ),
    "d2i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = add(%a, "
            "%a); add(%b, %x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %b = add(%a, "
            "%a); add(%b, %x) }"
        ),
    ),
    "d3": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); let %u = "
            "ref_write(%r, exp(%x)); let %v = ref_read(%r); %x }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); %0 = exp(%x); let "
            "%u = ref_write(%r, %0); let %v = ref_read(%r); %x }"
        ),
    ),
    "d3o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); let %u = "
            "ref_write(%r, exp(%x)); let %v = ref_read(%r); %x }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); %0 = exp(%x); let "
            "%u = ref_write(%r, %0); let %v = ref_read(%r); %x }"
        ),
    ),
    "d3i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %r = ref(%x); let %u = "
            "ref_write(%r, exp(%x)); let %v = ref_read(%r); %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d4": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; let %g = %f(%x); %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d4o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; let %g = %f(%x); %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d4i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; let %g = %f(%x); %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d5": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { let %g = %f(%x); %x }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { let %g = %f(%x); %x }"
        ),
    ),
    "d5o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { let %g = %f(%x); %x }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { let %g = %f(%x); %x }"
        ),
    ),
    "d5i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { let %g = %f(%x); %x }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %f: fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32]) { %x }"
        ),
    ),
    "d6": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(%y) }; %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d6o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(%y) }; %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d6i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) -> Tensor[(2), float32] { %f(%y) }; %x }"
        ),
        "def @main(%x: Tensor[(2), float32]) { %x }",
    ),
    "d7": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; %f(%x) }"
        ),
    ),
    "d7o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = fn (%y: Tensor[(2), float32]) { "
            "exp(%y) }; %0(%x) }"
        ),
    ),
    "d7i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; %f(%x) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %f = fn (%y: Tensor[(2), "
            "float32]) { exp(%y) }; %f(%x) }"
        ),
    ),
    "d8": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; add(%f(%x), %f(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; %0 = %f(%x); %1 = %f(%x); add(%0, "
            "%1) }"
        ),
    ),
    "d8o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; add(%f(%x), %f(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; %0 = %f(%x); %1 = %f(%x); add(%0, "
            "%1) }"
        ),
    ),
    "d8i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; add(%f(%x), %f(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = exp(%x); let %f = fn (%y: "
            "Tensor[(2), float32]) { add(%y, %a) }; %0 = %f(%x); %1 = %f(%x); add(%0, "
            "%1) }"
        ),
    ),
    "d9": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = exp(%x); if (%c) { "
            "%a } else { %x } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = exp(%x); if (%c) { "
            "%a } else { %x } }"
        ),
    ),
    "d9o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = exp(%x); if (%c) { "
            "%a } else { %x } }"
        ),
        ("def @main(%x: Tensor[(2), float32], %c: bool) { if (%c) { exp(%x) } else { %x } }"),
    ),
    "d9i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = exp(%x); if (%c) { "
            "%a } else { %x } }"
        ),
        (
            "def @main(%x: Tensor[(2), float32], %c: bool) { let %a = exp(%x); if (%c) { "
            "%a } else { %x } }"
        ),
    ),
    "d10": (
        [relay.transform.DeadCodeElimination()],
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { let %a = @f(%x); "
            "%x }"
        ),
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x1: Tensor[(2), float32]) -> Tensor[(2), float32] { %x1 }"
        ),
    ),
    "d10o": (
        [relay.transform.DeadCodeElimination(inline_once=True)],
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { let %a = @f(%x); "
            "%x }"
        ),
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x1: Tensor[(2), float32]) -> Tensor[(2), float32] { %x1 }"
        ),
    ),
    "d10i": (
        [relay.transform.DeadCodeElimination(ignore_impurity=True)],
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { let %a = @f(%x); "
            "%x }"
        ),
        (
            "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) } def "
            "@main(%x1: Tensor[(2), float32]) -> Tensor[(2), float32] { %x1 }"
        ),
    ),
    "i1": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { "
            "exp(%y) } def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { "
            "add(@g(%x), @g(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %0 = exp(%x); "
            "%1 = exp(%x); add(%0, %1) }"
        ),
    ),
    "i2": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { "
            "exp(%y) } def @h(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), "
            "float32] { @g(%y) } def @main(%x: Tensor[(2), float32]) -> Tensor[(2), "
            "float32] { @h(%x) } def @k(%x: Tensor[(2), float32]) -> Tensor[(2), "
            "float32] { @h(exp(%x)) }"
        ),
        (
            "def @k(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %0 = exp(%x); "
            "exp(%0) } def @main(%x1: Tensor[(2), float32]) -> Tensor[(2), float32] { "
            "exp(%x1) }"
        ),
    ),
    "i3": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { @g(%y) "
            "} def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { @g(%y) "
            "} def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
    ),
    "i4": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
    ),
    "i5": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { let %z "
            "= exp(%y); %z } def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] "
            "{ let %a = @g(%x); @g(%a) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { let %a = ( "
            "let %z = exp(%x); %z ); let %z1 = exp(%a); %z1 }"
        ),
    ),
    "i6": (
        [relay.transform.Inline()],
        (
            "def @g(%y: Tensor[(2), float32], Inline=1) -> Tensor[(2), float32] { "
            "exp(%y) } def @main(%x: Tensor[(2), float32]) -> fn (Tensor[(2), float32]) "
            "-> Tensor[(2), float32] { @g }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) -> fn (Tensor[(2), float32]) "
            "-> Tensor[(2), float32] { fn (%y: Tensor[(2), float32], Inline=1) { exp(%y) } }"
        ),
    ),
    "i7": (
        [relay.transform.Inline()],
        (
            'def @g(%y: Tensor[(2), float32], Inline=1, Compiler="a") { exp(%y) } '
            "def @main(%x: Tensor[(2), float32]) { @g(@g(%x)) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { "
            '%0 = fn (%y: Tensor[(2), float32], Inline=1, Compiler="a") { exp(%y) }; '
            "%1 = %0(%x); "
            '%2 = fn (%y: Tensor[(2), float32], Inline=1, Compiler="a") { exp(%y) }; '
            "%2(%1) }"
        ),
    ),
    "i8": (
        [relay.transform.Inline()],
        (
            "def @g(Inline=1) { 1f } def @h(Inline=1) { 2f } "
            "def @main(%p: bool) { %0 = if (%p) { @g } else { @h }; %0() }"
        ),
        (
            "def @main(%p: bool) { %0 = if (%p) { fn (Inline=1) { 1f } } "
            "else { fn (Inline=1) { 2f } }; %0() }"
        ),
    ),
    "r1": (
        [relay.transform.RemoveUnusedFunctions()],
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %x } def @h(%x: "
            "Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
        "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %x }",
    ),
    "r2": (
        [relay.transform.RemoveUnusedFunctions(["h"])],
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %x } def @h(%x: "
            "Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@h(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%x) }"
        ),
    ),
    "eta1": (
        [relay.transform.EtaExpand(expand_global_var=True)],
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> (fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32], Tensor[(2), float32]) { (@g, @g(%x)) }"
        ),
        (
            "def @g(%y: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%y) } def "
            "@main(%x: Tensor[(2), float32]) -> (fn (Tensor[(2), float32]) -> "
            "Tensor[(2), float32], Tensor[(2), float32]) { %0 = fn (%eta_expand_param_0: "
            "Tensor[(2), float32]) -> Tensor[(2), float32] { @g(%eta_expand_param_0) }; "
            "%1 = %0(%x); (%0, %1) }"
        ),
    ),
    "eta2": (
        [relay.transform.EtaExpand(expand_constructor=True)],
        (
            "type List[A] { Cons(A, List[A]), Nil } def @main[A]() -> fn (A, List[A]) -> "
            "List[A] { Cons }"
        ),
        (
            "type List[A] { Cons(A, List[A]), Nil, } def @main[A]() -> fn (A, List[A]) "
            "-> List[A] { fn [A](%eta_expand_param_0: A, %eta_expand_param_1: List[A]) "
            "-> List[A] { Cons(%eta_expand_param_0, %eta_expand_param_1) } }"
        ),
    ),
    "fm": (
        [relay.transform.FastMath()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = exp(%x); %1 = tanh(%0); %2 = "
            "erf(%1); nn.softmax(%2, axis=0) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = fast_exp(%x); %1 = "
            "fast_tanh(%0); %2 = fast_erf(%1); nn.fast_softmax(%2, axis=0) }"
        ),
    ),
    "co": (
        [relay.transform.CanonicalizeOps()],
        (
            "def @main(%x: Tensor[(1,4,3,3), float32], %b: Tensor[(4), float32], %c: "
            "Tensor[(3), float32]) { %0 = nn.bias_add(%x, %b); nn.bias_add(%0, %c, "
            "axis=-1) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 3, 3), float32], %b: Tensor[(4), float32], %c: "
            "Tensor[(3), float32]) { %0 = expand_dims(%b, axis=1, num_newaxis=2); %1 = "
            "add(%x, %0); add(%1, %c) }"
        ),
    ),
    "s1": (
        [relay.transform.DynamicToStatic()],
        (
            "def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(3, 2), float32]) { %0 = "
            "shape_of(%y); dyn.reshape(%x, %0, newshape=[]) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(3, 2), float32]) { "
            "reshape(%x, newshape=[3, 2]) }"
        ),
    ),
    "s7": (
        [relay.transform.DynamicToStatic()],
        (
            "def @main(%x: Tensor[(2), int32]) { dyn.one_hot(%x, 1, 0, 3, axis=-1, "
            'dtype="float32") }'
        ),
        ('def @main(%x: Tensor[(2), int32]) { one_hot(%x, 1, 0, depth=3, dtype="float32") }'),
    ),
    "s9": (
        [relay.transform.DynamicToStatic()],
        "def @main(%x: Tensor[(2, 3), float32]) { dyn.expand_dims(%x, 1) }",
        "def @main(%x: Tensor[(2, 3), float32]) { expand_dims(%x, axis=1) }",
    ),
    "s10": (
        [relay.transform.DynamicToStatic()],
        (
            "def @main(%x: Tensor[(?, 3), float32]) { %0 = shape_of(%x); dyn.reshape(%x, "
            "%0, newshape=[]) }"
        ),
        (
            "def @main(%x: Tensor[(?, 3), float32]) { %0 = shape_of(%x); dyn.reshape(%x, "
            "%0, newshape=[]) }"
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)
