"""The row template: one kernel per operator, right for every shape, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.processor import needs
from tvm_disc.compile import build
from tvm_disc.graph.nodes import Node
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.elements import is_below_maximum
from tvm_disc.support.processor import PLAIN

# 1, below and at a vector, primes, tile - 1, tile, several blocks, empty.
LENGTHS = (1, 2, 7, 8, 13, 15, 16, 17, 63, 64, 65, 127, 1031, 2100)
ROWS = (1, 3, 16, 37)
SHAPES = [(r, c) for r in ROWS for c in LENGTHS] + [(0, 5), (2, 64), (300, 3), (5, 20011)]


@cache
def program(
    params: str, body: str, facts: tuple[str, ...] = (), target: str | None = None
) -> Executable:
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {body}\n}}\n'
    return build(text, target=target, constraints=list(facts), options=Options(threads=2))


def matrix(*names: str, rank: int = 2, dtype: str = "float32") -> str:
    dims = ", ".join("?" * rank)
    return ", ".join(f"%{n}: Tensor[({dims}), {dtype}]" for n in names)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    x = x.astype("float64")
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normalise(x: np.ndarray, axis: Any = -1, epsilon: float = 1e-5) -> np.ndarray:
    x = x.astype("float64")
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)


def rms(x: np.ndarray) -> np.ndarray:
    x = x.astype("float64")
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


RMS = "multiply(multiply(%x, rsqrt(add(mean(power(%x, 2f), axis=[1], keepdims=True), 1e-6f))), %w)"
VECTOR = ", %w: Tensor[(?), float32], %v: Tensor[(?), float32]"
ROWWISE: dict[str, tuple[str, str, tuple[str, ...], Callable[..., np.ndarray]]] = {
    "softmax": (matrix("x"), "nn.softmax(%x)", (), softmax),
    "log_softmax": (matrix("x"), "nn.log_softmax(%x)", (), lambda x: np.log(softmax(x))),
    "layer_norm": (
        matrix("x") + VECTOR,
        "nn.layer_norm(%x, %w, %v)",
        (),
        lambda x, w, v: normalise(x) * w + v,
    ),
    "rms_norm": (
        matrix("x") + ", %w: Tensor[(?), float32]",
        RMS,
        ("w.0 == x.1",),
        lambda x, w: rms(x) * w,
    ),
    "residual_layer_norm": (
        matrix("x", "y") + VECTOR,
        "nn.layer_norm(add(%x, %y), %w, %v)",
        ("y.0 == x.0", "y.1 == x.1"),
        lambda x, y, w, v: normalise(x + y) * w + v,
    ),
}


def arrays(params: str, rows: int, cols: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows * 100 + cols)
    shapes = [(rows, cols) if "?, ?" in p else (cols,) for p in params.split("%")[1:]]
    return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


@pytest.mark.parametrize("name", ROWWISE)
def test_rowwise_is_one_kernel_and_right(name: str) -> None:
    params, body, facts, reference = ROWWISE[name]
    run = program(params, body, facts)
    assert len(run.kernels) == 1
    for rows, cols in SHAPES:
        args = arrays(params, rows, cols)
        with np.errstate(all="ignore"):
            expected = reference(*args)
        np.testing.assert_allclose(
            run(*args), expected, rtol=2e-5, atol=4e-6, err_msg=f"{name} {rows}x{cols}"
        )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", ["nn.softmax", "nn.log_softmax", "nn.layer_norm"])
def test_any_axis_is_one_kernel(op: str, axis: int) -> None:
    norm = op == "nn.layer_norm"
    params = matrix("x", rank=3) + (VECTOR if norm else "")
    body = f"{op}(%x, {'%w, %v, ' if norm else ''}axis={axis})"
    run = program(params, body)
    assert len(run.kernels) == 1
    rng = np.random.default_rng(axis)
    for shape in [
        (1, 1, 1),
        (3, 5, 7),
        (2, 17, 64),
        (4, 3, 130),
        (31, 2, 63),
        (2, 200, 3),
        (2, 0, 3),
    ]:
        x = rng.standard_normal(shape, dtype=np.float32)
        if not x.size:
            assert run(*[x, *([np.zeros(shape[axis], "f")] * 2 if norm else [])]).shape == shape
            continue
        if norm:
            w, v = (rng.standard_normal(shape[axis], dtype=np.float32) for _ in "wv")
            dims = [-1 if a == axis else 1 for a in range(3)]
            expected = normalise(x, axis) * w.reshape(dims) + v.reshape(dims)
            got = run(x, w, v)
        else:
            expected = softmax(x, axis) if op == "nn.softmax" else np.log(softmax(x, axis))
            got = run(x)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=4e-6, err_msg=str(shape))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8", "float16"])
@pytest.mark.parametrize("op", ["sum", "max", "min", "mean", "prod", "argmax", "argmin"])
def test_reductions_of_every_dtype(op: str, dtype: str) -> None:
    if op == "mean" and dtype.startswith("int"):
        pytest.skip("Relay's mean of integers is not NumPy's")
    run = program(matrix("x", dtype=dtype), f"{op}(%x, axis=[1])")
    assert len(run.kernels) == 1
    rng = np.random.default_rng(5)
    for rows, cols in [(1, 1), (3, 7), (40, 5), (2, 64), (5, 131), (2, 3000), (0, 4)]:
        x = rng.integers(-3, 4, (rows, cols)).astype(dtype)
        if op == "prod":
            x = np.where(rng.random((rows, cols)) < 0.9, 1, x).astype(dtype)
        if op in ("sum", "prod") and dtype.startswith("int"):
            expected = getattr(x, op)(1, dtype=dtype)
        else:
            expected = getattr(x, op)(1)
        rtol = 2e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(run(x), expected, rtol=rtol, err_msg=f"{rows}x{cols}")


@pytest.mark.parametrize("op", ["max", "min", "sum", "argmax", "argmin"])
def test_nan_wins_wherever_it_is(op: str) -> None:
    run = program(matrix("x"), f"{op}(%x, axis=[1])")
    for cols in (1, 5, 16, 70, 200):
        for at in {0, cols // 2, cols - 1}:
            x = np.random.default_rng(cols).standard_normal((20, cols), dtype=np.float32)
            x[::2, at] = np.nan
            x[::4, cols - 1] = np.nan
            np.testing.assert_allclose(run(x), getattr(x, op)(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_arg_of_ties_is_the_first(op: str) -> None:
    run = program(matrix("x"), f"{op}(%x, axis=[1])")
    infinite = np.full((18, 70), np.inf if op == "argmin" else -np.inf, np.float32)
    rng = np.random.default_rng(1)
    for x in (infinite, *(rng.integers(0, 3, (18, c)).astype("f") for c in (3, 15, 64, 333))):
        np.testing.assert_array_equal(run(x), getattr(x, op)(1))


def test_empty_rows_have_the_identity() -> None:
    x = np.zeros((5, 0), np.float32)
    np.testing.assert_array_equal(program(matrix("x"), "sum(%x, axis=[1])")(x), np.zeros(5))
    np.testing.assert_array_equal(program(matrix("x"), "prod(%x, axis=[1])")(x), np.ones(5))
    np.testing.assert_array_equal(program(matrix("x"), "max(%x, axis=[1])")(x), [-np.inf] * 5)


def test_infinite_sums() -> None:
    run = program(matrix("x"), "sum(%x, axis=[1])")
    x = np.ones((4, 5000), np.float32)
    x[0, 7], x[1, 4999], x[2, [3, 4]] = np.inf, -np.inf, [np.inf, -np.inf]
    np.testing.assert_array_equal(run(x), [np.inf, -np.inf, np.nan, 5000])


@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
def test_sums_are_as_accurate_as_numpys(scale: float) -> None:
    run = program(matrix("x"), "sum(%x, axis=[1])")
    rng = np.random.default_rng(3)
    for cols in (100, 1000, 8192, 1 << 20):
        x = (rng.random((max(1, (1 << 18) // cols), cols)) + scale).astype("f")
        exact = x.astype("float64").sum(1)
        ours, theirs = (np.abs(s / exact - 1).mean() for s in (run(x), x.sum(1)))
        # Rounding the exact sum to float32 may already cost 2^-24.
        assert ours <= max(1.1 * theirs, 2**-24 * 1.05)


V3 = "x86-64-v3"


@needs(*PLAIN["x86_64"][V3])
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_of_far_and_missing_values(op: str) -> None:
    """Of vectors without masks: exponentials of what is at most 0 have a form of their own."""
    run = program(matrix("x"), f"nn.{op}(%x)", target=f"llvm -mcpu={V3}")
    for cols in (1, 7, 32, 131, 1031):
        x = np.random.default_rng(cols).standard_normal((9, cols), dtype=np.float32) * 60
        x[1], x[2, 0], x[3, -1], x[4, cols // 2], x[5] = -np.inf, np.nan, np.inf, -np.inf, 3e38
        with np.errstate(all="ignore"):
            shifted = x - x.max(-1, keepdims=True).astype("float64")
            total = np.exp(shifted).sum(-1, keepdims=True)
            want = np.exp(shifted) / total if op == "softmax" else shifted - np.log(total)
        np.testing.assert_allclose(run(x), want, rtol=2e-5, atol=1e-37 if op == "softmax" else 4e-6)


@needs(*PLAIN["x86_64"][V3])
@pytest.mark.parametrize(
    ("shift", "reference"),
    [
        ("min(%x, axis=[1], keepdims=True)", lambda x: x.min(1, keepdims=True)),
        ("max(negative(%x), axis=[1], keepdims=True)", lambda x: (-x).max(1, keepdims=True)),
    ],
)
def test_exp_less_what_is_not_its_maximum_is_the_common_one(
    shift: str, reference: Callable[..., np.ndarray]
) -> None:
    body = f"exp(subtract(%x, {shift}))"
    run = program(matrix("x"), body, ("x.0 == x.1",), target=f"llvm -mcpu={V3}")
    x = np.random.default_rng(0).standard_normal((37, 37), dtype=np.float32) * 90
    shifted = x - reference(x)
    assert shifted.max() > 89
    with np.errstate(over="ignore"):
        want = np.exp(shifted.astype("float64")).astype(np.float32)
    np.testing.assert_allclose(run(x), want, rtol=1e-6, atol=1e-44)


@pytest.mark.parametrize(
    "body",
    [
        "exp(subtract(%x, max(%x, axis=[1], keepdims=True)))",
        "max(%x, axis=[1], keepdims=True)",
        "let %m = max(%x, axis=[1], keepdims=True); let %e = exp(subtract(%x, %m)); "
        "add(%e, divide(%e, sum(%e, axis=[1], keepdims=True)))",
        "nn.softmax(%x)",
        "nn.log_softmax(%x)",
    ],
)
def test_a_row_with_nan_is_nan_with_and_without_its_sum(body: str) -> None:
    """A maximum passes over NaN only where a sum makes all results NaN."""
    run = program(matrix("x"), body.replace("; ", ";\n  "))
    for cols in (3, 40, 300):
        x = np.random.default_rng(cols).standard_normal((6, cols), dtype=np.float32)
        x[1, 0] = x[2, -1] = x[3, cols // 2] = np.nan
        x[3, 0] = x[5, 1] = np.inf
        missing = np.isnan(run(x)).all(1)
        assert missing[1:4].all()
        assert not missing[[0, 4]].any()


@pytest.mark.parametrize(("shape", "below"), [((8, 1), True), ((1, 8), True), ((8,), False)])
def test_a_maximum_without_its_axis_is_subtracted_from_other_rows(
    shape: tuple[int, ...], below: bool
) -> None:
    x = Node("param", (), (8, 8), "float32")
    most = Node("relax.max", (x,), shape, "float32")
    assert is_below_maximum(Node("relax.subtract", (x, most), (8, 8), "float32")) is below


def test_masked_softmax_with_a_bool_mask() -> None:
    params = matrix("x") + ", " + matrix("m", dtype="bool")
    facts = ("m.0 == x.0", "m.1 == x.1")
    run = program(params, "nn.softmax(where(%m, %x, full_like(%x, -1e9f)))", facts)
    assert len(run.kernels) == 1
    rng = np.random.default_rng(0)
    for rows, cols in [(1, 1), (3, 20), (33, 5), (4, 100)]:
        x, m = rng.standard_normal((rows, cols), dtype=np.float32), rng.random((rows, cols)) < 0.7
        np.testing.assert_allclose(run(x, m), softmax(np.where(m, x, -1e9)), rtol=1e-5, atol=1e-7)


def test_several_outputs_of_one_row() -> None:
    body = "let %s = nn.softmax(%x);\n  let %e = exp(%s);\n  (%s, sum(%e, axis=[1]), %e)"
    run = program(matrix("x"), body)
    assert len(run.kernels) == 1
    for rows, cols in [(1, 1), (20, 5), (3, 17), (2, 300)]:
        x = np.random.default_rng(cols).standard_normal((rows, cols), dtype=np.float32)
        s, total, e = run(x)
        expected = softmax(x)
        np.testing.assert_allclose(s, expected, rtol=1e-5)
        np.testing.assert_allclose(e, np.exp(expected), rtol=1e-5)
        np.testing.assert_allclose(total, np.exp(expected).sum(1), rtol=1e-5)


def test_a_mean_of_what_only_the_lowering_proves_to_be_empty() -> None:
    body = """
  %0 = concatenate((%x, %y));
  %1 = where(greater_equal(%0, %z), %0, %z);
  %2 = where(less(%0, %1), %0, %1);
  %3 = strided_slice(%2, begin=[2], end=[1], strides=[1], axes=[0]);
  mean(%3, axis=[0], keepdims=True)
"""
    params = ", ".join(f"%{name}: Tensor[(?), float32]" for name in "xyz")
    run = build(f'#[version = "0.0.5"]\ndef @main({params}) {{{body}}}\n')
    for n in (0, 1, 2, 5):
        found = run(np.ones(n, "f"), np.ones(2, "f"), np.ones(n + 2, "f"))
        assert found.shape == (1,) and np.isnan(np.asarray(found)).all()


def test_an_output_per_row_that_depends_on_no_reduction() -> None:
    body = """%0 = add(%x, 1);
  %1 = subtract(take(shape_of(%x, dtype="int64"), 0i64, axis=0), 1i64);
  %2 = minimum(reshape(cast(%0, dtype="int64"), newshape=[-1]), %1);
  (all(greater(%0, 0), axis=[1], keepdims=True), maximum(%2, 0i64))"""
    exe = program("%x: Tensor[(?, 1), int32]", body)
    assert len(exe.kernels) == 1
    for n in (1, 2, 5, 16, 37, 300):
        x = np.random.default_rng(n).integers(-3, n + 3, (n, 1)).astype("int32")
        positive, places = exe(x)
        np.testing.assert_array_equal(positive, x + 1 > 0)
        np.testing.assert_array_equal(places, np.clip(x[:, 0] + 1, 0, n - 1))
