"""Types that inference finds, by kind of expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import Unsupported
from tvm_disc.relay import transform
from tvm_disc.relay.op import op as registry

I32, F32 = relay.scalar_type("int32"), relay.scalar_type("float32")


def local(expr: Any) -> Any:
    """The expression after its types were inferred in place."""
    transform.InferTypeLocal(expr)
    return expr


def whole(func: Any, mod: Any = None) -> Any:
    """The type of ``main``."""
    mod = relay.IRModule({}) if mod is None else mod
    mod["main"] = func
    return transform.InferType()(mod)["main"].checked_type


def test_let_of_a_number() -> None:
    sb = relay.ScopeBuilder()
    x = relay.var("x", dtype="float64", shape=())
    sb.ret(sb.let(x, relay.const(1.0, "float64")))
    assert local(sb.get()).checked_type == relay.scalar_type("float64")


def test_one_operator() -> None:
    x = relay.var("x", shape=[])
    assert whole(relay.Function([x], relay.log(x))) == relay.FuncType([F32], F32)


def test_broadcast() -> None:
    x, y = relay.var("x", shape=(10, 4)), relay.var("y", shape=(5, 10, 1))
    types = [relay.TensorType(s) for s in ((10, 4), (5, 10, 1), (5, 10, 4))]
    assert whole(relay.Function([x, y], x + y)) == relay.FuncType(types[:2], types[2])


def test_two_bindings() -> None:
    tp = relay.TensorType((10, 10), "float32")
    x, sb = relay.var("x", tp), relay.ScopeBuilder()
    t1 = sb.let("t1", relay.log(x))
    sb.ret(sb.let("t2", relay.add(t1, x)))
    func = local(relay.Function([x], sb.get()))
    assert func.checked_type == relay.FuncType([tp], tp)


def test_a_function() -> None:
    tp = relay.TensorType((10, 10))
    x = relay.var("x", tp)
    assert local(relay.Function([x], relay.log(x))).checked_type == relay.FuncType([tp], tp)


def test_recursion() -> None:
    sb, f = relay.ScopeBuilder(), relay.GlobalVar("f")
    n, data = relay.var("n", I32), relay.var("data", F32)
    with sb.if_scope(relay.equal(n, relay.const(0, I32))):
        sb.ret(data)
    with sb.else_scope():
        sb.ret(f(relay.subtract(n, relay.const(1, I32)), relay.log(data)))
    mod = relay.IRModule()
    mod[f] = relay.Function([n, data], sb.get())
    mod = transform.InferType()(transform.AnnotateSpans()(mod))
    assert "@f(%1, %2)" in mod.astext()
    assert mod["f"].checked_type == relay.FuncType([I32, F32], F32)


def test_a_called_parameter() -> None:
    x, f = relay.var("x", I32), relay.var("f")
    func = local(relay.Function([x, f], relay.Call(f, [x]), I32))
    assert func.checked_type == relay.FuncType([I32, relay.FuncType([I32], I32)], I32)


def _identity() -> relay.Function:
    a = relay.TypeVar("a")
    x = relay.Var("x", a)
    return relay.Function([x], x, a, [a])


def test_functions_as_arguments() -> None:
    b = relay.TypeVar("b")
    f, y = relay.Var("f", relay.FuncType([b], b)), relay.Var("y", b)
    apply = relay.Function([f, y], f(y), b, [b])
    assert local(apply(_identity(), relay.const(0, "int32"))).checked_type == I32


def test_functions_as_results() -> None:
    b = relay.TypeVar("b")
    made = relay.Function([], _identity(), relay.FuncType([b], b), [b])
    assert local(made).checked_type == relay.FuncType([], relay.FuncType([b], b), [b])


def test_functions_of_branches() -> None:
    choice = relay.FuncType([], relay.scalar_type("bool"))
    f, b, z = relay.Var("f", choice), relay.TypeVar("b"), relay.Var("z")
    body = relay.If(f(), _identity(), relay.Function([z], z))
    made = relay.Function([f], body, relay.FuncType([b], b), [b])
    assert local(made).checked_type == relay.FuncType([choice], relay.FuncType([b], b), [b])


def test_tuples() -> None:
    tp = relay.TensorType((10,))
    x = relay.var("x", tp)
    assert local(relay.Tuple([x, x])).checked_type == relay.TupleType([tp, tp])


def test_references() -> None:
    x, y = relay.var("x", "float32"), relay.var("y", "float32")
    ref = relay.RefCreate(x)
    assert local(ref).checked_type == relay.RefType(F32)
    assert local(relay.RefRead(ref)).checked_type == F32
    assert local(relay.RefWrite(ref, y)).checked_type == relay.TupleType([])


def test_expressions_with_free_variables() -> None:
    x = relay.var("x", "float32")
    y = local(relay.add(x, x))
    relay.assert_structural_equal(y.args[0], x, map_free_vars=True)
    assert y.checked_type == F32 and x.vid.same_as(y.args[0].vid)


@pytest.mark.xfail(strict=True, reason="operators have no type arguments")
def test_types_of_operands_are_kept() -> None:
    x, y = relay.var("x", shape=(10, 10)), relay.var("y", shape=(1, 10))
    mod = transform.InferType()(relay.IRModule.from_expr(relay.add(x, y)))
    first, second = transform.InferType()(mod)["main"].body.type_args
    assert first.dtype == second.dtype == "float32"
    assert [int(d) for d in first.shape] == [10, 10] and [int(d) for d in second.shape] == [1, 10]


def test_a_function_that_calls_itself() -> None:
    mod, gv, x = relay.IRModule({}), relay.GlobalVar("main"), relay.var("x", shape=[])
    mod[gv] = relay.Function([x], relay.Call(gv, [x]), F32)
    assert transform.InferType()(mod)["main"].checked_type == relay.FuncType([F32], F32)


def test_comparisons() -> None:
    i = relay.var("i", shape=[], dtype="int32")
    func = local(relay.Function([i], relay.op.equal(i, relay.const(0, dtype="int32"))))
    assert func.checked_type == relay.FuncType([I32], relay.scalar_type("bool"))


@pytest.fixture
def boxed() -> tuple[relay.IRModule, Any, Any]:
    mod, box, tv = relay.IRModule(), relay.GlobalTypeVar("box"), relay.TypeVar("tv")
    constructor = relay.Constructor("constructor", [tv], box)
    mod[box] = relay.TypeData(box, [tv], [constructor])
    return mod, box, constructor


def test_constructors(boxed: Any) -> None:
    mod, box, constructor = boxed
    a = relay.TypeVar("a")
    x = relay.Var("x", a)
    found = whole(relay.Function([x], constructor(x), box(a), [a]), mod)
    assert found == relay.FuncType([a], box(a), [a])
    assert mod.get_global_type_var("box") == box


def test_calls_of_constructors(boxed: Any) -> None:
    mod, box, constructor = boxed
    pair = relay.Tuple([constructor(relay.Tuple([])), constructor(relay.const(0, "float32"))])
    first, second = whole(relay.Function([], pair), mod).ret_type.fields
    assert first == box(relay.TupleType([])) and second == box(F32)


def test_matches(boxed: Any) -> None:
    mod, _, constructor = boxed
    v = relay.Var("v", F32)
    pattern = relay.PatternConstructor(constructor, [relay.PatternVar(v)])
    clauses = [
        relay.Clause(pattern, relay.Tuple([])),
        relay.Clause(relay.PatternWildcard(), relay.Tuple([])),
    ]
    match = relay.Match(constructor(relay.const(0, "float32")), clauses)
    assert whole(relay.Function([], match), mod).ret_type == relay.TupleType([])


def test_annotations_in_patterns(boxed: Any) -> None:
    mod, _, constructor = boxed
    tt = relay.TensorType((2, 2), "float32")
    x, v = relay.Var("x"), relay.Var("v", tt)
    pattern = relay.PatternConstructor(constructor, [relay.PatternVar(v)])
    match = relay.Match(constructor(x), [relay.Clause(pattern, relay.Tuple([]))])
    assert whole(relay.Function([x], match), mod) == relay.FuncType([tt], relay.TupleType([]))


def test_polymorphic_bindings() -> None:
    ident = relay.Var("id")
    body = relay.Tuple([ident(relay.const(1)), ident(relay.Tuple([]))])
    found = local(relay.Let(ident, _identity(), body)).checked_type
    relay.assert_structural_equal(found, relay.TupleType([I32, relay.TupleType([])]))


def test_type_arguments() -> None:
    text = """#[version = "0.0.5"]
def @id[A](%x: A) -> A { %x }
def @main(%f: float32) -> float32 { @id(%f) }
"""
    mod = transform.InferType()(relay.fromtext(text))
    assert list(mod["main"].body.type_args) == [F32]


def test_functions_of_unknown_dims() -> None:
    x, y = relay.Var("x", relay.TensorType([relay.Any()])), relay.Var("y", relay.TensorType([10]))
    mod = relay.IRModule()
    mod["main"] = relay.Function([y], relay.Function([x], x + x)(y))
    assert transform.InferType()(mod)["main"].params[0].checked_type == relay.TensorType([10])


def test_groups_of_unknown_channels() -> None:
    data = relay.var("data", shape=[relay.Any()] * 4)
    weight = relay.const(np.full((16, 16, 3, 3), 0.25), dtype="float32")
    out = relay.nn.conv2d(data, weight, kernel_size=(3, 3), channels=16, groups=2)
    mod = transform.InferType()(relay.IRModule.from_expr(out))
    assert isinstance(mod["main"].checked_type.ret_type, relay.TensorType)


@pytest.fixture
def operator() -> Iterator[Any]:
    made: list[str] = []

    def make(name: str, inputs: int, relation: str, rule: Any = None) -> Any:
        registry.register(name, r"code(An operator.)code")
        made.append(name)
        op = registry.get(name)
        op.set_num_inputs(inputs)
        for k in range(inputs):
            op.add_argument(f"data_{k}", "Tensor", "The input data tensor.")
        op.set_attrs_type_key("DictAttrs")
        op.add_type_rel(relation, rule)
        op.set_support_level(1)
        registry.register_pattern(name, registry.OpPattern.ELEMWISE)
        registry.register_stateful(name, False)
        return op

    yield make
    for name in made:
        registry.unregister(name)


def _logged(op: Any) -> tuple[Any, Any]:
    tp = relay.TensorType((10, 10), "float32")
    x, sb = relay.var("x", tp), relay.ScopeBuilder()
    t1 = sb.let("t1", relay.Call(op, [x]))
    sb.ret(sb.let("t2", relay.add(t1, x)))
    return relay.Function([x], sb.get()), relay.FuncType([tp], tp)


def test_an_operator_of_the_user(operator: Any) -> None:
    func, ty = _logged(operator("custom_log", 1, "Identity"))
    assert local(func).checked_type == ty


def test_a_broadcast_operator_of_the_user(operator: Any) -> None:
    op = operator("custom_add", 2, "Broadcast")
    x, y = relay.var("x", shape=(10, 4)), relay.var("y", shape=(5, 10, 1))
    types = [relay.TensorType(s) for s in ((10, 4), (5, 10, 1), (5, 10, 4))]
    func = relay.Function([x, y], relay.Call(op, [x, y]))
    assert whole(func) == relay.FuncType(types[:2], types[2])


def test_a_relation_of_the_user(operator: Any) -> None:
    def rule(types: Any, attrs: Any) -> Any:
        assert len(types) == 1, "type relation arg number mismatch!"
        return relay.TensorType(types[0].shape, types[0].dtype)

    func, ty = _logged(operator("custom_log1", 1, "custom_log1", rule))
    assert local(func).checked_type == ty


def test_a_relation_that_fails(operator: Any) -> None:
    def rule(types: Any, attrs: Any) -> Any:
        assert len(types) == 2, "type relation arg number mismatch!"

    func, _ = _logged(operator("custom_log2", 1, "custom_log2", rule))
    with pytest.raises(AssertionError, match="type relation arg number mismatch"):
        local(func)


def test_an_operator_is_registered_once(operator: Any) -> None:
    operator("custom_log3", 1, "Identity")
    with pytest.raises(ValueError, match="custom_log3 is registered before"):
        registry.register("custom_log3")


def test_an_operator_of_the_user_has_no_kernel(operator: Any) -> None:
    func, _ = _logged(operator("custom_log4", 1, "Identity"))
    with pytest.raises(Unsupported, match="custom_log4"):
        relay.build(relay.IRModule.from_expr(func), "llvm")


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reductions_to_places(name: str, dtype: str) -> None:
    x = relay.var("data", relay.TensorType((1, 1), "float32"))
    wide = relay.op.broadcast_to(x, relay.const([1, 1], dtype=dtype))
    found = whole(relay.Function([x], getattr(relay.op, name)(wide, axis=[1])))
    assert [int(d) for d in found.ret_type.shape] == [1]
    assert found.arg_types[0] == relay.TensorType([1, 1], "float32")
