"""Recorded models: one program for every shape, the outputs that were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same
from tests.models import load
from tests.relay.helpers import DATA, run
from tvm_disc import relay
from tvm_disc.codegen.plan.program import Conditional, Launch, Loop, Program, Region
from tvm_disc.compile import compile_counter
from tvm_disc.errors import BadInput, GuardFailed

MODELS = ["bert", "cnn", "dlrm"]
PRINTED = sorted(p.stem for p in (DATA / "printed").glob("*.npz"))
SOURCES = [(n, kind) for n in PRINTED for kind in ("relay", "json")]


def as_tuple(out: Any) -> tuple[np.ndarray, ...]:
    """All results of a call."""
    return out if isinstance(out, tuple) else (out,)


@cache
def compiled(name: str) -> Any:
    """A model of ``MODELS``, compiled once for all tests of a process."""
    return tvm_disc.build(load(DATA / "models" / f"{name}.relay"))


@pytest.mark.parametrize("name", MODELS)
def test_imported_model(name: str) -> None:
    recorded = np.load(DATA / "models" / f"{name}.npz")
    cases = sorted({key.split(".")[0] for key in recorded.files})
    assert len(cases) > 2
    with compile_counter() as count:
        executable = tvm_disc.build(load(DATA / "models" / f"{name}.relay"))
        for case in cases:
            inputs = {n: recorded[f"{case}.{n}"] for n, _, _ in executable.signature}
            out = executable(**inputs)
            assert_same(out, recorded[f"{case}.y"], f"{name} case {case}")
    assert count == [1]


@pytest.mark.parametrize(("name", "kind"), SOURCES, ids=[f"{n}-{k}" for n, k in SOURCES])
def test_printed_module(name: str, kind: str) -> None:
    path = DATA / "printed" / f"{name}.{kind}"
    recorded, weights = np.load(path.with_suffix(".npz")), path.with_suffix(".params")
    params = relay.load_param_dict(weights.read_bytes()) if weights.exists() else {}
    with compile_counter() as count:
        executable = tvm_disc.build(load(path), params=params)
        for case in sorted({key.split("_")[0] for key in recorded.files}):
            names = [n for n, _, _ in executable.signature]
            inputs = {n: recorded[f"{case}_in{i}"] for i, n in enumerate(names)}
            wanted = [k for k in recorded.files if k.startswith(f"{case}_out")]
            found = as_tuple(executable(**inputs))
            assert len(found) == len(wanted)
            for value, key in zip(found, wanted, strict=True):
                assert_same(value, recorded[key], f"{name} {key}")
    assert count == [1]


@pytest.mark.parametrize("kind", ["relay", "json"])
def test_rows_that_only_the_data_can_count(kind: str) -> None:
    with compile_counter() as count:
        executable = tvm_disc.build(load(DATA / "printed" / f"argwhere_gather.{kind}"))
        rng = np.random.default_rng(0)
        for shape in ((3, 4), (1, 1), (17, 5), (0, 3), (3, 0), (64, 33)):
            x = rng.uniform(-1, 1, shape).astype("float32")
            for value in (x, -np.abs(x), np.abs(x) + 1):
                places, picked = executable(value)
                assert_same(places, np.argwhere(value > 0).astype("int32"), f"{shape}")
                assert_same(picked, value[value > 0], f"{shape}")
    assert count == [1]


# -- what bert became --------------------------------------------------------------------------

BERT_LAUNCHES = 18


@pytest.fixture
def bert_program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """The host program of bert."""
    seen: list[Program] = []
    lower = tvm_disc.compile.lower_program

    def spy(*args: Any) -> Program:
        seen.append(lower(*args))
        return seen[-1]

    monkeypatch.setattr(tvm_disc.compile, "lower_program", spy)
    tvm_disc.build(load(DATA / "models" / "bert.relay"))
    return seen[0]


def launches(region: Region) -> Iterator[Launch]:
    """Every kernel call of a region and what is inside it."""
    for step in region.instructions:
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, Conditional):
            yield from launches(step.then_region)
            yield from launches(step.else_region)
        elif isinstance(step, Loop):
            yield from launches(step.header)
            yield from launches(step.body)


def test_bert_launches_few_kernels(bert_program: Program) -> None:
    found = [launch.kernel for launch in launches(bert_program.region)]
    kinds = [k.kind for k in found]
    assert len(found) <= BERT_LAUNCHES, [k.name for k in found]
    # Two layers: per layer q/k/v, attention, output, two of the feed-forward part.
    assert kinds.count("dot") == 8
    assert kinds.count("attention") == 2
    # The embeddings' normalisation, then per layer two normalisations.
    assert kinds.count("row") == 5


def test_bert_computes_no_shapes_in_kernels(bert_program: Program) -> None:
    for kernel in bert_program.kernels:
        small = [len(o.shape) <= 1 and o.dtype.startswith("int") for o in kernel.outputs]
        assert not all(small), f"{kernel.name} only computes {[o.op for o in kernel.outputs]}"


# -- shapes at the borders ---------------------------------------------------------------------


@pytest.mark.parametrize(("b", "s"), [(2, 1), (1, 64), (7, 13), (16, 2)])
def test_bert_at_other_shapes(b: int, s: int) -> None:
    rng = np.random.default_rng(b * 100 + s)
    ids, mask = rng.integers(0, 50, (b, s)), np.ones((b, s), "int64")
    mask[:, s // 2 + 1 :] = 0
    module = load(DATA / "models" / "bert.relay")
    wanted = run(module["main"], {"ids": ids, "mask": mask})
    assert_same(compiled("bert")(ids, mask), wanted, f"{b} x {s}")


def test_bert_reads_only_the_masks_it_needs() -> None:
    """The model picks a mask per sentence by number, as its own reference does."""
    ids, mask = np.ones((2, 5), "int64"), np.tri(3, 5, 2, dtype="int64")
    wanted = run(load(DATA / "models" / "bert.relay")["main"], {"ids": ids, "mask": mask})
    assert_same(compiled("bert")(ids, mask), wanted, "three masks")


@pytest.mark.parametrize(("b", "s"), [(0, 8), (3, 0), (0, 0)])
def test_bert_of_nothing(b: int, s: int) -> None:
    ids = np.zeros((b, s), "int64")
    assert compiled("bert")(ids, ids).shape == (b, s, 64)


@pytest.mark.parametrize(
    ("name", "shapes", "out"),
    [
        ("cnn", [(0, 3, 16, 16)], (0, 10)),
        ("cnn", [(1, 3, 1, 1)], (1, 10)),
        ("dlrm", [(0, 13), (0, 4)], (0, 1)),
    ],
)
def test_smallest_inputs(name: str, shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> None:
    executable = compiled(name)
    inputs = [
        np.zeros(shape, dtype)
        for shape, (_, _, dtype) in zip(shapes, executable.signature, strict=True)
    ]
    found = executable(*inputs)
    assert found.shape == out and np.isfinite(found).all()


# -- wrong inputs ------------------------------------------------------------------------------

IDS = np.zeros((2, 5), "int64")
LONG = np.zeros((1, 65), "int64")


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        (LONG, LONG, r"input 'ids' axis 1 \(ids_1\) must be at most 64; found ids: int64\[1, 65\]"),
        (IDS, IDS[:, :4], r"must equal input 'mask' axis 1 \(mask_1\), or one of them must be 1"),
        (IDS, IDS[:, :0], r"must equal input 'mask' axis 1 \(mask_1\), or one of them must be 1"),
    ],
)
def test_shapes_that_do_not_fit(ids: np.ndarray, mask: np.ndarray, message: str) -> None:
    with pytest.raises(GuardFailed, match=message):
        compiled("bert")(ids, mask)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((IDS[0], IDS), {}, r"input 'ids': expected 2 dims; found ids: int64\[5\]"),
        ((IDS, IDS[None]), {}, r"input 'mask': expected 2 dims"),
        ((IDS.astype("int32"), IDS), {}, r"input 'ids': expected dtype int64"),
        ((IDS.astype("float64"), IDS), {}, r"expected dtype int64; found ids: float64\[2, 5\]"),
        ((IDS, IDS.astype("bool")), {}, r"input 'mask': expected dtype int64"),
        ((IDS,), {}, r"expected 2 inputs \(ids, mask\), found 1"),
        ((IDS, IDS, IDS), {}, r"expected 2 inputs \(ids, mask\), found 3"),
        ((), {"ids": IDS}, r"missing input mask; expected ids, mask"),
        ((), {"ids": IDS, "mask": IDS, "x": IDS}, r"unknown input x; expected ids, mask"),
        ((IDS, IDS), {"ids": IDS}, r"repeated input ids"),
        (("text", IDS), {}, r"input 'ids': expected a tensor, found str"),
    ],
)
def test_wrong_inputs(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compiled("bert")(*args, **kwargs)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "message"),
    [
        ((1, 3, 16, 16), "float64", BadInput, r"input 'x': expected dtype float32"),
        ((1, 4, 16, 16), "float32", (BadInput, GuardFailed), r"input 'x'.*3"),
        ((3, 16, 16), "float32", BadInput, r"input 'x': expected 4 dims"),
    ],
)
def test_wrong_images(
    shape: tuple[int, ...], dtype: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        compiled("cnn")(np.zeros(shape, dtype))
