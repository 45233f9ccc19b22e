"""Nodes, types and modules as scripts build and read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_disc import relay
from tvm_disc.errors import BadNode, UnknownName
from tvm_disc.relay.inference.infer import infer_type

x = relay.var("x", shape=(2, 3))
T = relay.TensorType


def test_attributes_are_members() -> None:
    image, w = relay.var("i", shape=(1, 3, 8, 8)), relay.var("w")
    attrs = relay.nn.conv2d(image, w, channels=4, kernel_size=(3, 3)).attrs
    assert attrs.groups == 1 == attrs["groups"] == attrs.get_int("groups")
    assert tuple(attrs.kernel_size) == (3, 3) == attrs.get_int_tuple("kernel_size")
    assert attrs.data_layout == "NCHW" == attrs.get_str("data_layout")
    assert list(attrs.keys())[:2] == ["strides", "padding"]
    assert attrs.list_field_info()[0].name == "strides"
    with pytest.raises(AttributeError, match=r"no attribute 'group'; the attributes: .*groups"):
        _ = attrs.group
    assert not relay.exp(x).attrs


def test_attributes_of_functions() -> None:
    func = relay.Function([x], x).with_attr("Primitive", 1)
    assert func.attrs["Primitive"] == 1 == func.attrs.Primitive
    more = func.with_attr({"Compiler": "a", "k": 2}).with_attrs({"m": 3})
    assert dict(more.attrs) == {"Primitive": 1, "Compiler": "a", "k": 2, "m": 3}
    assert dict(more.without_attr("k").without_attr("none").attrs) == {
        "Primitive": 1,
        "Compiler": "a",
        "m": 3,
    }
    assert dict(func.attrs) == {"Primitive": 1}


def test_fields() -> None:
    y = relay.Var("y", relay.scalar_type("int32"))
    assert y.name_hint == "y" == y.vid.name_hint and y.span is None and y.same_as(y)
    let = relay.Let(y, relay.const(1), y)
    assert (let.var, let.body) == (y, y) and let.value.data.numpy() == 1
    tup = relay.Tuple([x, y])
    assert len(tup) == 2 and tup[1] is y and list(tup) == [x, y] and tup.fields[0] is x
    with pytest.raises(IndexError):
        _ = tup[2]
    assert relay.Function([x], x).params[0] is x
    assert [v.name_hint for v in (relay.GlobalVar("f"), relay.TypeVar("A"))] == ["f", "A"]


def test_constants() -> None:
    given = tvm.runtime.tensor(np.ones((2, 2), "float32"))
    for made in (relay.const(np.ones((2, 2))), relay.const(given), relay.Constant(given)):
        assert made.data.numpy().tolist() == [[1, 1], [1, 1]] and str(made.data.dtype) == "float32"
        assert made.data.asnumpy().shape == made.data.shape == (2, 2)
    assert str(relay.const(True).data.dtype) == "bool" and relay.const(2).data.item() == 2
    assert type(relay.const(2).data.numpy()) is np.ndarray


def test_operators_on_expressions() -> None:
    names = [
        (e.op.name, len(e.args))
        for e in (x + x, x - x, x * x, x / x, -x, x < x, x <= x, x > x, x >= x, x.astype("int8"))
    ]
    assert names == [
        ("add", 2),
        ("subtract", 2),
        ("multiply", 2),
        ("divide", 2),
        ("negative", 1),
        ("less", 2),
        ("less_equal", 2),
        ("greater", 2),
        ("greater_equal", 2),
        ("cast", 1),
    ]
    assert (x == x) is True
    for wrong in (lambda: x + 1, lambda: 1 - x, lambda: x * 2.0):
        with pytest.raises(TypeError, match="with `const` first"):
            wrong()


def test_text_of_expressions() -> None:
    assert relay.exp(x).astext(show_meta_data=False).endswith("exp(%x)\n") or "exp(%x)" in str(
        relay.exp(x)
    )
    assert str(T((2, relay.Any()))) == "Tensor[(2, ?), float32]" and str(T((), "bool")) == "bool"
    assert str(relay.FuncType([T(())], relay.TupleType([]))) == "fn (float32) -> ()"


def test_dims_may_be_variables_of_tvm() -> None:
    n, m = tirx.Var("n", "int32"), tirx.Var("m", "int64")
    ty = T((n, 4, n * 2 + m))
    assert str(ty) == "Tensor[(n, 4, ((n * 2) + m)), float32]" and relay.is_dynamic(ty)
    y = relay.var("y", shape=(n, tirx.IntImm("int32", 5)))
    assert y.type_annotation == T((relay.DimVar("n"), 5))
    assert str(infer_type(relay.exp(y)).checked_type) == "Tensor[(n, 5), float32]"
    with pytest.raises(BadNode, match="found "):
        T((tirx.StringImm("n") if hasattr(tirx, "StringImm") else "n",))


def test_types() -> None:
    a = relay.TypeVar("A", relay.TypeKind.Type)
    func = relay.FuncType([a], a, [a], [])
    assert func.arg_types == (a,) and func.type_params == (a,) and func.type_constraints == ()
    header = relay.GlobalTypeVar("List")
    assert header(a) == relay.TypeCall(header, [a]) and header().args == ()
    assert header.kind is relay.TypeKind.AdtHandle and a.span is None
    assert relay.IncompleteType(relay.TypeKind.ShapeVar).kind is relay.TypeKind.ShapeVar
    relation = relay.TypeRelation(None, [a, a], 1, None)
    assert relation.args == (a, a) and relation.num_inputs == 1
    assert T((2, 3)).concrete_shape == (2, 3) and T((2,)).shape == (2,)
    with pytest.raises(
        BadNode, match=r"expected a shape without unknown dims, found Tensor\[\(\?\)"
    ):
        _ = T((relay.Any(),)).concrete_shape


def list_module() -> tuple[relay.IRModule, Any, Any]:
    """A module with lists, defined as scripts do."""
    mod, name, a = relay.IRModule(), relay.GlobalTypeVar("List"), relay.TypeVar("A")
    nil = relay.Constructor("Nil", [], name)
    cons = relay.Constructor("Cons", [a, name(a)], name)
    mod[name] = relay.TypeData(name, [a], [nil, cons])
    return mod, nil, cons


def test_data_types_are_assigned() -> None:
    mod, nil, cons = list_module()
    name = mod.get_global_type_var("List")
    assert [c.name for c in mod[name].constructors] == ["Nil", "Cons"] and name in mod
    assert mod.get_constructor("List", "Cons") is cons  # scripts call their own objects
    assert (nil.tag, cons.tag) == (0, 1) and cons.belong_to == "List"
    assert mod.get_global_type_vars() == [name]
    expr = infer_type(cons(relay.const(1), nil()), mod)
    assert expr.checked_type == name(relay.scalar_type("int32"))
    with pytest.raises(BadNode, match="type M: expected its definition, found that of type List"):
        mod[relay.GlobalTypeVar("M")] = mod[name]
    with pytest.raises(BadNode, match=r"type M: expected relay.TypeData, found Function"):
        mod[relay.GlobalTypeVar("M")] = relay.Function([], relay.const(1))


def test_modules() -> None:
    helper = relay.GlobalVar("helper")
    mod = relay.IRModule.from_expr(helper(x), {helper: relay.Function([x], x)})
    assert [g.name_hint for g in mod.get_global_vars()] == ["helper", "main"]
    assert [g.name_hint for g, _ in mod.functions_items()] == ["helper", "main"]
    assert mod["main"].params == (x,) and mod.get_global_var("helper") is helper
    mod.update({"other": relay.Function([], relay.const(1))})
    mod.update_func(helper, relay.Function([x], -x))
    assert "other" in mod and mod["helper"].body.op.name == "negative"
    second = mod.with_attr("a", 1).with_attrs({"b": 2}).without_attr("a")
    assert second.get_attr("b") == 2 and second.get_attr("a") is None and not mod.attrs
    both = relay.split(x, 3, axis=1)
    assert isinstance(relay.IRModule.from_expr(both)["main"].body, relay.Call)


@pytest.mark.parametrize("ask", [lambda m: m["foo"], lambda m: m.get_global_var("foo")])
@pytest.mark.parametrize("error", [KeyError, ValueError, UnknownName])
def test_unknown_names(ask: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"no function @foo; its functions: @main"):
        ask(relay.IRModule.from_expr(x))


def test_a_scope_builder_knows_types() -> None:
    builder = relay.ScopeBuilder()
    assert builder.type_of(x) == T((2, 3)) and builder.type_of(relay.Var("v")) is None
    assert builder.type_of(relay.split(x, 3, axis=1)) == relay.TupleType([T((2, 1))] * 3)
