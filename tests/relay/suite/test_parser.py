"""What the text format means, by layer: words, literals, types, expressions, scopes, modules.

In a refused text, ``~`` stands right before the place that the error has to name.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import ParseError, TypeMismatch

HEAD = '#[version = "0.0.5"]\n'
FOREST = """
type Rose[T] { Node(T, Forest[T]), Bud, }
type Forest[T] { Plant(Rose[T], Forest[T]), Clearing, }
"""


def read(text: str) -> Any:
    """An expression, which is the same when it is printed and read again."""
    found = relay.parse_expr(text)
    relay.assert_structural_equal(relay.parse_expr(found.astext()), found, map_free_vars=True)
    return found


def module(text: str) -> relay.IRModule:
    """A module, which is the same when it is printed and read again."""
    found = relay.parse(HEAD + text)
    relay.assert_structural_equal(relay.parse(found.astext()), found)
    return found


def same(text: str, other: str) -> bool:
    return bool(relay.structural_equal(read(text), read(other), map_free_vars=True))


def refused(marked: str, message: str, read_it: Any = relay.parse_expr) -> None:
    before, _, after = marked.partition("~")
    with pytest.raises(ParseError, match=message) as caught:
        read_it(before + after)
    line = before.count("\n") + 1
    assert (caught.value.line, caught.value.column) == (line, len(before.rpartition("\n")[2]) + 1)


BLANKS = ["\t", "\n\n", "\r\n", "/**/", "/* - /* \n */ ; */", "// ) }\n", " /* ty=int8 */ "]
WORDS = "let %acc : int64 = clip ( %in , a_min= -3f , a_max= inff ) ; if ( %ok ) { %acc } "
WORDS += "else { fn ( %acc : ( int8 , ) , Level = 2 ) -> int8 { %acc .0 } }"
FREE = "free_var %in; free_var %ok: bool; "


@pytest.mark.parametrize("blank", BLANKS)
def test_any_blank_separates_words(blank: str) -> None:
    assert same(FREE + WORDS.replace(" ", blank), FREE + WORDS)


@pytest.mark.parametrize("count", range(1, len(WORDS.split())))
def test_a_text_that_stops_early_is_refused(count: int) -> None:
    with pytest.raises(ParseError, match="found the end of the text"):
        relay.parse_expr(FREE + " ".join(WORDS.split()[:count]))


@pytest.mark.parametrize("name", ["let", "fn", "exp", "if", "_", "7up", "a/b/c", "snake_9", "Node"])
def test_a_mark_makes_any_word_a_name(name: str) -> None:
    assert read(f"@{name}").name_hint == name
    assert relay.parse_expr(f"free_var %{name}: bool; %{name}").name_hint == name


INTS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64"]


def suffix(dtype: str) -> str:
    return dtype.replace("uint", "u").replace("int", "i").replace("float", "f")


@pytest.mark.parametrize("dtype", INTS)
def test_integers_reach_the_limits_of_their_type(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for value in (limits.min, 0, 1, limits.max):
        data = read(f"{value}{suffix(dtype)}").data.numpy()
        assert (data.dtype.name, data.shape, data.item()) == (dtype, (), value)
    for value in (limits.min - 1, limits.max + 1):
        refused(f"({limits.max}{suffix(dtype)}, ~{value}{suffix(dtype)})", "does not fit")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_reach_the_limits_of_their_type(dtype: str) -> None:
    limits = np.finfo(dtype)
    for value in (limits.max, -limits.max, limits.tiny, limits.eps, 0.0, 7.75):
        data = read(f"{value!s}{suffix(dtype)}").data.numpy()
        assert (data.dtype.name, data.shape, data[()]) == (dtype, (), np.dtype(dtype).type(value))
    assert read(f"-inf{suffix(dtype)}").data.numpy().item() == -np.inf
    above = {"float16": "6.6e4", "float32": "3.5e38", "float64": "1.8e308"}[dtype]
    with np.errstate(over="ignore"):
        refused(f"exp(~{above}{suffix(dtype)})", f"does not fit {dtype}")


NUMBERS = {
    "0077": (77, "int32"), "77u": (77, "uint32"), "-2147483648": (-(2**31), "int32"),
    "-2147483649": (-(2**31) - 1, "int64"), "6.25": (6.25, "float32"), "6.f": (6, "float32"),
    "625E-2": (6.25, "float32"), "----6.5f64": (6.5, "float64"), "-----8i8": (-8, "int8"),
    "False": (False, "bool"),
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_how_a_number_may_be_written(text: str) -> None:
    data = read(text).data.numpy()
    assert (data.item(), data.dtype.name) == NUMBERS[text]


DIMS = ["()", "(0)", "(1)", "(?)", "(0, 1)", "(?, 0, 6)", "(6, ?, ?, 1)", "(9, 9,)"]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "bool", "int16x8"])
@pytest.mark.parametrize("dims", DIMS)
def test_tensors(dims: str, dtype: str) -> None:
    parts = [d.strip() for d in dims.strip("()").split(",") if d.strip()]
    wanted = relay.TensorType([relay.Any() if d == "?" else int(d) for d in parts], dtype)
    found = read(f"free_var %w: Tensor[{dims}, {dtype}]; %w").type_annotation
    assert found == wanted and relay.is_dynamic(found) == ("?" in dims)
    if not parts:
        assert found == read(f"free_var %w: {dtype}; %w").type_annotation


TYPES = {
    "()": "()", "(bool)": "bool", "(bool,)": "(bool,)",
    "((), (int8, (int8,)))": "((), (int8, (int8,)))", "fn () -> ()": "fn () -> ()",
    "fn (int8,) -> fn (bool) -> (uint8,)": "fn (int8) -> fn (bool) -> (uint8,)",
    "fn (fn (Tensor[(?, 0), int8]) -> bool) -> int8": None,
    "Ref[(int8, Ref[bool])]": "ref((int8, ref(bool)))",
    "ref(fn () -> int64)": "ref(fn () -> int64)",
    "fn [S, T](S, (T, S)) -> Ref[T]": "fn [S, T](S, (T, S)) -> ref(T)",
}  # fmt: skip


@pytest.mark.parametrize("text", TYPES)
@pytest.mark.parametrize("place", ["fn (%w: {}) {{ %w }}", "let %w: {} = @make(); %w"])
def test_types_of_types(text: str, place: str) -> None:
    found = read(place.format(text))
    var = found.params[0] if isinstance(found, relay.Function) else found.var
    assert str(var.type_annotation) == (TYPES[text] or text)


LEVELS = {"*": 4, "/": 4, "+": 3, "-": 3, "<": 2, "<=": 2, ">": 2, ">=": 2, "==": 1, "!=": 1}
CALLEES = "multiply divide add subtract less less_equal greater greater_equal equal not_equal"
CALLEE = dict(zip(LEVELS, CALLEES.split(), strict=True))


@pytest.mark.parametrize("sign", LEVELS)
def test_signs_bind_by_level_and_then_from_the_left(sign: str) -> None:
    free = "free_var %p: int16; free_var %q: int16; free_var %r: int16; "
    assert same(f"{free}%q {sign}%p", f"{free}{CALLEE[sign]}(%q, %p)")
    for other, level in LEVELS.items():
        whole = read(f"{free}%p {sign} %q {other} %r")
        assert whole.op.name == CALLEE[other if level <= LEVELS[sign] else sign]
        for forced in (f"(%p {sign} %q) {other} %r", f"%p {sign} (%q {other} %r)"):
            inner = [isinstance(a, relay.Call) for a in read(free + forced).args]
            assert inner == [forced[0] == "(", forced[0] != "("]


MEANINGS = {
    "fn (%w: _) { let %u: _ = %w; %u }": "fn (%w) { let %u = %w; %u }",
    "%t.0 -2i8": "subtract(%t.0, 2i8)", "%t.0 - -2i8": "subtract(%t.0, -2i8)",
    "%t.1.0 * exp(%t.0)": "multiply((%t.1).0, exp(%t.0))", "(%t,).0.1.0": "((((%t,).0).1).0)",
    "{ { %t } }.0": "%t.0", "(exp)(%t.0,)": "exp(%t.0)",
    "if (True) { %t.0 } else { 1i8 } + 4i8": "add(if (True) { %t.0 } else { 1i8 }, 4i8)",
    "fn (%u) { fn () { %u } }(%t)()": "((fn (%u) { fn () { %u } })(%t))()",
    "@next(%t)(3).2": "(((@next)(%t))(3)).2", "ref_read(ref(%t)).1": "(ref_read(ref(%t))).1",
    "%5 = 1i8; ((%5 = 2i8; exp(%5)), %5)": "(exp(2i8), 1i8)",
    "%5 = 1; if (%6 = True; %6) { %6 = %5; %6 } else { 2 }": "if (True) { 1 } else { 2 }",
    "fn (%a) { %5 = %a; fn (%a) { (%a, %5) } }": "fn (%b) { fn (%c) { (%c, %b) } }",
    "let %a = 3; (let %a = 4; %a, %a)": "let %a = 3; (let %b = 4; %b, %a)",
    "let %a = 3; (fn (%a) { %a })(%a)": "let %a = 3; (fn (%z) { %z })(%a)",
    "let %loop = fn (%n) { %loop(%n) }; %loop": "let %l = fn (%m) { %l(%m) }; %l",
    "@log(3); @log(4); 5": "let %a = @log(3); let %b = @log(4); 5",
}  # fmt: skip


@pytest.mark.parametrize("text", MEANINGS)
def test_what_belongs_together_and_which_name_is_meant(text: str) -> None:
    free = "free_var %t: (int8, (int8,)); "
    assert same(free + text, free + MEANINGS[text])


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("tail", ["", ","])
def test_commas_at_the_end(count: int, tail: str) -> None:
    fields = ", ".join(f"{k}i64" for k in range(count)) + (tail if count else "")
    found = read(f"({fields})")
    assert isinstance(found, relay.Tuple) == (count != 1 or tail == ",")
    assert len(read(f"@sink({fields})").args) == count
    params = ", ".join(f"%p{k}" for k in range(count)) + (tail if count else "")
    assert len(read(f"fn ({params}) {{ () }}").params) == count


VALUES = {
    "-12": -12, "2.5f": 2.5, "-4e-2": -0.04, "inff": np.inf, "True": True, "None": None,
    '"two words"': "two words", '""': "", "[]": (), "[3]": (3,), "(3, 4)": (3, 4),
    "[[0, 1], [], [-2]]": ((0, 1), (), (-2,)), '["NHWC", None]': ("NHWC", None), "nullptr": None,
}  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("key", ["Depth", "a.b.c", "global_symbol"])
def test_attributes_of_functions(text: str, key: str) -> None:
    func = read(f"fn (%w: bool, {key}={text}, Last=1) {{ %w }}")
    assert dict(func.attrs) == {key: VALUES[text], "Last": 1}


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("argsort(%w, is_ascend=False)", {"axis": -1, "is_ascend": False, "dtype": ""}),
        ("expand_dims(%w, axis=0)", {"axis": 0, "num_newaxis": 1}),
        ("prod(%w, axis=[1, 0])", {"axis": (1, 0), "keepdims": False, "exclude": False}),
        ("nn.pad(%w, 0f, pad_width=[[0, 2], [1, 0]])", {"pad_width": ((0, 2), (1, 0))}),
        ("clip(%w, a_min=0, a_max=6f)", {"a_min": 0.0, "a_max": 6.0}),
        ("tanh(%w)", {}),
    ],
)
def test_attributes_of_calls_are_completed(call: str, wanted: dict[str, Any]) -> None:
    attrs = read(f"free_var %w: Tensor[(?, 1), float32]; {call}").attrs or {}
    assert wanted.items() <= dict(attrs).items()


def test_a_graph_binding_is_one_object() -> None:
    """Its number is only a name: any order, any gap; a let of the same value is another thing."""
    total = read("%40 = sqrt(9f); %6 = (%40, %40); %7 = %6.1; add(%7, %40)")
    root = total.args[1]
    assert total.args[0].tuple_value.fields[0] is root is total.args[0].tuple_value.fields[1]
    assert not same("%40 = sqrt(9f); add(%40, %40)", "let %s = sqrt(9f); add(%s, %s)")


BAD = {
    "(4f, ~'a')": "unexpected character", "exp(2f)\n ~/* /* */": r"expected \*/",
    'fn (%q, Tag=~"half\n") { %q }': "end this string on its line",
    "(1,\n2)~\r": "line feed after the carriage return",
    "~expo(2f)": "unknown operator or constructor 'expo'",
    "(6, 6) ~6": "expected the end of the text, found '6'",
    "(3, ~12i24)": "unexpected character '1'",
    "exp(~-exp(9f))": "expected an expression, found '-'",
    "exp(~,)": "expected an expression, found ','", "(1; 2 ~3)": r"expected '\)'",
    "~argsort(1, order=0)": "no attribute 'order'", "~reinterpret(1)": "needs attribute 'dtype'",
    "argsort(1, axis=~;)": "expected an attribute value",
    "(0, ~ref_write(ref(1)))": "takes 2 operand", "if (True) { 1 } ~+ 2": "expected 'else'",
    "fn (%a: int8, ~%a: bool) { 1 }": "parameter %a is defined twice",
    "((let %in = 3; %in), ~%in)": "variable %in is not bound",
    "if (let %in = True; %in) { ~%in } else { 3 }": "variable %in is not bound",
    "(fn (%in) { %in })(~%in)": "variable %in is not bound",
    "%3 = { %8 = 5; %8 }; (%3, ~%8)": "graph binding %8 is not bound",
    "%3 = exp(~%3); %3": "graph binding %3 is not bound",
    "%2 = 5; ~%2 = 6; %2": "%2 is bound twice", "let ~%2 = 5; %2": "expected a variable like %x",
    "let %g = 5~, %g": "expected ';' after let %g",
    "free_var %w: Tensor[~3, int8]; %w": r"expected '\(' before",
    "fn (%w: Tensor[(3 ~4), int8]) { 1 }": "',' between dimensions",
    "fn (%w: Tensor[(3, ~-4), int8]) { 1 }": "non-negative integer",
    "fn (%w: Tensor[(3), ~int9x]) { 1 }": "element type",
    "let %w: fn (int8) ~= 3; %w": "expected '->'", "let %w: ~-> int8 = 3; %w": "expected a type",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_expressions(text: str) -> None:
    refused(text, BAD[text])


@pytest.mark.parametrize("part", ["Ref[]", "Ref[int8, bool]", "meta[Kept][-1]", "meta[Kept][0i8]"])
def test_what_should_be_refused(part: str) -> None:
    with pytest.raises(ParseError):
        relay.parse_expr(f"free_var %w: {part}; %w", {"Kept": [relay.scalar_type("int8")]})


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_definitions_come_in_any_order(order: tuple[int, ...]) -> None:
    parts = [
        "type Leaf { Green(Twig), }",
        "type Twig { Bare, Leafy(Leaf, Tensor[(?, 0), bool]), }",
        "def @grow(%n: int64) -> Leaf { if (%n < 1i64) { Green(Bare) } else { @bend(%n) } }",
        "def @bend(%n: int64) -> Leaf { @grow(%n - 1i64) }",
    ]
    mod = module("\n".join(parts[k] for k in order))
    relay.assert_structural_equal(mod, module("".join(parts)))
    assert mod["bend"].body.op is mod.get_global_var("grow")


@pytest.mark.parametrize("params", ["", "[]", "[K]", "[K, V]", "[K, V, W,]"])
@pytest.mark.parametrize("kind", ["type Table{} {{ }}", "extern type Table{}"])
def test_types_without_constructors(kind: str, params: str) -> None:
    mod = module(kind.format(params))
    names = [v.name for v in mod[mod.get_global_type_var("Table")].type_vars]
    assert names == [p for p in "KVW" if p in params] and mod.get_type("Table")[1:] == ()


def test_constructors() -> None:
    """Applied, by themselves as functions, and without fields with or without parentheses."""
    mod = module(FOREST + "def @f() { (Plant(Bud, Clearing), Plant, Bud, Bud()) }")
    (_, plant, clearing), (_, _, bud) = mod.get_type("Forest"), mod.get_type("Rose")
    applied, alone, plain, called = mod["f"].body.fields
    assert applied.op is plant and [a.op for a in applied.args] == [bud, clearing]
    assert alone is plant and plain.op is called.op is bud and len(plain.args) == 0
    assert [str(t) for t in plant.inputs] == ["Rose[T]", "Forest[T]"]


PATTERNS = {
    "_": (), "%all": ("all",), "%all: Forest[bool]": ("all",), "Clearing": (),
    "Plant(_, %rest)": ("rest",), "Plant(Bud, Clearing)": (),
    "Plant(Node(%top, Plant(%left, _)), %right)": ("top", "left", "right"),
}  # fmt: skip


@pytest.mark.parametrize("word", ["match", "match?"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_bind_in_their_clause(pattern: str, word: str) -> None:
    names = [f"%{n}" for n in PATTERNS[pattern]]
    head = f"{FOREST}def @f(%w: Forest[bool]) {{ {word} (%w) {{ {pattern} => "
    body = module(f"{head}{{ ({''.join(n + ', ' for n in names)}) }}, _ => {{ () }}, }} }}")[
        "f"
    ].body
    assert body.complete == (word == "match") and len(body.clauses) == 2
    assert [f"%{v.name_hint}" for v in body.clauses[0].rhs.fields] == names
    for name in names:
        refused(f"{HEAD}{head}{{ () }}, _ => {{ ~{name} }}, }} }}", "not bound", relay.parse)


def test_patterns_of_tuples() -> None:
    body = read("match (((1, 2), 3)) { ((%a, _), %b) => { %a - %b }, () => { 0 }, }")
    outer, empty = (clause.lhs for clause in body.clauses)
    assert [type(p) for p in outer.patterns] == [relay.PatternTuple, relay.PatternVar]
    assert tuple(empty.patterns) == ()


def test_type_parameters_are_of_their_function() -> None:
    mod = module(
        "def @pick[T, U](%t: T, %u: U) -> T { (fn [U](%v: U) -> U { %v })(%t) }"
        "def @use(%w: Tensor[(?), int8]) { @pick(%w, (@pick, 3)) }"
    )
    outer, inner = mod["pick"], mod["pick"].body.op
    assert outer.ret_type == outer.type_params[0] == outer.params[0].type_annotation
    assert inner.ret_type == inner.type_params[0] and len(inner.type_params) == 1


BAD_MODULES = [
    ("def @a() { 1 } def ~@a() { 2 }", "@a is defined twice"),
    ("type A { P, } extern type ~A", "A is defined twice"),
    (FOREST + "type Pot { ~Bud, }", "Bud is defined twice"),
    ("type A[K] { P(K), } type B { Q(~K), }", "unknown type 'K'"),
    ("type A { P(bool) ~Q, }", "expected ',' between constructors"),
    ("def @a ~{ 1 }", r"expected '\(' before the parameters"),
    ("def @a() { 1 }~;", "expected a definition"),
    ("~let %a = 1; %a", "expected a definition"),
    ("def @a() { @b(~@c) } def @b(%f) { %f }", "@c is not defined"),
    ("type A { P(bool), } def @a(%v: A) { match (%v) { ~P => { 1 }, } }", "has 1 field"),
    ("def @a(%v: bool) { match (%v) { ~Q(_) => { 1 }, } }", "unknown constructor 'Q'"),
    ("def @a(%v: bool) { match (%v) { ~3 => { 1 }, } }", "expected a pattern"),
    ("def @a(%v: bool) { match (%v) { _ => { 1 } ~_ => { 2 } } }", "between clauses"),
]


@pytest.mark.parametrize(("text", "message"), BAD_MODULES)
def test_bad_modules(text: str, message: str) -> None:
    refused(HEAD + text, message, relay.parse)


def test_a_table_of_the_caller() -> None:
    table = {"Kept": [relay.const(np.eye(3, dtype="int8")), relay.Any()]}
    text = "fn (%w: Tensor[(meta[Kept][1], 3), int8]) { add(%w, meta[Kept][0]) }"
    func = relay.parse_expr(text, table)
    assert func.body.args[1] is table["Kept"][0]
    assert relay.is_dynamic(func.params[0].type_annotation)
    with pytest.raises(ParseError, match="expected a dimension, found Constant"):
        relay.parse_expr(text.replace("[1]", "[0]"), table)


def test_a_module_of_the_caller() -> None:
    """What it defines may be used and not defined again; it stays as it is."""
    base = module(FOREST + "def @seed() { Bud }")
    mod = relay.parse(HEAD + "def @sow() { Plant(@seed(), Clearing) }", init_module=base)
    assert mod["sow"].body.op is base.get_type("Forest")[1] and "sow" not in base
    for text, message in {"def @seed() { 1 }": "@seed", "type Rose { }": "Rose"}.items():
        with pytest.raises(ParseError, match=f"^wood.relay:.*{message}"):
            relay.parse(HEAD + text, "wood.relay", base)


def test_the_place_in_a_named_text() -> None:
    refused(f"{HEAD}def @a() {{\n ~%q }}", "%q", lambda text: relay.parse(text, "wood.relay"))


@pytest.mark.parametrize("place", ["a:1:2", "enc/0/Mul:30:4", "two words:7:7"])
def test_a_comment_may_say_where_an_expression_is_from(place: str) -> None:
    call = relay.parse_expr(f"tanh(8f /* span=arg:1:1 */) /* ty=float32 span={place} */")
    assert (str(call.span), str(call.args[0].span)) == (place, "arg:1:1")


PLACES = {
    "a call": ("{\n  tanh(1f)\n}", relay.Call, "2:3 2:11"),
    "operators": ("  (2f * 3f) + 4f", relay.Call, "1:4 1:11, 1:3 1:17"),
    "a binding": ("%0 = tanh(1f);\nexp(%0)", relay.Call, "1:6 1:14, 2:1 2:8"),
    "lets": ("let %a = 1;\nlet %b = 2;\n%b", relay.Let, "2:1 3:3, 1:1 3:3"),
    "variables": ("fn (%a: int8,\n %bc) { 1 }", relay.Var, "1:5 1:7, 2:2 2:5"),
    "a function": ("  fn (%a: int8) -> int8 { %a }", relay.Function, "1:3 1:31"),
    "numbers": ("(-3, 2.5f,\nTrue)", relay.Constant, "1:2 1:4, 1:6 1:10, 2:1 2:5"),
    "a tuple": ("(1,\n2)", relay.Tuple, "1:1 2:3"),
    "items": ("((1, 2), 3).0\n.1", relay.TupleGetItem, "1:1 1:14, 1:1 2:3"),
    "a branch": ("if (True) { 1 } else {\n2 }", relay.If, "1:1 2:4"),
    "cells": ("ref_read(ref(1))", relay.RefCreate, "1:10 1:16"),
    "a match": ("match? (1) { _ => 2 }", relay.Match, "1:1 1:22"),
}


@pytest.mark.parametrize("case", PLACES)
def test_expressions_know_their_place_in_the_text(case: str) -> None:
    """From a line and column to another, which are written neither as text nor in JSON."""
    text, kind, places = PLACES[case]
    expr = relay.parse_expr(text)
    spans = [n.span for n in relay.post_order(expr) if isinstance(n, kind)]
    found = [f"{s.line}:{s.column} {s.end_line}:{s.end_column}" for s in spans if s is not None]
    assert ", ".join(found) == places and {s.source for s in spans if s} == {"from_string"}
    assert "span" not in expr.astext() and "from_string" not in relay.save_json(expr)


def test_the_place_of_an_error_is_in_a_named_text() -> None:
    mod = relay.parse(HEAD + "def @main(%p: Tensor[(2), float32]) {\n  add(%p, 1) }", "wood.relay")
    with pytest.raises(TypeMismatch, match=r"add.* at wood.relay:3:3"):
        relay.transform.InferType()(mod)


def test_objects_of_the_caller_get_no_place() -> None:
    given = relay.const([1, 2])
    found = relay.parse_expr("tanh(meta[relay.Constant][0])", {"relay.Constant": [given]})
    assert found.args[0] is given and given.span is None


def test_annotations_that_never_end() -> None:
    with pytest.raises(ParseError, match="expected } after the annotations of a variable"):
        relay.parse_expr("fn (%v{")
