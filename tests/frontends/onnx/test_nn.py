"""Products, convolutions, pooling and normalisation against ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import GuardFailed, TypeMismatch, Unsupported

from .helpers import F16, F32, build, model, node, normal, same


def test_products() -> None:
    nodes = [
        node("Gemm", ["x", "w", "c"], ["a"], transB=1, alpha=0.5, beta=2.0),
        node("MatMul", ["x", "v"], ["b"]),
        node("MatMul", ["t", "w2"], ["d"]),
        node("MatMul", ["t", "t2"], ["e"]),
        node("Einsum", ["t", "t2"], ["f"], equation="...ij,...jk->...ik"),
        node("Einsum", ["s"], ["g"], equation="ii->i"),
    ]
    inputs = {
        "x": (F32, ["m", 4]), "t": (F32, ["b", "m", 4]), "t2": (F32, ["b", 4, "n"]),
        "s": (F32, ["m", "m"]),
    }  # fmt: skip
    made = model(
        nodes, inputs, results=list("abdefg"), w=normal(5, 4), c=normal(5), v=normal(4),
        w2=normal(4, 6),
    )  # fmt: skip
    sizes = ((1, 1, 1), (2, 3, 4), (3, 7, 2), (1, 16, 5), (2, 33, 1))
    same(
        made, *[[normal(m, 4), normal(b, m, 4), normal(b, 4, n), normal(m, m)] for b, m, n in sizes]
    )


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 2, 0, 1], "strides": [2, 1], "dilations": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "group": 2},
    ],
)
def test_convolution(attrs: dict[str, Any]) -> None:
    groups = attrs.get("group", 1)
    made = model(
        [node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[3, 2], **attrs)],
        {"x": (F32, ["n", 2, "h", "w_"])}, w=normal(4, 2 // groups, 3, 2), b=normal(4),
    )  # fmt: skip
    same(made, *[[normal(*s)] for s in ((1, 2, 5, 5), (2, 2, 7, 4), (1, 2, 16, 9), (3, 2, 5, 8))])


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
        {"strides": [3, 2], "output_shape": [10, 8]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"dilations": [2, 1]},
    ],
)
def test_transposed_convolution(attrs: dict[str, Any]) -> None:
    shape = ["n", 2, 3, 3] if "output_shape" in attrs else ["n", 2, "h", "w_"]
    made = model(
        [node("ConvTranspose", ["x", "w"], ["y"], **attrs)],
        {"x": (F32, shape)},
        w=normal(2, 2, 3, 3),
    )
    plain = ((1, 2, 1, 1), (1, 2, 4, 3), (2, 2, 3, 7), (3, 2, 5, 2))
    fixed = tuple((n, 2, 3, 3) for n in (1, 2, 5))
    same(made, *[[normal(*s)] for s in (fixed if "output_shape" in attrs else plain)], atol=1e-4)


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"strides": [3, 2], "pads": [1, 0, 1, 2]},
        {"strides": [1, 2], "dilations": [2, 1], "output_padding": [0, 1]},
    ],
)
def test_transposed_convolution_by_a_kernel_of_any_size(attrs: dict[str, Any]) -> None:
    made = model(
        [node("ConvTranspose", ["x", "w"], ["y"], **attrs)],
        {"x": (F32, ["n", 4, "h", "w_"]), "w": (F32, [4, "m", "kh", "kw"])},
    )
    dims = ((1, 2, 2, 1, 3, 3), (2, 4, 3, 3, 2, 4), (3, 5, 2, 2, 4, 3))
    cases = [[normal(n, 4, h, w), normal(4, m, a, b)] for n, h, w, m, a, b in dims]
    same(made, *cases, atol=1e-4)


POOLS = [
    ("MaxPool", {"pads": [1, 0, 1, 1], "strides": [2, 2]}),
    ("MaxPool", {"ceil_mode": 1, "strides": [2, 3]}),
    ("MaxPool", {"ceil_mode": 1, "strides": [2, 2]}),
    ("MaxPool", {"ceil_mode": 1, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ("MaxPool", {"auto_pad": "SAME_UPPER", "strides": [2, 2], "dilations": [1, 1]}),
    ("AveragePool", {"pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("AveragePool", {"ceil_mode": 1, "strides": [3, 2], "count_include_pad": 1}),
    ("LpPool", {"p": 3, "strides": [2, 1]}),
]


@pytest.mark.parametrize(("name", "attrs"), POOLS)
def test_pooling(name: str, attrs: dict[str, Any]) -> None:
    made = model(
        [node(name, ["x"], ["y"], kernel_shape=[3, 2], **attrs)], {"x": (F32, ["n", 2, "h", "w"])}
    )
    shapes = ((1, 2, 5, 5), (2, 2, 7, 4), (1, 2, 16, 9), (3, 2, 5, 8))
    if "ceil_mode" in attrs:  # the evaluator pads a height of 7 in front
        shapes = ((1, 2, 5, 5), (3, 2, 5, 8), (1, 2, 5, 2), (2, 2, 5, 16))
    same(made, *[[np.abs(normal(*s))] for s in shapes], atol=1e-4)


def test_positions_of_the_largest() -> None:
    nodes = [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 3], strides=[1, 2])]
    made = model(nodes, {"x": (F32, ["n", "c", "h", "w"])})
    same(made, *[[normal(*s)] for s in ((1, 1, 2, 3), (2, 3, 5, 7), (1, 2, 16, 9), (3, 1, 4, 8))])


NORMS = [
    node("LayerNormalization", ["x", "g1", "b1"], ["y"], axis=-1),
    node("LayerNormalization", ["x", "g2"], ["y", "m", "i"], axis=-2),
    node("RMSNormalization", ["x", "g1"], ["y"]),
    node("InstanceNormalization", ["x", "gc", "bc"], ["y"]),
    node("GroupNormalization", ["x", "gc", "bc"], ["y"], num_groups=2),
    node("BatchNormalization", ["x", "gc", "bc", "mc", "vc"], ["y"]),
    node("LpNormalization", ["x"], ["y"], axis=1, p=2),
    node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2]),
]


@pytest.mark.parametrize("made", NORMS, ids=lambda n: str(n.op_type))
def test_normalisation(made: Any) -> None:
    stored = {
        "g1": normal(5), "b1": normal(5), "g2": normal(4, 5), "gc": normal(4),
        "bc": normal(4, seed=1), "mc": normal(4, seed=2), "vc": np.abs(normal(4, seed=3)),
    }  # fmt: skip
    used = {k: v for k, v in stored.items() if k in made.input}
    fixed = made.op_type in ("LayerNormalization", "RMSNormalization")
    dims = ["n", 4, 5] if fixed else ["n", 4, "k"]
    graph = model([made], {"x": (F32, dims)}, opset=23, **used)
    sizes = ((1, 5), (2, 5), (7, 5), (16, 5)) if fixed else ((1, 5), (2, 3), (7, 16), (3, 2))
    same(graph, *[[normal(n, 4, k)] for n, k in sizes], atol=1e-4)


def test_normalisation_by_an_even_number_of_neighbours() -> None:
    made = model([node("LRN", ["x"], ["y"], size=2)], {"x": (F32, ["n", "c", "h", "w"])})
    # ONNX's evaluator counts channels by the number of images.
    same(made, *[[normal(*s)] for s in ((1, 1, 1, 1), (3, 3, 4, 2), (7, 7, 2, 5), (16, 16, 1, 1))])


def test_half_floats() -> None:
    made = model(
        [node("LayerNormalization", ["x", "g"], ["a"]), node("Softmax", ["a"], ["y"])],
        {"x": (F16, ["n", 8])}, g=np.ones(8, "float16"),
    )  # fmt: skip
    same(made, *[[normal(n, 8).astype("float16")] for n in (1, 3, 16, 17)], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("made", "dims", "kind", "words"),
    [
        (
            node("MaxPool", ["x"], ["y"]),
            ["n", 2, "h", "w"],
            Unsupported,
            "'kernel_shape' is missing",
        ),
        (
            node("MaxPool", ["x"], ["y"], kernel_shape=[2]),
            ["n", "m"],
            Unsupported,
            "expected an input of rank 3, 4 or 5, found rank 2",
        ),
        (
            node("MaxPool", ["x"], ["y"], kernel_shape=[2], auto_pad="BEST"),
            ["n", "m", "k"],
            Unsupported,
            "VALID, SAME_UPPER or SAME_LOWER, found 'BEST'",
        ),
        (
            node("LpNormalization", ["x"], ["y"], p=3),
            ["n"],
            Unsupported,
            "expected 1 or 2, found 3",
        ),
        (node("Det", ["x"], ["y"]), ["n"], TypeMismatch, "rank 2 or more"),
        (
            node("Einsum", ["x"], ["y"], equation="a,b->ab"),
            ["n"],
            TypeMismatch,
            "expected 2 inputs, as in the equation, found 1",
        ),
    ],
)
def test_what_is_not_computed_is_refused(made: Any, dims: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=f"ONNX {made.op_type} 'y': .*{words}"):
        build(model([made], {"x": (F32, dims)}))


def test_determinants_of_any_size() -> None:
    """Rows change places for the largest pivot; of a singular matrix nothing is left."""
    rng = np.random.default_rng(0)

    def matrices(lead: tuple[int, ...], size: int) -> np.ndarray:
        return rng.standard_normal((*lead, size, size)).astype("float32")

    turned = np.eye(4, dtype="float32")[[2, 0, 3, 1]][None]
    singular = np.ones((2, 3, 3), "float32")
    cases = [matrices((1,), 1), matrices((7,), 5), matrices((2,), 16), turned, singular]
    made = model([node("Det", ["x"], ["y"])], {"x": (F32, ["b", "n", "m"])})
    program = same(made, *[[x] for x in cases], want=np.linalg.det, rtol=1e-3, atol=1e-4)
    assert (program(np.zeros((3, 0, 0), "float32")) == 1).all()
    with pytest.raises(GuardFailed, match="input 'x' axis 2"):
        program(np.zeros((1, 2, 3), "float32"))


def test_one_determinant_of_many_rows() -> None:
    x = np.random.default_rng(1).standard_normal((7, 7)).astype("float32")
    same(model([node("Det", ["x"], ["y"])], {"x": (F32, [7, 7])}), [x], rtol=1e-4)
