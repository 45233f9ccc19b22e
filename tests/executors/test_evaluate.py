"""``relay.create_executor``: what it runs, what it gives, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.executors.programs import W, dense, numbers, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadNode, BadOption, Unsupported


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_every_kind_runs_any_shape(kind: str) -> None:
    run = relay.create_executor(kind, dense(), tvm.cpu(), "llvm", {"w": W}).evaluate()
    for n in (1, 3, 8, 0, 17):
        x = rows(n)
        product, (same,) = run(x)
        np.testing.assert_allclose(product.numpy(), x @ W.T, rtol=1e-5)
        np.testing.assert_array_equal(same.numpy(), x)
    given = run(x=tvm.runtime.tensor(rows(2)))
    assert len(given) == 2 and given[0].shape == (2, 4)
    assert isinstance(given, list) == (kind in ("graph", "aot"))


def test_a_tuple_has_the_form_of_an_adt() -> None:
    result = relay.create_executor("vm", dense()).evaluate()(rows(2), W)
    assert result.tag == 0 and len(result) == len(result.fields) == 2
    assert result[1][0].numpy().shape == (2, 3)


def test_an_expression_gives_its_value() -> None:
    executor = relay.create_executor()
    assert executor.evaluate(relay.const(2) + relay.const(3)).numpy() == 5
    x = relay.var("x", shape=(2, 3))
    bound = executor.evaluate(relay.exp(x), binds={x: relay.const(rows(2))})
    np.testing.assert_allclose(bound.numpy(), np.exp(rows(2)), rtol=1e-6)
    halves = relay.split(relay.const(np.arange(4.0)), 2)
    assert [t.numpy().tolist() for t in executor.evaluate(halves.astuple())] == [[0, 1], [2, 3]]


def test_values_of_data_types() -> None:
    mod = numbers()
    _, zero, after = mod.get_type("Nat")
    executor = relay.create_executor("debug", mod)
    two = executor.evaluate(after(after(zero())))
    assert two.constructor is after and two.tag == after.tag == 1
    assert two.fields[0].fields[0].constructor.name_hint == "Zero"
    assert isinstance(two, relay.backend.interpreter.ConstructorValue)
    assert executor.evaluate()(two).constructor is zero
    four = executor.evaluate(mod.get_global_var("twice"))(two)
    assert four == executor.evaluate(after(after(after(after(zero())))))
    made = relay.backend.interpreter.ConstructorValue(zero.tag, [], zero)
    assert executor.evaluate(mod["twice"])(made) == two


def test_a_long_list_comes_back() -> None:
    mod = relay.parse(
        '#[version = "0.0.5"]\ntype L { C(int32, L), N, }\n'
        "def @main(%n: int32) -> L "
        "{ if (equal(%n, 0)) { N } else { C(%n, @main(subtract(%n, 1))) } }"
    )
    value, count = relay.create_executor("vm", mod).evaluate()(5000), 0
    while value.fields:
        count, value = count + 1, value[1]
    assert count == 5000


def test_functions_by_name_and_by_themselves() -> None:
    mod = numbers()
    executor = relay.create_executor("vm", mod)
    x = np.ones(3, "float32")
    for entry in (mod.get_global_var("half"), mod["half"], relay.GlobalVar("half")):
        assert executor.evaluate(entry)(x).numpy().tolist() == [0.5] * 3
    y = relay.var("y", shape=(2,))
    called = relay.Function([y], mod.get_global_var("half")(y))
    assert executor.evaluate(called)(np.ones(2, "float32")).numpy().tolist() == [0.5] * 2


def test_params_that_are_no_inputs_are_left_out() -> None:
    given = {"w": tvm.runtime.tensor(W), "other": W}
    run = relay.create_executor("graph", dense(), params=given).evaluate()
    np.testing.assert_allclose(run(rows(1))[0].numpy(), rows(1) @ W.T, rtol=1e-5)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "kind": (lambda: relay.create_executor("jit"), BadOption, "debug, graph, vm, aot, found 'jit'"),
    "device": (
        lambda: relay.create_executor("vm", dense(), tvm.cuda()),
        Unsupported,
        "expected a CPU, found cuda:0; Relay's executors run programs on the CPU only",
    ),
    "no device": (
        lambda: relay.create_executor("vm", dense(), "cpu"),
        BadInput,
        "expected a device such as tvm.cpu",
    ),
    "target": (
        lambda: relay.create_executor("vm", dense(), target="opencl").evaluate(),
        Unsupported,
        "expected an llvm target",
    ),
    "TVM's module": (
        lambda: relay.create_executor("vm", tvm.IRModule()),
        BadNode,
        "use relay.IRModule",
    ),
    "nothing to run": (
        lambda: relay.create_executor().evaluate(),
        BadInput,
        "found no module; pass mod= to create_executor",
    ),
    "free variables": (
        lambda: relay.create_executor().evaluate(relay.exp(relay.var("x", shape=(2,)))),
        BadInput,
        "free variables, %x; pass binds=",
    ),
    "binds of main": (
        lambda: relay.create_executor("vm", dense()).evaluate(binds={relay.var("x"): W}),
        BadInput,
        "binds= requires an expression",
    ),
    "no such function": (
        lambda: relay.create_executor("vm", dense()).evaluate(relay.GlobalVar("f")),
        BadInput,
        "no function f; its functions: @main",
    ),
    "main is called": (
        lambda: relay.create_executor("vm", numbers()).evaluate(
            numbers().get_global_var("main")(numbers().get_constructor("Zero")())
        ),
        Unsupported,
        "@main, which is called by a function",
    ),
    "params": (
        lambda: relay.create_executor("vm", dense(), params=[W]).evaluate(),
        BadInput,
        "params: expected a mapping from names to arrays, found list",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, error, message = REFUSED[case]
    with pytest.raises(error) as found:
        make()
    assert message in str(found.value)


def test_calls_are_refused_by_name() -> None:
    run = relay.create_executor("vm", dense(), params={"w": W}).evaluate()
    for args, kwargs, message in [
        ((), {}, "expected 1 input"),
        ((rows(1), rows(1)), {}, "found 2"),
        ((rows(1),), {"x": rows(1)}, "repeated input x"),
        ((), {"y": rows(1)}, "unknown input y"),
        ((np.ones((1, 4), "float32"),), {}, "input 'x' axis 1: expected 3"),
    ]:
        with pytest.raises(Exception, match=message):
            run(*args, **kwargs)
