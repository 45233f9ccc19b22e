"""Codes, axes, strides, factors and widths that are computed when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, TypeMismatch

ANY = relay.Any()


def i64(*values: Any) -> np.ndarray:
    return np.array(values, "int64")


def array(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) * 0.5 - 3


def built(build: Callable[..., Any], *types: tuple[Sequence[Any], str]) -> Any:
    """The executable of one call over parameters of those shapes and element types."""
    params = [relay.var(f"x{k}", shape=tuple(s), dtype=d) for k, (s, d) in enumerate(types)]
    return tvm_disc.build(relay.Function(params, build(*params)))


def data(rank: int) -> tuple[Sequence[Any], str]:
    return (ANY,) * rank, "float32"


def numbers(count: int) -> tuple[Sequence[Any], str]:
    return (count,), "int64"


SCALAR = ((), "int64")
FACTOR = ((), "float32")


def check(exe: Any, want: Any, *inputs: Any) -> None:
    found = exe(*inputs)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_codes_of_reshape() -> None:
    exe = built(lambda x, s: relay.reshape(relay.exp(x), s), data(3), numbers(3))
    cases = {
        ((2, 3, 4), (-1, 2, 3)): (4, 2, 3),
        ((2, 3, 4), (0, -1, 2)): (2, 6, 2),
        ((2, 3, 4), (0, 0, 0)): (2, 3, 4),
        ((2, 3, 4), (-3, 4, 1)): (6, 4, 1),
        ((1, 1, 1), (1, -1, 1)): (1, 1, 1),
        ((0, 3, 4), (0, 0, -1)): (0, 3, 4),
        ((5, 1, 7), (7, 0, -1)): (7, 1, 5),
    }
    for (shape, codes), want in cases.items():
        check(exe, np.exp(array(*shape)).reshape(want), array(*shape), i64(*codes))
    for codes in [(5, 0, 0), (0, -3, -3), (-7, 1, 1), (0, 0, -3)]:
        with pytest.raises(GuardFailed, match=r"dyn\.reshape"):
            exe(array(2, 3, 4), i64(*codes))


def test_a_dim_of_0_is_itself_where_it_is_allowed() -> None:
    exe = built(lambda x, s: relay.reshape(x, s, allowzero=True), data(2), numbers(2))
    for shape, codes in [((0, 6), (3, 0)), ((4, 6), (-1, 3)), ((1, 1), (1, 1)), ((5, 0), (0, 2))]:
        want = array(*shape).reshape([3 if c == 3 else c for c in codes])
        check(exe, want, array(*shape), i64(*codes))


def test_axes_of_squeeze_and_expand_dims() -> None:
    squeeze = built(lambda x, a: relay.squeeze(x, a), data(3), numbers(2))
    for shape, axes in [((2, 1, 1), (1, 2)), ((1, 5, 1), (-1, 0)), ((1, 1, 0), (0, -2))]:
        check(squeeze, array(*shape).squeeze(axes), array(*shape), i64(*axes))
    for axes in [(0, 0), (0, 1), (1, 5)]:
        with pytest.raises(GuardFailed, match=r"dyn\.squeeze"):
            squeeze(array(2, 1, 1), i64(*axes))
    expand = built(lambda x, a: relay.expand_dims(x, a, 2), data(2), SCALAR)
    for axis, want in [(0, (1, 1, 4, 3)), (1, (4, 1, 1, 3)), (-1, (4, 3, 1, 1))]:
        check(expand, array(4, 3).reshape(want), array(4, 3), np.int64(axis))
    with pytest.raises(GuardFailed, match="axis must be between -3 and 2"):
        expand(array(4, 3), np.int64(3))


def test_strides() -> None:
    exe = built(
        lambda x, b, e, s: relay.strided_slice(x, b, e, s), data(2), *[numbers(2) for _ in "bes"]
    )
    x = array(7, 6)
    for begin, end, step in [
        ((0, 1), (4, 5), (1, 2)),
        ((6, 5), (0, 0), (-1, -2)),
        ((-2, -3), (100, 100), (3, 1)),
        ((3, 0), (1, 6), (1, 4)),
        ((100, 100), (-100, -100), (-1, -1)),
    ]:
        cut = tuple(slice(*v) for v in zip(begin, end, step, strict=True))
        if begin[0] == 100:  # NumPy counts an end from the back only once, Relay clamps it
            cut = (slice(None, None, -1),) * 2
        check(exe, x[cut], x, i64(*begin), i64(*end), i64(*step))
    check(exe, array(0, 1)[::2, ::2], array(0, 1), i64(0, 0), i64(9, 9), i64(2, 2))
    with pytest.raises(GuardFailed, match="the slice step must not be 0"):
        exe(x, i64(0, 0), i64(1, 1), i64(0, 1))


def test_factors_of_upsampling() -> None:
    exe = built(lambda x, h, w: relay.nn.upsampling(x, h, w), data(4), FACTOR, FACTOR)
    for shape, h, w in [((1, 2, 3, 4), 2, 3), ((2, 1, 1, 1), 4, 1), ((1, 1, 5, 2), 1, 2)]:
        want = array(*shape).repeat(h, 2).repeat(w, 3)
        check(exe, want, array(*shape), np.float32(h), np.float32(w))
    assert exe(array(1, 1, 5, 7), np.float32(1.5), np.float32(0.5)).shape == (1, 1, 8, 4)
    cubes = built(
        lambda x, d: relay.nn.upsampling3d(x, d, 1, 2, method="trilinear"), data(5), FACTOR
    )
    flat = np.full((1, 2, 2, 3, 4), 2.5, "float32")
    for d in (1, 2, 5):
        check(cubes, np.full((1, 2, 2 * d, 3, 8), 2.5), flat, np.float32(d))


def keys(x: np.ndarray, where: np.ndarray, alpha: float, exclude: bool) -> np.ndarray:
    """Keys' interpolation of a line."""
    out = np.zeros(len(where))
    for k, w in enumerate(where):
        total = 0.0
        for tap in range(int(np.floor(w)) - 1, int(np.floor(w)) + 3):
            d = abs(w - tap)
            near = (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
            far = alpha * (d**3 - 5 * d**2 + 8 * d - 4)
            weight = near if d <= 1 else far if d < 2 else 0.0
            weight = 0.0 if exclude and not 0 <= tap < len(x) else weight
            total += weight
            out[k] += weight * x[min(max(tap, 0), len(x) - 1)]
        out[k] /= total
    return out


@pytest.mark.parametrize("exclude", [0, 1])
def test_cubic_resizing_to_a_size(exclude: int) -> None:
    exe = built(
        lambda x, s: relay.image.resize2d(
            x, s, None, "NCHW", "cubic", "half_pixel", "", -0.75, exclude
        ),
        data(4),
        numbers(2),
    )
    for old, new in [((5, 7), (3, 9)), ((1, 1), (2, 2)), ((4, 3), (4, 3)), ((6, 5), (1, 11))]:
        x = np.random.default_rng(old[0]).normal(size=(1, 1, *old)).astype("float32")
        y = x[0, 0].astype("float64")
        for axis in range(2):
            where = (np.arange(new[axis]) + 0.5) * old[axis] / new[axis] - 0.5
            y = np.apply_along_axis(keys, axis, y, where, -0.75, bool(exclude))
        np.testing.assert_allclose(exe(x, i64(*new))[0, 0], y, rtol=1e-4, atol=1e-4)


def test_a_region_that_is_read() -> None:
    exe = built(
        lambda x, s, r: relay.image.resize2d(
            x, s, r, "NHWC", "linear", "tf_crop_and_resize", extrapolation_value=9.0
        ),
        data(4),
        numbers(2),
        ((4,), "float32"),
    )
    x = array(1, 5, 4, 2)
    check(exe, x, x, i64(5, 4), np.array([0, 0, 1, 1], "float32"))
    check(exe, x[:, ::2, 1:3], x, i64(3, 2), np.array([0, 1 / 3, 1, 2 / 3], "float32"))
    found = exe(x, i64(3, 2), np.array([0, 0, 2, 1], "float32"))
    assert (found[:, 2] == 9).all() and not (found[:, 1] == 9).any()


@pytest.mark.parametrize("upper", [True, False])
def test_diagonals(upper: bool) -> None:
    exe = built(lambda x, k: relay.trilu(x, k, upper), data(3), SCALAR)
    cut = np.triu if upper else np.tril
    for shape, k in [((2, 3, 4), 0), ((1, 5, 2), -2), ((0, 3, 3), 1), ((2, 3, 4), 9)]:
        check(exe, cut(array(*shape), k), array(*shape), np.int64(k))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_steps_of_a_range(dtype: str) -> None:
    exe = built(lambda *v: relay.arange(*v, dtype=dtype), *[((), dtype)] * 3)
    for bounds in [(0, 7, 2), (5, 0, -2), (5, 5, 1), (0, 9, 3), (3, -3, -1)]:
        check(exe, np.arange(*bounds, dtype=dtype), *(np.array(b, dtype) for b in bounds))
    with pytest.raises(GuardFailed, match="the range step must not be 0"):
        exe(*(np.array(b, dtype) for b in (0, 3, 0)))


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_widths_of_padding_with_copies(mode: str) -> None:
    exe = built(lambda x, w: relay.nn.pad(x, w, 0, mode), data(2), ((2, 2), "int64"))
    for shape, widths in [((4, 6), [[1, 2], [0, 1]]), ((3, 3), [[2, 2], [2, 2]])]:
        check(exe, np.pad(array(*shape), widths, mode), array(*shape), i64(*widths))
    check(exe, array(0, 3), array(0, 3), i64([0, 0], [0, 0]))
    with pytest.raises(GuardFailed, match=f"too short for padding by {mode}"):
        exe(array(0, 3), i64([1, 0], [0, 0]))


def test_a_whole_default_for_sparse_floats() -> None:
    exe = built(
        lambda i, o, v: relay.sparse_to_dense(i, o, v),
        ((ANY,), "int32"),
        ((1,), "int32"),
        ((ANY,), "float32"),
    )
    places, values = np.array([1, 3], "int32"), np.array([4, 5], "float32")
    check(exe, np.array([0, 4, 0, 5, 0]), places, np.array([5], "int32"), values)


@pytest.mark.parametrize(
    ("build", "types", "message"),
    [
        (lambda x, s: relay.reshape(x, s), (data(2), ((2,), "float32")), "the new shape: expected"),
        (
            lambda x, a: relay.squeeze(x, a),
            (data(1), numbers(2)),
            "expected at most 1 axes to squeeze, found 2",
        ),
        (lambda x, k: relay.trilu(x, k), (data(2), FACTOR), "the diagonal: expected integers"),
        (
            lambda x: relay.image.resize2d(
                x, (2, 2), (0.0, 1.0), coordinate_transformation_mode="tf_crop_and_resize"
            ),
            (data(4),),
            "roi: expected 4 numbers, found 2",
        ),
    ],
)
def test_refusals(build: Any, types: Any, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        built(build, *types)


@pytest.mark.parametrize(
    ("build", "types", "shapes", "message"),
    [
        (
            lambda g, x: relay.nn.max_pool2d_grad(g, x, (2, 2), (2, 2)),
            (data(4), data(4)),
            ((2, 1, 1, 1), (1, 1, 2, 2)),
            r"input 'x0' axis 0 \(x0_0\) must equal input 'x1' axis 0",
        ),
        (
            lambda g, x: relay.nn.avg_pool2d_grad(g, x, (2, 2), (2, 2)),
            (data(4), data(4)),
            ((1, 3, 1, 1), (1, 0, 2, 2)),
            r"input 'x0' axis 1 \(x0_1\) must equal input 'x1' axis 1",
        ),
    ],
)
def test_gradients_are_of_the_image(
    build: Callable[..., Any], types: Any, shapes: Any, message: str
) -> None:
    exe = built(build, *types)
    with pytest.raises(GuardFailed, match=message):
        exe(*(array(*s) for s in shapes))


def test_the_first_that_is_not_a_number_takes_the_gradient() -> None:
    exe = built(lambda g, x: relay.nn.max_pool2d_grad(g, x, (2, 2), (2, 2)), data(4), data(4))
    image = np.array([[1, np.nan, 5, 7], [np.nan, 3, 7, -np.inf]], "float32").reshape(1, 1, 2, 4)
    want = np.array([[0, 2, 0, 3], [0, 0, 0, 0]], "float32").reshape(1, 1, 2, 4)
    check(exe, want, np.array([2, 3], "float32").reshape(1, 1, 1, 2), image)


def test_the_last_point_of_a_crop_is_the_end_of_its_box() -> None:
    exe = built(
        lambda x, b, p: relay.image.crop_and_resize(
            x, b, p, (7, 3), method="bilinear", extrapolation_value=-9.0, layout="NCHW"
        ),
        data(4),
        ((ANY, 4), "float32"),
        ((ANY,), "int32"),
    )
    image = np.arange(13, dtype="float32").reshape(1, 1, 13, 1).repeat(2, 3)
    firsts = np.linspace(0, 1, 101).astype("float32")
    boxes = np.stack([firsts, firsts * 0, np.ones_like(firsts), firsts * 0 + 1], 1)
    found = exe(image, boxes, np.zeros(len(boxes), "int32"))
    assert (found[:, 0, -1] == 12).all()


def test_boxes_have_indices_of_their_own() -> None:
    def suppressed(x: Any, n: Any, i: Any) -> Any:
        limits = (relay.const(5, "int32"), relay.const(0.5))
        return relay.vision.non_max_suppression(x, n, i, *limits, return_indices=False)

    exe = built(suppressed, ((ANY, ANY, 6), "float32"), ((ANY,), "int32"), ((ANY, ANY), "int32"))
    with pytest.raises(GuardFailed, match=r"input 'x2' axis 1 \(x2_1\) must equal input 'x0'"):
        exe(array(2, 0, 6), np.zeros(2, "int32"), np.zeros((2, 33), "int32"))


def test_boxes_have_the_columns_that_attributes_name() -> None:
    boxes = ((ANY, ANY, ANY), "float32")
    counts = built(
        lambda x: relay.vision.get_valid_counts(x, relay.const(0.5), id_index=9)[0], boxes
    )
    with pytest.raises(GuardFailed, match="10 must be at most input 'x0' axis 2"):
        counts(array(2, 3, 6))
    assert counts(array(2, 3, 10)).shape == (2,)

    def suppressed(x: Any, n: Any, i: Any) -> Any:
        limits = (relay.const(5, "int32"), relay.const(0.5))
        where = {"coord_start": 3, "score_index": 0, "id_index": -1}
        return relay.vision.non_max_suppression(x, n, i, *limits, return_indices=False, **where)

    exe = built(suppressed, boxes, ((ANY,), "int32"), ((ANY, ANY), "int32"))
    with pytest.raises(GuardFailed, match="7 must be at most input 'x0' axis 2"):
        exe(array(2, 3, 6), np.full(2, 3, "int32"), np.zeros((2, 3), "int32"))
