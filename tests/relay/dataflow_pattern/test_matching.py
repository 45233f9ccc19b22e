"""Whether an expression is what a pattern describes."""

from __future__ import annotations

from typing import Any

import pytest
from tvm_disc.relay.dataflow_pattern import (
    AltPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    ExprPattern,
    FunctionPattern,
    TuplePattern,
    VarPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    partition,
    wildcard,
)

from tvm_disc import relay
from tvm_disc.errors import BadNode
from tvm_disc.relay import dataflow_pattern

X, Y, Z = (relay.var(name, shape=(2, 3)) for name in "xyz")
ONE = relay.const(1.0)
IMAGE = relay.var("image", shape=(1, 3, 8, 8))
KERNEL = relay.var("kernel", shape=(4, 3, 3, 3))
CONV = relay.nn.conv2d(IMAGE, KERNEL, kernel_size=(3, 3), channels=4)
LOCAL = relay.var("v")
TRUTH = relay.var("c", shape=(), dtype="bool")
EXP = relay.Function([X], relay.exp(X))
UNARY = wildcard().has_attr({"TOpPattern": 0})(wildcard())
W = wildcard


def exp_of(pattern: DFPattern) -> DFPattern:
    return is_op("exp")(pattern)


@pytest.mark.parametrize(
    ("pattern", "expr"),
    [
        (wildcard(), X),
        (is_var(), X),
        (is_var("x"), X),
        (VarPattern(), Y),
        (is_constant(), ONE),
        (ConstantPattern(), relay.const([1, 2])),
        (is_expr(relay.const(1.0)), ONE),
        (is_expr(relay.add(X, Y)), relay.add(X, Y)),
        (is_op("add"), relay.op.get("add")),
        (is_op("add")(W(), W()), relay.add(X, Y)),
        (is_op("add")(None), relay.add(X, Y)),
        (CallPattern(wildcard(), None), relay.exp(X)),
        (is_op("add")(exp_of(W()), W()), relay.add(Y, relay.exp(X))),
        (is_op("multiply")(is_constant(), W()), relay.multiply(X, ONE)),
        (wildcard() - is_var("y"), relay.subtract(X, Y)),
        (is_var("z") / is_var("x") * is_var("y"), relay.divide(relay.multiply(Z, Y), X)),
        (is_var("z") * is_var("y") / is_var("x"), relay.multiply(Z, relay.divide(Y, X))),
        (is_tuple([is_var("x"), W()]), relay.Tuple([X, Y])),
        (TuplePattern(None), relay.Tuple([X, Y])),
        (is_tuple_get_item(W(), 1), relay.TupleGetItem(relay.Tuple([X, Y]), 1)),
        (is_tuple_get_item(W()), relay.TupleGetItem(relay.Tuple([X, Y]), 1)),
        (is_if(W(), exp_of(W()), W()), relay.If(TRUTH, relay.exp(X), Y)),
        (is_let(is_var("v"), exp_of(W()), W()), relay.Let(LOCAL, relay.exp(X), LOCAL)),
        (FunctionPattern([wildcard()], exp_of(W())), EXP),
        (FunctionPattern(None, W()), EXP),
        (FunctionPattern([is_var("x")], W())(is_var("y")), relay.Call(EXP, [Y])),
        (AltPattern(is_op("add")(None), exp_of(W())), relay.exp(X)),
        (is_op("add")(W(), W()) | exp_of(W()), relay.add(X, Y)),
        (exp_of(W()).optional(is_op("nn.relu")), relay.nn.relu(relay.exp(X))),
        (exp_of(W()).optional(is_op("nn.relu")), relay.exp(X)),
        (has_type(relay.TensorType((2, 3), "float32")), relay.exp(X)),
        (wildcard().has_type(relay.TensorType((1, 4, 6, 6), "float32")), CONV),
        (has_dtype("float32"), relay.exp(X)),
        (wildcard().has_dtype("int32"), relay.cast(X, "int32")),
        (has_shape((2, 3)), relay.exp(X)),
        (wildcard().has_shape([1, 4, 6, 6]), CONV),
        (has_attr({"channels": 4}), CONV),
        (is_op("nn.conv2d")(W(), W()).has_attr({"data_layout": "NCHW", "groups": 1}), CONV),
        (is_op("nn.conv2d")(W(), W()).has_attr({"kernel_size": [3, 3]}), CONV),
        (is_op("exp").has_attr({"TOpPattern": 0}), relay.op.get("exp")),
        (UNARY, relay.tanh(X)),
        (wildcard().has_attr({"Composite": "a"}), EXP.with_attr("Composite", "a")),
    ],
    ids=lambda p: type(p).__name__,
)
def test_what_a_pattern_describes(pattern: DFPattern, expr: relay.Expr) -> None:
    assert pattern.match(expr) and match(pattern, expr)


@pytest.mark.parametrize(
    ("pattern", "expr"),
    [
        (is_var("x"), Y),
        (is_var(), ONE),
        (is_constant(), X),
        (is_expr(relay.const(1.0)), relay.const(2.0)),
        (ExprPattern(relay.add(X, Y)), relay.add(Y, X)),
        (is_op("add"), relay.op.get("subtract")),
        (is_op("add")(W()), relay.add(X, Y)),
        (is_op("subtract")(exp_of(W()), W()), relay.subtract(Y, relay.exp(X))),
        (is_op("maximum")(exp_of(W()), W()), relay.maximum(Y, relay.exp(X))),
        (is_tuple([W()]), relay.Tuple([X, Y])),
        (is_tuple([]), X),
        (is_tuple_get_item(W(), 0), relay.TupleGetItem(relay.Tuple([X, Y]), 1)),
        (is_if(W(), W(), exp_of(W())), relay.If(TRUTH, relay.exp(X), Y)),
        (is_let(W(), W(), is_var("x")), relay.Let(LOCAL, relay.exp(X), LOCAL)),
        (FunctionPattern([], W()), EXP),
        (FunctionPattern(None, is_var()), EXP),
        (is_op("add")(None) | exp_of(W()), relay.tanh(X)),
        (has_type(relay.TensorType((2, 3), "float16")), X),
        (has_type(relay.TensorType((2, 3), "float32")), relay.var("unknown")),
        (has_dtype("float32"), relay.Tuple([X])),
        (has_shape((3, 2)), X),
        (has_shape((2,)), X),
        (has_attr({"channels": 5}), CONV),
        (has_attr({"no_such": 1}), CONV),
        (has_attr({"TOpPattern": 8}), relay.op.get("exp")),
        (UNARY, relay.add(X, X)),
        (wildcard().has_attr({"Composite": "b"}), EXP.with_attr("Composite", "a")),
    ],
    ids=lambda p: type(p).__name__,
)
def test_what_it_does_not(pattern: DFPattern, expr: relay.Expr) -> None:
    assert not pattern.match(expr)


def test_one_pattern_object_stands_for_one_expression() -> None:
    one = wildcard()
    assert (one + one).match(relay.add(X, X))
    assert not (one + one).match(relay.add(X, Y))
    left = exp_of(one)
    assert is_op("subtract")(left, one).match(relay.subtract(relay.exp(X), X))
    assert not is_op("subtract")(left, one).match(relay.subtract(relay.exp(X), Y))


def test_a_failed_alternative_forgets_what_it_saw() -> None:
    one = wildcard()
    pattern = is_tuple([exp_of(one), is_op("tanh")(one)]) | is_tuple([one, wildcard()])
    assert pattern.match(relay.Tuple([relay.exp(X), relay.tanh(Y)]))


def test_a_wildcard_that_stands_for_a_chain() -> None:
    chain = wildcard()
    chain.redirect_to(is_var("x") | exp_of(chain))
    assert chain.match(relay.exp(X))
    assert not chain.match(relay.exp(relay.tanh(X)))


E_X, E_Y = relay.exp(X), relay.exp(Y)
PATH = is_op("sqrt")(W()) | is_op("multiply")(W(), W())
DIAMOND = (W() + W()).dominates(exp_of(W()), PATH)


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (relay.add(relay.sqrt(E_X), E_X), True),
        (relay.add(relay.sqrt(relay.sqrt(E_X)), E_X), True),
        (relay.add(Y, relay.sqrt(E_X)), True),  # what is not computed may flow in
        (relay.add(relay.sqrt(E_X), ONE), True),
        (relay.add(relay.multiply(relay.sqrt(E_X), Y), E_X), True),
        (relay.add(relay.sqrt(E_X), relay.tanh(E_X)), False),
        (relay.add(relay.tanh(Y), relay.sqrt(E_X)), False),
        (relay.add(relay.sqrt(E_X), relay.sqrt(E_Y)), False),
        (relay.add(relay.sqrt(Y), E_X), False),
        (relay.add(relay.multiply(relay.sqrt(E_X), relay.tanh(E_X)), E_X), False),
        (relay.add(Y, Y), False),
    ],
)
def test_dominators(expr: relay.Expr, found: bool) -> None:
    assert DIAMOND.match(expr) is found
    assert dominates(exp_of(W()), PATH, W() + W()).match(expr) is found


def test_what_leaves_by_another_way_is_not_dominated() -> None:
    last = relay.add(relay.sqrt(E_X), E_X)
    inner = is_tuple([DIAMOND, W()])
    assert inner.match(relay.Tuple([last, Y]))
    assert not inner.match(relay.Tuple([last, E_X]))


def test_a_long_path() -> None:
    node: relay.Expr = E_X
    for _ in range(3000):
        node = relay.sqrt(node)
    assert DIAMOND.match(relay.add(node, E_X))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: is_op("no.such"), "is_op: unknown operator 'no.such'"),
        (lambda: has_dtype("floot"), "has_dtype: expected an element type such as float32"),
        (lambda: has_shape(3), "has_shape: expected a sequence of dims, found 3"),
        (lambda: has_type("float32"), "has_type: expected a Relay type, found 'float32'"),
        (
            lambda: has_attr(3),
            "has_attr: expected a mapping from names to values, found 3",
        ),
        (lambda: wildcard() + 1, "the arguments of a call pattern: expected a pattern"),
        (lambda: wildcard() | X, "an alternative: expected a pattern"),
        (lambda: is_tuple(3), "is_tuple: expected a sequence of patterns, found 3"),
        (lambda: is_tuple_get_item(X), "is_tuple_get_item: expected a pattern"),
        (lambda: is_if(X, W(), W()), "is_if: expected a pattern"),
        (lambda: is_let(W(), W(), 0), "is_let: expected a pattern"),
        (lambda: is_expr(3), "is_expr: expected a Relay expression, found 3"),
        (lambda: FunctionPattern([X], W()), "the parameters of a function: expected a pattern"),
        (lambda: wildcard().redirect_to(X), "redirect_to: expected a pattern"),
        (lambda: dominates(W(), W(), X), "dominates: expected a pattern"),
        (lambda: match(X, X), "match: expected a pattern"),
        (lambda: wildcard().match(3), "match: expected a Relay expression, found 3"),
        (lambda: partition(X, X), "partition: expected a pattern"),
        (lambda: wildcard().partition(3), "partition: expected a Relay expression, found 3"),
    ],
)
def test_what_no_pattern_can_be_made_of(make: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message.replace("(", r"\(")):
        make()


def test_parts_of_patterns_by_their_names_in_relay() -> None:
    item = dataflow_pattern.is_tuple_get_item(
        dataflow_pattern.is_tuple([dataflow_pattern.is_var("x")]), 0
    )
    assert item.tuple is item.tuple_value and dataflow_pattern.is_var("x").name == "x"
    with pytest.raises(AttributeError, match="TupleGetItemPattern has no 'field'"):
        _ = item.field
