"""JSON both ways, exact, and the round trips of random modules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.maker import Maker
from tests.relay.helpers import JSONS, TEXTS
from tests.relay.language.programs import LIST, module
from tests.relay.language.round_trips import problems
from tests.relay.samples import samples_of
from tvm_disc import relay
from tvm_disc.errors import BadNode
from tvm_disc.relay.attrs import AttrError, complete_attrs
from tvm_disc.relay.ops.table import OPS


@pytest.mark.parametrize("path", [*TEXTS, *JSONS], ids=lambda p: p.name)
def test_recorded_modules(path: Path) -> None:
    text = path.read_text()
    mod = relay.load_json(text) if path.suffix == ".json" else relay.parse(text)
    again = relay.load_json(relay.save_json(mod))
    assert relay.structural_equal(mod, again)


@pytest.mark.parametrize("seed", range(24))
def test_random_modules(seed: int) -> None:
    assert list(problems(Maker(seed).make().module)) == []


def test_attributes_of_every_operator() -> None:
    calls = 0
    for name, row in OPS.items():
        for sample in samples_of(row):
            try:
                attrs = complete_attrs(row, sample.attrs)
            except AttrError:
                continue  # a sample that gives the others by position
            args = [relay.Tuple((relay.var("a"),)) if t else relay.var("a") for t in row.tuple_args]
            call = relay.Call(relay.op.get(name), args, attrs)
            again = relay.load_json(relay.save_json(call))
            assert relay.structural_equal(again, call, map_free_vars=True), name
            calls += 1
    assert calls > 400


def test_every_kind_of_node() -> None:
    mod = relay.parse(
        module(
            f"type T {{ Z, }}\n{LIST}"
            "def @f[A](%x: L[A], %g: fn [B](A, B) -> A, %r: ref(int32), %t: T) -> L[A] {\n"
            "  let %h = fn (%q: (int32, Tensor[(?, 2), float32]), Primitive=1) { %q.0 };\n"
            "  ref_write(%r, if (less(ref_read(%r), 3)) { 1 } else { 2 });\n"
            "  let %s = ref(Z);\n"
            "  match (%x, ()) { (C(%a, _), _) => { @f(%x, %g, %r, %t) }, _ => { N } }\n}"
        )
    )
    again = relay.load_json(relay.save_json(mod))
    assert relay.structural_equal(mod, again) and again.astext() == mod.astext()


def test_named_dims_and_long_chains() -> None:
    n = relay.size_var("n")
    x = relay.var("x", shape=(n, n * 2 + 1, relay.Any("s"), relay.Any()))
    body = x
    for _ in range(4000):
        body = relay.exp(body)
    mod = relay.IRModule.from_expr(relay.Function([x], body))
    again = relay.load_json(relay.save_json(mod))
    assert relay.structural_equal(mod, again)
    shape = again["main"].params[0].type_annotation.shape
    assert shape[:3] == (n, n * 2 + 1, relay.Any("s"))


def test_floats_are_exact_and_objects_are_shared() -> None:
    value = np.float32(0.35355338)
    c = relay.const(value)
    y = relay.exp(c)
    loaded = relay.load_json(relay.save_json(relay.Tuple([y, y, relay.const(0.1, "float64")])))
    assert loaded.fields[0] is loaded.fields[1] and loaded.fields[0].args[0].data == value
    assert loaded.fields[2].data == np.float64(0.1)


def test_the_form_is_that_of_tvm() -> None:
    x = relay.var("x", shape=(2,))
    graph = json.loads(relay.save_json(relay.IRModule.from_expr(relay.Function([x], x))))
    assert graph["root"] == 1 and graph["nodes"][0] == {"type_key": ""}
    root = graph["nodes"][1]
    assert root["type_key"] == "IRModule" and set(root["attrs"]) == {
        *("attrs", "functions", "global_infos", "global_type_var_map_", "global_var_map_"),
        *("source_map", "type_definitions"),
    }
    kinds = {node["type_key"] for node in graph["nodes"]}
    assert {"relay.Function", "relay.Var", "relay.Id", "relay.TensorType", "IntImm"} <= kinds


def test_a_type_and_an_expression_alone() -> None:
    kind = relay.FuncType([relay.TensorType((2,), "int8")], relay.TupleType([]))
    assert relay.load_json(relay.save_json(kind)) == kind
    expr = relay.parse_expr("let %x = 1; add(%x, 2)")
    assert relay.structural_equal(relay.load_json(relay.save_json(expr)), expr)


@pytest.mark.parametrize("value", [None, 3, "def", [relay.const(1)]])
def test_nothing_else_is_written(value: object) -> None:
    with pytest.raises(BadNode, match="expected a relay module, expression or type, found"):
        relay.save_json(value)  # type: ignore[arg-type]
