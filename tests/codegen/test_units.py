"""Programs in units: what was compiled once is not compiled again, and a linker joins them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import GlobalVar

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen import linker, machine_code
from tvm_disc.codegen.units import shared_units
from tvm_disc.options import Options
from tvm_disc.tir import imports
from tvm_disc.tir.builder import prim_func

W = np.linspace(-1, 1, 8 * 16).reshape(8, 16).astype("float32")
V = np.linspace(-2, 1, 5 * 8).reshape(5, 8).astype("float32")


def layers(*weights: np.ndarray, name: str = "x") -> relay.Function:
    """A chain of products, each with a rectifier, over any number of rows."""
    x = relay.var(name, shape=(relay.Any("n"), weights[0].shape[1]))
    value: Any = x
    for weight in weights:
        value = relay.nn.relu(relay.nn.dense(value, relay.const(weight)))
    return relay.Function([x], value)


def reference(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
    for weight in weights:
        x = np.maximum(x @ weight.T, 0)
    return x


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The units that go through LLVM, as they do."""
    found: list[Any] = []
    lower_unit = machine_code.lower_unit

    def noted(unit: Any, target: Any) -> Any:
        found.append(unit)
        return lower_unit(unit, target)

    monkeypatch.setattr(machine_code, "lower_unit", noted)
    return found


def names(units: list[Any]) -> list[str]:
    return sorted(n.rsplit("_", 1)[0] for unit in units for n in unit.outside)


def test_a_second_build_compiles_nothing(compiled: list[Any], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    first = tvm_disc.build(layers(W, V), options=options)
    count = len(compiled)
    assert count >= 4, "the entry, the support code, kernels, what they share"
    second = tvm_disc.build(layers(W, V), options=options)
    assert len(compiled) == count
    for rows in (0, 1, 7, 15, 16, 300):
        x = np.linspace(-1, 1, rows * 16).reshape(rows, 16).astype("float32")
        for exe in (first, second):
            np.testing.assert_allclose(exe(x), reference(x, W, V), rtol=1e-5, atol=1e-6)


def test_a_kernel_is_the_same_in_another_program(compiled: list[Any], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(layers(W, V), options=options)
    compiled.clear()
    # Weights are given to kernels, not compiled into them; names of a program do not matter.
    exe = tvm_disc.build(layers(W[:, :9].copy(), V, name="y"), options=options)
    other = [n for n in names(compiled) if n.startswith("gemm")]
    assert other == [], "register tiles are those of the first program"
    compiled.clear()
    tvm_disc.build(layers(W + 1, V - 1, name="z"), options=options)
    assert names(compiled) == [], "all but the entry, which tells the name of the input"
    x = np.ones((3, 9), "float32")
    np.testing.assert_allclose(exe(x), reference(x, W[:, :9], V), rtol=1e-5)


def test_another_process_finds_it(tmp_path: Path) -> None:
    script = (
        "import numpy as np, tvm_disc\n"
        "from tvm_disc import relay\n"
        "from tvm_disc.codegen import machine_code\n"
        "from tvm_disc.support.store import Store\n"
        "puts = []\n"
        "put = Store.put\n"
        "Store.put = lambda self, key, data: puts.append(key) or put(self, key, data)\n"
        "x = relay.var('x', shape=(relay.Any(), 8))\n"
        "w = relay.const(np.ones((4, 8), 'float32'))\n"
        "exe = tvm_disc.build(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))))\n"
        "assert exe(np.ones((2, 8), 'float32'))[0, 0] == 0.25\n"
        "print(len(puts))"
    )
    found = []
    for seed in ("1", "2"):  # of the hashes of texts
        environ = {**os.environ, "DISC_CACHE": str(tmp_path), "PYTHONHASHSEED": seed}
        environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        done = subprocess.run(
            [sys.executable, "-c", script], env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found.append(int(done.stdout))
    assert found[0] > 0 and found[1] == 0


@pytest.mark.parametrize("change", ["target", "threads", "lowering"])
def test_what_code_depends_on_is_in_its_key(
    change: str, compiled: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(cache=tmp_path, threads=1)
    tvm_disc.build(layers(W), options=options)
    compiled.clear()
    if change == "target":
        plain = "llvm -mtriple=x86_64-linux-gnu"
        tvm_disc.build(layers(W), target=plain, options=Options(cache=tmp_path, threads=1))
        assert len(compiled) >= 3, "the support code and kernels, too"
    elif change == "lowering":
        monkeypatch.setattr(machine_code, "digest_of_package", lambda *places: "other source")
        tvm_disc.build(layers(W), options=options)
        assert len(compiled) >= 3, "the support code and kernels, too"
    else:
        tvm_disc.build(layers(W), options=Options(cache=tmp_path, threads=2))
        assert compiled, "memory is kept for so many threads"


def test_a_damaged_object_is_compiled_again(compiled: list[Any], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(layers(W), options=options)
    for path in tmp_path.glob("??/*"):
        path.write_bytes(path.read_bytes()[:-7])
    compiled.clear()
    exe = tvm_disc.build(layers(W), options=options)
    assert compiled
    x = np.ones((2, 16), "float32")
    np.testing.assert_allclose(exe(x), reference(x, W), rtol=1e-5, atol=1e-6)


def test_nothing_is_kept_if_nobody_wants_it(compiled: list[Any], tmp_path: Path) -> None:
    exe = tvm_disc.build(layers(W), options=Options(cache=False))
    assert compiled == [], "LLVM sees the whole"
    path = tmp_path / "whole.so"
    exe.save(path)
    x = np.ones((3, 16), "float32")
    for program in (exe, tvm_disc.load(path)):
        np.testing.assert_allclose(program(x), reference(x, W), rtol=1e-5, atol=1e-6)


def test_a_recursive_program_needs_no_more_stack_in_units() -> None:
    mod = relay.parse(
        '#[version = "0.0.5"]\ntype L { C(int32, L), N, }\n'
        "def @main(%n: int32) -> L "
        "{ if (equal(%n, 0)) { N } else { C(%n, @main(subtract(%n, 1))) } }"
    )
    value, count = tvm_disc.build(mod)(np.int32(20_000)), 0
    while value.fields:
        count, value = count + 1, value.fields[1]
    assert count == 20_000


def test_what_tvm_is_told_is_in_the_key(compiled: list[Any], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(layers(W), options=options)
    for context in (
        tvm.transform.PassContext(config={"tirx.disable_vectorize": True}),
        tvm.transform.PassContext(opt_level=3),
        tvm.transform.PassContext(disabled_pass=["tirx.LowerIntrin_of_nothing"]),
    ):
        compiled.clear()
        with context:
            tvm_disc.build(layers(W), options=options)
        assert compiled, "code that TVM makes otherwise"
    compiled.clear()
    tvm_disc.build(layers(W), options=options)
    assert not compiled


def test_an_object_under_the_name_of_another_is_compiled_again(
    compiled: list[Any], tmp_path: Path
) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(layers(W, V), options=options)
    paths = sorted(tmp_path.glob("??/*"))
    whole = [path.read_bytes() for path in paths]
    for path, data in zip(paths, [*whole[1:], whole[0]], strict=True):
        path.write_bytes(data)
    compiled.clear()
    exe = tvm_disc.build(layers(W, V), options=options)
    assert len(compiled) >= 4
    x = np.ones((2, 16), "float32")
    np.testing.assert_allclose(exe(x), reference(x, W, V), rtol=1e-5, atol=1e-6)


LIES = {
    "writes nothing": "exit 0",
    "writes an empty file": ': > "$out"',
    "writes text": 'echo library > "$out"',
    "writes half of it": 'ld "$@" && s=$(stat -c %s "$out") && truncate -s $((s / 2)) "$out"',
    "writes its head": 'ld "$@" && truncate -s 100 "$out"',
    "leaves the code out": 'echo | cc -shared -o "$out" -x c -',
    "waits for more": "sleep 1000",
    "is killed": "kill -9 $$",
    "talks without end": "yes",
}


@pytest.fixture(params=LIES)
def lying(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A linker that does not do what it says, as a path."""
    script = tmp_path / "ld.sh"
    find = 'out=; for a in "$@"; do [ "$last" = -o ] && out=$a; last=$a; done\n'
    script.write_text(f"#!/bin/sh\n{find}{LIES[request.param]}\n")
    script.chmod(0o755)
    monkeypatch.setattr(linker, "MOST_SECONDS", 0.5)
    return str(script)


def test_a_linker_that_lies_is_not_believed(lying: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "LINKERS", ((lying,),))
    machine_code._linker.cache_clear()
    try:
        exe = tvm_disc.build(layers(W, V))
        x = np.full((3, 16), 0.5, "float32")
        np.testing.assert_allclose(exe(x), reference(x, W, V), rtol=1e-5, atol=1e-6)
    finally:
        machine_code._linker.cache_clear()


@pytest.mark.parametrize("linkers", [(), (("false",),), (("/dev/null",),)])
def test_without_a_linker_llvm_loads_the_code(
    linkers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_code, "LINKERS", linkers)
    machine_code._linker.cache_clear()
    try:
        exe = tvm_disc.build(layers(W, V))
        for rows in (0, 1, 40):
            x = np.full((rows, 16), 0.5, "float32")
            np.testing.assert_allclose(exe(x), reference(x, W, V), rtol=1e-5, atol=1e-6)
    finally:
        machine_code._linker.cache_clear()


def test_without_room_for_files_llvm_loads_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(machine_code.tempfile, "TemporaryDirectory", full)
    exe = tvm_disc.build(layers(W, V))
    x = np.full((3, 16), 0.5, "float32")
    np.testing.assert_allclose(exe(x), reference(x, W, V), rtol=1e-5, atol=1e-6)


def test_equal_kernels_are_one_unit() -> None:
    square = np.eye(16, dtype="float32")
    exe = tvm_disc.build(layers(square, square, square))
    units = exe._code.modules[0].emitted().units
    assert len({unit.key for unit in units}) == len(units)
    kernels = [n for unit in units for n in unit.outside if n.startswith("dot")]
    assert len(kernels) == 1


def test_a_linked_function_is_in_the_key_of_its_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "_TEXTS", {})
    x = tirx.Var("x", "int64")
    digests = []
    for text in ("add i64 %x, 1", "add i64 %x, 2"):
        call = tirx.call_extern("int64", "disc.test.next", x)
        func = prim_func([x], tirx.Evaluate(call))
        imports.provide(f"define i64 @disc.test.next(i64 %x) {{ %r = {text} ret i64 %r }}")
        (unit,) = shared_units({GlobalVar("f"): func})
        digests.append(unit.key)
    assert digests[0] != digests[1]
