"""Relay's grammar: what is read, what it becomes, and where it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.language.programs import HEADER, LIST, module
from tvm_disc import relay
from tvm_disc.errors import ParseError


def body(text: str) -> Any:
    return relay.parse(module(text))["f"].body


MATCHED = {
    "a variable": ("%x", "%x"),
    "in parentheses": ("(%x)", "%x"),
    "a call": ("@g(%x)", "@g(%x)"),
    "an item": ("(1, %x).1", "(1, %x).1"),
    "a constructor": ("(C(1, %x))", "C(1, %x)"),
    "one without fields": ("(N)", "N"),
}


@pytest.mark.parametrize("form", MATCHED)
@pytest.mark.parametrize("word", ["match", "match?"])
def test_what_is_matched(form: str, word: str) -> None:
    data, meaning = MATCHED[form]
    text = (
        f"{LIST}def @g(%x: L[int32]) -> L[int32] {{ %x }}\n"
        f"def @f(%x: L[int32]) -> int32 {{ {word} DATA {{ C(%h, _) => %h, N => {{ 0 }}, }} }}"
    )
    found = body(text.replace("DATA", data))
    assert isinstance(found, relay.Match) and found.complete == (word == "match")
    wanted = body(text.replace("DATA", f"({meaning})"))
    assert relay.structural_equal(found, wanted, map_free_vars=True)


def test_tuples_are_matched() -> None:
    found = body(
        f"{LIST}def @f(%x: L[int32], %y: L[int32]) -> int32 "
        "{ match (%x, %y) { (C(%h: int32, _), C(_, C(_, _))) => %h, (N, _) => 1, _ => 0 } }"
    )
    assert isinstance(found.data, relay.Tuple) and len(found.data) == 2
    first = found.clauses[0].lhs
    assert isinstance(first, relay.PatternTuple) and len(first.patterns) == 2
    assert first.patterns[0].patterns[0].var.type_annotation == relay.scalar_type("int32")
    assert isinstance(found.clauses[2].lhs, relay.PatternWildcard)


@pytest.mark.parametrize(
    "before", ["// a\n", "/* a /* b */ */", "\n\n  ", "// a\n/* b */ // c\n\n"]
)
def test_comments_before_the_version(before: str) -> None:
    for text in (f"{before}{HEADER}def @f() {{ 1 }}", f"{before}  {HEADER}// x\ndef @f() {{ 1 }}"):
        assert relay.parse(text)["f"].body.data == 1
    assert relay.parse_expr(f"{before}1").data == 1


def test_sequences_and_references() -> None:
    found = body("def @f(%x: int32) { let %r = ref(%x); ref_write(%r, 2); %x; ref_read(%r) }")
    kinds = []
    while isinstance(found, relay.Let):
        kinds.append((found.var.name_hint, type(found.value).__name__))
        found = found.body
    assert kinds == [("r", "RefCreate"), ("", "RefWrite"), ("", "Var")]
    assert isinstance(found, relay.RefRead)


def test_types() -> None:
    text = (
        "extern type E\ntype T { Z, }\ntype U[A] { V(fn (A) -> T), W((A, T), ref(A)), }\n"
        "def @f[A](%a: A, %b: (), %c: (int32,), %d: (A, bool), %e: fn () -> (), %g: ref(int32), "
        "%h: Tensor[(), int8], %i: Tensor[(?, 3), float16], %j: U[T], %k: _, %l: E, "
        "%m: fn [B](B) -> A, %n: T[]) -> A { %a }"
    )
    mod = relay.parse(module(text))
    types = {p.name_hint: p.type_annotation for p in mod["f"].params}
    assert types["b"] == relay.TupleType(()) and len(types["c"].fields) == 1
    assert types["g"] == relay.RefType(relay.scalar_type("int32"))
    assert types["h"] == relay.TensorType((), "int8") and types["j"].args == (types["n"],)
    assert types["k"] is None
    again = relay.parse(mod.astext())
    assert relay.structural_equal(mod, again, map_free_vars=True)  # each `_` is one of its own
    assert again.astext() == mod.astext()


def test_free_variables() -> None:
    expr = relay.parse_expr("free_var %x: int32; free_var %y; add(%x, %y)")
    assert [v.name_hint for v in relay.free_vars(expr)] == ["x", "y"]
    again = relay.parse_expr(relay.astext(expr))
    assert relay.structural_equal(again, expr, map_free_vars=True)


def test_attributes_of_every_kind() -> None:
    text = (
        'def @f(%x: int32, a=1, b=-2.5f, c="s t", d=True, e=[1, 2], g=["p", "q"], h=[], '
        'l=None, relay.n=[1f, 2f], "odd key"=3) { %x }'
    )
    mod = relay.parse(module(text))
    assert mod["f"].attrs == {
        "a": 1,
        "b": -2.5,
        "c": "s t",
        "d": True,
        "e": (1, 2),
        "g": ("p", "q"),
        "h": (),
        "l": None,
        "relay.n": (1.0, 2.0),
        "odd key": 3,
    }
    assert relay.structural_equal(mod, relay.parse(mod.astext()))
    assert relay.structural_equal(mod, relay.load_json(relay.save_json(mod)))


def test_objects_of_a_table_are_constants_dims_and_attributes() -> None:
    text = (
        "def @f(%x: Tensor[(meta[tir.SizeVar][0], 2), float32]) "
        "{ add(%x, meta[relay.Constant][1], ) }"
    )
    table = {
        "tir.SizeVar": [relay.size_var("n")],
        "relay.Constant": [relay.const(1.0), relay.const(np.ones((1, 2), "float32"))],
    }
    mod = relay.parse(module(text), init_meta_table=table)
    assert mod["f"].body.args[1] is table["relay.Constant"][1]
    assert mod["f"].params[0].type_annotation.shape[0] == relay.size_var("n")


def test_metadata_is_decoded_where_it_is_asked_for() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.IRModule.from_expr(
        relay.Function([x], x + relay.const([1.0, 2.0]) + relay.const([3.0, 4.0]))
    )
    text = mod.astext()
    head, _, meta = text.partition("#[metadata]")
    damaged = meta.replace('"b64ndarrays": [', '"b64ndarrays": ["damaged", ')
    assert relay.parse(text)["main"].body.args[1].data.tolist() == [3, 4]
    used = head.replace("meta[relay.Constant][0]", "1f").replace("meta[relay.Constant][1]", "1f")
    assert relay.parse(f"{used}#[metadata]{damaged}")["main"].body.args[1].data == 1
    with pytest.raises(ParseError, match="b64ndarrays"):
        relay.parse(f"{head}#[metadata]{damaged}")


def test_spans_are_kept() -> None:
    text = module(
        "def @f(%x: int32 /* ty=int32 span=a.py:1:2 */) { add(%x, 1) /* span=a.py:3:4 */ }"
    )
    found = relay.parse(text)["f"]
    assert str(found.params[0].span) == "a.py:1:2" and str(found.body.span) == "a.py:3:4"
    again = relay.load_json(relay.save_json(relay.parse(text)))["f"]
    assert again.params[0].span == found.params[0].span and again.body.span == found.body.span


REFUSED = {
    "a function twice": ("def @f() { 1 } def @f() { 2 }", "2:20: function @f is defined twice"),
    "a type twice": ("type T { A, }\ntype T { B, }", "3:6: type T is defined twice"),
    "a constructor twice": ("type T { A, A, }", "2:13: constructor A is defined twice"),
    "of two types": ("type T { A, }\ntype U { A, }", "3:10: constructor A is defined twice"),
    "a parameter twice": ("def @f(%x: int32, %x: int32) { %x }", "parameter %x is defined twice"),
    "a type parameter": ("def @f[A, A](%x: A) { %x }", "2:11: type parameter A is defined twice"),
    "a graph binding": ("def @f() { %0 = 1; %0 = 2; %0 }", "%0 is bound twice in this block"),
    "no function": ("def @f() { @g() }", "function @g is not defined in this module"),
    "no variable": ("def @f() { %x }", "variable %x is not bound here"),
    "out of its block": ("def @f() { %0 = { let %y = 1; %y }; %y }", "variable %y is not bound"),
    "no binding": ("def @f() { %3 }", "graph binding %3 is not bound here"),
    "no operator": ("def @f() { fly(1) }", "unknown operator or constructor 'fly'"),
    "no type": ("def @f(%x: Foo) { %x }", "unknown type 'Foo'"),
    "no constructor": (f"{LIST}def @f(%x: L[int32]) {{ match %x {{ D => 1 }} }}", "known: ['C', "),
    "fields of a pattern": (
        f"{LIST}def @f(%x: L[int32]) {{ match %x {{ C(_) => 1 }} }}",
        "C has 2 field(s), the pattern 1",
    ),
    "an open match": (
        f"{LIST}def @f(%x: L[int32]) {{ match %x 1 }}",
        "clauses of match, found '1'",
    ),
    "a clause": (f"{LIST}def @f(%x: L[int32]) {{ match %x {{ _ 1 }} }}", "expected '=>'"),
    "an open block": ("def @f() { 1 ", "after the expression, found the end of the text"),
    "nothing": ("def @f() { }", "expected an expression, found '}'"),
    "after a sequence": ("def @f() { 1; }", "expected an expression, found '}'"),
    "no semicolon": ("def @f() { let %x = 1 %x }", "expected ';' after let %x"),
    "references": ("def @f() { ref_write(1) }", "ref_write takes 2 operand(s), found 1"),
    "a reference's type": ("def @f(%x: ref(int32, int8)) { %x }", "expected ')' after the type"),
    "attributes": ("def @f(%x: int32, a=) { %x }", "expected"),
    "an attribute twice": (
        "def @f() { nn.softmax(1f, axis=0, axis=1) }",
        "2:35: attribute axis is given twice",
    ),
    "twice of a function": ("def @f(Tag=1, Tag=1) { 1 }", "2:15: attribute Tag is given twice"),
    "an attribute": ("def @f() { nn.relu(1f, axis=1) }", "nn.relu has no attribute 'axis'"),
    "a table": ("def @f() { meta[relay.Constant][2] }", "no metadata section relay.Constant"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_place(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(ParseError) as found:
        relay.parse(module(text))
    assert message in str(found.value) and found.value.line >= 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @f() { 1 }", 'expected #[version = "0.0.5"] at the start'),
        ('#[version = "0.0.4"]\ndef @f() { 1 }', 'found version "0.0.4"'),
        ("/* a", "expected */ to end this comment"),
        ("// a\n/* b */", 'expected #[version = "0.0.5"]'),
        ("", 'expected #[version = "0.0.5"]'),
    ],
)
def test_the_version_is_asked_for(text: str, message: str) -> None:
    with pytest.raises(ParseError) as found:
        relay.parse(text)
    assert message in str(found.value)
