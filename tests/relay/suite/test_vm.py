"""Programs of the virtual machine: closures, branches, loops, lists; calls and saved programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.suite.expressions import Case, Program, case, flat, parameters, reals
from tvm_disc import relay
from tvm_disc.errors import BadInput, Unsupported

# -- functions of a module, all called by its main ------------------------------------------------

MODULE = """#[version = "0.0.5"]
type Shape { Disc(float32), Box(float32, float32), Empty, }
type Seq[T] { Link(T, Seq[T]), End, }
def @twice[T](%f: fn (T) -> T, %x: T) -> T { %f(%f(%x)) }
def @adder(%n: int32) -> fn (int32) -> int32 { fn (%m: int32) -> int32 { add(%m, %n) } }
def @total(%n: int32) -> int32 {
  if (equal(%n, 0)) { 0 } else { add(%n, @total(subtract(%n, 1))) }
}
def @run(%n: int32, %acc: int32) -> int32 {
  if (equal(%n, 0)) { %acc } else { @run(subtract(%n, 1), add(%acc, %n)) }
}
def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @area(%s: Shape) -> float32 {
  match (%s) {
    Disc(%r) => { multiply(%r, %r) }, Box(%a, %b) => { multiply(%a, %b) }, Empty => { 0f },
  }
}
def @down(%n: int32) -> Seq[int32] {
  if (equal(%n, 0)) { End } else { Link(%n, @down(subtract(%n, 1))) }
}
def @add_up(%xs: Seq[int32]) -> int32 {
  match (%xs) { Link(%x, %rest) => { add(%x, @add_up(%rest)) }, End => { 0 } }
}
def @each[A, B](%f: fn (A) -> B, %xs: Seq[A]) -> Seq[B] {
  match (%xs) { Link(%x, %rest) => { Link(%f(%x), @each(%f, %rest)) }, End => { End } }
}
def @first(%xs: Seq[int32]) -> int32 { match? (%xs) { Link(%x, _) => { %x } } }
def @pair(%x: int32) -> (int32, (int32, bool)) { (%x, (negative(%x), greater(%x, 2))) }
def @unused(%x: int32) -> int32 { @unused(%x) }
def @main(%n: int32, %b: bool, %x: Tensor[(?, 3), float32]) {
  let %five = 5;
  let %same = %n;
  let %chain = add(%same, %five);
  let %f = @adder(%n);
  let %g = fn (%a: int32) -> int32 { %f(%f(%a)) };
  let %c = if (%b) { @adder(100) } else { @adder(200) };
  let %r = ref(%n);
  let %_ = ref_write(%r, multiply(ref_read(%r), 10));
  let %p = @pair(%n);
  let %loop: fn (int32, Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] =
    fn (%k: int32, %t: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
      if (less(%k, %n)) { %loop(add(%k, 1), concatenate((%t, %x))) } else { %t }
    };
  (%chain, %f(1), %g(1), %c(%n), ref_read(%r), %p.1.0, %p.1.1, @twice(@adder(3), %n),
   @total(%n), @run(%n, 0), @even(%n), @area(Disc(3f)), @area(Box(2f, 4f)), @area(Empty),
   @add_up(@down(%n)), @add_up(@each(fn (%a: int32) -> int32 { multiply(%a, %a) }, @down(%n))),
   @first(@down(%n)), %loop(0, %x), (fn (%t: int32) -> int32 { add(%t, %n) })(4),
   if (%b) { if (greater(%n, 2)) { 1 } else { 2 } } else { 3 }, %x, (%n, ()), sum(%x, axis=[0]))
}
"""

CALLS = {
    "a let chain": lambda n, b, x: n + 5,
    "a closure": lambda n, b, x: 1 + n,
    "a closure of a closure": lambda n, b, x: 1 + 2 * n,
    "a closure that a branch gives": lambda n, b, x: n + (100 if b else 200),
    "a reference": lambda n, b, x: 10 * n,
    "a tuple in a tuple": lambda n, b, x: -n,
    "its last field": lambda n, b, x: n > 2,
    "a function of a function": lambda n, b, x: n + 6,
    "recursion": lambda n, b, x: n * (n + 1) // 2,
    "recursion in the tail": lambda n, b, x: n * (n + 1) // 2,
    "functions that call each other": lambda n, b, x: n % 2 == 0,
    "the first constructor": lambda n, b, x: np.float32(9),
    "the second constructor": lambda n, b, x: np.float32(8),
    "the third constructor": lambda n, b, x: np.float32(0),
    "a list": lambda n, b, x: n * (n + 1) // 2,
    "a list of squares": lambda n, b, x: n * (n + 1) * (2 * n + 1) // 6,
    "the first of a list": lambda n, b, x: n,
    "a loop that grows": lambda n, b, x: np.concatenate([x] * (n + 1)),
    "a function on the spot": lambda n, b, x: 4 + n,
    "branches in branches": lambda n, b, x: (1 if n > 2 else 2) if b else 3,
    "an input": lambda n, b, x: x,
    "a tuple of nothing": lambda n, b, x: n,
    "a sum": lambda n, b, x: x.sum(0),
}


@cache
def executable() -> Any:
    return relay.vm.compile(relay.parse(MODULE), target="llvm")


@cache
def results(n: int, b: bool, rows: int) -> Any:
    machine = relay.vm.VirtualMachine(executable(), tvm.cpu())
    return machine.invoke("main", np.int32(n), np.bool_(b), reals(rows, 3))


@pytest.mark.parametrize(("n", "b", "rows"), [(1, True, 2), (4, False, 1), (3, True, 0)])
@pytest.mark.parametrize("name", CALLS)
def test_results_of_functions(name: str, n: int, b: bool, rows: int) -> None:
    found = flat(results(n, b, rows)[list(CALLS).index(name)])[0]
    want = np.asarray(CALLS[name](n, b, reals(rows, 3)))
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


# -- expressions ----------------------------------------------------------------------------------


def expressions() -> dict[str, Case]:
    x = reals(2, 6)
    one, two = relay.Var("a"), relay.Var("b")
    table = relay.const(np.arange(12, dtype="float32").reshape(2, 6))

    def views(v: Any) -> Any:
        wide = relay.reshape(relay.exp(v), (3, 4))
        return relay.Tuple([wide, relay.reshape(wide, (-1,)), relay.reshape(wide, (12, 1))])

    def chained(v: Any) -> Any:
        for _ in range(12):
            v = relay.nn.relu(v) + relay.const(0.5)
        return v

    twelve = x
    for _ in range(12):
        twelve = np.maximum(twelve, 0) + np.float32(0.5)
    return {
        "identity": case(lambda v: v, x, x),
        "a constant alone": case(lambda: table, table.data.numpy()),
        "a constant twice": case(lambda: relay.Tuple([table, table]), [table.data.numpy()] * 2),
        "a scalar constant": case(lambda: relay.const(2.5), np.float32(2.5)),
        "reshapes": case(views, [np.exp(x).reshape(s) for s in ((3, 4), (12,), (12, 1))], x),
        "a reshape of an input": case(lambda v: relay.reshape(v, (4, 3)), x.reshape(4, 3), x),
        "a reshape and the input": case(
            lambda v: relay.Tuple([relay.reshape(v, (12,)), v]), [x.reshape(12), x], x
        ),
        "twelve steps": case(chained, twelve, x),
        "split": case(lambda v: relay.split(v, 3, 1)[1], x[:, 2:4], x),
        "split and joined": case(
            lambda v: relay.concatenate(relay.split(v, 3, 1).astuple(), 0),
            np.concatenate(np.split(x, 3, 1)),
            x,
        ),
        "an item of a tuple": case(
            lambda v: relay.TupleGetItem(relay.Tuple([v, v + v]), 1), x + x, x
        ),
        "tuples in tuples": case(
            lambda v: relay.Tuple([relay.Tuple([v]), relay.Tuple([relay.Tuple([v + v])])]),
            [x, x * 2],
            x,
        ),
        "lets": case(
            lambda v: relay.Let(one, v + v, relay.Let(two, one * one, two - one)),
            (x * 2) ** 2 - x * 2,
            x,
        ),
        "a scalar and a tensor": case(relay.add, np.add, np.float32(2), x),
        "scalars": case(relay.multiply, np.multiply, np.float32(2), np.float32(3)),
        "compared": case(lambda a, b: relay.If(relay.min(relay.equal(a, b)), a, a - b), x, x, x),
        "compared and unlike": case(
            lambda a, b: relay.If(relay.min(relay.equal(a, b)), a, a - b), -x, x, x * 2
        ),
        "integers": case(
            lambda a: (a + relay.const(3, "int64")) * a, np.array([4, 10]), np.array([1, 2])
        ),
        "bools": case(relay.logical_and, np.logical_and, x > 0, x < 1),
        "dropout": case(lambda v: relay.nn.dropout(v), x, x),
        "two products": case(
            lambda v, w: relay.nn.dense(
                relay.nn.dense(v, w), relay.const(np.eye(3, dtype="float32"))
            ),
            lambda v, w: v @ w.T,
            x,
            reals(3, 6),
            tolerance=1e-4,
        ),
    }


PROGRAMS = {"vm": Program(expressions(), "vm"), "debug": Program(expressions(), "debug")}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)


# -- calls ----------------------------------------------------------------------------------------

W = reals(2, 3)


@cache
def product() -> Any:
    """``(x @ w, (y, x + y))`` with a constant ``w``."""
    x, y = (relay.var(n, shape=(relay.Any(), 3)) for n in "xy")
    w = relay.var("w", shape=(2, 3))
    body = relay.Tuple([relay.nn.dense(x, w), relay.Tuple([y, x + y])])
    mod = relay.IRModule.from_expr(relay.Function([x, y, w], body))
    return relay.vm.compile(mod, target="llvm", params={"w": W})


def positions(m: Any, x: Any, y: Any) -> Any:
    return m.invoke("main", x, y)


def names(m: Any, x: Any, y: Any) -> Any:
    return m.invoke("main", y=y, x=x)


def both(m: Any, x: Any, y: Any) -> Any:
    return m.invoke("main", x, y=y)


def run(m: Any, x: Any, y: Any) -> Any:
    return m.run(x, y)


def set_before(m: Any, x: Any, y: Any) -> Any:
    m.set_input("main", x, y)
    return m.run()


def set_by_name(m: Any, x: Any, y: Any) -> Any:
    m.set_input("main", y=y, x=x)
    return m.invoke("main")


def tensors(m: Any, x: Any, y: Any) -> Any:
    return m.invoke("main", tvm.runtime.tensor(x), tvm.runtime.tensor(y))


def stateful(m: Any, x: Any, y: Any) -> Any:
    m.invoke_stateful("main", x, y)
    return m.get_outputs()


def loaded(m: Any, x: Any, y: Any) -> Any:
    code, lib = product().save()
    assert isinstance(code, bytearray)
    again = relay.vm.Executable.load_exec(code, lib)
    return relay.vm.VirtualMachine(again, tvm.cpu()).invoke("main", x, y)


def pooled(m: Any, x: Any, y: Any) -> Any:
    return relay.vm.VirtualMachine(product(), tvm.cpu(), "pooled").run(x, y)


WAYS: list[Callable[..., Any]] = [
    positions,
    names,
    both,
    run,
    set_before,
    set_by_name,
    tensors,
    stateful,
    loaded,
    pooled,
]


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_ways_to_call(way: Callable[..., Any], rows: int) -> None:
    x, y = reals(rows, 3), reals(rows, 3, seed=7)
    found = flat(way(relay.vm.VirtualMachine(product(), tvm.cpu()), x, y))
    for got, want in zip(found, (x @ W.T, y, x + y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "too few": (lambda m: m.invoke("main", W), Exception, "expected 2 inputs"),
    "too many": (lambda m: m.invoke("main", W, W, W), Exception, "found 3"),
    "no such function": (lambda m: m.invoke("other", W), BadInput, "other"),
    "no such input": (lambda m: m.invoke("main", W, z=W), Exception, "unknown input z"),
    "unlike dims": (lambda m: m.invoke("main", W[:, :2], W), Exception, "expected 3"),
    "unlike rows": (
        lambda m: m.invoke("main", W, reals(3, 3)),
        Exception,
        "2|3",
    ),
    "unlike types": (lambda m: m.invoke("main", W.astype("int32"), W), Exception, "float32"),
    "two targets": (
        lambda m: relay.vm.compile(relay.parse(MODULE), target={"cpu": "llvm", "cuda": "cuda"}),
        Unsupported,
        "expected one device",
    ),
    "another device": (
        lambda m: relay.vm.VirtualMachine(product(), tvm.cuda()),
        Unsupported,
        "expected a CPU, found cuda:0",
    ),
    "constants apart": (
        lambda m: product().move_late_bound_consts("x", 4),
        Unsupported,
        "move_late_bound_consts",
    ),
    "bytecode": (lambda m: product().bytecode, Unsupported, "bytecode"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call(relay.vm.VirtualMachine(product(), tvm.cpu()))
