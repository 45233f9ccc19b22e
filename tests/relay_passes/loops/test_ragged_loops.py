"""Loops over the steps of a sequence in ragged programs, and loops that collect rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import pack, weights
from tvm_disc import Options, relay
from tvm_disc.errors import Unsupported

BATCHES = ([], [0], [1], [0, 4, 0], [5, 1, 37], [2, 40, 3, 3], [7] * 5, [65, 1, 2, 8])
Step = Callable[[Any, Any], Any]
_HIDDEN = weights(8, 8)


def _dense(x: Any, w: Any) -> Any:
    return relay.nn.dense(x, w)


def tanh_step(x: Any, h: Any) -> Any:
    return relay.tanh(x + _dense(h, _HIDDEN))


def gated_step(x: Any, h: Any) -> Any:
    """A step with parts, a softmax over features, a join and a reduction over features."""
    both = relay.concatenate([x, h], axis=1)
    gate = relay.nn.softmax(relay.strided_slice(both, [4], [12], axes=[1]), axis=-1)
    mean = relay.mean(both, axis=[1], keepdims=True)
    turned = relay.transpose(relay.transpose(h, (1, 0)), (1, 0))
    return gate * relay.tanh(x) + (turned - mean) * relay.const(np.float32(0.5))


def layer(x: Any, step: Step, backward: bool = False, first: Any = None) -> tuple[Any, Any]:
    """(every state ``[s, b, 8]``, the last one) of a recurrent layer over ``x[s, b, 8]``."""
    s, b = relay.Any("steps"), relay.Any("items")
    count = relay.Var("count", relay.scalar_type("int64"))
    last = relay.Var("last", relay.scalar_type("int64"))
    given = relay.Var("given", relay.TensorType((s, b, 8)))
    t = relay.Var("t", relay.scalar_type("int64"))
    h = relay.Var("h", relay.TensorType((b, 8)))
    done = relay.Var("done", relay.TensorType((relay.Any(), b, 8)))
    one = relay.const(1, "int64")

    def body(count: Any, last: Any, given: Any, t: Any, h: Any, done: Any) -> list[Any]:
        new = step(relay.take(given, last - t if backward else t, axis=0), h)
        grown = relay.concatenate([done, relay.expand_dims(new, 0)], axis=0)
        return [count, last, given, t + one, new, grown]

    loop = relay.loops.while_loop(
        lambda count, last, given, t, h, done: relay.less(t, count),
        [count, last, given, t, h, done],
        body,
    )
    size = relay.shape_of(x, "int64")
    steps = relay.squeeze(relay.take(size, relay.const(np.array([0], "int64")), axis=0), [0])
    items = relay.take(size, relay.const(np.array([1], "int64")), axis=0)
    eight = relay.const(np.array([8], "int64"))
    if first is None:
        shape = relay.concatenate([items, eight], axis=0)
        first = relay.full(relay.const(np.float32(0)), shape, "float32")
    none = relay.concatenate([relay.const(np.array([0], "int64")), items, eight], axis=0)
    blank = relay.full(relay.const(np.float32(0)), none, "float32")
    zero = relay.const(0, "int64")
    out = relay.Call(loop, (steps, steps - one, x, zero, first, blank))
    return relay.TupleGetItem(out, 5), relay.TupleGetItem(out, 4)


def _turned(x: Any) -> Any:
    return relay.transpose(x, (1, 0, 2))


def forward(x: Any) -> Any:
    return _turned(layer(_turned(x), tanh_step)[0])


def backward(x: Any) -> Any:
    return _turned(relay.reverse(layer(_turned(x), gated_step, backward=True)[0], axis=0))


def reversed_first(x: Any) -> Any:
    return _turned(relay.reverse(layer(relay.reverse(_turned(x), 0), tanh_step)[0], axis=0))


def two_layers(x: Any) -> Any:
    ahead, back = forward(x), backward(x)
    return forward(relay.tanh(ahead) + back) + x


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "forward": forward,
    "backward": backward,
    "reversed first": reversed_first,
    "two layers": two_layers,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_layers_equal_calls_item_by_item(name: str) -> None:
    x = rows("b", "s", 8)
    module = function(x, GRAPHS[name](x))
    exe = tvm_disc.build(module, ragged={"x": 1}, options=Options(verify=True))
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(5)
    for lengths in BATCHES:
        items = pack(lengths, rng, 8)
        for found, item in zip(exe(items), items, strict=True):
            wanted = plain(item[None])[0]
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5, err_msg=f"{name} {lengths}")


def test_the_last_state_is_that_of_each_item() -> None:
    x, h = rows("b", "s", 8), rows("b", 8, name="h")
    every, last = layer(_turned(x), tanh_step, first=h)
    module = function(x, h, relay.Tuple([relay.nn.dense(last, _HIDDEN), _turned(every)]))
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    rng = np.random.default_rng(6)
    for lengths in BATCHES:
        items = pack(lengths, rng, 8)
        states = rng.standard_normal((len(items), 8)).astype("float32")
        ends, all_rows = exe(items, states)
        for k, item in enumerate(items):  # an item without elements keeps its initial state
            end, each = plain(item[None], states[k : k + 1])
            np.testing.assert_allclose(ends[k], end[0], 1e-5, 1e-5, err_msg=f"{lengths}")
            np.testing.assert_allclose(all_rows[k], each[0], 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda x, h: x + relay.mean(h, axis=[0], keepdims=True), "mean"),
        (lambda x, h: x + relay.reverse(h, axis=0), "may combine elements of different items"),
        (lambda x, h: relay.nn.softmax(x + h, axis=0), "combine"),
    ],
)
def test_steps_that_combine_items_are_refused(step: Step, reason: str) -> None:
    x = rows("b", "s", 8)
    with pytest.raises(Unsupported, match=r"ragged: .*") as raised:
        tvm_disc.build(function(x, _turned(layer(_turned(x), step)[0])), ragged={"x": 1})
    assert reason in str(raised.value)


def test_a_loop_over_a_vector_of_sizes_is_refused() -> None:
    x = rows("b", "s", 8)
    sizes = relay.Var("sizes", relay.TensorType((2,), "int64"))
    limit, t = (relay.Var(name, relay.scalar_type("int64")) for name in ("limit", "t"))
    loop = relay.loops.while_loop(
        lambda sizes, limit, t: relay.less(t, limit),
        [sizes, limit, t],
        lambda sizes, limit, t: [sizes + sizes, limit, t + relay.const(1, "int64")],
    )
    vector = relay.strided_slice(relay.shape_of(x, "int64"), [0], [2])
    out = relay.Call(loop, (vector, relay.const(3, "int64"), relay.const(0, "int64")))
    with pytest.raises(Unsupported, match=r"ragged: shape_to_tensor.*may depend on the length"):
        result = relay.Tuple([x, relay.TupleGetItem(out, 0)])
        tvm_disc.build(function(x, result), ragged={"x": 1})


def test_a_loop_over_another_axis_is_refused() -> None:
    x = rows("b", "s", 8)
    every, _ = layer(relay.transpose(x, (0, 1, 2)), tanh_step)
    with pytest.raises(Unsupported, match="its number of iterations is not the length of an item"):
        tvm_disc.build(function(x, every), ragged={"x": 1})


def test_sizes_of_results_of_loops_are_known() -> None:
    """The sizes of states, and the number of collected rows."""
    x = rows("b", "s", 8)
    every, last = layer(_turned(x), tanh_step)
    exe = tvm_disc.build(function(x, relay.Tuple([every, last])))
    assert exe.results == [(("s", "b", "8"), "float32"), (("b", "8"), "float32")]
