"""``relay.frontend`` as scripts of Relay call it: arguments by position and name, and the pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import DiscError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402


def relu(shape: Any = ("n", 4), opset: int = 13) -> Any:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def dims_of(mod: relay.IRModule) -> tuple[Any, ...]:
    return tuple(mod["main"].params[0].type_annotation.shape)


def test_a_script_of_relay_takes_the_pair_and_runs_it() -> None:
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    mod, params = relay.frontend.from_onnx(relu(), {"x": (relay.Any(), 4)}, freeze_params=True)
    assert type(mod) is relay.IRModule and params == {}
    run = relay.create_executor("vm", mod=mod, params=params).evaluate()
    assert np.array_equal(run(x).numpy(), np.maximum(x, 0))


def test_the_result_is_the_module_too() -> None:
    made = relay.frontend.from_onnx(relu())
    assert isinstance(made, relay.IRModule)
    assert relay.structural_equal(made, next(iter(made)))


@pytest.mark.parametrize(
    ("model", "given", "wanted"),
    [
        (("n", 4), (3, 4), (3, 4)),
        ((3, 4), ("rows", 4), (relay.Any("rows"), 4)),
        (None, (relay.Any("n"), 5), (relay.Any("n"), 5)),  # the model tells no rank
        ((), (), ()),
    ],
)
def test_a_shape_stands_in_place_of_the_models(model: Any, given: Any, wanted: Any) -> None:
    source = relu(model)
    before = source.SerializeToString()
    mod, _ = relay.frontend.from_onnx(source, shape={"x": given}, dtype={"x": "float32"})
    assert dims_of(mod) == wanted
    assert source.SerializeToString() == before


def test_an_opset_stands_in_place_of_the_models(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(relu(opset=99), path)
    mod, _ = relay.frontend.from_onnx(path, opset=13, convert_config={})
    assert dims_of(mod)[1] == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": {"y": (3, 4)}}, "no input 'y'; it has 'x'"),
        ({"shape": {"x": (3,)}}, "'x': expected 2 dims, as in the model, found 1"),
        ({"shape": {"x": (-1, 4)}}, "- 1, a name or relay.Any.., found -1"),
        ({"shape": {"x": (2.0, 4)}}, "found 2.0"),
        ({"shape": {"x": 4}}, "'x': expected a list or tuple, found 4"),
        ({"shape": 3}, "shape: expected a mapping from names to values, found 3"),
        ({"dtype": {"x": "int8"}}, "'x': expected float32, as in the model, found 'int8'"),
        ({"opset": "13"}, "opset: expected an integer from 1 to 2147483647, found '13'"),
        ({"freeze_params": False}, "weights become constants"),
        ({"export_node_renamed_model_path": "m.onnx"}, "no renamed model"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DiscError, match=message):
        relay.frontend.from_onnx(relu(), **given)


@pytest.mark.frontends
def test_a_pytorch_program_carries_its_inputs() -> None:
    torch = pytest.importorskip("torch")
    n = torch.export.Dim("n")
    program = torch.export.export(
        torch.nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes={"input": {0: n}}
    )
    mod, params = relay.frontend.from_pytorch(program)
    assert dims_of(mod)[1] == 4 and params == {}
    with pytest.raises(DiscError, match="expected no input_infos: an exported program defines"):
        relay.frontend.from_pytorch(program, [("input", (3, 4))])
