"""Patterns, and programs that they match or do not."""

from __future__ import annotations

from collections.abc import Callable

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

from tvm_disc import relay
from tvm_disc.relay import dataflow_pattern as dp

TWO = relay.const(2.0)
any_two = (wildcard(), wildcard())
TENSOR = relay.TensorType((6, 4), "float32")
CONV = "nn.conv2d(%image, %kernel, strides=[2, 2], channels=5, kernel_size=[3, 3])"


def twice() -> dp.DFPattern:
    """One pattern at two places: one expression."""
    same = wildcard()
    return is_op("subtract")(same, same)


def chain() -> dp.DFPattern:
    """exp, any number of times, over tanh."""
    step = wildcard()
    step.redirect_to(is_op("exp")(step) | is_op("tanh")(wildcard()))
    return step


# What matches, and after the bar what does not; programs are parted by semicolons.
MATCHED: dict[str, tuple[Callable[[], dp.DFPattern], str]] = {
    "anything": (wildcard, "%u; 3; exp(%u); (%u, %v); %h |"),
    "a variable": (is_var, "%u; %on; %h | 1; exp(%u); (%u,)"),
    "a name": (lambda: is_var("v"), "%v | %u; exp(%v)"),
    "a constant": (is_constant, "1; 2.5f; True | %u; add(1, 2)"),
    "an expression": (lambda: is_expr(TWO), "2f | 2; 2f64; 3f; exp(2f)"),
    "of a constant": (lambda: is_op("exp")(is_expr(TWO)), "exp(2f) | exp(4f); exp(%u); tanh(2f)"),
    "an operator": (lambda: is_op("exp"), "exp | tanh; exp(%u)"),
    "a call": (lambda: is_op("exp")(wildcard()), "exp(%u); exp(exp(%v)) | tanh(%u); %u; exp"),
    "of what": (lambda: is_op("exp")(is_var("u")), "exp(%u) | exp(%v); exp(exp(%u))"),
    "too many operands": (lambda: is_op("exp")(*any_two), "| exp(%u)"),
    "too few operands": (lambda: is_op("add")(wildcard()), "| add(%u, %v)"),
    "any operands": (
        lambda: is_op("add")(None),
        "add(%u, %v); add(1, 2) | subtract(%u, %v)",
    ),
    "operands of anything": (
        lambda: wildcard()(None),
        "add(%u, %v); exp(%u); %h(%on) | %u; (%u,); 1",
    ),
    "of a value": (lambda: is_var("h")(wildcard()), "%h(%on) | exp(%u)"),
    "sums in both orders": (
        lambda: is_op("add")(is_var("u"), is_constant()),
        "add(%u, 1f); add(1f, %u) | add(%v, 1f); add(%u, %v); subtract(%u, 1f)",
    ),
    "products in both orders": (
        lambda: is_op("multiply")(is_op("exp")(wildcard()), wildcard()),
        "multiply(exp(%u), %v); multiply(%v, exp(%u)) | multiply(%u, %v)",
    ),
    "differences in one": (
        lambda: is_op("subtract")(is_var("u"), is_var("v")),
        "subtract(%u, %v) | subtract(%v, %u)",
    ),
    "quotients in one": (
        lambda: is_op("divide")(is_op("exp")(wildcard()), is_var("v")),
        "divide(exp(%u), %v) | divide(%v, exp(%u))",
    ),
    "the same": (twice, "subtract(%u, %u) | subtract(%u, %v)"),
    "the same node": (twice, "%0 = exp(%u); subtract(%0, %0) | subtract(exp(%u), exp(%u))"),
    "plus": (lambda: is_var("u") + is_var("v"), "add(%u, %v) | multiply(%u, %v)"),
    "minus": (lambda: is_var("u") - is_var("v"), "subtract(%u, %v) | add(%u, %v)"),
    "times": (lambda: is_var("u") * is_var("v"), "multiply(%u, %v) | add(%u, %v)"),
    "over": (lambda: is_var("u") / is_var("v"), "divide(%u, %v) | multiply(%u, %v)"),
    "in parentheses": (
        lambda: (is_var("u") + wildcard()) * is_constant(),
        "multiply(add(%u, %v), 2f); multiply(2f, add(%v, %u)) | add(multiply(%u, %v), 2f)",
    ),
    "a quotient of a product": (
        lambda: is_op("divide")(is_op("multiply")(is_var("u"), is_var("v")), is_constant()),
        "divide(multiply(%u, %v), 2f); multiply(%u, divide(%v, 2f)) | divide(%u, %v)",
    ),
    "one of two": (
        lambda: is_op("exp")(wildcard()) | is_op("tanh")(wildcard()),
        "exp(%u); tanh(%u) | abs(%u)",
    ),
    "one of three": (
        lambda: (is_op("exp") | is_op("tanh") | is_op("abs"))(is_var()),
        "exp(%u); tanh(%u); abs(%u) | exp(1f); negative(%u)",
    ),
    "perhaps more": (
        lambda: is_op("exp")(wildcard()).optional(lambda x: is_op("tanh")(x)),
        "exp(%u); tanh(exp(%u)) | tanh(%u); abs(exp(%u))",
    ),
    "perhaps more than once": (
        lambda: (
            is_op("exp")(is_var())
            .optional(lambda x: is_op("tanh")(x))
            .optional(lambda x: is_op("abs")(x))
        ),
        "exp(%u); tanh(exp(%u)); abs(exp(%u)); abs(tanh(exp(%u))) | tanh(abs(exp(%u)))",
    ),
    "any number of times": (
        chain,
        "tanh(%u); exp(tanh(%u)); exp(exp(exp(tanh(%u)))) | exp(%u); exp(abs(tanh(%u)))",
    ),
    "an attribute": (
        lambda: is_op("nn.softmax")(wildcard()).has_attr({"axis": 0}),
        "nn.softmax(%u, axis=0) | nn.softmax(%u, axis=1); nn.softmax(%u)",
    ),
    "an attribute by default": (
        lambda: is_op("nn.softmax")(wildcard()).has_attr({"axis": -1}),
        "nn.softmax(%u); nn.softmax(%u, axis=-1) | nn.softmax(%u, axis=1)",
    ),
    "an attribute of several": (
        lambda: is_op("nn.conv2d")(None).has_attr({"strides": [2, 2], "groups": 1}),
        f"{CONV} | {CONV.replace('2, 2', '1, 1')}; {CONV[:-1]}, groups=5)",
    ),
    "a text": (
        lambda: is_op("cast")(wildcard()).has_attr({"dtype": "int8"}),
        'cast(%u, dtype="int8") | cast(%u, dtype="uint8")',
    ),
    "another kind of value": (
        lambda: is_op("nn.softmax")(wildcard()).has_attr({"axis": "0"}),
        "| nn.softmax(%u, axis=0)",
    ),
    "an attribute that is not there": (
        lambda: is_op("exp")(wildcard()).has_attr({"axis": 0}),
        "| exp(%u)",
    ),
    "a fusion class": (
        lambda: wildcard().has_attr({"TOpPattern": 0})(wildcard()),
        "exp(%u); negative(%u) | nn.softmax(%u)",
    ),
    "anything with an attribute": (
        lambda: has_attr({"dtype": "int8"}),
        'cast(%u, dtype="int8"); zeros(shape=[1], dtype="int8") | exp(%u)',
    ),
    "an attribute of a function": (
        lambda: has_attr({"Composite": "mine"}),
        'fn (%a: bool, Composite="mine") { %a } | fn (%a: bool, Composite="x") { %a }',
    ),
    "a type": (lambda: has_type(TENSOR), "%u; exp(%u); multiply(%u, %v) | %i; sum(%u); (%u, %v)"),
    "a type of a tuple": (
        lambda: has_type(relay.TupleType([TENSOR, TENSOR])),
        "(%u, %v) | (%u,); (%u, %i); %u",
    ),
    "of a type": (lambda: is_op("exp")(has_type(TENSOR)), "exp(%u) | exp(%image)"),
    "an element type": (
        lambda: has_dtype("int32"),
        '%i; add(%i, 1); cast(%u, dtype="int32") | %u; (%i, %i)',
    ),
    "of an element type": (
        lambda: is_op("abs")(wildcard()).has_dtype("int32"),
        "abs(%i) | abs(%u); negative(%i)",
    ),
    "a shape": (lambda: has_shape((6, 4)), "%u; %i; exp(%u) | %image; sum(%u)"),
    "no dims": (lambda: has_shape(()), "3; sum(%u); %on | %u"),
    "of a shape": (
        lambda: is_op("transpose")(wildcard()).has_shape((4, 6)),
        "transpose(%u, axes=[1, 0]) | transpose(%u, axes=[0, 1]); %u",
    ),
    "a tuple": (
        lambda: is_tuple([is_var("u"), wildcard()]),
        "(%u, %v); (%u, 1) | (%v, %u); (%u,); (%u, %v, %v); %u",
    ),
    "any tuple": (lambda: is_tuple(None), "(%u, %v); (); (1,) | %u"),
    "no fields": (lambda: is_tuple([]), "() | (%u,)"),
    "what is joined": (
        lambda: is_op("concatenate")(is_tuple([wildcard(), is_op("exp")(wildcard())])),
        "concatenate((%u, exp(%v))) | concatenate((exp(%u), %v)); concatenate((%u, %v, exp(%u)))",
    ),
    "an item": (
        lambda: is_tuple_get_item(is_tuple(any_two), 1),
        "(%u, %v).1 | (%u, %v).0; (%u,).0; %u",
    ),
    "any item": (lambda: is_tuple_get_item(wildcard()), "(%u, %v).1; (%u, %v).0 | (%u, %v)"),
    "a branch": (
        lambda: is_if(is_var("on"), is_op("exp")(wildcard()), wildcard()),
        "if (%on) { exp(%u) } else { %v } | if (%on) { %u } else { exp(%v) }; exp(%u)",
    ),
    "a branch of what": (
        lambda: is_if(is_constant(), wildcard(), wildcard()),
        "if (True) { %u } else { %v } | if (%on) { %u } else { %v }",
    ),
    "a binding": (
        lambda: is_let(is_var("a"), is_op("exp")(wildcard()), is_op("tanh")(is_var("a"))),
        "let %a = exp(%u); tanh(%a) | let %a = exp(%u); tanh(%u); let %b = exp(%u); tanh(%b)",
    ),
    "any binding": (lambda: is_let(wildcard(), *any_two), "let %a = 1; 2 | %u"),
    "a function": (
        lambda: dp.FunctionPattern([wildcard()], is_op("exp")(wildcard())),
        "fn (%a: bool) { exp(%u) } | fn (%a: bool, %b: bool) { exp(%u) }; fn () { exp(%u) }; %h",
    ),
    "its parameters": (
        lambda: dp.FunctionPattern([is_var("a")], is_op("abs")(is_var("a"))),
        "fn (%a: int8) { abs(%a) } | fn (%b: int8) { abs(%b) }",
    ),
    "any parameters": (
        lambda: dp.FunctionPattern(None, is_op("exp")(wildcard())),
        "fn (%a: bool, %b: bool) { exp(%u) }; fn () { exp(%u) } | fn () { tanh(%u) }",
    ),
    "a call of a function": (
        lambda: dp.FunctionPattern([wildcard()], wildcard())(is_var("u")),
        "fn (%a: Tensor[(6, 4), float32]) { %a }(%u) | %h(%on); exp(%u)",
    ),
    "a diamond": (
        lambda: is_op("add")(*any_two).dominates(is_op("exp")(wildcard())),
        "%0 = exp(%u); add(abs(%0), tanh(%0)); add(exp(%u), 1f) | add(abs(%u), tanh(%u))",
    ),
    "along a path": (
        lambda: dp.dominates(is_op("exp")(None), is_op("abs")(None), is_op("tanh")(None)),
        "tanh(abs(exp(%u))); tanh(abs(abs(exp(%u)))) | tanh(negative(exp(%u))); tanh(abs(%u))",
    ),
    "an end of a diamond": (
        lambda: is_op("add")(*any_two).dominates(is_op("exp")(None), is_op("abs")(None)),
        "%0 = exp(%u); add(abs(%0), abs(abs(%0))) | %0 = exp(%u); add(abs(%0), tanh(%0))",
    ),
}
