"""What is known when a model is used: norms of known moments, constants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check
from tvm_disc import relay

CASES = {
    "bn": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v); %0.0 }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = add(%v, 1e-05f); %1 = sqrt(%0); %2 = divide(1f, %1); %3 = multiply(%2, "
            "%g); %4 = expand_dims(%3, axis=1, num_newaxis=2); %5 = multiply(%x, %4); %6 "
            "= negative(%m); %7 = multiply(%6, %3); %8 = add(%7, %b); %9 = "
            "expand_dims(%8, axis=1, num_newaxis=2); add(%5, %9) }"
        ),
    ),
    "ln": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.layer_norm(%x, %g, %b, axis=1) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = mean(%x, axis=[1], keepdims=True); %1 = "
            "subtract(%x, %0); %2 = variance(%x, %0, axis=[1], keepdims=True); %3 = "
            "add(%2, 1e-05f); %4 = sqrt(%3); %5 = divide(%1, %4); %6 = expand_dims(%g, "
            "axis=1, num_newaxis=2); %7 = multiply(%5, %6); %8 = expand_dims(%b, axis=1, "
            "num_newaxis=2); add(%7, %8) }"
        ),
    ),
    "in": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.instance_norm(%x, %g, %b) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = mean(%x, axis=[2, 3], keepdims=True); %1 = "
            "subtract(%x, %0); %2 = variance(%x, %0, axis=[2, 3], keepdims=True); %3 = "
            "add(%2, 1e-05f); %4 = sqrt(%3); %5 = divide(%1, %4); %6 = expand_dims(%g, "
            "axis=1, num_newaxis=2); %7 = multiply(%5, %6); %8 = expand_dims(%b, axis=1, "
            "num_newaxis=2); add(%7, %8) }"
        ),
    ),
    "gn": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.group_norm(%x, %g, %b, num_groups=2) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = reshape(%x, newshape=[1, 2, 2, 6, 6]); %1 = "
            "mean(%0, axis=[2, 3, 4], keepdims=True); %2 = subtract(%0, %1); %3 = "
            "variance(%0, %1, axis=[2, 3, 4], keepdims=True); %4 = add(%3, 1e-05f); %5 = "
            "sqrt(%4); %6 = divide(%2, %5); %7 = reshape(%6, newshape=[1, 4, 6, 6]); %8 "
            "= expand_dims(%g, axis=1, num_newaxis=2); %9 = multiply(%7, %8); %10 = "
            "expand_dims(%b, axis=1, num_newaxis=2); add(%9, %10) }"
        ),
    ),
    "bn, scale=False": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v, scale=False); %0.0 }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = add(%v, 1e-05f); %1 = sqrt(%0); %2 = divide(1f, %1); %3 = "
            "expand_dims(%2, axis=1, num_newaxis=2); %4 = multiply(%x, %3); %5 = "
            "negative(%m); %6 = multiply(%5, %2); %7 = add(%6, %b); %8 = expand_dims(%7, "
            "axis=1, num_newaxis=2); add(%4, %8) }"
        ),
    ),
    "ln, scale=False": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.layer_norm(%x, %g, %b, axis=1, scale=False) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = mean(%x, axis=[1], keepdims=True); %1 = "
            "subtract(%x, %0); %2 = variance(%x, %0, axis=[1], keepdims=True); %3 = "
            "add(%2, 1e-05f); %4 = sqrt(%3); %5 = divide(%1, %4); %6 = expand_dims(%b, "
            "axis=1, num_newaxis=2); add(%5, %6) }"
        ),
    ),
    "in, scale=False": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.instance_norm(%x, %g, %b, scale=False) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = mean(%x, axis=[2, 3], keepdims=True); %1 = "
            "subtract(%x, %0); %2 = variance(%x, %0, axis=[2, 3], keepdims=True); %3 = "
            "add(%2, 1e-05f); %4 = sqrt(%3); %5 = divide(%1, %4); %6 = expand_dims(%b, "
            "axis=1, num_newaxis=2); add(%5, %6) }"
        ),
    ),
    "gn, scale=False": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { nn.group_norm(%x, %g, %b, num_groups=2, "
            "scale=False) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32]) { %0 = reshape(%x, newshape=[1, 2, 2, 6, 6]); %1 = "
            "mean(%0, axis=[2, 3, 4], keepdims=True); %2 = subtract(%0, %1); %3 = "
            "variance(%0, %1, axis=[2, 3, 4], keepdims=True); %4 = add(%3, 1e-05f); %5 = "
            "sqrt(%4); %6 = divide(%2, %5); %7 = reshape(%6, newshape=[1, 4, 6, 6]); %8 "
            "= expand_dims(%b, axis=1, num_newaxis=2); add(%7, %8) }"
        ),
    ),
    "bn, center=False": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v, center=False); %0.0 }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = add(%v, 1e-05f); %1 = sqrt(%0); %2 = divide(1f, %1); %3 = multiply(%2, "
            "%g); %4 = expand_dims(%3, axis=1, num_newaxis=2); %5 = multiply(%x, %4); %6 "
            "= negative(%m); %7 = multiply(%6, %3); %8 = expand_dims(%7, axis=1, "
            "num_newaxis=2); add(%5, %8) }"
        ),
    ),
    "bn, axis=3, epsilon=0.1f": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(6), float32], %b: "
            "Tensor[(6), float32], %m: Tensor[(6), float32], %v: Tensor[(6), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v, axis=3, epsilon=0.1f); %0.0 }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(6), float32], %b: "
            "Tensor[(6), float32], %m: Tensor[(6), float32], %v: Tensor[(6), float32]) { "
            "%0 = add(%v, 0.1f); %1 = sqrt(%0); %2 = divide(1f, %1); %3 = multiply(%2, "
            "%g); %4 = multiply(%x, %3); %5 = negative(%m); %6 = multiply(%5, %3); %7 = "
            "add(%6, %b); add(%4, %7) }"
        ),
    ),
    "ln, axis=3, epsilon=0.1f": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(6), float32], %b: "
            "Tensor[(6), float32]) { nn.layer_norm(%x, %g, %b, axis=3, epsilon=0.1f) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(6), float32], %b: "
            "Tensor[(6), float32]) { %0 = mean(%x, axis=[3], keepdims=True); %1 = "
            "subtract(%x, %0); %2 = variance(%x, %0, axis=[3], keepdims=True); %3 = "
            "add(%2, 0.1f); %4 = sqrt(%3); %5 = divide(%1, %4); %6 = multiply(%5, %g); "
            "add(%6, %b) }"
        ),
    ),
    "l2": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32]) { nn.l2_normalize(%x, "
            "eps=0.1f, axis=[1]) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32]) { %0 = multiply(%x, %x); %1 = "
            "sum(%0, axis=[1], keepdims=True); %2 = maximum(%1, 0.1f); %3 = sqrt(%2); "
            "divide(%x, %3) }"
        ),
    ),
    "drop": (
        [relay.transform.SimplifyInference()],
        ("def @main(%x: Tensor[(1, 4, 6, 6), float32]) { %0 = nn.dropout(%x); nn.relu(%0.0) }"),
        "def @main(%x: Tensor[(1, 4, 6, 6), float32]) { nn.relu(%x) }",
    ),
    "bn1": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v); %0.1 }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 6, 6), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v); %0.1 }"
        ),
    ),
    "bnany": (
        [relay.transform.SimplifyInference()],
        (
            "def @main(%x: Tensor[(?, 4, ?, ?), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = nn.batch_norm(%x, %g, %b, %m, %v); %0.0 }"
        ),
        (
            "def @main(%x: Tensor[(?, 4, ?, ?), float32], %g: Tensor[(4), float32], %b: "
            "Tensor[(4), float32], %m: Tensor[(4), float32], %v: Tensor[(4), float32]) { "
            "%0 = add(%v, 1e-05f); %1 = sqrt(%0); %2 = divide(1f, %1); %3 = multiply(%2, "
            "%g); %4 = expand_dims(%3, axis=1, num_newaxis=2); %5 = multiply(%x, %4); %6 "
            "= negative(%m); %7 = multiply(%6, %3); %8 = add(%7, %b); %9 = "
            "expand_dims(%8, axis=1, num_newaxis=2); add(%5, %9) }"
        ),
    ),
    "f1": (
        [relay.transform.FoldConstant()],
        "def @main(%x: Tensor[(2), float32]) { %0 = add(1f, 2f); multiply(%x, %0) }",
        "def @main(%x: Tensor[(2), float32]) { multiply(%x, 3f) }",
    ),
    "f2": (
        [relay.transform.FoldConstant()],
        (
            "def @main(%x: Tensor[(2), float32]) { let %a = 1f; let %b = add(%a, %a); "
            "let %c = multiply(%b, %b); add(%x, %c) }"
        ),
        "def @main(%x: Tensor[(2), float32]) { add(%x, 4f) }",
    ),
    "f4": (
        [relay.transform.FoldConstant()],
        "def @main(%x: Tensor[(2), float32]) { %0 = (1f, %x); add(%0.0, %0.1) }",
        "def @main(%x: Tensor[(2), float32]) { add(1f, %x) }",
    ),
    "f5": (
        [relay.transform.FoldConstant()],
        "def @main(%x: Tensor[(2), float32]) { if (True) { exp(%x) } else { %x } }",
        "def @main(%x: Tensor[(2), float32]) { exp(%x) }",
    ),
    "f6": (
        [relay.transform.FoldConstant()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = ones(shape=[2], "
            'dtype="float32"); add(%x, %0) }'
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = ones(shape=[2], "
            'dtype="float32"); add(%x, %0) }'
        ),
    ),
    "f8": (
        [relay.transform.FoldConstant()],
        ('def @main(%x: Tensor[(?), float32]) { %0 = shape_of(%x); cast(%0, dtype="int64") }'),
        ('def @main(%x: Tensor[(?), float32]) { %0 = shape_of(%x); cast(%0, dtype="int64") }'),
    ),
    "f9": (
        [relay.transform.FoldConstant()],
        "def @main(%x: Tensor[(2), float32]) { %0 = ndarray_size(%x); add(%0, 1) }",
        "def @main(%x: Tensor[(2), float32]) { 3 }",
    ),
    "f10": (
        [relay.transform.FoldConstant()],
        (
            "def @main(%x: Tensor[(2), float32]) { %1 = fn (%y: float32) { add(%y, 1f) "
            "}; %0 = %1(2f); add(%x, %0) }"
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = fn (%y: float32) { add(%y, 1f) "
            "}; %1 = %0(2f); add(%x, %1) }"
        ),
    ),
    "f11": (
        [relay.transform.FoldConstant()],
        (
            'def @main(%x: Tensor[(2), float32]) { %0 = cast(2.5f, dtype="int32"); %1 = '
            'cast(%0, dtype="float32"); add(%x, %1) }'
        ),
        "def @main(%x: Tensor[(2), float32]) { add(%x, 2f) }",
    ),
    "f12": (
        [relay.transform.FoldConstant()],
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = split(ones(shape=[4], "
            'dtype="float32"), indices_or_sections=2); add(%x, %0.1) }'
        ),
        (
            "def @main(%x: Tensor[(2), float32]) { %0 = ones(shape=[4], "
            'dtype="float32"); %1 = split(%0, indices_or_sections=2); %2 = %1.1; add(%x, '
            "%2) }"
        ),
    ),
    "f13": (
        [relay.transform.FoldConstant()],
        ("def @main(%x: Tensor[(2), float32]) { let %a = exp(1f); let %b = (%a, %x); %b.0 }"),
        "def @main(%x: Tensor[(2), float32]) { let %b = (2.718282f, %x); %b.0 }",
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)
