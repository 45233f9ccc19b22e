"""The pattern language: what matches, what is rewritten, what becomes a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.dataflow_pattern import (
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
    wildcard,
)

from tests.relay.suite.patterns import CONV, MATCHED, TENSOR, any_two
from tvm_disc import relay
from tvm_disc.errors import BadNode, DiscError
from tvm_disc.relay import dataflow_pattern as dp

HEAD = (
    "free_var %u: Tensor[(6, 4), float32]; free_var %v: Tensor[(6, 4), float32];"
    "free_var %i: Tensor[(6, 4), int32]; free_var %on: bool;"
    "free_var %image: Tensor[(1, 3, 8, 8), float32];"
    "free_var %kernel: Tensor[(5, 3, 3, 3), float32]; free_var %h: fn (bool) -> bool;"
)


def graph(text: str) -> relay.Expr:
    """An expression over a few free variables."""
    return relay.parse_expr(HEAD + text)


U = relay.var("u", shape=(6, 4))


def programs(text: str) -> list[str]:
    """The programs of one side: a semicolon between a binding and its body parts nothing."""
    found: list[str] = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        opened = found and (found[-1].endswith(";") or _is_open(found[-1]))
        found[-1:] = [f"{found[-1]} {part}"] if opened else [*found[-1:], part]
        if part.startswith(("%0 =", "let ")):
            found[-1] += ";"
    return found


def _is_open(text: str) -> bool:
    return text.count("(") > text.count(")")


@pytest.mark.parametrize("case", MATCHED)
def test_what_matches(case: str) -> None:
    make, text = MATCHED[case]
    for program in programs(text.partition("|")[0]):
        assert make().match(graph(program)), program
        assert dp.match(make(), graph(program))


@pytest.mark.parametrize("case", [c for c in MATCHED if MATCHED[c][1].partition("|")[2].strip()])
def test_what_does_not_match(case: str) -> None:
    make, text = MATCHED[case]
    for program in programs(text.partition("|")[2]):
        assert not make().match(graph(program)), program


def test_a_match_leaves_the_pattern_as_it_was() -> None:
    pattern = is_op("add")(wildcard(), wildcard())
    for program in ("add(%u, %v)", "add(%v, 1f)", "add(2, 3)"):
        assert pattern.match(graph(program))


# ---- rewriting


class Rewrite(dp.DFPatternCallback):
    """A callback of a pattern and a function of what was matched."""

    def __init__(self, pattern: Any, make: Callable[..., relay.Expr], **options: bool) -> None:
        super().__init__(**options)
        self.pattern, self.make, self.seen = pattern, make, 0

    def callback(
        self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[Any, Sequence[relay.Expr]]
    ) -> relay.Expr:
        self.seen += 1
        return self.make(pre, post, node_map)


X, Y = wildcard(), wildcard()


def swap(op: str) -> Callable[..., relay.Expr]:
    """The operator in the place of another, over the same operands."""
    return lambda _pre, post, _found: relay.Call(relay.op.get(op), post.args)


def held(pattern: dp.DFPattern) -> Callable[..., relay.Expr]:
    """What a part of the pattern stands for."""
    return lambda _pre, _post, found: found[pattern][0]


REWRITES: dict[str, tuple[Callable[[], Sequence[Rewrite]], str, str]] = {
    "one operator": (lambda: [Rewrite(is_op("exp")(X), swap("tanh"))], "exp(%u)", "tanh(%u)"),
    "everywhere": (
        lambda: [Rewrite(is_op("exp")(X), swap("tanh"))],
        "add(exp(%u), exp(exp(%v)))",
        "add(tanh(%u), tanh(tanh(%v)))",
    ),
    "nothing": (lambda: [Rewrite(is_op("exp")(X), swap("tanh"))], "abs(%u)", "abs(%u)"),
    "an operand instead": (
        lambda: [Rewrite(is_op("negative")(is_op("negative")(X)), held(X))],
        "negative(negative(negative(negative(negative(%u)))))",
        "negative(%u)",
    ),
    "nested results": (
        lambda: [Rewrite(is_op("add")(X, is_expr(relay.const(0.0))), held(X))],
        "add(add(0f, exp(add(%u, 0f))), 0f)",
        "exp(%u)",
    ),
    "two of them": (
        lambda: [
            Rewrite(is_op("exp")(X), swap("tanh")),
            Rewrite(is_op("tanh")(X), swap("abs")),
        ],
        "exp(tanh(%u))",
        "abs(abs(%u))",
    ),
    "one of the other": (
        lambda: [
            Rewrite(is_op("tanh")(X), swap("abs")),
            Rewrite(is_op("exp")(X), swap("tanh")),
        ],
        "exp(%u)",
        "abs(%u)",
    ),
    "once": (
        lambda: [Rewrite(is_op("exp")(X), lambda _p, post, _f: relay.exp(post), rewrite_once=True)],
        "exp(exp(%u))",
        "exp(exp(exp(exp(%u))))",
    ),
    "in branches": (
        lambda: [Rewrite(is_op("exp")(X), held(X))],
        "if (%on) { exp(%u) } else { exp(exp(%v)) }",
        "if (%on) { %u } else { %v }",
    ),
    "in bindings": (
        lambda: [Rewrite(is_op("exp")(X), held(X))],
        "let %a = exp(%u); abs(exp(%a))",
        "let %a = %u; abs(%a)",
    ),
    "in functions": (
        lambda: [Rewrite(is_op("exp")(X), swap("abs"))],
        "fn (%a: float32) { exp(%a) }(1f)",
        "fn (%a: float32) { abs(%a) }(1f)",
    ),
    "a constant": (
        lambda: [Rewrite(is_constant(), lambda *_: relay.const(1.0), rewrite_once=True)],
        "add(2f, %u)",
        "add(1f, %u)",
    ),
    "a variable": (
        lambda: [Rewrite(is_var("v"), lambda *_: relay.const(1.0))],
        "add(%u, %v)",
        "add(%u, 1f)",
    ),
    "by type": (
        lambda: [Rewrite(is_op("abs")(X).has_dtype("int32"), held(X), require_type=True)],
        "(abs(%u), abs(%i))",
        "(abs(%u), %i)",
    ),
    "of a quotient": (
        lambda: [Rewrite(is_op("divide")(X, Y), lambda _p, _q, f: f[X][0] * f[Y][0])],
        "divide(%u, divide(%v, 2f))",
        "multiply(%u, multiply(%v, 2f))",
    ),
    "items of tuples": (
        lambda: [Rewrite(is_tuple_get_item(is_tuple([X, Y]), 1), held(Y))],
        "exp((%u, %v).1)",
        "exp(%v)",
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    make, before, after = REWRITES[case]
    callbacks = make()
    made = dp.rewrite(list(callbacks) if len(callbacks) > 1 else callbacks[0], graph(before))
    relay.assert_structural_equal(made, graph(after), map_free_vars=True)


def test_what_is_shared_stays_shared() -> None:
    made = Rewrite(is_op("exp")(X), swap("abs")).rewrite(graph("%0 = exp(%u); add(%0, %0)"))
    assert made.args[0] is made.args[1] and made.args[0].op.name == "abs"


def test_the_match_before_and_after_its_operands() -> None:
    seen: list[tuple[relay.Expr, relay.Expr]] = []

    def note(pre: relay.Expr, post: relay.Expr, found: Any) -> relay.Expr:
        seen.append((pre, post))
        return relay.abs(found[X][0])

    Rewrite(is_op("exp")(X), note, rewrite_once=True).rewrite(graph("exp(exp(%u))"))
    (inner, _), (outer, made) = seen
    assert outer.args[0] is inner and made.args[0].op.name == "abs"


def test_a_callback_may_ask_for_types() -> None:
    kinds: list[Any] = []
    expr = relay.transform.InferType()(relay.IRModule.from_expr(graph("exp(%u)")))["main"]

    def note(pre: relay.Expr, post: relay.Expr, _found: Any) -> relay.Expr:
        kinds.append(pre.checked_type)
        return relay.abs(post.args[0])

    Rewrite(is_op("exp")(X), note, require_type=True).rewrite(expr)
    assert kinds == [TENSOR]


def test_two_that_undo_each_other() -> None:
    pair = [Rewrite(is_op("exp")(X), swap("abs")), Rewrite(is_op("abs")(X), swap("exp"))]
    made = dp.rewrite(pair, graph("exp(%u)"))
    assert made.op.name == "exp" and [c.seen for c in pair] == [1, 1]


# ---- partition: each match becomes a call of a function

GROUPS: dict[str, tuple[Callable[[], dp.DFPattern], str, list[str], int]] = {
    "one": (lambda: is_op("exp")(wildcard()), "exp(%u)", ["exp_"], 0),
    "two apart": (lambda: is_op("exp")(wildcard()), "add(exp(%u), exp(%v))", ["exp_"] * 2, 1),
    "one above the other": (lambda: is_op("exp")(wildcard()), "exp(exp(%u))", ["exp_"] * 2, 0),
    "a chain": (
        lambda: is_op("tanh")(is_op("exp")(wildcard())),
        "abs(tanh(exp(%u)))",
        ["exp_tanh_"],
        1,
    ),
    "none": (lambda: is_op("exp")(wildcard()), "abs(%u)", [], 1),
    "read elsewhere": (
        lambda: is_op("tanh")(is_op("exp")(wildcard())),
        "%0 = exp(%u); add(tanh(%0), %0)",
        [],
        3,
    ),
    "a diamond": (
        lambda: is_op("add")(is_op("abs")(X), is_op("tanh")(X)),
        "%0 = exp(%u); add(abs(%0), tanh(%0))",
        ["abs_tanh_add_"],
        1,
    ),
    "overlapping": (
        lambda: is_op("exp")(is_op("exp")(wildcard())),
        "exp(exp(exp(%u)))",
        ["exp_exp_"],
        1,
    ),
    "perhaps more": (
        lambda: is_op("exp")(wildcard()).optional(lambda x: is_op("abs")(x)),
        "add(abs(exp(%u)), exp(%v))",
        ["exp_", "exp_abs_"],
        1,
    ),
    "a tuple's item": (
        lambda: is_tuple_get_item(is_op("split")(wildcard()), 0),
        "split(%u, indices_or_sections=2).0",
        ["split_TupleGetItem0_"],
        0,
    ),
    "of a product": (
        lambda: is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())),
        f"nn.relu({CONV})",
        ["nn.conv2d_nn.relu_"],
        0,
    ),
    "what dominates": (
        lambda: is_op("add")(*any_two).dominates(is_op("exp")(wildcard())),
        "%0 = exp(%u); add(abs(%0), tanh(%0))",
        ["exp_abs_tanh_add_"],
        0,
    ),
}


def parts(expr: relay.Expr) -> list[relay.Function]:
    """The functions that matches became."""
    nodes = relay.post_order(expr)
    found = [n for n in nodes if isinstance(n, relay.Function)]
    return [f for f in found if "PartitionedFromPattern" in f.attrs]


@pytest.mark.parametrize("case", GROUPS)
def test_partitioned(case: str) -> None:
    make, text, names, outside = GROUPS[case]
    before = graph(text)
    made = make().partition(before)
    functions = parts(made)
    assert sorted(f.attrs["PartitionedFromPattern"] for f in functions) == sorted(names)
    inside = {n for f in functions for n in relay.post_order(f.body)}
    calls = [
        n
        for n in relay.post_order(made)
        if isinstance(n, relay.Call) and isinstance(n.op, relay.Op) and n not in inside
    ]
    assert len(calls) == outside
    assert relay.analysis.free_vars(made) == relay.analysis.free_vars(before)
    plain = relay.transform.InferType()(relay.IRModule.from_expr(made))
    typed = relay.transform.InferType()(relay.IRModule.from_expr(before))
    assert plain["main"].ret_type == typed["main"].ret_type


def test_constants_are_arguments_unless_the_pattern_has_them() -> None:
    text = "add(exp(%u), 3f)"
    outside = is_op("add")(is_op("exp")(wildcard()), wildcard()).partition(graph(text))
    inside = is_op("add")(is_op("exp")(wildcard()), is_constant()).partition(graph(text))
    assert [len(parts(e)[0].params) for e in (outside, inside)] == [2, 1]


def test_attributes_of_the_functions() -> None:
    made = dp.partition(is_op("exp")(wildcard()), graph("exp(%u)"), {"Composite": "mine", "N": 3})
    (function,) = parts(made)
    assert function.attrs["Composite"] == "mine" and function.attrs["N"] == 3


@pytest.mark.parametrize(("axis", "count"), [(0, 1), (1, 0)])
def test_a_check_may_refuse_a_match(axis: int, count: int) -> None:
    pattern = is_op("nn.softmax")(wildcard())
    made = pattern.partition(graph("nn.softmax(%u, axis=0)"), check=lambda e: e.attrs.axis == axis)
    assert len(parts(made)) == count


def test_partition_again_leaves_functions_alone() -> None:
    pattern = is_op("exp")(wildcard())
    made = pattern.partition(pattern.partition(graph("exp(%u)")))
    assert len(parts(made)) == 1


def test_a_function_is_made_of_its_inputs() -> None:
    made = is_op("subtract")(is_op("exp")(X), Y).partition(graph("subtract(exp(%u), tanh(%v))"))
    (function,) = parts(made)
    names = [a.op.name if isinstance(a, relay.Call) else a.name_hint for a in made.args]
    assert names == ["u", "tanh"] and len(function.params) == 2
    assert function.body.op.name == "subtract" and function.body.args[1] is function.params[1]


def test_values_stay() -> None:
    before = graph("%0 = exp(%u); add(abs(%0), tanh(%0))")
    made = is_op("add")(is_op("abs")(X), is_op("tanh")(X)).partition(before)
    back = relay.transform.FoldConstant()(relay.IRModule.from_expr(made))["main"]
    data = np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4)
    found = relay.create_executor("vm", mod=relay.IRModule.from_expr(back)).evaluate()(data)
    expected = np.abs(np.exp(data)) + np.tanh(np.exp(data))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


# ---- refusals

COUNTED = count()

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an operator": (lambda: is_op("fly"), "unknown operator 'fly'"),
    "no name": (lambda: is_op(3), "unknown operator 3"),
    "a callee": (lambda: dp.CallPattern("exp", None), "the callee of a call pattern"),
    "an operand": (lambda: is_op("exp")(1), "expected a pattern such as wildcard"),
    "operands": (lambda: dp.CallPattern(wildcard(), 3), "expected a sequence of patterns"),
    "fields": (lambda: is_tuple([1]), "is_tuple: expected a pattern"),
    "a tuple": (lambda: is_tuple_get_item(1, 0), "is_tuple_get_item: expected a pattern"),
    "a branch": (lambda: is_if(wildcard(), wildcard(), None), "is_if: expected a pattern"),
    "a binding": (lambda: is_let(wildcard(), wildcard(), 2), "is_let: expected a pattern"),
    "an alternative": (lambda: wildcard() | 1, "an alternative: expected a pattern"),
    "a path": (lambda: wildcard().dominates(1), "dominates: expected a pattern"),
    "a type": (lambda: has_type("float32"), "has_type: expected a Relay type"),
    "an element type": (lambda: has_dtype("float33"), "has_dtype: expected an element type"),
    "a shape": (lambda: has_shape(3), "has_shape: expected a sequence of dims"),
    "attributes": (
        lambda: has_attr(["axis"]),
        "has_attr: expected a mapping from names to values",
    ),
    "an expression": (lambda: is_expr("x"), "is_expr: expected a Relay expression"),
    "where it stands": (lambda: wildcard().redirect_to(1), "redirect_to: expected a pattern"),
    "what is matched": (lambda: wildcard().match(3), "match: expected a Relay expression"),
    "what is partitioned": (lambda: wildcard().partition(3), "partition: expected a Relay"),
    "what is rewritten": (lambda: dp.rewrite([], 3), "rewrite: expected a Relay expression"),
    "callbacks": (lambda: dp.rewrite([wildcard()], U), "expected a DFPatternCallback"),
    "no pattern": (lambda: dp.DFPatternCallback().rewrite(U), r"pattern: expected a pattern"),
    "no callback": (
        lambda: dp.rewrite(_without_callback(), relay.exp(U)),
        "expected a method callback",
    ),
    "no end": (
        lambda: Rewrite(is_op("exp")(X), lambda _p, post, _f: relay.exp(post)).rewrite(
            relay.exp(U)
        ),
        "still changes after 14 rewrites",
    ),
    "no end, without growth": (
        lambda: Rewrite(X, lambda _p, _q, _f: relay.const(float(next(COUNTED)))).rewrite(U),
        "still changes after 100 rewrites",
    ),
}


def _without_callback() -> dp.DFPatternCallback:
    made = dp.DFPatternCallback()
    made.pattern = is_op("exp")(wildcard())
    return made


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(DiscError, match=message) as found:
        make()
    assert isinstance(found.value, BadNode)
