"""Composite operators as core operators: what they yield keeps the shape that was proved."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx

from tvm_disc.relay_passes.decompose import DecomposeComposite


def _composite(name: str, own: list[object], given: list[object]) -> tvm.IRModule:
    """``abs(name(x)) + y`` where x has the dims ``own``, and its result is typed as ``given``."""
    x = relax.Var("x", relax.TensorType(own, "float32"))
    y = relax.Var("y", relax.TensorType(given, "float32"))
    call = getattr(relax.op.nn, name)(x)
    value = relax.Var("value", relax.TensorType(given, "float32"))
    relax.expr._update_type(call, value.ty)
    total = relax.Var("total", relax.TensorType(given, "float32"))
    added = relax.op.add(value, y)
    relax.expr._update_type(added, total.ty)
    bindings = [relax.VarBinding(value, call), relax.VarBinding(total, added)]
    body = relax.SeqExpr([relax.BindingBlock(bindings)], total)
    relax.expr._update_type(body, total.ty)
    func = relax.Function([x, y], body, total.ty, True).with_attr("global_symbol", "main")
    return tvm.IRModule({relax.GlobalVar("main"): func})


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "gelu", "gelu_tanh", "silu"])
def test_a_result_keeps_dims_that_are_only_proved_equal(name: str) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    made = DecomposeComposite()(_composite(name, [n, m], [n, 4]))["main"]
    assert f"nn.{name}" not in made.script()
    for block in made.body.blocks:
        for binding in block.bindings:
            assert isinstance(binding.var.ty.shape, relax.ShapeExpr), binding
    rows, columns = made.body.body.ty.shape.values
    assert rows.same_as(n) and int(columns) == 4


@pytest.mark.parametrize("name", ["softmax", "gelu"])
def test_nothing_is_added_where_dims_are_spelled_alike(name: str) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    assert "reshape" not in DecomposeComposite()(_composite(name, [n, m], [n, m])).script()
