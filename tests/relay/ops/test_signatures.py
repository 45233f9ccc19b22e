"""The builder functions take what Relay's took: names, order, defaults, by position and by name."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import numpy as np
import pytest

from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.errors import BadNode, Unsupported

# As `inspect.signature` showed them in TVM 0.19.
SIGNATURES = json.loads((DATA / "signatures.json").read_text())


def function(path: str) -> Any:
    """The function of a dotted path that begins with ``relay``."""
    found: Any = relay
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def shown(value: Any) -> str:
    """A parameter as the table writes it."""
    if value.default is inspect.Parameter.empty:
        return value.name
    return f"{value.name}={json.dumps(value.default)}"


_WHOLE = re.compile(r"\.0\b")  # Relay's functions give some attributes of floats as integers


@pytest.mark.parametrize("path", sorted(SIGNATURES))
def test_parameters(path: str) -> None:
    params = inspect.signature(function(path)).parameters.values()
    found = ", ".join(map(shown, params))
    assert _WHOLE.sub("", found) == _WHOLE.sub("", SIGNATURES[path])
    assert all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in params)


X = relay.var("x", shape=(relay.Any(), 4))
Y = relay.var("y", shape=(relay.Any(), 4))
IMAGE = relay.var("im", shape=(1, 8, 8, 8))
GRAD = relay.var("g", shape=(1, 8, 4, 4))
Q = relay.var("q", shape=(2, 3), dtype="int8")
KEY = relay.var("key", shape=(10,), dtype="uint64")
ONE, ZERO = relay.const(1.0), relay.const(0)

# Calls by position, and the body that Relay printed for them.
PRINTED = [
    (lambda: relay.sum(X, 1, True), "sum(%x, axis=[1], keepdims=True)"),
    (lambda: relay.cast(X, "int32"), 'cast(%x, dtype="int32")'),
    (
        lambda: relay.cumsum(X, 1, "float64", True),
        'cumsum(%x, axis=1, dtype="float64", exclusive=True)',
    ),
    (lambda: relay.cumsum(X), "cumsum(%x)"),
    (lambda: relay.sort(X), "sort(%x)"),
    (lambda: relay.argsort(X), 'argsort(%x, dtype="int32")'),
    (lambda: relay.slice_like(X, Y), "slice_like(%x, %y, axes=None)"),
    (lambda: relay.reverse_reshape(X, (4, -1)), "contrib_reverse_reshape(%x, newshape=[4, -1])"),
    (lambda: relay.stft(X, 4, window=Y), "stft(%x, %y, n_fft=4, hop_length=1, win_length=4)"),
    (
        lambda: relay.nn.max_pool2d_grad(GRAD, IMAGE, (2, 2), (2, 2)),
        "nn.max_pool2d_grad(%g, %im, pool_size=[2, 2], strides=[2, 2], dilation=[])",
    ),
    (
        lambda: relay.nn.avg_pool2d_grad(
            GRAD, IMAGE, (2, 2), (2, 2), (0, 0), "NCHW", "", False, True
        ),
        "nn.avg_pool2d_grad(%g, %im, pool_size=[2, 2], strides=[2, 2], dilation=[],"
        " count_include_pad=True)",
    ),
    (
        lambda: relay.nn.conv2d_backward_weight(GRAD, IMAGE, kernel_size=(5, 5)),
        "nn.conv2d_backward_weight(%g, %im, padding=[0, 0, 0, 0], kernel_size=[5, 5],"
        ' kernel_layout="NCHW", out_layout="OIHW")',
    ),
    (lambda: relay.nn.conv1d(X, Y, 2, 1), "nn.conv1d(%x, %y, strides=[2], padding=[1, 1])"),
    (lambda: relay.nn.matmul(X, Y, None, "", False, True), "nn.dense(%x, %y, units=None)"),
    (lambda: relay.nn.global_max_pool1d(X), "nn.adaptive_max_pool1d(%x, output_size=[1])"),
    (lambda: relay.nn.adaptive_avg_pool2d(IMAGE), "nn.adaptive_avg_pool2d(%im, output_size=None)"),
    (
        lambda: relay.nn.contrib_dense_pack(X, Y, "NK8n"),
        'nn.contrib_dense_pack(%x, %y, units=None, weight_layout="NK8n")',
    ),
    (
        lambda: relay.random.uniform(KEY, (3,)),
        'random.uniform(%key, 0f, 1f, out_shape=[3], out_dtype="float32")',
    ),
    (
        lambda: relay.random.threefry_generate(KEY, (3,)),
        "random.threefry_generate(%key, out_shape=[3])",
    ),
    (
        lambda: relay.qnn.op.leaky_relu(Q, 0.1, ONE, ZERO, ONE, ZERO),
        "qnn.leaky_relu(%q, 1f, 0, 1f, 0, alpha=0.1f)",
    ),
    (
        lambda: relay.qnn.op.conv2d_transpose(
            Q, Q, ZERO, ZERO, ONE, ONE, (2, 2), (1, 1), (1, 1), 1, 3, (3, 3)
        ),
        "qnn.conv2d_transpose(%q, %q, 0, 0, 1f, 1f, channels=3, kernel_size=[3, 3], strides=[2, 2],"
        ' padding=[1, 1, 1, 1], out_dtype="int32")',
    ),
]


@pytest.mark.parametrize(("build", "text"), PRINTED, ids=[t.split("(")[0] for _, t in PRINTED])
def test_calls_by_position(build: Any, text: str) -> None:
    body = relay.astext(build()).splitlines()[-1]
    assert body == text


def test_results_are_wrapped() -> None:
    compressed = (relay.const([1.0, 2.0]), relay.const([0, 1]), relay.const([0, 1, 2]))
    wrapped = {
        relay.dft(X, Y): 2,
        relay.nn.sparse_transpose(compressed): 3,
        relay.mean_variance(X, 1): 2,
        relay.mean_std(X, 1): 2,
    }
    for found, size in wrapped.items():
        assert isinstance(found, relay.TupleWrapper) and len(found) == size


def test_the_files_of_relay_are_aliases() -> None:
    op = relay.op
    assert op.transform.reshape is op.reshape and op.tensor.add is op.reduce.add
    assert op.nn.nn is op.nn is relay.nn and op.vision.nms is relay.vision
    assert relay.qnn.op.get_pad_tuple2d((1, 2)) == (1, 2, 1, 2)


def test_the_key_of_random_numbers() -> None:
    assert relay.random.threefry_key(7).data.tolist() == [7, *[0] * 7, 1 << 63, 0]


def test_compressed_rows_of_scipy_or_as_arrays() -> None:
    class Matrix:
        data, indices, indptr = np.ones(2, "float32"), np.array([0, 1]), np.array([0, 1, 2])

    call = relay.nn.sparse_dense(X, Matrix(), True)
    assert [a.data.dtype.name for a in call.args[1:]] == ["float32", "int32", "int32"]
    assert call.attrs["sparse_lhs"] is True


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: relay.repeat(X, 2), BadNode, r"repeat needs argument 'axis'; repeat\(data, rep"),
        (lambda: relay.nn.leaky_relu(X, 0.1, 1), BadNode, "expected at most 2 arguments, found 3"),
        (lambda: relay.cumsum(X, 0, axis=1), BadNode, "cumsum: argument 'axis' is given twice"),
        (lambda: relay.nn.space_to_depth(X, 2, mode="CRD", k=1), BadNode, "has no attribute 'k'"),
        (lambda: relay.nn.get_pad_tuple2d((1, 2, 3)), ValueError, r"1, 2 or 4 numbers, found \(1,"),
        (lambda: relay.op.memory, Unsupported, "relay.memory: created by TVM's own lowering"),
        (lambda: relay.op.vm, Unsupported, "relay.vm: created by TVM's own lowering"),
        (lambda: relay.op.copy_shape_func, Unsupported, "there are no shape functions"),
        (lambda: relay.qnn.op.requantize_config, Unsupported, "on the requantize call"),
        (lambda: relay.random.bytes, AttributeError, "unknown operator random.bytes"),
    ],
)
def test_refusals(build: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build()
