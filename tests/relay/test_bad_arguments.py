"""The reader functions and the builder: what is refused, and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import BadNode, DiscError

X = relay.var("x", shape=(relay.Any(), 4))

CASES = [
    (lambda: relay.parse(5), "expected Relay text, found int"),
    (lambda: relay.parse(b"x"), "expected Relay text, found bytes"),
    (lambda: relay.parse_expr(None), "expected Relay text, found NoneType"),
    (lambda: relay.load_json(5), "expected the text of a JSON graph, found int"),
    (lambda: relay.load_json(b"{}"), "expected the text of a JSON graph, found bytes"),
    (lambda: relay.load_param_dict("x"), "expected the bytes of a parameter file, found str"),
    (lambda: relay.save_param_dict(5), "expected a mapping from names to arrays, found 5"),
    (lambda: relay.save_param_dict({5: 1}), "expected a mapping from names to arrays"),
    (lambda: relay.astext(5), "expected a relay module, expression or type, found int"),
    (lambda: relay.to_relax(5), "expected a relay.IRModule, found int"),
    (lambda: relay.var(5), "the name of a variable: expected a string, found 5"),
    (lambda: relay.var("x", 5), "variable 'x': expected a relay type, found 5"),
    (lambda: relay.var("x", shape=5), "a shape: expected a sequence of dimensions, found 5"),
    (lambda: relay.var("x", shape=("a",)), "a dimension: expected an int, .* found 'a'"),
    (lambda: relay.var("x", shape=(-1,)), "a dimension cannot be negative, found -1"),
    (lambda: relay.var("x", shape=(2**63,)), r"a dimension must be less than 2\*\*63"),
    (lambda: relay.var("x", shape=(1,), dtype="int4096"), "expected an element type .*'int4096'"),
    (lambda: relay.var("x", shape=(1,), dtype=5), "expected an element type .*'5'"),
    (lambda: relay.const("a"), "a constant: expected numbers or bools, found 'a'"),
    (lambda: relay.const(None), "a constant: expected numbers or bools, found 'None'"),
    (lambda: relay.const([[1], [1, 2]]), "a constant: expected numbers or bools"),
    (lambda: relay.const(1, "foo"), "an element type such as float32, found 'foo'"),
    (lambda: relay.const(1, 5), "an element type such as float32, found 5"),
    (lambda: relay.const(2**40), "1099511627776 does not fit int32; pass another dtype"),
    (lambda: relay.const(-1, "uint8"), "-1 does not fit uint8"),
    (lambda: relay.const(1.7, "int32"), "1.7 does not fit int32"),
    (lambda: relay.add(1, 2), 'convert "1" with `const` first'),
    (lambda: relay.add(X), r"add needs argument 'rhs'; add\(lhs, rhs\)"),
    (lambda: relay.add(X, X, foo=1), "add has no attribute 'foo'"),
    (lambda: relay.add(X, X, X), "add: expected at most 2 arguments, found 3"),
    (lambda: X + 1, 'convert "1" with `const` first'),
    (
        lambda: relay.Function(5, X),
        "function: expected a sequence of relay.Var, found 5",
    ),
    (lambda: relay.Function([5], X), "a function parameter: expected a relay.Var, found 5"),
    (lambda: relay.Function([X, X], X), "a function parameter occurs twice"),
    (lambda: relay.Function([X], 5), 'convert "5" with `const` first'),
    (lambda: relay.IRModule(5), "functions: expected a mapping from names to values, found int"),
    (lambda: relay.IRModule({"main": 5}), "expected a relay.Function, found int"),
    (lambda: relay.IRModule.from_expr(5), "expected a Relay expression, found int"),
    (lambda: relay.Tuple(5), "a tuple: expected a sequence of expressions, found 5"),
    (lambda: relay.TupleGetItem(X, "a"), "a tuple index: expected an integer, found 'a'"),
    (lambda: relay.TupleGetItem(X, -1), "a tuple index cannot be negative, found -1"),
    (lambda: relay.Let(5, X, X), "let: expected a relay.Var to bind, found 5"),
    (lambda: relay.If(5, X, X), 'convert "5" with `const` first'),
    (lambda: relay.Call(5, []), 'convert "5" with `const` first'),
    (lambda: relay.TensorType(5), "a shape: expected a sequence of dimensions, found 5"),
]


@pytest.mark.parametrize(("use", "message"), CASES, ids=range(len(CASES)))
def test_refused(use: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        use()


def test_the_error_is_relays_own_too() -> None:
    assert issubclass(BadNode, DiscError)
    assert issubclass(BadNode, TypeError) and issubclass(BadNode, ValueError)


def test_constants_that_fit() -> None:
    assert relay.const(2**40, "int64").data == 2**40
    assert relay.const(2**31 - 1).data.dtype == np.int32
    assert relay.const([1.0, 2.0], "int8").data.tolist() == [1, 2]
    assert relay.const(np.iinfo("int64").max, "int64").data.dtype == np.int64
