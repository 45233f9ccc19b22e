"""``relay.build_module``: where older scripts find ``build`` and ``create_executor``."""

from __future__ import annotations

from tvm_disc.executors.evaluate import Executor, create_executor
from tvm_disc.executors.factory import build
from tvm_disc.executors.graph import load_module
from tvm_disc.executors.vm import VMExecutor

__all__ = ["Executor", "VMExecutor", "build", "create_executor", "load_module"]
