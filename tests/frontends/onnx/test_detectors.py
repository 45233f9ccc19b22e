"""Detectors: an image scaled by a ratio of its size, anchors of each level, the best of each level,
suppression.

The scaled sizes are numbers in the data, since their ratio is a float. Sizes of anchors and of
results depend on several of these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from tests.frontends.onnx.helpers import F32, build, model, node  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.shape.budget import QUERY, Budget  # noqa: E402

SHORTEST, LONGEST, STRIDE = 40, 64, 16
ANCHORS, CLASSES, BEST, KEPT = 3, 4, 30, 20
SIZES = ((40, 56), (33, 47), (61, 17), (64, 64), (20, 100), (7, 9), (3, 5))


def ints(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def number(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


class Graph:
    """Nodes of a model; a call adds one with constants for arrays, and returns its outputs."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(7)

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        made = [f"{op}_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(node(op, names, made, **attrs))
        return made[0] if outputs == 1 else made

    def _constant(self, value: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = value
        return name

    def size(self, x: str, axis: int) -> str:
        """Length of one axis, as an array of one number."""
        return str(self("Gather", self("Shape", x), ints(axis)))

    def joined(self, *parts: Any) -> str:
        return str(self("Concat", *parts, axis=0))

    def conv(self, x: str, channels: int, wide: int, stride: int = 1) -> str:
        weight = self.rng.normal(size=(wide, channels, 3, 3)).astype("float32") / 6
        return str(self("Conv", x, weight, pads=[1] * 4, strides=[stride] * 2))


def scaled(g: Graph) -> str:
    """Scale the image to its shortest or longest side, and pad both to multiples of a stride."""
    sides = [g("Cast", g.size("image", axis), to=F32) for axis in (1, 2)]
    low, high = g("Min", *sides), g("Max", *sides)
    ratio = g("Min", g("Div", number(SHORTEST), low), g("Div", number(LONGEST), high))
    lengths = [g("Cast", g("Floor", g("Mul", side, ratio)), to=7) for side in sides]
    images = g("Unsqueeze", "image", ints(0))
    small = g(
        "Resize", images, "", "", g.joined(ints(1, 3), *lengths),
        mode="linear", coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    blocks = [g("Div", g("Add", n, ints(STRIDE - 1)), ints(STRIDE)) for n in lengths]
    rests = [g("Sub", g("Mul", b, ints(STRIDE)), n) for b, n in zip(blocks, lengths, strict=True)]
    return str(g("Pad", small, g.joined(ints(0, 0, 0, 0, 0, 0), *rests), number(0)))


def anchors(g: Graph, x: str, stride: int) -> str:
    """Return the boxes around the centre of each cell of a level, [cells * ANCHORS, 4]."""
    high, wide = (g("Squeeze", g.size(x, axis), ints(0)) for axis in (2, 3))
    rows, columns = (
        g("Mul", g("Cast", g("Range", number(0, "int64"), n, number(1, "int64")), to=F32),
          number(stride))
        for n in (high, wide)
    )  # fmt: skip
    grid = g.joined(g.size(x, 2), g.size(x, 3))
    y = g("Reshape", g("Expand", g("Unsqueeze", rows, ints(1)), grid), ints(-1))
    z = g("Reshape", g("Expand", g("Unsqueeze", columns, ints(0)), grid), ints(-1))
    centres = g("Concat", *(g("Unsqueeze", v, ints(1)) for v in (z, y, z, y)), axis=1)
    around = np.array([[-1, -1, 1, 1], [-2, -1, 2, 1], [-1, -2, 1, 2]], "float32") * stride
    boxes = g("Add", g("Unsqueeze", centres, ints(1)), around[None])
    return str(g("Reshape", boxes, ints(-1, 4)))


def rows_of(g: Graph, x: str, width: int) -> str:
    """[1, ANCHORS * width, h, w] as a row of each anchor, [h * w * ANCHORS, width]."""
    return str(g("Reshape", g("Transpose", x, perm=[0, 2, 3, 1]), ints(-1, width)))


def best(g: Graph, x: str, stride: int) -> tuple[str, str, str]:
    """Return the boxes, scores and labels of a level's best scores above a limit."""
    scores = g("Sigmoid", rows_of(g, g.conv(x, 8, ANCHORS * CLASSES), CLASSES))
    moves = g("Mul", rows_of(g, g.conv(x, 8, ANCHORS * 4), 4), number(stride))
    boxes = g("Add", anchors(g, x, stride), moves)
    flat = g("Reshape", scores, ints(-1))
    above = g("Reshape", g("NonZero", g("Greater", flat, number(0.4))), ints(-1))
    found = g("Gather", flat, above)
    count = g("Min", g("Shape", found), ints(BEST))
    top, at = g("TopK", found, count, outputs=2)
    places = g("Gather", above, at)
    labels = g("Mod", places, ints(CLASSES))
    return g("Gather", boxes, g("Div", places, ints(CLASSES))), top, labels


@cache
def detector(levels: int) -> Any:
    """A model of ``levels`` feature maps; results are boxes, scores and labels."""
    g = Graph()
    x = g("Relu", g.conv(scaled(g), 3, 8, 2))
    found = []
    for k in range(levels):
        found.append(best(g, x, 2 << k))
        x = g("Relu", g.conv(x, 8, 8, 2))
    boxes, scores, labels = (g.joined(*parts) for parts in zip(*found, strict=True))
    # Boxes of different classes are moved apart, so that they do not suppress each other.
    span = g("Add", g("ReduceMax", boxes, keepdims=0), number(1))
    shift = g("Unsqueeze", g("Mul", g("Cast", labels, to=F32), span), ints(1))
    moved = g("Unsqueeze", g("Add", boxes, shift), ints(0))
    picked = g(
        "NonMaxSuppression", moved, g("Unsqueeze", scores, ints(0, 1)), ints(1000), number(0.5)
    )
    kept = g("Reshape", g("Slice", picked, ints(2), ints(3), ints(1)), ints(-1))
    kept = g("Slice", kept, ints(0), ints(KEPT), ints(0))
    results = [g("Gather", part, kept) for part in (boxes, scores, g("Cast", labels, to=F32))]
    return model(g.nodes, {"image": (F32, [3, "height", "width"])}, results=results, **g.constants)


@pytest.mark.parametrize("levels", [2, 4])
def test_detections_are_those_of_onnx_runtime(levels: int) -> None:
    made = detector(levels)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with compile_counter() as count:
        exe = build(made)
    rng = np.random.default_rng(0)
    found = 0
    for high, wide in SIZES:
        image = rng.random((3, high, wide), "float32")
        want = session.run(None, {"image": image})
        found += len(want[1])
        for got, expected in zip(exe(image), want, strict=True):
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-4, atol=1e-4)
    assert count == [1]
    assert found >= len(SIZES) * KEPT // 2


class Units:
    """Units that the queries of all solvers spend: together, and at most by one."""

    def __init__(self) -> None:
        self.total = self.largest = 0

    def add(self, spent: int) -> None:
        self.total += spent
        self.largest = max(self.largest, spent)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> Iterator[Units]:
    found = Units()
    leave = Budget.__exit__

    def counted(budget: Budget, *error: object) -> None:
        if budget.outermost:
            found.add(budget.limit - budget.left)
        leave(budget, *error)

    monkeypatch.setattr(Budget, "__exit__", counted)
    yield found


def test_work_of_the_solver_grows_with_the_levels(units: Units) -> None:
    """Three times the levels, at most 1.5 times the units of each; no query beyond its budget.

    The limit of one level is twice what it takes if each scaled length is one symbol; with the
    lengths as formulas, it takes ten times as much.
    """
    spent = []
    for levels in (2, 6):
        before = units.total
        build(detector(levels))
        spent.append((units.total - before) / levels)
    assert spent[0] <= 60_000
    assert spent[1] <= 1.5 * spent[0]
    assert units.largest <= 3 * QUERY  # a query may end above its budget (test_budget.py)
