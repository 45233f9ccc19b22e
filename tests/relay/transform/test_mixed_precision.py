"""Products in a narrow float."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.transform.helpers import check, optimized, same
from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported

CASES = {
    "mp_a": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            "float32], %b: Tensor[(4,1,1), float32]) { nn.relu(add(nn.conv2d(%x, %w, "
            "padding=[1,1,1,1]), %b)) }"
        ),
        (
            "def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), "
            'float32], %b: Tensor[(4, 1, 1), float32]) { %0 = cast(%x, dtype="float16"); '
            '%1 = cast(%w, dtype="float16"); %2 = nn.conv2d(%0, %1, padding=[1, 1, 1, '
            '1], out_dtype="float16"); %3 = cast(%b, dtype="float16"); %4 = add(%2, %3); '
            "nn.relu(%4) }"
        ),
    ),
    "mp_b": (
        [relay.transform.ToMixedPrecision("float16")],
        "def @main(%x: Tensor[(4, 8), float32]) { nn.softmax(%x) }",
        "def @main(%x: Tensor[(4, 8), float32]) { nn.softmax(%x) }",
    ),
    "mp_c": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); nn.softmax(%0) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %3 = cast(%2, '
            'dtype="float32"); nn.softmax(%3) }'
        ),
    ),
    "mp_d": (
        [relay.transform.ToMixedPrecision("float16")],
        "def @main(%x: Tensor[(4, 8), float32]) { nn.relu(%x) }",
        ('def @main(%x: Tensor[(4, 8), float32]) { %0 = cast(%x, dtype="float16"); nn.relu(%0) }'),
    ),
    "mp_e": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = nn.dense(%x, %w, units=None); "
            "concatenate((%0, %1), axis=1) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %3 = nn.dense(%0, %1, '
            'units=None, out_dtype="float16"); %4 = (%2, %3); concatenate(%4, axis=1) }'
        ),
    ),
    "mp_f": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); sum(%0) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %3 = cast(%2, '
            'dtype="float32"); sum(%3) }'
        ),
    ),
    "mp_g": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); multiply(%0, 2f) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %3 = cast(2f, '
            'dtype="float16"); multiply(%2, %3) }'
        ),
    ),
    "mp_h": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { let "
            "%a = nn.dense(%x, %w, units=None); let %b = exp(%a); %b }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); let %a = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %2 = cast(%a, '
            'dtype="float32"); let %b = exp(%2); %b }'
        ),
    ),
    "mp_i": (
        [relay.transform.ToMixedPrecision("float16")],
        'def @main(%x: Tensor[(4,8), int32]) { cast(%x, dtype="float32") }',
        'def @main(%x: Tensor[(4, 8), int32]) { cast(%x, dtype="float32") }',
    ),
    "mp_j": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'nn.dense(%x, %w, units=None); cast(%0, dtype="float32") }'
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); cast(%2, '
            'dtype="float32") }'
        ),
    ),
    "mp_k": (
        [relay.transform.ToMixedPrecision("float16")],
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            "nn.dense(%x, %w, units=None); %1 = exp(%0); %2 = tanh(%0); (%1, %2) }"
        ),
        (
            "def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(4, 8), float32]) { %0 = "
            'cast(%x, dtype="float16"); %1 = cast(%w, dtype="float16"); %2 = '
            'nn.dense(%0, %1, units=None, out_dtype="float16"); %3 = cast(%2, '
            'dtype="float32"); %4 = exp(%3); %5 = tanh(%2); (%4, %5) }'
        ),
    ),
}


@pytest.mark.parametrize(("passes", "before", "after"), CASES.values(), ids=CASES)
def test_what_a_pass_makes_of_a_program(passes: Any, before: str, after: str) -> None:
    check(passes, before, after)


def product(after: Any = lambda y: y) -> relay.IRModule:
    x, w = (relay.var(n, shape=(4, 8)) for n in "xw")
    return relay.IRModule.from_expr(relay.Function([x, w], after(relay.nn.dense(x, w))))


def test_the_other_narrow_float() -> None:
    made = optimized(product(), relay.transform.ToMixedPrecision("bfloat16"))
    assert made["main"].body.attrs["out_dtype"] == "bfloat16"


def test_an_operator_in_no_list_stays_wide_with_a_warning() -> None:
    mod = product(lambda y: relay.atan(y))
    with pytest.warns(UserWarning, match=r"'atan' is in no list .*; it stays in float32"):
        made = optimized(mod, relay.transform.ToMixedPrecision())
    assert made["main"].body.args[0].attrs == {"dtype": "float32"}
    silent = relay.transform.ToMixedPrecision(missing_op_mode=2)
    assert same(optimized(mod, silent), made)


def test_an_operator_in_no_list_is_refused_when_asked() -> None:
    strict = relay.transform.ToMixedPrecision(missing_op_mode=0)
    with pytest.raises(Unsupported, match=r"'atan' is in no list .* missing_op_mode=1 leaves"):
        optimized(product(lambda y: relay.atan(y)), strict)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("float64",), "expected float16 or bfloat16, found 'float64'"),
        (("int8",), "expected float16 or bfloat16, found 'int8'"),
        (("float16", 3), "expected a missing_op_mode of 0, 1 or 2, found 3"),
    ],
)
def test_what_is_refused(told: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        optimized(product(), relay.transform.ToMixedPrecision(*told))
