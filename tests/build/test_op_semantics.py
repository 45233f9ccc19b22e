"""What the table's samples do not reach: borders of meaning, and refusals in the user's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same, compiled
from tvm_disc import relay
from tvm_disc.errors import DiscError, GuardFailed, ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay.ops.table import OPS

N = relay.Any()
NAN, INF = np.nan, np.inf


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


# -- NaN and integers --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 17, 70, 200])
@pytest.mark.parametrize("name", ["max", "min", "sum", "argmax", "argmin"])
def test_nan_wins_wherever_it_is(name: str, n: int) -> None:
    executable = compiled(name, ((None, None), "float32"), axis=(1,))
    x = f32(n, n)
    np.fill_diagonal(x, NAN)
    wanted = getattr(np, name)(x, axis=1)
    np.testing.assert_array_equal(executable(x), wanted.astype(executable(x).dtype))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("isnan", [True, False, False, False]),
        ("isinf", [False, True, True, False]),
        ("isfinite", [False, False, False, True]),
        ("nn.relu", [NAN, INF, 0, 1]),
        ("sign", [NAN, 1, -1, 1]),
    ],
)
def test_unary_on_special_values(name: str, wanted: list[Any]) -> None:
    x = np.array([NAN, INF, -INF, 1], "float32")
    np.testing.assert_array_equal(compiled(name, ((None,), "float32"))(x), wanted)


@pytest.mark.parametrize("name", ["maximum", "minimum", "equal", "not_equal", "less"])
def test_binary_on_special_values(name: str) -> None:
    values = np.array([NAN, INF, -INF, 0, 1], "float32")
    a, b = (g.reshape(-1) for g in np.meshgrid(values, values))
    wanted = OPS[name].reference(a, b)  # type: ignore[misc]
    executable = compiled(name, ((None,), "float32"), ((None,), "float32"))
    np.testing.assert_array_equal(executable(a, b), wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
@pytest.mark.parametrize("name", ["divide", "floor_divide", "floor_mod", "trunc_mod"])
def test_integer_division_by_anything(name: str, dtype: str) -> None:
    kind = np.iinfo(dtype)
    values = np.array([kind.min, 0, 1, 2, 7, kind.max, *([-1, -3] if kind.min else [])], dtype)
    a, b = (g.reshape(-1).copy() for g in np.meshgrid(values, values))
    found = compiled(name, ((None,), dtype), ((None,), dtype))(a, b)
    inside = (b != 0) & ~((a == kind.min) & (b.astype("int64") == -1))
    exact = {
        "divide": lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),
        "floor_divide": lambda x, y: x // y,
        "floor_mod": lambda x, y: x % y,
        "trunc_mod": lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1),
    }[name]
    wanted = [exact(int(x), int(y)) for x, y in zip(a[inside], b[inside], strict=True)]
    np.testing.assert_array_equal(found[inside], np.array(wanted, dtype))
    np.testing.assert_array_equal(found[b == 0], 0)


def test_integer_power_is_exact() -> None:
    base = np.array([3, -3, 2, -1, 0, 7, 10, 1, 5], "int64")
    exponent = np.array([39, 13, 62, 101, 5, 22, 18, 1000, 0], "int64")
    executable = compiled("power", ((None,), "int64"), ((None,), "int64"))
    np.testing.assert_array_equal(executable(base, exponent), base**exponent)


def test_rounding_goes_away_from_zero() -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 0.49999997, 1e9, -INF], "float32")
    wanted = np.array([1, 2, -1, -3, 0, 1e9, -INF], "float32")
    np.testing.assert_array_equal(compiled("round", ((None,), "float32"))(x), wanted)


def test_clip_of_integers_with_limits_no_float_can_hold() -> None:
    x = np.array([-(2**31), -1, 0, 2**31 - 1], "int32")
    wide = compiled("clip", ((None,), "int32"), a_min=-INF, a_max=2147483647.0)
    np.testing.assert_array_equal(wide(x), x)


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("axis", [(0,), (0, 2), (-1, 1), (0, 1, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_argmax_over_any_axes(axis: Any, last: bool, exclude: bool) -> None:
    attrs = {"axis": axis, "select_last_index": last, "keepdims": True, "exclude": exclude}
    x = np.random.default_rng(1).integers(0, 3, (3, 4, 5)).astype("int32")
    wanted = OPS["argmax"].reference(x, **attrs)  # type: ignore[misc]
    assert_same(compiled("argmax", ((None, None, None), "int32"), **attrs)(x), wanted, "argmax")


# -- windows without a reference in the table --------------------------------------------------


def transposed(
    x: np.ndarray, w: np.ndarray, s: int, pad: int, more: int, groups: int, dilation: int
) -> np.ndarray:
    """A transposed 2-d convolution by scattering every input element."""
    n, channels, height, width = x.shape
    _, per_group, taps, _ = w.shape
    reach = (taps - 1) * dilation + 1
    full = np.zeros(
        (n, per_group * groups, (height - 1) * s + reach + more, (width - 1) * s + reach + more)
    )
    for c in range(channels):
        group = c // (channels // groups)
        outs = slice(group * per_group, (group + 1) * per_group)
        for i, j, a, b in np.ndindex(height, width, taps, taps):
            at = full[:, outs, i * s + a * dilation, j * s + b * dilation]
            at += x[:, c, i, j, None] * w[None, c, :, a, b]
    size = [d - 2 * pad for d in full.shape[2:]]
    return full[:, :, pad : pad + size[0], pad : pad + size[1]].astype("float32")


@pytest.mark.parametrize(
    ("s", "pad", "more", "groups", "dilation"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 0, 2, 2, 1), (2, 2, 0, 1, 2)],
)
def test_conv2d_transpose(s: int, pad: int, more: int, groups: int, dilation: int) -> None:
    executable = compiled(
        "nn.conv2d_transpose",
        ((None, 4, None, None), "float32"),
        ((4, 3, 3, 3), "float32"),
        strides=(s, s),
        padding=(pad, pad),
        output_padding=(more, more),
        groups=groups,
        dilation=(dilation, dilation),
    )
    w = f32(4, 3, 3, 3, seed=1)
    for shape in ((1, 4, 3, 4), (2, 4, 5, 3)):
        x = f32(*shape)
        wanted = transposed(x, w, s, pad, more, groups, dilation)
        assert_same(executable(x, w), wanted, f"{shape}")


def sampled(x: np.ndarray, axis: int, size: int, method: str, mode: str) -> np.ndarray:
    """One axis resized, by the formulas of TVM's own operator."""
    length = x.shape[axis]
    i = np.arange(size)
    at = {
        "half_pixel": (i + 0.5) * length / size - 0.5,
        "align_corners": i * (length - 1) / max(size - 1, 1),
        "asymmetric": i * length / size,
    }[mode]
    if method == "nearest_neighbor":
        pick = np.floor(at + 0.5) if mode == "align_corners" else np.floor(at + 1e-5)
        return np.take(x, np.clip(pick.astype(int), 0, length - 1), axis)
    low = np.floor(at)
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    part = (at - low).reshape(shape)
    first, second = (np.clip(low.astype(int) + k, 0, length - 1) for k in (0, 1))
    return np.take(x, first, axis) * (1 - part) + np.take(x, second, axis) * part


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_resize2d(method: str, mode: str, layout: str) -> None:
    executable = compiled(
        "image.resize2d",
        ((None, None, None, None), "float32"),
        size=(7, 4),
        layout=layout,
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method="",
    )
    for shape in ((1, 3, 5, 9), (2, 2, 4, 4)):
        x = f32(*shape)
        wanted = x
        for letter, size in (("H", 7), ("W", 4)):
            wanted = sampled(wanted, layout.index(letter), size, method, mode)
        assert_same(executable(x), wanted.astype("float32"), f"{shape}")


@pytest.mark.parametrize("align", [False, True])
def test_bilinear_upsampling(align: bool) -> None:
    executable = compiled(
        "nn.upsampling",
        ((None, 2, None, None), "float32"),
        scale_h=2.0,
        scale_w=3.0,
        method="bilinear",
        align_corners=align,
    )
    x, mode = f32(1, 2, 4, 5), "align_corners" if align else "asymmetric"
    wanted = sampled(sampled(x, 2, 8, "linear", mode), 3, 15, "linear", mode)
    assert_same(executable(x), wanted.astype("float32"), mode)


def test_local_response_normalisation() -> None:
    executable = compiled("nn.lrn", ((None, 6, None), "float32"), size=3, alpha=0.5, beta=0.75)
    x = f32(2, 6, 4)
    wide = np.pad(x**2, [(0, 0), (1, 1), (0, 0)])
    total = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    assert_same(executable(x), x / (2 + 0.5 / 3 * total) ** 0.75, "lrn")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(3, 4)]),
        ("ij->", [(3, 4)]),
        ("ii->i", [(3, 3)]),
        ("i,j->ij", [(3,), (4,)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("bhqd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 3, 5)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    parts = [f32(*s, seed=k) for k, s in enumerate(shapes)]
    specs = [((None,) * len(s), "float32") for s in shapes]
    executable = compiled("einsum", *specs, equation=equation)
    assert_same(executable(*parts), np.einsum(equation, *parts), equation)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 2, 31, 64, 1000])
def test_sorting_is_stable(n: int, dtype: str, ascending: bool) -> None:
    executable = compiled("argsort", ((None, None), dtype), axis=0, is_ascend=ascending)
    x = np.random.default_rng(n).integers(0, 9, (n, 2)).astype(dtype)
    key = x if ascending else -x.astype("int64")
    wanted = np.argsort(key, axis=0, kind="stable")
    np.testing.assert_array_equal(executable(x), wanted)


def test_sorting_puts_nan_above_numbers() -> None:
    x = np.array([1, NAN, -INF, 3, NAN, INF], "float32")
    for ascending, wanted in ((True, [2, 0, 3, 5, 1, 4]), (False, [1, 4, 5, 3, 0, 2])):
        executable = compiled("argsort", ((None,), "float32"), is_ascend=ascending)
        np.testing.assert_array_equal(executable(x), wanted)


@pytest.mark.parametrize("by_value", [True, False])
def test_unique_of_any_size(by_value: bool) -> None:
    executable = compiled("unique", ((None,), "int64"), return_counts=True, sorted=by_value)
    for n in (0, 1, 2, 50):
        x = np.random.default_rng(n).integers(0, 7, n)
        wanted = OPS["unique"].reference(x, sorted=by_value, return_counts=True)  # type: ignore[misc]
        for found, want in zip(executable(x), wanted, strict=True):
            assert_same(found, want, f"{n}")


@pytest.mark.parametrize("mode", ["update", "add", "mul", "min", "max", "mean"])
def test_scatter_nd_reductions(mode: str) -> None:
    specs = [((4, 5), "float32"), ((2, None), "int64"), ((None,), "float32")]
    executable = compiled("scatter_nd", *specs, mode=mode)
    x, updates = f32(4, 5), f32(6, seed=1)
    places = np.array([[0, 1, 3, 0, 2, 3], [0, 2, 4, 0, 1, 4]])
    wanted = OPS["scatter_nd"].reference(x, places, updates, mode=mode)  # type: ignore[misc]
    assert_same(executable(x, places, updates), wanted, mode)


def test_positions_outside_do_no_harm() -> None:
    specs = [((4,), "float32"), ((None,), "int64"), ((None,), "float32")]
    executable = compiled("scatter_elements", *specs)
    x, places = np.zeros(4, "float32"), np.array([-1, 7, -9, 1])
    found = executable(x, places, np.ones(4, "float32"))
    np.testing.assert_array_equal(found, [0, 1, 0, 1])
    for mode, wanted in (("clip", [0, 3, 0, 1]), ("wrap", [3, 3, 3, 1])):
        take = compiled("take", ((4,), "float32"), ((None,), "int64"), axis=0, mode=mode)
        np.testing.assert_array_equal(take(np.arange(4, dtype="float32"), places), wanted)


# -- refusals ----------------------------------------------------------------------------------

V, M, T4 = ((None,), "float32"), ((None, None), "float32"), ((None, 4, None, None), "float32")
I1, ONE = ((None,), "int64"), ((), "float32")
W1 = ((1, 3, None), "float32")


@pytest.mark.parametrize(
    ("kind", "message", "name", "inputs", "attrs"),
    [
        (TypeMismatch, "axis 2 is out of range; expected -2 to 1", "sum", [M], {"axis": (2,)}),
        (TypeMismatch, "operands of the same dtype", "add", [V, I1], {}),
        (
            TypeMismatch,
            r"operands of the same rank, found ranks 1 and 2",
            "concatenate",
            [V, M],
            {},
        ),
        (TypeMismatch, "axis 5 is out of range", "transpose", [M], {"axes": (5, 0)}),
        (TypeMismatch, "expected at most one -1", "reshape", [M], {"newshape": (-1, -1)}),
        (
            TypeMismatch,
            "refers to at least 3 dims of an operand of rank 2",
            "reshape",
            [M],
            {"newshape": (0, 0, 0)},
        ),
        (
            TypeMismatch,
            "strides: expected numbers other than 0",
            "strided_slice",
            [V],
            {"begin": (0,), "end": (1,), "strides": (0,), "axes": None},
        ),
        (
            TypeMismatch,
            "dilation: expected 1 to 2147483647, found 0",
            "nn.avg_pool1d",
            [W1],
            {"pool_size": (2,), "dilation": (0,)},
        ),
        (
            TypeMismatch,
            "strides: expected 1 to 2147483647, found 0",
            "nn.max_pool2d",
            [T4],
            {"pool_size": (2, 2), "strides": (2, 0)},
        ),
        (TypeMismatch, "expected bools, found float32", "all", [M], {"axis": (1,)}),
        (TypeMismatch, "expected bools, found int64", "any", [I1], {}),
        (TypeMismatch, "expected the axes to keep, found axis=None", "max", [M], {"exclude": True}),
        (TypeMismatch, "pool_size: expected 1 number of", "nn.max_pool1d", [W1], {"pool_size": ()}),
        (TypeMismatch, "indices of rank 2, found rank 1", "gather", [M, I1], {"axis": 0}),
        (TypeMismatch, "cannot broadcast rank 2 to rank 1", "broadcast_to", [M], {"shape": (3,)}),
        (
            TypeMismatch,
            "operand 0: expected one index per axis, found 'ij' for an operand of rank 1",
            "einsum",
            [V],
            {"equation": "ij->i"},
        ),
        (
            TypeMismatch,
            "expected different indices of the operands, found 'ii'",
            "einsum",
            [M],
            {"equation": "ij->ii"},
        ),
        (
            Unsupported,
            "expected split positions of at least 0 in ascending order",
            "split",
            [V],
            {"indices_or_sections": (3, 1)},
        ),
        (
            Unsupported,
            "pad_mode: expected .*, found wrap",
            "nn.pad",
            [V, ((), "float32")],
            {"pad_width": ((1, 0),), "pad_mode": "wrap"},
        ),
        (
            Unsupported,
            "layout: expected .*, found NCDW",
            "nn.global_avg_pool2d",
            [T4],
            {"layout": "NCDW"},
        ),
        (
            Unsupported,
            "out_layout: expected .* found NHWD",
            "nn.max_pool2d",
            [T4],
            {"pool_size": (2, 2), "out_layout": "NHWD"},
        ),
        (
            Unsupported,
            "method: expected .*, found area",
            "image.resize2d",
            [T4],
            {"size": (2, 2), "method": "area"},
        ),
        (
            Unsupported,
            "coordinate_transformation_mode: expected .*, found corners",
            "image.resize2d",
            [T4],
            {"size": (2, 2), "coordinate_transformation_mode": "corners"},
        ),
        (Unsupported, "rank 2", "unique", [((None, None), "int64")], {}),
        (
            Unsupported,
            "reduction: expected .*, found 'or'",
            "scatter_elements",
            [V, I1, V],
            {"reduction": "or"},
        ),
        (
            Unsupported,
            "expected floats, found int8",
            "nn.adaptive_avg_pool1d",
            [((1, 1, None), "int8")],
            {"output_size": (2,)},
        ),
        (DiscError, "must be known at compile time", "gather_nd", [M, ((None, 3), "int64")], {}),
        (
            ShapeConflict,
            "input channels",
            "nn.conv1d",
            [W1, ((2, 4, 3), "float32")],
            {},
        ),
    ],
)
def test_refused_when_building(
    kind: type[Exception], message: str, name: str, inputs: list[Any], attrs: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=message) as caught:
        compiled(name, *inputs, **attrs)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("message", "name", "inputs", "attrs", "shapes"),
    [
        ("must equal input 'x1' axis 0", "add", [V, V], {}, [(3,), (4,)]),
        ("must be a multiple of 3", "split", [V], {"indices_or_sections": 3}, [(7,)]),
        ("must equal 1", "squeeze", [M], {"axis": (0,)}, [(2, 3)]),
        ("must equal", "nn.dense", [M, M], {"units": None}, [(2, 3), (4, 5)]),
        ("must equal", "nn.prelu", [M, V], {}, [(2, 3), (4,)]),
        ("must be at most", "slice_like", [M, M], {"axes": (1,)}, [(2, 3), (2, 4)]),
        ("must", "broadcast_to_like", [V, V], {}, [(3,), (4,)]),
        ("must", "reshape", [M], {"newshape": (4, -1)}, [(3, 3)]),
        ("must", "nn.mirror_pad", [V], {"pad_width": ((1, 1),)}, [(0,)]),
    ],
)
def test_refused_when_running(
    message: str, name: str, inputs: list[Any], attrs: dict[str, Any], shapes: list[Any]
) -> None:
    executable = compiled(name, *inputs, **attrs)
    with pytest.raises(GuardFailed, match=message):
        executable(*(np.zeros(s, dtype) for s, (_, dtype) in zip(shapes, inputs, strict=True)))


@pytest.mark.parametrize("name", ["divide", "floor_divide", "mod", "floor_mod"])
def test_floats_are_divided_by_a_constant_that_is_zero(name: str) -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype="float32")
    by = [relay.const(np.float32(zero)) for zero in (0.0, -0.0)]
    exe = tvm_disc.build(relay.Function([x], relay.Tuple([getattr(relay, name)(x, b) for b in by])))
    values = np.array([2, -3, 0, -0.0, np.inf, -np.inf, np.nan], "float32").repeat(5)
    with np.errstate(all="ignore"):
        quotients = [values / np.float32(zero) for zero in (0.0, -0.0)]
    for found, quotient in zip(exe(values), quotients, strict=True):
        wanted = quotient if "divide" in name else np.full_like(values, np.nan)
        np.testing.assert_array_equal(found, wanted)
