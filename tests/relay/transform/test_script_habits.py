"""What scripts for Relay do around passes: contexts, instruments, parameters, inlining."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm_disc.relay.testing import run_infer_type

from tvm_disc import relay
from tvm_disc.errors import BadNode
from tvm_disc.relay.pass_context import KEYS


def adds() -> relay.IRModule:
    x = relay.var("x", shape=(2, 3))
    return relay.IRModule.from_expr(relay.Function([x], relay.add(x, x)))


# Expressions of one input whose inferred form goes into a larger one.
PARTS = {
    "relu": relay.nn.relu,
    "reshape": lambda x: relay.reshape(x, (4, 3)),
    "tuple": lambda x: relay.Tuple([x, x])[0],
    "let": lambda x: relay.Let(v := relay.var("v"), relay.exp(x), relay.add(v, x)),
    "if": lambda x: relay.If(relay.const(True), x, relay.negative(x)),
    "call": lambda x: relay.Function([v := relay.var("v", shape=(3, 4))], relay.abs(v))(x),
}


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("dims", [(3, 4), (relay.Any(), 4)], ids=["known", "unknown"])
def test_a_variable_of_an_inferred_part_can_still_be_bound(make: Any, dims: Any) -> None:
    x = relay.var("x", shape=dims)
    part = run_infer_type(make(x))
    func = relay.Function([x], relay.add(relay.sum(part), relay.sum(x)))
    assert relay.free_vars(func) == [] and run_infer_type(func).params[0] is x


@pytest.mark.parametrize("key", KEYS)
def test_contexts_take_the_keys_of_relay(key: str) -> None:
    value = {bool: True, int: 7, str: "default", list: ["a"]}[KEYS[key]]
    with tvm.transform.PassContext(opt_level=3, config={key: value}):
        found = relay.transform.PassContext.current().config[key]
    assert (list(found) if isinstance(value, list) else found) == value


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"relay.FuseOps.depth": 3}, "unknown option 'relay.FuseOps.depth'; expected one of relay"),
        ({"relay.FuseOps.max_depth": "3"}, "relay.FuseOps.max_depth: expected int, found '3'"),
        ({"relay.backend.tir_converter": 1}, "tir_converter: expected str, found 1"),
    ],
)
def test_contexts_refuse_what_relay_does_not_have(config: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        relay.transform.PassContext(config=config)


def test_tvm_module_passes_and_instruments_see_the_relay_module(capfd: Any) -> None:
    seen: list[Any] = []

    @tvm.transform.module_pass(opt_level=0)
    def own(mod: Any, _ctx: Any) -> Any:
        seen.append(("pass", type(mod)))
        return mod

    @tvm.transform.module_pass(opt_level=0, name="of_class")
    class OfClass:
        def transform_module(self, mod: Any, _ctx: Any) -> Any:
            seen.append(("class", type(mod)))
            return mod.with_attr("seen", 1)

    @tvm.instrument.pass_instrument
    class Watch:
        def run_after_pass(self, mod: Any, info: Any) -> None:
            seen.append((str(info.name), type(mod)))

    passes = [relay.transform.InferType(), own, tvm.transform.PrintIR("here"), OfClass()]
    with tvm.transform.PassContext(instruments=[Watch()]):
        made = tvm.transform.Sequential(passes)(adds())
    names = ["InferType", "pass", "own", "PrintIR", "class", "of_class", "sequential"]
    assert seen == [(name, relay.IRModule) for name in names] and made.attrs["seen"] == 1
    assert "PrintIR(here):\ndef @main(%x: Tensor[(2, 3), float32]" in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrap", [tvm.runtime.tensor, relay.const, np.asarray], ids=["tvm", "const", "np"]
)
def test_parameters_of_any_tensor_are_stored(wrap: Any) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    found = relay.load_param_dict(relay.save_param_dict({"w": wrap(values)}))["w"]
    np.testing.assert_array_equal(found.numpy(), values)
    np.testing.assert_array_equal(found.asnumpy(), values)


def test_boxed_attributes_are_plain_values() -> None:
    func = adds()["main"]
    one, flag = tvm.tirx.IntImm("int32", 1), tvm.tirx.IntImm("bool", 1)
    boxed = func.with_attr("Primitive", one).with_attr("flag", flag)
    plain = func.with_attr("Primitive", 1).with_attr("flag", True)
    assert relay.structural_equal(boxed, plain) and str(boxed) == str(plain)
    assert boxed.attrs["flag"] is True and "Primitive=1" in str(boxed)


# functions (name, whether it is inlined, what it calls) | what is left
INLINED = {
    "an entry that is marked stays": ([("f", True, [])], "f"),
    "a leaf goes into its callers": ([("f", True, []), ("g", False, ["f"])], "g"),
    "a chain goes at once": ([("f", True, []), ("g", True, ["f"]), ("h", False, ["g"])], "h"),
    "a callee that stays keeps its caller": (
        [("f", False, []), ("g", True, ["f"]), ("h", False, ["g"])],
        "fgh",
    ),
    "a function that calls itself stays": ([("f", True, ["f"]), ("g", False, ["f"])], "fg"),
}


@pytest.mark.parametrize(("functions", "left"), INLINED.values(), ids=INLINED)
def test_inline_keeps_what_is_needed(functions: Any, left: str) -> None:
    mod = relay.IRModule()
    globals_ = {name: relay.GlobalVar(name) for name, _, _ in functions}
    for name, inline, callees in functions:
        x = relay.var("x", shape=(2,))
        body = relay.exp(x)
        for callee in callees:
            body = globals_[callee](body)
        func = relay.Function([x], body, relay.TensorType((2,), "float32"))
        mod[globals_[name]] = func.with_attr("Inline", 1) if inline else func
    made = relay.transform.Inline()(mod)
    assert "".join(sorted(g.name_hint for g in made.get_global_vars())) == left


class Once(relay.dataflow_pattern.DFPatternCallback):
    """Wrap every call of an operator in ``abs`` once, or ever again."""

    def __init__(self, name: str, once: bool) -> None:
        super().__init__(rewrite_once=once)
        self.pattern = relay.dataflow_pattern.is_op(name)(relay.dataflow_pattern.wildcard())
        self.calls = 0

    def callback(self, _pre: Any, post: Any, _node_map: Any) -> Any:
        self.calls += 1
        return relay.abs(post)


class Exchange(Once):
    """Replace an operator by ``sqrt``: applies in the second round only."""

    def callback(self, _pre: Any, post: Any, _node_map: Any) -> Any:
        self.calls += 1
        return relay.sqrt(post.args[0])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["once first", "once last"])
def test_each_of_several_callbacks_keeps_its_own_rewrite_once(order: Any) -> None:
    """``sqrt`` and ``log`` become each other's input only if every round runs the right ones."""
    x = relay.var("x", shape=(2,))
    callbacks = [Once("exp", True), Exchange("abs", False)]
    made = relay.dataflow_pattern.rewrite([callbacks[i] for i in order], relay.exp(x))
    assert made.op.name == "sqrt" and made.args[0].op.name == "exp"
    assert [c.calls for c in callbacks] == [1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda p, nil, cons: nil(),
        lambda p, nil, cons: cons(nil(), nil()),
        lambda p, nil, cons: p.tl(cons(relay.const(1), nil())),
        lambda p, nil, cons: relay.Tuple([nil(), nil()]),
    ],
    ids=["nil", "a list of nil", "tail", "two"],
)
def test_empty_lists_are_results(make: Any) -> None:
    prelude = relay.Prelude()
    _, cons, nil = prelude.mod.get_type("List")
    found = relay.create_executor(mod=prelude.mod).evaluate(make(prelude, nil, cons))
    assert "Nil" in str(found)


@pytest.mark.parametrize("name", ["mlp", "resnet", "mobilenet", "dcgan", "squeezenet"])
def test_networks_have_types(name: str) -> None:
    mod, _ = getattr(relay.testing, name).get_workload(1)
    assert mod["main"].body.checked_type == mod["main"].ret_type
    calls = [n for n in relay.post_order(mod["main"]) if isinstance(n, relay.Call)]
    assert all([a.checked_type for a in c.args] == list(c.type_args) for c in calls)


@pytest.mark.parametrize("dims", [(1, 4), (3, 1), (4,), ()], ids=str)
def test_simplify_a_sum_to_a_known_shape(dims: Any) -> None:
    x, y = relay.var("x", shape=(3, 4)), relay.var("y", shape=dims)
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.collapse_sum_like(x, y)))
    made = relay.transform.SimplifyExpr()(mod)["main"]
    expected = run_infer_type(relay.Function([x, y], relay.collapse_sum_to(x, dims)))
    assert relay.structural_equal(made, expected)


def test_the_keys_of_relay_are_listed() -> None:
    found = tvm.transform.PassContext.list_configs()
    assert set(KEYS) <= set(found) and found["relay.backend.use_auto_scheduler"]["type"] == "IntImm"
    assert "tirx.UnrollLoop" in found


def test_every_check_of_a_composite_sees_types() -> None:
    from tvm_disc.relay.dataflow_pattern import is_op, wildcard

    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.tanh(relay.abs(x)))))
    seen: list[str] = []

    def check(expr: Any) -> bool:
        seen.append(str(expr.checked_type))
        return True

    table = [(name, is_op(name)(wildcard()), check) for name in ("abs", "tanh", "exp")]
    made = relay.transform.MergeComposite(table)(mod)["main"]
    assert seen == ["Tensor[(2, 3), float32]"] * 3
    inner = [n for n in relay.post_order(made) if isinstance(n, relay.Function) and n is not made]
    assert [f.body.checked_type for f in inner] == [x.checked_type] * 3


@pytest.mark.parametrize("name", ["argmax", "argmin", "argsort"])
@pytest.mark.parametrize(("scale", "goes"), [(0.5, True), (-0.5, False)], ids=str)
def test_simplify_the_order_of_quantized_values(name: str, scale: float, goes: bool) -> None:
    x = relay.var("x", shape=(2, 3), dtype="int8")
    data = relay.qnn.op.dequantize(x, relay.const(scale), relay.const(3))
    mod = relay.IRModule.from_expr(getattr(relay, name)(data, axis=1))
    mod = relay.transform.InferType()(mod)
    made = relay.transform.SimplifyExpr()(mod)["main"].body
    assert (made.args[0] is x) == goes
    assert made.checked_type == mod["main"].ret_type
