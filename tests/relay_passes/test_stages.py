"""The compiler's passes as one list: in a user's pipeline, for every source, and with a user's
own passes among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_disc
from tests.models import function, mlp, mlp_reference, rows
from tvm_disc import Options, relay, relay_passes
from tvm_disc.compile import PASSES, STAGES
from tvm_disc.errors import BadInput, ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay_passes.loops.collect import CollectInPlace
from tvm_disc.relay_passes.module_facts import solver_of, without_solver
from tvm_disc.relay_passes.versions import Told, import_versions
from tvm_disc.shape import Solver

DATA = Path(__file__).resolve().parents[1] / "data"
MODELS = (
    "relay/models/bert.relay",
    "relay/models/cnn.relay",
    "relay/models/dlrm.relay",
    "relay/models/qcnn.relay",
    "relax/bert.json",
    "relax/crnn.json",
    "relax/gpt2.json",
    "relax/vit_hw.json",
)


def load(name: str) -> Any:
    text = (DATA / name).read_text()
    return tvm.ir.load_json(text) if name.endswith(".json") else relay.parse(text)


def pipeline(**told: Any) -> Any:
    """What a user writes who wants the compiler's passes in a pipeline of their own."""
    return tvm.transform.Sequential(
        [
            relay_passes.PropagateShapeConstraints(**told),
            relay_passes.WidenBFloat16(),
            relay_passes.DecomposeComposite(),
            relay_passes.Simplify(),
            relay_passes.MergeProducts(),
            relay_passes.HoistProducts(),
            relay_passes.MergeProducts(),
            relay_passes.ChannelsLast(),
            CollectInPlace(),
            relay_passes.FuseDISC(),
        ]
    )


def groups(mod: Any) -> list[Any]:
    """The functions of a fused module that become kernels, in their order."""
    named = sorted((str(gv.name_hint), f) for gv, f in mod.functions_items())
    return [f for _, f in named if f.attrs is not None and "disc.kind" in f.attrs]


def compiled(name: str, constraints: tuple[str, ...] = ()) -> Any:
    """The module that ``build`` makes kernels of."""
    version = import_versions(load(name), None, constraints, several=False)[0]
    mod = version.mod
    for _, make in PASSES[1:]:
        mod = make(Told({}, constraints, Options()))(mod)
    return mod


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_users_pipeline_makes_the_kernels_of_build(name: str, portable: bool) -> None:
    mine, theirs = pipeline(portable=portable)(load(name)), compiled(name)
    kinds = [[str(g.attrs["disc.kind"]) for g in groups(m)] for m in (mine, theirs)]
    assert kinds[0] == kinds[1] and kinds[0]
    if name.endswith(".relay"):
        for a, b in zip(groups(mine), groups(theirs), strict=True):
            tvm.ir.assert_structural_equal(a, b, map_free_vars=True)


def test_constraints_mean_the_same_for_every_source() -> None:
    told = ("ids.0 == mask.0", "ids.1 == mask.1", "2 <= ids_0 <= 9")
    propagate = relay_passes.PropagateShapeConstraints(told)
    module = propagate(load("relay/models/bert.relay"))
    relayed = {str(g.context) for g in propagate.solver.guards}
    version = import_versions(load("relay/models/bert.relay"), None, told, several=False)[0]
    assert {str(g.context) for g in version.solver.guards} == relayed
    again = relay_passes.PropagateShapeConstraints(told[2:])
    again(without_solver(module))
    assert [g.context for g in again.solver.guards if "constraint" in g.context]
    for source in (load("relay/models/bert.relay"), without_solver(module)):
        with pytest.raises(tvm_disc.errors.ParseError, match="no dim is called 'ids_9'"):
            relay_passes.PropagateShapeConstraints(["ids_9 == 1"])(source)


def test_inputs_that_become_constants_are_known_to_the_pass() -> None:
    x, w = rows("?", 8), relay.var("w", shape=(relay.Any(), 8), dtype="float32")
    source = function(x, w, relay.nn.dense(x, w))
    value = np.ones((4, 8), "float32")
    mod = relay_passes.PropagateShapeConstraints(params={"w": value})(source)
    assert [str(p.name) for p in mod["main"].params] == ["x"]
    assert int(mod["main"].ret_ty.shape.values[1]) == 4


def test_guards_of_a_relay_module_are_checked_by_tvms_own_machine() -> None:
    x, y = rows("?", 4), rows("?", 4, name="y")
    source = function(x, y, relay.concatenate(relay.Tuple([x, y]), axis=1))
    propagate = relay_passes.PropagateShapeConstraints()
    target = tvm.target.Target("llvm")
    steps = [propagate, relax.get_default_pipeline(target)]
    built = relax.build(propagate(source), target, relax_pipeline=tvm.transform.Sequential(steps))
    vm = relax.VirtualMachine(built, tvm.cpu())
    a, b = (tvm.runtime.tensor(np.ones((n, 4), "float32")) for n in (3, 2))
    assert vm["main"](a, a).shape == (3, 8)
    with pytest.raises(Exception, match="match_cast error"):
        vm["main"](a, b)


def test_a_guard_that_only_a_branch_knows_is_refused_where_it_must_stand_in_the_module() -> None:
    x, y = rows("?"), rows("?", name="y")
    positive = relay.reshape(relay.argwhere(x), newshape=[-1])
    chosen = relay.If(
        relay.any(relay.greater(x, relay.const(0.0))),
        relay.sum(relay.add(relay.cast(positive, dtype="float32"), y)),
        relay.sum(y),
    )
    source = function(x, y, chosen)
    assert relay_passes.PropagateShapeConstraints(portable=False)(source)["main"]
    with pytest.raises(Unsupported, match="portable=False"):
        relay_passes.PropagateShapeConstraints()(source)


def test_what_is_known_travels_with_the_module() -> None:
    propagate = relay_passes.PropagateShapeConstraints(["s % 8 == 0"])
    x = relay.var("x", shape=(relay.Any("s"), 4), dtype="float32")
    mod = propagate(function(x, relay.exp(x)))
    assert solver_of(mod) is propagate.solver
    assert solver_of(relax.transform.FoldConstant()(mod)) is propagate.solver
    given = Solver()
    assert solver_of(mod, given) is given
    assert solver_of(relay_passes.FuseDISC()(mod)) is not propagate.solver  # the last of them
    assert "disc.solver" not in tvm.ir.save_json(without_solver(mod))


# -- a user's own passes ---------------------------------------------------------------------------


def counting(seen: list[int]) -> Any:
    @tvm.transform.module_pass(opt_level=0, name="Mine")  # type: ignore[untyped-decorator]
    def mine(mod: Any, ctx: Any) -> Any:
        seen.append(len(mod.get_global_vars()))
        return mod

    return mine


@pytest.mark.parametrize("stage", STAGES)
def test_a_pass_runs_before_and_after_every_stage(stage: str) -> None:
    before, after = list[int](), list[int]()
    passes = {f"before {stage}": counting(before), f"after {stage}": [counting(after)] * 2}
    exe = tvm_disc.build(mlp(), passes=passes)
    assert len(before) == 1 and len(after) == 2
    around = [f"before {stage}", stage, f"after {stage}"]
    assert [name for name in exe.timings if name in around] == around
    value = np.random.default_rng(0).standard_normal((5, 16)).astype("float32")
    np.testing.assert_allclose(exe(value), mlp_reference(value), rtol=1e-4, atol=1e-6)


def test_a_pass_that_changes_the_module_changes_the_program() -> None:
    @tvm.ir.transform.module_pass(opt_level=0, name="Double")  # type: ignore[untyped-decorator]
    def double(mod: Any, ctx: Any) -> Any:
        main = mod["main"]
        (param,) = main.params
        builder = relax.BlockBuilder()
        with builder.function("main", [param]):
            builder.emit_func_output(builder.emit(relax.op.add(param, param)))
        return builder.get()  # neither attributes nor facts

    x = rows("s", 4)
    source = function(x, relay.exp(x))
    exe = tvm_disc.build(source, passes={"after propagate": double}, constraints=["s % 2 == 0"])
    for n in (0, 2, 34):
        ones = np.ones((n, 4), "float32")
        np.testing.assert_array_equal(exe(ones), ones + ones)
    with pytest.raises(tvm_disc.errors.GuardFailed):
        exe(np.ones((3, 4), "float32"))


def test_a_relay_pass_stands_before_the_first_stage() -> None:
    x = rows("?", 4)

    def negated(mod: relay.IRModule) -> relay.IRModule:
        main = mod["main"]
        return function(*main.params, relay.negative(main.body))

    exe = tvm_disc.build(function(x, relay.exp(x)), passes={"before propagate": negated})
    np.testing.assert_allclose(exe(np.zeros((3, 4), "float32")), np.full((3, 4), -1, "float32"))


def refused(passes: Any) -> Callable[[], Any]:
    return lambda: tvm_disc.build(mlp(), passes=passes)


@pytest.mark.parametrize(
    ("passes", "error", "message"),
    [
        ([], BadInput, "passes: expected a mapping from places to passes, .* found list"),
        (
            {"after simplfy": counting([])},
            BadInput,
            "one of the stages propagate, .*, fuse, found 'after simplfy'; did you mean "
            "'after simplify'",
        ),
        ({"simplify": counting([])}, BadInput, "found 'simplify'; did you mean"),
        ({"before kernels": counting([])}, BadInput, "found 'before kernels'"),
        ({3: counting([])}, BadInput, "found 3"),
        ({"before fuse": 3}, BadInput, "'before fuse': expected a pass, .* found 3"),
        ({"before fuse": lambda mod: None}, TypeMismatch, "'before fuse': .* found NoneType"),
        (
            {"after fuse": lambda mod: tvm.IRModule({})},
            TypeMismatch,
            "'after fuse': expected it to return a module, found one without 'main'",
        ),
        ({"before propagate": lambda mod: 3}, TypeMismatch, "'before propagate': .* found int"),
    ],
)
def test_refusals(passes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        refused(passes)()


def test_an_error_names_the_stage() -> None:
    def broken(mod: Any) -> Any:
        raise ShapeConflict("mine")

    with pytest.raises(ShapeConflict, match="mine") as caught:
        tvm_disc.build(mlp(), passes={"after simplify": broken})
    if hasattr(caught.value, "add_note"):  # Python 3.11 and later
        assert caught.value.__notes__ == ["in stage 'after simplify' of the build"]
