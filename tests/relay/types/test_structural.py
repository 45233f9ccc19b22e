"""Structural equality and hashes, with Relay's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import NotEqual

T = relay.TensorType
x, x2, y = relay.Var("x", T((2,))), relay.Var("x", T((2,))), relay.Var("y", T((2,)))
A, B = relay.TypeVar("A"), relay.TypeVar("B")
g = relay.GlobalTypeVar("L")
e = relay.exp(x)
one = relay.const(1)


def pair(part: Any) -> relay.Tuple:
    """One part twice."""
    return relay.Tuple([part, part])


def both(make: Callable[[], Any]) -> relay.Tuple:
    """Two parts made alike."""
    return relay.Tuple([make(), make()])


def fn(v: relay.Var, body: Any = None, **rest: Any) -> relay.Function:
    """A function of one variable."""
    return relay.Function([v], v if body is None else body, **rest)


def loop(name: str) -> relay.IRModule:
    """A module with one recursive function."""
    gv, v = relay.GlobalVar(name), relay.Var("i")
    return relay.IRModule({gv: relay.Function([v], gv(v))})


def data(name: str, *ctors: tuple[str, int], over: relay.TypeVar | None = None) -> relay.IRModule:
    """A module with one data type; ``over`` is its type parameter."""
    mod, header = relay.IRModule(), relay.GlobalTypeVar(name)
    inner = over or T(())
    made = [relay.Constructor(c, [inner] * k, header) for c, k in ctors]
    mod[header] = relay.TypeData(header, [over] if over else [], made)
    return mod


def matched(v: relay.Var, complete: bool = True) -> relay.Match:
    """A match with one clause that takes anything."""
    return relay.Match(y, [relay.Clause(relay.PatternVar(v), v)], complete)


# (left, right, equal, equal if free names may be mapped)
CASES: list[tuple[Any, Any, bool, bool]] = [
    (x, x, True, True),
    (x, x2, False, True),
    (x, y, False, True),
    (x, relay.Var("x", T((3,))), False, False),
    (relay.GlobalVar("a"), relay.GlobalVar("a"), False, True),
    (relay.GlobalVar("a"), relay.GlobalVar("b"), False, False),
    (relay.op.get("add"), relay.op.get("add"), True, True),
    (fn(x), fn(y), True, True),
    (fn(x), fn(relay.Var("z", T((3,)))), False, False),
    (fn(x), fn(x, ret_type=T((2,))), False, False),
    (fn(x), fn(x).with_attr("a", 1), False, False),
    (fn(x), x, False, False),
    (fn(x, y), fn(x2, y), True, True),
    # sharing
    (e + e, relay.exp(x) + relay.exp(x), False, False),
    (fn(x, e + e), fn(x, relay.exp(x) + relay.exp(x)), False, False),
    (pair(relay.Tuple([x])), both(lambda: relay.Tuple([x])), False, False),
    (pair(fn(x)), both(lambda: fn(x)), False, False),
    (pair(relay.If(x, x, x)), both(lambda: relay.If(x, x, x)), False, False),
    (pair(one), both(lambda: relay.const(1)), True, True),
    (pair(relay.TupleGetItem(x, 0)), both(lambda: relay.TupleGetItem(x, 0)), True, True),
    # constants, attributes, type arguments
    (relay.const(1), relay.const(1), True, True),
    (relay.const(1), relay.const(1.0), False, False),
    (relay.const(1), relay.const([1]), False, False),
    (relay.const(1.0), relay.const(1.0, "float64"), False, False),
    (relay.sum(x, axis=0), relay.sum(x, axis=0), True, True),
    (relay.sum(x, axis=0), relay.sum(x, axis=1), False, False),
    (relay.sum(x, axis=0).attrs, relay.sum(y, axis=0).attrs, True, True),
    (relay.Call(x, [y]), relay.Call(x, [y], type_args=[T(())]), False, False),
    (e, relay.Call(relay.op.get("exp"), [x], type_args=[T(())]), True, True),
    (relay.TupleGetItem(x, 0), relay.TupleGetItem(x, 1), False, False),
    # bindings and matches
    (relay.Let(x, y, x), relay.Let(x2, y, x2), True, True),
    (relay.Let(x, y, y), relay.Let(x2, y, x2), False, False),
    (relay.Let(relay.Var("p"), y, y), relay.Let(relay.Var("p", T((2,))), y, y), False, False),
    (matched(relay.Var("a")), matched(relay.Var("b")), True, True),
    (matched(relay.Var("a")), matched(relay.Var("a"), False), False, False),
    (relay.PatternWildcard(), relay.PatternWildcard(), True, True),
    (relay.PatternVar(x), relay.PatternVar(y), True, True),
    (relay.PatternVar(x), relay.PatternWildcard(), False, False),
    (relay.Clause(relay.PatternVar(x), x), relay.Clause(relay.PatternVar(y), y), True, True),
    (relay.Constructor("c", [], g), relay.Constructor("c", [], g), True, True),
    (relay.RefWrite(x, y), relay.RefWrite(x, y), True, True),
    (relay.RefWrite(x, y), relay.RefWrite(y, x), False, True),
    # types
    (relay.FuncType([A], A, [A]), relay.FuncType([B], B, [B]), True, True),
    (relay.FuncType([A], A), relay.FuncType([B], B), False, True),
    (A, relay.TypeVar("A"), False, True),
    (A, relay.TypeVar("A", relay.TypeKind.ShapeVar), False, False),
    (relay.TupleType([]), relay.TupleType([]), True, True),
    (T(()), T((1,)), False, False),
    (relay.GlobalTypeVar("a"), relay.GlobalTypeVar("a"), False, True),
    (relay.IncompleteType(), relay.IncompleteType(), False, True),
    (g(A), g(A), True, True),
    (g(A), g(B), False, True),
    (T((relay.Any(),)), T((relay.Any(),)), True, True),
    (T((relay.Any(),)), T((3,)), False, False),
    # modules
    (relay.IRModule({"f": fn(x)}), relay.IRModule({"f": fn(y)}), True, True),
    (relay.IRModule({"f": fn(x)}), relay.IRModule({"g": fn(x)}), False, False),
    (loop("f"), loop("f"), True, True),
    (loop("f"), loop("g"), False, False),
    (data("L", ("a", 1)), data("L", ("a", 1)), True, True),
    (data("L", ("a", 1)), data("L", ("b", 1)), False, False),
    (data("L", ("a", 1), ("b", 0)), data("L", ("b", 0), ("a", 1)), False, False),
    (data("L"), data("M"), False, False),
    (data("L", ("a", 1), over=A), data("L", ("a", 1), over=B), True, True),
    (None, None, True, True),
]


@pytest.mark.parametrize("k", range(len(CASES)))
def test_equality_and_hash(k: int) -> None:
    left, right, strict, mapped = CASES[k]
    for expected, free in ((strict, False), (mapped, True)):
        assert relay.structural_equal(left, right, free) is expected
        assert relay.structural_equal(right, left, free) is expected
        hashes = [relay.structural_hash(v, free) for v in (left, right)]
        if expected:
            assert hashes[0] == hashes[1]
            relay.assert_structural_equal(left, right, free)
        else:
            with pytest.raises(NotEqual, match="they differ in"):
                relay.assert_structural_equal(left, right, free)


def test_hashes_tell_most_apart() -> None:
    apart = [k for k, (left, right, strict, _) in enumerate(CASES) if not strict]
    same = [
        k for k in apart
        if relay.structural_hash(CASES[k][0]) == relay.structural_hash(CASES[k][1])
    ]  # fmt: skip
    names = [str(CASES[k][0]) for k in same]
    assert names in ([], ["A", "a", "_"])  # names of types count by how they are spelled


def test_types_compare_as_scripts_compare_them() -> None:
    n = relay.size_var("n")
    assert T((n, 2)) == T((relay.size_var("n"), 2)) != T((relay.size_var("m"), 2))
    assert T((relay.Any(), 2)) == T((relay.Any(), 2)) != T((relay.Any(), 3))
    assert relay.FuncType([A], A, [A]) == relay.FuncType([B], B, [B])
    assert hash(relay.FuncType([A], A, [A])) == hash(relay.FuncType([B], B, [B]))
    assert T((2,)) != "Tensor[(2), float32]"


def test_the_message_has_the_parts() -> None:
    with pytest.raises(ValueError, match=r"sum\(%x, axis=\[0\]\)[\s\S]*axis=\[1\]"):
        relay.assert_structural_equal(fn(x, relay.sum(x, axis=0)), fn(x, relay.sum(x, axis=1)))


def test_deep_programs_are_hashed() -> None:
    chains = []
    for _ in range(2):
        z: relay.Expr = x
        for _ in range(5000):
            z = relay.exp(z)
        chains.append(z)
    assert relay.structural_hash(chains[0]) == relay.structural_hash(chains[1])


@pytest.mark.parametrize("value", [1e-5, 0.1, 1e-12, 3.3])
def test_attributes_are_compared_as_float32(value: float) -> None:
    x = relay.var("x")
    near, exact, far = (
        relay.nn.leaky_relu(x, alpha=v)
        for v in (float(np.float32(value)), value, value * (1 + 1e-6))
    )
    assert relay.structural_equal(near, exact)
    assert relay.structural_hash(near) == relay.structural_hash(exact)
    assert not relay.structural_equal(exact, far)
