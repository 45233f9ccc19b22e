"""Random graphs over ragged rows, equal to the same graph item by item.

``DISC_RAGGED_GRAPHS=1000`` runs more of them. A failure names its seed and the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tests.relay_passes.ragged_helpers import (
    attended,
    convolution,
    cross_attention,
    norm,
    pack,
    self_attention,
    weights,
)
from tvm_disc import Options, Ragged, relay

GRAPHS = int(os.environ.get("DISC_RAGGED_GRAPHS", "4"))
STEPS = 7
TOLERANCE = 1e-5  # of a result, relative to its largest element
BATCHES = ([], [1], [5, 1, 37], [2, 40, 3, 3])

Step = Callable[["Graph"], Any]


class Graph:
    """A random graph over ``x[b, s, 8]`` and ``y[b, n, 8]``.

    Attributes:
        rows: values ``[b, s, 8]``.
        others: values ``[b, n, 8]``.
        items: values ``[b, 1, 8]``.
        names: the steps.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        x, y = rows("b", "s", 8), rows("b", "n", 8, name="y")
        self.rows, self.others, self.items = [x], [y], [relay.mean(y, axis=1, keepdims=True)]
        self.names: list[str] = []
        for _ in range(STEPS):
            name = str(self.rng.choice(list(STEPS_OF)))
            kind, step = STEPS_OF[name]
            self.names.append(name)
            getattr(self, kind).append(step(self))
        found = [reduce(add, map(relay.tanh, values)) for values in (self.rows, self.items)]
        self.module = function(x, y, relay.Tuple(found))

    def pick(self, values: list[Any]) -> Any:
        """One of the last three values."""
        return values[-int(self.rng.integers(1, min(3, len(values)) + 1))]

    def row(self) -> Any:
        return self.pick(self.rows)


def _scores(x: Any) -> Any:
    return relay.sum(relay.nn.softmax(x, axis=1) * x, axis=1, keepdims=True)


def _heads(x: Any) -> Any:
    """The values of [b, s, 8] with the parts of each row exchanged."""
    parts = relay.transpose(relay.reshape(x, (0, 0, 2, 4)), (0, 2, 1, 3))
    moved = relay.transpose(relay.tanh(parts), (0, 2, 3, 1))
    return relay.reshape(moved, (0, 0, 8))


def _halves(x: Any) -> Any:
    first = relay.strided_slice(x, [0], [4], axes=[2])
    second = relay.strided_slice(x, [4], [8], axes=[2])
    return relay.concatenate([second, first * second], axis=2)


def _first(graph: Graph) -> Any:
    return relay.expand_dims(relay.take(graph.row(), relay.const(0), axis=1), 1)


STEPS_OF: dict[str, tuple[str, Step]] = {
    "tanh": ("rows", lambda g: relay.tanh(g.row())),
    "dense": ("rows", lambda g: relay.nn.dense(g.row(), weights(8, 8))),
    "sum": ("rows", lambda g: g.row() + g.row()),
    "norm": ("rows", lambda g: norm(g.row())),
    "softmax": ("rows", lambda g: relay.nn.softmax(g.row())),
    "heads": ("rows", lambda g: _heads(g.row())),
    "halves": ("rows", lambda g: _halves(g.row())),
    "attention": ("rows", lambda g: self_attention(g.row())),
    "cross": ("rows", lambda g: cross_attention(g.row(), g.pick(g.others))),
    "convolution": ("rows", lambda g: convolution(g.row())),
    "prefix": ("rows", lambda g: relay.tanh(relay.cumsum(g.row(), axis=1))),
    "of the item": ("rows", lambda g: g.row() * g.pick(g.items)),
    "centred": ("rows", lambda g: (lambda x: x - relay.mean(x, axis=1, keepdims=True))(g.row())),
    "seen": ("rows", lambda g: attended(g.row())),
    "other dense": ("others", lambda g: relay.nn.dense(g.pick(g.others), weights(8, 8))),
    "other cross": ("others", lambda g: cross_attention(g.pick(g.others), g.row())),
    "mean": ("items", lambda g: relay.mean(g.row(), axis=1, keepdims=True)),
    "largest": ("items", lambda g: relay.max(g.row(), axis=1, keepdims=True)),
    "first": ("items", _first),
    "pooled": ("items", lambda g: _scores(g.row())),
    "halved": (
        "items",
        lambda g: relay.mean(convolution(g.row(), strides=(2,)), axis=1, keepdims=True),
    ),
    "item dense": ("items", lambda g: relay.nn.dense(g.pick(g.items), weights(8, 8))),
}


def close(found: Any, wanted: Any) -> bool:
    """Whether a result is equal within the tolerance."""
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= TOLERANCE * scale)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graphs_equal_items_one_by_one(seed: int) -> None:
    graph = Graph(seed)
    plain = tvm_disc.build(graph.module)
    exe = tvm_disc.build(graph.module, ragged={"x": 1, "y": 1}, options=Options(verify=True))
    for lengths in BATCHES:
        others = graph.rng.permutation(lengths).astype(int)
        given = pack(lengths, graph.rng, 8), pack(others, graph.rng, 8)
        found, items = exe(*given)
        assert isinstance(found, Ragged)
        for k, (x, y) in enumerate(zip(*given, strict=True)):
            wanted, item = plain(x[None], y[None])
            what = f"seed {seed}: {graph.names}, lengths {lengths}, item {k}"
            assert close(found[k], wanted[0]), what
            assert close(items[k], item[0]), what
