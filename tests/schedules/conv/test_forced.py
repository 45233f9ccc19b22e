"""Random convolutions: each template by itself, and two in one tree, forced by a given tree."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.processor import run_on
from tvm_disc import relay
from tvm_disc.compile import prepare
from tvm_disc.errors import BadInput
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import Variant, layout_sets
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace

CHANNELS = (1, 1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 32, 33, 48, 64)
WHOLE = (16, 32, 48, 64)
SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 23)


@dataclass(frozen=True)
class Layer:
    """A convolution of images; pairs are of rows and columns, ``before`` and ``after`` padding."""

    ins: int
    outs: int
    groups: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    dilation: tuple[int, int]
    last: bool
    fixed: tuple[int | None, ...]
    bias: bool

    @staticmethod
    def drawn(rng: np.random.Generator, last: bool) -> Layer:
        """A layer whose channels fill vectors, or not; of which some dims may be known."""
        pick = lambda *of: int(rng.choice(of))  # noqa: E731
        groups = pick(1, 1, 1, 2, 3, 4, 16)
        few = (1, 1, 2, 4, 9) if groups > 2 else WHOLE if pick(0, 1) else CHANNELS
        ins, outs = groups * pick(*few), groups * pick(*few)
        if not last and pick(0, 1):
            groups, ins = 1, 1  # which both of the other layout's templates accept
        kernel = (3, 3) if pick(0, 1) else (pick(1, 1, 2, 3, 5), pick(1, 1, 2, 3, 4, 7))
        even = bool(pick(0, 1, 1))  # of which minimal filtering needs the strides
        strides = (1, 1) if even else (pick(1, 2, 3), pick(1, 2, 2, 3))
        dilation = (1, 1) if even else (pick(1, 1, 2), pick(1, 1, 3))
        before = (pick(0, 1, kernel[0] // 2, kernel[0] + 1), pick(0, 1, kernel[1] + 2))
        after = before if pick(0, 1) else (pick(0, 2, kernel[0]), pick(0, 1, kernel[1] + 1))
        made = Layer(
            ins, outs, groups, kernel, strides, before, after, dilation, last, (), bool(pick(0, 1))
        )
        sides = [max(pick(*SIDES), n) if pick(0, 0, 0, 1) else None for n in (1, *made.least)]
        return replace(made, fixed=tuple(sides))

    def weights(self, rng: np.random.Generator) -> np.ndarray:
        shape = (self.outs, self.ins // self.groups, *self.kernel)
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32")

    def function(self, w: np.ndarray) -> Any:
        """The convolution and relu, after a bias or not, in relay."""
        images, *sides = (relay.Any() if d is None else d for d in self.fixed)
        shape = (images, *sides, self.ins) if self.last else (images, self.ins, *sides)
        x = relay.var("x", shape=shape, dtype="float32")
        y = relay.nn.conv2d(
            x, relay.const(w), strides=self.strides, padding=(*self.before, *self.after),
            dilation=self.dilation, groups=self.groups, channels=self.outs,
            kernel_size=self.kernel, data_layout="NHWC" if self.last else "NCHW",
            kernel_layout="OIHW",
        )  # fmt: skip
        if self.bias:
            b = np.arange(self.outs, dtype="float32") / self.outs
            y = relay.nn.bias_add(y, relay.const(b), axis=3 if self.last else 1)
        return relay.Function([x], relay.nn.relu(y))

    def expected(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The result for images of channels first, in float64."""
        pad = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        wide = np.pad(x.astype("float64"), pad)
        taps = np.lib.stride_tricks.sliding_window_view(wide, reach, (2, 3))
        taps = taps[
            :, :, :: self.strides[0], :: self.strides[1], :: self.dilation[0], :: self.dilation[1]
        ]
        n, _, oh, ow = taps.shape[:4]
        taps = taps.reshape(n, self.groups, self.ins // self.groups, *taps.shape[2:])
        own = w.astype("float64").reshape(self.groups, -1, *w.shape[1:])
        y = np.einsum("ngchwij,gocij->ngohw", taps, own).reshape(n, self.outs, oh, ow)
        if self.bias:
            y = y + (np.arange(self.outs) / self.outs)[:, None, None]
        return np.maximum(y, 0)

    @property
    def least(self) -> tuple[int, int]:
        """The least rows and columns of an image that has an output."""
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        pads = zip(reach, self.before, self.after, strict=True)
        rows, columns = (max(r - a - b, 1) for r, a, b in pads)
        return rows, columns

    def images(self, rng: np.random.Generator, count: int) -> list[tuple[int, int, int]]:
        """So many sizes of images, the least one first."""
        found = []
        for k in range(count):
            sides = [max(int(rng.choice(SIDES)), n) if k else n for n in self.least]
            known = [f or s for f, s in zip(self.fixed[1:], sides, strict=True)]
            found.append((self.fixed[0] or int(rng.choice((1, 1, 2, 3, 5))), known[0], known[1]))
        return found if self.fixed[0] else [*found, (0, *found[0][1:])]


def spaces(function: Any, target: Any, threads: int) -> list[tuple[str, Any, list[Variant]]]:
    """The key, the group and the variants of each convolution."""
    front = prepare(function, None, target, (), tvm_disc.Options(threads=threads), Trace(0, None))
    groups = [k.group for k in front.library.kernels() if k.group and k.group.kind == "conv"]
    return [(group_key(g), g, variant_space(g, Solver(), front.machine).variants) for g in groups]


def trees(group: Any, variants: list[Variant], rng: np.random.Generator) -> list[Any]:
    """Trees of one variant of each body, and of all layouts that may share a kernel."""
    safe = [v for v in variants if v.safe]
    found: list[Any] = [{"run": v.to_json()} for v in {v.plan.code: v for v in safe}.values()]
    names = [str(s.name) for s in group.symbols()]
    for layouts in layout_sets([v.plan for v in safe], math.inf):
        own = [v for v in safe if v.plan.layout in layouts]
        families = list({(v.plan.layout, v.plan.family): v for v in own}.values())
        if len(families) > 1 and names:
            tree: Any = None
            for k in rng.permutation(len(families)):
                leaf, name = {"run": families[int(k)].to_json()}, str(rng.choice(names))
                at = int(rng.choice((2, 3, 6)))
                tree = {"if": name, "below": at, "then": leaf, "else": tree} if tree else leaf
            found.append(tree)
    return found


def check(seed: int, level: str, last: bool, folder: Path, most: int) -> int:
    """Return how many kernels of a drawn layer were compared with the reference, at most so
    many.
    """
    rng = np.random.default_rng(seed)
    layer = Layer.drawn(rng, last)
    w, threads, images = layer.weights(rng), int(rng.choice((1, 2))), layer.images(rng, 6)
    target, path = {"kind": "llvm", "mcpu": level}, folder / "tree.json"
    function, count = layer.function(w), 0
    for key, group, variants in spaces(function, target, threads):
        made = trees(group, variants, rng)
        for tree in (made[int(k)] for k in sorted(rng.permutation(len(made))[:most])):
            path.write_text(json.dumps({key: tree}), encoding="utf-8")
            options = tvm_disc.Options(threads=threads, dispatch=path)
            exe = tvm_disc.build(function, target=target, options=options)
            count += 1
            for size in images:
                x = rng.standard_normal((size[0], layer.ins, *size[1:])).astype("float32")
                want = layer.expected(x, w)
                got = exe(np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x)
                got = got.transpose(0, 3, 1, 2) if last else got
                bound = 3e-6 * max(float(np.abs(want).max(initial=0)), 1.0)
                what = f"seed {seed}, {level}, {layer}, {size}, {threads} threads, {tree}"
                np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=what)
    return count


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("last", [True, False])
def test_every_template_and_tree_computes_the_same(level: str, last: bool, tmp_path: Path) -> None:
    run_on(level)
    seeds = range(14) if last else range(7)
    assert sum(check(seed, level, last, tmp_path, 3) for seed in seeds) > 2 * len(seeds)


def one_channel(outs: int = 4) -> tuple[Layer, np.ndarray]:
    """A layer that the implicit GEMM and the window tile accept; only the former packs weights."""
    pair = (1, 1)
    layer = Layer(1, outs, 1, (3, 3), pair, pair, pair, pair, False, (None, None, None), True)
    return layer, layer.weights(np.random.default_rng(1))


def test_plans_that_pack_a_weight_differently_have_different_layouts() -> None:
    layer, w = one_channel()
    [(_, _, variants)] = spaces(layer.function(w), {"kind": "llvm", "mcpu": "x86-64-v4"}, 1)
    layouts = {v.plan.family: v.plan.layout for v in variants}
    assert layouts.keys() == {"implicit gemm", "window tile"}
    assert layouts["implicit gemm"] != layouts["window tile"]


@pytest.mark.parametrize("family", ["implicit gemm", "window tile"])
def test_a_tree_of_packed_and_plain_weights_is_refused(family: str, tmp_path: Path) -> None:
    layer, w = one_channel()
    target, path = {"kind": "llvm", "mcpu": "x86-64-v4"}, tmp_path / "tree.json"
    [(key, group, variants)] = spaces(layer.function(w), target, 1)
    apart = {v.plan.family: {"run": v.to_json()} for v in variants}
    name = str(group.symbols()[1].name)
    tree = {"if": name, "below": 5, "then": apart.pop(family), "else": next(iter(apart.values()))}
    path.write_text(json.dumps({key: tree}), encoding="utf-8")
    options = tvm_disc.Options(threads=1, dispatch=path)
    with pytest.raises(BadInput, match="its variants pack a weight differently"):
        tvm_disc.build(layer.function(w), target=target, options=options)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("outs", [1, 4, 17, 64])
def test_images_of_one_channel(outs: int, threads: int) -> None:
    layer, w = one_channel(outs)
    exe = tvm_disc.build(layer.function(w), options=tvm_disc.Options(threads=threads))
    rng = np.random.default_rng(2)
    for n, h, w_ in ((0, 3, 3), (1, 1, 1), (1, 9, 9), (5, 9, 9), (2, 12, 7), (1, 31, 97)):
        x = rng.standard_normal((n, 1, h, w_)).astype("float32")
        np.testing.assert_allclose(exe(x), layer.expected(x, w), rtol=0, atol=3e-6)
