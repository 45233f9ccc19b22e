"""Shapes, slices and borders: computed from dims, read from data, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import DiscError, GuardFailed, TypeMismatch, Unsupported

from .helpers import F32, I64, build, model, node, normal, same

SHAPES = ((1, 4), (3, 4), (7, 2), (16, 5), (64, 3))


def over(nodes: list[Any], **constants: Any) -> Any:
    return model(nodes, {"x": (F32, ["a", "b"])}, **constants)


def matrices() -> list[list[np.ndarray]]:
    return [[normal(*s)] for s in SHAPES]


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Reshape", ["x", "s"], ["y"])], {"s": np.array([0, -1, 1])}),
        ([node("Flatten", ["x"], ["y"], axis=0)], {}),
        ([node("Unsqueeze", ["x", "s"], ["y"])], {"s": np.array([-1, 0])}),
        ([node("Transpose", ["x"], ["y"])], {}),
        ([node("Tile", ["x", "s"], ["y"])], {"s": np.array([2, 3])}),
        ([node("Slice", ["x", "s", "e", "a", "t"], ["y"])],
         {"s": np.array([-1, 1]), "e": np.array([-(1 << 63), 1 << 60]),
          "a": np.array([0, -1]), "t": np.array([-2, 1])}),
        ([node("Pad", ["x", "s"], ["y"])], {"s": np.array([1, 0, 0, 2])}),
        ([node("Pad", ["x", "s"], ["y"], mode="edge")], {"s": np.array([1, 2, 0, 2])}),
        ([node("Pad", ["x", "s"], ["y"], mode="wrap")], {"s": np.array([0, 2, 0, 1])}),
        ([node("Shape", ["x"], ["y"], start=-1)], {}),
        ([node("Size", ["x"], ["y"])], {}),
        ([node("EyeLike", ["x"], ["y"], k=1)], {}),
        ([node("Trilu", ["x", "k"], ["y"], upper=0)], {"k": np.int64(-1)}),
        ([node("Split", ["x"], ["y", "z"], axis=0, num_outputs=2)], {}),
        ([node("CenterCropPad", ["x", "s"], ["y"])], {"s": np.array([4, 3])}),
    ],
)  # fmt: skip
def test_known_at_compile_time(nodes: list[Any], constants: dict[str, Any]) -> None:
    made = over(nodes, **constants)
    cases = matrices()
    if nodes[0].op_type == "Split":
        cases = cases[1:]  # the evaluator has no empty pieces
    same(made, *cases)


FROM_DATA = [
    (node("Reshape", ["x", "s"], ["y"]), {"s": 3}, [[np.array(v)] for v in
     ([0, -1, 1], [1, 3, 4], [2, -1, 2], [-1, 1, 12], [12, 1, 1])]),
    (node("Slice", ["x", "s", "e", "a", "t"], ["y"]), {"s": 2, "e": 2, "a": 2, "t": 2}, [
        [np.array(v) for v in row] for row in (
            ([0, 1], [9, 2], [0, 1], [1, 1]), ([0, 1], [9, 9], [1, 0], [2, 1]),
            ([-1, 3], [-9, -9], [0, 1], [-1, -2]), ([2, 0], [1, 4], [0, -1], [1, 3]),
            ([1, 1], [1, 1], [0, 1], [1, 1]))]),
    (node("Pad", ["x", "s"], ["y"]), {"s": 4},
     [[np.array(v)] for v in
      ([0, 0, 0, 0], [1, 0, 0, 2], [0, 3, 1, 0], [2, 2, 2, 2], [0, 0, 5, 0])]),
    (node("Pad", ["x", "s"], ["y"], mode="reflect"), {"s": 4},
     [[np.array(v)] for v in
      ([0, 0, 0, 0], [1, 0, 0, 2], [0, 3, 1, 0], [2, 2, 2, 2], [2, 0, 0, 0])]),
    (node("Tile", ["x", "s"], ["y"]), {"s": 2},
     [[np.array(v)] for v in ([1, 1], [2, 1], [1, 3], [3, 2], [5, 1])]),
    (node("Unsqueeze", ["x", "s"], ["y"]), {"s": 1},
     [[np.array(v)] for v in ([0], [1], [2], [-1], [-3])]),
    (node("ReduceSum", ["x", "s"], ["y"], keepdims=0), {"s": 1},
     [[np.array(v)] for v in ([0], [1], [-1], [-2], [0])]),
    (node("ReduceMax", ["x", "s"], ["y"]), {"s": None},
     [[np.array(v, "int64")] for v in ([0], [1], [0, 1], [-2], [-1, 0])]),
    (node("CumSum", ["x", "s"], ["y"], reverse=1), {"s": 1},
     [[np.array(v)] for v in ([0], [1], [-1], [-2], [0])]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "lengths", "values"), FROM_DATA)
def test_read_from_data(made: Any, lengths: dict[str, int | None], values: list[Any]) -> None:
    vectors = {n: (I64, ["many" if d is None else d]) for n, d in lengths.items()}
    if made.op_type == "CumSum":
        vectors = {"s": (I64, [])}
        values = [[v[0].reshape(())] for v in values]
    inputs = {"x": (F32, [3, 4] if made.op_type == "Reshape" else ["a", "b"]), **vectors}
    x = normal(3, 4)
    same(model([made], inputs), *[[x, *v] for v in values])


@pytest.mark.parametrize("line", [[-2, 2, 3], [-1, -1, 2], [0, 0, 0], [5, -1, 2]])
def test_codes_that_describe_no_shape_are_refused(line: list[int]) -> None:
    made = model([node("Reshape", ["x", "s"], ["y"])], {"x": (F32, ["a", 3]), "s": (I64, [3])})
    exe = build(made)
    with pytest.raises(GuardFailed, match="x: float32"):
        exe(normal(4, 3), np.array(line))
    assert exe(normal(4, 3), np.array([0, 1, -1])).shape == (4, 1, 3)


def test_a_negative_border_cuts() -> None:
    made = over([node("Pad", ["x", "s"], ["y"])], s=np.array([1, -1, 0, 2]))
    same(made, *matrices(), want=lambda x: np.pad(x[:, 1:], [(1, 0), (0, 2)]))


def test_sizes_are_formulas_of_dims() -> None:
    """A view of another shape whose dims are computed costs no kernel of its own."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["rows"]),
        node("Gather", ["s", "last"], ["columns"]),
        node("Mul", ["rows", "columns"], ["all"]),
        node("Div", ["all", "two"], ["half"]),
        node("Unsqueeze", ["half", "axes"], ["line"]),
        node("Concat", ["line", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Relu", ["r"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0), "last": np.int64(-1), "two": np.int64(2),
        "axes": np.array([0]), "minus": np.array([-1]),
    }  # fmt: skip
    program = same(over(nodes, **constants), *[[normal(*s)] for s in ((1, 4), (3, 4), (6, 2))])
    assert len(program.kernels) == 1


@pytest.mark.parametrize(
    ("made", "lengths", "words"),
    [
        (node("Reshape", ["x", "s"], ["y"]), {"s": "n"}, "number of elements of the new shape"),
        (node("Expand", ["x", "s"], ["y"]), {"s": "n"}, "number of elements of the shape"),
        (node("Squeeze", ["x", "s"], ["y"]), {"s": "n"}, "number of elements of the axes"),
        (node("ReduceSum", ["x", "s"], ["y"], keepdims=0), {"s": "n"}, "elements of the axes"),
        (node("Pad", ["x", "s"], ["y"], mode="best"), {"s": 4}, "expected constant, edge"),
    ],
)
def test_ranks_that_only_the_data_knows_are_refused(
    made: Any, lengths: dict[str, Any], words: str
) -> None:
    vectors = {n: (I64, [d]) for n, d in lengths.items()}
    with pytest.raises(Unsupported, match=f"ONNX {made.op_type} 'y': .*{words}"):
        build(model([made], {"x": (F32, ["a", "b"]), **vectors}))


def test_squeeze_without_axes() -> None:
    """A dim that is known to be 1 goes, others must not be 1."""
    made = model([node("Squeeze", ["x"], ["y"])], {"x": (F32, ["a", 1, "b"])})
    program = same(made, *[[normal(a, 1, b)] for a, b in ((2, 3), (7, 2), (16, 5), (0, 4), (3, 0))])
    with pytest.raises(GuardFailed, match="input 'x' axis 2"):
        program(normal(4, 1, 1))


def test_axes_that_are_not_there_are_refused() -> None:
    with pytest.raises(
        TypeMismatch, match="Unsqueeze 'y': axis 5 is out of range for the result of rank 3"
    ):
        build(over([node("Unsqueeze", ["x", "s"], ["y"])], s=np.array([5])))
    with pytest.raises(TypeMismatch, match="an axis occurs twice"):
        build(over([node("Unsqueeze", ["x", "s"], ["y"])], s=np.array([0, -4])))


LISTS: list[tuple[str, dict[str, list[int]], str]] = [
    ("Tile", {"r": [2]}, "repeats: expected a vector of 2 elements, found 1"),
    ("Pad", {"p": [0, 1]}, "pads: expected a vector of 4 elements, found 2"),
    ("Slice", {"s": [0], "e": [1, 2]}, "ends: expected a vector of 1 element, found 2"),
    ("Slice", {"s": [0], "e": [1], "a": [0, 1]}, "starts: expected a vector of 2 elements, found"),
    ("Slice", {"s": [0, 0], "e": [1, 2], "a": [0, 1], "t": [1]}, "steps: expected a vector of 2"),
]


@pytest.mark.parametrize(("name", "lists", "message"), LISTS)
def test_lists_of_wrong_lengths_are_refused(
    name: str, lists: dict[str, list[int]], message: str
) -> None:
    made = node(name, ["x", *lists], ["y"])
    with pytest.raises(TypeMismatch, match=f"ONNX {name} 'y': {message}"):
        build(over([made], **{k: np.array(v) for k, v in lists.items()}))
    vectors: dict[str, Any] = {k: (I64, [len(v)]) for k, v in lists.items()}
    with pytest.raises(DiscError, match=f"ONNX {name} 'y': "):
        build(model([made], {"x": (F32, ["a", "b"]), **vectors}))


@pytest.mark.parametrize(
    ("made", "opset", "message"),
    [
        (node("Transpose", ["x"], ["y"], perm=[0]), 21, r"perm: expected 2 axes, found \[0\]"),
        (node("Transpose", ["x"], ["y"], perm=[0, 1, 2]), 21, "perm: expected 2 axes, found"),
        (node("Slice", ["x"], ["y"], starts=[0, 1], ends=[1]), 9, "ends: expected 2 elements"),
        (node("Slice", ["x"], ["y"], starts=[0, 1], ends=[1, 2], axes=[0]), 9, "starts: expected"),
    ],
)
def test_attributes_of_wrong_lengths_are_refused(made: Any, opset: int, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        build(model([made], {"x": (F32, ["a", "b"])}, opset=opset))


def test_steps_beyond_every_axis() -> None:
    limits = {"s": [-1, 0], "e": [-(1 << 63), (1 << 63) - 1], "t": [1 - (1 << 63), (1 << 63) - 1]}
    made = node("Slice", ["x", "s", "e", "", "t"], ["y"])
    values = {k: np.array(v) for k, v in limits.items()}

    def want(x: np.ndarray, *_: np.ndarray) -> np.ndarray:
        return x[-1:, :1]

    cases = [[normal(*s)] for s in ((0, 3), (3, 0), (1, 1), (4, 5))]
    same(over([made], **values), *cases, want=want)
    vectors: dict[str, Any] = {k: (I64, [2]) for k in limits}
    read = model([made], {"x": (F32, ["a", "b"]), **vectors})
    same(read, *[[*case, *values.values()] for case in cases], want=want)


def test_bounds_of_a_call_have_one_length() -> None:
    """A vector of one bound is not broadcast to all axes."""
    vectors: dict[str, Any] = {k: (I64, [k]) for k in ("s", "e", "a")}
    made = model([node("Slice", ["x", "s", "e", "a"], ["y"])], {"x": (F32, ["m", "n"]), **vectors})
    x, one, two = normal(4, 5), np.array([1]), np.array([0, 1])
    program = same(made, [x, one, one * 3, one], [x, two, two + 3, two])
    with pytest.raises(GuardFailed):
        program(x, one, two + 3, two)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_split_of_few_elements_as_onnx_runtime(count: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    names = [f"y{k}" for k in range(count)]
    made = over([node("Split", ["x"], names, axis=0, num_outputs=count)])
    session = runtime.InferenceSession(made.SerializeToString())
    exe, refused = build(made), 0
    for rows in range(10):
        x = np.arange(2.0 * rows, dtype="float32").reshape(rows, 2)
        try:
            wanted = session.run(None, {"x": x})
        except runtime.capi.onnxruntime_pybind11_state.Fail:
            refused += 1
            with pytest.raises(DiscError, match="Split: the start of the last part"):
                exe(x)
            continue
        for a, b in zip(exe(x), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (refused > 0) == (count > 2)
