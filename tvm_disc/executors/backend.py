"""``relay.backend``: names under which Relay scripts import executors."""

from __future__ import annotations

from tvm_disc.executors import factory as executor_factory
from tvm_disc.executors import interpreter, te_compiler, vm
from tvm_disc.executors.factory import Executor, Runtime

__all__ = ["Executor", "Runtime", "executor_factory", "interpreter", "te_compiler", "vm"]
