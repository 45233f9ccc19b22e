"""Slices in every form against NumPy, over all small dims and bounds around them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, TypeMismatch
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.slice import slice_extent
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_passes.propagation.context import substitute
from tvm_disc.shape import Solver

DIMS = range(5)
STEPS = (-3, -2, -1, 1, 2, 3)
NEAR = range(-7, 8)
FAR = (-(2**63), -(2**31), 2**31 - 1, 2**62, 2**63 - 1)


def number(expr: Any, **dims: Any) -> int:
    """An expression of dims, evaluated."""
    symbols = {v: i64(dims[v.name]) for v in tirx.analysis.undefined_vars(expr)}
    return int(tvm.sym.Analyzer().simplify(substitute(expr, symbols)))


@pytest.mark.parametrize("step", STEPS)
def test_bounds_known_at_compile_time(step: int) -> None:
    """The position and length that are computed of a dim are NumPy's, for every dim."""
    solver = Solver()
    n = solver.symbol("n", "input 'x' axis 0")
    bounds = (*NEAR, *FAR, None)
    for begin, end in itertools.product(bounds, bounds):
        first, length, _ = slice_extent(Emitter(solver), n, begin, end, step)
        for dim in DIMS:
            picked = range(dim)[begin:end:step]
            found = number(i64(0) + length, n=dim)
            assert found == len(picked), (begin, end, dim)
            if picked:
                assert number(i64(0) + first, n=dim) == picked[0], (begin, end, dim)


def computed(step: int, mode: str = "end", dtype: str = "int64") -> Any:
    """``x[:, begin:end:step]`` with bounds that only the data knows."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    begin, end = (relay.var(v, shape=(2,), dtype=dtype) for v in ("begin", "end"))
    steps = relay.const(np.array([1, step], dtype))
    cut = relay.strided_slice(x, begin, end, steps, slice_mode=mode)
    return tvm_disc.build(relay.Function([x, begin, end], cut))


def cases(bounds: Any) -> Iterator[tuple[np.ndarray, int, int]]:
    """(operand, begin, end)."""
    for dim in DIMS:
        x = np.arange(2 * dim, dtype="float32").reshape(2, dim)
        yield from ((x, b, e) for b, e in itertools.product(bounds, bounds))


@pytest.mark.parametrize("step", STEPS)
def test_bounds_known_at_run_time(step: int) -> None:
    exe = computed(step)
    for x, b, e in cases((*NEAR, *FAR)):
        found = exe(x, np.array([0, b]), np.array([2, e]))
        np.testing.assert_array_equal(found, x[:, b:e:step], f"{x.shape} {b}:{e}")


RUN_TIME_STEPS = (*STEPS, -7, 7, -(2**62), 2**63 - 1, -(2**63))


def stepped(dtype: str = "int64", **known: Any) -> Any:
    """``x[begin:end:step, begin:end:step]`` of numbers of which only the data knows some."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    given = {k: relay.var(k, shape=(2,), dtype=dtype) for k in ("begin", "end", "step")}
    bounds = {k: relay.const(np.array(v, dtype)) for k, v in known.items()}
    params = [x, *(v for k, v in given.items() if k not in known)]
    return tvm_disc.build(
        relay.Function(params, relay.strided_slice(x, *(given | bounds).values()))
    )


def test_steps_known_at_run_time() -> None:
    """Both ways, of every bound, with other steps along other axes."""
    exe = stepped()
    for step in RUN_TIME_STEPS:
        for x, b, e in cases((-7, -2, -1, 0, 1, 3, 6, *FAR)):
            other = -1 if step > 0 else 1
            numbers = (np.array(v) for v in ([-1, b], [-9, e], [other, step]))
            wanted = x[-1:-9:other, b:e:step]
            found = exe(x, *numbers)
            np.testing.assert_array_equal(found, wanted, f"{x.shape} {b}:{e}:{step}")


def test_steps_known_at_run_time_between_known_bounds() -> None:
    exe = stepped("int32", begin=(0, -1), end=(9, -5))
    for rows, columns in ((1, 1), (3, 4), (7, 2), (0, 5), (64, 33)):
        x = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
        for step in (-3, -1, 1, 2, 40):
            found = exe(x, np.array([2, step], "int32"))
            np.testing.assert_array_equal(found, x[0:9:2, -1:-5:step])


def test_a_step_of_0_is_refused_when_it_is_read() -> None:
    exe = stepped()
    with pytest.raises(GuardFailed, match="the slice step must not be 0"):
        exe(np.zeros((3, 4), "float32"), np.zeros(2, int), np.ones(2, int), np.array([1, 0]))


@pytest.mark.parametrize("read", [("begin", "end", "step"), ("step",), ("end",), ()])
def test_a_part_that_is_set(read: tuple[str, ...]) -> None:
    """``x[begin:end:step] = y`` along the first axis, of numbers of which data knows some."""
    exact = {"begin": [-1], "end": [-6], "step": [-2]}
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any())) for n in "xy")
    given = {k: relay.var(k, shape=(1,), dtype="int64") for k in read}
    known = {k: relay.const(np.array(v)) for k, v in exact.items()}
    call = relay.op.strided_set(x, y, *(known | given).values())
    exe = tvm_disc.build(relay.Function([x, y, *given.values()], call))
    for rows, columns in ((1, 1), (2, 3), (5, 4), (7, 0), (33, 17)):
        wanted = np.zeros((rows, columns), "float32")
        places = slice(*(v[0] for v in exact.values()))
        part = np.arange(wanted[places].size, dtype="float32").reshape(wanted[places].shape) + 1
        found = exe(wanted.copy(), part, *(np.array(exact[k]) for k in read))
        wanted[places] = part
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((1, 1), r"different axes, found \[1, 1\]"),
        ((0,), r"each of the axes \[0\], found 2 bounds"),
    ],
)
def test_axes_for_steps_known_at_run_time(axes: tuple[int, ...], message: str) -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    bounds = [relay.var(k, shape=(2,), dtype="int64") for k in ("begin", "end", "step")]
    attrs = complete_attrs(
        OPS["dyn.strided_slice"], {"axes": axes, **dict.fromkeys(("begin", "end", "strides"))}
    )
    cut = relay.Call(relay.op.get("dyn.strided_slice"), [x, *bounds], attrs)
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.Function([x, *bounds], cut))


@pytest.mark.parametrize(
    ("shape", "count", "message"),
    [
        ((2,), 1, "expected values of rank 2, found rank 1"),
        ((2, 2), 3, "axis 2 is out of range; expected -2 to 1"),
    ],
)
def test_a_part_that_cannot_be_set(shape: tuple[int, ...], count: int, message: str) -> None:
    x, y = relay.var("x", shape=(4, 4)), relay.var("y", shape=shape)
    bounds = [relay.const(np.array([v] * count)) for v in (0, 2, 1)]
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.Function([x, y], relay.op.strided_set(x, y, *bounds)))


def test_sizes_known_at_run_time() -> None:
    exe = computed(1, "size", "int32")
    reference = OPS["strided_slice"].reference
    assert reference is not None
    for x, b, e in cases((*NEAR, -(2**31), 2**31 - 1)):
        attrs = {"begin": (0, b), "end": (2, e), "strides": (1,), "axes": None}
        wanted = reference(x, **attrs, slice_mode="size")
        first = max(b + x.shape[1] if b < 0 else b, 0)
        last = x.shape[1] if e < 0 else max((b + x.shape[1] if b < 0 else b) + e, 0)
        np.testing.assert_array_equal(wanted, x[:, first:last])
        found = exe(x, np.array([0, b], "int32"), np.array([2, e], "int32"))
        np.testing.assert_array_equal(found, wanted, f"{x.shape} {b} {e}")


LITERAL = [
    {"begin": (1,), "end": (3,), "axes": (-1,)},
    {"begin": (-9, 1), "end": (9, -1), "axes": (1, 0)},
    {"begin": (5, -2), "end": (-9, -9), "strides": (-1,)},
    {"begin": (0,), "end": (1, 2)},
    {"begin": (0, 3), "end": (9,), "strides": (2, 1)},
    {"begin": (-3, 1), "end": (2, 1), "slice_mode": "size"},
    {"begin": (-9, 0), "end": (7, -1), "slice_mode": "size"},
    {"begin": (None, 1), "end": (None, None), "strides": (-2, 1)},
]


def test_literal_bounds_in_one_program() -> None:
    """Axes, strides given once, bounds that are missing, lengths: of a dim and of a number."""
    x, y = relay.var("x", shape=(relay.Any(), relay.Any())), relay.var("y", shape=(3, 4))
    op = relay.op.get("strided_slice")
    full = [{"strides": (1,), "axes": None, "slice_mode": "end"} | attrs for attrs in LITERAL]
    cuts = [relay.Call(op, [v], attrs) for v in (x, y) for attrs in full]
    exe = tvm_disc.build(relay.Function([x, y], relay.Tuple(cuts)))
    reference = OPS["strided_slice"].reference
    assert reference is not None
    fixed = np.arange(12, dtype="float32").reshape(3, 4)
    for rows, columns in ((1, 1), (3, 4), (7, 2), (0, 5), (64, 33)):
        given = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
        wanted = [reference(v, **attrs) for v in (given, fixed) for attrs in full]
        for found, want in zip(exe(given, fixed), wanted, strict=True):
            np.testing.assert_array_equal(found, want)


def test_a_slice_of_a_shape() -> None:
    """Slices of values that are known at compile time, with bounds in every form."""
    x = relay.var("x", shape=(relay.Any(),) * 4)
    shape = relay.shape_of(x, "int64")
    op = relay.op.get("strided_slice")
    forms = [
        ((-9,), (2,), "end"),
        ((1,), (9,), "end"),
        ((-3,), (2,), "size"),
        ((-9,), (6,), "size"),
    ]
    cuts = [
        relay.Call(op, [shape], {"begin": b, "end": e, "strides": (1,), "axes": a, "slice_mode": m})
        for b, e, m in forms
        for a in (None, (-1,))
    ]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple(cuts)))
    for dims in ((1, 2, 3, 4), (5, 0, 1, 7)):
        found = exe(np.zeros(dims, "float32"))
        wanted = [dims[:2], dims[1:], dims[1:3], dims[:1]]
        assert [tuple(f) for f in found] == [w for w in wanted for _ in range(2)]


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (
            {"begin": (0, 0), "end": (1, 1), "axes": (1, -1)},
            "expected different axes, found axis 1 twice",
        ),
        (
            {"begin": (0, 0), "end": (1,), "axes": (1,)},
            r"axes \[1\], found 2, 1 and 1",
        ),
        (
            {"begin": (0,), "end": (1,), "axes": ()},
            r"axes \[\], found 1, 1 and 0",
        ),
        ({"begin": (0,), "end": (1,), "axes": (2,)}, "axis 2 is out of range; expected -2 to 1"),
        ({"begin": (0, 0, 0), "end": (1, 1, 1)}, "axis 2 is out of range; expected -2 to 1"),
    ],
)
def test_bounds_that_fit_no_axes(attrs: dict[str, Any], message: str) -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    full = {"strides": (1,), "axes": None, "slice_mode": "end"} | attrs
    call = relay.Call(relay.op.get("strided_slice"), [x], full)
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.Function([x], call))


def test_slice_like_operands_of_other_ranks() -> None:
    """Without axes, those that both have are cut."""
    x = relay.var("x", shape=(relay.Any(), 4, relay.Any()))
    y, z = relay.var("y", shape=(relay.Any(), relay.Any())), relay.var("z", shape=(2, 3, 1, 5))
    cuts = [relay.slice_like(x, y), relay.slice_like(x, y, axes=(1,)), relay.slice_like(x, z)]
    exe = tvm_disc.build(relay.Function([x, y, z], relay.Tuple(cuts)))
    model = np.zeros((2, 3, 1, 5), "float32")
    for rows, cut, width in ((2, (1, 1), 1), (5, (5, 4), 7), (3, (0, 2), 2)):
        a = np.arange(rows * 4 * width, dtype="float32").reshape(rows, 4, width)
        found = exe(a, np.zeros(cut, "float32"), model)
        wanted = (a[: cut[0], : cut[1]], a[:, : cut[1]], a[:2, :3, :1])
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    call = relay.slice_like(x, y, axes=(2,))
    with pytest.raises(TypeMismatch, match="rank 2; found 2, which is axis 2 of the first operand"):
        tvm_disc.build(relay.Function([x, y], call))
