"""Zones of rows that reach into the padding: exhaustive small sizes, and against float64 NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules.conv.contraction import WindowGeometry
from tvm_disc.schedules.conv.fill import Source
from tvm_disc.schedules.conv.macro_kernel import ConvWeights
from tvm_disc.schedules.conv.zones import Zones, more_panels, tails
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.schedules.packing import pack_constant
from tvm_disc.tir.builder import i64

RNG = np.random.default_rng(0)
TILE = GemmTile(9, 48, 16)
# taps, stride, dilation, rows of zeros before and behind
WINDOWS = [(3, 1, 1, 1, 1), (3, 2, 1, 1, 1), (5, 1, 1, 2, 2), (3, 1, 2, 2, 2), (2, 1, 1, 0, 1),
           (4, 1, 1, 2, 1), (3, 1, 1, 3, 3), (7, 2, 1, 3, 3), (3, 3, 1, 1, 2)]  # fmt: skip


def sizes(window: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Every extent up to 20 with some widths and numbers of images."""
    taps, stride, dilation, before, behind = window
    grid = itertools.product(range(20), (1, 7, 19, 26, 33), (1, 3))
    found = []
    for extent, width, images in grid:
        reach = dilation * (taps - 1) + 1
        rows = (extent + before + behind - reach) // stride + 1
        if rows > 0:
            found.append((extent, rows, width, images))
    return dict(zip(("extent", "rows", "width", "images"), np.array(found).T, strict=True))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("tail", [0, 4])
def test_every_needed_tap_is_in_its_rows_zone(window: tuple[int, ...], tail: int) -> None:
    taps, stride, dilation, before, behind = window
    values = sizes(window)
    dims = {n: tirx.Var(n, "int64") for n in values}
    points: dict[Any, Any] = {dims[n]: v.astype("float64") for n, v in values.items()}

    def bind(name: str, value: Any) -> Any:
        var = tirx.Var(name, "int64")
        points[var] = evaluate(i64(value), points)
        return var

    shape = ((dims["extent"], dims["width"]), (dims["rows"], dims["width"]), (taps, 3))
    window = WindowGeometry((stride, 1), (before, 1, behind, 1), (dilation, 1))
    source = Source(None, 1, 8, *shape, window, taps)
    zones = Zones(source, dims["images"], TILE, tail, bind)

    def of(parts: list[Any]) -> np.ndarray:
        shaped = [np.broadcast_to(evaluate(i64(p), points), values["rows"].shape) for p in parts]
        return np.stack(shaped, 1).astype(int)

    begins, ends, first, count = map(of, (zones.begins, zones.ends, zones.first_tap, zones.taps))
    columns, panels = of(zones.columns), of(zones.panels)
    apart = 0
    for p, (extent, rows, width, images) in enumerate(zip(*values.values(), strict=True)):
        spans = list(zip(begins[p], ends[p], strict=True))
        assert spans[0][0] == 0 and spans[2][1] == rows
        assert all(spans[z][1] == spans[z + 1][0] for z in (0, 1))
        spent = 0
        for z, (begin, end) in enumerate(spans):
            assert columns[p, z] == (end - begin) * width * images
            inside = [k for y in range(begin, end) for k in range(taps)
                      if 0 <= y * stride + k * dilation - before < extent]  # fmt: skip
            if inside:
                assert first[p, z] <= min(inside)
                assert max(inside) < first[p, z] + count[p, z] <= taps
            assert panels[p, z] == -(-columns[p, z] // TILE.n_r)
            spent += -(-columns[p, z] // TILE.lanes) * count[p, z] * (end > begin)
        whole = rows * width * images
        assert panels[p].sum() <= -(-whole // TILE.n_r) + more_panels(taps, i64(int(rows)))
        if any(e > b for b, e in (spans[0], spans[2])):
            apart += 1
            assert tail or spent < -(-whole // TILE.lanes) * taps
    assert apart > 0 or window in {(7, 2, 1, 3, 3), (2, 1, 1, 0, 1)}


def test_numbers_of_tails_and_panels() -> None:
    rows = tirx.Var("rows", "int64")
    few, many = {rows: np.float64(16)}, {rows: np.float64(17)}
    assert (more_panels(1, rows), more_panels(3, i64(16)), more_panels(3, i64(17))) == (0, 2, 0)
    assert [evaluate(more_panels(3, rows), p) for p in (few, many)] == [2, 0]
    assert tails(4, 1, 1, rows) == 1
    assert [evaluate(tails(4, 1, 3, rows), p) for p in (few, many)] == [3, 1]
    rest = tirx.Var("rest", "int64")
    cases = [evaluate(tails(4, rest, 1, rows), {rest: np.float64(r)}) for r in (0, 1, 4, 5)]
    assert cases == [0, 1, 1, 0]


def test_lines_of_taps_are_outermost_in_packed_rows() -> None:
    w = np.arange(2 * 200 * 3 * 2, dtype="float32").reshape(2, 200, 3, 2)
    found = pack_constant(ConvWeights(1, "float32", 3), w)
    assert found.shape[:3] == (1, 3, 2)
    for block, (begin, end) in enumerate(((0, 67), (67, 134), (134, 200))):
        expected = w[:, begin:end].transpose(0, 2, 1, 3).reshape(2, -1)
        np.testing.assert_array_equal(found[0, block, :, : expected.shape[1]], expected)


def reference(x: np.ndarray, w: np.ndarray, window: tuple[int, ...], groups: int) -> np.ndarray:
    """A convolution in float64; the last dim has a kernel of 3, padded by 1."""
    _, stride, dilation, before, behind = window
    rank = x.ndim - 2
    side = [(before, behind), *((1, 1),) * (rank - 1)]
    wide = np.pad(x.astype("float64"), ((0, 0), (0, 0), *side))
    steps, gaps = (stride, *(1,) * (rank - 1)), (dilation, *(1,) * (rank - 1))
    each = zip(wide.shape[2:], w.shape[2:], steps, gaps, strict=True)
    outs = [(n - g * (k - 1) - 1) // s + 1 for n, k, s, g in each]
    total = np.zeros((x.shape[0], w.shape[0], *outs))
    per = w.shape[0] // groups
    for tap in itertools.product(*map(range, w.shape[2:])):
        part = wide[(slice(None), slice(None), *(
            slice(t * g, t * g + (o - 1) * s + 1, s)
            for t, g, o, s in zip(tap, gaps, outs, steps, strict=True)))]  # fmt: skip
        for g in range(groups):
            chosen = w[(slice(g * per, (g + 1) * per), slice(None), *tap)].astype("float64")
            lanes = part[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            total[:, g * per : (g + 1) * per] += np.einsum("oc,nc...->no...", chosen, lanes)
    return total


@pytest.mark.parametrize(
    ("window", "channels", "outs", "groups", "threads"),
    [
        ((3, 1, 1, 1, 1), 7, 20, 1, 1),
        ((3, 1, 1, 1, 1), 130, 23, 1, 2),  # blocks of K, the last smaller
        ((3, 2, 1, 1, 1), 180, 9, 1, 1),
        ((5, 1, 1, 2, 2), 12, 8, 2, 1),
        ((3, 1, 2, 2, 2), 6, 40, 1, 2),
        ((2, 1, 1, 0, 1), 300, 12, 1, 1),
        ((3, 1, 1, 3, 3), 8, 9, 1, 1),  # whole rows of windows lie outside
        ((7, 2, 1, 3, 3), 5, 10, 1, 1),
    ],
)
def test_images_of_few_rows(
    window: tuple[int, ...], channels: int, outs: int, groups: int, threads: int
) -> None:
    taps, stride, dilation, before, behind = window
    x = relay.var("x", shape=(relay.Any(), channels, relay.Any(), relay.Any()), dtype="float32")
    w = RNG.standard_normal((outs, channels // groups, taps, 3)).astype("float32")
    y = relay.nn.conv2d(
        x, relay.const(w), strides=(stride, 1), dilation=(dilation, 1), groups=groups,
        padding=(before, 1, behind, 1), channels=outs, kernel_size=(taps, 3),
    )  # fmt: skip
    options = tvm_disc.Options(threads=threads)
    exe = tvm_disc.build(relay.Function([x], relay.nn.relu(y)), options=options)
    assert len(exe.kernels) == 1
    low = max(1, dilation * (taps - 1) + 1 - before - behind)
    images = [(b, h, width) for h in (*range(low, low + 6), 15, 16, 17)
              for b, width in ((1, 26), (3, 19), (5, 1), (1, 97), (2, 33))]  # fmt: skip
    for shape in [*images, (0, low, 4), (30, low, 20)]:
        a = RNG.standard_normal((shape[0], channels, *shape[1:])).astype("float32")
        expected = np.maximum(reference(a, w, window, groups), 0)
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-3, err_msg=str(shape))


def test_volumes_of_few_slices() -> None:
    x = relay.var("x", shape=(relay.Any(), 6, relay.Any(), relay.Any(), 5), dtype="float64")
    w = RNG.standard_normal((12, 6, 3, 2, 3))
    y = relay.nn.conv3d(
        x, relay.const(w, "float64"), padding=(1, 1, 1), channels=12, kernel_size=(3, 2, 3)
    )
    exe = tvm_disc.build(relay.Function([x], y))
    for batch, depth, height in ((1, 1, 1), (2, 2, 3), (3, 2, 4), (1, 4, 7), (4, 3, 1), (1, 17, 2)):
        a = RNG.standard_normal((batch, 6, depth, height, 5))
        wide = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1), (1, 1)))
        expected = sum(
            np.einsum("oc,ncdhw->nodhw", w[:, :, i, j, k],
                      wide[:, :, i : i + depth, j : j + height + 1, k : k + 5])
            for i, j, k in itertools.product(range(3), range(2), range(3))
        )  # fmt: skip
        np.testing.assert_allclose(exe(a), expected, rtol=1e-9, atol=1e-9)


def test_one_image_of_few_rows() -> None:
    x = relay.var("x", shape=(1, 64, relay.Any(), relay.Any()), dtype="float32")
    w = RNG.standard_normal((33, 64, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=33, kernel_size=(3, 3))
    exe = tvm_disc.build(relay.Function([x], y))
    for height, width in itertools.product((1, 2, 3, 4, 5), (1, 15, 16, 17, 49, 64, 100)):
        a = RNG.standard_normal((1, 64, height, width)).astype("float32")
        expected = reference(a, w, (3, 1, 1, 1, 1), 1)
        np.testing.assert_allclose(exe(a), expected, rtol=1e-4, atol=1e-3)
