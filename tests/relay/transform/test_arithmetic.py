"""SimplifyExpr over sums, products, casts, clips and layouts: text and values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.relay.transform.helpers import optimized, parsed, same
from tvm_disc import relay

X, N, U = "%x: Tensor[(4), float32]", "%x: Tensor[(4), int32]", "%x: Tensor[(4), uint8]"
XY = f"{X}, %y: Tensor[(4), float32]"
NY = f"{N}, %y: Tensor[(4), int32]"
PERMUTED = "%x: Tensor[(1, 2, 3, 4), float32]"
IMAGE, BLOCKS = "%x: Tensor[(1, 4, 2, 3), float32]", "%x: Tensor[(1, 8, 2, 3, 4), float32]"


def _layouts(*layouts: str) -> str:
    """Return the text of a chain of layout changes of ``%x``."""
    steps = [
        f'layout_transform({f"%{k - 1}" if k else "%x"}, src_layout="{a}", dst_layout="{b}")'
        for k, (a, b) in enumerate(pairwise(layouts))
    ]
    return "; ".join([*(f"%{k} = {s}" for k, s in enumerate(steps[:-1])), steps[-1]])


CASES = {
    "a sum of one value": (X, "add(%x, %x)", "multiply(%x, 2f)"),
    "a sum of one integer": (N, "add(%x, %x)", "multiply(%x, 2)"),
    "a product of a sum": (
        X,
        "%0 = add(%x, 3f); multiply(%0, 2f)",
        "%0 = multiply(%x, 2f); add(%0, 6f)",
    ),
    "the constants on the left": (
        X,
        "%0 = add(3f, %x); multiply(2f, %0)",
        "%0 = multiply(%x, 2f); add(%0, 6f)",
    ),
    "product, sum, product": (
        X,
        "%0 = multiply(%x, 5f); %1 = add(%0, 3f); multiply(%1, 2f)",
        "%0 = multiply(%x, 10f); add(%0, 6f)",
    ),
    "sum, product, sum": (
        X,
        "%0 = add(%x, 3f); %1 = multiply(%0, 2f); add(4f, %1)",
        "%0 = multiply(%x, 2f); add(%0, 10f)",
    ),
    "a product that would be infinite": (
        X,
        "%0 = add(%x, 3e38f); multiply(%0, 1e10f)",
        "%0 = add(%x, 3e38f); multiply(%0, 1e10f)",
    ),
    "a square": (
        XY,
        "%0 = multiply(%x, %x); %1 = multiply(2f, %x); %2 = multiply(%1, %y); "
        "%3 = multiply(%y, %y); %4 = add(%0, %2); add(%4, %3)",
        "%0 = add(%x, %y); multiply(%0, %0)",
    ),
    "two factors": (
        NY,
        "%0 = multiply(%x, 6); %1 = multiply(%0, %x); %2 = multiply(%y, 5); "
        "%3 = multiply(%2, %x); %4 = multiply(%y, %y); %5 = add(%3, %4); add(%1, %5)",
        "%0 = multiply(%x, 3); %1 = multiply(%x, 2); %2 = add(%y, %0); %3 = add(%y, %1); "
        "multiply(%2, %3)",
    ),
    "factors that are no integers": (
        NY,
        "%0 = multiply(%x, %x); %1 = multiply(%x, 3); %2 = multiply(%1, %y); "
        "%3 = multiply(%y, %y); %4 = add(%0, %2); add(%4, %3)",
        None,
    ),
    "no real factors": (
        XY,
        "%0 = multiply(%x, %x); %1 = multiply(%x, %y); %2 = multiply(%y, %y); "
        "%3 = add(%0, %1); add(%3, %2)",
        None,
    ),
    "no factor is 1": (
        XY,
        "%0 = multiply(%x, 2f); %1 = multiply(%0, %x); %2 = multiply(%x, %y); %3 = "
        "multiply(%y, 3f); %4 = multiply(%3, %y); %5 = add(%1, %2); add(%5, %4)",
        None,
    ),
    "a clip into the type between": (
        N,
        '%0 = clip(%x, a_min=0f, a_max=255f); %1 = cast(%0, dtype="uint8"); '
        'cast(%1, dtype="int32")',
        "clip(%x, a_min=0f, a_max=255f)",
    ),
    "a float clipped into integers": (
        X,
        '%0 = clip(%x, a_min=0f, a_max=255f); %1 = cast(%0, dtype="uint8"); '
        'cast(%1, dtype="int32")',
        '%0 = clip(%x, a_min=0f, a_max=255f); cast(%0, dtype="int32")',
    ),
    "a float loses its fraction": (
        X,
        '%0 = clip(%x, a_min=0f, a_max=255f); %1 = cast(%0, dtype="uint8"); '
        'cast(%1, dtype="float32")',
        None,
    ),
    "a clip that is too wide": (
        N,
        '%0 = clip(%x, a_min=0f, a_max=256f); %1 = cast(%0, dtype="uint8"); '
        'cast(%1, dtype="int32")',
        None,
    ),
    "a clip to all of a type": (U, "clip(%x, a_min=0f, a_max=255f)", "%x"),
    "a clip to less": (U, "clip(%x, a_min=0f, a_max=254f)", None),
    "a clip of floats": (X, "clip(%x, a_min=0f, a_max=255f)", None),
    "a reverse reshape": (
        IMAGE,
        "%0 = reshape(%x, newshape=[4, -1]); contrib_reverse_reshape(%0, newshape=[2, 0, -1])",
        "reshape(%x, newshape=[2, 4, 3])",
    ),
    "into blocks and back": (IMAGE, _layouts("NCHW", "NCHW4c", "NCHW"), "%x"),
    "blocks of another size": (
        BLOCKS,
        _layouts("NCHW4c", "NCHW", "NCHW8c"),
        _layouts("NCHW4c", "NCHW8c"),
    ),
    "a transpose before blocks": (
        PERMUTED,
        '%0 = transpose(%x, axes=[0, 3, 1, 2]); layout_transform(%0, src_layout="NCHW", '
        'dst_layout="NCHW2c")',
        _layouts("NHWC", "NCHW2c"),
    ),
    "a transpose after blocks": (
        BLOCKS,
        '%0 = layout_transform(%x, src_layout="NCHW4c", dst_layout="NCHW"); '
        "transpose(%0, axes=[0, 2, 3, 1])",
        _layouts("NCHW4c", "NHWC"),
    ),
}


@pytest.mark.parametrize(("params", "before", "after"), CASES.values(), ids=CASES)
def test_what_simplify_expr_makes(params: str, before: str, after: str | None) -> None:
    program = f"def @main({params}) {{ {before} }}"
    made = optimized(program, relay.transform.SimplifyExpr())
    wanted = f"def @main({params}) {{ {after or before} }}"
    assert same(made, parsed(wanted)), made.astext()


def test_blocks_of_a_dim_that_is_not_known_stay() -> None:
    # The program checks that the dim is a multiple of 4.
    before = "%x: Tensor[(1, ?, 2, 3), float32]"
    program = f"def @main({before}) {{ {_layouts('NCHW', 'NCHW4c', 'NCHW')} }}"
    assert same(optimized(program, relay.transform.SimplifyExpr()), parsed(program))


@pytest.mark.parametrize("params", [X, XY, NY, U, N])
def test_simplified_programs_compute_the_same(params: str) -> None:
    rng = np.random.default_rng(0)
    shared = [(b, a) for p, b, a in CASES.values() if p == params]
    for before, _ in shared:
        mod = parsed(f"def @main({params}) {{ {before} }}")
        values = [
            rng.integers(0, 9, 4).astype(str(p.type_annotation.dtype)) for p in mod["main"].params
        ]
        made = optimized(mod, relay.transform.SimplifyExpr())
        results = [
            relay.create_executor("vm", mod=m).evaluate()(*values).numpy() for m in (mod, made)
        ]
        np.testing.assert_allclose(*results, rtol=1e-6)
