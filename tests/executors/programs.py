"""Modules that several tests of executors run."""

from __future__ import annotations

import numpy as np

from tvm_disc import relay

W = np.arange(12, dtype="float32").reshape(4, 3)


def dense() -> relay.IRModule:
    """``(x @ w.T, (x,))`` of any number of rows."""
    x, w = relay.var("x", shape=(relay.Any(), 3)), relay.var("w", shape=(4, 3))
    return relay.IRModule.from_expr(
        relay.Function([x, w], relay.Tuple([relay.nn.dense(x, w), relay.Tuple([x])]))
    )


def rows(n: int) -> np.ndarray:
    """An input of so many rows."""
    return np.linspace(-1, 1, 3 * n, dtype="float32").reshape(n, 3)


NUMBERS = """
#[version = "0.0.5"]
type Nat { Zero, Next(Nat), }
type Box[A] { Pair(A, A), Nothing, }
def @main(%n: Nat) -> Nat { match (%n) { Zero => { %n }, Next(%m) => { @main(%m) }, } }
def @twice(%n: Nat) -> Nat { Next(Next(%n)) }
def @half(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { multiply(%x, 0.5f) }
"""


def numbers() -> relay.IRModule:
    """A module with data types and functions beside ``main``."""
    return relay.parse(NUMBERS.lstrip())
