"""Attributes and inputs that an operator does not have are refused, not ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from tests.frontends.onnx.helpers import F16, F32, I8, I32, build, model, node, same  # noqa: E402
from tvm_disc.errors import TypeMismatch, Unsupported  # noqa: E402
from tvm_disc.frontends.onnx.declaration import declared_by_onnx  # noqa: E402

X = {"x": (F32, ["n", 3])}


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (
            node("Softmax", ["x"], ["y"], axes=1),
            "Softmax 'y': attribute 'axes' is unknown to version 13 of the operator; did you mean "
            "'axis'?",
        ),
        (
            node("Relu", ["x"], ["y"], slope=0.5),
            "Relu 'y': attribute 'slope' is unknown to version 14 of the operator; expected none",
        ),
        (
            node("Elu", ["x"], ["y"], aa=1, bb=2),
            "attributes 'aa', 'bb' are unknown to version 6 of the operator; expected alpha",
        ),
        (
            node("Relu", ["x", "x"], ["y"]),
            "Relu 'y': expected at most 1 input for version 14 of the operator, found 2; remove",
        ),
        (node("Clip", ["x", "", "", "x"], ["y"]), "expected at most 3 inputs for version 13"),
    ],
)
def test_unknown_parts_of_a_node_are_refused(refused: Any, message: str) -> None:
    with pytest.raises(Unsupported) as error:
        build(model([refused], X))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "types", "opset", "message"),
    [
        ("ReduceL2", [I8], 18, "input 0 ('data'): version 18 of the operator accepts float32, "),
        ("ReduceLogSum", [I8], 13, "float64, uint32, uint64, bfloat16, found int8"),
        ("Relu", [I32], 13, "accepts float32, float16, float64, bfloat16, found int32"),
        ("Mul", [I8, I8], 13, "input 0 ('A'): version 13 of the operator accepts float32, int32"),
        ("Add", [F32, F16], 21, "input 1 ('B'): expected float32, the type of 'A', found float16"),
        ("Gather", [F32, F32], 21, "input 1 ('indices'): version 13 of the operator accepts int32"),
    ],
)
def test_types_that_a_version_excludes(
    name: str, types: list[int], opset: int, message: str
) -> None:
    inputs = {f"x{k}": (kind, ["n", 3]) for k, kind in enumerate(types)}
    with pytest.raises(TypeMismatch) as error:
        build(model([node(name, list(inputs), ["y"])], inputs, opset=opset))
    assert f"ONNX {name} 'y': " in str(error.value) and message in str(error.value)


def test_a_later_version_accepts_more_types() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Mul", ["a", "a"], ["y"])]
    same(model(nodes, {"x": (I8, ["n", 3])}, opset=14), [np.array([[-3, 2, 9]], "int8")])


def test_a_version_has_its_own_attributes() -> None:
    old = node("Clip", ["x"], ["y"], min=0.0, max=1.0)
    same(model([old], X, opset=6), [np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)])
    with pytest.raises(Unsupported, match="attributes 'max', 'min' are unknown to version 13"):
        build(model([old], X, opset=21))


def test_omitted_inputs_at_the_end_are_not_counted() -> None:
    values = [np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)]
    same(model([node("Relu", ["x", "", ""], ["y"])], X), values, want=lambda x: np.maximum(x, 0))


def test_any_number_of_inputs_of_a_variadic_operator() -> None:
    values = [np.ones((2, 3), "float32")]
    same(model([node("Sum", ["x"] * 40, ["y"])], X), values)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (["x"], {"sope": 2.0}, "attribute 'sope' is unknown to the model's function 'Sloped'; did"),
        (["x", "x"], {}, "expected at most 1 input for the model's function 'Sloped', found 2"),
    ],
)
def test_functions_of_the_model(
    inputs: list[str], attributes: dict[str, float], message: str
) -> None:
    inner = node("LeakyRelu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "Sloped", ["a"], ["b"], [inner], opsets, ["slope"])

    def made(names: list[str], **given: float) -> Any:
        call = node("Sloped", names, ["y"], domain="own", **given)
        return model([call], X, domains={"own": 1}, functions=[function])

    values = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)
    same(made(["x"], slope=0.5), [values], want=lambda x: np.where(x < 0, x * np.float32(0.5), x))
    with pytest.raises(Unsupported) as error:
        build(made(inputs, **attributes))
    assert message in str(error.value)


def test_attributes_that_no_declaration_lists_are_reported() -> None:
    """ONNX has no declarations of other domains; what the converter does not read is ignored."""
    gelu = node("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.0, alhpa=2.0)
    made = model([gelu], X, domains={"com.microsoft": 1})
    import tvm_disc

    with pytest.warns(UserWarning, match="ONNX QuickGelu 'y': attribute 'alhpa' is ignored"):
        tvm_disc.build(made)


def test_operators_of_other_domains_are_not_declared() -> None:
    assert declared_by_onnx("com.microsoft", "QuickGelu", 1) is None
    found = declared_by_onnx("", "Softmax", 21)
    assert found is not None and found.attributes == {"axis"} and found.most_inputs == 1
