"""Arithmetic, activations, casts and limits against ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import Unsupported

from .helpers import BOOL, F32, I32, I64, U8, build, model, node, normal, same

LENGTHS = (1, 7, 16, 64, 1000)
UNARY = """Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Round Selu Shrink Softplus Softsign
Swish ThresholdedRelu""".split()


def test_functions_of_one_tensor() -> None:
    """All in one program: one compile, many functions."""
    nodes = [node(name, ["x"], [f"y{k}"]) for k, name in enumerate(UNARY)]
    names = [f"y{k}" for k in range(len(UNARY))]
    made = model(nodes, {"x": (F32, ["n"])}, opset=24, results=names)
    values = [np.linspace(-3, 3, n, dtype="float32").reshape(n) for n in LENGTHS]
    same(made, *[[v] for v in values])


def test_halves_are_rounded_to_the_even_number() -> None:
    made = model([node("Round", ["x"], ["y"])], {"x": (F32, ["n"])})
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0], "float32")
    same(made, [x], [x[:1]], [x[3:]], [x[:0]], [np.repeat(x, 9)])


def test_integers() -> None:
    nodes = [
        node("Div", ["x", "d"], ["a"]),
        node("Mod", ["x", "d"], ["b"]),
        node("Mod", ["x", "d"], ["c"], fmod=1),
        node("Pow", ["x", "two"], ["p"]),
        node("Clip", ["x", "low"], ["e"]),
    ]
    made = model(
        nodes, {"x": (I32, ["n"])}, results=list("abcpe"),
        d=np.array(3, "int32"), two=np.array(2.0, "float32"), low=np.array(-2, "int32"),
    )  # fmt: skip
    x = np.arange(-9, 10, dtype="int32")

    def want(v: np.ndarray) -> list[np.ndarray]:
        return [np.trunc(v / 3).astype("int32"), v % 3, np.fmod(v, 3), v * v, np.maximum(v, -2)]

    same(made, [x], [x[:1]], [x[:7]], [x[:0]], [np.repeat(x, 5)], want=want)


def test_shifts_by_as_many_bits_as_there_are_leave_nothing() -> None:
    made = model(
        [node("BitShift", ["x", "s"], ["y"], direction="LEFT")],
        {"x": (U8, ["n"]), "s": (U8, ["n"])},
    )
    for n in (1, 5, 9, 16, 64):
        x, s = np.full(n, 3, "uint8"), np.arange(n, dtype="uint8") % 10
        want = np.where(s < 8, np.left_shift(x, np.minimum(s, 7)), 0).astype("uint8")
        np.testing.assert_array_equal(build(made)(x, s) if n == 1 else _program(made)(x, s), want)


_PROGRAMS: dict[int, Any] = {}


def _program(made: Any) -> Any:
    return _PROGRAMS.setdefault(id(made), build(made))


def test_casts_to_bool_ask_for_zero() -> None:
    made = model([node("Cast", ["x"], ["y"], to=BOOL)], {"x": (F32, ["n"])})
    x = np.array([0, 0.25, -3, np.inf, -0.0], "float32")
    same(made, [x], [x[:1]], [x[1:]], [x[:0]], [np.repeat(x, 30)])


@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_of_old_opsets_is_over_all_axes_from_one_on(opset: int) -> None:
    made = model([node("Softmax", ["x"], ["y"], axis=1)], {"x": (F32, ["a", "b", "c"])}, opset)
    cases = [[normal(*s)] for s in ((1, 1, 1), (2, 3, 4), (1, 7, 2), (3, 1, 9), (2, 2, 16))]

    def want(x: np.ndarray) -> np.ndarray:
        flat = x.reshape(x.shape[0], -1) if opset < 13 else x
        e = np.exp(flat - flat.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)

    same(made, *cases, want=want)


def test_hardmax_takes_the_first_of_equals() -> None:
    made = model([node("Hardmax", ["x"], ["y"])], {"x": (F32, ["a", "b"])})
    x = np.array([[1, 3, 3, 2], [0, 0, 0, 0]], "float32")
    same(made, [x], [x[:1]], [x[:, :1]], [x[:, :3]], [np.repeat(x, 5, 0)])


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("Dropout", ["x", "r", "t"], ["y"]), "training_mode"),
        (
            node("Constant", [], ["y"], value_string="a"),
            "expected a constant of .*, found value_string",
        ),
        (node("Cast", ["x"], ["y"], to=17), "element type FLOAT8E4M3FN"),
    ],
)
def test_what_is_not_computed_is_refused(made: Any, words: str) -> None:
    constants = {"r": np.array(0.5, "float32"), "t": np.array(True)}
    used = {k: v for k, v in constants.items() if k in made.input}
    with pytest.raises(Unsupported, match=f"ONNX {made.op_type} 'y': {words}"):
        build(model([made], {"x": (F32, ["n"]), "i": (I64, ["n"])}, **used))
