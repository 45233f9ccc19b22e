"""Results whose rank is the length of an input: what the model declares of them tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from tests.frontends.onnx.helpers import F32, I64, build, model, node, normal, same  # noqa: E402
from tvm_disc.errors import DiscError, GuardFailed, TypeMismatch, Unsupported  # noqa: E402

MATRIX = {"x": (F32, ["a", "b"])}
CUBE = {"x": (F32, ["a", "b", "c"])}
VECTOR = {"s": (I64, ["n"])}


def declared(made: Any, **ranks: int) -> Any:
    """The model with the ranks of its results, and of values on the way."""
    for name, rank in ranks.items():
        info = helper.make_tensor_value_info(name, F32, [None] * rank)
        known = {v.name: v for v in made.graph.output}
        (known[name] if name in known else made.graph.value_info.add()).CopyFrom(info)
    return made


def of(made: Any, rank: int, inputs: Mapping[str, Any] = CUBE) -> Any:
    """A model of one node whose result 'y' has a rank."""
    return declared(model([made], {**inputs, **VECTOR}), y=rank)


def vector(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


SHAPES = ((2, 3, 4), (1, 1, 1), (7, 2, 5), (16, 3, 1), (0, 3, 2))


@pytest.mark.parametrize("name", ["ReduceSum", "ReduceLogSumExp", "ReduceMean"])
def test_reductions_that_drop_axes(name: str) -> None:
    made = of(node(name, ["x", "s"], ["y"], keepdims=0), 1)
    axes = (vector(0, 2), vector(1, -1), vector(2, 1), vector(-3, -2), vector(0, 1))
    shapes = (*SHAPES[:4], (3, 2, 0))
    program = same(made, *[[normal(*s), a] for s, a in zip(shapes, axes, strict=True)])
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(normal(2, 3, 4), vector(1))


def test_a_reduction_to_a_scalar() -> None:
    """No axes are all of them."""
    made = of(node("ReduceSum", ["x", "s"], ["y"], keepdims=0), 0)
    axes = (vector(), vector(0, 1, 2), vector(-1, 0, 1), vector(), vector(2, 1, 0))
    program = same(made, *[[normal(*s), a] for s, a in zip(SHAPES, axes, strict=True)])
    with pytest.raises(GuardFailed):
        program(normal(2, 3, 4), vector(1))


def test_no_axes_that_are_none_of_them() -> None:
    made = of(node("ReduceMax", ["x", "s"], ["y"], keepdims=0, noop_with_empty_axes=1), 3)
    program = same(made, *[[normal(*s), vector()] for s in SHAPES])
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(normal(2, 3, 4), vector(1))


@pytest.mark.parametrize(
    ("made", "rank", "inputs", "lines"),
    [
        (node("Reshape", ["x", "s"], ["y"]), 2, CUBE, [(-1, 0), (0, -1), (5, -1), (3, 16), (0, 3)]),
        (node("Unsqueeze", ["x", "s"], ["y"]), 5, CUBE, [(0, 1), (-1, 2), (4, 0), (3, -5), (1, 2)]),
        (node("Expand", ["x", "s"], ["y"]), 4, CUBE,
         [(2, 1, 1, 4), (5, 1, 3, 2), (1, 7, 2, 5), (0, 16, 3, 2), (3, 0, 3, 2)]),
    ],
)  # fmt: skip
def test_new_shapes(made: Any, rank: int, inputs: Any, lines: Any) -> None:
    cases = [[normal(*s), vector(*v)] for s, v in zip(SHAPES, lines, strict=True)]
    program = same(of(made, rank, inputs), *cases)
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(normal(2, 3, 4), vector(1, 2, 3))


def test_expand_by_fewer_dims_than_there_are() -> None:
    made = of(node("Expand", ["x", "s"], ["y"]), 3)
    lines = [(4,), (1, 5), (7, 1, 1), (), (2,)]
    program = same(made, *[[normal(*s), vector(*v)] for s, v in zip(SHAPES, lines, strict=True)])
    with pytest.raises(GuardFailed, match="s"):
        program(normal(2, 3, 4), vector(1, 2, 3, 4))


def test_squeeze() -> None:
    made = of(node("Squeeze", ["x", "s"], ["y"]), 2)
    shapes = ((1, 3, 4), (2, 1, 3), (5, 7, 1), (1, 1, 1), (0, 1, 2))
    axes = (vector(0), vector(1), vector(-1), vector(2), vector(-2))
    program = same(made, *[[normal(*s), a] for s, a in zip(shapes, axes, strict=True)])
    with pytest.raises(GuardFailed):
        program(normal(2, 3, 4), vector(1))
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(normal(1, 1, 4), vector(0, 1))


def test_constant_of_shape() -> None:
    made = declared(model([node("ConstantOfShape", ["s"], ["y"])], VECTOR), y=2)
    program = same(made, *[[vector(*v)] for v in ((1, 1), (3, 2), (0, 5), (16, 1), (2, 0))])
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(vector(1, 2, 3))


def test_coordinates_of_elements() -> None:
    inputs = {**CUBE, "i": (I64, ["m", "k"])}
    made = declared(model([node("GatherND", ["x", "i"], ["y"])], inputs), y=2)
    cases = [[normal(*s), vector(*i).reshape(-1, 2)] for s, i in (
        ((2, 3, 4), (1, 2, 0, 0)), ((1, 1, 1), (0, 0)), ((7, 2, 5), (-1, -1, 3, 1, 2, 0)),
        ((16, 3, 1), (15, 2)), ((3, 2, 0), ()),
    )]  # fmt: skip
    program = same(made, *cases)
    with pytest.raises(GuardFailed):
        program(normal(2, 3, 4), vector(0, 1, 0).reshape(1, 3))


def test_the_size_of_a_grid() -> None:
    inputs = {"t": (F32, ["b", "r", "c"]), **VECTOR}
    made = declared(model([node("AffineGrid", ["t", "s"], ["y"])], inputs, 20), y=4)
    sizes = ((1, 1, 2, 3), (2, 3, 1, 1), (3, 1, 5, 7), (1, 2, 4, 4), (2, 1, 2, 9))
    program = same(made, *[[normal(s[0], 2, 3), vector(*s)] for s in sizes], atol=1e-4)
    with pytest.raises(GuardFailed, match="'s' axis 0"):
        program(normal(1, 2, 3), vector(1, 1, 2, 3, 4))


def test_the_size_of_an_image() -> None:
    inputs = {"x": (F32, ["n", "c", "l"]), "s": (I64, ["i"]), "b": (I64, ["k"])}
    made = declared(model([node("Col2Im", ["x", "s", "b"], ["y"])], inputs, 18), y=4)
    cases = [
        [normal(1, 4, 4), vector(3, 3), vector(2, 2)],
        [normal(2, 5, 5), vector(5, 5), vector(1, 5)],
        [normal(1, 1, 1), vector(1, 1), vector(1, 1)],
        [normal(3, 12, 2), vector(3, 3), vector(3, 2)],
        [normal(1, 6, 12), vector(4, 7), vector(3, 2)],
    ]
    same(made, *cases)


def test_ranks_go_back_through_operators_that_keep_them() -> None:
    nodes = [
        node("ReduceSum", ["x", "s"], ["r"], keepdims=0),
        node("Sqrt", ["r"], ["q"]),
        node("Cast", ["q"], ["y"], to=F32),
    ]
    made = declared(model(nodes, {**CUBE, **VECTOR}), y=2)
    same(
        made,
        *[[abs(normal(*s)), vector(k)] for s, k in zip(SHAPES, (0, 1, 2, -1, -2), strict=True)],
    )


def test_ranks_of_values_on_the_way() -> None:
    nodes = [node("Reshape", ["x", "s"], ["r"]), node("ReduceSum", ["r"], ["y"], keepdims=0)]
    made = declared(model(nodes, {**MATRIX, **VECTOR}), r=3)
    lines = ((2, 2, -1), (1, 1, 1), (7, 0, -1))
    shapes = ((2, 4), (1, 1), (7, 3))
    same(made, *[[normal(*s), vector(*v)] for s, v in zip(shapes, lines, strict=True)])


def test_ranks_inside_of_a_function() -> None:
    body = helper.make_function(
        "local", "Rooted", ["v", "axes"], ["w"],
        [node("ReduceSum", ["v", "axes"], ["r"], keepdims=0), node("Sqrt", ["r"], ["w"])],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    nodes = [node("Rooted", ["x", "s"], ["y"], domain="local")]
    made = model(nodes, {**CUBE, **VECTOR}, domains={"local": 1}, functions=[body])
    cases = [[abs(normal(*s)), vector(k)] for s, k in zip(SHAPES, (0, 1, 2, -1, -2), strict=True)]
    same(declared(made, y=2), *cases)


@pytest.mark.parametrize(
    "made",
    [
        node("ReduceSum", ["x", "s"], ["y"], keepdims=0),
        node("Squeeze", ["x", "s"], ["y"]),
        node("Reshape", ["x", "s"], ["y"]),
        node("AffineGrid", ["x", "s"], ["y"]),
    ],
)
def test_what_is_to_be_declared_is_said(made: Any) -> None:
    words = f"ONNX {made.op_type} 'y': .* which determines the rank.*declare the rank of 'y'"
    with pytest.raises(Unsupported, match=words):
        build(model([made], {**CUBE, **VECTOR}))


@pytest.mark.parametrize(
    ("made", "rank"),
    [
        (node("ReduceSum", ["x", "s"], ["y"], keepdims=0), 4),
        (node("Unsqueeze", ["x", "s"], ["y"]), 2),
    ],
)
def test_a_rank_that_no_length_makes_is_refused(made: Any, rank: int) -> None:
    words = f"the number of elements of the axes cannot give rank {rank}, which is declared for 'y'"
    with pytest.raises(TypeMismatch, match=words):
        build(of(made, rank))


def test_a_node_without_results_is_refused_as_such() -> None:
    with pytest.raises(DiscError):
        build(model([node("Sqrt", ["x"], []), node("Sqrt", ["x"], ["y"])], MATRIX, results=["z"]))


def test_a_picked_axis_that_equals_a_product_of_sizes_known_later() -> None:
    """ReduceL2 proves that ``n`` is a product of sizes that are read after the guard of Gather."""
    nodes = [
        node("GatherElements", ["x", "i"], ["a"]),
        node("CumSum", ["x", "zero"], ["sums"]),
        node("ReduceL2", ["sums", "axes"], ["norm"], keepdims=1),
        node("Reshape", ["norm", "whole"], ["b"]),
    ]
    inputs = {"x": (F32, ["n"]), "i": (I64, ["m"]), "axes": (I64, [1])}
    made = model(nodes, inputs, results=["a", "b"], zero=np.int64(0), whole=np.array([-1]))
    axes = np.array([0])
    program = same(
        made,
        [normal(5), np.array([1, -5, 4]), axes],
        [normal(1), np.array([0]), np.array([-1])],
        [normal(0), np.zeros(0, "int64"), axes],
    )
    with pytest.raises(GuardFailed, match=r"axis 0 is indexed but empty: input 'x'.* is 0"):
        program(normal(0), np.array([0]), axes)
