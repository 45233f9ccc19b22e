"""Walks over expressions that a user's class refines."""

from __future__ import annotations

import numpy as np
import pytest
from tvm_disc.relay.expr_functor import ExprMutator as SameMutator

from tvm_disc import relay
from tvm_disc.errors import BadNode
from tvm_disc.relay import ExprFunctor, ExprMutator, ExprVisitor


def scalar(name: str) -> relay.Var:
    return relay.var(name, shape=(), dtype="float32")


def every_node() -> list[relay.Expr]:
    """One expression of each kind."""
    x, y, v = scalar("x"), scalar("y"), scalar("v")
    put = relay.Constructor("Put", (relay.scalar_type("int32"),), "Box")
    held = relay.Var("held")
    clauses = [
        relay.Clause(relay.PatternConstructor(put, [relay.PatternVar(held)]), held),
        relay.Clause(relay.PatternWildcard(), relay.const(0)),
    ]
    return [
        x,
        relay.const(1.0),
        relay.GlobalVar("g"),
        relay.add(x, y),
        relay.Tuple([x, y]),
        relay.TupleGetItem(relay.Tuple([x, y]), 1),
        relay.Let(v, x, relay.add(v, y)),
        relay.If(relay.const(True), x, y),
        relay.Function([x], relay.add(x, y)),
        relay.RefRead(relay.RefCreate(x)),
        relay.RefWrite(relay.RefCreate(x), y),
        relay.Match(relay.Call(put, [relay.const(3)]), clauses),
        relay.op.get("add"),
    ]


class Order(ExprVisitor):
    """Notes the kinds of nodes as they are entered."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def visit(self, expr: relay.Expr) -> None:
        self.seen.append(type(expr).__name__)
        super().visit(expr)


class Renamed(ExprMutator):
    """Every variable anew, with a tick."""

    def visit_var(self, var: relay.Var) -> relay.Var:
        return relay.Var(var.name_hint + "_1", var.type_annotation)


class AddToMultiply(ExprMutator):
    """Sums become products."""

    def visit_op(self, op: relay.Op) -> relay.Op:
        return relay.op.get("multiply") if op.name == "add" else op


@pytest.mark.parametrize("expr", every_node(), ids=lambda e: type(e).__name__)
def test_what_does_not_change_is_the_same_object(expr: relay.Expr) -> None:
    assert ExprMutator().visit(expr) is expr
    ExprVisitor().visit(expr)


@pytest.mark.parametrize(
    ("expr", "seen"),
    [
        (relay.Function([scalar("a")], relay.const(1.0)), "Function Var Constant"),
        (relay.Let(scalar("a"), relay.const(1.0), scalar("b")), "Let Var Constant Var"),
        (relay.add(scalar("a"), relay.const(1.0)), "Call Op Var Constant"),
        (relay.TupleGetItem(relay.Tuple([scalar("a")]), 0), "TupleGetItem Tuple Var"),
        (relay.If(scalar("a"), scalar("b"), relay.const(0.0)), "If Var Var Constant"),
        (relay.RefWrite(relay.RefCreate(scalar("a")), scalar("b")), "RefWrite RefCreate Var Var"),
    ],
)
def test_a_visitor_goes_operands_first_to_last(expr: relay.Expr, seen: str) -> None:
    order = Order()
    order.visit(expr)
    assert order.seen == seen.split()


def test_a_shared_node_is_entered_once() -> None:
    class Calls(ExprVisitor):
        count = 0

        def visit_call(self, call: relay.Call) -> None:
            self.count += 1
            super().visit_call(call)

    expr: relay.Expr = scalar("x")
    for _ in range(60):
        expr = relay.add(expr, expr)  # 2**60 paths
    calls = Calls()
    calls.visit(expr)
    assert calls.count == 60


def test_what_is_shared_stays_shared() -> None:
    x = scalar("x")
    both = relay.add(x, x)
    made = AddToMultiply().visit(relay.Tuple([both, both]))
    assert made[0] is made[1] and made[0].op.name == "multiply"


def test_only_the_changed_part_is_made_anew() -> None:
    x = scalar("x")
    same, other = relay.exp(x), relay.add(x, x)
    made = AddToMultiply().visit(relay.Tuple([same, other]))
    assert made[0] is same and made[1] is not other


def test_attributes_types_and_places_stay() -> None:
    x = relay.var("x", shape=(2, 3))
    span = relay.Span("model", 3, 4)
    call = relay.Call(relay.op.get("nn.softmax"), [x], {"axis": 1}, span=span)
    func = relay.Function([x], call, relay.TensorType((2, 3)), attrs={"Primitive": 1})
    made = Renamed().visit(func)
    assert made.attrs == {"Primitive": 1} and made.ret_type == func.ret_type
    assert made.body.attrs == {"axis": 1} and made.body.span is span
    assert made.body.args[0] is made.params[0] and made.params[0].name_hint == "x_1"
    assert relay.structural_equal(made, func)


def test_values_of_a_functor_are_what_its_methods_give() -> None:
    class Count(ExprFunctor):
        def visit_call(self, call: relay.Call) -> int:
            return 1 + sum(self.visit(a) for a in call.args)

        def visit_var(self, var: relay.Var) -> int:
            return 0

    x = scalar("x")
    assert Count().visit(relay.add(relay.exp(x), x)) == 2


class Grown(ExprMutator):
    """An override that recurses itself, as scripts write it."""

    def visit_call(self, call: relay.Call) -> relay.Expr:
        args = [self.visit(arg) for arg in call.args]
        return relay.Call(relay.op.get("negative"), args)


@pytest.mark.parametrize("kind", [ExprMutator, AddToMultiply, Grown])
def test_a_chain_of_ten_thousand_calls(kind: type[ExprMutator]) -> None:
    expr: relay.Expr = scalar("x")
    for _ in range(10_000):
        expr = relay.exp(expr)
    made = kind().visit(expr)
    assert (made is expr) == (kind is not Grown)
    names = {c.op.name for c in relay.post_order(made) if isinstance(c, relay.Call)}
    assert names == ({"negative"} if kind is Grown else {"exp"})


def test_a_chain_of_ten_thousand_bindings() -> None:
    x = scalar("x")
    body: relay.Expr = x
    for i in range(10_000):
        body = relay.Let(scalar(f"v{i}"), x, body)
    assert ExprMutator().visit(body) is body
    made = Renamed().visit(body)
    assert relay.structural_equal(relay.Function([made.value], made), relay.Function([x], body))


def test_an_error_in_a_deep_walk_comes_back() -> None:
    class Fails(ExprVisitor):
        def visit_var(self, var: relay.Var) -> None:
            raise KeyError(var.name_hint)

    expr: relay.Expr = scalar("x")
    for _ in range(500):
        expr = relay.exp(expr)
    with pytest.raises(KeyError, match="x"):
        Fails().visit(expr)


def test_both_paths_name_one_class() -> None:
    assert SameMutator is ExprMutator is relay.expr_functor.ExprMutator


@pytest.mark.parametrize("expr", every_node(), ids=lambda e: type(e).__name__)
def test_a_bare_functor_names_the_method_it_lacks(expr: relay.Expr) -> None:
    with pytest.raises(TypeError, match=r"ExprFunctor has no method visit_\w+, which"):
        ExprFunctor().visit(expr)


@pytest.mark.parametrize("value", [3, "x", None, np.float32(1)])
@pytest.mark.parametrize("kind", [ExprVisitor, ExprMutator])
def test_what_is_no_expression_is_refused(kind: type[ExprFunctor], value: object) -> None:
    with pytest.raises(TypeError, match="expected a Relay expression, found"):
        kind().visit(value)


def test_a_parameter_cannot_become_a_call() -> None:
    class Wrong(ExprMutator):
        def visit_var(self, var: relay.Var) -> relay.Expr:
            return relay.exp(var)

    x = scalar("x")
    with pytest.raises(BadNode, match=r"a function parameter: expected a relay\.Var"):
        Wrong().visit(relay.Function([x], x))
