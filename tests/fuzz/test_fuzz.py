"""A short campaign, the kept cases, and whether campaigns see, tell and shrink what is wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.fuzz import campaign, maker, mutants, rows
from tests.fuzz.case import Case, kept
from tests.fuzz.children import Limits, run
from tests.fuzz.judge import judge
from tests.fuzz.maker import Maker
from tests.fuzz.meaning import Undefined, call, difference, stable, unread
from tests.fuzz.odd import wild_worlds
from tests.fuzz.shrink import smallest
from tests.fuzz.warm import warm
from tvm_disc import relay
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.ops.references import checks
from tvm_disc.relay.ops.table import OPS

CORPUS = Path(__file__).with_name("corpus")
FIRST, MODULES = 0, 16


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm()


def test_modules_agree_with_numpy() -> None:
    told: list[str] = []
    report = campaign.collect(range(FIRST, FIRST + MODULES), tell=told.append, attempts=0)
    assert report.findings == [], "\n".join(told)
    assert report.modules == MODULES and report.calls == 6 * MODULES


def of_sizes(seed: int, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A module whose steps compute sizes, some of them below zero in calls of other shapes."""
    monkeypatch.setattr(maker, "SIZES", 1.0)
    made = Maker(seed)
    made.inputs.dynamic = 1.0
    return made.make()


@pytest.mark.parametrize("seed", range(6))
def test_sizes_below_zero(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judge(of_sizes(seed, monkeypatch))
    assert finding is None or not finding.counts, finding


def test_a_size_below_zero_that_nothing_refuses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def case(less: int) -> Case:
        x = relay.var("x", shape=(relay.Any(),))
        size = relay.subtract(relay.shape_of(x, dtype="int64"), relay.const(np.array([less])))
        total = relay.add(relay.sum(relay.ones(size, "float32")), relay.sum(x))
        module = relay.IRModule.from_expr(relay.Function([x], total))
        return Case(relay.astext(module), [{"x": np.ones(5, "float32")}], sure=True)

    assert judge(case(3)) is None
    monkeypatch.setattr(Emitter, "require_sizes", lambda self, dims: None)
    finding = judge(case(4))
    assert finding is not None and finding.kind == "accepted an illegal call"


def test_a_whole_sum_of_a_broadcast_without_rows() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?), float32]) {
  sum(add(%x, %y))
}
"""
    world = {"x": np.ones((0, 4), "float32"), "y": np.ones(4, "float32")}
    assert campaign.judged(Case(text, [world], sure=True)) is None


@pytest.mark.parametrize("name", kept(CORPUS))
def test_what_was_found_is_found_no_more(name: str) -> None:
    finding = campaign.judged(kept(CORPUS)[name])
    assert finding is None or not finding.counts, str(finding)


def test_every_operator_with_samples_takes_part() -> None:
    used: set[str] = set()
    for row in rows.ROWS:
        for seed in range(160):
            maker = Maker(seed, [row])
            if maker.row_step() is not None:
                used.add(row.name)
                break
    assert sorted({r.name for r in rows.ROWS} - used) == []


def test_what_takes_no_part_is_compiled_by_other_tests_alone() -> None:
    """Operators without samples or a reference: a row that has them is covered from then on."""
    lowered = {r.name for r in OPS.values() if r.lower is not None or r.value is not None}
    left = lowered - {r.name for r in rows.ROWS}
    assert sorted(left) == []


def test_a_module_is_made_again_from_its_seed() -> None:
    first, second = Maker(5).make(), Maker(5).make()
    assert first.to_json() == second.to_json() != Maker(6).make().to_json()


def test_a_kept_case_is_the_case() -> None:
    case = Maker(9).make()
    assert Case.from_json(case.to_json()).to_json() == case.to_json()


# -- what a campaign must see


def simple(body: Callable[[Any], Any], *shapes: tuple[int, ...]) -> Case:
    """A function of one matrix of unknown dims."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    text = relay.astext(relay.IRModule.from_expr(relay.Function([x], body(x))))
    numbers = np.random.default_rng(0)
    worlds = [{"x": numbers.integers(-8, 9, s).astype("float32") / 4} for s in shapes]
    return Case(text, worlds, sure=True)


class Program:
    """What ``build`` gives here: a function of NumPy in the place of a program."""

    def __init__(self, work: Callable[[np.ndarray], np.ndarray]) -> None:
        self.work = work

    def __call__(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        made = self.work(x)
        if out is None:
            return made
        out[...] = made
        return out


def beyond(x: np.ndarray) -> np.ndarray:
    """Twice ``x``, and one element more is read."""
    more = np.lib.stride_tricks.as_strided(x.reshape(-1), (x.size + 1,), (x.itemsize,))
    return np.asarray((more + more)[: x.size].reshape(x.shape))


def raising(x: np.ndarray) -> np.ndarray:
    raise KeyError("foreign")


def written(x: np.ndarray) -> np.ndarray:
    made = x + x
    x[...] = 0
    return made


def refusing(x: np.ndarray) -> np.ndarray:
    raise tvm_disc.errors.GuardFailed("expected n == 3, found 2")


DEFECTS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "wrong": (lambda x: x + x + np.float32(0.1), "wrong result"),
    "shape": (lambda x: (x + x)[:1], "wrong result"),
    "type": (lambda x: (x + x).astype("float64"), "wrong result"),
    "foreign": (raising, "call raised KeyError in test_fuzz.raising"),
    "read": (beyond, "SIGSEGV in call"),
    "write": (written, "wrote to an input"),
    "drift": (lambda x: x + x + np.float32(time.perf_counter() % 1e-6), "drift"),
    "refusal": (refusing, "refused a call GuardFailed: expected n == _, found _"),
    "abort": (lambda x: os.abort(), "SIGABRT in call"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_of_a_program_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, kind = DEFECTS[name]
    monkeypatch.setattr(tvm_disc, "build", lambda *_, **__: Program(work))
    case = simple(lambda x: relay.add(x, x), (2, 3), (1, 1))
    assert campaign.judged(replace(case, seed=1)).kind == kind


def test_a_right_program_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm_disc, "build", lambda *_, **__: Program(lambda x: x + x))
    assert campaign.judged(simple(lambda x: relay.add(x, x), (2, 3), (1, 1), (0, 4))) is None


SPECIAL: dict[str, tuple[Callable[[np.ndarray], np.ndarray], bool]] = {
    "right": (lambda x: x + x, False),
    "NaN is 0": (lambda x: np.where(np.isnan(x), 0, x + x).astype("float32"), True),
    "infinity is large": (lambda x: np.clip(x + x, -3e38, 3e38), True),
    "infinity is NaN": (lambda x: np.where(np.isinf(x), np.nan, x + x).astype("float32"), True),
    "the other infinity": (lambda x: np.where(np.isinf(x), -x, x + x), True),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_nan_and_infinities_are_compared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, wrong = SPECIAL[name]
    monkeypatch.setattr(tvm_disc, "build", lambda *_, **__: Program(work))
    case = simple(lambda x: relay.add(x, x), (2, 3), (4, 1), (3, 3))
    found = [judge(replace(case, seed=seed)) for seed in range(12)]
    kinds = {finding.kind for finding in found if finding is not None}
    assert kinds == ({"wrong result of wild contents"} if wrong else set())


def unchecked(x: Any) -> Any:
    """A check that is off by default."""
    return relay.Call(relay.op.get("assert_nonzero"), [x, x], attrs={"default": False})


UNDEFINED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "integers": (lambda x: relay.cast(x, "int32"), np.nan, "integers from numbers that are not"),
    "positions": (lambda x: relay.argsort(x), np.inf, "integers from numbers that are not finite"),
    "16 bits": (lambda x: relay.exp(relay.cast(x, "float16")), 50.0, "overflow of a 16-bit float"),
    "divisors": (
        lambda x: relay.floor_divide(relay.const([7]), relay.cast(x, "int32")),
        0.0,
        "division of integers by zero",
    ),
    "transforms": (
        lambda x: relay.stft(x, n_fft=3, hop_length=1),
        np.inf,
        "infinities depend on the rounding of sines",
    ),
    "sines": (lambda x: relay.cos(x), 1e9, "cos: large arguments"),
    "checks": (lambda x: unchecked(relay.cast(x, "int32")), 0.0, "may leave out this check"),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_special_values_leave_undefined_is_not_compared(name: str) -> None:
    body, value, message = UNDEFINED[name]
    case = simple(body, (2, 3))
    with pytest.raises(Undefined, match=message):
        call(case.module, {"x": np.full((2, 3), value, "float32")}, special=True)


def test_a_check_that_a_program_lacks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    check, limits = relay.op.get("assert_inside"), [relay.const(m, "int32") for m in (0, 9)]

    def body(x: Any) -> Any:
        return relay.cast(relay.Call(check, [relay.cast(x, "int32"), *limits], attrs={}), "float32")

    made = simple(body, (2, 3), (4, 1))
    worlds = [{"x": np.abs(w["x"])} for w in made.worlds]  # wild ones have -1
    cases = [replace(made, worlds=worlds, seed=seed) for seed in range(24)]
    assert [judge(case) for case in cases[:2]] == [None, None]
    monkeypatch.setattr(tvm_disc, "build", lambda *_, **__: Program(np.trunc))
    kinds = {found.kind for case in cases if (found := judge(case)) is not None}
    assert kinds == {"accepted an illegal call"}


def test_references_of_checks_raise_errors() -> None:
    with pytest.raises(ValueError, match="out of the required range"):
        checks.inside(np.arange(3), np.array(0), np.array(2))
    with pytest.raises(ValueError, match="must not be empty"):
        checks.nonempty(np.zeros((2, 0)), axes=(1,))
    with pytest.raises(ValueError, match="must not be 0"):
        checks.nonzero(np.zeros(1), np.ones(1))


def test_a_hang_is_seen_by_its_processor_time() -> None:
    def spin(tell: Callable[[str], None]) -> None:
        tell("call 3")
        while True:
            pass

    assert run(spin, Limits(cpu_s=0.5)).end == "no end in call"


def test_a_deadlock_is_seen_by_the_clock() -> None:
    def sleep(tell: Callable[[str], None]) -> None:
        tell("build")
        signal.pause()

    assert run(sleep, Limits(wall_s=0.5)).end == "no end in build"


def test_refusals_of_variations_do_not_count() -> None:
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 3), float32]) { take(%x, 0, mode="foo") }'
    )
    world = {"x": np.zeros((2, 3), "float32")}
    finding = campaign.judged(Case(text, [world]))
    assert finding is not None and not finding.counts
    assert campaign.judged(Case(text, [world], sure=True)).counts


def test_rounding_is_no_difference_and_numbers_that_hang_on_it_are_not_compared() -> None:
    runs = [np.float32([1.0, 2.0]), np.float32([1.0, 2.001]), np.float32([1.0, 1.999])]
    assert difference(np.float32([1.0, 2.004]), runs) is None
    assert difference(np.float32([1.1, 2.0]), runs) is not None
    assert stable(runs) and not stable([np.int32(1), np.int32(2), np.int32(1)])
    assert not stable([np.float32([1.0]), np.float32([np.nan]), np.float32([1.0])])
    special = [np.float32([np.nan, np.inf, 1.0 + k * 1e-4]) for k in range(3)]
    assert stable(special) and difference(special[0], special) is None
    assert difference(np.float32([np.nan, -np.inf, 1.0]), special) is not None
    assert difference(np.float32([np.nan, np.inf, np.nan]), special) is not None


def test_a_case_is_made_small() -> None:
    """What fails is one operator of many, in one world of several."""
    case = simple(
        lambda x: relay.Tuple([relay.tanh(x), relay.nn.relu(relay.erf(relay.exp(x)))]),
        (2, 3), (5, 4), (1, 7),
    )  # fmt: skip

    def fails(candidate: Case) -> bool:
        return "erf(" in candidate.text and any(5 in a.shape for a in candidate.worlds[0].values())

    small = smallest(replace(case, worlds=case.worlds[1:] + case.worlds[:1]), fails)
    assert small.text.count("(%") == 2 and "erf(%" in small.text
    assert [list(a.shape) for a in small.worlds[0].values()] == [[5, 1]]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=[m.name for m in mutants.MUTANTS])
def test_mutants_can_be_made(mutant: mutants.Mutant) -> None:
    for name, text, was in mutant.edits:
        source = (mutants.ROOT / "tvm_disc" / name).read_text(encoding="utf-8")
        compile(mutants.replaced(source, text, was), name, "exec")
    assert set(mutant.ops) <= {r.name for r in rows.ROWS}


def test_wild_positions_lie_at_the_ends_of_axes_and_sizes_pass_64_bits() -> None:
    """Calls just outside of an axis, and with huge sizes in all integers at once, are made."""
    arrays = {"x": np.zeros((3, 5), "float32"), "i": np.ones(2, "int64"), "k": np.ones(4, "int64")}
    found = [w for s in range(200) for w in wild_worlds(Case("", [arrays], seed=s))]
    numbers = {int(v) for w in found for v in w["i"]}
    assert {-4, 3, -6, 5} <= numbers
    together = [w for w in found if len({*w["i"], *w["k"]}) == 1 and w["i"][0] > 1 << 30]
    assert any(int(w["i"][0]) ** 2 * 4 >= 1 << 64 for w in together)
    assert wild_worlds(Case("", [{"n": np.array(3, "int64")}], seed=1))[0]["n"] < 1000


def test_modules_hold_dims_known_to_be_0_and_are_built_for_older_processors() -> None:
    """Both are drawn from seeds: in some modules, not in most."""
    makers = [Maker(seed) for seed in range(200)]
    assert 2 <= sum(m.hollow for m in makers) <= 40
    targets = [m._options().get("target") for m in makers]
    assert {"x86-64-v2", "x86-64-v3", None} == set(targets)


@pytest.mark.parametrize("read", [True, False])
def test_what_nothing_reads_need_not_be_legal(read: bool) -> None:
    def body(x: Any) -> Any:
        first = relay.take(x, relay.const([0]), axis=0)
        made = relay.TupleGetItem(relay.Tuple([first, x]), 0 if read else 1)
        return relay.sum(made)

    case = simple(body, (2, 3))
    world = {"x": np.zeros((0, 3), "float32")}
    with pytest.raises(Undefined):
        call(case.module, world)
    assert unread(case.module, world) != read
