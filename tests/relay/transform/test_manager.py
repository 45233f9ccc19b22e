"""Passes over Relay modules in TVM's pass manager."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from tests.relay.transform.helpers import parsed
from tvm_disc import relay, relay_passes
from tvm_disc.errors import BadNode, Unsupported
from tvm_disc.relay import transform

X = relay.var("x", shape=(2, 3))
PROGRAM = "def @main(%x: Tensor[(2), float32]) { add(%x, add(1f, 2f)) }"


def module() -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function([X], relay.add(X, X)))


def named(name: str, level: int = 0, required: Any = ()) -> Any:
    """A pass that wraps the result of main in an operator."""

    @transform.function_pass(opt_level=level, name=f"wrap_{name}", required=list(required))
    def wrap(func: relay.Function, mod: Any, ctx: Any) -> relay.Function:
        body = relay.Call(relay.op.get(name), [func.body])
        return relay.Function(func.params, body)

    return wrap


def operators(mod: relay.IRModule) -> list[str]:
    nodes = relay.post_order(mod["main"])
    return [n.op.name for n in nodes if isinstance(n, relay.Call)]


def test_a_pass_gives_a_new_module_and_leaves_the_old_one() -> None:
    mod = module()
    made = named("exp")(mod)
    assert isinstance(made, relay.IRModule)
    assert operators(made) == ["add", "exp"] and operators(mod) == ["add"]


def test_what_a_pass_is_called() -> None:
    made = named("exp", 2, ["InferType"])
    assert isinstance(made, transform.FunctionPass) and isinstance(made, tvm.transform.Pass)
    info = made.info
    assert (info.name, info.opt_level, list(info.required)) == ("wrap_exp", 2, ["InferType"])
    assert str(made) == "Run Function pass: wrap_exp at the optimization level 2"


@pytest.mark.parametrize("sequential", [tvm.transform.Sequential, transform.Sequential])
def test_a_sequence_gives_a_relay_module(sequential: Any) -> None:
    made = sequential([named("exp"), transform.FoldConstant(), named("tanh")])(module())
    assert isinstance(made, relay.IRModule) and operators(made) == ["add", "exp", "tanh"]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, ["add", "exp"]),
        ({"opt_level": 0}, ["add"]),
        ({"opt_level": 0, "required_pass": ["wrap_tanh"]}, ["add", "tanh"]),
        ({"opt_level": 4}, ["add", "exp", "tanh"]),
        ({"opt_level": 4, "disabled_pass": ["wrap_exp"]}, ["add", "tanh"]),
    ],
)
def test_a_context_decides_what_a_sequence_runs(context: Any, expected: list[str]) -> None:
    sequence = tvm.transform.Sequential([named("exp", 1), named("tanh", 3)])
    with tvm.transform.PassContext(**context):
        assert operators(sequence(module())) == expected


def test_a_pass_called_by_itself_runs_at_any_level() -> None:
    with transform.build_config(opt_level=0):
        assert operators(named("exp", 3)(module())) == ["add", "exp"]


def test_a_pass_sees_its_module_and_context() -> None:
    seen = []

    @transform.module_pass(opt_level=1)
    def look(mod: Any, ctx: Any) -> Any:
        seen.append((mod, ctx.opt_level))
        return mod

    mod = module()
    with tvm.transform.PassContext(opt_level=3):
        assert look(mod) is mod
    assert seen == [(mod, 3)] and look.info.name == "look"


def test_a_class_of_passes_has_its_own_attributes() -> None:
    @transform.function_pass(opt_level=1)
    class Replace:
        """Another body."""

        def __init__(self, body: relay.Expr) -> None:
            self.body = body

        def transform_function(self, func: Any, mod: Any, ctx: Any) -> relay.Function:
            return relay.Function(func.params, self.body)

    made = Replace(relay.tanh(X))
    assert made.info.name == "Replace" and made.body.op.name == "tanh"
    assert operators(made(module())) == ["tanh"]


def test_an_instrument_sees_every_pass() -> None:
    seen: list[str] = []

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    with tvm.transform.PassContext(opt_level=4, instruments=[Names()]):
        tvm.transform.Sequential([named("exp"), named("tanh")])(module())
    assert [n for n in seen if n.startswith("wrap")] == ["wrap_exp", "wrap_tanh"]


def test_functions_that_others_compile_are_left_alone() -> None:
    func = relay.Function([X], relay.add(X, X)).with_attr("Compiler", "other")
    mod = relay.IRModule({"main": func})
    assert operators(named("exp")(mod)) == ["add"]


def test_a_function_pass_gives_types_even_if_it_changes_nothing() -> None:
    seen: list[str] = []

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(str(info.name))

    with tvm.transform.PassContext(instruments=[Names()]):
        made = transform.SimplifyExpr()(module().with_main(relay.Function([X], X)))
    assert seen == ["SimplifyExpr", "InferType"]
    assert str(made["main"].body.checked_type) == "Tensor[(2, 3), float32]"


def test_a_module_pass_may_give_a_module_that_it_holds() -> None:
    one, other = module(), module()
    assert transform.module_pass(lambda mod, ctx: other, opt_level=0)(one).same_as(other)
    assert not one.same_as(other)


def test_data_types_and_names_stay() -> None:
    text = "type Box { Put(int32), Empty } " + PROGRAM
    mod = parsed(text)
    made = transform.FoldConstant()(mod)
    assert made.get_constructor("Put") is mod.get_constructor("Put")
    assert made.get_global_var("main") is mod.get_global_var("main")


def test_our_own_passes_follow_in_one_sequence() -> None:
    steps = [transform.FoldConstant(), relay_passes.PropagateShapeConstraints()]
    made = tvm.transform.Sequential(steps)(parsed(PROGRAM))
    assert isinstance(made, tvm.IRModule) and "relax" in str(type(made["main"]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: transform.function_pass(lambda f, m, c: f), ValueError, "provide opt_level"),
        (lambda: transform.function_pass(), ValueError, "provide opt_level for the function"),
        (lambda: transform.module_pass(), ValueError, "provide opt_level for the module"),
        (lambda: transform.function_pass(3, opt_level=1), TypeError, "must be a callable"),
        (lambda: transform.module_pass(3, opt_level=1), TypeError, "must be a callable"),
        (
            lambda: transform.function_pass(lambda f, m, c: f, opt_level=1, required=3),
            TypeError,
            "required: expected a list of pass names, found 3",
        ),
    ],
)
def test_what_no_pass_is_made_of(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("found", [3, None, relay.add(X, X)])
def test_a_function_pass_gives_a_function(found: Any) -> None:
    wrong = transform.function_pass(lambda f, m, c: found, opt_level=0, name="wrong")
    with pytest.raises(BadNode, match=r"the pass wrong: expected a relay\.Function as its result"):
        wrong(module())


def test_a_module_pass_gives_a_module() -> None:
    wrong = transform.module_pass(lambda m, c: m["main"], opt_level=0, name="wrong")
    with pytest.raises(BadNode, match="the pass wrong: expected a Relay module as its result"):
        wrong(module())


def test_an_error_inside_comes_back_as_what_it_was() -> None:
    def refuse(func: Any, mod: Any, ctx: Any) -> Any:
        raise Unsupported("not this one")

    with pytest.raises(Unsupported, match="not this one"):
        transform.function_pass(refuse, opt_level=0)(module())


def test_a_relax_module_is_refused() -> None:
    relax_module = relay.to_relax(module())
    with pytest.raises(BadNode, match="the pass FoldConstant: expected a Relay module"):
        transform.FoldConstant()(relax_module)


def test_a_required_pass_that_is_unknown_is_refused() -> None:
    with pytest.raises(Exception, match="Cannot use NoSuchPass to create the pass"):
        tvm.transform.Sequential([named("exp", 0, ["NoSuchPass"])])(module())
