"""Sizes that shape arithmetic makes negative, given to every ONNX operator that takes a size.

Each program runs with inputs of 0 to 6 elements. A call has the right result where the operator
defines one, and is refused in the input's name otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import GuardFailed, TypeMismatch  # noqa: E402

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
BOOL = TensorProto.BOOL

node = helper.make_node
Want = Callable[[np.ndarray, int], Any]


class Undefined(Exception):
    """The operator defines no result."""


def sized(k: int) -> int:
    """A size, which must not be negative."""
    if k < 0:
        raise Undefined
    return k


def program(
    nodes: Sequence[Any],
    constants: dict[str, Any],
    inputs: dict[str, tuple[int, list[Any]]] | None = None,
    result: list[Any] | None = None,
) -> Any:
    """A program of the input ``x`` and the result ``y``."""
    ins = inputs or {"x": (F32, ["n"])}
    infos = [helper.make_tensor_value_info(k, t, d) for k, (t, d) in ins.items()]
    outs = [helper.make_tensor_value_info("y", F32, result)]
    inits = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(list(nodes), "g", infos, outs, inits)
    opsets = [helper.make_opsetid("", 20)]
    return tvm_disc.build(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def compare(exe: Any, args: Sequence[np.ndarray], want: Callable[[], Any]) -> bool:
    """Check one call; whether it has a result."""
    try:
        expected = np.asarray(want())
    except Undefined:
        with pytest.raises(GuardFailed, match=r"n: input 'x'|\(n\)"):
            exe(*args)
        return False
    got = np.asarray(exe(*args))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    return True


def padded(mode: str, before: bool, after: bool) -> Want:
    """NumPy's padding by ``k`` or nothing on each side; negative widths cut first."""

    def want(x: np.ndarray, k: int) -> Any:
        widths = (k * before, k * after)
        first, last = (max(-w, 0) for w in widths)
        if first + last > len(x):
            raise Undefined
        inner = x[first : len(x) - last]
        left = [max(w, 0) for w in widths]
        return np.pad(inner, left, mode=mode) if any(left) else inner  # type: ignore[call-overload]

    return want


def reshaped(x: np.ndarray, k: int) -> Any:
    """A size of 0 takes no elements: the code 0 of ONNX is a number of the model."""
    if k <= 0 or 6 * len(x) % k:
        raise Undefined
    return np.tile(x, (6, 1)).reshape(k, -1)


def expanded(x: np.ndarray, k: int) -> Any:
    try:
        return np.broadcast_arrays(x, np.ones(sized(k)))[0]
    except ValueError:
        raise Undefined from None


PART = [node("Concat", ["t", "three"], ["tt"], axis=0)]
BOTH = [node("Concat", ["t", "t"], ["p"], axis=0)]
BEFORE = [node("Concat", ["t", "zero"], ["p"], axis=0)]
ONE = {"o": np.ones(1, "float32")}
FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
FLAT = node("Squeeze", ["t"], ["k"])
# operator: nodes after `t`, constants, what is right for x and the size k
OPERATORS: dict[str, tuple[list[Any], dict[str, Any], Want]] = {
    "Expand": ([node("Expand", ["o", "t"], ["y"])], ONE, lambda x, k: np.ones(sized(k))),
    "Expand of x": ([node("Expand", ["x", "t"], ["y"])], {}, expanded),
    "Expand, summed": (
        [node("Expand", ["o", "t"], ["e"]), node("ReduceSum", ["e"], ["y"], keepdims=0)],
        ONE,
        lambda x, k: sized(k),
    ),
    "ConstantOfShape": (
        [node("ConstantOfShape", ["t"], ["y"])],
        {},
        lambda x, k: np.zeros(sized(k)),
    ),
    "ConstantOfShape, two": (
        [*BOTH, node("ConstantOfShape", ["p"], ["z"]), node("MatMul", ["z", "z"], ["y"])],
        {},
        lambda x, k: np.zeros((sized(k), k)),
    ),
    "Tile": ([node("Tile", ["x", "t"], ["y"])], {}, lambda x, k: np.tile(x, sized(k))),
    "Split": (
        [*PART, node("Split", ["x", "tt"], ["y", "rest"], axis=0)],
        {},
        lambda x, k: x[: sized(k)],
    ),
    "Split, the rest": (
        [*PART, node("Split", ["x", "tt"], ["first", "y"], axis=0)],
        {},
        lambda x, k: x[sized(k) :],
    ),
    "TopK": (
        [node("TopK", ["x", "t"], ["y", "i"])],
        {},
        lambda x, k: np.sort(x)[::-1][: sized(k)],
    ),
    "OneHot": (
        [FLAT, node("OneHot", ["at", "k", "values"], ["y"])],
        {"at": np.arange(2), "values": np.array([0, 1], "float32")},
        lambda x, k: np.eye(2, sized(k)),
    ),
    "Range": (
        [FLAT, node("Range", ["z", "k", "u"], ["r"]), node("Cast", ["r"], ["y"], to=F32)],
        {"z": np.int64(0), "u": np.int64(1)},
        lambda x, k: np.arange(k),
    ),
    "Resize": (
        [
            node("Unsqueeze", ["x", "zero"], ["row"]),
            node("Concat", ["one", "t"], ["tt"], axis=0),
            node("Resize", ["row", "", "", "tt"], ["y"], mode="nearest", **FLOOR),
        ],
        {"one": np.array([1])},
        lambda x, k: x[np.arange(sized(k)) * len(x) // max(k, 1)][None],
    ),
    "Reshape": (
        [
            node("Expand", ["x", "six"], ["wide"]),
            node("Concat", ["t", "rest"], ["tt"], axis=0),
            node("Reshape", ["wide", "tt"], ["y"]),
        ],
        {"six": np.array([6, 1]), "rest": np.array([-1])},
        reshaped,
    ),
    "Slice, its end": ([node("Slice", ["x", "zero", "t"], ["y"])], {}, lambda x, k: x[0:k]),
    "Slice, its start": (
        [node("Slice", ["x", "t", "far"], ["y"])],
        {"far": np.array([100])},
        lambda x, k: x[k:100],
    ),
    "Pad before": ([*BEFORE, node("Pad", ["x", "p"], ["y"])], {}, padded("constant", True, False)),
    "Pad after": (
        [
            node("Concat", ["zero", "t"], ["p"], axis=0),
            node("Pad", ["x", "p"], ["y"]),
        ],
        {},
        padded("constant", False, True),
    ),
    "Pad to a length": (
        [
            node("Neg", ["t"], ["w"]),
            node("Concat", ["zero", "w"], ["p"], axis=0),
            node("Pad", ["x", "p"], ["y"]),
        ],
        {},
        lambda x, k: padded("constant", False, True)(x, -k),
    ),
    "Pad both": ([*BOTH, node("Pad", ["x", "p"], ["y"])], {}, padded("constant", True, True)),
    "Pad edge": (
        [*BOTH, node("Pad", ["x", "p"], ["y"], mode="edge")],
        {},
        padded("edge", True, True),
    ),
    "Pad reflect": (
        [*BEFORE, node("Pad", ["x", "p"], ["y"], mode="reflect")],
        {},
        padded("reflect", True, False),
    ),
    "Pad wrap": (
        [*BEFORE, node("Pad", ["x", "p"], ["y"], mode="wrap")],
        {},
        padded("wrap", True, False),
    ),
    "CenterCropPad": (
        [node("CenterCropPad", ["x", "t"], ["y"])],
        {},
        lambda x, k: x[(len(x) - sized(k)) // 2 :][:k],
    ),
}
TAKEN = [node("Shape", ["x"], ["s"]), node("Sub", ["s", "three"], ["t"])]
SHARED = {"three": np.array([3]), "zero": np.array([0])}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    nodes, constants, want = OPERATORS[name]
    exe = program([*TAKEN, *nodes], {**SHARED, **constants})
    defined = []
    for n in range(7):
        x = np.arange(1, n + 1, dtype="float32")
        defined.append(compare(exe, [x], lambda x=x, n=n: want(x, n - 3)))
    assert any(defined)


SIZES: dict[str, tuple[list[Any], Callable[[int, int], int]]] = {
    "n - m": ([node("Sub", ["n", "m"], ["t"])], lambda n, m: n - m),
    "2 * n - 5": (
        [node("Mul", ["n", "two"], ["a"]), node("Sub", ["a", "five"], ["t"])],
        lambda n, m: 2 * n - 5,
    ),
    "n // 2 - 1": (
        [node("Div", ["n", "two"], ["a"]), node("Sub", ["a", "one"], ["t"])],
        lambda n, m: n // 2 - 1,
    ),
    "min(n, m) - 2": (
        [node("Min", ["n", "m"], ["a"]), node("Sub", ["a", "two"], ["t"])],
        lambda n, m: min(n, m) - 2,
    ),
    "max(n, m) - 2": (
        [node("Max", ["n", "m"], ["a"]), node("Sub", ["a", "two"], ["t"])],
        lambda n, m: max(n, m) - 2,
    ),
    "m - n * n": (
        [node("Mul", ["n", "n"], ["a"]), node("Sub", ["m", "a"], ["t"])],
        lambda n, m: m - n * n,
    ),
}


@pytest.mark.parametrize("operator", ["Expand, summed", "Tile", "Pad both"])
@pytest.mark.parametrize("size", SIZES)
def test_arithmetic(size: str, operator: str) -> None:
    made, of = SIZES[size]
    nodes, constants, want = OPERATORS[operator]
    dims = [node("Shape", ["x"], ["n"]), node("Shape", ["z"], ["m"])]
    numbers = {"one": np.array([1]), "two": np.array([2]), "five": np.array([5])}
    exe = program(
        [*dims, *made, *nodes],
        {**SHARED, **numbers, **constants},
        {"x": (F32, ["n"]), "z": (F32, ["m"])},
    )
    defined = set()
    for n, m in ((0, 0), (1, 3), (2, 1), (3, 0), (4, 6), (5, 2)):
        x, z = np.arange(1, n + 1, dtype="float32"), np.zeros(m, "float32")
        defined.add(compare(exe, [x, z], lambda x=x, n=n, m=m: want(x, of(n, m))))
    assert defined == {True, False}


def test_a_split_in_a_branch() -> None:
    """Nothing but the sizes themselves tells that a piece has a negative length."""

    def graph(nodes: Sequence[Any], name: str) -> Any:
        out = helper.make_tensor_value_info(name, F32, None)
        return helper.make_graph(list(nodes), name, [], [out])

    parts = [node("Split", ["x", "tt"], ["f", "r"], axis=0)]
    then = graph([*parts, node("ReduceSum", ["r"], ["a"], keepdims=0)], "a")
    other = graph([node("ReduceSum", ["x"], ["b"], keepdims=0)], "b")
    choice = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    exe = program([*TAKEN, *PART, choice], SHARED, {"x": (F32, ["n"]), "c": (BOOL, [])}, [])
    for n in range(7):
        x = np.arange(1, n + 1, dtype="float32")
        compare(exe, [x, np.array(True)], lambda x=x, n=n: x[sized(n - 3) :].sum())


# -- If around Squeeze --------------------------------------------------------------------------


def squeezed(declared: list[Any] | None, from_data: bool = False) -> Any:
    """Squeeze axis 1, or leave it: what exporters write of ``x.squeeze(1)``."""

    def graph(made: Any, name: str) -> Any:
        out = helper.make_tensor_value_info(name, F32, None)
        return helper.make_graph([made], name, [], [out])

    branches = {
        "then_branch": graph(node("Squeeze", ["x", "ax"], ["a"]), "a"),
        "else_branch": graph(node("Identity", ["x"], ["b"]), "b"),
    }
    found = [
        node("Shape", ["x"], ["s"], start=1),
        node("Equal", ["s", "ax"], ["e"]),
        node("Squeeze", ["e"], ["c"]),
    ]
    inputs: dict[str, tuple[int, list[Any]]] = {"x": (F32, ["n", "m"])}
    if from_data:
        found, inputs = [], {**inputs, "c": (BOOL, [])}
    nodes = [*found, node("If", ["c"], ["z"], **branches), node("Relu", ["z"], ["y"])]
    return program(nodes, {"ax": np.array([1])}, inputs, declared)


@pytest.mark.parametrize("from_data", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_declared_rank_chooses_the_branch(rank: int, from_data: bool) -> None:
    exe = squeezed(["a", "b"][:rank], from_data)
    for dims in ((3, 1), (1, 1), (0, 1), (3, 2), (7, 5)):
        x = np.arange(np.prod(dims), dtype="float32").reshape(dims)
        takes = dims[1] == 1
        args = [x, np.array(takes)] if from_data else [x]
        if takes == (rank == 1):
            np.testing.assert_array_equal(exe(*args), x[:, 0] if rank == 1 else x)
        else:
            with pytest.raises(GuardFailed, match=r"must equal 1|must hold"):
                exe(*args)


def test_a_rank_that_nothing_declares() -> None:
    with pytest.raises(TypeMismatch, match=r"ranks 1 and 2, and its rank is not declared; if"):
        squeezed(None)


def test_a_declared_rank_that_no_branch_gives() -> None:
    with pytest.raises(TypeMismatch, match=r"ranks 1 and 2, and its rank is declared as 3"):
        squeezed(["a", "b", "c"])
