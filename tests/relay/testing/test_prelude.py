"""The prelude and natural numbers: every function on values, and what there is not."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.relay import testing, transform

INT = relay.scalar_type("int32")


@pytest.fixture(scope="module")
def prelude() -> relay.Prelude:
    found = relay.Prelude()
    found.mod.import_from_std("nat.rly")
    return found


def plain(value: Any) -> Any:
    """A result as Python's lists, tuples and numbers."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    name = getattr(value, "name", None)
    if name == "Rose":
        return [plain(value[0]), plain(value[1])]
    if name in ("Cons", "Nil"):
        items = []
        while value.fields:
            items.append(plain(value[0]))
            value = value[1]
        return items
    return value.numpy().item()


def listed(p: relay.Prelude, *items: int) -> relay.Expr:
    _, cons, nil = p.mod.get_type("List")
    found = nil()
    for item in reversed(items):
        found = cons(relay.const(item), found)
    return found


def function(body: Any, count: int, kind: Any = INT) -> relay.Function:
    names = [relay.Var(n, INT) for n in "ab"[:count]]
    return relay.Function(names, body(*names), kind)


def calls(p: relay.Prelude) -> dict[str, tuple[relay.Expr, Any]]:
    """Expressions by the functions that they call, and their values."""
    inc = function(lambda a: a + relay.const(1), 1)
    minus = function(lambda a, b: a - b, 2)
    large = function(lambda a: a > relay.const(1), 1, relay.scalar_type("bool"))
    pair = relay.TupleType([INT, INT])
    step = function(lambda a, b: relay.Tuple([a + b, a * b]), 2, pair)
    option, some, none = p.mod.get_type("Option")
    down = function(
        lambda a: relay.If(a > relay.const(0), some(relay.Tuple([a - relay.const(1), a])), none()),
        1,
        relay.TypeCall(option, [pair]),
    )
    _, rose = p.mod.get_type("Tree")
    _, cons, nil = p.mod.get_type("List")
    tree = rose(relay.const(1), cons(rose(relay.const(2), nil()), nil()))
    xs, one = listed(p, 3, 4, 5), relay.const(1)
    return {
        "hd": (p.hd(xs), 3),
        "tl": (p.tl(xs), [4, 5]),
        "nth": (p.nth(xs, one), 4),
        "update": (p.update(xs, one, relay.const(9)), [3, 9, 5]),
        "map": (p.map(inc, xs), [4, 5, 6]),
        "foldl": (p.foldl(minus, one, xs), -11),
        "foldr": (p.foldr(minus, one, xs), 3),
        "foldr1": (p.foldr1(minus, xs), 4),
        "sum": (p.sum(xs), 12),
        "length": (p.length(xs), 3),
        "concat": (p.concat(xs, listed(p, 1)), [3, 4, 5, 1]),
        "filter": (p.filter(large, listed(p, 2, 1, 3)), [2, 3]),
        "zip": (p.zip(xs, listed(p, 1, 2)), [(3, 1), (4, 2)]),
        "rev": (p.rev(xs), [5, 4, 3]),
        "map_accuml": (p.map_accuml(step, one, xs), (13, [40, 16, 3])),
        "map_accumr": (p.map_accumr(step, one, xs), (13, [30, 24, 5])),
        "unfoldr": (p.unfoldr(down, relay.const(3)), [3, 2, 1]),
        "unfoldl": (p.unfoldl(down, relay.const(3)), [1, 2, 3]),
        "compose": (p.compose(inc, inc)(one), 3),
        "flip": (p.flip(minus)(one, relay.const(5)), 4),
        "iterate": (p.iterate(inc, relay.const(4))(one), 5),
        "id": (p.id(one), 1),
        "size": (p.size(tree), 2),
        "tmap": (p.tmap(inc, tree), [2, [[3, []]]]),
    }


def test_functions(prelude: relay.Prelude) -> None:
    executor = relay.create_executor("vm", prelude.mod)
    for name, (expr, value) in calls(prelude).items():
        assert plain(executor.evaluate(expr)) == value, name


def test_every_function_has_a_case(prelude: relay.Prelude) -> None:
    names = {g.name_hint for g in relay.Prelude().mod.get_global_vars()}
    assert names == set(calls(prelude))


def test_numbers(prelude: relay.Prelude) -> None:
    mod = prelude.mod
    _, zero, after = mod.get_type("nat")
    executor = relay.create_executor("debug", mod)
    two = testing.make_nat_expr(prelude, 2)
    inc = function(lambda a: a + relay.const(1), 1)
    added, twice, times = executor.evaluate(
        relay.Tuple(
            [
                mod.get_global_var("nat_add")(two, after(two)),
                mod.get_global_var("nat_double")(two),
                mod.get_global_var("nat_iterate")(inc, two)(relay.const(5)),
            ]
        )
    )
    assert testing.count(prelude, added) == 5 and testing.count(prelude, twice) == 4
    assert times.numpy() == 7
    four = testing.make_nat_value(prelude, 4)
    assert four == twice and four.tag == after.tag and zero.tag == 0


def test_a_module_has_the_prelude_once() -> None:
    mod = relay.IRModule()
    first = relay.Prelude(mod)
    assert relay.Prelude(mod).map is first.map
    assert relay.structural_equal(mod, transform.InferType()(relay.parse(mod.astext())))
    assert [c.name_hint for c in mod.get_type("List")[1:]] == ["Cons", "Nil"]


REFUSED = {
    "an unknown module": (lambda p: p.mod.import_from_std("core.rly"), Unsupported, "'core.rly'"),
    "gradients": (lambda p: p.mod.import_from_std("gradient.rly"), Unsupported, "'gradient.rly'"),
    "tensor arrays": (
        lambda p: p.get_global_var("read", "float32"),
        Unsupported,
        "tensor_array_read_float32: tensor arrays are not supported",
    ),
    "an unknown function": (lambda p: p.fold, AttributeError, "no function 'fold'"),
    "no number": (
        lambda p: testing.count(p, 3),
        BadInput,
        "expected a value of the data type nat, found 3",
    ),
    "below zero": (lambda p: testing.make_nat_expr(p, -1), BadInput, "expected at least 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, prelude: relay.Prelude) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error) as found:
        call(prelude)
    assert message in str(found.value)


@pytest.mark.parametrize("name", ["TensorArrayOps", "StaticTensorArrayOps"])
def test_tensor_arrays_of_one_type_are_refused_by_their_names(name: str) -> None:
    ops = getattr(relay.prelude, name)
    with pytest.raises(Unsupported, match=f"{name}: tensor arrays are not supported; use List of"):
        ops(relay.Prelude(), "float32", (2, 3))
