"""Nodes, their attributes, operators, constructors, binding and well-formedness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.op import op as registry
from tvm_disc.relay.testing.temp_op_attr import TempOpAttr

from tvm_disc import relay
from tvm_disc.errors import BadNode, UnknownName, Unsupported

SHAPES = """#[version = "0.0.5"]
type Solid { Ball(float32), Brick(float32, float32), Point, }
type Maybe[T] { Nothing, Just(T), }
def @volume(%s: Solid) -> float32 {
  match? (%s) { Ball(%r) => { %r }, Brick(%u, %v) => { multiply(%u, %v) }, Point => { 0f }, }
}
"""


def leaf(name: str = "leaf", *dims: Any) -> relay.Var:
    return relay.var(name, shape=dims)


def lone_match() -> relay.Expr:
    left, right = relay.Var("left"), relay.Var("right")
    pair = relay.PatternTuple([relay.PatternVar(left), relay.PatternVar(right)])
    clauses = [relay.Clause(pair, relay.subtract(left, right))]
    clauses += [relay.Clause(relay.PatternWildcard(), relay.const(0.5))]
    return relay.Match(relay.Var("both"), clauses, complete=False)


def counter() -> relay.Expr:
    cell = relay.Var("cell")
    step = relay.RefWrite(cell, relay.negative(relay.RefRead(cell)))
    return relay.Let(cell, relay.RefCreate(relay.const(7)), relay.Let(relay.Var("_"), step, cell))


def nested() -> relay.Expr:
    held, inner = leaf("held", 0), leaf("inner", 1, relay.Any())
    deep = relay.Function([inner], relay.Tuple([held, relay.Tuple([inner])]))
    return relay.Function([held], deep, attrs={"Inline": 1, "Compiler": "none"})


NODES: dict[str, Callable[[], Any]] = {
    "variable": lambda: relay.Var("width"),
    "variable of no elements": lambda: leaf("none", 4, 0, 1),
    "variable of unknown dims": lambda: leaf("some", relay.Any(), 1, relay.Any()),
    "variable of a tuple": lambda: relay.Var(
        "p", relay.TupleType([relay.scalar_type("bool"), relay.TupleType([])])
    ),
    "variable of a function": lambda: relay.Var(
        "k", relay.FuncType([relay.scalar_type("int8")], relay.RefType(relay.scalar_type("int8")))
    ),
    "name of a function": lambda: relay.GlobalVar("helper"),
    "operator": lambda: relay.op.get("nn.batch_matmul"),
    "tuple of one": lambda: relay.Tuple([relay.Var("only")]),
    "tuple of tuples": lambda: relay.Tuple([relay.Tuple([]), relay.Tuple([relay.const(True)])]),
    "item": lambda: relay.TupleGetItem(relay.Var("row"), 3),
    "call of a closure": lambda: relay.Var("apply")(relay.Var("it")),
    "call with types": lambda: relay.Call(
        relay.GlobalVar("same"), [relay.Var("v")], type_args=[relay.scalar_type("uint8")]
    ),
    "call with lists": lambda: relay.strided_slice(leaf("m", 6, 9), [0, 2], [6, -1], [1, 3]),
    "call with texts": lambda: relay.layout_transform(leaf("m", 1, 5, 4, 4), "NCHW", "NHWC"),
    "call with fractions": lambda: relay.nn.leaky_relu(leaf("m", 2, 3), alpha=0.125),
    "branch": lambda: relay.If(relay.Var("dark"), relay.Var("lamp"), relay.Tuple([])),
    "binding": lambda: relay.Let(relay.Var("t"), relay.erf(leaf("u", 1)), relay.Var("free")),
    "reference": counter,
    "match": lone_match,
    "functions": nested,
}


@pytest.mark.parametrize("kind", NODES)
def test_every_kind_of_node_is_kept_by_json_and_printed(kind: str) -> None:
    node = NODES[kind]()
    again = relay.load_json(relay.save_json(node))
    assert type(again) is type(node)
    relay.assert_structural_equal(again, node, map_free_vars=True)
    assert str(again) == str(node) != ""


@pytest.mark.parametrize("kind", NODES)
def test_what_is_shown_of_a_node_names_its_kind(kind: str) -> None:
    node = NODES[kind]()
    assert repr(node).startswith(f"{type(node).__name__}(")


def test_what_is_shown_of_a_program_has_a_bound() -> None:
    shared = chain = leaf("deep", 2)
    for _ in range(40):
        shared = relay.mod(shared, shared)
    for _ in range(20_000):
        chain = relay.exp(chain)
    wide = relay.Tuple([relay.const(np.zeros(10**6))] * 500)
    pattern = relay.dataflow_pattern.wildcard()
    pattern.redirect_to(relay.dataflow_pattern.is_op("exp")(pattern) | pattern)
    assert all(len(repr(x)) < 2_000 for x in (shared, chain, wide, pattern))
    assert repr(relay.const([2, 5])) == "Constant(data=array([2, 5], int32))"
    assert "mod" in repr(shared) and "array of float32[1000000]), Const" in repr(wide)


@pytest.mark.parametrize("kind", NODES)
def test_a_node_is_itself_only(kind: str) -> None:
    node, other = NODES[kind](), NODES[kind]()
    assert node.same_as(node) and node == node and node.span is None
    one_per_name = isinstance(node, relay.Op)
    assert node.same_as(other) is one_per_name and (node == other) is one_per_name
    with pytest.raises(ValueError, match="has not been inferred"):
        _ = node.checked_type


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (3, 1)], ids=str)
def test_constants_keep_their_elements(shape: tuple[int, ...], dtype: str) -> None:
    data = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3).astype(dtype)
    again = relay.load_json(relay.save_json(relay.Constant(data))).data.numpy()
    assert again.dtype == dtype and again.shape == shape
    np.testing.assert_array_equal(again, data)


def test_members_are_what_was_given() -> None:
    held, cond = relay.Var("held"), relay.Var("cond")
    item = relay.TupleGetItem(held, 2)
    branch = relay.If(cond, item, held)
    bound = relay.Let(cond, branch, item)
    call = relay.Call(held, [bound, item])
    assert item.tuple_value is held and item.index == 2
    assert (branch.cond, branch.true_branch, branch.false_branch) == (cond, item, held)
    assert (bound.var, bound.value, bound.body) == (cond, branch, item)
    assert call.op is held and call.args == (bound, item) and not call.attrs
    assert held.vid.same_as(relay.Var("held").vid) and held.name_hint == "held"


BAD_NODES: list[tuple[Callable[[], Any], str]] = [
    (lambda: relay.Tuple([relay.Var("a"), 4]), 'convert "4" with `const` first'),
    (lambda: relay.Tuple(9), "a tuple: expected a sequence"),
    (lambda: relay.TupleGetItem(relay.Var("a"), -1), "cannot be negative, found -1"),
    (lambda: relay.TupleGetItem(relay.Var("a"), "first"), "expected an integer, found 'first'"),
    (lambda: relay.Let("a", relay.const(1), relay.const(2)), "let: expected a relay.Var to bind"),
    (lambda: relay.If(True, relay.Var("a"), relay.Var("b")), 'convert "True"'),
    (lambda: relay.Function([relay.const(1)], relay.const(1)), "parameter: expected a relay.Var"),
    (lambda: relay.Function([relay.Var("a")] * 2, relay.const(1)), "occurs twice"),
    (lambda: relay.Call(relay.Var("f"), relay.Var("a")), "Call: args"),
    (lambda: relay.Constant([[1], [2, 3]]), "expected numbers or bools"),
    (lambda: relay.Clause(relay.PatternWildcard(), None), "expected a Relay expression"),
    (lambda: 1.5 * relay.Var("a"), 'convert "1.5" with `const` first'),
    (lambda: relay.save_json(3), "expected a relay module, expression or type, found int"),
]


@pytest.mark.parametrize(("make", "message"), BAD_NODES, ids=[m for _, m in BAD_NODES])
def test_nodes_of_the_wrong_things_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadNode) as caught:
        make()
    assert message in str(caught.value)


# -- places in sources


def test_a_place_of_a_source() -> None:
    point = relay.Span.at("encoder/layer", 12, 5)
    wide = relay.Span("encoder/layer", 12, 14, 5, 80)
    assert str(point) == str(wide) == "encoder/layer:12:5" and point != wide
    assert wide.source == "encoder/layer" and wide.source_name == relay.SourceName("encoder/layer")
    assert (wide.line, wide.end_line, wide.column, wide.end_column) == (12, 14, 5, 80)
    assert relay.load_json(relay.save_json(wide)) == wide
    assert relay.Span(None).source == ""


@pytest.mark.parametrize("made", [relay.Span, relay.SourceName])
def test_sources_have_names_of_text(made: Any) -> None:
    with pytest.raises(BadNode, match=f"{made.__name__}: expected a .*found 6"):
        made(6)


# -- attributes of functions


def test_attributes_of_functions_are_copied_not_changed() -> None:
    plain = relay.Function([leaf()], relay.const(1))
    marked = plain.with_attr("Inline", 1).with_attrs({"tag": "left", "sizes": (1, 2)})
    assert not plain.attrs and dict(marked.attrs) == {"Inline": 1, "tag": "left", "sizes": (1, 2)}
    assert marked.params == plain.params and marked.body is plain.body
    assert marked.attrs.tag == "left" and marked.attrs.get_int_tuple("sizes") == (1, 2)
    fewer = marked.without_attr("tag").without_attr("never given")
    assert set(fewer.attrs) == {"Inline", "sizes"} and "tag" in marked.attrs
    with pytest.raises(AttributeError, match="no attribute 'tag'"):
        _ = fewer.attrs.tag


@pytest.mark.parametrize("value", [0, -3, 2.5, False, "", "text", None, (), (4, 5)], ids=repr)
def test_plain_attributes_of_functions_are_kept(value: Any) -> None:
    func = relay.Function([], relay.Tuple([])).with_attr("note", value)
    again = relay.load_json(relay.save_json(func)).attrs["note"]
    assert again == value and type(again) is type(value)


@pytest.mark.xfail(strict=True, reason="attributes are plain values")
def test_an_attribute_of_a_function_may_be_an_expression() -> None:
    func = relay.Function([], relay.Tuple([])).with_attr("start", relay.const([2, 4]))
    again = relay.load_json(relay.save_json(func))
    np.testing.assert_array_equal(again.attrs["start"].data.numpy(), [2, 4])


# -- operators


LEVELS = {
    1: "add sigmoid nn.dense nn.softmax concatenate",
    2: "nn.conv2d nn.max_pool2d nn.pad",
    3: "reshape cast transpose take",
    4: "sum where argmax power",
}


@pytest.mark.parametrize(
    ("level", "name"), [(k, name) for k, names in LEVELS.items() for name in names.split()]
)
def test_operators_are_one_object_each_with_a_level(level: int, name: str) -> None:
    op = relay.op.get(name)
    assert op is relay.op.op.get(name) and op.name == name and op.support_level == level


@pytest.mark.parametrize(("name", "inputs"), [("zeros", 0), ("tan", 1), ("mod", 2), ("where", 3)])
def test_operators_know_their_operands(name: str, inputs: int) -> None:
    op = relay.op.get(name)
    assert op.num_inputs == len(op.arguments) == inputs and not op.has_attr("FSuite")


def test_attributes_of_operators_are_each_operators_own() -> None:
    @relay.op.register_op_attr("cosh", "FCost")
    def cost(elements: int) -> int:
        return 20 * elements

    with TempOpAttr("sinh", "FCost", "unknown"):
        assert relay.op.get("cosh").get_attr("FCost") is cost and cost(3) == 60
        assert relay.op.get("sinh").get_attr("FCost") == "unknown"
    relay.op.get("cosh").set_attr("FOther", (1,))
    relay.op.get("cosh").reset_attr("FCost")
    assert relay.op.get("cosh").get_attr("FCost") is None
    assert relay.op.get("cosh").get_attr("FOther") == (1,)
    relay.op.get("cosh").reset_attr("FOther")


@pytest.mark.parametrize("before", [None, "older"])
def test_an_attribute_for_a_while_gives_way_to_what_was(before: str | None) -> None:
    op = relay.op.get("atan")
    if before is not None:
        op.set_attr("FNote", before)
    with TempOpAttr("atan", "FNote", "outer"), TempOpAttr("atan", "FNote", "inner"):
        assert op.get_attr("FNote") == "inner"
    assert op.get_attr("FNote") == before
    op.reset_attr("FNote")


@pytest.fixture
def scaled() -> Iterator[Any]:
    registry.register("suite.scaled", "The first operand, as often as the second says.")
    yield registry.get("suite.scaled")
    registry.unregister("suite.scaled")


@pytest.mark.parametrize(
    ("relation", "dtype"), [("Broadcast", "float32"), ("BroadcastComp", "bool")]
)
def test_an_operator_of_the_user_has_a_type(scaled: Any, relation: str, dtype: str) -> None:
    scaled.set_num_inputs(2)
    scaled.add_argument("rows", "Tensor", "What is scaled.")
    scaled.add_type_rel(relation)
    registry.register_pattern("suite.scaled", registry.OpPattern.BROADCAST)
    call = relay.Call(scaled, [leaf("rows", relay.Any(), 1), leaf("factor", 6)])
    mod = relay.transform.InferType()(relay.IRModule.from_expr(call))
    assert mod["main"].body.checked_type == relay.TensorType((relay.Any(), 6), dtype)
    assert scaled.get_attr("TOpPattern") == registry.OpPattern.BROADCAST
    assert [a.name for a in scaled.arguments] == ["rows"]


REFUSED_OPS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: relay.op.get("nn.densest"), UnknownName, "unknown operator 'nn.densest'"),
    (lambda: registry.register("tan"), BadNode, "operator tan is registered already"),
    (lambda: registry.register(""), BadNode, "expected the name of an operator"),
    (
        lambda: registry.get("tan").add_type_rel("Identity"),
        BadNode,
        "an operator of Relay and cannot",
    ),
    (lambda: registry.register_pattern("tan", 0), BadNode, "an operator of Relay and cannot"),
    (
        lambda: registry.register_stateful("tan", True),
        Unsupported,
        "operators with side effects are not supported",
    ),
    (
        lambda: registry.register_op_attr("tan", "FTVMCompute", 1),
        Unsupported,
        "the compiler generates the kernels",
    ),
    (lambda: registry.register_gradient("tan"), Unsupported, "gradients are not supported"),
]


@pytest.mark.parametrize(("use", "error", "message"), REFUSED_OPS, ids=[r[2] for r in REFUSED_OPS])
def test_what_operators_do_not_take_is_refused(
    use: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        use()
    assert message in str(caught.value)


# -- constructors


def test_constructors_are_numbered_in_their_type() -> None:
    mod = relay.parse(SHAPES)
    header, *made = mod.get_type("Solid")
    assert header.name == "Solid" and [c.name_hint for c in made] == ["Ball", "Brick", "Point"]
    assert [c.tag for c in made] == [0, 1, 2] and [len(c.inputs) for c in made] == [1, 2, 0]
    assert mod.get_constructor("Brick") is mod.get_constructor("Solid", "Brick") is made[1]
    assert mod["volume"].body.clauses[1].lhs.constructor is made[1]


@pytest.mark.xfail(strict=True, reason="a tag is a position in its type")
def test_tags_tell_the_types_of_a_module_apart() -> None:
    mod = relay.parse(SHAPES)
    assert mod.get_constructor("Ball").tag != mod.get_constructor("Nothing").tag


@pytest.mark.parametrize("asked", [("Cube",), ("Maybe", "Ball"), ("Box", "Ball")], ids=str)
def test_unknown_constructors_are_refused(asked: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName, match=f"has no constructor {asked[-1]}; .*: Ball"):
        relay.parse(SHAPES).get_constructor(*asked)


# -- binding


A, B, C = (relay.Var(name) for name in "abc")
TWO = relay.const(2.0)
INNER = relay.Function([C], relay.multiply(C, A))
BOUND: dict[str, tuple[Any, dict[Any, Any], Any]] = {
    "nothing": (relay.tan(A), {}, relay.tan(A)),
    "the whole": (A, {A: TWO}, TWO),
    "two at once, not in turn": (relay.mod(A, B), {A: B, B: A}, relay.mod(B, A)),
    "in a tuple": (relay.Tuple([A, relay.Tuple([A])]), {A: B}, relay.Tuple([B, relay.Tuple([B])])),
    "in a branch": (relay.If(A, B, C), {B: TWO}, relay.If(A, TWO, C)),
    "in a function inside": (
        relay.Function([B], INNER),
        {A: TWO},
        relay.Function([B], relay.Function([C], relay.multiply(C, TWO))),
    ),
    "every parameter": (
        relay.Function([A], relay.tan(A)),
        {A: TWO},
        relay.Function([], relay.tan(TWO)),
    ),
    "a parameter that is not used": (relay.Function([A, B], B), {A: TWO}, relay.Function([B], B)),
    "what is free becomes a parameter": (
        relay.Function([A], relay.tan(A)),
        {A: relay.mod(B, C)},
        relay.Function([B, C], relay.tan(relay.mod(B, C))),
    ),
}


@pytest.mark.parametrize("case", BOUND)
def test_variables_are_bound(case: str) -> None:
    before, binds, after = BOUND[case]
    relay.assert_structural_equal(relay.bind(before, binds), after)


def test_parameters_are_bound_by_name() -> None:
    rows, scale = leaf("rows", relay.Any(), 4), leaf("scale", 4)
    func = relay.Function([rows, scale], relay.multiply(rows, scale))
    weights = np.linspace(-1, 1, 4, dtype="float32")
    bound = relay.build_module.bind_params_by_name(func, {"scale": weights, "other": 0})
    assert bound.params == (rows,) and len(func.params) == 2
    np.testing.assert_array_equal(bound.body.args[1].data.numpy(), weights)
    twin = relay.Function([leaf("w", 0), leaf("w", 1), rows], rows)
    assert len(relay.build_module.bind_params_by_name(twin, {"rows": 1}).params) == 2
    with pytest.raises(BadNode, match="several parameters have the name 'w'"):
        relay.build_module.bind_params_by_name(twin, {"w": weights})


@pytest.mark.parametrize(
    ("binds", "message"),
    [([A], "expected a mapping"), ({"a": TWO}, "as the key, found 'a'"), ({A: 2}, 'convert "2"')],
)
def test_bad_bindings_are_refused(binds: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        relay.bind(relay.tan(A), binds)


# -- well-formedness


def clauses(*variables: relay.Var) -> relay.Expr:
    found = [relay.Clause(relay.PatternVar(v), relay.tan(v)) for v in variables]
    return relay.Match(TWO, found)


FORMS: dict[str, tuple[Any, bool]] = {
    "a free variable, twice": (relay.mod(A, A), True),
    "one function, used twice": (relay.Tuple([INNER, INNER]), True),
    "a parameter of two functions": (relay.Tuple([INNER, relay.Function([C], C)]), False),
    "a parameter bound inside": (relay.Function([A], relay.Let(A, TWO, A)), False),
    "a parameter used outside": (relay.Tuple([relay.Function([B], B), B]), False),
    "a free variable, bound later": (relay.Tuple([B, relay.Function([B], B)]), False),
    "bindings of two branches": (
        relay.If(A, relay.Let(B, TWO, B), relay.Let(C, TWO, C)),
        True,
    ),
    "one variable in two branches": (
        relay.If(A, relay.Let(B, TWO, B), relay.Let(B, TWO, B)),
        False,
    ),
    "a binding that calls itself": (relay.Let(B, relay.Function([C], B(C)), B), True),
    "a binding used beside it": (relay.mod(relay.Let(B, TWO, B), B), False),
    "a chain": (relay.Let(B, TWO, relay.Let(C, relay.tan(B), relay.mod(B, C))), True),
    "clauses with variables": (clauses(B, C), True),
    "clauses with one variable": (clauses(B, B), False),
    "a variable of a clause outside": (relay.Tuple([clauses(C), C]), False),
    "items": (relay.TupleGetItem(relay.Tuple([A, relay.TupleGetItem(B, 1)]), 0), True),
}


@pytest.mark.parametrize("case", FORMS)
def test_variables_are_bound_once_and_used_inside(case: str) -> None:
    expr, fits = FORMS[case]
    assert relay.analysis.well_formed(expr) is fits
    if relay.free_vars(expr) == []:
        assert relay.analysis.well_formed(relay.IRModule.from_expr(expr)) is fits
