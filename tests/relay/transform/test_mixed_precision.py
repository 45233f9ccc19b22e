"""Products in a narrow float."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
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


def test_an_operator_in_no_list_follows_with_a_warning() -> None:
    mod = product(lambda y: relay.atan(y))
    with pytest.warns(UserWarning, match=r"'atan' is computed; the type of its operands"):
        made = optimized(mod, relay.transform.ToMixedPrecision())
    assert made["main"].body.checked_type.dtype == "float16"
    silent = relay.transform.ToMixedPrecision(missing_op_mode=2)
    assert same(optimized(mod, silent), made)


def test_an_operator_in_no_list_is_refused_when_asked() -> None:
    strict = relay.transform.ToMixedPrecision(missing_op_mode=0)
    with pytest.raises(Unsupported, match=r"'atan' is computed; .* pass missing_op_mode=1"):
        optimized(product(lambda y: relay.atan(y)), strict)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("float32",), "expected float16, bfloat16 or float64, found 'float32'"),
        (("int8",), "expected float16, bfloat16 or float64, found 'int8'"),
        (("float16", 3), "expected a missing_op_mode of 0, 1 or 2, found 3"),
    ],
)
def test_what_is_refused(told: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        optimized(product(), relay.transform.ToMixedPrecision(*told))


def wide(make: Any) -> relay.IRModule:
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 3, 3))
    return relay.IRModule.from_expr(relay.Function([x, w], make(relay.nn.conv2d(x, w))))


LARGE_SUMS = {
    "mean": relay.mean,
    "sum": relay.sum,
    "variance": relay.variance,
    "global_avg_pool2d": relay.nn.global_avg_pool2d,
    "adaptive_avg_pool2d": lambda y: relay.nn.adaptive_avg_pool2d(y, (2, 2)),
    "softmax": relay.nn.softmax,
    "exp": relay.exp,
    "erf": relay.erf,
    "power": lambda y: relay.power(y, relay.const(2.0)),
}


@pytest.mark.parametrize("typed", [False, True], ids=["bare", "after InferType"])
@pytest.mark.parametrize("make", LARGE_SUMS.values(), ids=LARGE_SUMS)
def test_what_loses_digits_stays_in_float32(make: Any, typed: bool) -> None:
    mod = wide(make)
    mod = relay.transform.InferType()(mod) if typed else mod
    made = relay.transform.ToMixedPrecision("float16")(mod)["main"]
    assert made.ret_type == made.body.checked_type and made.body.checked_type.dtype == "float32"
    assert [a.checked_type.dtype for a in made.body.args] == ["float32"] * len(made.body.args)


def test_the_type_of_the_result_can_be_kept() -> None:
    mod = relay.transform.InferType()(wide(relay.nn.relu))
    with relay.transform.PassContext(
        config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}
    ):
        kept = relay.transform.ToMixedPrecision("float16")(mod)["main"]
    assert kept.body.op.name == "cast" and kept.ret_type.dtype == "float32"
    assert relay.transform.ToMixedPrecision("float16")(mod)["main"].ret_type.dtype == "float16"


def test_a_clip_beyond_the_narrow_range_stays_wide() -> None:
    mod = wide(lambda y: relay.clip(y, 0.0, 1e5))
    assert relay.transform.ToMixedPrecision()(mod)["main"].ret_type.dtype == "float32"


def test_a_loop_keeps_the_types_of_what_it_carries() -> None:
    i, x, w = relay.var("i", "int32"), relay.var("x", shape=(4, 4)), relay.var("w", shape=(4, 4))
    loop = relay.loops.while_loop(
        lambda i, x: relay.less(i, relay.const(3)),
        [i, x],
        lambda i, x: (relay.add(i, relay.const(1)), relay.nn.relu(relay.nn.dense(x, w))),
    )
    start = relay.var("start", shape=(4, 4))
    mod = relay.IRModule.from_expr(relay.Function([start, w], loop(relay.const(0), start)))
    made = relay.transform.ToMixedPrecision("float16")(mod)
    assert str(made["main"].ret_type) == "(int32, Tensor[(4, 4), float32])"
    dense = next(
        c for c in relay.post_order(made["main"]) if "out_dtype" in getattr(c, "attrs", {})
    )
    assert dense.checked_type.dtype == "float16"


def test_other_functions_keep_their_signatures() -> None:
    mod = relay.parse(
        """#[version = "0.0.5"]
def @f(%x: Tensor[(4, 8), float32]) { nn.dense(%x, %x, units=None) }
def @main(%x: Tensor[(4, 8), float32]) { @f(%x) }"""
    )
    made = relay.transform.ToMixedPrecision("float16")(relay.transform.InferType()(mod))
    assert made["f"].ret_type.dtype == made["main"].ret_type.dtype == "float32"
    assert made["f"].body.args[0].attrs["out_dtype"] == "float16"


def test_a_product_in_float64() -> None:
    made = optimized(product(lambda y: relay.exp(y)), relay.transform.ToMixedPrecision("float64"))
    text = made.astext()
    assert 'cast(%x, dtype="float64")' in text, text
    assert 'cast(%2, dtype="float32")' in text, text  # exp runs in float32, as for 16-bit types


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_of_two_types_are_cast_back(swapped: bool) -> None:
    """A product becomes float16 and ``exp`` stays float32, so both branches return float32."""
    x, w = relay.var("x", shape=(relay.Any(), 8)), relay.var("w", shape=(8, 8))
    cond = relay.var("cond", shape=(), dtype="bool")
    branches = [relay.nn.dense(x, w), relay.exp(x)]
    branches = branches[::-1] if swapped else branches
    function = relay.Function([cond, x, w], relay.If(cond, *branches))
    mod = relay.transform.InferType()(tvm_disc.relay.IRModule.from_expr(function))
    mixed = relay.transform.ToMixedPrecision("float16")(mod)
    exe = tvm_disc.build(mixed)
    rng = np.random.default_rng(0)
    a, b = (rng.random(s, dtype="float32") for s in ((3, 8), (8, 8)))
    for value in (True, False):
        want = np.exp(a) if value == swapped else a @ b.T
        found = exe(np.array(value), a, b)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, rtol=4e-3)
