"""Composite operators as core operators: what they yield keeps the shape that was proved."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax, tirx

from tvm_disc.relay_passes.decompose import DecomposeComposite


def _bound(call: Any, ty: Any) -> relax.VarBinding:
    relax.expr._update_type(call, ty)
    return relax.VarBinding(relax.Var("value", ty), call)


def _composite(name: str, own: list[object], given: list[object]) -> tvm.IRModule:
    """``name(x) + y`` where x has the dims ``own``, and its result is typed as ``given``."""
    ty = relax.TensorType(given, "float32")
    x, y = relax.Var("x", relax.TensorType(own, "float32")), relax.Var("y", ty)
    params = [x, y]
    if name == "batch_norm":
        params += [relax.Var(p, relax.TensorType([4], "float32")) for p in ("g", "b", "m", "v")]
        call, fields = (
            relax.op.nn.batch_norm(x, *params[2:], axis=1),
            [ty, *(p.ty for p in params[4:])],
        )
    elif name == "dropout":
        call, fields = relax.op.nn.dropout(x), [ty, ty]
    else:
        call, fields = getattr(relax.op.nn, name)(x), []
    bindings = [_bound(call, relax.TupleType(fields) if fields else ty)]
    if fields:
        first = relax.TupleGetItem(bindings[-1].var, 0)
        bindings.append(relax.VarBinding(relax.Var("first", ty), first))
    bindings.append(_bound(relax.op.add(bindings[-1].var, y), ty))
    body = relax.SeqExpr([relax.BindingBlock(bindings)], bindings[-1].var)
    relax.expr._update_type(body, ty)
    func = relax.Function(params, body, ty, True).with_attr("global_symbol", "main")
    return tvm.IRModule({relax.GlobalVar("main"): func})


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "gelu", "gelu_tanh", "silu", "batch_norm", "dropout"]
)
def test_a_result_keeps_dims_that_are_only_proved_equal(name: str) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    made = DecomposeComposite()(_composite(name, [n, m], [n, 4]))["main"]
    assert f"nn.{name}" not in made.script()
    for block in made.body.blocks:
        for binding in block.bindings:
            ty = binding.var.ty
            first = ty.fields[0] if isinstance(ty, relax.TupleType) else ty
            assert isinstance(first.shape, relax.ShapeExpr), binding
    rows, columns = made.body.body.ty.shape.values
    assert rows.same_as(n) and int(columns) == 4


@pytest.mark.parametrize("name", ["softmax", "gelu", "dropout"])
def test_nothing_is_added_where_dims_are_spelled_alike(name: str) -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    assert "reshape" not in DecomposeComposite()(_composite(name, [n, m], [n, m])).script()
