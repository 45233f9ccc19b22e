"""A small language model as a step over caches and a recurrent state."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc import relay

WIDTH = 24


def step_of(vocabulary: int, recurrent: bool = True, dtype: str = "float32") -> Any:
    """A step whose scores depend on all tokens that were read, on a recurrent state and on the
    positions.
    """
    rng = np.random.default_rng(vocabulary)
    table, back = (rng.standard_normal((vocabulary, WIDTH)).astype("float32") for _ in range(2))
    batch, length, read = relay.Any("batch"), relay.Any("length"), relay.Any("read")
    ids, mask, positions = (
        relay.var(n, shape=(batch, length), dtype="int64") for n in ("ids", "mask", "positions")
    )
    past_mask = relay.var("past_0", shape=(batch, read), dtype="int64")
    past = relay.var("past_1", shape=(batch, read, WIDTH))
    new = relay.take(relay.const(table), ids, axis=0)
    place = relay.cast(relay.expand_dims(positions, 2), "float32")
    new = new + relay.sin(place * relay.const(np.float32(0.3)))
    new = new * relay.cast(relay.expand_dims(mask, 2), "float32")
    now = relay.concatenate([past, new], axis=1)
    now_mask = relay.concatenate([past_mask, mask], axis=1)
    count = relay.cast(relay.sum(now_mask, axis=[1], keepdims=True), "float32")
    text = relay.sum(now, axis=[1]) / count
    inputs, results = [ids, mask, positions, past_mask, past], []
    if recurrent:
        state = relay.var("recurrent_0", shape=(batch, WIDTH))
        text = text + state
        results.append(relay.const(np.float32(0.5)) * state + relay.sum(new, axis=[1]))
        inputs.append(state)
    scores = relay.nn.dense(text * relay.const(np.float32(3)), relay.const(back))
    scores = scores if dtype == "float32" else relay.cast(scores, dtype)
    return relay.Function(inputs, relay.Tuple([scores, *results, now_mask, now]))
