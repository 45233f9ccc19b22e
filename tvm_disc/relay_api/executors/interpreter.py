"""``relay.backend.interpreter``: types of values of evaluated expressions."""

from __future__ import annotations

from tvm_disc.relay_api.executors.evaluate import Executor
from tvm_disc.relay_api.executors.values import ADT, ConstructorValue


class RefValue:
    """A reference. No result has this type: references exist only inside of a program."""


__all__ = ["ADT", "ConstructorValue", "Executor", "RefValue"]
