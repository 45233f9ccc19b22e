"""Detectors and other operators with kernels of their own: what follows them, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import refuse
from tvm_disc import relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import GuardFailed, TypeMismatch, Unsupported
from tvm_disc.relay.ops.references import detection as ref

ANY = relay.Any()


def selected(boxes: Any, scores: Any) -> Any:
    """As importers of ONNX write it: the positions, cut to their number, and what they pick."""
    limit, overlap, least = (
        relay.const(np.array(v, t), t)
        for v, t in ((3, "int64"), (0.4, "float32"), (0.1, "float32"))
    )
    found = relay.vision.all_class_non_max_suppression(boxes, scores, limit, overlap, least)
    count = relay.op.concatenate([found[1], relay.const(np.array([3], "int64"), "int64")], axis=0)
    begin = relay.const(np.array([0, 0], "int64"), "int64")
    ones = relay.const(np.array([1, 1], "int64"), "int64")
    positions = relay.Call(
        relay.op.get("dyn.strided_slice"),
        [found[0], begin, count, ones],
        {"begin": None, "end": None, "strides": None, "slice_mode": "end", "axes": None},
    )
    picked = relay.op.strided_slice(positions, begin=[2], end=[3], strides=[1], axes=[1])
    best = relay.op.take(boxes, relay.op.squeeze(picked, axis=[1]), axis=1)
    return relay.Tuple([positions, relay.op.sum(best, axis=[2])])


def test_positions_are_cut_to_their_number() -> None:
    boxes = relay.var("boxes", shape=(1, ANY, 4))
    scores = relay.var("scores", shape=(1, ANY, ANY))
    with compile_counter() as count:
        program = tvm_disc.build(relay.Function([boxes, scores], selected(boxes, scores)))
    rng = np.random.default_rng(0)
    for classes, n in ((1, 1), (2, 7), (3, 16), (5, 64), (2, 33), (2, 0)):
        given = [rng.random((1, n, 4), "float32"), rng.random((1, classes, n), "float32")]
        limits = (np.int64(3), np.float32(0.4), np.float32(0.1))
        rows, found = ref.all_class_non_max_suppression(*given, *limits, output_format="onnx")
        positions, sums = program(*given)
        np.testing.assert_array_equal(positions, rows[: found[0]])
        np.testing.assert_allclose(sums, given[0][:, positions[:, 2]].sum(2), rtol=1e-5)
    assert count == [1]


def kernels(name: str, *shapes: Any, **attrs: Any) -> list[str]:
    """The kernels of one operator after an exponential, which may join it."""
    params = [relay.var(f"x{i}", shape=s) for i, s in enumerate(shapes)]
    first = relay.op.exp(params[0])
    call = getattr(relay.op, name)(first, *params[1:], **attrs)
    return list(tvm_disc.build(relay.Function(params, call)).kernels)


def test_changes_of_layout_are_part_of_a_loop() -> None:
    names = kernels("layout_transform", (ANY, 8, ANY), src_layout="NCW", dst_layout="NCW4c")
    assert len(names) == 1


def test_bits_as_another_type_are_part_of_a_loop() -> None:
    assert len(kernels("reinterpret", (ANY, 3), dtype="int32")) == 1


@pytest.mark.parametrize("columns", [2, 3])
def test_images_of_few_channels_are_moved(columns: int) -> None:
    x = relay.var("x", shape=(ANY, ANY, columns))
    program = tvm_disc.build(relay.Function([x], relay.op.transpose(x, axes=[0, 2, 1])))
    for n, m in ((1, 1), (2, 7), (3, 16), (5, 64), (1, 1001), (2, 0)):
        given = np.random.default_rng(n).random((n, m, columns), "float32")
        np.testing.assert_array_equal(program(given), given.transpose(0, 2, 1))


REFUSALS: list[tuple[str, list[Any], str, type[Exception], dict[str, Any]]] = [
    (
        "layout_transform",
        [(1, 2, 3)],
        "expected the same axes",
        TypeMismatch,
        {"src_layout": "NCW", "dst_layout": "NCH"},
    ),
    (
        "layout_transform",
        [(1, 2, 3)],
        "rank 3",
        TypeMismatch,
        {"src_layout": "NCHW", "dst_layout": "NHWC"},
    ),
    (
        "layout_transform",
        [(1, 6, 3)],
        "axis C must be a multiple of the block of 4",
        Exception,
        {"src_layout": "NCW", "dst_layout": "NCW4c"},
    ),
    (
        "reinterpret",
        [(3,)],
        "the same size as float32, found int64",
        TypeMismatch,
        {"dtype": "int64"},
    ),
    (
        "vision.get_valid_counts",
        [(2, 3), ()],
        "boxes of rank 3, found rank 2",
        TypeMismatch,
        {"score_threshold": 0.5},
    ),
    (
        "image.grid_sample",
        [(1, 2, 3, 3), (1, 2, 4, 4)],
        "padding_mode: expected .*, found 'wrap'",
        TypeMismatch,
        {"padding_mode": "wrap"},
    ),
    (
        "image.affine_grid",
        [(1, 2, 3)],
        "at least \\(2, 2\\)",
        TypeMismatch,
        {"target_shape": (1, 4)},
    ),
    (
        "nn.correlation",
        [(1, 2, 6, 6), (1, 2, 6, 6)],
        "kernel_size: expected an odd",
        TypeMismatch,
        {"kernel_size": 2},
    ),
    (
        "nn.deformable_conv2d",
        [(1, 4, 6, 6), (1, 18, 4, 4), (4, 2, 3, 3)],
        "groups: expected 1, found 2",
        Unsupported,
        {"groups": 2, "kernel_size": (3, 3)},
    ),
    (
        "nn.nll_loss",
        [(2, 3), (2,), (3,)],
        "reduction: expected .*, found 'median'",
        TypeMismatch,
        {"reduction": "median", "ignore_index": -1},
    ),
    ("mean", [(2, 3, "bool")], "expected numbers, found bool", TypeMismatch, {"axis": (1,)}),
    (
        "nn.avg_pool2d",
        [(1, 2, 4, 4, "bool")],
        "expected numbers, found bool",
        TypeMismatch,
        {"pool_size": (2, 2)},
    ),
    (
        "nn.nll_loss",
        [(2, 3), (2, "int32"), (3, "float16")],
        "expected weights of float32, found float16",
        TypeMismatch,
        {"reduction": "mean", "ignore_index": -1},
    ),
    (
        "nn.contrib_conv2d_winograd_without_weight_transform",
        [(1, 2, 6, 6, "int32"), (6, 6, 2, 2, "int32")],
        "data: expected floats, found int32",
        TypeMismatch,
        {"tile_size": 4},
    ),
    (
        "nn.contrib_conv2d_winograd_without_weight_transform",
        [(1, 2, 6, 6), (6, 6, 2, 2)],
        "out_dtype: expected floats, found int16",
        TypeMismatch,
        {"tile_size": 4, "out_dtype": "int16"},
    ),
    (
        "random.threefry_generate",
        [(10,)],
        "a key of uint64 and rank 1, found float32 of rank 1",
        TypeMismatch,
        {"out_shape": (4,)},
    ),
    (
        "sliding_window",
        [(2, 3, 4)],
        "for each of the 2 axes from axis 1",
        TypeMismatch,
        {"axis": 1, "window_shape": (2,), "strides": (1,)},
    ),
]


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{c[0]}{k}" for k, c in enumerate(REFUSALS)])
def test_refused_with_the_place_and_the_reason(case: Any) -> None:
    name, shapes, message, kind, attrs = case
    refuse(name, *shapes, message=message, kind=kind, **attrs)


def test_a_block_that_does_not_divide_is_refused_at_the_call() -> None:
    x = relay.var("x", shape=(ANY, ANY))
    call = relay.op.layout_transform(x, src_layout="NC", dst_layout="NC4c")
    program = tvm_disc.build(relay.Function([x], call))
    assert program(np.zeros((2, 8), "float32")).shape == (2, 2, 4)
    with pytest.raises(GuardFailed, match="must be a multiple of 4"):
        program(np.zeros((2, 6), "float32"))


def test_boxes_and_images_that_hold_too_little_are_refused_at_the_call() -> None:
    x, boxes = relay.var("x", shape=(ANY, ANY, ANY, ANY)), relay.var("boxes", shape=(ANY, ANY))
    picks = relay.var("picks", shape=(ANY,), dtype="int32")
    call = relay.image.crop_and_resize(x, boxes, picks, crop_size=(3, 4), layout="NCHW")
    program = tvm_disc.build(relay.Function([x, boxes, picks], call))

    def run(shape: tuple[int, ...], count: int, numbers: int = 4) -> Any:
        given = np.ones(shape, "float32"), np.ones((count, numbers), "float32")
        return program(*given, np.zeros(count, "int32"))

    assert run((1, 2, 5, 5), 3).shape == (3, 2, 3, 4)
    assert run((0, 2, 5, 5), 0).shape == (0, 2, 3, 4), "nothing is read"
    with pytest.raises(GuardFailed, match=r"input 'boxes' axis 1 \(boxes_1\) must equal 4"):
        run((1, 2, 5, 5), 1, 0)
    for axis in (0, 2, 3):
        shape = tuple(0 if a == axis else d for a, d in enumerate((1, 2, 5, 5)))
        with pytest.raises(GuardFailed, match=f"is indexed but empty: input 'x' axis {axis}"):
            run(shape, 1)
