"""The emitter of Relax bindings: where they go."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.shape import Solver


def shape_value(ctx: Emitter) -> Tensor:
    """A tensor that is put into memory when it is asked for."""
    n = ctx.solver.symbol("n")
    return Tensor((i64(1),), "int64", value=np.array([n], dtype=object))


def test_a_branch_sees_what_was_bound_before_it() -> None:
    ctx = Emitter(Solver())
    before = ctx.expr(shape_value(ctx))
    value = shape_value(ctx)
    with ctx.nested_in(ctx.sequences) as bindings:
        inside = ctx.expr(value)
        assert ctx.expr(value) is inside
    assert [b.var for b in bindings] == [inside]
    assert [b.var for b in ctx.sequences[-1]] == [before]
    assert ctx.expr(value) is not inside, "what a branch binds is not there for others"


def test_a_function_sees_nothing_outside() -> None:
    ctx = Emitter(Solver())
    value = shape_value(ctx)
    outside = ctx.expr(value)
    with ctx.nested_in(()):
        assert ctx.expr(value) is not outside


def test_nesting_ends_with_an_error() -> None:
    ctx = Emitter(Solver())
    outer = ctx.sequences
    with pytest.raises(ValueError, match="inner"), ctx.nested_in(outer), ctx.nested_in(()):
        assert ctx.nested == 2
        raise ValueError("inner")
    assert ctx.nested == 0
    assert ctx.sequences is outer
