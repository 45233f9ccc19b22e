"""Networks: what they are made of, one that runs, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported
from tvm_disc.relay import testing

layers = testing.layers

# Operators and weights, of images as the networks are usually given.
MADE: dict[str, tuple[Any, dict[str, int], int]] = {
    "mlp": (lambda: testing.mlp.get_workload(1), {"nn.dense": 3, "nn.relu": 2}, 6),
    "lstm": (
        lambda: testing.lstm.get_workload(2, 4),
        {"nn.dense": 4, "split": 2, "sigmoid": 6, "tanh": 4, "multiply": 6},
        8,
    ),
    "dqn": (
        lambda: testing.dqn.get_workload(1),
        {"nn.conv2d": 3, "nn.bias_add": 5, "nn.relu": 4, "nn.dense": 2},
        10,
    ),
    "dcgan": (
        lambda: testing.dcgan.get_workload(2, ngf=4),
        {"nn.dense": 1, "nn.conv2d_transpose": 4, "nn.batch_norm": 3, "nn.relu": 4, "tanh": 1},
        17,
    ),
    "densenet": (
        lambda: testing.densenet.get_workload(121, 10, 1, (3, 32, 32)),
        {"nn.conv2d": 120, "nn.batch_norm": 121, "concatenate": 58, "nn.avg_pool2d": 3},
        606,
    ),
    "resnet": (
        lambda: testing.resnet.get_workload(),
        {"nn.conv2d": 21, "nn.batch_norm": 19, "nn.relu": 18, "add": 8, "nn.max_pool2d": 1},
        99,
    ),
    "mobilenet": (
        lambda: testing.mobilenet.get_workload(),
        {"nn.conv2d": 27, "nn.batch_norm": 27, "nn.relu": 27, "nn.softmax": 1},
        137,
    ),
    "vgg": (
        lambda: testing.vgg.get_workload(1, image_shape=(3, 32, 32)),
        {"nn.conv2d": 8, "nn.bias_add": 11, "nn.relu": 10, "nn.max_pool2d": 5, "nn.dropout": 2},
        22,
    ),
    "squeezenet": (
        lambda: testing.squeezenet.get_workload(),
        {"nn.conv2d": 26, "nn.relu": 26, "concatenate": 8, "nn.max_pool2d": 3, "nn.dropout": 1},
        52,
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_operators_and_weights(name: str) -> None:
    make, counts, weights = MADE[name]
    mod, params = make()
    found = testing.count_ops(mod["main"])
    assert {op: found[op] for op in counts} == counts and len(params) == weights
    names = [p.name_hint for p in mod["main"].params]
    assert names[0] == "data" and {*names} - {"data", "data1"} == set(params)
    assert relay.structural_equal(relay.parse(mod.astext()), mod)


@pytest.mark.parametrize(
    ("make", "result"),
    [
        (lambda: testing.dcgan.get_workload(relay.Any(), ngf=4), "Tensor[(?, 3, 64, 64), float32]"),
        (
            lambda: testing.densenet.get_workload(121, 10, relay.Any(), (3, 32, 32)),
            "Tensor[(?, 10), float32]",
        ),
    ],
)
def test_results_of_any_batch(make: Any, result: str) -> None:
    typed = relay.transform.InferType()(make()[0])
    assert str(typed["main"].ret_type) == result


def test_a_network_of_any_batch_runs() -> None:
    mod, params = testing.mlp.get_workload(relay.Any(), image_shape=(1, 4, 4))
    exe = tvm_disc.build(mod, params=params)
    rng = np.random.default_rng(0)
    for n in (1, 3, 8, 17, 0):
        x = rng.random((n, 1, 4, 4), "float32")
        y = x.reshape(n, 16)
        for layer in ("fc1", "fc2", "fc3"):
            y = y @ params[f"{layer}_weight"].T + params[f"{layer}_bias"]
            y = np.maximum(y, 0) if layer != "fc3" else y
        y = np.exp(y - y.max(-1, keepdims=True))
        np.testing.assert_allclose(exe(x), y / y.sum(-1, keepdims=True), rtol=1e-4)


def test_weights_are_the_same_for_a_seed() -> None:
    net = testing.mlp.get_net(1)
    first, second, other = (testing.create_workload(net, seed=s)[1] for s in (1, 1, 2))
    assert all(np.array_equal(first[n], second[n]) for n in first)
    assert not np.array_equal(first["fc1_weight"], other["fc1_weight"])
    _, ones = testing.create_workload(net, lambda name, array: array.fill(1))
    assert ones["fc1_bias"].all()


def test_helpers() -> None:
    x = relay.var("x", shape=(2,))
    same = testing.run_opt_pass(x + x, lambda mod: mod)
    assert testing.count_ops(same) == {"add": 1}
    seen: list[str] = []

    def note(mod: relay.IRModule) -> relay.IRModule:
        seen.extend(mod.type_definitions)
        return mod

    found = testing.run_opt_pass(relay.Function([x], x), note, import_prelude=True)
    assert isinstance(found, relay.Function) and "List" in seen
    assert testing.rand("float32", 2, 3).shape == (2, 3)
    ((target, device),) = testing.enabled_targets()
    assert target == "llvm" and str(device) == "cpu:0"


@pytest.mark.parametrize("name", testing.REFUSED)
def test_what_is_not_here_says_why(name: str) -> None:
    with pytest.raises(Unsupported, match=f"relay.testing.{name}: "):
        getattr(testing, name)()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: testing.resnet.get_workload(num_layers=19), "18, 34, 50, 101, 152, 200, 269"),
        (lambda: testing.resnet.get_workload(1, 10, 19, (3, 32, 32)), r"6 \* n \+ 2 .*found 19"),
        (lambda: testing.resnet.get_workload(layout="NHWC"), "layout NCHW, found 'NHWC'"),
        (lambda: testing.densenet.get_workload(120), "121, 161, 169, 201 layers, found 120"),
        (lambda: testing.dcgan.get_workload(1, oshape=(3, 32, 32)), "images of 64 x 64, found"),
        (lambda: testing.dcgan.get_workload(1, layout="NHWC"), "layout NCHW, found 'NHWC'"),
        (lambda: testing.vgg.get_workload(1, num_layers=12), "11, 13, 16, 19 layers, found 12"),
        (lambda: testing.squeezenet.get_workload(version="2"), "1.0 or 1.1, found '2'"),
        (
            lambda: testing.create_workload(relay.Function([relay.var("w")], relay.const(1))),
            "weight 'w' of known dims, found None; annotate it",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(BadNode, match=message):
        make()


IMAGE = relay.var("data", shape=(1, 3, 8, 8))
LAYERS: dict[str, tuple[Any, tuple[int, ...], dict[str, tuple[int, ...]]]] = {
    "conv1d": (
        lambda: layers.conv1d(
            relay.reshape(IMAGE, (1, 3, 64)), name="c", channels=4, kernel_size=(3,)
        ),
        (1, 4, 62),
        {"c_weight": (4, 3, 3)},
    ),
    "conv2d": (
        lambda: layers.conv2d(IMAGE, name="c", channels=4, kernel_size=(3, 3), padding=(1, 1)),
        (1, 4, 8, 8),
        {"c_weight": (4, 3, 3, 3)},
    ),
    "conv2d of a weight": (
        lambda: layers.conv2d(IMAGE, relay.var("w", shape=(2, 3, 1, 1)), name="c"),
        (1, 2, 8, 8),
        {"w": (2, 3, 1, 1)},
    ),
    "conv3d": (
        lambda: layers.conv3d(
            relay.expand_dims(IMAGE, 2), name="c", channels=4, kernel_size=(1, 3, 3)
        ),
        (1, 4, 1, 6, 6),
        {"c_weight": (4, 3, 1, 3, 3)},
    ),
    "conv2d_transpose": (
        lambda: layers.conv2d_transpose(IMAGE, name="t", channels=4, kernel_size=(3, 3)),
        (1, 4, 10, 10),
        {"t_weight": (3, 4, 3, 3)},
    ),
    "dense_add_bias": (
        lambda: layers.dense_add_bias(relay.nn.batch_flatten(IMAGE), units=5, name="fc"),
        (1, 5),
        {"fc_weight": (5, 192), "fc_bias": (5,)},
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_weights_of_their_names(name: str) -> None:
    make, shape, weights = LAYERS[name]
    body = make()
    params = [v for v in relay.analysis.free_vars(body) if v is not IMAGE]
    func = relay.testing.run_infer_type(relay.Function([IMAGE, *params], body))
    assert func.ret_type.shape == shape
    found = {p.name_hint: p.type_annotation.shape for p in func.params[1:]}
    assert found == weights


def test_layouts_of_weights() -> None:
    layout = layers.conv_kernel_layout
    assert [layout("NCHW"), layout("NHWC"), layout("NHWC", True)] == ["OIHW", "HWIO", "HWOI"]
    with pytest.raises(BadNode, match="data_layout: expected NCHW or NHWC, found 'NHW'"):
        layout("NHW")
