"""Data types: natural numbers, the prelude's lists, options and trees, and matches of one's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tvm_disc.relay.testing import count, make_nat_expr, make_nat_value

from tvm_disc import relay
from tvm_disc.relay import transform

INT, BOOL = relay.scalar_type("int32"), relay.scalar_type("bool")


@cache
def prelude() -> relay.Prelude:
    found = relay.Prelude(relay.IRModule())
    found.mod.import_from_std("nat.rly")
    return found


P = prelude()
NAT, ZERO, AFTER = P.mod.get_type("nat")
LIST, CONS, NIL = P.mod.get_type("List")
OPTION, SOME, NONE = P.mod.get_type("Option")
TREE, ROSE = P.mod.get_type("Tree")
DOUBLE, PLUS = P.mod.get_global_var("nat_double"), P.mod.get_global_var("nat_add")


def fn(body: Callable[..., Any], *kinds: Any, gives: Any = None) -> relay.Function:
    """A function of so many parameters; a kind may be None, to be inferred."""
    params = [relay.Var(f"p{k}", kind) for k, kind in enumerate(kinds)]
    return relay.Function(params, body(*params), gives)


def nats(*numbers: int) -> relay.Expr:
    return listed(*[make_nat_expr(P, n) for n in numbers])


def listed(*items: Any) -> relay.Expr:
    found = NIL()
    for item in reversed(items):
        found = CONS(item if isinstance(item, relay.Expr) else relay.const(item), found)
    return found


def tree(value: int, *branches: Any) -> relay.Expr:
    return ROSE(make_nat_expr(P, value), listed(*branches))


def match(value: Any, *clauses: tuple[Any, Any], complete: bool = True) -> relay.Match:
    return relay.Match(value, [relay.Clause(p, e) for p, e in clauses], complete)


def made_of(constructor: Any, *parts: Any) -> relay.PatternConstructor:
    patterns = [relay.PatternVar(p) if isinstance(p, relay.Var) else p for p in parts]
    return relay.PatternConstructor(constructor, patterns)


ANYTHING = relay.PatternWildcard()


def plain(value: Any) -> Any:
    """A result as Python's numbers, lists and tuples; a tree is (element, [branches])."""
    if hasattr(value, "numpy"):
        return value.numpy().tolist()
    if not isinstance(value, relay.ConstructorValue):
        return tuple(plain(v) for v in value)
    if value.constructor in (ZERO, AFTER):
        return count(P, value)
    if value.constructor in (CONS, NIL):
        found = []
        while value.tag == CONS.tag:
            found.append(plain(value.fields[0]))
            value = value.fields[1]
        return found
    fields = tuple(plain(f) for f in value.fields)
    return fields if value.constructor == ROSE else (value.constructor.name_hint, *fields)


def results() -> dict[str, tuple[Any, Any]]:
    """Expressions and their values."""
    one, two = relay.const(1), relay.const(2)
    numbers = listed(3, 1, 4, 1, 5)
    lists = [
        P.concat(listed(1), listed()),
        P.concat(listed(), listed(2)),
        P.concat(numbers, numbers),
    ]
    below = fn(
        lambda n: relay.If(relay.less(n, one), NONE(), SOME(relay.Tuple([n - one, n * n]))), INT
    )
    x, y, z = relay.Var("x"), relay.Var("y"), relay.Var("z")
    subtract = fn(lambda a, b: a - b, INT, INT)
    pair = fn(lambda a, b: relay.Tuple([a + b, a - b]), INT, INT)
    grove = tree(2, tree(3), tree(0, tree(5)))
    deep = CONS(NIL(), listed(listed(7), listed(8, 9)))
    return {
        "zero": (ZERO(), 0),
        "numbers": (make_nat_expr(P, 7), 7),
        "nat_double": (DOUBLE(make_nat_expr(P, 4)), 8),
        "nat_add": (PLUS(make_nat_expr(P, 4), AFTER(ZERO())), 5),
        "nat_iterate": (
            P.mod.get_global_var("nat_iterate")(DOUBLE, make_nat_expr(P, 3))(make_nat_expr(P, 2)),
            16,
        ),
        "no list": (P.length(P.tl(nats(1))), 0),
        "hd": (P.hd(numbers), 3),
        "hd of numbers": (P.hd(nats(6, 1)), 6),
        "tl": (P.tl(numbers), [1, 4, 1, 5]),
        "tl of one": (P.tl(listed(1)), []),
        "nth": (P.nth(numbers, two), 4),
        "nth first": (P.nth(nats(2, 9), relay.const(0)), 2),
        "update": (P.update(numbers, two, relay.const(9)), [3, 1, 9, 1, 5]),
        "update again": (
            P.update(
                P.update(nats(0, 0), relay.const(0), make_nat_expr(P, 3)), one, make_nat_expr(P, 2)
            ),
            [3, 2],
        ),
        "length": (P.length(numbers), 5),
        "map": (P.map(fn(lambda a: a * a, INT), numbers), [9, 1, 16, 1, 25]),
        "map of a name": (P.map(DOUBLE, nats(1, 2)), [2, 4]),
        "map to another type": (
            P.map(fn(lambda a: relay.Tuple([a, a > two]), INT), listed(1, 3)),
            [(1, False), (3, True)],
        ),
        "foldl": (P.foldl(subtract, relay.const(20), numbers), 6),
        "foldr": (P.foldr(subtract, relay.const(20), numbers), 3 - (1 - (4 - (1 - (5 - 20))))),
        "foldr1": (P.foldr1(subtract, numbers), 3 - (1 - (4 - (1 - 5)))),
        "foldl reverses": (
            P.foldl(relay.Function([x, y], CONS(y, x)), NIL(), numbers),
            [5, 1, 4, 1, 3],
        ),
        "foldr copies": (
            P.foldr(relay.Function([x, y], CONS(x, y)), NIL(), numbers),
            [3, 1, 4, 1, 5],
        ),
        "sum": (P.sum(numbers), 14),
        "sum of none": (P.sum(listed()), 0),
        "concat of one": (lists[0], [1]),
        "concat to none": (lists[1], [2]),
        "concat": (lists[2], [3, 1, 4, 1, 5] * 2),
        "filter": (P.filter(fn(lambda a: relay.greater(a, one), INT), numbers), [3, 4, 5]),
        "filter by a match": (
            P.filter(
                fn(
                    lambda a: match(
                        a,
                        (made_of(AFTER, ANYTHING), relay.const(True)),
                        (made_of(ZERO), relay.const(False)),
                    ),
                    NAT(),
                ),
                nats(0, 1, 0, 2),
            ),
            [1, 2],
        ),
        "zip": (P.zip(numbers, nats(1, 2)), [(3, 1), (1, 2)]),
        "zip of zips": (
            P.zip(P.zip(listed(1, 2), listed(3, 4)), listed(5, 6)),
            [((1, 3), 5), ((2, 4), 6)],
        ),
        "zip of none": (P.zip(listed(1), P.tl(listed(2))), []),
        "rev": (P.rev(numbers), [5, 1, 4, 1, 3]),
        "unfoldr": (P.unfoldr(below, relay.const(4)), [16, 9, 4, 1]),
        "unfoldl": (P.unfoldl(below, relay.const(4)), [1, 4, 9, 16]),
        "map_accuml": (P.map_accuml(pair, relay.const(0), listed(1, 2, 3)), (6, [0, -1, -1])),
        "map_accumr": (P.map_accumr(pair, relay.const(0), listed(1, 2, 3)), (6, [4, 1, -3])),
        "tmap": (P.tmap(DOUBLE, grove), (4, [(6, []), (0, [(10, [])])])),
        "size": (P.size(grove), 4),
        "size of a leaf": (P.size(tree(1)), 1),
        "compose": (P.compose(DOUBLE, relay.Function([x], AFTER(x)))(make_nat_expr(P, 2)), 6),
        "compose of itself": (P.compose(P.compose(DOUBLE, DOUBLE), DOUBLE)(AFTER(ZERO())), 8),
        "flip": (P.flip(subtract)(one, relay.const(5)), 4),
        "id": (P.id(relay.Tuple([one, two])), (1, 2)),
        "iterate": (P.iterate(DOUBLE, two)(make_nat_expr(P, 3)), 12),
        "iterate never": (P.iterate(DOUBLE, relay.const(0))(AFTER(ZERO())), 1),
        "options": (
            relay.Tuple([SOME(one), SOME(SOME(two))]),
            (("Some", 1), ("Some", ("Some", 2))),
        ),
        "match of an option": (
            match(SOME(nats(1, 2)), (made_of(SOME, x), x), (made_of(NONE), nats())),
            [1, 2],
        ),
        "match in order": (match(nats(4), (ANYTHING, ZERO()), (made_of(CONS, y, ANYTHING), y)), 0),
        "match of a variable": (match(make_nat_expr(P, 3), (relay.PatternVar(z), DOUBLE(z))), 6),
        "match of a tuple": (
            match(
                relay.Tuple([one, relay.Tuple([two, numbers])]),
                (
                    relay.PatternTuple(
                        [relay.PatternVar(x), relay.PatternTuple([relay.PatternVar(y), ANYTHING])]
                    ),
                    relay.add(x, y),
                ),
            ),
            3,
        ),
        "nested matches": (
            match(
                deep,
                (
                    made_of(CONS, made_of(NIL), relay.PatternVar(x)),
                    match(x, (made_of(CONS, y, ANYTHING), y), (made_of(NIL), listed(0))),
                ),
                (ANYTHING, listed(1)),
            ),
            [7],
        ),
        "nested patterns": (
            match(
                deep,
                (
                    made_of(
                        CONS,
                        ANYTHING,
                        made_of(
                            CONS, ANYTHING, made_of(CONS, made_of(CONS, x, ANYTHING), ANYTHING)
                        ),
                    ),
                    x,
                ),
                (ANYTHING, one),
            ),
            8,
        ),
        "incomplete match": (match(numbers, (made_of(CONS, x, ANYTHING), x), complete=False), 3),
        "a list of functions": (
            P.hd(
                P.map(
                    fn(lambda f: relay.Call(f, [relay.const(5)]), relay.FuncType([INT], INT)),
                    listed(
                        fn(lambda a: a + one, INT, gives=INT), fn(lambda a: a * a, INT, gives=INT)
                    ),
                )
            ),
            6,
        ),
        "a list of lists": (P.map(P.sum, listed(listed(1, 2), listed(), listed(5))), [3, 0, 5]),
        "a list of floats": (
            P.foldl(
                fn(lambda a, b: a + b, relay.scalar_type("float32"), relay.scalar_type("float32")),
                relay.const(0.5),
                listed(relay.const(1.5), relay.const(2.0)),
            ),
            4.0,
        ),
    }


CASES = results()


@cache
def values() -> dict[str, Any]:
    """Every case's value, of one program."""
    together = relay.Tuple([expr for expr, _ in CASES.values()])
    found = relay.create_executor(mod=P.mod, target="llvm").evaluate(together)
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    assert plain(values()[name]) == CASES[name][1]


A, B, C = (relay.TypeVar(name) for name in "ABC")


def func(args: list[Any], gives: Any, *names: Any) -> relay.FuncType:
    return relay.FuncType(args, gives, list(names))


PAIRS = relay.TupleType([A, C])
TYPES: dict[str, relay.FuncType] = {
    "nat_double": func([NAT()], NAT()),
    "nat_add": func([NAT(), NAT()], NAT()),
    "hd": func([LIST(A)], A, A),
    "tl": func([LIST(A)], LIST(A), A),
    "nth": func([LIST(A), INT], A, A),
    "update": func([LIST(A), INT, A], LIST(A), A),
    "length": func([LIST(A)], INT, A),
    "map": func([func([A], B), LIST(A)], LIST(B), A, B),
    "foldl": func([func([A, B], A), A, LIST(B)], A, A, B),
    "foldr": func([func([A, B], B), B, LIST(A)], B, A, B),
    "foldr1": func([func([A, A], A), LIST(A)], A, A),
    "sum": func([LIST(INT)], INT),
    "concat": func([LIST(A), LIST(A)], LIST(A), A),
    "filter": func([func([A], BOOL), LIST(A)], LIST(A), A),
    "zip": func([LIST(A), LIST(B)], LIST(relay.TupleType([A, B])), A, B),
    "rev": func([LIST(A)], LIST(A), A),
    "unfoldr": func([func([A], OPTION(relay.TupleType([A, B]))), A], LIST(B), A, B),
    "unfoldl": func([func([A], OPTION(relay.TupleType([A, B]))), A], LIST(B), A, B),
    "map_accumr": func([func([A, B], PAIRS), A, LIST(B)], relay.TupleType([A, LIST(C)]), A, B, C),
    "map_accuml": func([func([A, B], PAIRS), A, LIST(B)], relay.TupleType([A, LIST(C)]), A, B, C),
    "tmap": func([func([A], B), TREE(A)], TREE(B), A, B),
    "size": func([TREE(A)], INT, A),
    "compose": func([func([B], C), func([A], B)], func([A], C), A, B, C),
    "iterate": func([func([A], A), INT], func([A], A), A),
}


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    held = P.mod[P.mod.get_global_var(name)].checked_type
    relay.assert_structural_equal(held, TYPES[name], map_free_vars=True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (ZERO(), NAT()),
        (AFTER(ZERO()), NAT()),
        (NIL(), None),
        (nats(1, 2), LIST(NAT())),
        (CONS(nats(1), NIL()), LIST(LIST(NAT()))),
        (SOME(ZERO()), OPTION(NAT())),
        (tree(1, tree(2)), TREE(NAT())),
        (PLUS(ZERO(), ZERO()), NAT()),
        (P.map(DOUBLE, nats(1)), LIST(NAT())),
        (P.zip(nats(1), listed(1)), LIST(relay.TupleType([NAT(), INT]))),
    ],
    ids=["z", "s", "Nil", "Cons", "Cons Nil", "Some", "Rose", "nat_add", "map", "zip"],
)
def test_types_of_expressions(body: relay.Expr, kind: Any) -> None:
    mod = relay.IRModule(dict(P.mod.functions), dict(P.mod.type_definitions))
    mod["value"] = relay.Function([], body)
    found = transform.InferType()(mod)["value"].body.checked_type
    assert found == kind if kind else isinstance(found, relay.TypeCall)


@pytest.mark.parametrize("number", [0, 1, 12])
def test_values_from_numbers(number: int) -> None:
    assert count(P, make_nat_value(P, number)) == number


def test_a_value_is_an_input() -> None:
    main = fn(lambda n: PLUS(n, DOUBLE(n)), NAT(), gives=NAT())
    run = relay.create_executor("vm", mod=P.mod).evaluate(main)
    for number in (0, 1, 5):
        found = run(make_nat_value(P, number))
        assert isinstance(found, relay.ConstructorValue) and count(P, found) == 3 * number


def test_a_match_that_misses_a_constructor_is_refused() -> None:
    x = relay.Var("x", OPTION(INT))
    mod = relay.IRModule(dict(P.mod.functions), dict(P.mod.type_definitions))
    mod["main"] = relay.Function([x], match(x, (made_of(NONE), relay.const(1))))
    assert relay.analysis.unmatched_cases(mod["main"].body, mod)
    with pytest.raises(Exception, match="Some"):
        transform.InferType()(mod)
