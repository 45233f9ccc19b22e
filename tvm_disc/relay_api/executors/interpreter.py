"""``relay.backend.interpreter``: classes of the values that an evaluation returns."""

from __future__ import annotations

from tvm_disc.relay_api.executors.evaluate import Executor
from tvm_disc.relay_api.executors.values import ADT, ConstructorValue


class RefValue:
    """A reference. A program never returns one: references exist only inside of a program."""


__all__ = ["ADT", "ConstructorValue", "Executor", "RefValue"]
