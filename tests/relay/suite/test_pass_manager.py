"""The pass manager over Relay modules: contexts, sequences, passes of the user's own, what watches
them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.ir import instrument

from tvm_disc import relay
from tvm_disc.errors import BadNode, DiscError
from tvm_disc.relay import transform

X = relay.var("x", shape=(relay.Any(), 4))
PassContext, Sequential = transform.PassContext, transform.Sequential


def module(body: Callable[[relay.Expr], relay.Expr] = relay.exp) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function([X], body(X)))


def noting(log: list[str], name: str, level: int = 0, required: Any = None) -> Any:
    """A pass that only notes that it ran."""

    def run(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        log.append(name)
        return mod

    return transform.module_pass(run, opt_level=level, name=name, required=required)


# ---- which passes of a sequence run

LEVELS = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "by default": ({}, "abc"),
    "at level 0": ({"opt_level": 0}, "a"),
    "at level 1": ({"opt_level": 1}, "ab"),
    "at level 3": ({"opt_level": 3}, "abcd"),
    "at level 4": ({"opt_level": 4}, "abcde"),
    "above all": ({"opt_level": 9}, "abcde"),
    "one disabled": ({"disabled_pass": ["b"]}, "ac"),
    "two disabled": ({"disabled_pass": ["a", "c"], "opt_level": 4}, "bde"),
    "one required": ({"required_pass": ["e"]}, "abce"),
    "required at level 0": ({"opt_level": 0, "required_pass": ["c", "d"]}, "acd"),
    "required and disabled": ({"required_pass": ["e"], "disabled_pass": ["e"]}, "abc"),
    "disabled that is not there": ({"disabled_pass": ["z"]}, "abc"),
}


@pytest.mark.parametrize("case", RUNS)
def test_which_passes_run(case: str) -> None:
    options, expected = RUNS[case]
    log: list[str] = []
    passes = [noting(log, name, level) for name, level in LEVELS.items()]
    with PassContext(**options):
        Sequential(passes)(module())
    assert "".join(log) == expected


def test_a_pass_by_itself_runs_at_every_level() -> None:
    log: list[str] = []
    with PassContext(opt_level=0):
        noting(log, "late", 4)(module())
    assert log == ["late"]


def test_sequences_inside_of_sequences() -> None:
    log: list[str] = []
    a, b, c, d = (noting(log, name) for name in "abcd")
    Sequential([a, Sequential([b, c]), d])(module())
    assert log == ["a", "b", "c", "d"]
    log.clear()
    with PassContext(opt_level=1):
        Sequential([a, Sequential([b, c], opt_level=2, name="inner"), d])(module())
    assert log == ["a", "d"]
    with PassContext(disabled_pass=["inner"]):
        Sequential([Sequential([b], name="inner"), d])(module())
    assert log[2:] == ["d"]


def test_an_empty_sequence_changes_nothing() -> None:
    mod = module()
    assert Sequential([])(mod) is mod


def test_the_order_of_a_sequence_counts() -> None:
    def adds(name: str) -> Any:
        def run(func: relay.Function, _mod: relay.IRModule, _ctx: Any) -> relay.Function:
            body = relay.Call(relay.op.get(name), [func.body])
            return relay.Function(func.params, body)

        return transform.function_pass(run, opt_level=0)

    one = Sequential([adds("abs"), adds("tanh")])(module())["main"].body
    two = Sequential([adds("tanh"), adds("abs")])(module())["main"].body
    assert (one.op.name, one.args[0].op.name) == ("tanh", "abs")
    assert (two.op.name, two.args[0].op.name) == ("abs", "tanh")


def test_what_a_pass_requires_runs_before_it() -> None:
    log: list[str] = []
    transform.manager.register(lambda: noting(log, "suite_first"))
    Sequential([noting(log, "second", required=["suite_first"])])(module())
    assert log == ["suite_first", "second"]


def test_a_required_pass_that_is_unknown() -> None:
    with pytest.raises(Exception, match="suite_nowhere"):
        Sequential([noting([], "second", required=["suite_nowhere"])])(module())


# ---- contexts


def test_contexts_are_nested_and_left() -> None:
    outer = PassContext.current()
    with PassContext(opt_level=3) as three:
        assert PassContext.current().opt_level == 3 == three.opt_level
        with PassContext(opt_level=1, disabled_pass=["q"]):
            assert PassContext.current().opt_level == 1
            assert list(PassContext.current().disabled_pass) == ["q"]
        assert PassContext.current().opt_level == 3
    assert PassContext.current().opt_level == outer.opt_level == 2


def test_a_context_is_left_when_a_pass_fails() -> None:
    def fail(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        raise BadNode("not today")

    with pytest.raises(BadNode, match="not today"), PassContext(opt_level=4):
        transform.module_pass(fail, opt_level=0)(module())
    assert PassContext.current().opt_level == 2


def test_a_context_holds_for_one_thread() -> None:
    seen: list[int] = []
    with PassContext(opt_level=4):
        thread = threading.Thread(target=lambda: seen.append(PassContext.current().opt_level))
        thread.start()
        thread.join()
    assert seen == [2]


def test_a_pass_gets_the_context() -> None:
    seen: list[Any] = []

    @transform.module_pass(opt_level=0)
    def look(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        seen.append((ctx.opt_level, list(ctx.required_pass), list(ctx.disabled_pass)))
        return mod

    with PassContext(opt_level=1, required_pass=["r"], disabled_pass=["d"]):
        look(module())
    assert seen == [(1, ["r"], ["d"])]


def test_a_key_of_no_configuration() -> None:
    with pytest.raises(Exception, match=r"relay\.no\.such\.key"):
        PassContext(config={"relay.no.such.key": 1})


def test_a_configuration_of_tvm_is_there() -> None:
    key = next(iter(PassContext.list_configs()))
    with PassContext(config={}):
        assert key not in PassContext.current().config


def test_build_config_is_a_context() -> None:
    log: list[str] = []
    with relay.build_config(opt_level=3, disabled_pass=["a"]):
        Sequential([noting(log, name, level) for name, level in LEVELS.items()])(module())
    assert log == ["b", "c", "d"]


# ---- passes of the user's own


def doubled(func: relay.Function) -> relay.Function:
    return relay.Function(func.params, relay.add(func.body, func.body))


def as_function(level: int) -> Any:
    return transform.function_pass(lambda f, mod, ctx: doubled(f), opt_level=level, name="mine")


def as_decorated(level: int) -> Any:
    @transform.function_pass(opt_level=level, name="mine")
    def mine(func: relay.Function, mod: relay.IRModule, ctx: Any) -> relay.Function:
        return doubled(func)

    return mine


def as_class(level: int) -> Any:
    @transform.function_pass(opt_level=level, name="mine")
    class Mine:
        """A class that makes a pass."""

        def __init__(self, times: int) -> None:
            self.times = times

        def transform_function(
            self, func: relay.Function, mod: relay.IRModule, ctx: Any
        ) -> relay.Function:
            for _ in range(self.times):
                func = doubled(func)
            return func

    made = Mine(1)
    assert made.times == 1 and Mine.__doc__ == "A class that makes a pass."
    return made


def as_module_class(level: int) -> Any:
    @transform.module_pass(opt_level=level, name="mine")
    class Mine:
        def transform_module(self, mod: relay.IRModule, ctx: Any) -> relay.IRModule:
            return mod.with_main(doubled(mod["main"]))

    return Mine()


def as_module_function(level: int) -> Any:
    @transform.module_pass(opt_level=level, name="mine", required=[])
    def mine(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        return mod.with_main(doubled(mod["main"]))

    return mine


WRITTEN = [as_function, as_decorated, as_class, as_module_class, as_module_function]


@pytest.mark.parametrize("make", WRITTEN)
def test_a_pass_is_written(make: Callable[[int], Any]) -> None:
    mod = module()
    made = make(0)(mod)
    assert isinstance(made, relay.IRModule)
    assert made["main"].body.op.name == "add" and mod["main"].body.op.name == "exp"


@pytest.mark.parametrize("make", WRITTEN)
@pytest.mark.parametrize("level", [0, 3])
def test_what_is_known_of_a_pass(make: Callable[[int], Any], level: int) -> None:
    made = make(level)
    assert made.info.name == "mine" and made.info.opt_level == level
    assert list(made.info.required) == [] and "mine" in str(made) and str(level) in str(made)
    kind = "Function" if "module" not in make.__name__ else "Module"
    assert f"{kind} pass" in str(made)


@pytest.mark.parametrize("make", WRITTEN)
def test_a_level_holds_in_a_sequence(make: Callable[[int], Any]) -> None:
    for level, runs in ((2, True), (3, False)):
        made = Sequential([make(level)])(module())
        assert (made["main"].body.op.name == "add") is runs


def test_a_pass_has_the_name_of_its_function() -> None:
    @transform.module_pass(opt_level=1)
    def named_by_itself(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        return mod

    assert named_by_itself.info.name == "named_by_itself"


def test_a_function_pass_sees_each_function_and_the_module() -> None:
    seen: list[tuple[str, int]] = []
    text = '#[version = "0.0.5"] def @one() { 1 } def @two() { 2 } def @main() { @one() }'

    @transform.function_pass(opt_level=0)
    def look(func: relay.Function, mod: relay.IRModule, ctx: Any) -> relay.Function:
        seen.append((type(func.body).__name__, len(mod.functions)))
        return func

    look(relay.parse(text))
    assert sorted(s for s, _ in seen) == ["Call", "Constant", "Constant"] and {
        n for _, n in seen
    } == {3}


@pytest.mark.parametrize("attrs", [{"SkipOptimization": 1}, {"Compiler": "other"}])
def test_functions_that_are_left_alone(attrs: dict[str, Any]) -> None:
    func = relay.Function([X], relay.exp(X)).with_attrs(attrs)
    made = as_function(0)(relay.IRModule({"main": func}))
    assert made["main"].body.op.name == "exp"


def test_a_module_pass_may_add_and_remove_functions() -> None:
    @transform.module_pass(opt_level=0)
    def renew(mod: relay.IRModule, ctx: Any) -> relay.IRModule:
        new = relay.IRModule({"other": mod["main"]})
        new["one"] = relay.Function([], relay.const(1))
        return new

    assert [g.name_hint for g in renew(module()).get_global_vars()] == ["other", "one"]


def test_the_result_of_a_function_pass_has_types() -> None:
    made = as_function(0)(module())
    assert str(made["main"].body.checked_type) == "Tensor[(?, 4), float32]"


def test_passes_stand_beside_those_of_tvm() -> None:
    made = tvm.transform.Sequential([transform.FoldConstant(), as_function(0)])(module())
    assert made["main"].body.op.name == "add"


# ---- what watches passes


@instrument.pass_instrument
class Watch:
    """Everything that can be watched."""

    def __init__(self, log: list[str], skip: str = "") -> None:
        self.log, self.skip = log, skip

    def enter_pass_ctx(self) -> None:
        self.log.append("enter")

    def exit_pass_ctx(self) -> None:
        self.log.append("exit")

    def should_run(self, mod: Any, info: Any) -> bool:
        return bool(info.name != self.skip)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self.log.append(f"before {info.name}")

    def run_after_pass(self, mod: Any, info: Any) -> None:
        self.log.append(f"after {info.name}")


def watched(names: str, **options: Any) -> list[str]:
    log: list[str] = []
    with PassContext(instruments=[Watch(log, **options)]):
        for name in names:
            noting([], name)(module())
    return log


def test_an_instrument_sees_every_pass() -> None:
    expected = ["enter", "before p", "after p", "before q", "after q", "exit"]
    assert watched("pq") == expected


def test_an_instrument_may_refuse_a_pass() -> None:
    assert watched("pq", skip="p") == ["enter", "before q", "after q", "exit"]


def test_a_pass_that_is_refused_changes_nothing() -> None:
    with PassContext(instruments=[Watch([], skip="mine")]):
        assert as_function(0)(module())["main"].body.op.name == "exp"


def test_several_instruments_in_order() -> None:
    one, two = [], []
    with PassContext(instruments=[Watch(one), Watch(two)]):
        noting([], "p")(module())
    assert one == two == ["enter", "before p", "after p", "exit"]


def test_passes_inside_of_a_sequence_are_seen() -> None:
    log: list[str] = []
    with PassContext(instruments=[Watch(log)]):
        Sequential([noting([], "p"), noting([], "q", 4)], name="both")(module())
    assert [x for x in log if "p" in x.split()[-1:]] == ["before p", "after p"]
    assert not any(x.endswith(" q") for x in log) and "before both" in log


def test_an_instrument_is_replaced() -> None:
    log: list[str] = []
    with PassContext(instruments=[Watch([])]) as ctx:
        ctx.override_instruments([Watch(log)])
        noting([], "p")(module())
    assert log == ["enter", "before p", "after p", "exit"]


def test_time_is_taken() -> None:
    timing = instrument.PassTimingInstrument()
    with PassContext(instruments=[timing]):
        noting([], "counted")(module())
        assert "counted" in timing.render()


def test_an_instrument_that_fails() -> None:
    @instrument.pass_instrument
    class Broken:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            raise BadNode("broken here")

    with pytest.raises(BadNode, match="broken here"), PassContext(instruments=[Broken()]):
        noting([], "p")(module())


# ---- Relay's own passes in it

KNOWN = {
    "FoldConstant": (transform.FoldConstant, 2),
    "SimplifyInference": (transform.SimplifyInference, 0),
    "InferType": (transform.InferType, 0),
    "ToANormalForm": (transform.ToANormalForm, 1),
    "ToGraphNormalForm": (transform.ToGraphNormalForm, 1),
    "ToBasicBlockNormalForm": (transform.ToBasicBlockNormalForm, 1),
    "EliminateCommonSubexpr": (transform.EliminateCommonSubexpr, 3),
    "CombineParallelConv2d": (transform.CombineParallelConv2D, 4),
    "CombineParallelDense": (transform.CombineParallelDense, 4),
    "CombineParallelBatchMatmul": (transform.CombineParallelBatchMatmul, 4),
    "DeadCodeElimination": (transform.DeadCodeElimination, 1),
    "FastMath": (transform.FastMath, 4),
    "CanonicalizeOps": (transform.CanonicalizeOps, 3),
    "CanonicalizeCast": (transform.CanonicalizeCast, 3),
    "ForwardFoldScaleAxis": (transform.ForwardFoldScaleAxis, 3),
    "BackwardFoldScaleAxis": (transform.BackwardFoldScaleAxis, 3),
    "DynamicToStatic": (transform.DynamicToStatic, 2),
    "SimplifyExpr": (transform.SimplifyExpr, 0),
    "FuseOps": (transform.FuseOps, 0),
    "LambdaLift": (transform.LambdaLift, 1),
    "RemoveUnusedFunctions": (transform.RemoveUnusedFunctions, 1),
    "EtaExpand": (transform.EtaExpand, 1),
}


@pytest.mark.parametrize("name", KNOWN)
def test_names_and_levels_of_passes(name: str) -> None:
    make, level = KNOWN[name]
    info = make().info
    assert (info.name, info.opt_level) == (name, level)


@pytest.mark.parametrize("name", [n for n, (_, level) in KNOWN.items() if level > 2])
def test_a_high_level_is_left_out_by_default(name: str) -> None:
    log: list[str] = []
    with PassContext(instruments=[Watch(log)]):
        Sequential([KNOWN[name][0]()])(module())
    assert f"before {name}" not in log


@pytest.mark.parametrize("name", KNOWN)
def test_the_program_is_the_same_afterwards(name: str) -> None:
    """Its values: a chain that no pass can get wrong by chance."""
    mod = module(lambda x: relay.tanh(relay.nn.bias_add(x, relay.const(np.ones(4, "float32")))))
    with PassContext(opt_level=4):
        made = Sequential([KNOWN[name][0]()])(mod)
    typed = transform.InferType()(made)
    assert (
        str(typed["main"].checked_type) == "fn (Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32]"
    )


# ---- refusals

ONE = relay.Function([X], X)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no level": (lambda: transform.module_pass(lambda m, c: m), "Please provide opt_level"),
    "no level, decorated": (lambda: transform.function_pass(), "Please provide opt_level"),
    "a level": (lambda: transform.module_pass(lambda m, c: m, opt_level="2"), "opt_level"),
    "below all levels": (lambda: transform.module_pass(lambda m, c: m, opt_level=-1), "opt_level"),
    "no function": (lambda: transform.module_pass(3, opt_level=1), "must be a callable for Module"),
    "a name": (lambda: transform.module_pass(min, opt_level=1, name=3), "name: expected a string"),
    "required": (
        lambda: transform.function_pass(min, opt_level=1, required="a"),
        "required: expected a list of pass names",
    ),
    "a required name": (
        lambda: transform.function_pass(min, opt_level=1, required=[1]),
        "required: expected names of passes, found 1",
    ),
    "no module": (lambda: _made(3)(module()), "expected a Relay module as its result, found 3"),
    "nothing": (lambda: _made(None)(module()), "expected a Relay module as its result, found None"),
    "no function made": (
        lambda: transform.function_pass(lambda f, m, c: f.body, opt_level=0)(module()),
        r"expected a relay.Function as its result, found Call",
    ),
    "disabled": (
        lambda: relay.build_config(disabled_pass=[3]),
        "disabled_pass: expected names of passes, found 3",
    ),
    "a level of a context": (lambda: relay.build_config(opt_level="3"), "opt_level"),
}


def _made(value: Any) -> Any:
    return transform.module_pass(lambda mod, ctx: value, opt_level=0, name="odd")


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(DiscError, match=message):
        make()


@pytest.mark.parametrize("given", [3, None, "main", ONE])
def test_a_pass_takes_a_module(given: Any) -> None:
    with pytest.raises(BadNode, match="the pass FoldConstant: expected a module, found"):
        transform.FoldConstant()(given)
