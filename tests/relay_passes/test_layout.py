"""Images between convolutions with their channels last: what is converted, and what it computes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import function, rows
from tvm_disc import Options, relay
from tvm_disc.compile import PASSES
from tvm_disc.relay_passes import ChannelsLast, DecomposeComposite, FuseDISC, Simplify
from tvm_disc.relay_passes.rewrite import bindings_of
from tvm_disc.relay_passes.versions import Told, import_versions

IMAGE = ("n", 3, "h", "w")
SHAPES = ((1, 3, 16, 16), (2, 3, 17, 9), (0, 3, 8, 8), (1, 3, 1, 1), (3, 3, 5, 24))


def literal(*shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return relay.const((values / math.sqrt(max(math.prod(shape[1:]), 1))).astype("float32"))


def conv(x: Any, channels: int, inputs: int, size: int = 1, **attrs: Any) -> Any:
    """A convolution that keeps the size of its image where its stride is 1."""
    groups = attrs.get("groups", 1)
    weight = literal(channels, inputs // groups, size, size)
    around = (size // 2, size // 2)
    return relay.nn.conv2d(
        x, weight, channels=channels, kernel_size=(size, size), padding=around, **attrs
    )


def block(x: Any, channels: int, inputs: int, size: int = 1, **attrs: Any) -> Any:
    """Convolution, bias, relu."""
    return relay.nn.relu(
        relay.nn.bias_add(conv(x, channels, inputs, size, **attrs), literal(channels))
    )


def pooled(x: Any) -> Any:
    return relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x))


def resnet(x: Any) -> Any:
    """A first layer, a pool, a block that keeps its size and one that halves it."""
    x = block(x, 8, 3, 7, strides=(2, 2))
    x = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    x = resnet_block(x)
    down = conv(x, 16, 8, strides=(2, 2))
    x = relay.nn.relu(relay.add(down, conv(block(x, 8, 8, 3, strides=(2, 2)), 16, 8)))
    return relay.nn.dense(pooled(x), literal(10, 16))


def resnet_block(x: Any) -> Any:
    """A block between images of eight channels."""
    return relay.nn.relu(relay.add(x, conv(block(block(x, 4, 8), 4, 4, 3), 8, 4)))


def squeeze(x: Any) -> Any:
    """Channels weighed by what their means say."""
    x = block(x, 8, 3, 3)
    gates = relay.sigmoid(block(block(relay.nn.global_avg_pool2d(x), 4, 8), 8, 4))
    return pooled(conv(relay.multiply(x, gates), 16, 8))


def dense_net(x: Any) -> Any:
    """Every layer reads all layers before it."""
    seen = [block(x, 8, 3, 3)]
    for k in range(3):
        before = relay.concatenate(seen, axis=1) if k else seen[0]
        seen.append(block(before, 4, 8 + 4 * k, 3))
    x = block(relay.concatenate(seen, axis=1), 8, 20)
    x = relay.nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2), padding=(1, 1))
    return pooled(x)


def inverted(x: Any) -> Any:
    """A wide depthwise convolution between two narrow ones."""
    x = block(x, 8, 3, 3)
    wide = relay.clip(conv(x, 16, 8), 0.0, 6.0)
    wide = relay.clip(conv(wide, 16, 16, 3, groups=16), 0.0, 6.0)
    return pooled(relay.add(x, conv(wide, 8, 16)))


def u_net(x: Any) -> Any:
    """Down, up again by resizing, and joined with what was there before."""
    top = block(x, 8, 3, 3)
    low = block(relay.nn.max_pool2d(top, pool_size=(2, 2), strides=(1, 1)), 16, 8, 3)
    up = relay.repeat(relay.repeat(block(low, 8, 16), 2, axis=2), 2, axis=3)
    up = relay.nn.pad(up, ((0, 0), (0, 0), (1, 1), (1, 1)))
    same = relay.concatenate([up, relay.negative(up)], axis=1)
    return conv(block(same, 8, 16, 3), 3, 8), relay.mean(top, axis=1)


def shuffle(x: Any) -> Any:
    """Channels in two groups, interleaved."""
    x = block(x, 8, 3, 3)
    x = relay.reshape(x, (0, 2, 4, -1, 1))
    x = relay.transpose(x, (0, 2, 1, 3, 4))
    x = relay.reshape(x, (0, 8, -1, 1))
    halves = relay.split(block(x, 8, 8), 2, axis=1)
    return pooled(relay.concatenate([halves[1], block(halves[0], 4, 4)], axis=1))


def subpixels(x: Any) -> Any:
    """Channels that become space."""
    return conv(relay.nn.depth_to_space(block(block(x, 8, 3, 3), 8, 8), 2), 3, 2, 3)


def conv_next(x: Any) -> Any:
    """Rows of a pixel each are normalised with channels last in the model itself."""
    x = block(x, 8, 3, 3)
    y = relay.transpose(conv(x, 8, 8, 3, groups=8), (0, 2, 3, 1))
    y = relay.nn.layer_norm(y, literal(8), literal(8), axis=-1)
    y = relay.transpose(relay.tanh(y), (0, 3, 1, 2))
    return pooled(block(relay.add(x, y), 8, 8))


def tokens(x: Any) -> Any:
    """Patches of an image as rows."""
    x = block(x, 16, 3, 3, strides=(2, 2))
    x = relay.transpose(relay.reshape(x, (0, 0, -1)), (0, 2, 1))
    return relay.nn.softmax(x)


def woven(x: Any) -> Any:
    """A transposed convolution: one by phases, whose channels are woven into space."""
    x = block(x, 8, 3, 3)
    x = relay.nn.conv2d_transpose(
        x, literal(8, 8, 4, 4), channels=8, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1)
    )
    return pooled(block(x, 8, 8, 3))


def resized(x: Any) -> Any:
    """Twice as large by weights of neighbours, and by copies of the nearest."""
    x = block(x, 8, 3, 3)
    smooth = relay.nn.upsampling(x, 2.0, 2.0, "NCHW", "bilinear")
    near = relay.nn.upsampling(block(x, 8, 8), 2.0, 2.0, "NCHW", "nearest_neighbor")
    return conv(relay.concatenate([smooth, near], axis=1), 3, 16, 3)


def group_norm(x: Any) -> Any:
    x = block(x, 8, 3, 3)
    x = relay.nn.group_norm(x, literal(8), literal(8), 2)
    return pooled(block(relay.multiply(x, relay.sigmoid(x)), 8, 8, 3))


# A model and its permutations: what moves are the three channels of its input, or of a result,
# and channels that become space or change their order in the model itself.
CONVERTED: Sequence[tuple[Callable[[Any], Any], int]] = (
    (resnet, 1),
    (squeeze, 1),
    (dense_net, 1),
    (inverted, 1),
    (u_net, 2),
    (shuffle, 2),
    (subpixels, 3),
    (conv_next, 1),
    (tokens, 1),
    (woven, 2),
    (resized, 2),
    (group_norm, 1),
)


@dataclass
class Graph:
    """The calls that fusion reads, and what the pass left as it was."""

    calls: list[Any]
    refused: list[str]

    def count(self, name: str) -> int:
        return sum(getattr(c.op, "name", None) == f"relax.{name}" for c in self.calls)

    @property
    def layouts(self) -> list[str]:
        return [str(c.attrs.data_layout) for c in self.calls if hasattr(c.attrs, "data_layout")]


def graph(source: Any) -> Graph:
    """A module after the pass."""
    mod, told = import_versions(source, None, (), several=False)[0].mod, Told({}, (), Options())
    run = ChannelsLast()
    for name, make in PASSES[1:-1]:
        mod = (run if name == "layout" else make(told))(mod)
    functions = [f for _, f in mod.functions_items()]
    calls = [b.value for f in functions for b in bindings_of(f) if hasattr(b.value, "op")]
    return Graph(calls, [str(r) for r in run.refused])


@pytest.fixture(autouse=True)
def compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs keep their layout, unless a test says so."""
    without = tuple((name, make) for name, make in PASSES if name != "layout")
    monkeypatch.setattr("tvm_disc.compile.PASSES", without)


def converted(source: Any) -> Any:
    """A program whose images are channels last."""
    return tvm_disc.build(source, passes={"before fuse": ChannelsLast()})


def source_of(model: Callable[[Any], Any]) -> Any:
    x = rows(*IMAGE)
    made = model(x)
    return function(x, relay.Tuple(made) if isinstance(made, tuple) else made)


def values(exe: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    made = exe(*inputs)
    return [np.asarray(v) for v in (made if isinstance(made, list | tuple) else [made])]


def agree(a: Any, b: Any, *shape: int) -> None:
    """Both programs compute the same, up to the order of additions."""
    image = np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")
    for x, y in zip(values(a, image), values(b, image), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("model", "permutes"), CONVERTED, ids=lambda m: getattr(m, "__name__", ""))
def test_networks_are_converted_whole_and_compute_the_same(
    model: Callable[[Any], Any], permutes: int
) -> None:
    source = source_of(model)
    made = graph(source)
    assert set(made.layouts) == {"NHWC"} and not made.refused
    assert made.count("permute_dims") == permutes
    exe, plain = converted(source), tvm_disc.build(source)
    # Statistics over axes that are no neighbours any more are two kernels.
    more = permutes + (model is group_norm)
    assert len(exe.launches) <= len(plain.launches) + more
    for shape in SHAPES:
        agree(exe, plain, *shape)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: conv(relay.tanh(x), 8, 8, 3),
        lambda x: relay.nn.softmax(block(x, 8, 8)),
        lambda x: relay.nn.max_pool2d(relay.nn.relu(x), pool_size=(2, 2)),
        lambda x: relay.Tuple((block(x, 8, 8), relay.mean(x, axis=[2, 3]))),
    ],
    ids=["lone", "row", "no convolution", "several results"],
)
def test_what_does_not_pay_stays_as_it_was(model: Callable[[Any], Any]) -> None:
    x = rows("n", 8, "h", "w")
    made = graph(function(x, model(x)))
    assert set(made.layouts) <= {"NCHW"} and not made.count("permute_dims")
    assert len(made.refused) == made.count("nn.conv2d")


def test_a_refusal_says_what_would_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_disc.compile.PASSES", PASSES)
    x = rows("n", 8, "h", "w")
    exe = tvm_disc.build(function(x, block(x, 16, 8, 3)))
    reason = "channels last: it would transpose 2 images to speed up 1 convolution"
    (said,) = (r for r in exe.refused if reason in r)
    assert said.startswith("nn.conv2d") and said in exe.explain()


def test_one_more_convolution_than_images_pays() -> None:
    x = rows("n", 8, "h", "w")
    two = graph(function(x, block(block(x, 8, 8), 8, 8)))
    assert set(two.layouts) == {"NCHW"} and "to speed up 2 convolutions" in two.refused[0]
    source = function(x, block(block(block(x, 8, 8), 8, 8, 3), 8, 8))
    three = graph(source)
    assert set(three.layouts) == {"NHWC"} and three.count("permute_dims") == 2
    agree(converted(source), tvm_disc.build(source), 3, 8, 7, 5)


def test_islands_are_judged_each_by_itself() -> None:
    x, z = rows(*IMAGE), rows("n", 8, "h", "w", name="z")
    source = function(x, z, relay.Tuple((pooled(block(block(x, 8, 3, 3), 8, 8)), conv(z, 8, 8))))
    made = graph(source)
    assert sorted(made.layouts) == ["NCHW", "NHWC", "NHWC"] and len(made.refused) == 1


def test_results_keep_their_order_and_share_one_permutation() -> None:
    x = rows(*IMAGE)
    y = block(block(x, 8, 3, 3), 8, 8)
    z = block(block(y, 8, 8), 8, 8)
    source = function(x, relay.Tuple((y, relay.nn.softmax(y), z, pooled(z))))
    made = graph(source)
    assert set(made.layouts) == {"NHWC"}
    assert made.count("permute_dims") == 4
    agree(converted(source), tvm_disc.build(source), 2, 3, 6, 7)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types_keep_their_order(dtype: str) -> None:
    x = rows(*IMAGE, dtype=dtype)

    def cast(shape: tuple[int, ...]) -> Any:
        return relay.cast(literal(*shape), dtype)

    y = relay.nn.conv2d(x, cast((8, 3, 1, 1)), channels=8, kernel_size=(1, 1))
    y = relay.nn.conv2d(y, cast((8, 8, 1, 1)), channels=8, kernel_size=(1, 1))
    made = graph(function(x, pooled(y)))
    assert set(made.layouts) == {"NCHW"} and not made.refused


OPERATORS: Sequence[tuple[str, Callable[[Any], Any], int]] = (
    ("channel", lambda x: relay.sum(x, axis=1), 0),
    ("best channel", lambda x: relay.argmax(x, axis=1), 0),
    ("best row", lambda x: relay.argmax(x, axis=2, keepdims=True), 1),
    ("columns", lambda x: relay.max(x, axis=3), 1),
    ("all", lambda x: relay.sum(x), 0),
    ("best of all", lambda x: relay.argmax(x), 1),
    ("batch", lambda x: relay.mean(x, axis=[0]), 1),
    ("batch and space", lambda x: relay.mean(x, axis=[0, 2, 3]), 0),
    ("rows and channels", lambda x: relay.sum(x, axis=[1, 2], keepdims=True), 0),
    ("slice", lambda x: relay.strided_slice(x, [1, 0], [7, 1], [2, 1], axes=[1, 2]), 1),
    ("take", lambda x: relay.take(x, relay.const(np.array([2, 0, 2])), axis=1), 1),
    ("take one", lambda x: relay.take(x, relay.const(np.array(2)), axis=1), 0),
    ("flip", lambda x: relay.reverse(x, axis=3), 1),
    ("tile", lambda x: relay.tile(x, (1, 2, 1, 1)), 1),
    ("pad", lambda x: relay.nn.pad(x, ((0, 0), (1, 2), (0, 1), (3, 0))), 1),
    ("broadcast", lambda x: relay.add(pooled_image(x), relay.const(np.ones((8, 4, 1), "f4"))), 1),
    (
        "vector",
        lambda x: relay.multiply(x, relay.const(np.arange(8, dtype="f4")[:, None, None])),
        1,
    ),
    ("columns' vector", lambda x: relay.add(x, relay.sum(x, axis=[0, 1, 2])), 1),
    ("comparison", lambda x: relay.where(relay.greater(x, literal(1)), x, relay.exp(x)), 1),
    ("rows of one image", lambda x: relay.reshape(x, (0, 0, -1)), 1),
    ("all elements", lambda x: relay.reshape(x, (0, -1)), 1),
    ("swapped", lambda x: relay.transpose(x, (0, 1, 3, 2)), 1),
    ("reversed", lambda x: relay.transpose(x), 1),
)


def pooled_image(x: Any) -> Any:
    return relay.nn.global_avg_pool2d(x)


@pytest.mark.parametrize(
    ("operator", "permutes"), [row[1:] for row in OPERATORS], ids=[r[0] for r in OPERATORS]
)
def test_operators_behind_a_convolution(operator: Callable[[Any], Any], permutes: int) -> None:
    x = rows(*IMAGE)
    made = graph(function(x, operator(block(block(x, 8, 3, 3), 8, 8))))
    assert set(made.layouts) == {"NHWC"}
    assert made.count("permute_dims") == 1 + permutes


def test_operators_compute_the_same_on_either_order() -> None:
    x = rows(*IMAGE)
    y = block(x, 8, 3, 3)
    for _ in OPERATORS:  # more convolutions than results
        y = block(y, 8, 8)
    source = function(x, relay.Tuple(tuple(operator(y) for _, operator, _ in OPERATORS)))
    assert set(graph(source).layouts) == {"NHWC"}
    exe, plain = converted(source), tvm_disc.build(source)
    for shape in ((2, 3, 5, 7), (1, 3, 1, 4)):
        agree(exe, plain, *shape)


def test_branches_and_loops_are_sequences_of_their_own() -> None:
    """A loop over images: its state keeps the order of the model between steps."""
    x = rows("n", 8, "h", "w")
    t = relay.var("t", shape=(), dtype="int32")
    state = relay.var("state", shape=(relay.Any(), 8, relay.Any(), relay.Any()), dtype="float32")
    loop = relay.var("loop")
    step = block(block(block(state, 8, 8, 3), 8, 8), 8, 8)
    again = loop(relay.add(t, relay.const(1)), step)
    body = relay.If(relay.less(t, relay.const(3)), again, state)
    called = relay.Let(loop, relay.Function([t, state], body), loop(relay.const(0), x))
    source = function(x, called)
    made = graph(source)
    assert set(made.layouts) == {"NHWC"} and made.count("permute_dims") == 2
    agree(converted(source), tvm_disc.build(source), 2, 8, 5, 6)


def test_a_value_that_a_branch_reads_keeps_its_order() -> None:
    x, flag = rows(*IMAGE), relay.var("flag", shape=(), dtype="bool")
    y = block(block(x, 8, 3, 3), 8, 8)
    source = function(x, flag, relay.If(flag, relay.nn.softmax(y), resnet_block(y)))
    assert set(graph(source).layouts) == {"NHWC"}
    exe, plain = converted(source), tvm_disc.build(source)
    image = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")
    for which in (np.array(True), np.array(False)):
        (a,), (b,) = values(exe, image, which), values(plain, image, which)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_filled_images_are_made_in_their_order() -> None:
    """What pads an image by a number of rows that is known at run time only."""
    x = rows(*IMAGE)
    y = block(x, 8, 3, 3)
    border = relay.full_like(relay.strided_slice(y, [0], [1], axes=[2]), relay.const(2.0))
    made = graph(function(x, pooled(block(relay.concatenate([y, border], axis=2), 8, 8))))
    assert set(made.layouts) == {"NHWC"} and made.count("permute_dims") == 1


def test_it_stands_in_any_pipeline_and_off_it_changes_nothing() -> None:
    mod = import_versions(source_of(resnet), None, (), several=False)[0].mod
    assert ChannelsLast(enabled=False)(mod).same_as(mod)
    steps = [DecomposeComposite(), Simplify(), ChannelsLast(), FuseDISC()]
    fused = tvm.transform.Sequential(steps)(mod)
    names = [str(gv.name_hint) for gv in fused.get_global_vars()]
    assert sum(name.startswith("conv_") for name in names) > 1


def test_work_is_linear() -> None:
    def steps(blocks: int) -> int:
        x = rows(*IMAGE)
        y = block(x, 8, 3, 3)
        for _ in range(blocks):
            y = relay.add(y, block(block(y, 8, 8), 8, 8, 3))
        mod = import_versions(function(x, pooled(y)), None, (), several=False)[0].mod
        mod = Simplify()(DecomposeComposite()(mod))
        run, count = ChannelsLast(), 0

        def look(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(look)
        try:
            run(mod)
        finally:
            sys.setprofile(None)
        return count

    one, two, four = steps(10), steps(20), steps(40)
    assert four - two < 2.2 * (two - one)
