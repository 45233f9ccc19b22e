"""Reads and writes by position stay inside of their operand, for every position and every dim.

An index into an axis without elements is refused by name, unless nothing is asked for. Tensors lie
between pages that may not be touched.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, TypeMismatch
from tvm_disc.relay.ops.references.transform import gather

N = relay.Any()
PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None)
Pick = Callable[[Any, Any], Any]


@contextmanager
def between_pages(*values: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Copies that begin or end where memory ends; an empty one has no byte."""
    kept, placed = [], []
    for k, value in enumerate(values):
        size = -(-value.nbytes // PAGE) * PAGE
        memory = mmap.mmap(-1, size + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for at in (start, start + PAGE + size):
            assert LIBC.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(PAGE), 0) == 0
            kept.append(at)
        offset = PAGE + (0 if k % 2 else size - value.nbytes)
        copy = np.frombuffer(memory, value.dtype, value.size, offset).reshape(value.shape)
        copy[...] = value
        placed.append(copy)
    try:
        yield placed
    finally:
        for at in kept:
            LIBC.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(PAGE), 3)


def built(pick: Pick, data: tuple[Any, ...], picks: tuple[Any, ...]) -> Any:
    """A program that picks from float32 data."""
    x, i = relay.var("x", shape=data), relay.var("i", shape=picks, dtype="int32")
    return tvm_disc.build(relay.Function([x, i], pick(x, i)))


def place(mode: str, position: int, size: int) -> int:
    """Which element a position means."""
    if mode == "wrap":
        return position % size
    if mode == "fast" and position < 0:
        position += size
    return min(max(position, 0), size - 1)


POSITIONS = (-(2**31), -100, -3, -1, 0, 1, 2, 5, 100, 2**31 - 1)


def _add_one(x: Any) -> Any:
    return relay.add(x, relay.const(np.float32(1)))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_take(mode: str, axis: int | None, fused: bool) -> None:
    def pick(x: Any, i: Any) -> Any:
        taken = relay.take(_add_one(x) if fused else x, i, axis=axis, mode=mode)
        return _add_one(taken) if fused else taken

    executable = built(pick, (N, N), (N,))
    for shape, count in itertools.product([(0, 3), (3, 0), (0, 0), (1, 1), (2, 3)], (0, 10)):
        data = np.arange(7, 7 + np.prod(shape), dtype="float32").reshape(shape)
        picks = np.array(POSITIONS[:count], "int32")
        size = data.size if axis is None else shape[axis]
        lines = 1 if axis is None else shape[1 - axis]
        with between_pages(data, picks) as placed:
            if size == 0 and count * lines:
                with pytest.raises(GuardFailed, match=r"take.*axis \d is indexed but empty"):
                    executable(*placed)
                continue
            found = executable(*placed)
        if size:
            inside = [place(mode, int(p), size) for p in picks]
            wanted = np.take(data, np.array(inside, int), axis=axis)
            np.testing.assert_array_equal(found, wanted + 2 * fused)


@pytest.mark.parametrize(("mode", "wanted"), [("clip", 0), ("wrap", 3), ("fast", 3)])
def test_take_the_last(mode: str, wanted: int) -> None:
    x = relay.var("x", shape=(N, 4))
    last = relay.take(x, relay.const(np.int32(-1)), axis=1, mode=mode)
    value = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(
        tvm_disc.build(relay.Function([x], last))(value), value[:, wanted]
    )


@pytest.mark.parametrize("options", [{"mode": "foo"}, {"mode": ""}])
def test_an_unknown_mode_is_refused(options: Any) -> None:
    with pytest.raises(TypeMismatch, match="mode: expected one of clip, wrap, fast, found"):
        built(lambda x, i: relay.take(x, i, axis=0, **options), (N, 3), (N,))


def test_positions_are_integers() -> None:
    x, i = relay.var("x", shape=(N,)), relay.var("i", shape=(N,))
    with pytest.raises(TypeMismatch, match="expected integers, found float32"):
        tvm_disc.build(relay.Function([x, i], relay.take(x, i, axis=0)))


def test_the_largest_of_nothing_picks_nothing() -> None:
    x = relay.var("x", shape=(N,))
    executable = tvm_disc.build(relay.Function([x], relay.take(x, relay.argmax(x, axis=0), 0)))
    assert executable(np.array([1, 5, 2], "float32")) == 5
    with pytest.raises(GuardFailed, match="is indexed but empty"):
        executable(np.zeros(0, "float32"))


def _scattered(x: Any, i: Any) -> Any:
    updates = relay.cast(relay.multiply(i, i), "float32")
    return relay.scatter_elements(x, i, updates, axis=0, reduction="add")


def _cut(x: Any, i: Any) -> Any:
    ends = [relay.take(i, relay.const(np.array([k])), 0, mode="fast") for k in (0, -1)]
    return relay.strided_slice(x, *ends)


ELSE: dict[str, tuple[Pick, tuple[Any, ...], bool]] = {
    "gather": (lambda x, i: relay.gather(x, 0, i), (N, N), True),
    "gather_nd": (lambda x, i: relay.gather_nd(x, relay.reshape(i, (1, -1))), (N, N), True),
    "adv_index": (lambda x, i: relay.adv_index([x, relay.reshape(i, (-1,))]), (N, N), True),
    "take one": (lambda x, i: relay.take(x, relay.const(np.int32(7)), axis=0), (N, N), True),
    "scatter": (_scattered, (N, N), False),
    "slice": (lambda x, i: _cut(relay.reshape(x, (-1,)), relay.reshape(i, (-1,))), (N, N), False),
}


@pytest.mark.parametrize("name", ELSE)
def test_others(name: str) -> None:
    pick, dims, refuses = ELSE[name]
    executable = built(pick, (N, N), dims)
    for rows, columns in ((0, 1), (0, 2), (1, 1), (3, 2)):
        data = np.ones((rows, columns), "float32")
        for pair in itertools.product(POSITIONS, repeat=2):
            picks = np.array(pair, "int32").reshape(2, 1)[:, :columns]
            with between_pages(data, picks) as placed:
                if refuses and not rows:
                    with pytest.raises(GuardFailed, match="is indexed but empty"):
                        executable(*placed)
                    break
                found = executable(*placed)
            if refuses:
                assert (found == 1).all()


@pytest.mark.parametrize("literal", [False, True])
def test_a_branch_that_is_not_taken_asks_for_nothing(literal: bool) -> None:
    x, c = relay.var("x", shape=(N, 3)), relay.var("c", shape=(), dtype="bool")
    i = relay.const(np.int32(0)) if literal else relay.var("i", shape=(), dtype="int32")
    inputs = [x, c] if literal else [x, c, i]
    picked = relay.If(c, relay.take(x, i, axis=0), relay.sum(x, axis=0))
    executable = tvm_disc.build(relay.Function(inputs, picked))
    some, nothing = np.arange(6, dtype="float32").reshape(2, 3), np.zeros((0, 3), "float32")
    more = [] if literal else [np.int32(0)]
    np.testing.assert_array_equal(executable(some, np.bool_(True), *more), some[0])
    np.testing.assert_array_equal(executable(nothing, np.bool_(False), *more), np.zeros(3))
    with pytest.raises(GuardFailed, match="axis 0 is indexed but empty"):
        executable(nothing, np.bool_(True), *more)


def test_indices_of_gather_may_end_early_and_do_not_broadcast() -> None:
    executable = built(lambda x, i: relay.gather(x, 1, i), (N, 5), (N, N))
    data = np.arange(10, dtype="float32").reshape(2, 5)
    for rows in (0, 1, 2):
        picks = np.array([[4, 0, -1], [1, 1, 0]], "int32")[:rows]
        wanted = gather(data, picks, axis=1)
        assert wanted.shape == (rows, 3)
        np.testing.assert_array_equal(executable(data, picks), wanted)
    with pytest.raises(GuardFailed, match="must be at most"):
        executable(data, np.zeros((3, 3), "int32"))


def test_numbers_picked_of_a_known_shape_are_as_many_as_the_indices() -> None:
    sizes = relay.const(np.array([[2, 3, 4], [5, 6, 7]]))
    picks = relay.const(np.array([[2, 0]]))
    shape = relay.reshape(relay.gather(sizes, 1, picks), (-1,))
    x = relay.var("x", shape=(N,))
    executable = tvm_disc.build(relay.Function([x], relay.reshape(x, shape)))
    assert np.asarray(executable(np.zeros(8, "float32"))).shape == (4, 2)


def test_rows_of_a_sparse_matrix_that_reach_beyond_it() -> None:
    x, data = relay.var("x", shape=(N, N)), relay.var("data", shape=(N,))
    columns, begins = (relay.var(n, shape=(N,), dtype="int32") for n in ("columns", "begins"))
    executable = tvm_disc.build(
        relay.Function(
            [x, data, columns, begins], relay.nn.sparse_dense(x, [data, columns, begins])
        )
    )
    for wide in (0, 1, 3):
        for wild in (-(2**31), -1, 0, 2, 7, 2**31 - 1):
            inputs = (
                np.ones((2, wide), "float32"),
                np.ones(3, "float32"),
                np.array([0, wild, 2], "int32"),
                np.array([0, 1, wild], "int32"),
            )
            with between_pages(*inputs) as placed:
                assert np.asarray(executable(*placed)).shape == (2, 2)


def test_boxes_have_four_numbers() -> None:
    boxes, scores = relay.var("boxes", shape=(N, N, N)), relay.var("scores", shape=(N, N, N))
    most = (relay.const(np.int64(3)), relay.const(0.5), relay.const(0.0))
    found = relay.vision.all_class_non_max_suppression(boxes, scores, *most)
    executable = tvm_disc.build(relay.Function([boxes, scores], found.astuple()))
    with pytest.raises(GuardFailed, match=r"'boxes' axis 2 .* must equal 4"):
        executable(np.ones((1, 2, 3), "float32"), np.ones((1, 1, 2), "float32"))
