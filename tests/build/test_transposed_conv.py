"""Transposed convolutions by phases, against their definition as a scatter, in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed
from tvm_disc.relay.importer.lowering.transposed import PhaseAxis

RNG = np.random.default_rng(0)
SIZES = [(1, 1, 1), (2, 3, 5), (1, 7, 2), (3, 8, 9), (1, 17, 33), (0, 4, 3)]
# in, out, kernel, stride, padding, output padding, groups, dilation
LAYERS = {
    "2x2, phases of one tap": (5, 6, 2, 2, 0, 0, 1, 1),
    "3x3, doubled": (4, 8, 3, 2, 1, 1, 1, 1),
    "4x4, cropped": (3, 7, 4, 2, 1, 0, 1, 1),
    "4x4, whole": (3, 7, 4, 2, 0, 0, 1, 1),
    "3x3 by 3, cropped by more than a stride": (2, 5, 7, 3, 4, 2, 1, 1),
    "a stride beyond the kernel": (3, 4, 2, 3, 0, 1, 1, 1),
    "1x1 strided": (3, 4, 1, 2, 0, 1, 1, 1),
    "stride 1": (4, 9, 3, 1, 1, 0, 1, 1),
    "stride 1, dilated": (4, 9, 3, 1, 1, 0, 1, 2),
    "strided and dilated": (4, 6, 3, 2, 1, 1, 1, 2),
    "grouped": (6, 8, 3, 2, 1, 1, 2, 1),
    "one channel each": (6, 6, 4, 2, 1, 0, 6, 1),
}


def scatter(x: np.ndarray, w: np.ndarray, layer: tuple[int, ...]) -> np.ndarray:
    """Every element of ``x`` adds the kernel to where it falls."""
    _, outs, kernel, stride, pad, more, groups, dilation = layer
    n, ins, *sizes = x.shape
    sizes_out = [stride * (s - 1) + dilation * (kernel - 1) + 1 + more for s in sizes]
    whole = np.zeros((n, outs, *sizes_out))
    per_in, per_out = ins // groups, outs // groups
    for g, a, b in product(range(groups), range(kernel), range(kernel)):
        part = np.einsum(
            "nihw,io->nohw",
            x[:, g * per_in : (g + 1) * per_in].astype("float64"),
            w[g * per_in : (g + 1) * per_in, :, a, b].astype("float64"),
        )
        rows = slice(a * dilation, a * dilation + stride * (sizes[0] - 1) + 1, stride)
        columns = slice(b * dilation, b * dilation + stride * (sizes[1] - 1) + 1, stride)
        whole[:, g * per_out : (g + 1) * per_out, rows, columns] += part
    return whole[:, :, pad : sizes_out[0] - pad, pad : sizes_out[1] - pad]


def call(x: Any, w: Any, layer: tuple[int, ...]) -> Any:
    _, outs, kernel, stride, pad, more, groups, dilation = layer
    return relay.nn.conv2d_transpose(
        x, w, strides=(stride,) * 2, padding=(pad,) * 2, output_padding=(more,) * 2, groups=groups,
        dilation=(dilation,) * 2, channels=outs, kernel_size=(kernel,) * 2,
    )  # fmt: skip


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "input"])
@pytest.mark.parametrize("name", LAYERS)
def test_conv2d_transpose(name: str, constant: bool) -> None:
    layer = LAYERS[name]
    ins, outs, kernel, groups = layer[0], layer[1], layer[2], layer[6]
    w = RNG.standard_normal((ins, outs // groups, kernel, kernel)).astype("float32")
    any_ = relay.Any()
    x = relay.var("x", shape=(any_, ins, any_, any_), dtype="float32")
    weight = relay.const(w) if constant else relay.var("w", shape=w.shape, dtype="float32")
    exe = tvm_disc.build(relay.Function([x] if constant else [x, weight], call(x, weight, layer)))
    for n, h, v in SIZES:
        a = RNG.standard_normal((n, ins, h, v)).astype("float32")
        expected = scatter(a, w, layer)
        if 0 in expected.shape[2:]:
            continue
        got = exe(a) if constant else exe(a, w)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=str((n, h, v)))


@pytest.mark.parametrize("name", [n for n, layer in LAYERS.items() if layer[3] > 1 == layer[7]])
def test_nothing_is_multiplied_by_the_zeros_between(name: str) -> None:
    """As many products as the taps of all phases, at most one more of each axis's rounding; an axis
    with a stride and a dilation is spread, and not among them."""
    layer = LAYERS[name]
    kernel, stride, pad, more = layer[2:6]
    axis = PhaseAxis.of(kernel, stride, (pad, pad), more)
    assert axis.taps == -(-kernel // stride)
    assert min(axis.margins) >= 0 and axis.skipped >= 0


@pytest.mark.parametrize("kernel", range(1, 7))
@pytest.mark.parametrize("stride", range(1, 5))
def test_every_element_is_made_of_its_taps(kernel: int, stride: int) -> None:
    """One axis, all paddings: phases, weaving and cropping give what the scatter gives."""
    for before, after, more, length in product(range(4), range(4), range(stride), (1, 2, 5)):
        wanted = stride * (length - 1) + kernel - before - after + more
        if wanted <= 0:
            continue
        axis = PhaseAxis.of(kernel, stride, (before, after), more)
        x, w = RNG.standard_normal(length), RNG.standard_normal(kernel)
        whole = np.zeros(max(stride * (length - 1) + kernel + more, before + wanted))
        for i, k in product(range(length), range(kernel)):
            whole[stride * i + k] += x[i] * w[k]
        lead, rest = axis.margins
        taps = np.pad(w, (lead, rest)).reshape(axis.taps, stride)[::-1]
        wide = np.pad(x, (axis.before, axis.after))
        count = len(wide) - axis.taps + 1
        phases = np.array([wide[q : q + axis.taps] @ taps for q in range(count)])
        woven = phases.reshape(-1)[axis.skipped : axis.skipped + wanted]
        assert stride * length + axis.length == wanted
        np.testing.assert_allclose(woven, whole[before : before + wanted], atol=1e-12)


def test_padding_beyond_the_result_is_refused() -> None:
    x = relay.var("x", shape=(relay.Any(), 2, relay.Any(), relay.Any()), dtype="float32")
    w = relay.const(np.ones((2, 3, 2, 2), "float32"))
    exe = tvm_disc.build(relay.Function([x], call(x, w, (2, 3, 2, 2, 2, 0, 1, 1))))
    with pytest.raises(GuardFailed, match=r"must be at most .*input .x. axis 2"):
        exe(np.ones((1, 2, 1, 5), "float32"))
    got = exe(np.ones((1, 2, 3, 4), "float32"))
    assert got.shape == (1, 3, 2, 4)


@pytest.mark.parametrize(("stride", "extended"), [(1, 3), (2, 4), (3, 3), (4, 4)])
def test_nan_reaches_the_extended_kernel(stride: int, extended: int) -> None:
    """The kernel of 3 elements is extended by zeros to a multiple of the stride."""
    x = relay.var("x", shape=(relay.Any(), 1, relay.Any()))
    w = relay.const(np.ones((1, 1, 3), "float32"))
    y = relay.nn.conv1d_transpose(x, w, strides=(stride,), channels=1, kernel_size=(3,))
    exe = tvm_disc.build(relay.Function([x], y))
    for batch, size in ((1, 1), (2, 4), (1, 9)):
        for place, value in product(range(size), (np.nan, np.inf)):
            given = np.ones((batch, 1, size), "float32")
            given[:, :, place] = value
            found = np.argwhere(~np.isfinite(exe(given)[0, 0]))[:, 0]
            length = stride * (size - 1) + 3
            reached = range(stride * place, min(stride * place + extended, length))
            assert found.tolist() == list(reached)
