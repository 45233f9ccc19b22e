"""Results that go past the caches: the same values as ever, whatever the address and the shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.machine import machine_of
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.dispatch.cost_model import Memory
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.llvm_ops import streams
from tvm_disc.tir.non_temporal import far_elems

RNG = np.random.default_rng(0)
SHAPES = [(1, 1), (1, 9), (1, 64), (3, 64), (7, 1024), (8, 1008), (5, 48), (64, 640), (9, 257),
          (2, 8192), (33, 96), (1, 4096), (0, 64), (16, 0)]  # fmt: skip


def normed(x: Any) -> Any:
    centred = relay.subtract(x, relay.mean(x, axis=-1, keepdims=True))
    square = relay.mean(relay.multiply(centred, centred), axis=-1, keepdims=True)
    return relay.divide(centred, relay.sqrt(relay.add(square, relay.const(np.float32(1e-5)))))


def numpy_normed(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


CASES: dict[str, tuple[Any, Any]] = {
    "relu": (lambda x, y: relay.nn.relu(x), lambda x, y: np.maximum(x, 0)),
    "add": (relay.add, lambda x, y: x + y),
    "softmax": (lambda x, y: relay.nn.softmax(x), lambda x, y: numpy_softmax(x)),
    "norm of a sum": (lambda x, y: normed(relay.add(x, y)), lambda x, y: numpy_normed(x + y)),
    "norm of exponentials": (
        lambda x, y: normed(relay.exp(x)),
        lambda x, y: numpy_normed(np.exp(x)),
    ),
    "two results": (
        lambda x, y: relay.Tuple([relay.add(x, y), relay.multiply(x, y)]),
        lambda x, y: (x + y, x * y),
    ),
}


def program(name: str, dtype: str = "float32", threads: int = 1) -> Any:
    x, y = (relay.var(n, shape=(relay.Any("r"), relay.Any("c")), dtype=dtype) for n in "xy")
    options = tvm_disc.Options(threads=threads)
    return tvm_disc.build(relay.Function([x, y], CASES[name][0](x, y)), options=options)


def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of a kernel that touches 4 KiB do not fit the caches."""
    memory = Memory(far_bytes=4096)
    monkeypatch.setattr("tvm_disc.codegen.machine.memory_for", lambda processor: memory)


def stores_past(exe: Any) -> bool:
    """Whether a program stores past the caches exactly if its target can."""
    able = streams(isa_of(resolve_target()), 64)
    return ("vmovnt" in exe.source("asm")) == able


def check(name: str, exe: Any, shape: tuple[int, int], dtype: str, offset: int) -> None:
    """Results in memory that begins so many elements after a line."""
    x, y = (RNG.standard_normal(shape).astype(dtype) for _ in "xy")
    expected = CASES[name][1](*(v.astype("float64") for v in (x, y)))
    expected = expected if isinstance(expected, tuple) else (expected,)
    outs = []
    for _ in expected:
        raw = np.full(x.size + 64, 7, dtype)
        first = (-raw.ctypes.data % 64) // raw.itemsize + offset
        outs.append((raw, first, raw[first : first + x.size].reshape(shape)))
    got = [o for _, _, o in outs]
    exe(x, y, out=tuple(got) if len(got) > 1 else got[0])
    for value, (raw, first, out) in zip(expected, outs, strict=True):
        np.testing.assert_allclose(out, value, rtol=2e-5, atol=2e-5, err_msg=f"{name} {shape}")
        assert (raw[:first] == 7).all() and (raw[first + x.size :] == 7).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_every_shape_and_place(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_caches(monkeypatch)
    exe = program(name, threads=threads)
    assert stores_past(exe)
    for shape in SHAPES if name.startswith(("relu", "add", "two")) else SHAPES[:-1]:
        for offset in (0, 4, 15, 16):
            check(name, exe, shape, "float32", offset)


@pytest.mark.parametrize("name", ["relu", "softmax", "norm of a sum"])
def test_results_larger_than_the_caches(name: str) -> None:
    exe = program(name, threads=2)
    far_bytes = machine_of(resolve_target(), tvm_disc.Options()).memory.far_bytes
    elems = far_elems(far_bytes, 2)
    for shape in ((512, elems // 512), (elems // 1008 + 1, 1008), (elems // 257 + 1, 257)):
        check(name, exe, shape, "float32", 0)


def test_other_types_are_stored_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    small_caches(monkeypatch)
    exe = program("add", "float64")
    check("add", exe, (64, 640), "float64", 0)
    assert "vmovnt" not in exe.source("asm")


@pytest.mark.parametrize("mcpu", ["skylake-avx512", "znver3"])
def test_who_stores_past_the_caches(mcpu: str) -> None:
    target = {"kind": "llvm", "mcpu": mcpu}

    def stores(source: Any, *inputs: Any) -> int:
        exe = tvm_disc.build(relay.Function(list(inputs), source), target=target)
        return int(exe.source("asm").count("vmovntps"))

    x = relay.var("x", shape=(relay.Any(), relay.Any()), dtype="float32")
    small = relay.var("x", shape=(1000, relay.Any()), dtype="float32")
    fixed = relay.var("x", shape=(1000, 1000), dtype="float32")
    assert stores(relay.nn.relu(x), x) > 0
    assert stores(relay.nn.relu(small), small) > 0
    assert stores(relay.nn.softmax(x), x) > 0
    assert stores(relay.nn.relu(fixed), fixed) == 0  # 4 MB are never large
    assert stores(relay.nn.softmax(fixed), fixed) == 0
    assert stores(relay.erf(x), x) == 0  # it computes for longer than memory takes
