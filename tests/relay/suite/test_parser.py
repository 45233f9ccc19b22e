"""What the text format reads, construct by construct, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import ParseError

HEAD = '#[version = "0.0.5"]\n'
UNIT = relay.Tuple([])
INT = relay.scalar_type("int32")


def alike(a: Any, b: Any) -> bool:
    return bool(relay.structural_equal(a, b, map_free_vars=True))


def read(text: str) -> Any:
    """An expression, which is the same when it is printed and read again."""
    found = relay.parse_expr(text)
    assert alike(relay.parse_expr(found.astext()), found)
    return found


def module(text: str) -> relay.IRModule:
    found = relay.parse(HEAD + text)
    assert alike(relay.fromtext(found.astext()), found)
    return found


def reads(text: str, expr: Any) -> None:
    assert alike(read(text), expr), text


def number(text: str) -> Any:
    found = read(text)
    assert isinstance(found, relay.Constant)
    return found.data.numpy().item()


@pytest.mark.parametrize(
    "text", ["// line\n()", "/* block */ ()", "/* a /* nested */ block */ ()", "() // end\n"]
)
def test_comments(text: str) -> None:
    reads(text, UNIT)


def test_integers() -> None:
    for text, value in {"1": 1, "10": 10, "0": 0, "-100": -100, "-05": -5}.items():
        assert number(text) == value
    assert number("9223372036854775807") == 2**63 - 1
    for text in ("-42i", "-42i16", "-42i32", "-42i64"):
        assert number(text) == -42
    reads("-42i16", relay.const(-42, "int16"))
    reads("-42i", relay.const(-42, "int32"))
    reads("-42i64", relay.const(-42, "int64"))
    reads("2147483647", relay.const(2147483647, "int32"))
    reads("2147483648", relay.const(2147483648, "int64"))
    for text in ("2147483648i32", "32768i16"):
        with pytest.raises(ParseError):
            relay.parse_expr(text)


def test_floats() -> None:
    for text, value in {"1.0f": 1.0, "1.56667f": 1.56667, "0.0f": 0.0, "-10.0f": -10.0}.items():
        assert math.isclose(number(text), value, rel_tol=1e-6)
    for form in ("1e{}1f", "1E{}1f", "1.0e{}1f", "1.0E{}1f"):
        assert math.isclose(number(form.format("-")), 0.1, rel_tol=1e-6)
        assert number(form.format("+")) == 10
    reads("3f16", relay.const(3.0, "float16"))
    reads("3f", relay.const(3.0, "float32"))
    reads("3f32", relay.const(3.0, "float32"))
    reads("3f64", relay.const(3.0, "float64"))
    for text in ("3.40283e+38f32", "65505f16"):
        with pytest.raises(ParseError):
            relay.parse_expr(text)


def test_bools() -> None:
    assert number("True") is True and number("False") is False
    reads("True", relay.const(True, "bool"))


def test_signs() -> None:
    assert number("--10") == 10 and number("---10") == -10


@pytest.mark.parametrize(
    ("sign", "name"),
    [
        ("*", "multiply"),
        ("/", "divide"),
        ("+", "add"),
        ("-", "subtract"),
        ("<", "less"),
        (">", "greater"),
        ("<=", "less_equal"),
        (">=", "greater_equal"),
        ("==", "equal"),
        ("!=", "not_equal"),
    ],
)
def test_binary_operators(sign: str, name: str) -> None:
    one = relay.const(1)
    reads(f"1 {sign} 1", getattr(relay, name)(one, relay.const(1)))


def test_parentheses() -> None:
    assert alike(read("1 * 1 + 1"), read("(1 * 1) + 1"))
    assert not alike(read("1 * 1 + 1"), read("1 * (1 + 1)"))


def test_precedence() -> None:
    assert alike(read("1 * 1 + 1 < 1 == 1"), read("(((1 * 1) + 1) < 1) == 1"))
    assert alike(read("1 == 1 < 1 + 1 * 1"), read("1 == (1 < (1 + (1 * 1)))"))


def test_names() -> None:
    assert read("let %foo = (); %foo").body.name_hint == "foo"
    assert isinstance(read("@foo"), relay.GlobalVar) and read("@foo").name_hint == "foo"
    assert read("add") is relay.op.get("add")
    assert read("nn.global_avg_pool2d").name == "nn.global_avg_pool2d"


def test_metadata_that_is_not_there() -> None:
    with pytest.raises(ParseError, match="1337"):
        relay.parse_expr("meta[type_key][1337]")


def test_bindings() -> None:
    x, y = relay.var("x"), relay.var("y")
    reads("let %x = 1; ()", relay.Let(x, relay.const(1), UNIT))
    inner = relay.Let(y, relay.const(2), relay.Tuple([x, y]))
    reads("let %x = 1; let %y = 2; (%x, %y)", relay.Let(x, relay.const(1), inner))


def test_sequences() -> None:
    unused = relay.var("_")
    reads("(); ()", relay.Let(unused, UNIT, UNIT))
    reads("let %_ = 1; ()", relay.Let(unused, relay.const(1), UNIT))


def test_graph_bindings() -> None:
    reads("%0 = (); %1 = 1; (%0, %0, %1)", relay.Tuple([UNIT, UNIT, relay.const(1)]))


def test_one_graph_binding() -> None:
    reads("%1 = (); %1", UNIT)


@pytest.mark.parametrize("text", ["let @x = 1; ()", "let x = 1; ()"])
def test_only_local_names_are_bound(text: str) -> None:
    with pytest.raises(ParseError):
        relay.parse_expr(text)


def test_tuples() -> None:
    reads("()", UNIT)
    reads("(0,)", relay.Tuple([relay.const(0)]))
    reads("(0, 1, 2)", relay.Tuple([relay.const(k) for k in range(3)]))


def test_projections() -> None:
    x = relay.var("x")
    body = relay.TupleGetItem(x, 0)
    reads("free_var %x: (int32, float32, int8); %x.0", relay.TupleGetItem(_typed(x), 0))
    assert isinstance(body, relay.TupleGetItem)


def _typed(x: relay.Var) -> relay.Var:
    types = [relay.scalar_type(d) for d in ("int32", "float32", "int8")]
    return relay.Var(x.name_hint, relay.TupleType(types))


def test_functions() -> None:
    x, y, typed = relay.var("x"), relay.var("y"), relay.var("x", INT)
    reads("fn () { 0 }", relay.Function([], relay.const(0)))
    reads("fn (%x) { %x }", relay.Function([x], x))
    reads("fn (%x, %y) { %x + %y }", relay.Function([x, y], relay.add(x, y)))
    reads("fn (%x: int32) -> int32 { %x }", relay.Function([typed], typed, INT))


def test_definitions() -> None:
    mod = module("def @id(%x: int32) -> int32 { %x }")
    assert isinstance(mod["id"], relay.Function)


def test_definitions_that_call_themselves() -> None:
    assert isinstance(module("def @id(%x: int32) -> int32 { @id(%x) }")["id"], relay.Function)


def test_branches() -> None:
    branch = relay.If(relay.const(True), relay.const(0), relay.const(1))
    reads("if (True) { 0 } else { 1 }", branch)


def test_branches_are_scopes() -> None:
    with pytest.raises(ParseError, match="%x is not bound"):
        relay.parse_expr("if (True) { let %x = (); () } else { %x }")


def test_references() -> None:
    module("def @main(%x: float32) { let %r = ref(%x); ref_write(%r, 1f); ref_read(%r) }")


@pytest.mark.parametrize(
    "text",
    [
        "let %constant = fn () { 0 }; %constant()",
        "let %id = fn (%x) { %x }; %id(1)",
        "let %f = fn (%x, %y) { %x * %y }; %f(2, 3)",
        "let %f = fn (%x) { fn (%y) { %x * %y } }; %f(1)(2)",
        "let %f = fn (%x) { fn (%y) { fn (%z) { %x * %y * %z } } }; %f(1)(2)(3)",
        "(fn (%x) { %x })(1)",
        "(fn (%x) { fn (%y) { %x } })(1)(2)",
    ],
)
def test_calls(text: str) -> None:
    assert relay.well_formed(read(text)) if hasattr(relay, "well_formed") else read(text)


def test_calls_of_operators() -> None:
    reads("abs(1)", relay.abs(relay.const(1)))


def test_types_left_open() -> None:
    unused = relay.var("_", relay.IncompleteType())
    assert isinstance(read("let %_ : _ = (); ()"), relay.Let) and unused is not None


@pytest.mark.parametrize(
    "name", [f"{k}{b}" for k in ("int", "uint") for b in (8, 16, 32, 64)] + ["bool", "float16x4"]
)
def test_types_of_elements(name: str) -> None:
    assert read(f"let %_ : {name} = (); ()").var.type_annotation.dtype == name


@pytest.mark.parametrize(
    ("text", "shape"),
    [("()", ()), ("(1)", (1,)), ("(1,)", (1,)), ("(1, 1)", (1, 1)), ("(?, 1)", (relay.Any(), 1))],
)
def test_tensor_types(text: str, shape: Any) -> None:
    unused = relay.var("_", relay.TensorType(shape, "float32"))
    reads(f"let %_ : Tensor[{text}, float32] = (); ()", relay.Let(unused, UNIT, UNIT))


@pytest.mark.parametrize(("text", "args"), [("fn () -> int32", []), ("fn (int32) -> int32", [INT])])
def test_function_types(text: str, args: Any) -> None:
    unused = relay.var("_", relay.FuncType(args, INT, [], []))
    reads(f"let %_: {text} = (); ()", relay.Let(unused, UNIT, UNIT))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tuple_types(count: int) -> None:
    text = {0: "()", 1: "(int32,)", 2: "(int32, int32)"}[count]
    unused = relay.var("_", relay.TupleType([INT] * count))
    reads(f"let %_: {text} = (); ()", relay.Let(unused, UNIT, UNIT))


LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"


def test_data_types() -> None:
    mod = module("type Ayy { Nil, }")
    assert [c.name for c in mod[mod.get_global_type_var("Ayy")].constructors] == ["Nil"]


def test_data_types_of_unknown_dims() -> None:
    mod = module("type my_dtype { my_cons(Tensor[(?, 1), uint16]), }")
    (_, cons) = mod.get_type("my_dtype")
    assert [relay.is_dynamic(t) for t in cons.inputs] == [True]


def test_data_types_without_constructors() -> None:
    assert module("type Ayy { }").get_type("Ayy")[1:] == ()


def test_several_constructors() -> None:
    (_, cons, nil) = module(LIST).get_type("List")
    assert (cons.name_hint, len(cons.inputs), nil.name_hint) == ("Cons", 2, "Nil")


def test_several_type_parameters() -> None:
    mod = module("type Either[A, B] { Left(A), Right(B), }")
    assert len(mod[mod.get_global_type_var("Either")].type_vars) == 2


@pytest.mark.parametrize("word", ["match", "match?"])
def test_matches(word: str) -> None:
    body = f"{word} (%xs) {{ Cons(_, %rest) => {{ 1 + @length(%rest) }}, Nil => {{ 0 }}, }}"
    mod = module(LIST + f"def @length[A](%xs: List[A]) -> int32 {{ {body} }}")
    assert mod["length"].body.complete is (word == "match")
    assert [type(c.lhs).__name__ for c in mod["length"].body.clauses] == ["PatternConstructor"] * 2


def test_expressions_of_constructors() -> None:
    mod = module(LIST + "def @make(%x: int32) -> List[int32] { Cons(%x, Nil) }")
    (_, cons, nil) = mod.get_type("List")
    assert mod["make"].body.op is cons and mod["make"].body.args[1].op is nil


@pytest.mark.parametrize(
    "text",
    [
        LIST + LIST,
        LIST + "type Other { Nil, }",
        "type Ayy { Lmao, } type Haha { Lmao, }",
        "def @id(%x: int32) -> int32 { %x } def @id(%x: int32) -> int32 { %x }",
    ],
)
def test_definitions_are_made_once(text: str) -> None:
    with pytest.raises(ParseError, match="twice"):
        relay.parse(HEAD + text)


def test_data_types_of_elsewhere() -> None:
    mod = module("extern type T")
    assert mod.get_type("T")[1:] == ()


def test_a_network() -> None:
    mod, _ = relay.testing.mlp.get_workload(1)
    relay.assert_structural_equal(relay.parse(mod.astext()), mod)


def test_a_network_with_its_parameters() -> None:
    mod, params = relay.testing.mlp.get_workload(1)
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    mod = relay.transform.InferType()(mod)
    relay.assert_structural_equal(relay.parse(mod.astext()), mod)


def test_results_of_several_functions() -> None:
    text = "def @main(%x: (Tensor[(2), float32], int32)) -> (int32, int32) { (%x.1, %x.1) }"
    assert str(module(text)["main"].ret_type) == "(int32, int32)"


def test_branches_in_bindings() -> None:
    module(
        "def @example(%b: bool) { %0 = if (%b) { const(1) } else { const(0) }; %0 }".replace(
            "const(1)", "1"
        ).replace("const(0)", "0")
    )


def test_quoted_attributes() -> None:
    mod = module('def @main(%x: int32, kind="a b", size=3) { %x }')
    assert mod["main"].attrs["kind"] == "a b" and mod["main"].attrs["size"] == 3


def test_metadata_from_the_caller() -> None:
    table = {"relay.Constant": [relay.const(np.arange(3, dtype="float32"))]}
    text = HEAD + "def @main() { meta[relay.Constant][0] }"
    mod = relay.parse(text, "from_string", None, table)
    assert mod["main"].body.data.numpy().tolist() == [0, 1, 2]


def test_definitions_from_the_caller() -> None:
    base = module(LIST + "def @one() -> int32 { 1 }")
    mod = relay.parse(HEAD + "def @main() { Cons(@one(), Nil) }", "given", base)
    assert mod["main"].body.op is base.get_type("List")[1] and "one" in mod
    with pytest.raises(ParseError, match="given"):
        relay.parse(HEAD + "def @main() { @two() }", "given", base)
