"""Pairs of operators that undo each other, and operators that do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check
from tvm_disc import relay

CASES = {
    "s_a": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = reshape(%x, newshape=[6, "
            "4]); reshape(%0, newshape=[4, 6]) }"
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { reshape(%x, newshape=[4, 6]) }",
    ),
    "s_b": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = reshape(%x, newshape=[6, "
            "4]); reshape(%0, newshape=[2, 3, 4]) }"
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { reshape(%x, newshape=[2, 3, 4]) }",
    ),
    "s_c": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = transpose(%x, axes=[0, 2, "
            "1]); transpose(%0, axes=[0, 2, 1]) }"
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_d": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = transpose(%x, axes=[0, 2, "
            "1]); transpose(%0, axes=[1, 0, 2]) }"
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { transpose(%x, axes=[2, 0, 1]) }",
    ),
    "s_e": (
        [relay.transform.SimplifyExpr()],
        (
            'def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = cast(%x, dtype="float64"); '
            'cast(%0, dtype="int32") }'
        ),
        'def @main(%x: Tensor[(2, 3, 4), float32]) { cast(%x, dtype="int32") }',
    ),
    "s_f": (
        [relay.transform.SimplifyExpr()],
        'def @main(%x: Tensor[(2, 3, 4), float32]) { cast(%x, dtype="float32") }',
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_g": (
        [relay.transform.SimplifyExpr()],
        (
            'def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = cast(%x, dtype="float64"); '
            'cast(%0, dtype="float32") }'
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_h": (
        [relay.transform.SimplifyExpr()],
        ("def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = full_like(%x, 1f); add(%x, %0) }"),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { add(%x, 1f) }",
    ),
    "s_i": (
        [relay.transform.SimplifyExpr()],
        ("def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = ones_like(%x); multiply(%x, %0) }"),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_j": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = zeros_like(%x); add(%0, %x) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_k": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { zeros_like(%x) }",
        ('def @main(%x: Tensor[(2, 3, 4), float32]) { zeros(shape=[2, 3, 4], dtype="float32") }'),
    ),
    "s_l": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(6, 4), float32]) { "
            "reshape_like(%x, %y) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(6, 4), float32]) { "
            "reshape(%x, newshape=[6, 4]) }"
        ),
    ),
    "s_m": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 3, 4), float32]) { "
            "broadcast_to_like(%x, %y) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 3, 4), float32]) { "
            "broadcast_to(%x, shape=[2, 3, 4]) }"
        ),
    ),
    "s_n": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 3, 4), int32]) { "
            "cast_like(%x, %y) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 3, 4), int32]) { "
            'cast(%x, dtype="int32") }'
        ),
    ),
    "s_o": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { add(%x, 0f) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_p": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { multiply(1f, %x) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_q": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { power(%x, 2f) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { power(%x, 2f) }",
    ),
    "s_r": (
        [relay.transform.SimplifyExpr()],
        ("def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = concatenate((%x, ), axis=0); %0 }"),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = (%x,); concatenate(%0) }",
    ),
    "s_s": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = concatenate((%x, %x), "
            "axis=0); concatenate((%0, %x), axis=0) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = (%x, %x); %1 = "
            "concatenate(%0); %2 = (%1, %x); concatenate(%2) }"
        ),
    ),
    "s_t": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = sqrt(%x); divide(1f, %0) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { rsqrt(%x) }",
    ),
    "s_u": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = sqrt(%x); divide(%x, %0) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = rsqrt(%x); multiply(%x, %0) }",
    ),
    "s_v": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = rsqrt(%x); divide(%x, %0) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = rsqrt(%x); divide(%x, %0) }",
    ),
    "s_w": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { subtract(%x, 0f) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_x": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { divide(%x, 1f) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_y": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = ones(shape=[2,3,4], "
            'dtype="float32"); multiply(%0, %x) }'
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_z": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(?, 3, 4), float32]) { zeros_like(%x) }",
        "def @main(%x: Tensor[(?, 3, 4), float32]) { zeros_like(%x) }",
    ),
    "s_aa": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(?, 3, 4), float32]) { %0 = reshape(%x, newshape=[-1, "
            "4]); reshape(%0, newshape=[-1, 3, 4]) }"
        ),
        (
            "def @main(%x: Tensor[(?, 3, 4), float32]) { %0 = reshape(%x, newshape=[-1, "
            "4]); reshape(%0, newshape=[-1, 3, 4]) }"
        ),
    ),
    "s_ab": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = expand_dims(%x, axis=0); "
            "squeeze(%0, axis=[0]) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = expand_dims(%x, axis=0); "
            "squeeze(%0, axis=[0]) }"
        ),
    ),
    "s_ac": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = nn.dropout(%x); %0.0 }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = nn.dropout(%x); %0.0 }",
    ),
    "s_ad": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = clip(%x, a_min=0f, "
            "a_max=6f); clip(%0, a_min=1f, a_max=4f) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = clip(%x, a_min=0f, "
            "a_max=6f); clip(%0, a_min=1f, a_max=4f) }"
        ),
    ),
    "s_ae": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = layout_transform(%x, "
            'src_layout="NCW", dst_layout="NWC"); layout_transform(%0, src_layout="NWC", '
            'dst_layout="NCW") }'
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_ag": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = add(%x, 1f); add(%0, 2f) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { add(%x, 3f) }",
    ),
    "s_ah": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { reshape(%x, newshape=[2, 3, 4]) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { reshape(%x, newshape=[2, 3, 4]) }",
    ),
    "s_ai": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2, 3, 4), float32]) { transpose(%x, axes=[0, 1, 2]) }",
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_aj": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2), int32]) { "
            'cast(%y, dtype="int64") }'
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2), int32]) { "
            'cast(%y, dtype="int64") }'
        ),
    ),
    "s_ak": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = full(1f, shape=[2,3,4], "
            'dtype="float32"); add(%x, %0) }'
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { add(%x, 1f) }",
    ),
    "s_al": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = full(0f, shape=[], "
            'dtype="float32"); add(%x, %0) }'
        ),
        "def @main(%x: Tensor[(2, 3, 4), float32]) { %x }",
    ),
    "s_am": (
        [relay.transform.SimplifyExpr()],
        (
            'def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = cast(%x, dtype="float16"); '
            'cast(%0, dtype="float32") }'
        ),
        (
            'def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = cast(%x, dtype="float16"); '
            'cast(%0, dtype="float32") }'
        ),
    ),
    "s_an": (
        [relay.transform.SimplifyExpr()],
        (
            'def @main(%x: Tensor[(2), int32]) { %0 = cast(%x, dtype="int64"); cast(%0, '
            'dtype="int32") }'
        ),
        "def @main(%x: Tensor[(2), int32]) { %x }",
    ),
    "s_ao": (
        [relay.transform.SimplifyExpr()],
        (
            'def @main(%x: Tensor[(2), int32]) { %0 = cast(%x, dtype="int8"); cast(%0, '
            'dtype="int32") }'
        ),
        (
            'def @main(%x: Tensor[(2), int32]) { %0 = cast(%x, dtype="int8"); cast(%0, '
            'dtype="int32") }'
        ),
    ),
    "s_ap": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = squeeze(%x); reshape(%0, "
            "newshape=[2, 12]) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = squeeze(%x); reshape(%0, "
            "newshape=[2, 12]) }"
        ),
    ),
    "s_aq": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(1, 2, 3, 4), float32]) { %0 = transpose(%x, "
            'axes=[0,2,3,1]); layout_transform(%0, src_layout="NHWC", dst_layout="NCHW") '
            "}"
        ),
        "def @main(%x: Tensor[(1, 2, 3, 4), float32]) { %x }",
    ),
    "s_ar": (
        [relay.transform.SimplifyExpr()],
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = nn.batch_flatten(%x); "
            "reshape(%0, newshape=[2, 3, 4]) }"
        ),
        (
            "def @main(%x: Tensor[(2, 3, 4), float32]) { %0 = nn.batch_flatten(%x); "
            "reshape(%0, newshape=[2, 3, 4]) }"
        ),
    ),
    "s_au": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2), bool]) { where(%x, 1f, 1f) }",
        "def @main(%x: Tensor[(2), bool]) { where(%x, 1f, 1f) }",
    ),
    "s_av": (
        [relay.transform.SimplifyExpr()],
        "def @main(%x: Tensor[(2), float32]) { where(True, %x, 1f) }",
        "def @main(%x: Tensor[(2), float32]) { where(True, %x, 1f) }",
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)
