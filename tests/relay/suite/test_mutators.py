"""Programs and types rebuilt by a user's class: what changes, what stays the same object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import DiscError
from tvm_disc.relay import ExprMutator, TypeMutator

HEAD = "free_var %a: int32; free_var %b: int32; free_var %t: bool;"


def graph(text: str) -> relay.Expr:
    """An expression over three free variables."""
    return relay.parse_expr(HEAD + text)


PROGRAMS = [
    "%a",
    "7",
    "add(%a, 1)",
    "%0 = add(%a, 1); multiply(%0, %0)",
    "(%a, (%b, 3))",
    "(%a, %b).1",
    "let %x = %a; let %y = add(%x, 1); %y",
    "if (%t) { %a } else { %b }",
    "fn (%x: int8, %y: int8) -> int8 { %x }",
    "fn [T](%x: T) { %x }(1)",
    "ref_write(ref(%a), ref_read(ref(%b)))",
    "fn (%x: int32, Primitive=1) { add(%x, 1) }(%a)",
    "let %f = fn (%x: int32) -> int32 { %f(%x) }; %f(3)",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_changes(program: str) -> None:
    expr = graph(program)
    assert ExprMutator().visit(expr) is expr


class Ones(ExprMutator):
    """Every constant one higher."""

    def visit_constant(self, const: relay.Constant) -> relay.Expr:
        return relay.const(np.asarray(const.data) + 1, str(const.data.dtype))


RAISED = {
    "7": "8",
    "add(%a, 1)": "add(%a, 2)",
    "%0 = add(%a, 1); multiply(%0, %0)": "%0 = add(%a, 2); multiply(%0, %0)",
    "(%a, (%b, 3))": "(%a, (%b, 4))",
    "(1, %b).0": "(2, %b).0",
    "let %x = 1; %x": "let %x = 2; %x",
    "let %x = %a; add(%x, 1)": "let %x = %a; add(%x, 2)",
    "if (%t) { 1 } else { 2 }": "if (%t) { 2 } else { 3 }",
    "fn (%x: int8) { (%x, 1) }": "fn (%x: int8) { (%x, 2) }",
    "fn (%x: int32, Kind=1) { add(%x, 1) }(5)": "fn (%x: int32, Kind=1) { add(%x, 2) }(6)",
    "ref_write(ref(1), ref_read(ref(2)))": "ref_write(ref(2), ref_read(ref(3)))",
    "sum(add(%a, 1), keepdims=True)": "sum(add(%a, 2), keepdims=True)",
}


@pytest.mark.parametrize("program", RAISED)
def test_leaves_are_replaced(program: str) -> None:
    expr = graph(program)
    made = Ones().visit(expr)
    relay.assert_structural_equal(made, graph(RAISED[program]), map_free_vars=True)
    relay.assert_structural_equal(expr, graph(program), map_free_vars=True)


def test_what_is_shared_stays_shared() -> None:
    made = Ones().visit(graph("%0 = add(%a, 1); multiply(%0, %0)"))
    assert made.args[0] is made.args[1]


def test_what_does_not_change_is_the_same_object() -> None:
    expr = graph("(exp(%a), add(%b, 1))")
    made = Ones().visit(expr)
    assert made is not expr and made.fields[0] is expr.fields[0]


def test_attributes_types_and_places_stay() -> None:
    func = graph('fn (%x: int32, Kind="mine") -> int32 { sum(add(%x, 1), keepdims=True) }')
    func.span = relay.Span.at("here", 3, 4)
    made = Ones().visit(func)
    assert made.attrs["Kind"] == "mine" and made.ret_type == func.ret_type
    assert made.span == func.span and made.body.attrs.keepdims is True
    assert made.params == func.params


def renamed(name: str) -> type[ExprMutator]:
    """Calls of another operator."""

    class Renamed(ExprMutator):
        def visit_op(self, op: relay.Op) -> relay.Op:
            return relay.op.get(name) if op.name == "exp" else op

    return Renamed


@pytest.mark.parametrize("program", ["exp(%a)", "add(exp(%a), exp(exp(%b)))"])
def test_operators_are_replaced(program: str) -> None:
    made = renamed("tanh")().visit(graph(program))
    expected = graph(program.replace("exp", "tanh"))
    relay.assert_structural_equal(made, expected, map_free_vars=True)


class Removed(ExprMutator):
    """Calls of ``exp`` become their operands."""

    def visit_call(self, call: relay.Call) -> relay.Expr:
        made = super().visit_call(call)
        plain = isinstance(made.op, relay.Op) and made.op.name == "exp"
        return made.args[0] if plain else made


GONE = {
    "exp(%a)": "%a",
    "exp(exp(exp(%a)))": "%a",
    "tanh(exp(abs(exp(%a))))": "tanh(abs(%a))",
    "(exp(%a), exp(%b)).0": "(%a, %b).0",
    "let %x = exp(%a); exp(%x)": "let %x = %a; %x",
    "if (%t) { exp(%a) } else { %b }": "if (%t) { %a } else { %b }",
}


@pytest.mark.parametrize("program", GONE)
def test_calls_are_replaced(program: str) -> None:
    made = Removed().visit(graph(program))
    relay.assert_structural_equal(made, graph(GONE[program]), map_free_vars=True)


class Bound(ExprMutator):
    """Bindings become what they bind."""

    def visit_let(self, let: relay.Let) -> relay.Expr:
        self.memo_map[let.var] = self.visit(let.value)
        return self.visit(let.body)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("let %x = exp(%a); tanh(%x)", "tanh(exp(%a))"),
        ("let %x = exp(%a); let %y = tanh(%x); add(%x, %y)", "%0 = exp(%a); add(%0, tanh(%0))"),
        ("let %x = %a; 3", "3"),
    ],
)
def test_bindings_are_inlined(before: str, after: str) -> None:
    made = Bound().visit(graph(before))
    relay.assert_structural_equal(made, graph(after), map_free_vars=True)


def test_variables_are_renewed() -> None:
    class Renewed(ExprMutator):
        def visit_var(self, var: relay.Var) -> relay.Var:
            return relay.Var(f"new_{var.name_hint}", var.type_annotation)

    func = graph("fn (%x: int32) { add(%x, %x) }")
    made = Renewed().visit(func)
    assert made.params[0].name_hint == "new_x" and made.body.args[0] is made.params[0]
    relay.assert_structural_equal(made, func)


def test_matches_are_rebuilt() -> None:
    mod = relay.parse("""#[version = "0.0.5"]
        type L { Nil, Cons(int8, L), }
        def @f(%l: L) { match (%l) { Nil => 0, Cons(%h, _) => 1 } }""")
    made = Ones().visit(mod["f"])
    assert [int(c.rhs.data) for c in made.body.clauses] == [1, 2]
    assert made.body.clauses[1].lhs is mod["f"].body.clauses[1].lhs
    assert made.body.complete is mod["f"].body.complete


@pytest.mark.parametrize("length", [10, 5_000])
def test_chains(length: int) -> None:
    chain: relay.Expr = relay.const(1)
    for _ in range(length):
        chain = relay.negative(chain)
    made = Ones().visit(chain)
    found = relay.post_order(made)
    assert len(found) == length + 2 and int(found[1].data) == 2


def test_as_a_pass() -> None:
    @relay.transform.function_pass(opt_level=0)
    def raised(func: relay.Function, mod: relay.IRModule, ctx: Any) -> relay.Expr:
        return Ones().visit(func)

    mod = relay.IRModule.from_expr(graph("add(%a, 1)"))
    assert int(raised(mod)["main"].body.args[1].data) == 2


@pytest.mark.parametrize("program", ["let %x = 1; %x", "fn (%x: int8) { %x }"])
def test_a_bound_variable_cannot_become_something_else(program: str) -> None:
    class Wrong(ExprMutator):
        def visit_var(self, var: relay.Var) -> relay.Expr:
            return relay.const(1)

    with pytest.raises(DiscError, match=r"relay\.Var.*, found Constant"):
        Wrong().visit(graph(program))


# ---- types

S = relay.TypeVar("s")


def tensor(dtype: str) -> relay.TensorType:
    return relay.TensorType((2, relay.Any()), dtype)


class Wider(TypeMutator):
    """Floats become doubles."""

    def visit_tensor_type(self, t: relay.TensorType) -> relay.TensorType:
        return relay.TensorType(t.shape, "float64") if t.dtype == "float32" else t


WIDER: dict[str, Callable[[relay.Type], relay.Type]] = {
    "a tensor": lambda t: t,
    "a tuple": lambda t: relay.TupleType([t, S, t]),
    "a function": lambda t: relay.FuncType([t, S], t, [S]),
    "a reference": lambda t: relay.RefType(relay.RefType(t)),
    "a data type": lambda t: relay.GlobalTypeVar("L")(t),
    "deep inside": lambda t: relay.TupleType([relay.FuncType([], relay.RefType(t))]),
}


@pytest.mark.parametrize("case", WIDER)
def test_types_are_rebuilt(case: str) -> None:
    before, after = WIDER[case](tensor("float32")), WIDER[case](tensor("float64"))
    made = Wider().visit(before)
    relay.assert_structural_equal(made, after, map_free_vars=True)
    assert made != before


@pytest.mark.parametrize("case", WIDER)
def test_types_that_do_not_change(case: str) -> None:
    given = WIDER[case](tensor("int8"))
    assert Wider().visit(given) == given == TypeMutator().visit(given)
