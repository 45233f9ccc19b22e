"""Text and JSON forms: reading real modules, printing them back, and refusing bad ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import ParseError, Unsupported

from .helpers import DATA, JSONS, TEXTS

HEADER = '#[version = "0.0.5"]\n'


def body(text: str) -> relay.IRModule:
    return relay.parse(HEADER + text)


def main_of(text: str) -> Any:
    return body(text)["main"].body


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_printing_and_parsing_are_inverse(path: Path) -> None:
    mod = relay.parse(path.read_text())
    text = mod.astext()
    again = relay.parse(text)
    assert relay.structural_equal(mod, again)
    assert again.astext() == text


@pytest.mark.parametrize("path", JSONS, ids=lambda p: p.name)
def test_json_equals_text(path: Path) -> None:
    mod = relay.load_json(path.read_text())
    text = path.with_suffix(".relay").read_text()
    assert relay.structural_equal(mod, relay.parse(text), rel_tol=1e-5)  # text has six digits
    assert relay.structural_equal(mod, relay.parse(mod.astext()))


def test_spans_keep_the_layer_names() -> None:
    mod = relay.parse((DATA / "models" / "bert.relay").read_text())
    spans = {str(n.span) for n in relay.post_order(mod["main"]) if isinstance(n, relay.Call)}
    assert "/m/encoder/layer.1/output/LayerNorm/Sub:0:0" in spans
    assert relay.parse(mod.astext())["main"].params[0].span == mod["main"].params[0].span


def test_attributes_are_complete_plain_values() -> None:
    call = main_of("def @main(%x: Tensor[(?, 3), float32]) { nn.softmax(%x) }")
    assert call.attrs == {"axis": -1}
    mod = relay.parse((DATA / "models" / "bert.relay").read_text())
    calls = {
        n.op.name: n
        for n in relay.post_order(mod["main"])
        if isinstance(n, relay.Call) and isinstance(n.op, relay.Op)
    }
    assert calls["scatter_elements"].attrs == {"axis": 0, "reduction": "update"}
    assert calls["arange"].attrs == {"start": None, "stop": None, "step": None, "dtype": "int64"}
    mod = relay.parse((DATA / "printed" / "lstm_while_dyn.relay").read_text())
    for node in relay.post_order(mod["main"]):
        if isinstance(node, relay.Call) and node.op is relay.op.get("split"):
            assert node.attrs == {"indices_or_sections": 4, "axis": 1}


def test_literals() -> None:
    fields = main_of(
        "def @main() { (1, 4i64, -3, --2, 2i16, 3f, 0.5f16, 2.5f64, 1e-12f, inff, True) }"
    ).fields
    dtypes = [
        "int32",
        "int64",
        "int32",
        "int32",
        "int16",
        "float32",
        "float16",
        "float64",
        "float32",
        "float32",
        "bool",
    ]
    assert [f.data.dtype.name for f in fields] == dtypes
    assert [f.data.item() for f in fields][:8] == [1, 4, -3, 2, 2, 3.0, 0.5, 2.5]


def test_operators_and_comments() -> None:
    text = """
    def @main(%a: float32, %b: float32) { // a line
      /* a /* nested */ comment */
      let %c = %a + %b * -2f - %a;
      %c <= %a
    }"""
    sub = main_of(text).value
    assert sub.op.name == "subtract" and sub.args[0].op.name == "add"
    assert sub.args[0].args[1].op.name == "multiply"
    assert relay.structural_equal(body(text), relay.parse(body(text).astext()))


GRAMMAR = {
    "refs": "def @main(%x: int32) { let %r = ref(%x); ref_write(%r, 2); ref_read(%r) }",
    "unit": "def @main() { () }",
    "one-tuple": "def @main(%x: (int32,)) -> (int32,) { (%x.0,) }",
    "curried": "def @main(%f: fn (int32) -> fn (int32) -> int32) { %f(1)(2) }",
    "fn-attrs": 'def @main(%x: int32) { fn (%y: int32, Primitive=1, Compiler="dnnl") { %y } }',
    "nested-if": "def @main(%a: bool) { if (%a) { if (%a) { 1 } else { 2 } } else { 3 } }",
    "recursion": "def @main(%n: int32) -> int32 { @main(%n) }",
    "polymorphic": "def @id[A](%x: A) -> A { %x } def @main() { @id(1) }",
    "shared": "def @main(%x: int32) { %0 = add(%x, 1); if (True) { %0 } else { negative(%0) } }",
    "nested-let": "def @main(%x: int32) { %0 = (let %y = %x; add(%y, 1)); add(%0, %0) }",
    "adt": """
type L[A] { C(A, L[A]), N, }
type P { P0(int32), }
def @main(%l: L[int32], %p: P) -> int32 {
  match? (%l) {
    C(%h, C(_, _)) => { %h },
    N => { match (%p) { P0(%v: int32) => { %v }, } },
  }
}
def @pair(%t: (int32, int32)) { match (%t) { (%a, %b) => { %a + %b }, } }
def @cons() { C(1, N) }
""",
    "extern": "extern type Handle\ndef @main(%h: Handle) { %h }",
    "block": "def @main(%x: int32) { { %x } }",
    "ref-type": "def @main(%r: Ref[int32]) -> Ref[int32] { %r }",
    "metaless": "def @main(%x: Tensor[(?, ?), float32]) { strided_slice(%x, begin=[0, 0], "
    "end=[1, 1], strides=[1], axes=None) }",
}


@pytest.mark.parametrize("text", GRAMMAR.values(), ids=GRAMMAR.keys())
def test_grammar(text: str) -> None:
    mod = body(text)
    printed = mod.astext()
    assert relay.structural_equal(mod, relay.parse(printed))
    assert relay.parse(printed).astext() == printed


REFUSALS = {
    "no-version": ("def @main() { 1 }", r'1:1: expected #\[version = "0\.0\.5"\]'),
    "bad-version": ('#[version = "0.0.4"]', r'0\.0\.5.*found version "0\.0\.4"'),
    "comment": (HEADER + "def @main() { /* /* */ 1 }", r"2:15: expected \*/ to end"),
    "string": (HEADER + 'def @main() { f(a="x) }', 'expected " to end this string'),
    "character": (HEADER + "def @main() { $ }", r"2:15: unexpected character '\$'"),
    "return": (HEADER + "def @main() { 1 \r }", "line feed after the carriage return"),
    "operator": (HEADER + "def @main() { addd(1, 2) }", "unknown operator or constructor 'addd'"),
    "attribute": (
        HEADER + "def @main(%x: float32) { nn.softmax(%x, axes=1) }",
        r"nn\.softmax has no attribute 'axes'; its attributes are: axis=-1",
    ),
    "missing": (HEADER + "def @main(%x: float32) { cast(%x) }", "cast needs attribute 'dtype'"),
    "variable": (HEADER + "def @main(%x: int32) { %y }", "variable %y is not bound here"),
    "binding": (HEADER + "def @main() { %0 }", "graph binding %0 is not bound here"),
    "scope": (
        HEADER + "def @main() { %1 = if (True) { %0 = (1, 2); %0 } else { %0 }; %1 }",
        "graph binding %0 is not bound here",
    ),
    "global": (HEADER + "def @main() { @f(1) }", "function @f is not defined"),
    "twice": (HEADER + "def @f() { 1 } def @f() { 2 }", "function @f is defined twice"),
    "type": (HEADER + "def @main(%x: Lisst[int32]) { %x }", "unknown type 'Lisst'"),
    "dtype": (HEADER + "def @main(%x: Tensor[(1), floaty]) { %x }", "unknown element type"),
    "dim": (HEADER + "def @main(%x: Tensor[(-1), int8]) { %x }", "expected a non-negative integer"),
    "meta": (HEADER + "def @main() { meta[relay.Constant][0] }", "no metadata section"),
    "brace": (HEADER + "def @main() { 1", r"expected '}' after the expression, found the end"),
    "rest": (HEADER + "def @main() { 1 } 2", "expected a definition or the end of the text"),
    "start": (HEADER + "%x", "expected a definition"),
    "else": (HEADER + "def @main() { if (True) { 1 } }", "expected 'else'"),
    "arity": (
        HEADER + "type L { C(int32), } def @main(%l: L) { match (%l) { C(_, _) => { 1 }, } }",
        r"C has 1 field\(s\), the pattern 2",
    ),
    "pattern": (HEADER + "def @main(%l: int32) { match (%l) { D => { 1 }, } }", "constructor 'D'"),
    "overflow": (
        HEADER + "def @main() { 3000000000i32 }",
        "does not fit int32; write 3000000000i64",
    ),
    "value": (HEADER + "def @main(%x: int32) { cast(%x, dtype=;) }", "expected an attribute value"),
    "ref": (HEADER + "def @main(%x: int32) { ref_write(%x) }", "ref_write takes 2 operand"),
    "json": (HEADER + "def @main() { 1 }\n#[metadata]\n{", "in #.metadata.: .*not JSON"),
    "depth": (HEADER + f"def @main() {{ {'(' * 9000}1{')' * 9000} }}", "nested too deeply"),
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_bad_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        relay.parse(text)
    assert caught.value.line or "metadata" in message


def test_errors_show_the_line() -> None:
    with pytest.raises(ParseError) as caught:
        body("def @main(%x: int32) {\n  add(%x, %z)\n}")
    assert (caught.value.line, caught.value.column) == (3, 11)
    assert str(caught.value).splitlines()[1:] == ["  |   add(%x, %z)", "  |           ^"]


def test_a_wrong_metadata_index_is_refused() -> None:
    text = (DATA / "printed" / "dense_bias_relu.relay").read_text()
    with pytest.raises(
        ParseError, match=r"meta\[relay\.Constant\]\[7\] does not exist.*has 2 objects"
    ):
        relay.parse(text.replace("[relay.Constant][1]", "[relay.Constant][7]"))


def test_metadata_may_come_from_a_table() -> None:
    weight = relay.const(np.ones((2, 3), "float32"))
    text = "free_var %x: Tensor[(?, 3), float32]; nn.dense(%x, meta[relay.Constant][0], units=2)"
    call = relay.parse_expr(text, {"relay.Constant": [weight]})
    assert isinstance(call, relay.Call) and call.args[1] is weight


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a legacy TVM graph"),
        ('{"root": 7, "nodes": []}', "no node 7"),
        ('{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Array", "data": [1]}]}', "itself"),
    ],
)
def test_bad_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        relay.load_json(text)


def test_json_with_a_damaged_tensor_is_refused() -> None:
    data = json.loads((DATA / "printed" / "dense_bias_relu.json").read_text())
    data["b64ndarrays"][0] = data["b64ndarrays"][0][:40]
    with pytest.raises(ParseError, match="stored tensor"):
        relay.load_json(json.dumps(data))


@pytest.mark.parametrize("name", ["cnn_dyn_hw", "encoder_layer_dyn"])
def test_params_files(name: str) -> None:
    raw = (DATA / "printed" / f"{name}.params").read_bytes()
    params = relay.load_param_dict(raw)
    types = {
        p.name_hint: p.type_annotation
        for p in relay.parse((DATA / "printed" / f"{name}.relay").read_text())["main"].params
    }
    for key, array in params.items():
        assert types[key] == relay.TensorType(array.shape, array.dtype.name)
    assert relay.save_param_dict(params) == raw
    with pytest.raises(ParseError, match="truncated"):
        relay.load_param_dict(raw[:30])
    with pytest.raises(ParseError, match="not a parameter file"):
        relay.load_param_dict(bytes(64))


def test_arrays_of_every_type_round_trip() -> None:
    names = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
    params = {n: np.arange(6).reshape(2, 3).astype(n) for n in names}
    back = relay.load_param_dict(relay.save_param_dict(params))
    assert all(back[n].dtype == n and (back[n] == params[n]).all() for n in names)
    with pytest.raises(Unsupported, match="expected bools, integers or floats, found"):
        relay.save_param_dict({"z": np.zeros(2, complex)})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_scalars_print_exactly(dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = [*rng.normal(size=50), 0.35355338, 1e-30, 3e30, -0.0, 1.0, np.inf, np.nan]
    with np.errstate(over="ignore"):
        consts = [relay.const(v, dtype) for v in values]
    tup = relay.Tuple(tuple(consts))
    assert relay.structural_equal(tup, relay.parse_expr(relay.astext(tup)))


def test_symbolic_dims_survive() -> None:
    n, s = relay.size_var("n"), relay.Any("s")
    x = relay.var("x", shape=(n, n * 4 + 1, s, relay.Any()))
    mod = relay.IRModule.from_expr(relay.Function([x], x))
    again = relay.parse(mod.astext())
    assert relay.structural_equal(mod, again)
    assert again["main"].params[0].type_annotation.shape[:3] == (n, n * 4 + 1, s)


def test_names_are_made_unique_and_legal() -> None:
    params = [relay.var(n, shape=()) for n in ("x", "x", "1st", "a.b", "in/put")]
    text = relay.astext(relay.Function(params, relay.Tuple(tuple(params))))
    assert "(%x: float32, %x1: float32, %v1st: float32, %a_b: float32, %in/put: float32)" in text


def chain(length: int) -> relay.IRModule:
    x = relay.var("x", shape=(relay.Any(),))
    value: relay.Expr = x
    for _ in range(length):
        value = relay.nn.relu(value)
    return relay.IRModule.from_expr(relay.Function([x], value))


def test_long_chains_do_not_recurse() -> None:
    limit = sys.getrecursionlimit()
    mod = chain(20_000)
    again = relay.parse(mod.astext())
    assert relay.structural_equal(mod, again)
    assert len(relay.free_vars(again["main"].body)) == 1
    assert sys.getrecursionlimit() == limit


def test_long_let_chains_do_not_recurse() -> None:
    builder = relay.ScopeBuilder()
    x = relay.var("x", shape=())
    value: relay.Expr = x
    for i in range(5_000):
        value = builder.let(f"v{i}", relay.add(value, x))
    builder.ret(value)
    mod = relay.IRModule.from_expr(relay.Function([x], builder.get()))
    assert relay.structural_equal(mod, relay.parse(mod.astext()))


def test_a_node_of_two_functions_is_written_in_both() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    shared = relay.exp(x)
    twice = relay.Function([x], relay.add(shared, shared))
    main = relay.Function([x], relay.If(relay.const(True), shared, relay.negative(shared)))
    text = relay.astext(relay.IRModule({"f": twice, "main": main}))
    again = relay.parse(text)
    assert text.count("exp(%x)") == 2
    for name, func in (("f", twice), ("main", main)):
        assert relay.structural_equal(again[name], func)
