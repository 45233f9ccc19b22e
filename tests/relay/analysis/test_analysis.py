"""Questions about programs: variables, forms, counts, cases, calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.analysis.binding import bind_params_by_name

from tvm_disc import relay
from tvm_disc.errors import BadNode, TypeMismatch, UnknownName, Unsupported
from tvm_disc.relay import analysis
from tvm_disc.relay.inference.infer import infer_type

x = relay.var("x", shape=(2, 3))
y = relay.var("y", shape=(2, 3))
z = relay.var("z", shape=(2, 3))
A, B = relay.TypeVar("A"), relay.TypeVar("B")
s = relay.exp(x)
pair = relay.Tuple([x])
TRUE = relay.const(True)
identity = relay.Function([x], x)


def test_variables() -> None:
    func = relay.Function([x], relay.Let(y, x, y + z))
    assert analysis.free_vars(func) == [z]
    assert analysis.bound_vars(func) == [y, x] or analysis.bound_vars(func) == [x, y]
    assert set(analysis.all_vars(func)) == {x, y, z}
    assert analysis.bound_vars(relay.PatternTuple([relay.PatternVar(x), relay.PatternVar(y)])) == [
        x,
        y,
    ]


def test_type_variables() -> None:
    func_type = relay.FuncType([A], B, [A])
    assert analysis.bound_type_vars(func_type) == [A]
    assert analysis.free_type_vars(func_type) == [B]
    assert analysis.all_type_vars(relay.GlobalTypeVar("List")(A)) == [A]
    v = relay.Var("v", A)
    assert analysis.bound_type_vars(relay.Function([v], v, B, [A])) == [A]
    assert analysis.free_type_vars(relay.Function([v], v, B, [A])) == [B]


def test_dtypes_are_those_of_every_part() -> None:
    assert analysis.all_dtypes(infer_type(relay.cast(x, "int8"))) == {"float32", "int8"}


def test_post_order() -> None:
    seen: list[str] = []
    expr = relay.Function([x], relay.If(TRUE, x + x, x))
    analysis.post_order_visit(expr, lambda e: seen.append(type(e).__name__))
    assert seen == ["Var", "Constant", "Op", "Call", "If", "Function"]


SHARED = relay.Let(x, y, x)
WELL_FORMED: list[tuple[Any, bool]] = [
    (x, True),
    (identity, True),
    (SHARED, True),
    (relay.Tuple([SHARED, SHARED]), True),
    (relay.Let(x, x, x), True),
    (relay.Function([x], relay.Let(y, x, y)), True),
    (relay.Let(y, identity, relay.Let(z, identity, x)), False),
    (relay.Let(z, identity, relay.Function([x], x)), False),
    (relay.Tuple([SHARED, x]), False),
    (relay.Tuple([x, SHARED]), False),
    (relay.Tuple([relay.Let(x, y, x), relay.Let(x, y, x)]), False),
    (relay.Function([x], relay.Function([x], x)), False),
    (relay.IRModule({"f": identity, "g": relay.Function([x], x)}), False),
]


@pytest.mark.parametrize("k", range(len(WELL_FORMED)))
def test_well_formed(k: int) -> None:
    expr, fits = WELL_FORMED[k]
    assert analysis.well_formed(expr) is fits


def test_long_chains_of_lets_are_well_formed() -> None:
    body: relay.Expr = x
    for k in range(5000):
        body = relay.Let(relay.Var(f"v{k}"), x, body)
    assert analysis.well_formed(body)


r = relay.var("r")
BASIC: list[tuple[Any, bool]] = [
    (s + s, True),
    (relay.If(TRUE, relay.If(TRUE, s, x), x), True),
    (relay.Let(y, s, y + s), True),
    (relay.Let(y, s, relay.Let(z, s, y + z)), True),
    (relay.If(TRUE, relay.exp(x), relay.exp(x)), True),
    (relay.Function([r], s), True),
    (relay.If(TRUE, relay.Let(y, s, y + s), x), True),
    (relay.If(TRUE, relay.const(1), relay.const(1)), True),
    (relay.If(TRUE, s, s), False),
    (relay.If(TRUE, s, x) + s, False),
    (relay.Tuple([s, relay.Function([r], s)]), False),
    (relay.If(TRUE, pair, pair), False),
    (relay.Tuple([relay.Let(y, s, y), s]), False),
]


@pytest.mark.parametrize("k", range(len(BASIC)))
def test_basic_block_normal_form(k: int) -> None:
    expr, fits = BASIC[k]
    if fits:
        assert analysis.check_basic_block_normal_form(relay.Function([x], expr))
        return
    with pytest.raises(TypeMismatch, match="violates the basic block normal form"):
        analysis.check_basic_block_normal_form(relay.Function([x], expr))


def test_constants() -> None:
    one = relay.const(1)
    assert analysis.check_constant(one) and analysis.check_constant(relay.Tuple([one]))
    assert not analysis.check_constant(relay.Tuple([one, x]))
    assert not analysis.check_constant(relay.exp(relay.const(1.0)))


def test_features() -> None:
    feature = analysis.Feature
    assert analysis.detect_feature(relay.Let(y, s, y)) == {
        feature.fVar,
        feature.fLet,
        feature.fOp,
        feature.fCall,
    }
    assert feature.fGraph in analysis.detect_feature(s + s)
    f = relay.Var("f")
    loop = relay.Let(f, relay.Function([x], relay.Call(f, [x])), f)
    assert feature.fLetRec in analysis.detect_feature(loop, relay.IRModule())


def typed_macs(expr: relay.Expr) -> int:
    """Multiplications of an expression after inference."""
    return analysis.get_total_mac_number(infer_type(expr))


def test_multiplications() -> None:
    image = relay.var("i", shape=(2, 4, 8, 8))
    dense = relay.nn.dense(x, relay.var("w"), units=4)
    conv = relay.nn.conv2d(
        image, relay.var("k"), groups=2, padding=(1, 1), channels=6, kernel_size=(3, 3)
    )
    back = relay.nn.conv2d_transpose(
        image, relay.var("k"), strides=(2, 2), channels=6, kernel_size=(3, 3)
    )
    batch = relay.nn.batch_matmul(relay.var("a", shape=(5, 4, 8)), relay.var("b", shape=(5, 6, 8)))
    found = [typed_macs(e) for e in (dense, conv, back, batch, x + x)]
    assert found == [24, 2 * 6 * 8 * 8 * 2 * 9, 2 * 6 * 17 * 17 * 4 * 9, 960, 0]
    with pytest.raises(TypeMismatch, match="InferType"):
        analysis.get_total_mac_number(dense)


def test_counts() -> None:
    dense = relay.nn.dense(x, relay.var("w", shape=(3, 3)))
    assert analysis.count_layers(relay.nn.dense(dense, dense), ["nn.dense"]) == 2
    assert analysis.count_layers(s + s, ["nn.dense"]) == 0
    mod = relay.IRModule.from_expr(relay.exp(relay.exp(x)) + x)
    assert analysis.list_op_freqs(mod) == {"exp": 2, "add": 1}
    scale, zero = relay.const(1.0), relay.const(0)
    inner = relay.nn.relu(
        relay.qnn.dequantize(relay.var("q", shape=(2,), dtype="int8"), scale, zero)
    )
    fake = relay.IRModule.from_expr(relay.qnn.quantize(inner, scale, zero))
    assert analysis.list_fake_quantized_op_freqs(fake) == {"nn.relu": 1}
    product = relay.nn.dense(x, relay.transpose(relay.var("w", shape=(3, 4)), (1, 0)))
    assert analysis.search_fc_transpose(product) == ["w"]


def test_a_part_of_a_program() -> None:
    mod = relay.IRModule.from_expr(relay.tanh(relay.exp(x)))
    assert "tanh" not in analysis.extract_intermdeiate_expr(mod, 0).astext()
    with pytest.raises(
        TypeMismatch, match=r"there is no call 2 \(counted from 0\) in @main, which has 2 calls"
    ):
        analysis.extract_intermdeiate_expr(mod, 2)


KIND = relay.TypeKind
KINDS = [
    (relay.TensorType((2,)), KIND.Type),
    (relay.TupleType([A]), KIND.Type),
    (relay.TypeVar("a", KIND.BaseType), KIND.BaseType),
    (relay.GlobalTypeVar("L"), KIND.AdtHandle),
    (relay.IncompleteType(KIND.BaseType), KIND.BaseType),
    (relay.FuncType([A], A, [A]), KIND.Type),
    (relay.RefType(A), KIND.Type),
    (relay.TypeRelation(None, [A], 1), KIND.Constraint),
]


@pytest.mark.parametrize("k", range(len(KINDS)))
def test_kinds(k: int) -> None:
    assert analysis.check_kind(KINDS[k][0]) is KINDS[k][1]


SHAPE = relay.TypeVar("S", KIND.ShapeVar)
WRONG_KINDS = [
    (relay.TupleType([SHAPE]), "tuple member: S is of kind ShapeVar, expected Type"),
    (relay.FuncType([SHAPE], A), "argument or result of a function: S"),
    (relay.FuncType([A], A, [SHAPE]), "type parameter: S"),
    (relay.RefType(SHAPE), "kind for a type inside another"),
    (relay.TypeRelation(None, [SHAPE], 1), "argument of a relation"),
    (relay.GlobalTypeVar("L")(), "type L is undefined"),
    (A(B), "callee of a type call: expected the name of a data type, found A"),
]


@pytest.mark.parametrize("k", range(len(WRONG_KINDS)))
def test_wrong_kinds(k: int) -> None:
    with pytest.raises(BadNode, match=WRONG_KINDS[k][1]):
        analysis.check_kind(WRONG_KINDS[k][0])


def lists() -> tuple[relay.IRModule, relay.Constructor, relay.Constructor]:
    """A module with the data type of lists."""
    mod, name = relay.IRModule(), relay.GlobalTypeVar("List")
    cons = relay.Constructor("Cons", [A, name(A)], name)
    mod[name] = relay.TypeData(name, [A], [cons, relay.Constructor("Nil", [], name)])
    return mod, *mod.get_type("List")[1:]


def test_data_types_have_kinds() -> None:
    mod, *_ = lists()
    name = mod.get_global_type_var("List")
    assert analysis.check_kind(mod[name], mod) is KIND.TypeData
    assert analysis.check_kind(name(A), mod) is KIND.Type
    with pytest.raises(BadNode, match="expected 1 type argument, found 2"):
        analysis.check_kind(name(A, A), mod)


W = relay.PatternWildcard


def unmatched(*patterns: relay.Pattern) -> list[str]:
    """What clauses with these patterns leave, as text."""
    v = relay.Var("v")
    mod, *_ = lists()
    found = analysis.unmatched_cases(relay.Match(v, [relay.Clause(p, v) for p in patterns]), mod)
    return [shown(p) for p in found]


def shown(pattern: relay.Pattern) -> str:
    """A pattern as text."""
    if isinstance(pattern, relay.PatternConstructor):
        inner = ",".join(map(shown, pattern.patterns))
        return f"{pattern.constructor.name_hint}({inner})"
    if isinstance(pattern, relay.PatternTuple):
        return f"({','.join(map(shown, pattern.patterns))})"
    return "_"


def test_unmatched_cases() -> None:
    _, cons, nil = lists()
    some, none = relay.PatternConstructor(cons, [W(), W()]), relay.PatternConstructor(nil)
    assert unmatched() == ["_"]
    assert unmatched(W()) == [] == unmatched(relay.PatternVar(relay.Var("a")))
    assert unmatched(some) == ["Nil()"]
    assert unmatched(some, none) == []
    assert sorted(unmatched(relay.PatternConstructor(cons, [W(), some]))) == [
        "Cons(_,Nil())",
        "Nil()",
    ]
    assert len(unmatched(relay.PatternTuple([some, none]))) == 3
    with pytest.raises(TypeMismatch, match="does not define type List"):
        v = relay.Var("v")
        analysis.unmatched_cases(relay.Match(v, [relay.Clause(some, v)]))


def test_call_graph() -> None:
    mod = relay.parse(
        '#[version = "0.0.5"]\n'
        "def @g1(%a: int32) { %a }\ndef @g2(%a: int32) { @g1(@g1(%a)) }\n"
        "def @rec(%a: int32) -> int32 { @rec(%a) }\n"
        "def @main(%a: int32) { add(@g2(%a), @g1(%a)) }"
    )
    graph = analysis.CallGraph(mod)
    names = ("g1", "g2", "main", "rec")
    assert [graph.ref_count(n) for n in names] == [2, 1, 0, 1]
    assert [graph.global_call_count(n) for n in names] == [0, 1, 2, 1]
    assert [graph.is_recursive(n) for n in names] == [False, False, False, True]
    assert graph.ref_count(mod.get_global_var("g1")) == 2 and graph.module is mod
    assert "call site: <g2> calls g1" in graph.print_var("g2") and "<rec>" in str(graph)
    with pytest.raises(UnknownName, match="no function @h"):
        graph.ref_count("h")


def test_bind() -> None:
    two = relay.const(2.0)
    k = relay.var("k", shape=(2, 3))
    func = relay.Function([x, y], x + y)
    assert relay.bind(x + y, {x: two}).args == (two, y)
    assert relay.bind(func, {x: two}).params == (y,)
    assert relay.bind(func, {x: k}).params == (y, k)
    with pytest.raises(BadNode, match=r"relay.Var as the key, found 'x'"):
        relay.bind(func, {"x": two})


def test_bind_parameters_by_name() -> None:
    func = relay.Function([x, y], x + y)
    bound = bind_params_by_name(func, {"y": np.ones((2, 3), "float32"), "other": np.ones(1)})
    assert bound.params == (x,) and bound.body.args[1].data.shape == (2, 3)
    assert bind_params_by_name(func, {"x": relay.const(1.0)}).params == (y,)
    twice = relay.Function([relay.var("a"), relay.var("a")], x)
    with pytest.raises(BadNode, match="several parameters have the name 'a'"):
        bind_params_by_name(twice, {"a": np.ones(1)})


@pytest.mark.parametrize("name", ["extract_fused_functions", "AnnotatedRegionSet", "sparse_dense"])
def test_what_has_no_meaning_says_why(name: str) -> None:
    with pytest.raises(Unsupported, match=f"relay.analysis.{name}: "):
        getattr(analysis, name)(relay.IRModule())
    with pytest.raises(AttributeError, match="no analysis 'sweep'"):
        _ = analysis.sweep
