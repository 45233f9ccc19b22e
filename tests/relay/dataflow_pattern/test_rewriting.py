"""Matches that are moved into functions, or replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    FunctionPattern,
    is_constant,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)

from tests.relay.helpers import run
from tvm_disc import relay
from tvm_disc.errors import BadNode

W = wildcard
X, Y, Z = (relay.var(name, shape=(2, 3)) for name in "xyz")
ONE = relay.const(1.0)


def call(body: str, name: str, args: list[relay.Expr], **attrs: Any) -> relay.Call:
    """A call of a function that was cut out; ``body`` is over ``a``, ``b`` and ``c``."""
    params = [relay.Var("abc"[i]) for i in range(len(args))]
    scope = {"relay": relay, **{p.name_hint: p for p in params}}
    told = {"PartitionedFromPattern": name, **attrs}
    return relay.Call(relay.Function(params, eval(body, scope), attrs=told), args)


SUM_RELU = is_op("nn.relu")(W() + W())


@pytest.mark.parametrize(
    ("pattern", "expr", "expected"),
    [
        (W() + W(), relay.add(relay.exp(X), Y), call("a + b", "add_", [relay.exp(X), Y])),
        (W() + is_constant(), relay.add(X, ONE), call("a + relay.const(1.0)", "add_", [X])),
        (W() + (is_constant() | W()), relay.add(X, ONE), call("a + relay.const(1.0)", "add_", [X])),
        (W() + W(), relay.add(X, ONE), call("a + b", "add_", [X, ONE])),
        (W() + W(), relay.add(X, X), call("a + a", "add_", [X])),
        (
            SUM_RELU,
            relay.nn.relu(relay.add(X, Y)),
            call("relay.nn.relu(a + b)", "add_nn.relu_", [X, Y]),
        ),
        (
            is_tuple([is_op("exp")(W()), W()]),
            relay.Tuple([relay.exp(X), Y]),
            call("relay.Tuple([relay.exp(a), b])", "exp_Tuple_", [X, Y]),
        ),
        (is_tuple(None), relay.Tuple([X, Y]), call("relay.Tuple([a, b])", "Tuple_", [X, Y])),
        (
            is_tuple_get_item(is_op("split")(W())),
            relay.split(X, 3, 1)[1],
            call("relay.split(a, 3, 1)[1]", "split_TupleGetItem1_", [X]),
        ),
        (is_op("add")(None), relay.add(X, Y), call("a + b", "add_", [X, Y])),
        (
            (W() + W()).optional(is_op("nn.relu")),
            relay.nn.relu(relay.add(X, Y)),
            call("relay.nn.relu(a + b)", "add_nn.relu_", [X, Y]),
        ),
    ],
    ids=range(11),
)
def test_a_partition(pattern: DFPattern, expr: relay.Expr, expected: relay.Expr) -> None:
    assert relay.structural_equal(pattern.partition(expr), expected)


def test_a_called_function_goes_along() -> None:
    inner = relay.Function([X], relay.exp(X))
    pattern = FunctionPattern([W()], is_op("exp")(W()))(W())
    made = pattern.partition(relay.Call(inner, [Y]))
    assert made.args == (Y,) and made.op.body.op is inner
    assert made.op.attrs == {"PartitionedFromPattern": "exp_FunctionCall_"}


def test_attributes_and_a_check() -> None:
    inner = relay.nn.relu(relay.add(X, Y))
    outer = relay.nn.relu(relay.add(inner, Z))
    made = SUM_RELU.partition(outer, {"Composite": "mine"}, lambda e: e is inner)
    first = call("relay.nn.relu(a + b)", "add_nn.relu_", [X, Y], Composite="mine")
    assert relay.structural_equal(made, relay.nn.relu(relay.add(first, Z)))
    both = SUM_RELU.partition(outer)
    assert isinstance(both.op, relay.Function) and isinstance(both.args[0].op, relay.Function)


def test_a_result_that_is_used_elsewhere_stays_outside() -> None:
    e = relay.exp(X)
    pattern = is_op("add")(is_op("exp")(W()), W())
    used = relay.Tuple([relay.add(e, Y), e])
    assert pattern.partition(used) is used
    # ... unless it is used by operands of the group alone: it is computed again inside
    inside = relay.add(e, relay.sqrt(e))
    expected = call("relay.exp(a) + b", "exp_add_", [X, relay.sqrt(e)])
    assert relay.structural_equal(pattern.partition(inside), expected)


def test_a_dominated_diamond_is_one_function() -> None:
    e = relay.exp(X)
    path = is_op("sqrt")(W()) | is_op("abs")(W())
    pattern = (W() + W()).dominates(is_op("exp")(W()), path)
    made = pattern.partition(relay.add(relay.sqrt(relay.abs(e)), e))
    assert made.args == (X,)
    assert made.op.attrs["PartitionedFromPattern"] == "exp_abs_sqrt_add_"


def test_a_function_that_was_cut_out_is_not_cut_again() -> None:
    once = SUM_RELU.partition(relay.nn.relu(relay.add(X, Y)))
    assert SUM_RELU.partition(once) is once


class SubtractFor(DFPatternCallback):
    """A sum becomes a difference."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self.x, self.y = wildcard(), wildcard()
        self.pattern = self.x + self.y

    def callback(self, pre: Any, post: Any, node_map: Any) -> relay.Expr:
        return node_map[self.x][0] - node_map[self.y][0]


class Swap(SubtractFor):
    """Operands change places: matches again for ever."""

    def callback(self, pre: Any, post: Any, node_map: Any) -> relay.Expr:
        return node_map[self.y][0] + node_map[self.x][0]


class Norm(DFPatternCallback):
    """A written-out batch norm becomes one operator."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.mean, self.var = wildcard(), is_var("mean"), is_var("var")
        self.gamma, self.beta, self.eps = is_var("gamma"), is_var("beta"), is_constant()
        scaled = self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps)
        self.pattern = scaled + self.beta

    def callback(self, pre: Any, post: Any, node_map: Any) -> relay.Expr:
        names = (self.x, self.gamma, self.beta, self.mean, self.var)
        epsilon = node_map[self.eps][0].data.item()
        parts = [node_map[p][0] for p in names]
        return relay.nn.batch_norm(*parts, epsilon=epsilon)[0]


@pytest.mark.parametrize("regrouped", [False, True])
def test_a_norm_is_found_however_it_is_spelled(regrouped: bool) -> None:
    names = ("gamma", "beta", "mean", "var")
    gamma, beta, mean, var = (relay.var(n, shape=(3,)) for n in names)
    root = relay.sqrt(relay.add(var, relay.const(1e-5)))
    centred = relay.subtract(X, mean)
    scaled = gamma * (centred / root) if regrouped else (gamma * centred) / root
    made = rewrite(Norm(), relay.add(beta, scaled))
    expected = relay.nn.batch_norm(X, gamma, beta, mean, var, epsilon=float(np.float32(1e-5)))[0]
    assert relay.structural_equal(made, expected, rel_tol=1e-6)


def test_every_match_is_replaced_and_values_agree() -> None:
    expr = relay.add(relay.add(X, Y), relay.exp(relay.add(Y, Z)))
    expected = relay.subtract(relay.subtract(X, Y), relay.exp(relay.subtract(Y, Z)))
    made = rewrite(SubtractFor(), expr)
    assert relay.structural_equal(made, expected)
    assert relay.structural_equal(SubtractFor().rewrite(expr), expected)
    inputs = {n: np.arange(6, dtype="float32").reshape(2, 3) + i for i, n in enumerate("xyz")}
    func = relay.Function([X, Y, Z], made)
    wanted = inputs["x"] - inputs["y"] - np.exp(inputs["y"] - inputs["z"])
    np.testing.assert_allclose(run(func, inputs), wanted, rtol=1e-6)


def test_several_callbacks_in_turn() -> None:
    class Undo(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("negative")(is_op("negative")(self.x))

        def callback(self, pre: Any, post: Any, node_map: Any) -> relay.Expr:
            return node_map[self.x][0]

    expr = relay.negative(relay.negative(relay.add(X, Y)))
    assert relay.structural_equal(rewrite([Undo(), SubtractFor()], expr), X - Y)


def test_pre_is_the_program_as_it_was_and_post_has_new_operands() -> None:
    seen = []

    class Look(SubtractFor):
        def callback(self, pre: Any, post: Any, node_map: Any) -> relay.Expr:
            seen.append((pre, post))
            return super().callback(pre, post, node_map)

    inner = relay.add(X, Y)
    outer = relay.add(inner, Z)
    rewrite(Look(), outer)
    assert seen[0] == (inner, inner)
    assert seen[1][0] is outer and seen[1][1].args[0].op.name == "subtract"


def test_what_has_no_match_is_the_same_object() -> None:
    func = relay.Function([X], relay.exp(X))
    assert rewrite(SubtractFor(), func) is func


def test_rewrite_once() -> None:
    made = rewrite(Swap(rewrite_once=True), relay.add(relay.add(X, Y), Z))
    assert relay.structural_equal(made, relay.add(Z, relay.add(Y, X)))


def test_a_chain_of_five_thousand_matches() -> None:
    node: relay.Expr = X
    for _ in range(5000):
        node = relay.add(node, Y)
    made = rewrite(SubtractFor(), node)
    assert {n.op.name for n in relay.post_order(made) if isinstance(n, relay.Call)} == {"subtract"}


def test_types_in_patterns_are_those_of_the_program() -> None:
    class Narrow(SubtractFor):
        def __init__(self) -> None:
            super().__init__(require_type=True)
            self.pattern = (self.x + self.y).has_dtype("float16")

    half = relay.var("h", shape=(2, 3), dtype="float16")
    both = relay.Tuple([relay.add(X, Y), relay.add(half, half)])
    made = rewrite(Narrow(), both)
    assert [field.op.name for field in made.fields] == ["add", "subtract"]


def test_a_callback_that_requires_types_reads_them() -> None:
    seen = []

    class Typed(SubtractFor):
        def __init__(self) -> None:
            super().__init__(require_type=True)

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            seen.extend([pre.checked_type, node_map[self.x][0].checked_type])
            return super().callback(pre, post, node_map)

    g = relay.GlobalVar("g")
    mod = relay.IRModule({g: relay.Function([X], relay.sum(X))})
    made = rewrite(Typed(), relay.add(g(X), relay.const(1.0)), mod)
    assert made.op.name == "subtract" and seen == [relay.TensorType(()), relay.TensorType(())]
    exp = relay.exp(X)
    assert rewrite(Typed(), exp) is exp


def test_a_rewrite_without_end_is_refused() -> None:
    with pytest.raises(BadNode, match="still changes after 100 rewrites"):
        rewrite(Swap(), relay.add(X, Y))


class NoPattern(DFPatternCallback):
    """Forgot to say what it looks for."""


class NoCallback(DFPatternCallback):
    """Forgot to say what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.pattern = is_var()


@pytest.mark.parametrize(
    ("callbacks", "expr", "message"),
    [
        (3, X, "rewrite: expected a DFPatternCallback or a sequence of them, found 3"),
        ([3], X, "rewrite: expected a DFPatternCallback, found 3"),
        (NoPattern(), X, r"NoPattern\.pattern: expected a pattern .* found None; set it in"),
        (NoCallback(), X, r"NoCallback: expected a method callback\(pre, post, node_map\)"),
        (SubtractFor(), 3, "rewrite: expected a Relay expression, found 3"),
    ],
)
def test_what_is_refused(callbacks: Any, expr: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        rewrite(callbacks, expr)


def test_a_callback_gives_an_expression() -> None:
    class Number(SubtractFor):
        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return 3

    with pytest.raises(BadNode, match='convert "3" with `const` first'):
        rewrite(Number(), relay.add(X, Y))
