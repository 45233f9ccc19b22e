"""One library for several levels of processors: all give the same, the best that fits runs."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same
from tests.models import function, mlp, mlp_reference, rows
from tests.processor import absent_for
from tests.relay.helpers import DATA
from tests.runtime.entries import CALLS, X, entries
from tvm_disc import relay
from tvm_disc.codegen.target import resolve_targets
from tvm_disc.errors import BadOption, Unsupported, WrongProcessor
from tvm_disc.options import Options
from tvm_disc.support import processor
from tvm_disc.support.processor import HIDDEN

LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
HERE = [level for level in LEVELS if processor.architecture() == "x86_64" and not absent_for(level)]
pytestmark = pytest.mark.skipif(not HERE, reason="needs x86-64-v2")


@cache
def small() -> Any:
    return tvm_disc.build(mlp(), target=LEVELS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "mlp.so"
    small().save(path)
    return path


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    path = tmp_path_factory.mktemp("saved") / "bert.so"
    exe = tvm_disc.build(str(DATA / "models" / "bert.relay"), target=LEVELS)
    exe.save(path)
    return exe, path


@pytest.mark.parametrize("level", LEVELS)
def test_bert_gives_the_same_at_every_level(bert: tuple[Any, Path], level: str) -> None:
    built, path = bert
    if level not in HERE:
        missing = ", ".join(absent_for(level))
        with pytest.raises(WrongProcessor, match=rf"lacks {missing} \(for {level}\); build the"):
            tvm_disc.load(path, level=level)
        return
    exe = tvm_disc.load(path, level=level)
    assert (exe.level, exe.levels) == (level, LEVELS)
    recorded = np.load(DATA / "models" / "bert.npz")
    for case in sorted({key.split(".")[0] for key in recorded.files}):
        inputs = {n: recorded[f"{case}.{n}"] for n, _, _ in exe.signature}
        assert_same(exe(**inputs), recorded[f"{case}.y"], f"{level}, case {case}")
        assert_same(built(**inputs), recorded[f"{case}.y"], f"in memory, case {case}")


def test_the_best_level_is_taken(saved: Path) -> None:
    for exe in (small(), tvm_disc.load(saved)):
        assert exe.level == HERE[-1]
        np.testing.assert_allclose(exe(X), mlp_reference(X), rtol=1e-4, atol=1e-5)
        for n in (0, 1, 7, 100):
            x = np.full((n, 16), 0.5, "float32")
            np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-4, atol=1e-5)


def test_levels_of_one_library_are_apart(saved: Path) -> None:
    """Several run in one process at a time, each with memory and threads of its own."""
    found = [tvm_disc.load(saved, level=level) for level in HERE]
    found[0].threads = 5
    for _ in range(2):
        for exe in found:
            np.testing.assert_allclose(exe(X), mlp_reference(X), rtol=1e-4, atol=1e-5)
    assert [exe.threads == 5 for exe in found] == [True] + [False] * (len(found) - 1)


def test_in_memory_a_level_can_be_asked_for() -> None:
    exe = tvm_disc.build(mlp(), target=LEVELS[:2], options=Options(level="x86-64-v2"))
    assert exe.level == "x86-64-v2"
    assert "ymm" not in exe.source("asm")
    np.testing.assert_allclose(exe(X), mlp_reference(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", ["avx512*", "avx*,fma"])
def test_a_lesser_processor_takes_a_lower_level(
    saved: Path, hidden: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(HIDDEN, hidden)
    best = [level for level in LEVELS if not absent_for(level)][-1]
    again = tmp_path / "again.so"  # a file that the system's loader has not asked about yet
    again.write_bytes(saved.read_bytes())
    exe = tvm_disc.load(again)
    assert exe.level == best != LEVELS[-1]
    np.testing.assert_allclose(exe(X), mlp_reference(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(WrongProcessor, match=r"lacks .*avx512f.* \(for x86-64-v4\)"):
        tvm_disc.load(again, level="x86-64-v4")


def test_each_function_of_a_library_asks_for_its_level(saved: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", HIDDEN: "avx*,fma"}
    names = entries(saved)
    assert {f"{name}_level_{k}" for name in ("main", "tvm_disc_direct") for k in range(3)} < set(
        names
    )
    names = [n for n in names if n.startswith("main") or n.endswith(("level_1", "level_2"))]
    command = [sys.executable, "-c", CALLS, str(saved), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        refused = name.endswith(("level_1", "level_2"))
        assert line.startswith(f"{name} {'this processor lacks' if refused else 'ran'}"), line


def test_none_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exe = tvm_disc.build(mlp(), target=LEVELS[1:], options=Options(load=False))
    exe.save(tmp_path / "high.so")
    monkeypatch.setenv(HIDDEN, "avx*,fma")
    message = (
        r"this processor lacks avx, .*\(for x86-64-v3\), and avx, .*\(for x86-64-v4\); build the "
        r'program with target="llvm -mcpu=x86-64-v2"'
    )
    with pytest.raises(WrongProcessor, match=message) as in_memory:
        exe(X)
    with pytest.raises(WrongProcessor, match=f"high.so: {message}") as saved:
        tvm_disc.load(tmp_path / "high.so")
    assert str(saved.value).endswith(str(in_memory.value))


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    """A table is read as it is at every level, weights are packed for each."""
    table = np.arange(1 << 18, dtype="float32").reshape(-1, 64)
    ids = rows("n", name="ids", dtype="int64")
    module = function(ids, relay.take(relay.const(table), ids, axis=0))
    one, three = tmp_path / "one.so", tmp_path / "three.so"
    tvm_disc.build(module, target=LEVELS[0]).save(one)
    tvm_disc.build(module, target=LEVELS).save(three)
    assert three.stat().st_size - one.stat().st_size < table.nbytes // 2
    wanted = np.array([5, 0, 4095])
    for level in HERE:
        np.testing.assert_array_equal(tvm_disc.load(three, level=level)(wanted), table[wanted])


def test_what_every_object_brings_along_is_of_its_own_level(tmp_path: Path) -> None:
    """Without F16C halves are converted by functions that TVM adds to every module."""
    x = rows("n", 7, dtype="float16")
    exe = tvm_disc.build(function(x, relay.exp(x)), target=LEVELS)
    exe.save(tmp_path / "half.so")
    done = subprocess.run(["nm", tmp_path / "half.so"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    merged = [line for line in done.stdout.splitlines() if line[17:18] == "W"]
    assert merged == []
    value = np.linspace(-3, 3, 35).astype("float16").reshape(5, 7)
    for level in HERE:
        found = tvm_disc.load(tmp_path / "half.so", level=level)(value)
        np.testing.assert_allclose(found, np.exp(value.astype("float32")), rtol=2e-3)


def test_what_is_told() -> None:
    text = small().explain()
    assert "compiled for\n  x86-64-v2" in text
    assert f"  {HERE[-1]}: runs\n" in text
    assert "compiled for\n" not in tvm_disc.build(mlp()).explain()


def test_forms_of_a_list() -> None:
    mixed = ("llvm -mcpu=x86-64-v4", {"kind": "llvm", "mcpu": "haswell"}, "x86-64-v2", "znver3")
    found = [str(t.attrs["mcpu"]) for t in resolve_targets(mixed)]
    assert found == ["x86-64-v2", "haswell", "znver3", "x86-64-v4"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([], "expected at least one CPU, found an empty list"),
        (["x86-64-v2", "llvm -mcpu=x86-64-v2"], "x86-64-v2 is given twice"),
        (
            ["x86-64-v2", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"],
            "expected CPUs of one architecture, found aarch64, x86_64",
        ),
        (["x86-64-v2", "x86-64-v9"], "expected an llvm target, found 'x86-64-v9'"),
        (["x86-64-v2", ["x86-64-v3"]], "expected one target, found 1; only build takes a list"),
    ],
)
def test_refused_lists(target: Any, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(mlp(), target=target)


def test_an_unknown_level(saved: Path) -> None:
    message = "has no level 'x86-64-v9'; its levels: x86-64-v2, x86-64-v3, x86-64-v4"
    with pytest.raises(BadOption, match=message):
        tvm_disc.load(saved, level="x86-64-v9")
    with pytest.raises(BadOption, match=message):
        tvm_disc.build(mlp(), target=LEVELS, options=Options(level="x86-64-v9"))


def test_tuning_takes_one_target(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="expected one target, found 3; only build takes a list"):
        tvm_disc.tune(mlp(), records=tmp_path / "r.jsonl", target=LEVELS)
