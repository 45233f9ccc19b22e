"""Small Relay programs that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc import relay

TINY = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  %0 = add(%x, %y);
  nn.relu(%0)
}
"""
TREES = """#[version = "0.0.5"]
type Tree { Leaf(Tensor[(4), float32]), Node(Tree, Tree), }
def @total(%t: Tree) -> Tensor[(4), float32] {
  match (%t) {
    Leaf(%x) => tanh(%x),
    Node(%l, %r) => add(@total(%l), @total(%r)),
  }
}
def @main(%t: Tree, %y: Tensor[(?), float32]) {
  (@total(%t), exp(%y))
}
"""


def rows(*dims: Any, name: str = "x", dtype: str = "float32") -> Any:
    """An input; ``?`` is an anonymous dim, another string a named one."""
    shape = [relay.Any() if d == "?" else relay.Any(d) if isinstance(d, str) else d for d in dims]
    return relay.var(name, shape=tuple(shape), dtype=dtype)


def function(*args: Any) -> Any:
    """``function(input, ..., body)`` as a module."""
    *params, body = args
    return relay.IRModule.from_expr(relay.Function(list(params), body))


def mlp(hidden: int = 24) -> Any:
    """dense, bias, relu, dense, softmax over ``[?, 16]``."""
    rng = np.random.default_rng(0)
    x = rows("?", 16)
    w1 = relay.const(rng.standard_normal((hidden, 16)).astype("float32"))
    b1 = relay.const(rng.standard_normal(hidden).astype("float32"))
    w2 = relay.const(rng.standard_normal((10, hidden)).astype("float32"))
    h = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w1), b1))
    return function(x, relay.nn.softmax(relay.nn.dense(h, w2)))


def mlp_reference(x: np.ndarray, hidden: int = 24) -> np.ndarray:
    """What :func:`mlp` computes, in float64."""
    rng = np.random.default_rng(0)
    w1 = rng.standard_normal((hidden, 16)).astype("float32").astype("float64")
    b1 = rng.standard_normal(hidden).astype("float32")
    w2 = rng.standard_normal((10, hidden)).astype("float32")
    y = np.maximum(x @ w1.T + b1, 0) @ w2.T
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def load(path: Path) -> relay.IRModule:
    """A recorded module in text or JSON."""
    text = path.read_text()
    return relay.load_json(text) if path.suffix == ".json" else relay.parse(text)
