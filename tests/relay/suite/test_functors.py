"""Walks that a user's class refines: visitors of expressions and types, functors, scopes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.relay import ExprFunctor, ExprVisitor, TypeFunctor, TypeVisitor

HEAD = "free_var %a: int32; free_var %b: int32; free_var %t: bool;"


def graph(text: str) -> relay.Expr:
    """An expression over three free variables."""
    return relay.parse_expr(HEAD + text)


LIST = relay.parse("""#[version = "0.0.5"]
    type L { Nil, Cons(int8, L), }
    def @f(%l: L) { match (%l) { Nil => 0i16, Cons(_, Nil) => 1i16, _ => 2i16 } }""")

# Programs, and how often each method is called for them.
VISITS = {
    "%a": "var 1",
    "3": "constant 1",
    "add(%a, %b)": "call 1 op 1 var 2",
    "add(%a, %a)": "call 1 op 1 var 1",
    "add(1, 2)": "call 1 constant 2 op 1",
    "%0 = add(%a, 1); multiply(%0, %0)": "call 2 constant 1 op 2 var 1",
    "(%a, (%b, 3))": "constant 1 tuple 2 var 2",
    "(%a, %b).1": "tuple 1 tuple_getitem 1 var 2",
    "let %x = %a; %x": "let 1 var 2",
    "let %x = %a; let %y = %x; %y": "let 2 var 3",
    "if (%t) { %a } else { %b }": "if 1 var 3",
    "fn (%x: int8, %y: int8) { %x }": "function 1 var 2",
    "fn (%x: int8) { %x }(1i8)": "call 1 constant 1 function 1 var 1",
    "ref(%a)": "ref_create 1 var 1",
    "ref_read(ref(%a))": "ref_create 1 ref_read 1 var 1",
    "ref_write(ref(%a), %b)": "ref_create 1 ref_write 1 var 2",
}


class Tally(ExprVisitor):
    """Counts calls of each method."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("visit_"):
            self.found[name.removeprefix("visit_")] += 1
        return found

    def told(self) -> str:
        return " ".join(f"{k} {v}" for k, v in sorted(self.found.items()) if v)


@pytest.mark.parametrize("program", VISITS)
def test_every_node_is_visited_once(program: str) -> None:
    tally = Tally()
    tally.visit(graph(program))
    assert tally.told() == VISITS[program]


def test_matches_names_and_constructors() -> None:
    tally = Tally()
    tally.visit(LIST["f"])
    assert tally.told() == "constant 3 function 1 match 1 var 1"
    tally = Tally()
    body = relay.Call(LIST.get_global_var("f"), [LIST.get_constructor("Nil")()])
    tally.visit(body)
    assert tally.told() == "call 2 constructor 1 global_var 1"


def test_a_second_visit_counts_nothing() -> None:
    tally, expr = Tally(), graph("add(%a, %b)")
    tally.visit(expr)
    before = tally.told()
    tally.visit(expr)
    assert tally.told() == before


class Callers(ExprVisitor):
    """Names of operators, in the order of the visit."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def visit_call(self, call: relay.Call) -> None:
        super().visit_call(call)
        self.names.append(call.op.name)


ORDER = {
    "add(exp(%a), tanh(%b))": "exp tanh add",
    "%0 = exp(%a); add(tanh(%0), abs(%0))": "exp tanh abs add",
    "(exp(%a), tanh(%a))": "exp tanh",
    "let %x = exp(%a); tanh(%x)": "exp tanh",
    "if (%t) { exp(%a) } else { tanh(%a) }": "exp tanh",
    "fn () { exp(%a) }": "exp",
    "exp((tanh(%a), 1).0)": "tanh exp",
    "ref_write(ref(exp(%a)), tanh(%b))": "exp tanh",
}


@pytest.mark.parametrize("program", ORDER)
def test_operands_come_in_their_order(program: str) -> None:
    visitor = Callers()
    visitor.visit(graph(program))
    assert " ".join(visitor.names) == ORDER[program]


class Stops(Callers):
    """Does not look inside of functions."""

    def visit_function(self, fn: relay.Function) -> None:
        self.names.append("fn")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("fn () { exp(%a) }", "fn"),
        ("(fn () { exp(%a) }, tanh(%b))", "fn tanh"),
        ("let %f = fn () { exp(%a) }; abs(%b)", "fn abs"),
    ],
)
def test_a_method_may_leave_a_part_out(program: str, expected: str) -> None:
    visitor = Stops()
    visitor.visit(graph(program))
    assert " ".join(visitor.names) == expected


@pytest.mark.parametrize("kind", ["calls", "lets", "tuples", "branches"])
def test_deep_programs(kind: str) -> None:
    x = relay.var("x", "int32")
    grow = {
        "calls": lambda e, _k: relay.negative(e),
        "lets": lambda e, k: relay.Let(relay.var(f"v{k}", "int32"), x, e),
        "tuples": lambda e, _k: relay.TupleGetItem(relay.Tuple([e]), 0),
        "branches": lambda e, _k: relay.If(relay.const(True), e, x),
    }[kind]
    deep: relay.Expr = x
    for k in range(3_000):
        deep = grow(deep, k)
    tally = Tally()
    tally.visit(deep)
    assert sum(tally.found.values()) >= 3_000


# ---- functors compute values


class Depth(ExprFunctor):
    """The length of the longest way through a program."""

    def visit_var(self, _var: relay.Var) -> int:
        return 1

    def visit_constant(self, _constant: relay.Constant) -> int:
        return 1

    def visit_op(self, _op: relay.Op) -> int:
        return 0

    def visit_call(self, call: relay.Call) -> int:
        return 1 + max(self.visit(a) for a in (call.op, *call.args))

    def visit_tuple(self, tup: relay.Tuple) -> int:
        return 1 + max((self.visit(f) for f in tup.fields), default=0)


DEPTHS = {"%a": 1, "exp(%a)": 2, "add(exp(exp(%a)), %b)": 4, "(%a, exp(%b))": 3, "()": 1}


@pytest.mark.parametrize("program", DEPTHS)
def test_a_functor_computes(program: str) -> None:
    assert Depth().visit(graph(program)) == DEPTHS[program]


def test_results_are_remembered() -> None:
    """A program whose ways are too many to be walked one by one."""
    expr = graph("%a")
    for _ in range(60):
        expr = relay.add(expr, expr)
    functor = Depth()
    assert functor.visit(expr) == 61 and functor.memo_map[expr] == 61


MISSING = {
    "if (%t) { %a } else { %b }": "visit_if",
    "let %x = %a; %x": "visit_let",
    "fn () { 1 }": "visit_function",
    "(%a, %b).0": "visit_tuple_getitem",
    "ref(%a)": "visit_ref_create",
}


@pytest.mark.parametrize("program", MISSING)
def test_a_method_that_is_missing_is_named(program: str) -> None:
    with pytest.raises(TypeError, match=f"Depth has no method {MISSING[program]}"):
        Depth().visit(graph(program))


@pytest.mark.parametrize("given", [3, None, "x", relay.scalar_type("int8")])
def test_what_is_no_expression(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="expected a Relay expression, found"):
        Depth().visit(given)


# ---- types

S = relay.TypeVar("s")
TENSOR = relay.TensorType((2, relay.Any()))
TYPES = {
    "a tensor": (TENSOR, "tensor_type 1"),
    "a variable": (S, "type_var 1"),
    "a tuple": (relay.TupleType([TENSOR, S]), "tensor_type 1 tuple_type 1 type_var 1"),
    "a function": (relay.FuncType([TENSOR], S), "func_type 1 tensor_type 1 type_var 1"),
    "its variables": (relay.FuncType([], TENSOR, [S]), "func_type 1 tensor_type 1 type_var 1"),
    "a reference": (relay.RefType(TENSOR), "ref_type 1 tensor_type 1"),
    "a name": (relay.GlobalTypeVar("L"), "global_type_var 1"),
    "a data type": (
        relay.GlobalTypeVar("L")(TENSOR),
        "global_type_var 1 tensor_type 1 type_call 1",
    ),
    "an open type": (relay.IncompleteType(), "incomplete_type 1"),
}


class Kinds(TypeVisitor):
    """Counts calls of each method."""

    found: Counter[str]

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("visit_"):
            super().__getattribute__("found")[name.removeprefix("visit_")] += 1
        return found


@pytest.mark.parametrize("case", TYPES)
def test_types_are_visited(case: str) -> None:
    kinds = Kinds()
    kinds.found = Counter()
    kinds.visit(TYPES[case][0])
    assert " ".join(f"{k} {v}" for k, v in sorted(kinds.found.items())) == TYPES[case][1]


class Rank(TypeFunctor):
    """How many dims all tensors of a type have."""

    def visit_tensor_type(self, t: relay.TensorType) -> int:
        return len(t.shape)

    def visit_tuple_type(self, t: relay.TupleType) -> int:
        return sum(self.visit(f) for f in t.fields)


def test_a_functor_of_types() -> None:
    assert Rank().visit(relay.TupleType([TENSOR, relay.TupleType([TENSOR])])) == 4
    with pytest.raises(TypeError, match="Rank has no method visit_func_type"):
        Rank().visit(relay.FuncType([], TENSOR))
    with pytest.raises(TypeError, match="expected a Relay type, found int 3"):
        Rank().visit(3)
