"""Calls: every kind of tensor, by position and by name; errors in the user's terms."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import function, mlp, mlp_reference, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, GuardFailed
from tvm_disc.runtime.arrays import LAYOUT, arrays_are_readable

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def net() -> Any:
    return tvm_disc.build(mlp())


@pytest.fixture(scope="module")
def pair() -> Any:
    x, y = rows("b", 4), rows("b", 4, name="y")
    return tvm_disc.build(function(x, y, relay.Tuple([relay.add(x, y), relay.multiply(x, y)])))


@pytest.mark.parametrize("n", [0, 1, 3, 8, 9, 64, 1000])
def test_one_program_serves_every_size(net: Any, n: int) -> None:
    x = RNG.standard_normal((n, 16)).astype("float32")
    found = net(x)
    assert isinstance(found, np.ndarray) and found.shape == (n, 10)
    if n:
        np.testing.assert_allclose(found, mlp_reference(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("header", [3, 4, 7])
def test_items_of_a_tuple_are_read_where_the_interpreter_has_them(net: Any, header: int) -> None:
    x, y = RNG.standard_normal((5, 16)).astype("float32"), np.zeros((5, 10), "float32")
    # What CPython 3.14 has before the items is no array.
    tuples = [np.array([1, 1, 1, *[8] * (header - 3), id(a)], "int64") for a in (x, y)]
    layout = np.array([id(np.ndarray), 8 * header], "int64")
    net.ready()
    assert net._direct(*(a.ctypes.data for a in (layout, *tuples))) == 0
    np.testing.assert_allclose(y, mlp_reference(x), rtol=1e-4, atol=1e-5)


def test_this_interpreter_is_known(net: Any) -> None:
    # Else every call takes the long way.
    assert arrays_are_readable()
    net.ready()
    inputs, outputs = (np.ones((3, 16), "float32"),), (np.zeros((3, 10), "float32"),)
    assert net._direct(LAYOUT, id(inputs), id(outputs)) == 0
    np.testing.assert_allclose(outputs[0], mlp_reference(inputs[0]), rtol=1e-4, atol=1e-5)


def test_by_name_and_tuples(pair: Any) -> None:
    x, y = (RNG.standard_normal((5, 4)).astype("float32") for _ in range(2))
    for result in (pair(x, y), pair(x, y=y), pair(y=y, x=x)):
        np.testing.assert_array_equal(result[0], x + y)
        np.testing.assert_array_equal(result[1], x * y)


def test_tvm_tensors_stay_tvm_tensors(net: Any) -> None:
    x = RNG.standard_normal((2, 16)).astype("float32")
    found = net(tvm.runtime.tensor(x))
    assert not isinstance(found, np.ndarray)
    np.testing.assert_allclose(np.from_dlpack(found), mlp_reference(x), rtol=1e-4, atol=1e-5)


def test_results_do_not_share_memory(net: Any) -> None:
    x = RNG.standard_normal((4, 16)).astype("float32")
    first = net(x)
    kept = first.copy()
    net(x + 1)
    np.testing.assert_array_equal(first, kept)


def test_misaligned_strided_and_read_only_inputs(net: Any) -> None:
    x = RNG.standard_normal((6, 16)).astype("float32")
    expected = net(x)
    buffer = np.zeros(6 * 16 + 1, "float32")[1:].reshape(6, 16)
    buffer[:] = x
    wide = np.zeros((6, 32), "float32")
    wide[:, ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    for same in (buffer, wide[:, ::2], np.asfortranarray(x), frozen):
        np.testing.assert_array_equal(net(same), expected)


def test_many_threads_share_one_program(net: Any) -> None:
    inputs = [RNG.standard_normal((n, 16)).astype("float32") for n in (1, 5, 40, 300)]
    expected = [net(x) for x in inputs]
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(200):
            k = int(rng.integers(len(inputs)))
            if not np.array_equal(net(inputs[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"expected 1 input \(x\), found 0"),
        ((np.zeros((1, 16), "float32"),) * 2, {}, r"expected 1 input \(x\), found 2"),
        ((), {"z": np.zeros((1, 16), "float32")}, "unknown input z; expected x"),
        (
            (np.zeros((1, 16), "float32"),),
            {"x": np.zeros((1, 16), "float32")},
            "repeated input x",
        ),
        ((np.zeros((1, 16)),), {}, r"input 'x': expected dtype float32; found x: float64\[1, 16\]"),
        ((np.zeros(16, "float32"),), {}, r"input 'x': expected 2 dims; found x: float32\[16\]"),
        ((np.zeros((1, 15), "float32"),), {}, r"input 'x' axis 1: expected 16; found .*\[1, 15\]"),
        (("text",), {}, "input 'x': expected a tensor, found str"),
    ],
)
def test_bad_inputs(net: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        net(*args, **kwargs)
    assert net(np.zeros((2, 16), "float32")).shape == (2, 10)


def test_equal_names_must_be_equal_sizes(pair: Any) -> None:
    with pytest.raises(BadInput, match=r"input 'y' axis 0: expected b; found .*y: float32\[3, 4\]"):
        pair(np.zeros((2, 4), "float32"), np.zeros((3, 4), "float32"))


def test_a_failed_guard_names_the_inputs() -> None:
    x, y = rows("?", 4), rows("?", 4, name="y")
    exe = tvm_disc.build(function(x, y, relay.concatenate([x, y], axis=1)))
    assert exe(np.zeros((2, 4), "float32"), np.zeros((2, 4), "float32")).shape == (2, 8)
    with pytest.raises(GuardFailed, match=r"'x' axis 0 .* must equal input 'y' axis 0 .*found x"):
        exe(np.zeros((2, 4), "float32"), np.zeros((3, 4), "float32"))


def test_constraints_are_checked() -> None:
    x = rows("s", 4)
    exe = tvm_disc.build(function(x, relay.exp(x)), constraints=["s % 8 == 0", "s <= 64"])
    assert exe(np.zeros((16, 4), "float32")).shape == (16, 4)
    with pytest.raises(GuardFailed, match="s"):
        exe(np.zeros((12, 4), "float32"))


def test_workspace_is_known_before_running(net: Any) -> None:
    small, large = (net.workspace_bytes({"x": (n, 16)}) for n in (1, 1000))
    assert 0 < small < large
    with pytest.raises(BadInput, match="shape of 'x'"):
        net.workspace_bytes({"x": (1,)})


def test_explain_tells_kernels_facts_and_refusals(net: Any) -> None:
    text = net.explain({"x": (3, 16)})
    for part in ("kernel calls", "matmul + add + nn.relu", "symbols", "guards", "not fused"):
        assert part in text
    assert "input 'x' axis 0" in text and "workspace:" in text


def test_machine_code_is_ready_when_build_returns() -> None:
    exe = tvm_disc.build(mlp(), target="llvm -mcpu=native")
    assert "load" in exe.timings
    assert exe._main != exe._first_call


@pytest.mark.parametrize(
    "named",
    [{"options": tvm_disc.Options(load=False)}, {"target": "llvm -mcpu=x86-64-v2"}],
    ids=["not asked for", "another machine"],
)
def test_machine_code_of_programs_to_save_waits_for_a_call(named: Any, tmp_path: Path) -> None:
    exe = tvm_disc.build(mlp(), **named)
    assert "load" not in exe.timings
    exe.save(tmp_path / "a.so")
    assert exe._main == exe._first_call


def test_a_program_that_is_ready_asks_the_runtime_for_no_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its lock may be held, in the child of a fork by a thread that does not exist there."""
    exe = tvm_disc.build(mlp())
    exe.ready()
    monkeypatch.setattr(exe._code, "function", lambda name: pytest.fail(f"asked for {name}"))
    exe.threads = 2
    assert exe.threads == 2
    exe.keep_memory(1 << 20)
    exe.memory_statistics()
    assert exe(np.ones((3, 16), "float32")).shape == (3, 10)
