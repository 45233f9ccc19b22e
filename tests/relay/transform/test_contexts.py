"""Contexts, instruments and spans around Relay's passes, and modules that do not exist here."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tvm
from tvm_disc.relay.prelude import Prelude
from tvm_disc.relay.testing import run_infer_type

from tests.relay.transform.helpers import parsed
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadNode, TypeMismatch, Unsupported

X = relay.var("x", shape=(2, 3))


def module() -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function([X], relay.add(X, X)))


def test_an_absent_list_is_empty() -> None:
    assert list(tvm.transform.PassInfo(1, "fold").required) == []
    assert list(tvm.transform.PassInfo(opt_level=1, name="f", required=["g"]).required) == ["g"]
    context = tvm.transform.PassContext()
    timing = tvm.ir.instrument.PassTimingInstrument()
    with context:
        context.override_instruments([timing])
        relay.transform.InferType()(module())
        assert "InferType" in timing.render()
        context.override_instruments(None)
        assert not context.instruments


def test_a_build_enters_a_context_once() -> None:
    events = []

    @tvm.ir.instrument.pass_instrument
    class Recorder:
        def enter_pass_ctx(self) -> None:
            events.append("enter")

        def exit_pass_ctx(self) -> None:
            events.append("exit")

        def run_before_pass(self, mod: Any, info: Any) -> None:
            events.append(str(info.name))

    with tvm.transform.PassContext(instruments=[Recorder()]):
        relay.build(module(), "llvm")
    assert "FuseDISC" in events
    assert (events[0], events[-1]) == ("enter", "exit")
    assert events.count("enter") == events.count("exit") == 1


def test_every_parsed_expression_has_a_span() -> None:
    text = "def @main(%x: int32) { let %y = (%x, 1); if (True) { %y.0 } else { add(%x, 2) } }"
    mod = parsed(text)
    assert relay.SpanCheck()(mod) is not None


@pytest.mark.parametrize("make", [lambda: relay.exp(X), lambda: relay.Tuple([X])])
def test_an_expression_without_a_span_is_refused(make: Any) -> None:
    mod = relay.IRModule.from_expr(relay.Function([X], make()))
    with pytest.raises(BadNode, match=r"SpanCheck: @main: expected a span of .*x"):
        relay.SpanCheck()(mod)


@pytest.mark.parametrize("name", ["subtract", "divide", "power", "mod", "floor_divide"])
def test_arithmetic_on_bools_has_a_type_and_no_program(name: str) -> None:
    b = relay.var("b", shape=(4,), dtype="bool")
    call = getattr(relay, name)(b, b)
    assert run_infer_type(call).checked_type == relay.TensorType((4,), "bool")
    with pytest.raises(TypeMismatch, match="expected numbers, found bool; cast it first"):
        relay.build(relay.IRModule.from_expr(relay.Function([b], call)))


@pytest.mark.parametrize("name", ["rev", "id", "length"])
def test_functions_of_a_list_without_elements(name: str) -> None:
    prelude = Prelude()
    _, _, nil = prelude.mod.get_type("List")
    call = getattr(prelude, name)(nil())
    found = relay.create_executor("vm", mod=prelude.mod).evaluate(call)
    assert found.numpy() == 0 if name == "length" else found.constructor.name_hint == "Nil"


def test_a_variable_is_bound_to_an_array() -> None:
    v = relay.var("v")
    data = np.arange(6.0).reshape(2, 3)
    found = relay.create_executor().evaluate(relay.add(v, v), binds={v: data})
    np.testing.assert_array_equal(found.numpy(), data + data)
    with pytest.raises(
        BadInput, match=r"binds: 'v': expected an expression or an array of bools, .* found 'text'"
    ):
        relay.create_executor().evaluate(v, binds={v: "text"})


@pytest.mark.parametrize(
    ("place", "member", "message"),
    [
        ("relay.op.contrib.register", "get_pattern_table", "external code generator"),
        ("relay.backend.utils", "mangle_module_name", "names functions of generated C code"),
        ("relay.backend.name_transforms", "prefix_name", "names functions of generated C code"),
        ("contrib.pipeline_executor", "PipelineModule", "a program is one native function"),
        ("contrib.pipeline_executor_build", "build", "run the stages of a pipeline in several"),
    ],
)
def test_modules_that_do_not_exist_are_imported_and_refused(
    place: str, member: str, message: str
) -> None:
    package, _, name = f"tvm_disc.{place}".rpartition(".")
    if package == "tvm_disc.contrib":
        found = getattr(importlib.import_module(package), name)
    else:
        found = importlib.import_module(f"{package}.{name}")
    with pytest.raises(Unsupported, match=rf"{place}\.{member}: .*{message}"):
        getattr(found, member)("x")
