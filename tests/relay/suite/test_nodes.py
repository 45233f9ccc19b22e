"""Nodes, operators, modules, binding and well-formedness."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm

from tvm_disc import relay
from tvm_disc.errors import DiscError
from tvm_disc.relay.op import op as registry
from tvm_disc.relay.testing.temp_op_attr import TempOpAttr

TEN = tvm.runtime.tensor(np.array(10))


def kept(node: Any) -> None:
    """A node is the same after JSON, and prints."""
    assert relay.structural_equal(relay.load_json(relay.save_json(node)), node, True)
    assert str(node)


def test_spans() -> None:
    span = relay.Span(None, 1, 2, 3, 4)
    assert (span.source_name, span.line, span.end_line) == (None, 1, 2)
    assert (span.column, span.end_column) == (3, 4)
    assert span.same_as(span) and span == span and isinstance(span, relay.base.Span)
    back = relay.load_json(relay.save_json(span))
    assert (back.line, back.end_line, back.column, back.end_column) == (1, 2, 3, 4)
    assert back.source_name is None and str(span)


def test_constants() -> None:
    node = relay.Constant(TEN)
    assert node.data == 10 and node.span is None
    kept(node)


def test_tuples() -> None:
    node = relay.Tuple([])
    assert len(node.fields) == 0 and node.span is None
    kept(node)


def test_local_variables() -> None:
    node = relay.Var("s")
    assert node.name_hint == "s" and node.type_annotation is None
    kept(node)
    ty = relay.ty.TensorType((), "float")
    assert relay.Var("s", ty).type_annotation == ty


def test_global_variables() -> None:
    assert relay.GlobalVar("g").name_hint == "g"
    kept(relay.GlobalVar("g"))


def test_functions() -> None:
    params = [relay.Var(n) for n in "abcd"]
    body = relay.Tuple([])
    func = relay.Function(params, body, relay.TupleType([]), [])
    func = func.with_attr("test_attribute", "value").with_attr("test_attribute1", "value1")
    assert list(func.params) == params and func.body is body and len(func.type_params) == 0
    assert func.attrs["test_attribute"] == "value" and func.span is None
    kept(func)


@pytest.mark.xfail(strict=True, reason="attributes are plain values")
def test_attributes_of_functions_may_hold_parameters() -> None:
    params = [relay.var(n, shape=(5, 2)) for n in "ab"]
    held = {params[0]: relay.const(np.ones((5, 2), "float32"))}
    func = relay.Function(params, relay.Tuple([])).with_attr("__params__", held)
    kept(func)
    again = relay.load_json(relay.save_json(func)).attrs["__params__"]
    ((name, value),) = again.items()
    assert name.name_hint == "a"
    np.testing.assert_array_equal(value.data.numpy(), np.ones((5, 2)))


def test_calls() -> None:
    f, args = relay.Var("f"), [relay.Var(n) for n in "abcd"]
    call = relay.Call(f, args, None, None)
    assert call.op is f and list(call.args) == args and call.span is None
    kept(call)


def test_lets() -> None:
    x, value = relay.Var("x"), relay.Constant(TEN)
    let = relay.Let(x, value, x)
    assert let.var is x and let.value is value and let.body is x and let.span is None
    kept(let)


def test_branches() -> None:
    c, a, b = (relay.Var(n) for n in "cab")
    node = relay.If(c, a, b)
    assert node.cond is c and node.true_branch is a and node.false_branch is b
    kept(node)


def test_projections() -> None:
    t = relay.Var("t")
    node = relay.TupleGetItem(t, 1)
    assert node.tuple_value is t and node.index == 1
    kept(node)


def test_operators_are_kept() -> None:
    kept(relay.op.op.get("add"))


def test_attributes_of_calls_are_kept() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 7, 7))
    kept(relay.op.nn.conv2d(x, w, strides=(2, 2), padding=(3, 3), channels=4, kernel_size=(7, 7)))


@pytest.fixture
def names() -> Iterator[list[str]]:
    made: list[str] = []
    yield made
    for name in made:
        registry.unregister(name)


def test_attributes_of_operators(names: list[str]) -> None:
    @relay.op.register_op_attr("exp", "ftest")
    def test(x: int) -> int:
        return x + 1

    assert relay.op.get("log").num_inputs == 1
    assert relay.op.get("log").get_attr("ftest") is None
    found = relay.op.get("exp").get_attr("ftest")
    assert found(1) == 2 and test(1) == 2


def test_an_attribute_is_taken_back() -> None:
    for name, key, more in (("exp", "f1", 1), ("log", "f1", 1), ("log", "f2", 2)):
        relay.op.register_op_attr(name, key, lambda x, more=more: x + more)
    relay.op.get("log").reset_attr("f1")
    assert relay.op.get("log").get_attr("f1") is None
    assert relay.op.get("exp").get_attr("f1")(1) == 2
    assert relay.op.get("log").get_attr("f2")(1) == 3


def test_an_attribute_for_a_while() -> None:
    relay.op.register_op_attr("sqrt", "ftest", lambda x: x + 1)
    with TempOpAttr("sqrt", "ftest", lambda x: x + 2):
        assert relay.op.get("sqrt").get_attr("ftest")(1) == 3
    assert relay.op.get("sqrt").get_attr("ftest")(1) == 2


@pytest.mark.parametrize(
    ("level", "name"),
    [(1, n) for n in "log exp sqrt rsqrt tanh".split()]
    + [(3, n) for n in "ceil floor trunc round abs negative".split()],
)
def test_support_levels(level: int, name: str) -> None:
    x = relay.Var("x")
    call = getattr(relay, name)(x)
    assert call.op.name == name and call.op.support_level == level and call.args[0] is x


def test_an_operator_of_the_user(names: list[str]) -> None:
    names.append("suite_op")
    registry.register("suite_op", r"code(Two tensors.)code")
    op = registry.get("suite_op")
    op.set_num_inputs(2)
    op.add_argument("data_0", "Tensor", "The first.")
    op.add_argument("data_1", "Tensor", "The second.")
    op.add_type_rel("Identity")
    op.set_support_level(1)
    registry.register_pattern("suite_op", registry.OpPattern.ELEMWISE)
    registry.register_stateful("suite_op", False)
    assert op.name == "suite_op" and op.num_inputs == 2
    assert op.get_attr("TOpPattern") == registry.OpPattern.ELEMWISE
    assert op.get_attr("TOpIsStateful") is False


def _with_nat() -> tuple[relay.IRModule, list[Any]]:
    prelude = relay.Prelude(relay.IRModule())
    prelude.mod.import_from_std("nat.rly")
    return prelude.mod, [prelude.mod.get_type(n) for n in ("List", "Option", "nat", "Tree")]


@pytest.mark.xfail(strict=True, reason="tags are positions in a type")
def test_tags_of_constructors_are_found_in_another_module() -> None:
    _, first = _with_nat()
    other, second = _with_nat()
    for (_, *ours), (_, *theirs) in zip(first, second, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            found = other.get_constructor(a.tag)
            assert found == b and found.name_hint == a.name_hint


@pytest.mark.xfail(strict=True, reason="definitions have no tags")
def test_tags_of_one_type_follow_each_other() -> None:
    mod, types = _with_nat()
    for name, *_ in types:
        made = mod[name].constructors
        for i, (a, b) in enumerate(pairwise(made)):
            assert b.tag - a.tag == 1 and a.tag - i != 0


def test_bindings_of_parameters() -> None:
    x, y = relay.var("x"), relay.var("y")
    one = relay.const(1, "float32")
    bound = relay.bind(relay.Function([x, y], relay.add(x, y)), {x: one})
    relay.assert_structural_equal(bound, relay.Function([y], relay.add(one, y)))
    relay.assert_structural_equal(relay.bind(relay.add(x, y), {y: x}), relay.add(x, x))


def test_two_parameters_of_one_name_are_not_bound_by_it() -> None:
    a, b = relay.var("a", shape=(1,)), relay.var("a", shape=(1,))
    with pytest.raises(DiscError):
        relay.build_module.bind_params_by_name(relay.Function([a, b], a + b), {"a": [1.0]})


def test_bindings_are_well_formed_once() -> None:
    well_formed = relay.analysis.well_formed
    x, v = relay.Var("x"), relay.Constant(TEN)
    let = relay.Let(x, v, x)
    f = relay.Function([x], x)
    assert well_formed(x) and well_formed(let) and well_formed(f)
    assert not well_formed(relay.Let(x, v, let))
    assert well_formed(relay.Let(relay.Var("y"), f, relay.Let(relay.Var("z"), f, v)))


def test_tuples_are_well_formed() -> None:
    x, v = relay.Var("x"), relay.Constant(TEN)
    let = relay.Let(x, v, x)
    assert relay.analysis.well_formed(relay.Tuple([v, v]))
    assert not relay.analysis.well_formed(relay.Tuple([let, relay.Let(x, v, x)]))


def test_projections_are_well_formed() -> None:
    assert relay.analysis.well_formed(relay.TupleGetItem(relay.Var("t"), 2))


def test_clauses_bind_once() -> None:
    _, none, some = relay.Prelude(relay.IRModule()).mod.get_type("Option")
    x = relay.Var("x")
    filled = relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(x)]), x)
    rest = relay.Clause(relay.PatternVar(x), x)
    assert relay.analysis.well_formed(relay.Match(none(), [rest]))
    assert not relay.analysis.well_formed(relay.Match(none(), [filled, rest]))
