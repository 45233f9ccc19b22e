"""``relay.backend.interpreter``: the values that evaluated expressions have."""

from __future__ import annotations

from tvm_disc.executors.evaluate import Executor
from tvm_disc.executors.values import ADT, ConstructorValue


class RefValue:
    """A reference; no result is one: references mean something inside of a program only."""


__all__ = ["ADT", "ConstructorValue", "Executor", "RefValue"]
