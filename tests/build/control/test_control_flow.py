"""Functions, data types, closures and references: compiled programs mean what Relay means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests import recurrent
from tests.build.interpreter import NoClause, interpret
from tvm_disc import relay
from tvm_disc.errors import BadInput, GuardFailed, TypeMismatch, Unsupported
from tvm_disc.options import Options

TYPES = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
type Tree[A] { Rose(A, List[Tree[A]]), }
type Option[A] { Some(A), None, }
"""
MAP = """
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %r) => { Cons(%f(%x), @map(%f, %r)) }, Nil => { Nil } }
}
def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %r) => { @foldl(%f, %f(%acc, %x), %r) }, Nil => { %acc } }
}
def @foldr[A, B](%f: fn (A, B) -> B, %acc: B, %xs: List[A]) -> B {
  match (%xs) { Cons(%x, %r) => { %f(%x, @foldr(%f, %acc, %r)) }, Nil => { %acc } }
}
"""


def int_(n: int) -> np.ndarray:
    return np.array(n, "int32")


def floats(*items: float) -> Any:
    return relay.from_list([np.array(x, "float32") for x in items])


def vector(n: int) -> np.ndarray:
    return np.arange(n, dtype="float32")


def build(text: str) -> Any:
    """With a check after every call that no block is left."""
    return tvm_disc.build(TYPES + text, options=Options(verify=True))


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return all(same(a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(wanted, relay.ConstructorValue):
        return bool(found == wanted)
    return found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-5)


def check(text: str, *cases: tuple[Any, ...]) -> Any:
    """Compile once, run every case against the interpreter."""
    exe, mod = build(text), relay.parse(TYPES + text)
    for case in cases:
        found, wanted = exe(*case), interpret(mod, *case)
        assert same(found, wanted), (found, wanted)
    return exe


RECURSION = {
    "fib": (
        """def @fib(%n: int32) -> int32 {
          if (less(%n, 2)) { %n } else { add(@fib(subtract(%n, 1)), @fib(subtract(%n, 2))) } }
        def @main(%n: int32) { @fib(%n) }""",
        [(int_(n),) for n in (0, 1, 2, 7, 13)],
    ),
    "mutual": (
        """def @even(%n: int32) { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
        def @odd(%n: int32) { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
        def @main(%n: int32) { @even(%n) }""",
        [(int_(n),) for n in (0, 1, 2, 17, 64)],
    ),
    "several bases": (
        """def @collatz(%n: int32, %k: int32) -> int32 {
          if (equal(%n, 1)) { %k } else { if (greater(%k, 50)) { -1 } else {
            if (equal(mod(%n, 2), 0)) { @collatz(divide(%n, 2), add(%k, 1)) }
            else { @collatz(add(multiply(%n, 3), 1), add(%k, 1)) } } } }
        def @main(%n: int32) { @collatz(%n, 0) }""",
        [(int_(n),) for n in (1, 2, 7, 27, 40)],
    ),
    "recurs when false": (
        """def @up(%n: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
          if (greater_equal(%n, 3)) { %x } else { @up(add(%n, 1), add(%x, %x)) } }
        def @main(%n: int32, %x: Tensor[(?), float32]) { @up(%n, %x) }""",
        [(int_(n), vector(k)) for n, k in ((0, 1), (3, 7), (2, 64), (-1, 0), (9, 3))],
    ),
    "growing, two ways": (
        """def @grow(%n: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
          if (equal(%n, 0)) { %x } else {
            let %y = concatenate((%x, %x));
            if (equal(mod(%n, 2), 0)) { @grow(subtract(%n, 2), %y) }
            else { @grow(subtract(%n, 1), %y) } } }
        def @main(%n: int32, %x: Tensor[(?), float32]) { @grow(%n, %x) }""",
        [(int_(n), vector(k)) for n, k in ((0, 1), (1, 3), (4, 2), (5, 0), (7, 16))],
    ),
    "captures": (
        """def @main(%n: int32, %a: Tensor[(?), float32]) {
          let %walk = fn (%i: int32, %x: Tensor[(?), float32]) {
            if (greater_equal(%i, %n)) { multiply(%x, %a) }
            else { %walk(add(%i, 1), add(%x, %a)) } };
          %walk(0, %a) }""",
        [(int_(n), vector(k)) for n, k in ((0, 1), (3, 5), (2, 17), (5, 0), (1, 64))],
    ),
}


@pytest.mark.parametrize("name", RECURSION)
def test_recursion(name: str) -> None:
    text, cases = RECURSION[name]
    check(text, *cases)


def test_tail_calls_need_no_stack() -> None:
    text = RECURSION["mutual"][0]
    assert not build(text)(int_(1_000_001))
    walk = """def @last(%l: List[float32], %x: float32) -> float32 {
      match (%l) { Cons(%h, %t) => { @last(%t, %h) }, Nil => { %x } } }
    def @main(%l: List[float32]) { @last(%l, 0f) }"""
    assert build(walk)(floats(*range(50_000))) == 49_999


def test_deep_recursion_is_an_error_and_leaves_nothing() -> None:
    exe = build(
        """def @down(%n: int32) -> int32 {
          if (equal(%n, 0)) { 0 } else { add(1, @down(subtract(%n, 1))) } }
        def @main(%n: int32) { @down(%n) }"""
    )
    for _ in range(3):
        with pytest.raises(GuardFailed, match="recursion needs more than 4 MiB of stack"):
            exe(int_(10_000_000))
        assert exe(int_(2000)) == 2000


HIGHER_ORDER = {
    "map and folds": (
        MAP
        + """def @main(%l: List[float32], %k: float32) {
          let %doubled = @map(fn (%x: float32) { multiply(%x, %k) }, %l);
          let %sum = @foldl(fn (%a: float32, %x: float32) { add(%a, %x) }, 0f, %doubled);
          (%sum, @foldr(Cons, %doubled, %l), @foldl(fn (%r: List[float32], %x: float32) {
            Cons(%x, %r) }, Nil, %l)) }""",
        [(floats(*range(n)), np.array(2, "float32")) for n in (0, 1, 2, 7, 33)],
    ),
    "one map, two types": (
        MAP
        + """def @main(%l: List[Tensor[(?, 2), float32]]) {
          let %rows = @map(fn (%x: Tensor[(?, 2), float32]) { sum(%x, axis=[1]) }, %l);
          @map(fn (%y: Tensor[(?), float32]) { max(%y) }, %rows) }""",
        [
            (relay.from_list([np.ones((k + 1, 2), "float32") * k for k in range(n)]),)
            for n in (0, 5)
        ],
    ),
    "composition at run time": (
        """def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
          fn (%x: A) -> C { %f(%g(%x)) } }
        def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
          if (equal(%n, 0)) { fn (%y: A) -> A { %y } }
          else { @compose(%f, @iterate(%f, subtract(%n, 1))) } }
        def @main(%n: int32, %x: float32) {
          let %k = add(%x, 1f);
          let %g = @iterate(fn (%z: float32) -> float32 { add(%z, %k) }, %n);
          %g(%x) }""",
        [(int_(n), np.array(1, "float32")) for n in (0, 1, 2, 5, 20)],
    ),
    "a list of functions": (
        """def @all(%l: List[fn (float32) -> float32], %x: float32) -> float32 {
          match (%l) { Cons(%f, %t) => { @all(%t, %f(%x)) }, Nil => { %x } } }
        def @main(%x: float32, %y: float32) {
          let %l = Cons(fn (%a: float32) -> float32 { add(%a, %y) },
            Cons(fn (%b: float32) -> float32 { multiply(%b, 3f) }, Nil));
          @all(%l, %x) }""",
        [(np.array(a, "float32"), np.array(b, "float32")) for a, b in ((0, 1), (2, 3), (-1, 5))],
    ),
    "a function by condition": (
        """def @main(%n: int32, %x: Tensor[(?), float32]) {
          let %f = if (less(%n, 0)) { fn (%a: Tensor[(?), float32]) -> Tensor[(?), float32]
            { negative(%a) } } else { fn (%b: Tensor[(?), float32]) -> Tensor[(?), float32]
            { add(%b, %x) } };
          %f(%f(%x)) }""",
        [(int_(n), vector(k)) for n, k in ((-1, 3), (1, 3), (0, 0), (-5, 17), (2, 64))],
    ),
}


@pytest.mark.parametrize("name", HIGHER_ORDER)
def test_higher_order_functions(name: str) -> None:
    text, cases = HIGHER_ORDER[name]
    check(text, *cases)


def test_functions_known_at_compile_time_are_specialised() -> None:
    exe = check(*[HIGHER_ORDER["map and folds"][0]], (floats(1, 2), np.array(2, "float32")))
    assert "tvm_disc_dispatch" not in exe.source()
    assert "tvm_disc_dispatch" in build(HIGHER_ORDER["a list of functions"][0]).source()


DATA = {
    "nested patterns": (
        """def @f(%l: List[(int32, Option[int32])]) -> int32 {
          match (%l) {
            Cons((%a, Some(%b)), %t) => { add(multiply(%a, %b), @f(%t)) },
            Cons((%a2, None), %t2) => { add(%a2, @f(%t2)) },
            Nil => { 0 } } }
        def @main(%l: List[(int32, Option[int32])]) { (@f(%l), %l) }""",
        [
            (relay.from_list([(int_(k), o) for k in range(n)]),)
            for n, o in (
                (0, None),
                (3, relay.ConstructorValue("Some", int_(4))),
                (2, relay.ConstructorValue("None")),
            )
        ],
    ),
    "first clause that fits": (
        """def @main(%l: List[int32]) {
          match (%l) { Cons(_, Cons(%b, _)) => { %b }, Cons(%a, _) => { negative(%a) }, _ => { 7 } }
        }""",
        [(relay.from_list([int_(k + 1) for k in range(n)]),) for n in range(4)],
    ),
    "size of a tree": (
        MAP
        + """def @size(%t: Tree[float32]) -> int32 {
          match (%t) { Rose(_, %s) => {
            @foldl(fn (%a: int32, %b: int32) { add(%a, %b) }, 1, @map(@size, %s)) } } }
        def @main(%t: Tree[float32]) { (@size(%t), %t) }""",
        [
            (relay.ConstructorValue("Rose", np.array(1, "float32"), relay.from_list(kids)),)
            for kids in ([], [relay.ConstructorValue("Rose", np.array(2, "float32"), floats())] * 3)
        ],
    ),
    "shapes that differ": (
        """def @main(%n: int32, %x: Tensor[(?), float32]) {
          let %l = if (less(%n, 0)) { Nil } else { Cons(%x, Cons(concatenate((%x, %x)), Nil)) };
          match (%l) { Cons(%a, Cons(%b, _)) => { (sum(%b), %l) }, _ => { (0f, %l) } } }""",
        [(int_(n), vector(k)) for n, k in ((-1, 1), (0, 3), (1, 0), (2, 17), (3, 64))],
    ),
    "references": (
        """def @add(%r: Ref[Tensor[(?), float32]], %n: int32) -> int32 {
          if (equal(%n, 0)) { 0 } else {
            ref_write(%r, concatenate((ref_read(%r), ref_read(%r))));
            @add(%r, subtract(%n, 1)) } }
        def @main(%n: int32, %x: Tensor[(?), float32]) {
          let %r = ref(%x);
          let %old = ref_read(%r);
          let %done = @add(%r, %n);
          (%old, ref_read(%r), %done) }""",
        [(int_(n), vector(k)) for n, k in ((0, 1), (1, 3), (2, 0), (3, 7), (5, 2))],
    ),
    "views and inputs in boxes": (
        """def @main(%x: Tensor[(?, 2), float32], %p: (Tensor[(?), float32], int32)) {
          let %l = Cons(reshape(%x, newshape=[-1]), Cons(%p.0, Nil));
          (%l, %p.1, %x) }""",
        [(np.ones((n, 2), "float32"), (vector(n), int_(n))) for n in (0, 1, 3, 17)],
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_data_types(name: str) -> None:
    text, cases = DATA[name]
    check(text, *cases)


def test_a_match_that_falls_through() -> None:
    text = """def @main(%l: List[float32]) { match? (%l) { Cons(%x, _) => { %x } } }"""
    exe, mod = build(text), relay.parse(TYPES + text)
    with pytest.raises(NoClause):
        interpret(mod, floats())
    with pytest.raises(GuardFailed, match="no clause of the match fits"):
        exe(floats())
    assert exe(floats(3, 4)) == 3


def test_python_forms_of_inputs_and_sharing() -> None:
    exe = build("def @main(%l: List[Option[float32]]) { (%l, %l) }")
    once = np.array(5, "float32")
    first, second = exe([("Some", once), ("None",)])
    assert first == second
    assert repr(first) == "Cons(Some(array(5., dtype=float32)), Cons(None, Nil))"
    assert [v.constructor for v in relay.to_list(first)] == ["Some", "None"]
    long = floats(*range(20_000))
    assert exe([]) == (relay.ConstructorValue("Nil"),) * 2
    assert len(relay.to_list(build("def @main(%l: List[float32]) { %l }")(long))) == 20_000


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            3,
            r"input 'l': expected a value of the data type List\[Tensor\[\(\?, 2\), float32\]\] "
            r"\(constructors: Cons, Nil\), found int",
        ),
        (relay.ConstructorValue("Leaf"), "constructors: Cons, Nil.*found constructor Leaf"),
        (
            relay.ConstructorValue("Cons", vector(2)),
            "constructor Cons of .*: expected 2 fields, found 1",
        ),
        (
            [np.ones((1, 3), "float32")],
            r"expected a tensor float32\[\?, 2\] as a field, found .*1, 3",
        ),
        ([np.ones((1, 2), "int32")], r"expected a tensor float32\[\?, 2\] as a field, found int32"),
    ],
)
def test_wrong_values_are_refused_by_name(value: Any, message: str) -> None:
    exe = build("def @main(%l: List[Tensor[(?, 2), float32]]) { %l }")
    with pytest.raises(BadInput, match=message):
        exe(value)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("def @main(%l: List[float32]) { add(%l, 1f) }", TypeMismatch, "operand 'lhs': .*List"),
        (
            "def @main(%x: float32) { Cons(%x, %x) }",
            TypeMismatch,
            "field 1 of Cons at .*: expected List",
        ),
        (
            "def @main(%x: float32) { %x(%x) }",
            TypeMismatch,
            "expected a function to call, found float32",
        ),
        ("def @main(%x: float32) { ref_read(%x) }", TypeMismatch, "expected a reference"),
        (
            "def @main(%x: float32) { match (%x) { Cons(_, _) => { 1 }, Nil => { 0 } } }",
            TypeMismatch,
            "match: Cons is a constructor of List, found float32",
        ),
        (
            "def @main(%x: float32) { fn (%y: float32) { add(%x, %y) } }",
            Unsupported,
            "a function cannot be a result",
        ),
        (
            "def @main(%r: Ref[float32]) { ref_read(%r) }",
            Unsupported,
            "input 'r': expected a tensor type",
        ),
        (
            "def @f(%n: int32) { @f(add(%n, 1)) } def @main(%n: int32) { @f(%n) }",
            Unsupported,
            "function f never returns",
        ),
        (
            "def @main(%x: float32) { let %w = fn (%f) { %f(%f) }; %w(%w) }",
            Unsupported,
            "recurses through a function value",
        ),
        (
            "def @f(%x: float32) { %x } def @main(%x: float32) { @f(%x, %x) }",
            TypeMismatch,
            "f: expected 1 argument, found 2",
        ),
        (
            """def @main(%c: bool, %l: List[float32], %m: List[int32]) {
              if (%c) { %l } else { %m } }""",
            TypeMismatch,
            "the branches of an if or match: expected",
        ),
    ],
)
def test_refusals(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(text)


def test_a_tree_lstm_means_what_it_means() -> None:
    mod, weights = recurrent.tree_lstm(12, 8)
    exe = tvm_disc.build(mod, options=Options(verify=True))
    rng = np.random.default_rng(0)
    for _ in range(100):
        tree = recurrent.random_tree(rng, int(rng.integers(1, 40)), 12)
        for found, wanted in zip(exe(tree), recurrent.tree_lstm_numpy(tree, weights), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_stacked_lstm_over_any_length() -> None:
    mod, weights = recurrent.stacked_lstm(6, 8)
    exe = tvm_disc.build(mod, options=Options(verify=True))
    rng = np.random.default_rng(0)
    for length in (0, *rng.integers(1, 70, 99)):
        xs = rng.standard_normal((int(length), 6)).astype("float32")
        for found, wanted in zip(exe(xs), recurrent.stacked_lstm_numpy(xs, weights), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_memory_does_not_grow() -> None:
    mod, _ = recurrent.tree_lstm(12, 8)
    exe = tvm_disc.build(mod, options=Options(verify=True))
    rng = np.random.default_rng(0)
    trees = [recurrent.random_tree(rng, n, 12) for n in (1, 9, 30)]
    for _ in range(20):
        exe(trees[2])
    before = exe.memory_statistics()
    for k in range(300):
        exe(trees[k % 3])
    after = exe.memory_statistics()
    assert after["kept"] == before["kept"] and after["misses"] == before["misses"]


def test_a_saved_program_takes_and_gives_data_types(tmp_path: Any) -> None:
    exe = build(DATA["first clause that fits"][0])
    exe.save(tmp_path / "match.so")
    loaded = tvm_disc.load(tmp_path / "match.so")
    assert loaded([int_(1), int_(5)]) == 5


def test_the_next_value_of_a_loop_has_the_dims_of_its_variable() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(?, ?), float32], %n: int32) {
      let %loop = fn (%i: int32, %s: Tensor[(?, 3), float32]) {
        if (less(%i, %n)) { %loop(add(%i, 1), %x) } else { %s }
      };
      %loop(0, zeros(shape=[1, 3], dtype="float32"))
    }"""
    exe = tvm_disc.build(relay.parse(text))
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(exe(x, np.int32(1)), x)
    assert exe(np.ones((2, 2), "float32"), np.int32(0)).shape == (1, 3)
    with pytest.raises(BadInput, match=r"axis 1 of .*: expected"):
        exe(np.ones((2, 2), "float32"), np.array(1, "int32"))


STAYS = """#[version = "0.0.5"]
def @later(%n: int32, %s: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
  %0 = less(%n, 1);
  if (%0) { %s } else {
    %1 = subtract(%n, 1);
    %2 = exp(%s);
    @later(%1, %2)
  }
}
def @main(%x: Tensor[(?, 4), float32], %n: int32, %y: Tensor[(?, ?), float32]) {
  %0 = negative(%x);
  %1 = CONTROL;
  %2 = sort(%y);
  %3 = cumsum(%2, axis=0);
  (%1, %3)
}
"""
BRANCH = "if (less(%n, 1)) { %0 } else { exp(%0) }"
NESTED = "if (less(%n, 1)) { @later(%n, %0) } else { exp(%0) }"


@pytest.mark.parametrize("control", ["@later(%n, %0)", BRANCH, NESTED])
@pytest.mark.parametrize("fuse", [True, False])
def test_what_control_flow_hands_on_keeps_its_memory(control: str, fuse: bool) -> None:
    """Its result is what it was given, which nothing else names any more: it still lies there."""
    source = STAYS.replace("CONTROL", control)
    exe = tvm_disc.build(source, options=tvm_disc.Options(fuse=fuse))
    for rows, others in ((0, (3, 3)), (1, (1, 1)), (7, (20, 31)), (64, (64, 64)), (5, (0, 4))):
        x = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
        y = np.ones(others, "float32")
        for n in (0, 1):
            kept, sums = exe(x, np.array(n, "int32"), y)
            np.testing.assert_allclose(kept, np.exp(-x) if n else -x, rtol=1e-6)
            np.testing.assert_allclose(sums, y.cumsum(0))
