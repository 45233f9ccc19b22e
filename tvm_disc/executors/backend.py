"""``relay.backend``: the paths at which Relay's scripts find executors."""

from __future__ import annotations

from types import SimpleNamespace

from tvm_disc.executors import factory as executor_factory
from tvm_disc.executors import te_compiler, vm
from tvm_disc.executors.evaluate import Executor as Evaluator
from tvm_disc.executors.factory import Executor, Runtime
from tvm_disc.executors.values import ADT, ConstructorValue

interpreter = SimpleNamespace(ADT=ADT, ConstructorValue=ConstructorValue, Executor=Evaluator)

__all__ = ["Executor", "Runtime", "executor_factory", "interpreter", "te_compiler", "vm"]
