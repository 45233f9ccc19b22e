"""The operator table: complete, with right defaults, and references that run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from tests.relay.samples import samples_of, symbols
from tvm_disc.relay.attrs import AttrError, complete_attrs
from tvm_disc.relay.ops.references import Reference
from tvm_disc.relay.ops.row import REQUIRED, FusionClass
from tvm_disc.relay.ops.table import FAMILIES, OPS

from .helpers import DATA, make_inputs, resolve

CASES = [
    pytest.param(row, sample, sizes, id=f"{row.name}-{i}-{'x'.join(map(str, sizes))}")
    for row in OPS.values()
    for i, sample in enumerate(samples_of(row))
    for sizes in sample.sizes
]


def test_every_operator_of_relay_has_a_row() -> None:
    names = json.loads((DATA / "op_names.json").read_text())
    assert sorted(set(names) - OPS.keys()) == []
    assert len(OPS) == sum(len(family.rows) for family in FAMILIES)


def test_every_operator_with_a_rule_has_a_reference() -> None:
    rows = [row for row in OPS.values() if row.lower or row.value]
    assert [row.name for row in rows if row.reference is None] == []


@pytest.mark.parametrize(("row", "sample", "sizes"), CASES)
def test_reference_gives_the_expected_shape(row: Any, sample: Any, sizes: Any) -> None:
    env = dict(zip(symbols(sample), sizes, strict=False))
    inputs = make_inputs(sample, env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            out = row.reference(*inputs, **complete_attrs(row, sample.attrs))
        except ValueError as error:  # pointers and sequences are drawn at random here
            assert re.search("outside of the|in order|out of order", str(error))
            pytest.skip(str(error))
    many = isinstance(out, tuple)
    assert many == bool(sample.out and isinstance(sample.out[0], tuple))
    results, shapes = (out, sample.out) if many else ((out,), (sample.out,))
    assert len(results) == len(shapes)
    for result, shape, dtype in zip(results, shapes, sample.out_dtypes, strict=True):
        assert isinstance(result, np.ndarray) and result.dtype == dtype
        wanted = resolve(shape, env)
        known = tuple(n if w == "?" else w for n, w in zip(result.shape, wanted, strict=True))
        assert result.shape == known


@pytest.mark.parametrize(
    ("name", "attr", "default"),
    [
        ("nn.dense", "units", REQUIRED),
        ("nn.dense", "out_dtype", ""),
        ("nn.conv2d", "strides", (1, 1)),
        ("nn.conv2d", "channels", None),
        ("nn.conv2d", "kernel_layout", "OIHW"),
        ("nn.batch_norm", "epsilon", 1e-5),
        ("nn.leaky_relu", "alpha", 0.25),
        ("nn.lrn", "beta", 0.75),
        ("take", "mode", "clip"),
        ("take", "axis", None),
        ("gather_nd", "batch_dims", 0),
        ("cumsum", "exclusive", False),
        ("searchsorted", "dtype", "int32"),
        ("scatter_elements", "reduction", "update"),
        ("strided_slice", "slice_mode", "end"),
        ("topk", "k", REQUIRED),
        ("vision.multibox_prior", "steps", (-1.0, -1.0)),
        ("vision.multibox_transform_loc", "variances", (0.1, 0.1, 0.2, 0.2)),
        ("nn.adaptive_avg_pool2d", "output_size", ()),
        ("reshape", "allowzero", False),
    ],
)
def test_defaults(name: str, attr: str, default: Any) -> None:
    found = OPS[name].attrs[attr]
    assert found == default and type(found) is type(default)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("exp", FusionClass.ELEMWISE),
        ("add", FusionClass.BROADCAST),
        ("reshape", FusionClass.INJECTIVE),
        ("sum", FusionClass.REDUCE),
        ("nn.dense", FusionClass.OUT_ELEMWISE),
        ("nn.layer_norm", FusionClass.OPAQUE),
    ],
)
def test_classes(name: str, pattern: FusionClass) -> None:
    assert OPS[name].pattern is pattern


def test_traits() -> None:
    compares = {row.name for row in OPS.values() if row.compares}
    relations = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
    assert compares == relations | {"isnan", "isinf", "isfinite"}
    keeps = [n for n in ("exp", "clip", "nn.softmax", "isnan", "cast", "add") if OPS[n].keeps_type]
    assert keeps == ["exp", "clip", "nn.softmax"]


def test_completing_refuses_what_the_operator_does_not_have() -> None:
    with pytest.raises(AttrError, match=r"nn\.dense has no attribute 'unit'; .*units"):
        complete_attrs(OPS["nn.dense"], {"unit": 1})
    with pytest.raises(AttrError, match="reshape needs attribute 'newshape'"):
        complete_attrs(OPS["reshape"], {})
    with pytest.raises(AttrError, match=r"expected a number, a string, a dtype, .* found object"):
        complete_attrs(OPS["cast"], {"dtype": object()})
    with pytest.raises(AttrError, match=r"'axis' must be an integer, found \(1,\)"):
        complete_attrs(OPS["nn.softmax"], {"axis": [1]})


def ref(name: str, *arrays: Any, **attrs: Any) -> Any:
    row = OPS[name]
    assert row.reference is not None
    return row.reference(*arrays, **complete_attrs(row, attrs))


def test_reshape_codes() -> None:
    x = np.zeros((2, 3, 4, 5))
    shapes = {
        (0, -1): (2, 60),
        (-2,): (2, 3, 4, 5),
        (-3, -3): (6, 20),
        (-4, 1, 2, -2): (1, 2, 3, 4, 5),
        (0, -4, -1, 3, -2): (2, 1, 3, 4, 5),
        (6, 1, -2): (6, 1, 4, 5),
    }
    for code, shape in shapes.items():
        assert ref("reshape", x, newshape=code).shape == shape


def test_strided_slice_clamps_and_reverses() -> None:
    x = np.arange(10)
    attrs = {"strides": (1,), "axes": None}
    assert ref("strided_slice", x, begin=(7,), end=(99,), **attrs).tolist() == [7, 8, 9]
    assert ref("strided_slice", x, begin=(-3,), end=(-1,), **attrs).tolist() == [7, 8]
    attrs["strides"] = (-2,)
    assert ref("strided_slice", x, begin=(9,), end=(-99,), **attrs).tolist() == [9, 7, 5, 3, 1]
    sized = ref("strided_slice", x, begin=(2,), end=(3,), slice_mode="size", **attrs)
    assert sized.tolist() == [2, 3, 4]


def test_take_modes_and_gather_nd_order() -> None:
    x = np.arange(5)
    index = np.array([-1, 7])
    assert ref("take", x, index).tolist() == [0, 4]
    assert ref("take", x, index, mode="wrap").tolist() == [4, 2]
    grid = np.arange(12).reshape(3, 4)
    coords = np.array([[0, 1, 2], [3, 2, 1]])  # the coordinate axis is first
    assert ref("gather_nd", grid, coords).tolist() == [3, 6, 9]


def test_integer_division_and_rounding() -> None:
    a, b = np.array([7, -7], "int32"), np.array([2, 2], "int32")
    assert ref("divide", a, b).tolist() == [3, -3]
    assert ref("floor_divide", a, b).tolist() == [3, -4]
    assert ref("trunc_mod", a, b).tolist() == [1, -1]
    assert ref("floor_mod", a, b).tolist() == [1, 1]
    assert ref("round", np.array([0.5, -1.5])).tolist() == [1.0, -2.0]


def test_convolution_against_a_direct_sum() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 4, 7, 6)), rng.normal(size=(6, 2, 3, 2))
    out = ref("nn.conv2d", x, w, strides=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2), groups=2)
    data = np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)])
    assert out.shape == (2, 6, 4, 5)
    for n, o, i, j in np.ndindex(*out.shape):
        first = 2 * (o // 3)
        window = data[n, first : first + 2, 2 * i : 2 * i + 3, j : j + 3 : 2]
        np.testing.assert_allclose(out[n, o, i, j], (window * w[o]).sum())


def test_average_pooling_counts_real_elements_only() -> None:
    x = np.ones((1, 1, 3, 3), "float32")
    attrs = {"pool_size": (2, 2), "strides": (2, 2), "padding": (1, 1, 1, 1)}
    assert ref("nn.avg_pool2d", x, **attrs).tolist() == [[[[1, 1], [1, 1]]]]
    padded = ref("nn.avg_pool2d", x, count_include_pad=True, **attrs)
    assert padded.tolist() == [[[[0.25, 0.5], [0.5, 1]]]]


def test_topk_of_nothing() -> None:
    values, indices = ref("topk", np.zeros((2, 0), "float32"), k=0)
    assert values.shape == indices.shape == (2, 0)


def test_a_compiler_that_starts_reads_no_reference() -> None:
    code = (
        "import sys, tvm_disc\n"
        "print([m for m in sys.modules if m.startswith('tvm_disc.relay.ops.references.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_every_row_names_a_reference_that_exists() -> None:
    named = [row.reference for row in OPS.values() if row.reference is not None]
    assert all(isinstance(r, Reference) for r in named)
    assert all(callable(r.function) for r in named if isinstance(r, Reference))
    with pytest.raises(AttributeError, match="no_such"):
        Reference("tvm_disc.relay.ops.references.nn", "no_such")()
