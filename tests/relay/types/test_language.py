"""Types of what is no operator: functions, bindings, branches, data types, references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.inference.infer import infer_type, infer_types

i32 = relay.scalar_type("int32")


def typed(text: str) -> relay.IRModule:
    """A module from text, with its types."""
    return infer_types(relay.parse('#[version = "0.0.5"]\n' + text))


LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"


def test_every_expression_has_its_type() -> None:
    mod = typed(
        "def @main(%x: Tensor[(?, 2), float32]) { let %y = (%x, 1);"
        " if (True) { %y.0 } else { %x } }"
    )
    for node in relay.post_order(mod["main"]):
        assert isinstance(node.checked_type, relay.Type)
    assert str(mod["main"].ret_type) == "Tensor[(?, 2), float32]"
    assert str(mod.get_global_var("main").checked_type) == str(mod["main"].checked_type)


def test_an_expression_without_inference_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"has not been inferred; run relay.transform.InferType"):
        _ = relay.var("x", "int32").checked_type


def test_the_module_given_is_not_changed() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w")
    mod = relay.IRModule.from_expr(relay.nn.dense(x, w, units=4))
    before = relay.parse(mod.astext())
    new = infer_types(mod)
    assert relay.structural_equal(mod, before) and w.type_annotation is None
    assert str(new["main"].params[1].type_annotation) == "Tensor[(4, 3), float32]"
    typed = [n for n in relay.post_order(mod["main"]) if n._checked_type is not None]
    assert typed == [x]  # its annotation is its type, and it keeps its identity
    assert new["main"].params[0] is x and new["main"].params[1] is not w
    assert infer_types(new)["main"] is new["main"]  # what has its type is not copied


def test_branches_of_dims_that_differ_are_unknown() -> None:
    mod = typed(
        "def @main(%c: bool, %x: Tensor[(?, 2), float32], %y: Tensor[(3, 2), float32])"
        " { if (%c) { %x } else { %y } }"
    )
    assert str(mod["main"].ret_type) == "Tensor[(?, 2), float32]"


def test_a_function_without_annotations_is_typed_by_its_call() -> None:
    mod = typed(
        "def @main(%x: Tensor[(2, 3), float32]) { let %f = fn (%a) { nn.relu(%a) }; %f(%x) }"
    )
    func = next(e for e in relay.post_order(mod["main"].body) if isinstance(e, relay.Function))
    assert str(func.checked_type) == "fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]"
    assert str(func.params[0].type_annotation) == "Tensor[(2, 3), float32]"


def test_a_parameter_is_as_wide_as_its_widest_use() -> None:
    mod = typed(
        "def @main(%x: Tensor[(?, 3), float32], %y: Tensor[(2, 3), float32])"
        " { let %f = fn (%a) { nn.relu(%a) }; (%f(%y), %f(%x)) }"
    )
    field = "Tensor[(?, 3), float32]"
    assert str(mod["main"].ret_type) == f"({field}, {field})"


def test_recursion_through_a_let() -> None:
    mod = typed(
        "def @main(%n: int32) { let %f = fn (%i: int32) { if (equal(%i, 0)) { %i } else "
        "{ %f(subtract(%i, 1)) } }; %f(%n) }"
    )
    assert mod["main"].ret_type == i32


def test_functions_that_call_each_other() -> None:
    mod = typed(
        "def @even(%n: int32) -> bool { if (equal(%n, 0)) { True }"
        " else { @odd(subtract(%n, 1)) } }\n"
        "def @odd(%n: int32) { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }\n"
        "def @main(%n: int32) { @odd(%n) }"
    )
    assert str(mod["main"].ret_type) == "bool" == str(mod["odd"].ret_type)


def test_a_growing_loop_needs_a_parameter_that_may_grow() -> None:
    text = (
        "def @main(%x: Tensor[(1), int32]) {{ let %f = fn (%i: int32, %s: Tensor[({}), int32]) "
        "{{ if (less(%i, 9)) {{ %f(add(%i, 1), concatenate((%s, reshape(%i, newshape=[1])))) }} "
        "else {{ %s }} }}; %f(0, %x) }}"
    )
    assert str(typed(text.format("?"))["main"].ret_type) == "Tensor[(?), int32]"
    message = r"in particular dimension 0 conflicts: (1 does not match 2|2 does not match 1)"
    with pytest.raises(TypeMismatch, match=message):
        typed(text.format("1"))


def test_polymorphic_functions_are_taken_at_each_use() -> None:
    mod = typed(
        "def @id[A](%x: A) -> A { %x }\n"
        "def @main(%x: int32, %y: Tensor[(2), float32]) { (@id(%x), @id(%y)) }"
    )
    assert str(mod["main"].ret_type) == "(int32, Tensor[(2), float32])"
    calls = [e for e in relay.post_order(mod["main"]) if isinstance(e, relay.Call)]
    assert [str(c.type_args[0]) for c in calls] == ["int32", "Tensor[(2), float32]"]
    assert str(mod["id"].checked_type) == "fn [A](A) -> A"


def test_data_types() -> None:
    mod = typed(
        LIST + "def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] { match (%xs) { "
        "Cons(%x, %rest) => { Cons(%f(%x), @map(%f, %rest)) }, Nil => { Nil }, } }\n"
        "def @main(%x: int32) { @map(fn (%a: int32) { greater(%a, 0) }, Cons(%x, Nil)) }"
    )
    assert str(mod["main"].ret_type) == "List[bool]"
    match = next(e for e in relay.post_order(mod["map"]) if isinstance(e, relay.Match))
    first, rest = match.clauses[0].lhs.patterns
    assert str(first.var.type_annotation) == "A"
    assert match.clauses[0].rhs.args[0].args[0] is first.var
    assert str(first.var.checked_type) == "A" and str(rest.var.checked_type) == "List[A]"


def test_tuples_and_references() -> None:
    mod = typed(
        "def @main(%x: int32) { let %r = ref((%x, 1f)); let %u = ref_write(%r, (2, 3f)); "
        "(ref_read(%r).1, %u, ()) }"
    )
    assert str(mod["main"].ret_type) == "(float32, (), ())"


def test_a_tuple_pattern_and_a_function_in_a_tuple() -> None:
    x = relay.var("x", "int32")
    a, b = relay.Var("a"), relay.Var("b")
    pair = relay.Tuple([relay.Function([x], x), relay.const(2)])
    pattern = relay.PatternTuple([relay.PatternVar(a), relay.PatternVar(b)])
    expr = infer_type(relay.Match(pair, [relay.Clause(pattern, relay.Call(a, [b]))]))
    assert expr.checked_type == i32


def test_operators_are_values() -> None:
    f = relay.Var("f")
    body = relay.Call(f, [relay.const(1.0)])
    expr = relay.Let(f, relay.op.get("exp"), body)
    assert str(infer_type(expr).checked_type) == "float32"


def test_chains_do_not_deepen_the_stack() -> None:
    x = relay.var("x", shape=(2,))
    y, lets = x, []
    for k in range(3000):
        lets.append((relay.Var(f"v{k}"), relay.nn.relu(y)))
        y = lets[-1][0]
    for variable, value in reversed(lets):
        y = relay.Let(variable, value, y)
    assert str(infer_type(relay.Function([x], y)).ret_type) == "Tensor[(2), float32]"


def test_build_takes_weights_without_a_type() -> None:
    x, w, b = relay.var("x", shape=(relay.Any(), 3)), relay.var("w"), relay.var("b")
    func = relay.Function([x, w, b], relay.nn.bias_add(relay.nn.dense(x, w, units=2), b))
    exe = tvm_disc.build(func)
    weight, bias = np.arange(6, dtype="float32").reshape(2, 3), np.float32([1, 2])
    for rows in (1, 5, 0):
        data = np.ones((rows, 3), "float32")
        np.testing.assert_allclose(exe(data, weight, bias), data @ weight.T + bias)


def test_a_param_gives_its_own_type() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 3)), relay.var("w")
    exe = tvm_disc.build(relay.Function([x, w], x + w), params={"w": np.ones(3, "float32")})
    np.testing.assert_allclose(exe(np.ones((2, 3), "float32")), np.full((2, 3), 2.0))


REFUSED = [
    (
        "def @main(%x: int32) { if (%x) { 1 } else { 2 } }",
        "condition of an if at from_string:2:24: expected bool",
    ),
    ("def @main(%c: bool) { if (%c) { 1 } else { 2f } }", "branches of an if.*int32 and float32"),
    ("def @main(%x: int32) { %x.0 }", "expected a tuple of at least 1 field, found int32"),
    (
        "def @main(%x: (int32, int32)) { %x.2 }",
        "expected a tuple of at least 3 fields, found .int32, int32.",
    ),
    ("def @main(%x: int32) { %x(1) }", "expected a function to call, found int32"),
    ("def @main(%f: fn (int32) -> int32) { %f(1, 2) }", "f: expected 1 argument, found 2"),
    (
        "def @main(%f: fn (int32) -> int32) { %f(1f) }",
        "argument 0 of f at from_string:2:.*: expected int32",
    ),
    ("def @main(%x) { %x }", "type of '%x': no use determines it"),
    ("def @main(%x: int32) { let %f = fn (%g) { %g(%g) }; 1 }", "type would contain itself"),
    ("def @main() -> float32 { 1 }", "a function's result.*: expected float32, found int32"),
    ("def @f(%x: int32) { %x }\ndef @main() { @f(1f) }", "argument 0 of f"),
    (LIST + "def @main() { Cons(1, Cons(2f, Nil)) }", "argument 1 of Cons"),
    (
        LIST + "def @main(%x: int32) { match? (%x) { Nil => { 1 }, } }",
        r"expected List\[_\], found int32",
    ),
    (
        "def @main(%x: ref(int8)) { ref_write(%x, 1f) }",
        "ref_write at .*: expected int8, found float32",
    ),
    ("def @main(%x: int32) { ref_read(%x) }", r"ref_read at .*: expected ref\(_\), found int32"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        typed(text)


def test_recursion_by_the_same_node() -> None:
    f, i = relay.GlobalVar("f"), relay.var("i", "int32")
    again = relay.If(relay.equal(i, relay.const(0)), i, f(i - relay.const(1)))
    mod = infer_types(relay.IRModule({f: relay.Function([i], again), "main": f(relay.const(3))}))
    assert mod["main"].ret_type == i32 == mod["f"].ret_type


def test_a_parsed_function_has_its_type_on_access_and_its_text_stays() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 2), float32]) { exp(%x) }'
    mod = relay.parse(text)
    printed = mod.astext()
    assert str(mod["main"].body.checked_type) == "Tensor[(?, 2), float32]"
    assert isinstance(mod["main"].checked_type, relay.FuncType)
    assert mod.astext() == printed and "ty=" not in printed


def test_a_parsed_part_that_needs_its_module_says_what_to_do() -> None:
    text = '#[version = "0.0.5"]\ndef @f(%x: int32) { %x } def @main(%x: int32) { @f(%x) }'
    with pytest.raises(ValueError, match=r"has not been inferred; run relay.transform.InferType"):
        _ = relay.parse(text)["main"].body.checked_type


@pytest.mark.parametrize("kind", ["ShapeVar", "BaseType", "Constraint"])
@pytest.mark.parametrize("place", ["alone", "in a tuple", "result"])
def test_variables_of_another_kind_are_no_types(kind: str, place: str) -> None:
    odd = relay.TypeVar("t", relay.TypeKind[kind])
    given: Any = relay.TupleType([odd]) if place == "in a tuple" else odd
    x = relay.var("x", None if place == "result" else given)
    func = relay.Function([x], x, given, [odd])
    message = f"type variable t: expected the kind Type, found {kind}"
    with pytest.raises(TypeMismatch, match=message):
        relay.transform.InferType()(relay.IRModule.from_expr(func))
