"""``relay.backend``: names under which Relay scripts import executors."""

from __future__ import annotations

from tvm_disc.relay_api.executors import factory as executor_factory
from tvm_disc.relay_api.executors import interpreter, te_compiler, vm
from tvm_disc.relay_api.executors.factory import Executor, Runtime

__path__: list[str] = []  # for imports of relay.backend.vm, which tvm_disc.paths resolves

__all__ = ["Executor", "Runtime", "executor_factory", "interpreter", "te_compiler", "vm"]
