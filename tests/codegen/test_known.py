"""Kernels whose code is there are neither emitted nor compiled again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen import known
from tvm_disc.codegen.known import making_of
from tvm_disc.compile import prepare
from tvm_disc.options import Options
from tvm_disc.schedules import kernel as kernels
from tvm_disc.support.debug import Trace
from tvm_disc.support.store import Store

SIZES = ((0, 3), (1, 1), (7, 5), (16, 64), (33, 17), (300, 40))


def rows(name: str = "x", dim: str = "n", scale: float = 2.0) -> relay.Function:
    """A scaled softmax over rows of any number and length."""
    x = relay.var(name, shape=(relay.Any(dim), relay.Any()))
    return relay.Function([x], relay.nn.softmax(relay.multiply(x, relay.const(scale))))


def reference(x: np.ndarray, scale: float = 2.0) -> np.ndarray:
    power = np.exp(scale * (x - x.max(axis=1, keepdims=True, initial=-np.inf)))
    return power / power.sum(axis=1, keepdims=True)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose functions are made, as they are."""
    found: list[str] = []
    make = kernels._functions

    def noted(entry: Any, group: Any, *more: Any) -> Any:
        found.append(group.name)
        return make(entry, group, *more)

    monkeypatch.setattr(kernels, "_functions", noted)
    return found


def check(exe: Any, scale: float = 2.0) -> None:
    for size in SIZES:
        x = np.linspace(-3, 3, size[0] * size[1]).reshape(size).astype("float32")
        np.testing.assert_allclose(exe(x), reference(x, scale), rtol=2e-6, atol=1e-7)


def test_a_kernel_that_is_there_is_not_emitted(emitted: list[str], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    check(tvm_disc.build(rows(), options=options))
    assert len(emitted) == 1
    # Whatever a program calls its inputs and dims.
    check(tvm_disc.build(rows("pixels", "batch"), options=options))
    assert len(emitted) == 1
    check(tvm_disc.build(rows(scale=0.5), options=options), scale=0.5)
    assert len(emitted) == 2, "another constant is another kernel"


def test_operands_that_relax_would_not_infer(emitted: list[str], tmp_path: Path) -> None:
    """Kernels take places of 32 bits, and rows of boundaries; Relax's types do not."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    places = relay.var("places", shape=(2, relay.Any()), dtype="int32")
    ends = relay.var("ends", shape=(relay.Any(), relay.Any()))
    fields = [relay.gather_nd(x, places), relay.searchsorted(ends, x)]
    options = Options(cache=tmp_path)
    made = []
    for _ in range(2):
        exe = tvm_disc.build(
            relay.Function([x, places, ends], relay.Tuple(fields)), options=options
        )
        made.append(len(emitted))
        for count, at in ((1, 1), (2, 7), (5, 0)):
            value = np.linspace(0, 9, 3 * count, dtype="float32").reshape(count, 3)
            rows = np.tile(np.arange(4, dtype="float32"), (count, 1))
            where = np.stack([np.arange(at) % count, np.arange(at) % 3]).astype("int32")
            gathered, found = exe(value, where, rows)
            np.testing.assert_array_equal(gathered, value[tuple(where)])
            np.testing.assert_array_equal(found, np.searchsorted(rows[0], value))
    assert made[0] == made[1] > 0


def test_whoever_reads_the_code_sees_all_of_it(emitted: list[str], tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "cache")
    first = tvm_disc.build(rows(), options=options)
    second = tvm_disc.build(rows(), options=options)
    assert len(emitted) == 1
    texts = [exe._code.modules[0].source("ll") for exe in (first, second)]
    texts = [re.sub("0x[0-9a-f]+", "", text) for text in texts]  # addresses, as names of types
    assert texts[0] == texts[1]
    tvm_disc.build(rows(), options=Options(cache=tmp_path / "cache", dump_dir=tmp_path / "dump"))
    [text] = (tmp_path / "dump").glob("*program.tir.py")
    assert "_body" in text.read_text()


@pytest.mark.parametrize("damage", ["object", "name"])
def test_code_that_is_gone_is_made_again(damage: str, emitted: list[str], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(rows(), options=options)
    for path in tmp_path.glob("??/*"):
        if (path.stat().st_size < 400) == (damage == "name"):
            path.unlink()
    check(tvm_disc.build(rows(), options=options))
    assert len(emitted) == 2


def test_two_groups_of_one_code_are_linked_once(tmp_path: Path) -> None:
    """One is known and the other is not: what they call each other by is the same symbol."""
    x = relay.var("x", shape=(relay.Any(), 8))
    options = Options(cache=tmp_path)
    tvm_disc.build(relay.Function([x], relay.sum(x, axis=1)), options=options)
    y = relay.sum(x, axis=1)
    z = relay.sum(relay.reshape(relay.argwhere(x), (-1, 8)), axis=1)
    exe = tvm_disc.build(relay.Function([x], relay.Tuple([y, z])), options=options)
    values, counts = exe(np.ones((12, 8), "float32"))
    np.testing.assert_array_equal(values, np.full(12, 8, "float32"))
    assert counts.shape == (24,)


def making(options: Options, **more: Any) -> str | None:
    prepared = prepare(rows(), None, None, more.get("constraints", ()), options, Trace())
    [kernel] = prepared.library.kernels()
    for name, value in more.get("machine", {}).items():
        setattr(prepared.machine, name, value)
    return making_of(kernel, prepared.machine)


def test_what_tir_is_made_from_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    first = making(Options(threads=2))
    assert first is not None and making(Options(threads=2)) == first
    others = [
        making(Options(threads=1)),
        making(Options(threads=2), constraints=["x.1 % 16 == 0"]),
        making(Options(threads=2), machine={"own_threads": "else"}),
        making(Options(threads=2), machine={"memory": "else"}),
    ]
    monkeypatch.setattr(known, "digest_of_package", lambda: "another compiler")
    others.append(making(Options(threads=2)))
    assert None not in others
    assert len({first, *others}) == 6


def test_what_is_not_all_told_has_no_key() -> None:
    assert making(Options(), machine={"templates": {"row": (("mine", None),)}}) is None
    assert making(Options(), machine={"device": object()}) is None


def test_what_another_context_made_is_not_taken(emitted: list[str], tmp_path: Path) -> None:
    options = Options(cache=tmp_path)
    tvm_disc.build(rows(), options=options)
    with tvm.transform.PassContext(config={"tirx.disable_vectorize": True}):
        tvm_disc.build(rows(), options=options)
    assert len(emitted) == 2


def test_a_name_that_tells_of_nothing_is_none(emitted: list[str], tmp_path: Path) -> None:
    """Entries of an older format, or another's: they are whole, and no JSON of ours."""
    options = Options(cache=tmp_path)
    tvm_disc.build(rows(), options=options)
    store = Store(tmp_path)
    for path in [p for p in tmp_path.glob("??/*") if p.stat().st_size < 400]:
        for text in (b"", b"{}", b'["a"]', b"[1, 2]", b"\xff"):
            store.put(path.name, text)
            count = len(emitted)
            check(tvm_disc.build(rows(), options=options))
            assert len(emitted) == count + 1
