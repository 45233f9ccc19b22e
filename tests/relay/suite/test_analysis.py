"""Questions about programs: variables, types, forms, calls, operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import DiscError, Unsupported
from tvm_disc.relay import TypeKind, analysis, transform

HEAD = (
    "free_var %a: Tensor[(5, 2), float32]; free_var %b: Tensor[(5, 2), float32]; free_var %t: bool;"
)


def graph(text: str) -> relay.Expr:
    """An expression over three free variables."""
    return relay.parse_expr(HEAD + text)


def module(text: str) -> relay.IRModule:
    return relay.parse('#[version = "0.0.5"]\n' + text)


def names(found: list[Any]) -> str:
    return " ".join(v.name_hint for v in found)


# ---- variables: which are free, which are bound, and all of them, in order

VARIABLES = {
    "%a": ("a", "", "a"),
    "3": ("", "", ""),
    "add(%b, %a)": ("b a", "", "b a"),
    "add(%a, add(%b, %a))": ("a b", "", "a b"),
    "(%b, (%a,))": ("b a", "", "b a"),
    "(%a, %b).1": ("a b", "", "a b"),
    "let %x = %a; %x": ("a", "x", "x a"),
    "let %x = %a; let %y = add(%x, %b); %y": ("a b", "x y", "x a y b"),
    "fn (%x: bool) { %x }": ("", "x", "x"),
    "fn (%x: bool, %y: bool) { %a }": ("a", "x y", "x y a"),
    "fn (%x: bool) { fn (%y: bool) { (%x, %y, %b) } }": ("b", "x y", "x y b"),
    "if (%t) { %a } else { %b }": ("t a b", "", "t a b"),
    "if (%t) { let %x = %a; %x } else { %b }": ("t a b", "x", "t x a b"),
    "ref_read(ref(%a))": ("a", "", "a"),
    "let %f = fn (%x: bool) -> bool { %f(%x) }; %f(%t)": ("t", "f x", "f x t"),
}


@pytest.mark.parametrize("program", VARIABLES)
def test_variables(program: str) -> None:
    free, bound, every = VARIABLES[program]
    expr = graph(program)
    assert names(analysis.free_vars(expr)) == free
    assert names(analysis.bound_vars(expr)) == bound
    assert names(analysis.all_vars(expr)) == every
    assert names(relay.free_vars(expr)) == free


def test_variables_of_patterns() -> None:
    mod = module(
        "type L { Nil, Cons(int8, L), } def @f(%x: L) { match (%x) { "
        "Nil => 0i16, Cons(%h, Cons(_, %t)) => 1i16, Cons(%u, _) => 2i16 } }"
    )
    match = mod["f"].body
    assert names(analysis.bound_vars(match)) == "h t u"
    assert names(analysis.bound_vars(match.clauses[1].lhs)) == "h t"
    assert names(analysis.free_vars(match)) == "x"


# ---- type variables

TYPED = {
    "a function": (lambda s, t: relay.FuncType([s], t, [s]), "t", "s", "s t"),
    "a tuple": (lambda s, t: relay.TupleType([t, s, t]), "t s", "", "t s"),
    "a tensor": (lambda s, t: relay.TensorType((2,)), "", "", ""),
    "a reference": (lambda s, t: relay.RefType(relay.FuncType([s, t], s, [t])), "s", "t", "t s"),
    "a data type": (lambda s, t: relay.TypeCall(relay.GlobalTypeVar("L"), [t]), "t", "", "t"),
    "a program": (
        lambda s, t: relay.Function([relay.Var("x", s)], relay.Var("y", t), s, [s]),
        "t",
        "s",
        "s t",
    ),
    "a call": (
        lambda s, t: relay.Call(relay.GlobalVar("f"), [relay.Var("x", s)], None, [t]),
        "s t",
        "",
        "s t",
    ),
}


@pytest.mark.parametrize("case", TYPED)
def test_type_variables(case: str) -> None:
    make, free, bound, every = TYPED[case]
    of = make(relay.TypeVar("s"), relay.TypeVar("t"))
    for ask, expected in (
        (analysis.free_type_vars, free),
        (analysis.bound_type_vars, bound),
        (analysis.all_type_vars, every),
    ):
        assert sorted(names(ask(of)).split()) == sorted(expected.split())


# ---- kinds of types

N = relay.TypeVar("n", TypeKind.ShapeVar)
S = relay.TypeVar("s")
LIST = module("type L[A] { Nil, Cons(A, L[A]), }")
KINDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a tensor": (lambda: relay.TensorType((2,)), TypeKind.Type),
    "a variable": (lambda: S, TypeKind.Type),
    "dims": (lambda: N, TypeKind.ShapeVar),
    "a tuple": (lambda: relay.TupleType([S, relay.TensorType(())]), TypeKind.Type),
    "a function": (lambda: relay.FuncType([S], S, [S]), TypeKind.Type),
    "a reference": (lambda: relay.RefType(S), TypeKind.Type),
    "a name": (lambda: relay.GlobalTypeVar("L"), TypeKind.AdtHandle),
    "an open type": (lambda: relay.IncompleteType(), TypeKind.Type),
    "a list": (lambda: LIST.get_global_type_var("L")(S), TypeKind.Type),
    "a relation": (lambda: relay.TypeRelation(None, [S], 1), TypeKind.Constraint),
    "dims in a tuple": (lambda: relay.TupleType([N]), None),
    "dims in a reference": (lambda: relay.RefType(N), None),
    "dims as an argument": (lambda: relay.FuncType([N], S), None),
    "dims as a result": (lambda: relay.FuncType([S], N), None),
    "two for one": (lambda: LIST.get_global_type_var("L")(S, S), None),
    "of dims": (lambda: LIST.get_global_type_var("L")(N), None),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case: str) -> None:
    make, expected = KINDS[case]
    if expected is None:
        with pytest.raises(DiscError):
            analysis.check_kind(make(), LIST)
    else:
        assert analysis.check_kind(make(), LIST) == expected


# ---- visits

ORDERS = {
    "add(exp(%a), %b)": "exp a exp() add b add()",
    "%0 = exp(%a); add(%0, %0)": "add exp a exp() add()",
    "(%a, %b).0": "a b Tuple TupleGetItem",
    "if (%t) { %a } else { %b }": "t a b If",
    "let %x = %a; %x": "x a Let",
    "fn (%x: bool) { %x }": "x Function",
}


@pytest.mark.parametrize("program", ORDERS)
def test_operands_are_visited_first_and_once(program: str) -> None:
    seen: list[str] = []

    def note(node: relay.Expr) -> None:
        if isinstance(node, relay.Call):
            seen.append(f"{node.op.name}()")
        else:
            found = getattr(node, "name_hint", None) or getattr(node, "name", None)
            seen.append(found or type(node).__name__)

    analysis.post_order_visit(graph(program), note)
    assert len(set(seen)) == len(seen) and sorted(seen) == sorted(ORDERS[program].split())
    assert seen[-1] == ORDERS[program].split()[-1]


def test_a_long_chain_is_visited() -> None:
    chain: relay.Expr = relay.var("x", shape=(2,))
    for _ in range(20_000):
        chain = relay.exp(chain)
    count = []
    analysis.post_order_visit(chain, count.append)
    assert len(count) == 20_002 and names(analysis.free_vars(chain)) == "x"


# ---- basic blocks

BLOCKS = {
    "exp(%a)": True,
    "%0 = exp(%a); add(%0, %0)": True,
    "if (%t) { exp(%a) } else { tanh(%a) }": True,
    "%0 = exp(%a); if (%t) { abs(%0) } else { tanh(%0) }": False,
    "let %x = exp(%a); if (%t) { abs(%x) } else { tanh(%x) }": True,
    "%0 = exp(%a); if (%t) { %0 } else { %b }": True,
    "%0 = exp(%a); (%0, fn () { %0 })": False,
    "let %x = exp(%a); (%x, fn () { %x })": True,
    "if (any(greater(%a, %b))) { %a } else { %b }": True,
    "fn (%x: bool) { if (%x) { let %y = exp(%a); %y } else { %b } }": True,
}


@pytest.mark.parametrize("program", BLOCKS)
def test_basic_blocks(program: str) -> None:
    expr = graph(program)
    if BLOCKS[program]:
        assert analysis.check_basic_block_normal_form(expr)
    else:
        with pytest.raises(DiscError, match="violates the basic block normal form"):
            analysis.check_basic_block_normal_form(expr)
    func = relay.Function(analysis.free_vars(expr), expr)
    if not isinstance(expr, relay.Function):
        made = transform.ToBasicBlockNormalForm()(relay.IRModule.from_expr(func))
        assert analysis.check_basic_block_normal_form(made["main"])


# ---- what the language of a program is

F = analysis.Feature
FEATURES = {
    "%a": {F.fVar},
    "3": {F.fConstant},
    "(%a, %b)": {F.fVar, F.fTuple},
    "(%a, %b).0": {F.fVar, F.fTuple, F.fTupleGetItem},
    "exp(%a)": {F.fVar, F.fOp, F.fCall},
    "let %x = %a; %x": {F.fVar, F.fLet},
    "if (%t) { 1 } else { 2 }": {F.fVar, F.fConstant, F.fIf},
    "ref(%a)": {F.fVar, F.fRefCreate},
    "ref_read(ref(%a))": {F.fVar, F.fRefCreate, F.fRefRead},
    "ref_write(ref(%a), %b)": {F.fVar, F.fRefCreate, F.fRefWrite},
}


@pytest.mark.parametrize("program", FEATURES)
def test_features(program: str) -> None:
    found = set(analysis.detect_feature(graph(program)))
    assert found == FEATURES[program]


def test_a_shared_part_makes_a_graph() -> None:
    assert F.fGraph in analysis.detect_feature(graph("%0 = exp(%a); add(%0, %0)"))
    assert F.fGraph not in analysis.detect_feature(graph("add(exp(%a), exp(%a))"))
    mod = module("def @main(%a: float32) { %0 = exp(%a); add(%0, %0) }")
    assert F.fGraph in analysis.detect_feature(mod)


# ---- calls between functions

CALLS = module("""def @main() { (@one(), @two()) } def @one() { @two() } def @two() { 3 }
    def @self(%x: int32) -> int32 { @self(%x) } def @alone() { 1 }""")
REFERENCES = {
    "main": (0, 2, False),
    "one": (1, 1, False),
    "two": (2, 0, False),
    "self": (1, 1, True),
    "alone": (0, 0, False),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_call_graph(name: str) -> None:
    calls = analysis.CallGraph(CALLS)
    for key in (name, CALLS.get_global_var(name)):
        found = (calls.ref_count(key), calls.global_call_count(key), calls.is_recursive(key))
        assert found == REFERENCES[name]
    assert f"Call graph node: {name}" in calls.print_var(name) and name in str(calls)
    assert calls.module is CALLS


def test_a_function_that_the_call_graph_has_not() -> None:
    with pytest.raises(DiscError, match="no function @nobody; its functions:"):
        analysis.CallGraph(CALLS).ref_count("nobody")
    with pytest.raises(DiscError, match=r"CallGraph: expected a relay\.IRModule, found 3"):
        analysis.CallGraph(3)


# ---- cases of a match

MATCHES = {
    "Nil => 0, Cons(_, _) => 1": 0,
    "_ => 0": 0,
    "%x => 0": 0,
    "Nil => 0": 1,
    "Cons(_, _) => 0": 1,
    "Cons(_, Nil) => 0, Nil => 1": 1,
    "Cons(_, Nil) => 0, Cons(_, Cons(_, _)) => 1, Nil => 2": 0,
    "Cons(Nil, _) => 0, Nil => 1": 1,
    "Nil => 0, Cons(Nil, Nil) => 1": 2,
}


@pytest.mark.parametrize("clauses", MATCHES)
def test_cases_that_no_clause_takes(clauses: str) -> None:
    mod = module(f"type T {{ Nil, Cons(T, T), }} def @f(%t: T) {{ match? (%t) {{ {clauses} }} }}")
    found = analysis.unmatched_cases(mod["f"].body, mod)
    assert bool(found) is bool(MATCHES[clauses]) and len(found) >= MATCHES[clauses]
    assert all(isinstance(case, relay.Pattern) for case in found)


# ---- counts

NET = module("""def @main(%x: Tensor[(2, 3, 8, 8), float32], %k: Tensor[(4, 3, 3, 3), float32],
    %w: Tensor[(5, 6), float32], %y: Tensor[(7, 6), float32], %p: Tensor[(3, 2, 6), float32],
    %q: Tensor[(3, 4, 6), float32]) {
    %0 = nn.conv2d(%x, %k, channels=4, kernel_size=[3, 3]);
    (nn.relu(%0), nn.dense(%y, %w, units=5), nn.batch_matmul(%p, %q, transpose_b=True),
    nn.relu(nn.relu(%y))) }""")


def test_operators_are_counted() -> None:
    expected = {"nn.conv2d": 1, "nn.relu": 3, "nn.dense": 1, "nn.batch_matmul": 1}
    assert analysis.list_op_freqs(NET) == expected
    assert relay.testing.count_ops(NET["main"]) == expected


@pytest.mark.parametrize(
    ("field", "count"), [(0, 2 * 4 * 6 * 6 * 27), (1, 7 * 5 * 6), (2, 3 * 2 * 4 * 6), (3, 0)]
)
def test_products_are_counted(field: int, count: int) -> None:
    typed = transform.InferType()(NET)["main"]
    part = relay.Function(typed.params, typed.body.fields[field])
    mod = transform.InferType()(relay.IRModule.from_expr(part))
    assert analysis.get_total_mac_number(mod["main"]) == count


@pytest.mark.parametrize(
    ("operators", "depth"), [(["nn.conv2d"], 1), (["nn.relu"], 2), (["nn.conv2d", "nn.relu"], 2)]
)
def test_layers_are_counted(operators: list[str], depth: int) -> None:
    assert analysis.count_layers(NET, operators) == depth


def test_element_types() -> None:
    mod = transform.InferType()(module('def @main(%a: int8) { (cast(%a, dtype="bool"), 1f) }'))
    assert analysis.all_dtypes(mod["main"]) == {"int8", "bool", "float32"}


CONSTANTS = {"3": True, "(1, 2f)": True, "(1, (2, 3))": True, "%a": False, "(1, %a)": False}


@pytest.mark.parametrize("program", CONSTANTS)
def test_what_is_constant(program: str) -> None:
    assert analysis.check_constant(graph(program)) is CONSTANTS[program]


@pytest.mark.parametrize("index", range(3))
def test_a_part_of_a_program(index: int) -> None:
    mod = module("def @main(%a: float32) { tanh(exp(abs(%a))) }")
    made = analysis.extract_intermediate_expr(mod, index)
    assert made["main"].body.op.name == ["abs", "exp", "tanh"][index]


# ---- what is refused

NOT_HERE = "extract_fused_functions get_calibration_data sparse_dense sparse_conv2d".split()


@pytest.mark.parametrize("name", NOT_HERE)
def test_an_analysis_that_makes_no_sense_says_why(name: str) -> None:
    with pytest.raises(Unsupported, match=rf"relay.analysis.{name}: \w+"):
        getattr(analysis, name)(NET)


BAD: dict[str, Callable[[], Any]] = {
    "free_vars": lambda: analysis.free_vars(3),
    "all_vars": lambda: analysis.all_vars("x"),
    "post_order_visit": lambda: analysis.post_order_visit(None, print),
    "list_op_freqs": lambda: analysis.list_op_freqs(3),
    "check_kind": lambda: analysis.check_kind(3),
    "well_formed": lambda: analysis.well_formed(3),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_program_is_refused(name: str) -> None:
    with pytest.raises((DiscError, TypeError), match=r"expected|convert"):
        BAD[name]()
