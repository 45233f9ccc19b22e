"""ONNX's LSTM, GRU and RNN as loops: directions, lengths and variants; needs `onnx`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from tvm_disc.relay.frontend import from_onnx  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import GuardFailed, Unsupported  # noqa: E402

from .helpers import F32, I32, build, listed, node, same  # noqa: E402
from .helpers import model as small  # noqa: E402

WIDTH, FEATURES = 3, 5


def model(direction: str, with_bias: bool = True, **attributes: Any) -> Any:
    rng = np.random.default_rng(0)
    n = 2 if direction == "bidirectional" else 1

    def weights(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name)

    stored = [weights("w", n, 4 * WIDTH, FEATURES), weights("r", n, 4 * WIDTH, WIDTH)]
    stored += [weights("bias", n, 8 * WIDTH)] if with_bias else []
    names = ["x", "w", "r", *(["bias"] if with_bias else [])]
    node = helper.make_node(
        "LSTM", names, ["y", "h", "c"], hidden_size=WIDTH, direction=direction, **attributes
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", "b", FEATURES])
    outs = [
        helper.make_tensor_value_info(k, TensorProto.FLOAT, shape)
        for k, shape in (
            ("y", ["t", n, "b", WIDTH]),
            ("h", [n, "b", WIDTH]),
            ("c", [n, "b", WIDTH]),
        )
    ]
    graph = helper.make_graph([node], "g", [x], outs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    return made


def reference(made: Any, x: np.ndarray) -> list[np.ndarray]:
    """The recurrence, written out."""
    w, r, *rest = (numpy_helper.to_array(i) for i in made.graph.initializer)
    bias = rest[0] if rest else np.zeros((len(w), 8 * WIDTH), "float32")
    direction = next(a.s for a in made.graph.node[0].attribute if a.name == "direction")
    ys, hs, cs = [], [], []
    for k in range(len(w)):
        backwards = direction == b"reverse" or k == 1
        h = c = np.zeros((x.shape[1], WIDTH))
        out = []
        for row in x[::-1] if backwards else x:
            gates = row @ w[k].T + h @ r[k].T + bias[k][: 4 * WIDTH] + bias[k][4 * WIDTH :]
            i, o, f, g = np.split(gates, 4, axis=1)
            i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            out.append(h)
        ys.append(np.array(out[::-1] if backwards else out).reshape(len(x), x.shape[1], WIDTH))
        hs.append(h)
        cs.append(c)
    return [np.stack(ys, 1), np.stack(hs), np.stack(cs)]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_one_program_runs_every_length(direction: str, with_bias: bool) -> None:
    made = model(direction, with_bias)
    program = tvm_disc.build(made)
    rng = np.random.default_rng(1)
    for t, b in ((1, 1), (4, 2), (13, 3)):
        x = rng.standard_normal((t, b, FEATURES)).astype("float32")
        for got, want in zip(program(x), reference(made, x), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def test_weights_of_any_dims() -> None:
    """The width and the gates say what the dims of the weights must be."""
    made = model("bidirectional")
    given = list(made.graph.initializer)
    for t in given:
        dims = [f"{t.name}_{k}" for k in range(len(t.dims))]
        made.graph.input.append(helper.make_tensor_value_info(t.name, F32, dims))
    first = helper.make_tensor_value_info("first", F32, ["i", "j", "k"])
    made.graph.input.append(first)
    made.graph.node[0].input.extend(["", "first"])
    for dim in made.graph.input[0].type.tensor_type.shape.dim:
        dim.Clear()
    weights = [numpy_helper.to_array(t) for t in given]
    expected = {}
    rng = np.random.default_rng(1)
    for t, b in ((1, 1), (4, 2), (13, 3), (0, 2), (16, 8)):
        x = rng.standard_normal((t, b, FEATURES)).astype("float32")
        expected[t, b] = (x, reference(made, x))
    del made.graph.initializer[:]
    program = build(made)
    for (_, b), (x, wanted) in expected.items():
        state = np.zeros((2, b, WIDTH), "float32")
        for got, want in zip(program(x, *weights, state), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)
    x, state = np.zeros((2, 4, FEATURES), "float32"), np.zeros((2, 4, WIDTH), "float32")
    with pytest.raises(GuardFailed, match=r"input 'w' axis 1 .* must equal 12"):
        program(x, weights[0][:, :7], *weights[1:], state)
    with pytest.raises(GuardFailed, match="input 'first' axis 1"):
        program(x, *weights, state[:, :3])


def test_weights_stay_constants_where_other_dims_are_demanded() -> None:
    made = small(
        [node("RNN", ["x", "w", "r", "", "n"], ["y"], hidden_size=WIDTH)],
        {"x": (F32, ["t", "b", FEATURES]), "n": (I32, ["other"])},
        w=np.ones((1, WIDTH, FEATURES), "float32"),
        r=np.ones((1, WIDTH, WIDTH), "float32"),
    )
    text = str(from_onnx(made))
    dense = [line for line in text.splitlines() if "nn.dense" in line]
    assert len(dense) == 2
    assert all("meta[relay.Constant]" in line for line in dense)


VARIANTS = [
    ("LSTM", {"clip": 0.5}),
    ("LSTM", {"input_forget": 1}),
    ("LSTM", {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"direction": "bidirectional"}),
    ("RNN", {"direction": "reverse", "activations": ["Relu"]}),
]


@pytest.mark.parametrize(("name", "attributes"), VARIANTS)
def test_variants_with_lengths(name: str, attributes: dict[str, Any]) -> None:
    """Every step after a sequence's end gives zeros and keeps the state."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    n = 2 if attributes.get("direction") == "bidirectional" else 1
    rng = np.random.default_rng(2)
    w, r, b = (
        rng.standard_normal(s).astype("float32") * 0.5
        for s in ((n, gates * WIDTH, FEATURES), (n, gates * WIDTH, WIDTH), (n, 2 * gates * WIDTH))
    )
    results = ["y", "h", "c"] if name == "LSTM" else ["y", "h"]
    made_node = node(name, ["x", "w", "r", "b", "n"], results, hidden_size=WIDTH, **attributes)
    made = small(
        [made_node], {"x": (F32, ["t", "b", FEATURES]), "n": (I32, ["b"])}, opset=14, w=w, r=r, b=b
    )
    program = build(made)
    for t, count in ((1, 1), (4, 2), (7, 3)):
        x = rng.standard_normal((t, count, FEATURES)).astype("float32")
        lengths = (np.arange(count) % t + 1).astype("int32")
        found = listed(program(x, lengths))
        for k, size in enumerate(lengths):
            alone = np.ascontiguousarray(x[:size, k : k + 1])
            single = listed(program(alone, lengths[k : k + 1]))
            np.testing.assert_allclose(found[0][:size, :, k : k + 1], single[0], atol=1e-5)
            assert not found[0][size:, :, k].any()
            np.testing.assert_allclose(found[1][:, k : k + 1], single[1], atol=1e-5)


def test_one_direction_matches_the_evaluator() -> None:
    rng = np.random.default_rng(3)
    for name, gates in (("GRU", 3), ("RNN", 1)):
        w, r, b = (
            rng.standard_normal(s).astype("float32") * 0.5
            for s in (
                (1, gates * WIDTH, FEATURES),
                (1, gates * WIDTH, WIDTH),
                (1, 2 * gates * WIDTH),
            )
        )
        made_node = node(name, ["x", "w", "r", "b"], ["y", "h"], hidden_size=WIDTH)
        made = small([made_node], {"x": (F32, ["t", "b", FEATURES])}, opset=14, w=w, r=r, b=b)
        cases = [
            rng.standard_normal((t, k, FEATURES)).astype("float32") for t, k in ((2, 1), (5, 3))
        ]
        same(made, *[[x] for x in cases])


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"activations": ["Best", "Tanh", "Tanh"]}, "activations: .*found 'Best'"),
        ({"direction": "sideways"}, "direction: expected .* found 'sideways'"),
        ({"activations": ["Tanh"]}, "activations: expected 3, 3 per direction; found 1"),
    ],
)
def test_variants_that_do_not_exist_are_refused(attributes: Any, words: str) -> None:
    made = model("forward")
    for key, value in attributes.items():
        kept = [a for a in made.graph.node[0].attribute if a.name != key]
        del made.graph.node[0].attribute[:]
        made.graph.node[0].attribute.extend([*kept, helper.make_attribute(key, value)])
    with pytest.raises(Unsupported, match=f"ONNX LSTM 'y': {words}"):
        build(made)
